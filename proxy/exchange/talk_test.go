package exchange

import (
	"bytes"
	"strings"
	"testing"

	"shuultuur/content"
	"shuultuur/filter"
)

// FuzzTalk passes bytes in pieces through each protocol: what is not refused
// comes out as it came, and nothing stays held.
func FuzzTalk(f *testing.F) {
	f.Add(uint8(0), uint8(3), []byte("data: hello\n\ndata: a bad one\n\n"))
	f.Add(uint8(0), uint8(9), []byte(": a bad one\ndata: without an end"))
	f.Add(uint8(1), uint8(1), []byte("\x81\x05hello\x01\x02he\x89\x00\x80\x03llo"))
	f.Add(uint8(1), uint8(200), append([]byte("\x81\x7f\x00\x00\x00\x00\x00\x20\x00\x00"), bytes.Repeat([]byte("x"), 1<<16)...))
	f.Add(uint8(2), uint8(2), []byte("\x00\x00\x00\x00\x05hello"))
	f.Add(uint8(3), uint8(7), []byte("AAAAAAVoZWxsbw=="))
	f.Add(uint8(4), uint8(7), []byte("{\"a\":\"ba\"}\n{\"a\":\"d \"}\n{\"a"))
	f.Fuzz(func(t *testing.T, protocol, step uint8, data []byte) {
		x, i := begin(t, Config{HeldTotal: 4 << 20}, decider{decide: func(x *filter.Transaction, _ filter.Stage) filter.Verdict {
			if text, _ := x.Body.Text(); strings.Contains(string(text), " bad ") {
				return filter.Verdict{Action: filter.Block}
			}
			return filter.Verdict{}
		}})
		framer := [...]content.Framer{&content.Events{}, &content.WebSocket{Deflate: true}, &content.GRPC{}, &content.GRPC{Base64: true}, &content.Lines{}}[protocol%5]
		k := x.Talk(filter.ResponseBody, [...]Protocol{Events, Socket, GRPC, GRPCWeb, Lines}[protocol%5], framer, nil)
		var out []byte
		over := false
		for rest := data; len(rest) > 0 && !over; {
			n := min(len(rest), int(step)+1)
			out, over = k.Pass(t.Context(), out, rest[:n])
			rest = rest[n:]
		}
		if !over {
			out, over = k.End(t.Context(), out)
		}
		if !bytes.HasPrefix(data, out) || !over && len(out) != len(data) {
			t.Errorf("%q came out as %q, over %v", data, out, over)
		}
		k.Last(nil, k)
		k.Close()
		if n := i.Held(); n != 0 {
			t.Errorf("%d bytes held", n)
		}
	})
}

// What the end of a stream breaks off is judged like what it does not.
func TestTalkJudgesWhatIsBrokenOff(t *testing.T) {
	for _, in := range []string{"data: a bad one", ": a bad one\n", "<p>a bad one", "id: 1\ndata: a bad one\n", "data: x\n\nfoo\n\n bad \r"} {
		x, _ := begin(t, Config{HeldTotal: 4 << 20}, decider{decide: func(x *filter.Transaction, _ filter.Stage) filter.Verdict {
			if text, _ := x.Body.Text(); strings.Contains(string(text), " bad ") {
				return filter.Verdict{Action: filter.Block}
			}
			return filter.Verdict{}
		}})
		k := x.Talk(filter.ResponseBody, Events, &content.Events{}, nil)
		out, over := k.Pass(t.Context(), nil, []byte(in))
		if !over {
			out, over = k.End(t.Context(), out)
		}
		if !over || bytes.Contains(out, []byte("bad")) {
			t.Errorf("%q: %q passed, over %v", in, out, over)
		}
		k.Close()
	}
}
