package conversation

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/content"
	"shuultuur/test/race"
	"shuultuur/test/reading"
)

// frame makes a WebSocket frame.
func frame(first byte, mask bool, payload []byte) []byte {
	b := []byte{first}
	bit := byte(0)
	if mask {
		bit = 0x80
	}
	switch n := len(payload); {
	case n < 126:
		b = append(b, bit|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, bit|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, bit|127), uint64(n))
	}
	if !mask {
		return append(b, payload...)
	}
	key := []byte{1, 2, 3, 250}
	b = append(b, key...)
	for i, c := range payload {
		b = append(b, c^key[i%4])
	}
	return b
}

// deflater compresses messages as permessage-deflate does.
type deflater struct {
	w   *flate.Writer
	buf bytes.Buffer
}

func newDeflater() *deflater {
	d := &deflater{}
	d.w, _ = flate.NewWriter(&d.buf, 6)
	return d
}

func (d *deflater) message(p string) []byte {
	d.buf.Reset()
	_, _ = d.w.Write([]byte(p))
	_ = d.w.Flush()
	return bytes.Clone(bytes.TrimSuffix(d.buf.Bytes(), []byte("\x00\x00\xff\xff")))
}

func grpcMessage(flags byte, p []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(p))), p...)
}

// messagesOf frames p in pieces of random size.
func messagesOf(t *testing.T, f Framer, p []byte, r *rand.Rand) (all []string) {
	t.Helper()
	for len(p) > 0 {
		piece := bytes.Clone(p[:1+r.IntN(len(p))])
		p = p[len(piece):]
		for len(piece) > 0 {
			n, m, whole, err := f.Next(piece)
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 && !whole {
				t.Fatalf("Next used none of %d bytes", len(piece))
			}
			piece = piece[n:]
			if whole {
				s := fmt.Sprintf("%v %q", m.Unread, m.Data)
				if m.Control {
					s = "control"
				}
				all = append(all, s)
			}
		}
	}
	return all
}

func TestFraming(t *testing.T) {
	long := strings.Repeat("long message ", 6000)
	d := newDeflater()
	ws := slices.Concat(frame(0x81, true, []byte("one")), frame(0x89, true, []byte("ping")), frame(0x01, true, []byte("tw")), frame(0x8A, true, nil), frame(0x00, true, nil), frame(0x80, true, []byte("o")), frame(0x82, false, []byte(long)), frame(0x81, true, nil), frame(0x88, true, []byte{3, 232}))
	deflated := slices.Concat(frame(0xC1, true, d.message("hello hello hello")), frame(0xC1, true, d.message("hello hello again")), frame(0x81, false, []byte("plain")), frame(0x41, true, d.message(long)[:10]))
	rest := newDeflater()
	fresh := slices.Concat(frame(0xC1, false, rest.message("first")), frame(0xC1, false, newDeflater().message("second first")))
	calls := slices.Concat(grpcMessage(0, []byte("abc")), grpcMessage(0, nil), grpcMessage(1, []byte(reading.Gzip("zipped"))), grpcMessage(0x80, []byte("grpc-status: 0")))
	for _, c := range []struct {
		name string
		make func() Framer
		in   []byte
		want []string
	}{
		{"events", func() Framer { return &Events{} }, []byte("\xEF\xBB\xBFdata: one\n\n: comment\nevent: x\ndata: two\ndata:lines\r\n\r\nid: 4\n\ndata\r\rdata: \"x\"\r\rdata: lost"),
			[]string{` "one"`, ` ""`, " \"two\\nlines\"", ` ""`, ` ""`, ` "\"x\""`}},
		{"websocket", func() Framer { return &WebSocket{} }, ws, []string{` "one"`, "control", "control", ` "two"`, fmt.Sprintf(" %q", long), ` ""`, "control"}},
		{"websocket with takeover", func() Framer { return &WebSocket{Deflate: true, Takeover: true} }, deflated, []string{` "hello hello hello"`, ` "hello hello again"`, ` "plain"`}},
		{"websocket without takeover", func() Framer { return &WebSocket{Deflate: true} }, fresh, []string{` "first"`, ` "second first"`}},
		{"grpc", func() Framer { return &GRPC{Coding: "gzip"} }, calls, []string{` "abc"`, ` ""`, ` "zipped"`, ` "grpc-status: 0"`}},
		{"grpc-web-text", func() Framer { return &GRPC{Coding: "gzip", Base64: true} }, []byte(base64.StdEncoding.EncodeToString(calls[:8]) + base64.StdEncoding.EncodeToString(calls[8:])), []string{` "abc"`, ` ""`, ` "zipped"`, ` "grpc-status: 0"`}},
		{"grpc of unknown coding", func() Framer { return &GRPC{Coding: "snappy"} }, grpcMessage(1, []byte("x")), []string{`unknown coding ""`}},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		for range 200 {
			if got := messagesOf(t, c.make(), c.in, r); !slices.Equal(got, c.want) {
				t.Errorf("%s: got the messages %.300q\nwant %.300q", c.name, got, c.want)
				break
			}
		}
	}
}

