package exchange

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"shuultuur/content/conversation"
	"shuultuur/filter"
)

// FuzzTalk passes bytes in pieces through each protocol: messages that are not
// refused come out unchanged, and none stays held.
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
		framer := [...]conversation.Framer{&conversation.Events{}, &conversation.WebSocket{Deflate: true}, &conversation.GRPC{}, &conversation.GRPC{Base64: true}, &conversation.Lines{}}[protocol%5]
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
			t.Errorf("Pass(%q) forwarded %q, over %v", data, out, over)
		}
		k.AppendEnd(nil, k)
		k.Close()
		if n := i.Held(); n != 0 {
			t.Errorf("%d bytes are still held after Close", n)
		}
	})
}

// A message that the end of a stream cuts off is judged like a complete one.
func TestAnIncompleteMessageIsJudged(t *testing.T) {
	for _, in := range []string{"data: a bad one", ": a bad one\n", "<p>a bad one", "id: 1\ndata: a bad one\n", "data: x\n\nfoo\n\n bad \r"} {
		x, _ := begin(t, Config{HeldTotal: 4 << 20}, decider{decide: func(x *filter.Transaction, _ filter.Stage) filter.Verdict {
			if text, _ := x.Body.Text(); strings.Contains(string(text), " bad ") {
				return filter.Verdict{Action: filter.Block}
			}
			return filter.Verdict{}
		}})
		k := x.Talk(filter.ResponseBody, Events, &conversation.Events{}, nil)
		out, over := k.Pass(t.Context(), nil, []byte(in))
		if !over {
			out, over = k.End(t.Context(), out)
		}
		if !over || bytes.Contains(out, []byte("bad")) {
			t.Errorf("stream %q: forwarded %q, over %v; want the bad message refused", in, out, over)
		}
		k.Close()
	}
}

// A message that is larger than the room for held bytes is judged in parts, and
// one that cannot be read in parts is unread before any of it passes.
func TestALargeMessageIsJudgedInParts(t *testing.T) {
	decide := func(x *filter.Transaction, _ filter.Stage) filter.Verdict {
		text, _ := x.Body.Text()
		if strings.Contains(string(text), " bad ") || len(x.Findings) > 0 && x.Findings[0].Category == filter.Unread {
			return filter.Verdict{Action: filter.Block}
		}
		return filter.Verdict{}
	}
	good := strings.Repeat("good ", 600_000) // 3 MB
	frame := func(first byte, s string) []byte {
		return append(binary.BigEndian.AppendUint64([]byte{first, 127}, uint64(len(s))), s...)
	}
	for name, c := range map[string]struct {
		in   []byte
		most int // of it that passes; 0 for all
	}{
		"good":              {frame(0x81, good), 0},
		"bad at its end":    {frame(0x81, good+" bad "), len(good)},
		"bad at two thirds": {frame(0x81, good[:2_000_000]+" bad "+good), 2_000_000},
		"bad between parts": {frame(0x81, good[:mostMessage-4]+"\nbad "+good), mostMessage + 64<<10},
		"compressed":        {frame(0xC1, good), 1},
	} {
		x, i := begin(t, Config{HeldTotal: 8 << 20}, decider{decide: decide})
		k := x.Talk(filter.ResponseBody, Socket, &conversation.WebSocket{Deflate: true}, nil)
		var out []byte
		over := false
		for rest := c.in; len(rest) > 0 && !over; {
			n := min(len(rest), 16<<10)
			out, over = k.Pass(t.Context(), out, rest[:n])
			rest = rest[n:]
		}
		if !bytes.HasPrefix(c.in, out) || over != (c.most > 0) || c.most > 0 && len(out) > c.most {
			t.Errorf("%s: forwarded %d of %d bytes, over %v", name, len(out), len(c.in), over)
		}
		k.Close()
		if n := i.Held(); n != 0 {
			t.Errorf("%s: %d bytes are still held after Close", name, n)
		}
	}
}
