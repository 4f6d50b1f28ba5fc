package capture

import (
	"bytes"
	"testing"
)

// FuzzReassembly cuts a stream into segments that overlap and come in any order,
// and compares the result with the stream. Each pair of bytes of plan is a
// segment: where it begins and how long it is.
func FuzzReassembly(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), []byte{0, 5, 10, 8, 5, 5})
	f.Add([]byte("abcdefgh"), []byte{4, 4, 0, 8, 2, 3})
	f.Add([]byte("aaaaaaaaaaaaaaaa"), []byte{8, 2, 4, 2, 0, 1, 1, 15})
	f.Fuzz(func(t *testing.T, data, plan []byte) {
		if len(data) == 0 || len(data) > 256 || len(plan) > 256 {
			return
		}
		s := stream{started: true}
		have := make([]bool, len(data))
		var out []byte
		take := func() {
			for {
				b, gap := s.take(1<<62, false)
				if b == nil {
					return
				}
				if gap > 0 {
					t.Fatalf("take skipped a gap of %d bytes unasked", gap)
				}
				out = append(out, b...)
			}
		}
		for i := 0; i+1 < len(plan); i += 2 {
			from := int(plan[i]) % len(data)
			to := min(len(data), from+int(plan[i+1]))
			for k := from; k < to; k++ {
				have[k] = true
			}
			s.add(int64(from), data[from:to:to], true)
			if plan[i]&1 == 0 {
				take()
			}
		}
		take()
		want := 0
		for want < len(have) && have[want] {
			want++
		}
		if !bytes.Equal(out, data[:want]) {
			t.Errorf("the reassembled stream is %q, want %q", out, data[:want])
		}
	})
}

func TestUrgentBytesAreRemoved(t *testing.T) {
	s := stream{started: true}
	s.add(0, []byte("mali"), true)
	s.omit(4)
	s.add(5, []byte("cious"), true)
	var out []byte
	for {
		b, gap := s.take(1<<62, false)
		if b == nil {
			break
		}
		if gap > 0 {
			t.Errorf("take reports a gap of %d bytes, want none", gap)
		}
		out = append(out, b...)
	}
	if string(out) != "malicious" {
		t.Errorf("the reassembled stream is %q, want \"malicious\"", out)
	}
}