func TestMalformedFrames(t *testing.T) {
	for _, p := range [][]byte{{0x83, 0}, {0x80, 0}, {0xC1, 0}, {0x91, 0}, {0x09, 0}, {0x89, 126, 0, 126}, {0x01, 0, 0x81, 0}, {0x81, 127, 255, 0, 0, 0, 0, 0, 0, 0}, {0x8B, 0}} {
		w := &WebSocket{}
		var err error
		for rest := p; len(rest) > 0 && err == nil; {
			var n int
			n, _, _, err = w.Next(rest)
			rest = rest[n:]
		}
		if err == nil {
			t.Errorf("the malformed bytes %x were accepted", p)
		}
	}
	for name, tt := range map[string]struct {
		f    func() Framer
		text string
		ok   bool
	}{
		"events":                 {func() Framer { return &Events{} }, "data: a\x1b[31m\f\t\r\ndata: b\r\n\r\n", true},
		"events in UTF-16":       {func() Framer { return &Events{} }, "d\x00a\x00:\x00a\x00\n\x00\n\x00", true},
		"lines in UTF-16":        {func() Framer { return &Lines{} }, "\x00{\x00}\x00\n", true},
		"events, a tape":         {func() Framer { return &Events{} }, "name\x00\x00", false},
		"events, a program":      {func() Framer { return &Events{} }, "\x7fELF\x02\x01\x01\x00", false},
		"events, then a program": {func() Framer { return &Events{} }, "data: a\n\nMZ\x90\x00\x03", false},
		"lines":                  {func() Framer { return &Lines{} }, "{\"a\":1}\r\n\n[\t]\n", true},
		"lines, an archive":      {func() Framer { return &Lines{} }, "PK\x03\x04", false},
		"lines, then an archive": {func() Framer { return &Lines{} }, "{}\nPK\x03\x04", false},
		"gRPC":                   {func() Framer { return &GRPC{} }, "\x00\x00\x00\x00\x02hi", true},
		"gRPC, a program":        {func() Framer { return &GRPC{} }, "MZ\x90\x00\x03", false},
	} {
		for size := 1; size <= len(tt.text); size++ {
			f, ok := tt.f(), true
			for rest := tt.text; rest != "" && ok; {
				n, _, _, err := f.Next([]byte(rest[:min(size, len(rest))]))
				rest, ok = rest[n:], err == nil
			}
			if ok != tt.ok {
				t.Errorf("%s, in pieces of %d bytes: accepted %t, want %t", name, size, ok, tt.ok)
				break
			}
		}
	}
}

