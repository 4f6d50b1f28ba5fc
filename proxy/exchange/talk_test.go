package exchange

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"shuultuur/content/conversation"
	"shuultuur/filter"
	"shuultuur/lib/message"
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

// TestABrokenWebSocketIsClosedWithItsReason: for what its peer does, not for the policy, and what came
// before passes. What a message may have stays.
func TestABrokenWebSocketIsClosedWithItsReason(t *testing.T) {
	frame := func(first byte, payload string) string {
		return string(append([]byte{first, byte(len(payload))}, payload...))
	}
	for _, tt := range []struct {
		name, in, out string
		status        uint16 // 0: it goes on
		why           string
	}{
		{"good", frame(0x81, "hello"), frame(0x81, "hello"), 0, ""},
		{"empty", frame(0x81, ""), frame(0x81, ""), 0, ""},
		{"fragments with a ping between", frame(0x01, "he") + frame(0x89, "") + frame(0x80, "llo"), frame(0x01, "he") + frame(0x89, "") + frame(0x80, "llo"), 0, ""},
		{"binary that is no text", frame(0x82, "\xff\xfe"), frame(0x82, "\xff\xfe"), 0, ""},
		{"a character in two fragments", frame(0x01, "\xc3") + frame(0x80, "\xa9"), frame(0x01, "\xc3") + frame(0x80, "\xa9"), 0, ""},
		{"a reserved bit", frame(0x81, "a") + frame(0xA1, "b"), frame(0x81, "a"), 1002, "reserved bit"},
		{"compression that was not agreed on", frame(0xC1, "b"), "", 1002, "reserved bit"},
		{"a reserved opcode", frame(0x83, "b"), "", 1002, "opcode"},
		{"a reserved control opcode", frame(0x8B, "b"), "", 1002, "control frame"},
		{"a fragmented ping", frame(0x09, "b"), "", 1002, "control frame"},
		{"a long ping", "\x89\x7e\x00\x7e" + strings.Repeat("x", 126), "", 1002, "control frame"},
		{"a continuation of nothing", frame(0x80, "b"), "", 1002, "fragments"},
		{"a message within another", frame(0x01, "a") + frame(0x81, "b"), "", 1002, "fragments"},
		{"an impossible length", "\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff", "", 1002, "length"},
		{"text that is not UTF-8", frame(0x81, "a\xff"), "", 1007, "UTF-8"},
		{"text that ends within a character", frame(0x01, "a") + frame(0x80, "\xc3"), "", 1007, "UTF-8"},
		{"a surrogate", frame(0x81, "\xed\xa0\x80"), "", 1007, "UTF-8"},
		{"text that goes wrong before its end", frame(0x81, "a") + frame(0x01, "a\xf4\x90"), frame(0x81, "a"), 1007, "UTF-8"},
		{"text that goes wrong in the next part", frame(0x01, "\xf4") + frame(0x00, "\x90"), "", 1007, "UTF-8"},
		{"text that goes wrong within a frame", "\x81\x7f\x00\x00\x00\x00\x00\x20\x00\x00abc\xff", "", 1007, "UTF-8"},
		{"characters in parts", frame(0x01, "\xf0\x9f") + frame(0x00, "") + frame(0x00, "\x98") + frame(0x80, "\x80\xe2\x82\xac"), frame(0x01, "\xf0\x9f") + frame(0x00, "") + frame(0x00, "\x98") + frame(0x80, "\x80\xe2\x82\xac"), 0, ""},
		{"a ping within a character", frame(0x01, "\xc3") + frame(0x89, "\xff") + frame(0x80, "\xa9"), frame(0x01, "\xc3") + frame(0x89, "\xff") + frame(0x80, "\xa9"), 0, ""},
	} {
		for _, step := range []int{1, 1 << 20} {
			x, _ := begin(t, Config{HeldTotal: 4 << 20}, decider{decide: func(*filter.Transaction, filter.Stage) filter.Verdict { return filter.Verdict{} }})
			k := x.Talk(filter.ResponseBody, Socket, &conversation.WebSocket{}, nil)
			var out []byte
			over := false
			for rest := tt.in; rest != "" && !over; {
				n := min(len(rest), step)
				out, over = k.Pass(t.Context(), out, []byte(rest[:n]))
				rest = rest[n:]
			}
			if string(out) != tt.out || over != (tt.status > 0) {
				t.Errorf("%s: forwarded %q, over %v; want %q", tt.name, out, over, tt.out)
			}
			if tt.status > 0 {
				end := k.AppendEnd(nil, k)
				if len(end) < 4 || end[0] != 0x88 || binary.BigEndian.Uint16(end[2:]) != tt.status || !strings.Contains(string(end[4:]), tt.why) || strings.Contains(string(end), "policy") {
					t.Errorf("%s: ends with %q, want status %d and %q", tt.name, end, tt.status, tt.why)
				}
			}
			k.Close()
		}
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

// TestWhatIsBesideMessagesIsJudged: the reason of a close, what a ping carries and the names of
// subprotocols.
func TestWhatIsBesideMessagesIsJudged(t *testing.T) {
	for name, c := range map[string]struct {
		names, in string
		over      bool
	}{
		"close":                        {"", "\x88\x07\x03\xe8 bad ", true},
		"ping":                         {"", "\x89\x05 bad ", true},
		"ping in a message":            {"", "\x01\x02he\x89\x05 bad ", true},
		"harmless":                     {"", "\x89\x05hello\x88\x02\x03\xe8", false},
		"subprotocol":                  {"chat, a.bad.one", "\x81\x05hello", true},
		"harmless subprotocol":         {"chat", "\x81\x05hello", false},
		"subprotocol, without message": {"chat, a.bad.one", "", false},
	} {
		x, _ := begin(t, Config{HeldTotal: 4 << 20}, decider{decide: func(x *filter.Transaction, _ filter.Stage) filter.Verdict {
			if text, _ := x.Upload.Text(); strings.Contains(string(text), " bad ") {
				return filter.Verdict{Action: filter.Block}
			}
			return filter.Verdict{}
		}})
		k := x.Talk(filter.RequestBody, Socket, &conversation.WebSocket{}, nil)
		k.begin(message.Fields{{Name: []byte("Sec-WebSocket-Protocol"), Value: []byte(c.names)}})
		out, over := k.Pass(t.Context(), nil, []byte(c.in))
		if over != c.over || !over && string(out) != c.in || over && strings.Contains(string(out), "bad") {
			t.Errorf("%s: forwarded %q, over %v; want over %v", name, out, over, c.over)
		}
		k.Close()
	}
}

// TestConnectionsInMessagesAreFindings: a rule may refuse them, before anything of them passes.
func TestConnectionsInMessagesAreFindings(t *testing.T) {
	for _, block := range []bool{true, false} {
		var found []filter.Finding
		x, _ := begin(t, Config{HeldTotal: 4 << 20}, decider{decide: func(x *filter.Transaction, _ filter.Stage) filter.Verdict {
			if found = append(found, x.Findings...); block && len(x.Findings) > 0 {
				return filter.Verdict{Action: filter.Block}
			}
			return filter.Verdict{}
		}})
		k := x.Talk(filter.RequestBody, Socket, &conversation.WebSocket{}, nil)
		in := "\x82\x13\x01\x05\x00\x00\x00\x01\xbb\x01bad.example"
		out, over := k.Pass(t.Context(), nil, []byte(in))
		if over != block || !block && string(out) != in || block && len(out) > 0 {
			t.Errorf("block %v: forwarded %q, over %v", block, out, over)
		}
		if len(found) != 1 || found[0].Check != "around" || found[0].Category != "wisp" || !strings.Contains(found[0].Evidence, "bad.example") {
			t.Errorf("block %v: found %+v, want around/wisp", block, found)
		}
		k.Close()
	}
}

// TestMessagesThatArriveTogetherAreJudgedTogether: many cost little more than one, and what passes and what
// is recorded is the same as if each had come alone.
func TestMessagesThatArriveTogetherAreJudgedTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	judged, ended, replace := 0, 0, false
	x, i := begin(t, Config{HeldTotal: 4 << 20}, decider{decide: func(x *filter.Transaction, _ filter.Stage) filter.Verdict {
		judged++
		text, _ := x.Body.Text()
		if strings.Contains(string(text), " odd ") {
			x.Monitored = append(x.Monitored[:0], filter.Reason{Rule: "odd"})
		}
		if strings.Contains(string(text), " bad ") || len(x.Findings) > 0 {
			return filter.Verdict{Action: filter.Block, Replace: replace}
		}
		return filter.Verdict{}
	}})
	for round := range 300 {
		replace = round%4 < 2
		words := []string{"good ", "ferry ", "island ", "the ferry leaves at nine and comes back for supper "}
		if round > 0 {
			words = append(words, " odd ", " bad ", "\nbad ", "ba", "d ", "od")
		}
		said := make([]string, r.IntN(40))
		if round == 0 {
			said = make([]string, 1000)
		}
		protocol, frame := [...]Protocol{Events, Socket}[round%2], func(s string) string { return "data: " + s + "\n\n" }
		newFramer := func() conversation.Framer { return &conversation.Events{} }
		if protocol == Socket {
			frame = func(s string) string { return string([]byte{0x81, byte(len(s))}) + s }
			newFramer = func() conversation.Framer { return &conversation.WebSocket{} }
		}
		for i := range said {
			s := words[r.IntN(len(words))]
			if round%3 == 2 { // each of many members has a text of its own
				s = fmt.Sprintf(`{"k%d":"%s"}`, r.IntN(40), strings.TrimSpace(s))
			}
			if said[i] = frame(s); round > 0 && r.IntN(12) == 0 {
				switch protocol {
				case Events:
					said[i] = ": " + s + "\n"
				case Socket:
					said[i] = string([]byte{[]byte{0x89, 0x01, 0x80, 0x88}[r.IntN(4)], byte(len(s))}) + s
				}
			}
		}
		run := func(pieces []string) (out []byte, over bool, records []string) {
			for _, c := range [...]int{messages, messagesRefused, messagesReplaced} {
				i.counters[c].Store(0)
			}
			k := x.Talk(filter.ResponseBody, protocol, newFramer(), func(t *filter.Transaction) {
				records = append(records, fmt.Sprint(t.Verdict.Action, t.Monitored, t.Looked))
			})
			for _, p := range pieces {
				if !over {
					out, over = k.Pass(t.Context(), out, []byte(p))
				}
			}
			k.Close()
			return out, over, append(records, fmt.Sprint(k.looked, i.counters[messages].Load(), i.counters[messagesRefused].Load(), i.counters[messagesReplaced].Load()))
		}
		alone, aloneOver, aloneRecords := run(said)
		judged = 0
		together, over, records := run([]string{strings.Join(said, "")})
		if round == 0 && judged > 20 {
			t.Errorf("1000 messages at once were judged %d times", judged)
		}
		if !bytes.Equal(alone, together) || aloneOver != over || !slices.Equal(records, aloneRecords) {
			t.Fatalf("%q, protocol %d, replace %v: one by one %q, over %v, %q; at once %q, over %v, %q", said, protocol, replace, alone, aloneOver, aloneRecords, together, over, records)
		}
		if over {
			ended++
		}
	}
	if ended < 20 || ended > 280 {
		t.Errorf("%d of 300 conversations were ended", ended)
	}
}
