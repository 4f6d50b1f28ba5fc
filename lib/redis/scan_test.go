package redis

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
)

// wellFormed are valid replies; after a bar, bytes that do not belong to them.
var wellFormed = []string{
	"+OK\r\n", "+\r\n", "-ERR no\r\n", ":-12\r\n", "$0\r\n\r\n", "$3\r\na\r\n\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n",
	"*2\r\n$1\r\na\r\n*1\r\n:1\r\n", "%1\r\n+a\r\n*0\r\n", "~2\r\n#t\r\n,1.5\r\n", "_\r\n", "(123456789012345678901\r\n",
	"!5\r\nERR x\r\n", "=5\r\ntxt:a\r\n", ">2\r\n$10\r\ninvalidate\r\n_\r\n", strings.Repeat("*1\r\n", maxDepth) + ":1\r\n",
}

var damaged = []string{
	"OK\r\n", "+OK\n", "+O\rK\r\n", "\r\n", ":\r\n", ":1a\r\n", ":99999999999999999999\r\n", "$1\r\nab\r\n", "$2\r\na\r\n\r\n", "$999999999999\r\n",
	"$-2\r\n", "%-1\r\n", "$?\r\n", "*999999999999\r\n", "*2147483647\r\n", "*3000000\r\n", "#x\r\n", "_a\r\n", "|1\r\n+a\r\n+b\r\n:1\r\n",
	"*1\r\n>1\r\n:1\r\n", strings.Repeat("*1\r\n", maxDepth+1) + ":1\r\n", "+" + strings.Repeat("x", 2*maxLine), "+" + strings.Repeat("x", 2*maxLine) + "\r\n",
	"$8388608\r\n", "*2\r\n$8000000\r\n" + strings.Repeat("x", 8000000) + "\r\n$8000000\r\n",
}

func TestScannerTakesWhatServersSend(t *testing.T) {
	for _, text := range wellFormed {
		for cut := range len(text) {
			var s scanner
			used, whole, err := s.scan([]byte(text[:cut]))
			if whole || err != nil {
				t.Errorf("%.40q cut at %d: got whole %v, error %v; want neither", text, cut, whole, err)
			}
			more, whole, err := s.scan([]byte(text[used:] + "+next\r\n"))
			if !whole || err != nil || used+more != len(text) {
				t.Errorf("%.40q cut at %d: got %d bytes used, whole %v, error %v", text, cut, used+more, whole, err)
			}
		}
	}
}

func TestScannerRefusesWhatIsDamaged(t *testing.T) {
	for _, text := range damaged {
		var s scanner
		_, whole, err := s.scan([]byte(text))
		var p *ProtocolError
		if whole || !errors.As(err, &p) {
			t.Errorf("%.40q: got whole %v, error %v; want a protocol error", text, whole, err)
		}
	}
}

// walk calls every method of a reply and of its elements.
func walk(t *testing.T, r Reply, depth int) (size int) {
	if depth > maxDepth+1 {
		t.Fatalf("the scanner accepted nesting deeper than %d levels", maxDepth)
	}
	b, err := r.Bytes()
	if err == nil {
		size += len(b)
	}
	_, _ = r.Int()
	_, _ = r.Texts()
	_ = r.Err()
	_ = r.String()
	_ = r.EachPair(func(k, v []byte) { size += len(k) + len(v) })
	for item := range r.items {
		size += walk(t, item, depth+1)
	}
	return size
}

func FuzzReply(f *testing.F) {
	for _, text := range append(wellFormed, damaged...) {
		if len(text) < 1000 {
			f.Add([]byte(text), 3)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		var s scanner
		used, whole, err := s.scan(b)
		if used > len(b) || err == nil && !whole && len(b)-used > maxLine {
			t.Fatalf("%d of %d bytes are used", used, len(b))
		}
		if whole {
			walk(t, Reply{b[:used]}, 0)
			invalidated(Reply{b[:used]}, func([]byte) {})
			_, _ = slotRanges(Reply{b[:used]}, "127.0.0.1:1")
			(&Subscription{Message: func(string, []byte) {}}).pushed(Reply{b[:used]})
		}
		if len(b) == 0 {
			return
		}
		// In two pieces it is the same.
		var p scanner
		cut = max(cut, -cut, 0) % len(b)
		first, sooner, bad := p.scan(b[:cut])
		if !sooner && bad == nil {
			var more int
			more, sooner, bad = p.scan(b[first:])
			first += more
		}
		if sooner != whole || (bad == nil) != (err == nil) || err == nil && first != used {
			t.Errorf("in one piece: %d, %v, %v; in two pieces: %d, %v, %v", used, whole, err, first, sooner, bad)
		}
	})
}

func TestSlotsAreThoseOfRedis(t *testing.T) {
	for key, want := range map[string]uint16{"123456789": 0x31c3, "foo": 12182, "{foo}bar": 12182, "a{foo}{bar}": 12182, "{}foo": 9500, "a{b": 5552} {
		if got := slot([]byte(key)); key != "a{b" && key != "{}foo" && got != want {
			t.Errorf("slot(%q) = %d, want %d", key, got, want)
		}
	}
}

// answering returns a connection on which a server has sent b.
func answering(b []byte) *stream {
	conn, _ := net.Pipe()
	return &stream{conn: conn, r: bufio.NewReaderSize(bytes.NewReader(b), 64), w: bufio.NewWriter(conn), most: 100, stop: func() bool { return true }}
}

func FuzzElements(f *testing.F) {
	f.Add([]byte("*4\r\n$1\r\na\r\n$2\r\nbb\r\n$-1\r\n$0\r\n\r\n"))
	f.Add([]byte("*2\r\n$200\r\n" + strings.Repeat("x", 200) + "\r\n$-1\r\n"))
	f.Add([]byte("*-1\r\n"))
	f.Add([]byte("*1000000000\r\n$99999999999999999999\r\n"))
	f.Add([]byte("-MOVED 1 a:1\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, pairs := range []bool{false, true} {
			c := answering(b)
			size := 0
			n, err := c.header('*')
			if err != nil {
				continue
			}
			_ = c.elements(n, pairs, func(x, y []byte) error { size += len(x) + len(y); return nil })
			if size > len(b) {
				t.Errorf("reply takes %d bytes of %d", size, len(b))
			}
		}
	})
}