func TestWindowText(t *testing.T) {
	proto := func(fields ...any) (b []byte) {
		for i := 0; i < len(fields); i += 2 {
			switch v := fields[i+1].(type) {
			case string:
				b = append(binary.AppendUvarint(append(b, byte(fields[i].(int)<<3|2)), uint64(len(v))), v...)
			case int:
				b = binary.AppendUvarint(append(b, byte(fields[i].(int)<<3)), uint64(v))
			}
		}
		return b
	}
	for _, c := range []struct {
		name     string
		messages []string
		want     string
	}{
		{"plain text", []string{"a first long sentence in plain text", "a second sentence, as long as that"}, " a first long sentence in plain text a second sentence as long as that texta "},
		{"pieces of words", []string{`{"choices":[{"delta":{"content":"ca"}}]}`, `{"choices":[{"delta":{"content":"si"}}]}`, `{"choices":[{"delta":{"content":"no bo"}}]}`, `{"choices":[{"delta":{"content":"nus"}}]}`, "[DONE]"}, " casino bonus choices delta content "},
		{"long pieces that end within a word", []string{`{"d":"This place is the best online casi"}`, `{"d":"no of all, and here is why that is"}`}, " this place is the best online casi no of all and here is why that is d casino "},
		{"short messages", []string{"hi", "casino", "ok"}, " hicasinook ok "},
		{"markup", []string{"<b>ca</b>sino &amp; b&#111;nus<br>"}, " casino bonus "},
		{"markup within JSON", []string{`{"html":"<b>ca<\/b>sino<br>"}`}, " casino html "},
		{"what only looks like markup", []string{"casino <b bonus & more; 1 < 2 &c. <casino>"}, " casino b bonus more 1 2 c casino "},
		{"base64", []string{base64.StdEncoding.EncodeToString([]byte("<p>so the casino is here</p>")), "casinocasinocasino1"}, " so the casino is here casinocasinocasino1 "},
		{"binary of gzip", []string{string(reading.Gzip(`{"text":"a casino"}`))}, " a casino text "},
		{"binary of UTF-16", []string{reading.UTF16("the casino", false, false), reading.UTF16("the casino", true, false)}, " the casinothe casino the casino "},
		{"JSON within JSON", []string{`{"m":"{\"text\":\"in\\u0073ide\\n\"}"}`}, " inside m text "},
		{"array with a number before", []string{`42["message",{"body":"chat text"}]`}, " message chat text body "},
		{"guard", []string{")]}'\n[\"x\"]"}, " x "},
		{"what stands in each message", []string{`{"model":"ferry-1","d":"ha"}`, `{"model":"ferry-1","d":"ha"}`, `{"model":"ferry-1","d":"ha"}`, `{"model":"ferry-1","d":"ha"}`, `{"model":"ferry-1","d":"ha"}`, `{"model":"other","d":"!"}`, `{"model":"ferry-1","d":"."}`}, " ferry 1ferry 1ferry 1otherferry 1 hahahahaha model d ferry 1 "},
		{"surrogates", []string{`"\ud835\udcfc\u00e9"`}, " sé "},
		{"not quite JSON", []string{`{"a":"b"`}, " b a b a "},
		{"protobuf", []string{string(proto(1, 150, 2, "some text", 3, string(proto(1, "inner", 2, "\x00\x01", 4, string(proto(9, "deep")))), 5, `{"j":"json"}`))}, " some text inner deep json j "},
		{"binary", []string{"\x00\xff\xfe"}, " "},
		{"codes of characters", []string{`{"m":[99,97,115,105,110,111]}`}, " casino m "},
		{"codes in an object", []string{`{"m":{"0":99,"1":97,"2":115,"3":105,"4":110,"5":111}}`}, " casino m 0 1 2 3 4 5 "},
		{"codes within more", []string{`["x",{"a":{"b":[112,111,107,101,114]}}]`}, " x poker a b "},
		{"numbers that are no codes", []string{`{"m":[1,2,3,4,5,6],"n":[9e5,1.5,-3,70],"o":[65,66],"p":[],"q":[65,1,2,3,4,5,6,7,8,9,10]}`}, " m n o p q "},
	} {
		var w Window
		for _, m := range c.messages {
			w.Trim()
			w.Add(Message{Text: c.name != "protobuf" && !strings.HasPrefix(c.name, "binary"), Data: []byte(m)})
		}
		if got := string(w.AppendText(nil)); got != c.want {
			t.Errorf("%s: the window has the text %q, want %q", c.name, got, c.want)
		}
		var b content.Body
		var read reading.Collector
		b.ResetText([]byte(c.want))
		b.Follow(&read)
		if err := b.Read(t.Context()); err != nil || string(read.All) != c.want {
			t.Errorf("%s: the follower read %q, %v", c.name, read.All, err)
		}
		b.Release()
	}
}

func TestWindowsAreBounded(t *testing.T) {
	var w Window
	for i := range 5000 {
		w.Add(Message{Text: true, Data: fmt.Appendf(nil, `{"k%d":"%s"}`, i%100, strings.Repeat("word ", i%500))})
		w.Trim()
	}
	if n := len(w.AppendText(nil)); n > mostThreads*threadLen+100 {
		t.Errorf("the window keeps %d bytes of text", n)
	}
}

// TestTextIsKeptUntilItIsInspected: of a message with more members than there are threads, and of more
// messages than one, all text is there before Trim, and in the same place after it.
func TestTextIsKeptUntilItIsInspected(t *testing.T) {
	var w Window
	said := func(from, to int) (message string, words []string) {
		members := make([]string, 0, to-from)
		for i := from; i < to; i++ {
			members = append(members, fmt.Sprintf(`"k%d":"word%d"`, i, i))
			words = append(words, fmt.Sprintf("word%d", i))
		}
		return "{" + strings.Join(members, ",") + "}", words
	}
	for round := range 3 {
		var all []string
		for _, n := range []int{1, mostThreads - 1, 3, 2 * mostThreads, 1} {
			message, words := said(100*round+len(all), 100*round+len(all)+n)
			w.Add(Message{Text: true, Data: []byte(message)})
			all = append(all, words...)
		}
		text := strings.Fields(string(w.AppendText(nil)))
		for _, word := range all {
			if !slices.Contains(text, word) {
				t.Errorf("round %d: %q is not in the text", round, word)
			}
		}
		w.Trim()
		if len(w.threads) > mostThreads {
			t.Errorf("round %d: %d threads", round, len(w.threads))
		}
	}
	// A word that may be two is read as one and as two, in each message.
	for _, m := range []string{"a long sentence that ends with pok", "er is what the next one begins with, which is long", "and another one follows"} {
		w.Add(Message{Text: true, Data: []byte(m)})
	}
	if text := string(w.AppendText(nil)); !strings.Contains(text, " poker ") {
		t.Errorf("the word on both sides of a message is not in %q", text)
	}
}

// TestMessagesAreCheap: a message takes far less than a millisecond.
func TestMessagesAreCheap(t *testing.T) {
	if race.On {
		t.Skip("the race detector makes this too slow to measure")
	}
	var w Window
	var buf []byte
	from := reading.ProcessorTime()
	const n = 2000
	for i := range n {
		w.Add(Message{Text: true, Data: fmt.Appendf(nil, `{"id":"abc%d","choices":[{"index":0,"delta":{"content":" word%d"}}]}`, i, i)})
		buf = w.AppendText(buf[:0])
	}
	if each := (reading.ProcessorTime() - from) / n; each > 500*time.Microsecond {
		t.Errorf("a message takes %v, want at most 500 µs", each)
	}
}

func TestIdleConversationsAreSmall(t *testing.T) {
	type idle struct {
		ws [2]WebSocket
		w  [2]Window
	}
	const n = 10000
	d := frame(0xC1, true, newDeflater().message(`{"type":"hello","id":1}`))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	all := make([]*idle, n)
	for i := range all {
		x := &idle{}
		for k := range 2 {
			x.ws[k] = WebSocket{Deflate: true, Takeover: true}
			_, m, _, err := x.ws[k].Next(d)
			if err != nil {
				t.Fatal(err)
			}
			x.w[k].Add(m)
		}
		all[i] = x
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n; each > 2048 {
		t.Errorf("an idle connection takes %d bytes, want at most 2048", each)
	}
	runtime.KeepAlive(all)
}

func FuzzFraming(f *testing.F) {
	f.Add(0, []byte("data: x\n\n"), uint64(1))
	f.Add(1, frame(0x81, true, []byte("{\"a\":\"b\"}")), uint64(1))
	f.Add(2, frame(0xC1, true, newDeflater().message("hello")), uint64(1))
	f.Add(3, grpcMessage(0, []byte("\x0a\x03abc")), uint64(1))
	f.Add(4, []byte("AAAAAAA="), uint64(1))
	f.Fuzz(func(t *testing.T, kind int, p []byte, seed uint64) {
		run := func(sizes func(n int) int) (all []string) {
			var w Window
			fr := [...]Framer{&Events{}, &WebSocket{}, &WebSocket{Deflate: true, Takeover: true}, &GRPC{Coding: "gzip"}, &GRPC{Base64: true}}[uint(kind)%5]
			for rest := p; len(rest) > 0; {
				piece := rest[:sizes(len(rest))]
				rest = rest[len(piece):]
				for len(piece) > 0 {
					n, m, whole, err := fr.Next(piece)
					if err != nil {
						return append(all, err.Error())
					}
					if piece = piece[n:]; whole {
						w.Add(m)
						all = append(all, string(m.Data))
					}
				}
			}
			return append(all, string(w.AppendText(nil)))
		}
		r := rand.New(rand.NewPCG(seed, 1))
		whole := run(func(n int) int { return n })
		if got := run(func(n int) int { return 1 + r.IntN(n) }); !slices.Equal(got, whole) {
			t.Fatalf("in pieces the messages are %q, in one piece %q", got, whole)
		}
	})
}

// TestTextBesideMessages: everything in a conversation that a page may see is in the window,
// also text beside the data of events, after the end of a stream, and in unknown formats.
func TestTextBesideMessages(t *testing.T) {
	final := func(s string) []byte {
		var b bytes.Buffer
		w, _ := flate.NewWriter(&b, 6)
		_, _ = w.Write([]byte(s))
		_ = w.Close()
		return append(b.Bytes(), 0)
	}
	ws := &WebSocket{Deflate: true}
	for _, c := range []struct {
		name string
		f    Framer
		in   []byte
	}{
		{"comment", &Events{}, []byte(": porn\n\n")},
		{"comment in an event", &Events{}, []byte(": porn\ndata: x\n\n")},
		{"id", &Events{}, []byte("id: porn\ndata: x\n\n")},
		{"no field", &Events{}, []byte("<p>porn</p>\n\n")},
		{"event without its end", &Events{}, []byte("data: porn\n")},
		{"line without its end", &Events{}, []byte("data: po\rdata: porn")},
		{"grpc without its end", &GRPC{}, grpcMessage(0, []byte("some porn text"))[:17]},
		{"last block", ws, frame(0xC2, false, final("porn"))},
		{"block after the last", ws, frame(0xC2, false, append(final("x")[:len(final("x"))-1], newDeflater().message(" porn")...))},
		{"messagepack", ws, frame(0x82, false, []byte("\x81\xa4text\xa4porn"))},
		{"a type before it", ws, frame(0x82, false, []byte("\x00\x01porn"))},
		{"protobuf with such a field", &GRPC{}, grpcMessage(0, []byte("\x0a\x08\x00\x01porn\xff\xfe"))},
	} {
		var w Window
		for in := c.in; len(in) > 0; {
			n, m, whole, err := c.f.Next(in)
			if err != nil {
				t.Fatalf("%s: reading the next message: %v", c.name, err)
			}
			if in = in[n:]; whole {
				w.Add(m)
			}
		}
		w.Add(c.f.Finish())
		if got := w.AppendText(nil); !bytes.Contains(got, []byte(" porn ")) {
			t.Errorf("%s: the window has the text %q", c.name, got)
		}
	}
}

// TestFramesBetweenMessagesHaveText: the reason of a close and what pings carry is read, whole or in
// pieces, also within a message; bytes that are no text are not.
func TestFramesBetweenMessagesHaveText(t *testing.T) {
	for name, c := range map[string]struct {
		frame []byte
		want  string
	}{
		"close":              {frame(0x88, true, []byte("\x03\xe8a casino")), "a casino"},
		"close, not masked":  {frame(0x88, false, []byte("\x03\xe8a casino")), "a casino"},
		"close of no reason": {frame(0x88, true, []byte("\x03\xe8")), ""},
		"close of nothing":   {frame(0x88, true, nil), ""},
		"close of a byte":    {frame(0x88, true, []byte("x")), ""},
		"ping":               {frame(0x89, true, []byte("a casino")), "a casino"},
		"pong":               {frame(0x8A, false, []byte("a casino")), "a casino"},
		"ping of a number":   {frame(0x89, true, []byte{0, 1, 2, 3}), ""},
		"ping of nothing":    {frame(0x89, false, nil), ""},
	} {
		for _, step := range []int{len(c.frame), 1} {
			in := append(append(frame(0x01, true, []byte("half a ")), c.frame...), frame(0x80, true, []byte("message"))...)
			var w WebSocket
			var got []string
			for len(in) > 0 {
				n, m, whole, err := w.Next(in[:min(step, len(in))])
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if in = in[n:]; whole {
					got = append(got, string(m.Data))
					var win Window
					if some, _ := win.Add(m); some != (len(m.Data) > 0) {
						t.Errorf("%s: the window took text %v, want %v", name, some, len(m.Data) > 0)
					}
				}
			}
			if want := []string{c.want, "half a message"}; !slices.Equal(got, want) {
				t.Errorf("%s in pieces of %d: %q, want %q", name, step, got, want)
			}
		}
	}
}
