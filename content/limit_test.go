package content_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/content"
	"shuultuur/content/limit"
	"shuultuur/test/race"
	"shuultuur/test/reading"
	"shuultuur/test/webpage"
)

// zeros returns n zero bytes encoded with the codings in how.
func zeros(t testing.TB, how string, n int) []byte {
	return webpage.EncodeAll(t, how, make([]byte, n))
}

var bombs = []struct{ header, how string }{
	{"gzip", "gzip"},
	{"deflate", "deflate"},
	{"br", "br"},
	{"zstd", "zstd"},
	{"gzip, gzip", "gzip gzip"},
	{"gzip, br, zstd", "gzip br zstd"},
}

func TestBombsEndInAVerdict(t *testing.T) {
	race.Without(t)
	for _, c := range bombs {
		wire := zeros(t, c.how, 16<<20)
		for _, done := range []bool{true, false} {
			var b content.Body
			b.Reset(content.Describe("text/html", c.header), content.Limits{})
			b.Append(wire)
			if done {
				b.Finish()
			}
			if _, err := b.Text(); !errors.Is(err, content.ErrBomb) {
				t.Errorf("%s, finished %v: Text returned the error %v, want %v", c.header, done, err, content.ErrBomb)
			}
			p, err := b.Decoded()
			if !errors.Is(err, content.ErrBomb) || len(p) > 2*limit.BombFloor {
				t.Errorf("%s, finished %v: Decoded returned %d bytes and the error %v, want %v", c.header, done, len(p), err, content.ErrBomb)
			}
			b.Release()
		}
	}
}

func TestManyBombsTakeLittleMemory(t *testing.T) {
	many := 60
	if race.On {
		many = 12 // the race detector makes scanning ten times slower
	}
	for _, c := range bombs {
		wire := zeros(t, c.how, 16<<20)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		bodies := make([]content.Body, many)
		budget := &budget{left: 16 << 20}
		turns := make(chan struct{}, runtime.GOMAXPROCS(0)) // as in a server
		var wg sync.WaitGroup
		for i := range bodies {
			b := &bodies[i]
			b.Reset(content.Describe("text/html", c.header), content.Limits{Memory: budget})
			b.Append(wire)
			if i%2 == 0 {
				b.Finish()
			}
			wg.Go(func() {
				turns <- struct{}{}
				b.Text()
				<-turns
			})
		}
		wg.Wait()
		took := time.Since(start)
		runtime.GC()
		runtime.GC() // the first collection keeps pooled memory
		runtime.ReadMemStats(&after)
		held := int64(after.HeapAlloc) - int64(before.HeapAlloc)
		most := int64(after.HeapSys) - int64(before.HeapSys)
		t.Logf("%s: %v, %d KiB held, heap grown by %d KiB", c.header, took, held>>10, most>>10)
		if held > 32<<20 || most > 128<<20 {
			t.Errorf("%d bombs of %s hold %d MiB, heap grew by %d MiB", many, c.header, held>>20, most>>20)
		}
		for i := range bodies {
			bodies[i].Release()
		}
		if budget.left != 16<<20 {
			t.Errorf("%s: %d bytes of the budget were not given back", c.header, 16<<20-budget.left)
		}
	}
}

// A budget counts the memory taken.
type budget struct {
	mu   sync.Mutex
	left int64
}

func (b *budget) Acquire(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left {
		return false
	}
	b.left -= n
	return true
}

func (b *budget) Release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
}

func TestDecodersNeedCapacity(t *testing.T) {
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		wire := webpage.Encode(t, coding, webpage.SamplePage())
		for _, done := range []bool{true, false} {
			var b content.Body
			b.Reset(content.Describe("text/html", coding), content.Limits{Memory: &budget{left: 1000}})
			b.Append(wire)
			want := content.NoCapacity
			if done {
				b.Finish()
				want = content.AllRead // decoded at once, so nothing is kept
			}
			got, err := b.Text()
			if b.Unread() != want || (err == nil) != done || done && len(got) < 1000 {
				t.Errorf("%s, finished %v: got %d bytes, error %v, unread %v", coding, done, len(got), err, b.Unread())
			}
			b.Release()
		}
	}
}

func TestBodiesGivenUpLeaveNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		wire := webpage.Encode(t, coding, webpage.SamplePage())
		for _, n := range []int{0, 1, 5, len(wire) / 2, len(wire)} {
			var b content.Body
			b.Reset(content.Describe("text/html", coding), content.Limits{})
			b.Append(wire[:n])
			b.Text()
			b.Decoded()
			b.Release()
		}
	}
	if now := runtime.NumGoroutine(); now > before {
		t.Errorf("%d goroutines are left, there were %d", now, before)
	}
}

func TestDecodedLimitCuts(t *testing.T) {
	page := []byte(strings.Repeat("<p>one two three", 10000))
	for _, coding := range []string{"", "gzip", "br", "zstd", "deflate"} {
		for _, done := range []bool{true, false} {
			var b content.Body
			b.Reset(content.Describe("text/html", coding), content.Limits{Decoded: 1600})
			b.Append(webpage.Encode(t, coding, page))
			if done {
				b.Finish()
			}
			p, err := b.Decoded()
			if err != nil || !bytes.Equal(p, page[:1600]) {
				t.Errorf("%q: Decoded returned %d bytes and the error %v; want 1600 and none", coding, len(p), err)
			}
			got, err := b.Text()
			if want := strings.Repeat(" one two three", 100) + " "; err != nil || string(got) != want {
				t.Errorf("%q: Text returned %d bytes and the error %v; want %d", coding, len(got), err, len(want))
			}
			if b.Unread() != content.TooLarge {
				t.Errorf("%q: Unread is %q, want %q", coding, b.Unread(), content.TooLarge)
			}
			b.Release()
		}
	}
}

// TestLongTextIsReadToItsEnd: a body of any length is read to its end in little memory; the
// kept text is limited.
func TestLongTextIsReadToItsEnd(t *testing.T) {
	var b content.Body
	var c reading.Collector
	b.Reset(content.Describe("text/plain", ""), content.Limits{})
	defer b.Release()
	b.Follow(&c)
	piece := []byte(strings.Repeat("word ", 10000))
	for range 200 {
		b.Append(piece)
		b.Forget()
	}
	b.Finish()
	got, err := b.Text()
	if want := " " + strings.Repeat("word ", 2000000); err != nil || string(c.All) != want || b.Unread() != content.AllRead {
		t.Errorf("the follower read %d bytes, error %v, unread %v; want %d", len(c.All), err, b.Unread(), len(want))
	}
	if len(got) > reading.Limit("mostText") || !bytes.HasSuffix(c.All, got) || cap(got) > 4<<20 {
		t.Errorf("the text keeps %d bytes in memory for %d", len(got), cap(got))
	}
}

// TestEndlessWords: endless words of any kind neither delay the text nor take memory.
func TestEndlessWords(t *testing.T) {
	race.Without(t)
	for _, word := range []string{"a", "é", "e\u0301", "\u0301", "한", "色"} {
		var b content.Body
		var c reading.Collector
		b.Reset(content.Describe("text/plain; charset=utf-8", ""), content.Limits{})
		b.Follow(&c)
		piece := []byte(strings.Repeat(word, 30000))
		for range 40 {
			b.Append(piece)
			b.Forget()
		}
		got, _ := b.Text()
		if room := cap(got); len(c.All) < len(piece)*20 && word != "e\u0301" || len(c.All) < 500000 || room > 1<<20 {
			t.Errorf("%q: the follower got %d bytes, the text takes %d", word, len(c.All), room)
		}
		b.Release()
	}
}

func TestViewsFirstUsedLate(t *testing.T) {
	var b content.Body
	b.Reset(content.Describe("text/plain", ""), content.Limits{})
	b.Append([]byte("one two"))
	b.Forget()
	b.Append([]byte("three"))
	b.Finish()
	if got, err := b.Text(); err != nil || string(got) != " three " {
		t.Errorf("after Forget the text is %q, %v; want that of the later pieces", got, err)
	}
	b.Release()

	b.Reset(content.Describe("text/plain", "gzip"), content.Limits{})
	wire := webpage.Encode(t, "gzip", []byte("one two three"))
	b.Append(wire[:10])
	b.Forget()
	b.Append(wire[10:])
	b.Finish()
	if _, err := b.Text(); err == nil || !strings.Contains(err.Error(), "discarded") {
		t.Errorf("Text after Forget of gzip: %v, want an error about discarded pieces", err)
	}
	b.Release()
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	page := webpage.SamplePage()
	for _, coding := range []string{"", "gzip", "deflate"} {
		wire := webpage.Encode(t, coding, page)
		head := content.Describe("text/html", coding)
		var b content.Body
		got := testing.AllocsPerRun(50, func() {
			b.Reset(head, content.Limits{})
			b.Append(wire)
			b.Finish()
			if _, err := b.Text(); err != nil {
				t.Error(err)
			}
			b.Release()
		})
		if got > 0.5 && !race.On {
			t.Errorf("%q: a body allocates %v times, want 0", coding, got)
		}
	}
}

func TestTypeIsTheHeadersOrGuessed(t *testing.T) {
	for _, c := range []struct{ header, coding, body, want string }{
		{"Text/HTML; charset=x", "", "GIF89a", "text/html"},
		{"", "", "  <!DOCTYPE HTML><p>", "text/html"},
		{"", "gzip", "<html>", "text/html"},
		{"", "", "<htmlx>", "text/html"}, // as in Chromium
		{"", "", "<xhtml>", "text/plain"},
		{"", "", "<?xml version='1.0'?>", "text/xml"},
		{"", "", "hello", "text/plain"},
		{"", "", "", "text/plain"},
		{"nonsense", "", "GIF89a", "image/gif"},
		{"", "", "\xff\xd8\xff\xe0", "image/jpeg"},
		{"", "", "\x89PNG\r\n\x1a\n", "image/png"},
		{"", "br", "RIFF\x01\x02\x03\x04WEBPVP8 ", "image/webp"},
		{"", "", "%PDF-1.4", "application/pdf"},
		{"", "", "PK\x03\x04", "application/zip"},
		{"", "", "\x1f\x8b\x08", "application/gzip"},
		{"", "", "MZ\x90", "application/vnd.microsoft.portable-executable"},
		{"", "", "\x7fELF", "application/x-executable"},
		{"", "", "\x00\x01", "application/octet-stream"},
	} {
		var b content.Body
		b.Reset(content.Describe(c.header, c.coding), content.Limits{})
		b.Append(webpage.Encode(t, c.coding, []byte(c.body)))
		b.Finish()
		if got := b.Type(); got != c.want {
			t.Errorf("Type of %q, Content-Type %q: %q, want %q", c.body, c.header, got, c.want)
		}
		b.Release()
	}
}

func TestTextOfTypesThatAreNotMarkup(t *testing.T) {
	for _, c := range []struct{ typ, in, want string }{
		{"text/plain", "a <b>c</b> &amp; d", " a b c b amp d "},
		{"text/css", ".Foo{}", " "},
		{"application/json", `{"a":"caf\u00e9\nx \ud83d\ude00 \ud835\udcfc\u0065x\"q\\u"}`, " a café x sex q u "},
		{"application/activity+json", `"\u0041"`, " a "},
		{"application/x-www-form-urlencoded", "q=big+bang&r=caf%C3%A9%20x%4", " q big bang r café x 4 "},
		{"image/png", "abc", " "},
		{"image/svg+xml", "<svg><text>a</text><text>b</text></svg>", " a b "},
		{"application/rss+xml", "<item><title>A<![CDATA[ <b>c ]]></title><x>d</x></item>", " item title a b c x d "},
		{"application/xhtml+xml", "<p>a<b>b</b><script>no</script></p>", " ab "},
	} {
		if got := reading.Text(t, c.typ, c.in); got != c.want {
			t.Errorf("the text of %s %q is %q, want %q", c.typ, c.in, got, c.want)
		}
	}
}

// TestLimitsLeaveAFinding: text beyond a limit is reported as unread.
func TestLimitsLeaveAFinding(t *testing.T) {
	deep := func(n int, s string, within func(string) string) string {
		for range n {
			s = within(s)
		}
		return s
	}
	srcdoc := func(s string) string { return `<iframe srcdoc="` + html.EscapeString(s) + `"></iframe>` }
	var many, nested, attrs strings.Builder
	for i := range reading.Limit("mostEntities") + 1 {
		fmt.Fprintf(&many, "<!ENTITY e%d 'x'>", i)
	}
	nested.WriteString("<!ENTITY e0 'porn'>")
	for i := range reading.Limit("mostDeep") + 1 {
		fmt.Fprintf(&nested, "<!ENTITY e%d '&e%d;'>", i+1, i)
	}
	for i := range reading.Limit("mostAttrs") + 1 {
		fmt.Fprintf(&attrs, "p::before{content:attr(a%d)}", i)
	}
	xml := func(subset, s string) string { return "<!DOCTYPE a [" + subset + "]><a>" + s + "</a>" }
	for _, c := range []struct {
		name, typ, body string
		want            content.Reason
	}{
		{"documents in documents", "text/html", deep(reading.Limit("mostNested"), "<p>x", srcdoc), content.AllRead},
		{"too many of them", "text/html", deep(reading.Limit("mostNested")+1, "<p>x", srcdoc), content.Intricate},
		{"entities", "text/xml", xml("<!ENTITY e0 'porn'><!ENTITY e1 '&e0;'>", "&e1;"), content.AllRead},
		{"too many entities", "text/xml", xml(many.String(), "x"), content.Intricate},
		{"entities too deep", "text/xml", xml(nested.String(), fmt.Sprintf("&e%d;", reading.Limit("mostDeep")+1)), content.Intricate},
		{"attributes a sheet shows", "text/html", "<style>" + attrs.String() + "</style>", content.Intricate},
		{"shadow roots in shadow roots", "text/html", strings.Repeat("<b><template shadowrootmode=open>", reading.Limit("mostHosts")), content.AllRead},
		{"too many of them", "text/html", strings.Repeat("<b><template shadowrootmode=open>", reading.Limit("mostHosts")+1), content.Intricate},
		{"parts of a message", "multipart/mixed; boundary=b", strings.Repeat("--b\n\nx\n", reading.Limit("mostParts")+1), content.Intricate},
		{"messages in messages", "message/rfc822", deep(reading.Limit("mostNested")+1, "\n\nx", func(s string) string { return "Content-Type: message/rfc822\n\n" + s }), content.Intricate},
	} {
		var b content.Body
		b.Reset(content.Describe(c.typ, ""), content.Limits{})
		b.Append([]byte(c.body))
		b.Finish()
		_, _ = b.Text()
		if got := b.Unread(); got != c.want {
			t.Errorf("%s: Unread is %q, want %q", c.name, got, c.want)
		}
		b.Release()
	}
}

// TestBodiesGivenUpLeaveNoText: base64 of an abandoned body does not appear in the next body.
func TestBodiesGivenUpLeaveNoText(t *testing.T) {
	hidden := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("secret words of another page ", 400) + strings.Repeat("secret", 2000)))
	for _, c := range []struct{ typ, given, next string }{
		{"text/plain", hidden, "plain"},
		{"application/json", `{"a":"` + hidden, `{"a":"plain"}`},
	} {
		for range 20 {
			var b content.Body
			b.Reset(content.Describe(c.typ, ""), content.Limits{})
			b.Append([]byte(c.given))
			b.Text()
			b.Release()
			b.Reset(content.Describe(c.typ, ""), content.Limits{})
			b.Append([]byte(c.next))
			b.Finish()
			if got, err := b.Text(); err != nil || bytes.Contains(got, []byte("secret")) {
				t.Fatalf("%s: text %.90q, %v, has that of the body before", c.typ, got, err)
			}
			b.Release()
		}
	}
}

// A body is a bomb by its ratio and its size together: what is small is no danger, however well it
// compresses.
func TestSmallBodiesAreNoBombs(t *testing.T) {
	timetable := []byte("<table>" + strings.Repeat("<tr><td></td><td></td><td></td></tr>\n", 5<<20/37) + "<tr><td>quayle</table>")
	zeros := append(make([]byte, 7<<20), "quayle"...)
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		for typ, p := range map[string][]byte{"text/html": timetable, "text/csv": zeros} {
			var b content.Body
			b.Reset(content.Describe(typ, coding), content.Limits{})
			b.Append(webpage.Encode(t, coding, p))
			b.Finish()
			if text, err := b.Text(); err != nil || b.Unread() != content.AllRead || !bytes.HasSuffix(text, []byte(" quayle ")) && typ == "text/html" {
				t.Errorf("%s, %s: error %v, unread %q, %d bytes of text", coding, typ, err, b.Unread(), len(text))
			}
			b.Release()
		}
	}
}

// Each reason why a body is not read is one of its own.
func TestReasonsAreTold(t *testing.T) {
	page := []byte(strings.Repeat("<p>one two three</p>", 1000))
	bomb := webpage.Encode(t, "gzip", make([]byte, 32<<20))
	wire := webpage.Encode(t, "gzip", page)
	for name, c := range map[string]struct {
		typ, coding string
		in          []byte
		lim         content.Limits
		want        content.Reason
	}{
		"all":                    {"text/html", "gzip", wire, content.Limits{}, content.AllRead},
		"no trailer":             {"text/html", "gzip", wire[:len(wire)-8], content.Limits{}, content.AllRead},
		"cut":                    {"text/html", "gzip", wire[:len(wire)/2], content.Limits{}, content.Cut},
		"too large":              {"text/html", "gzip", wire, content.Limits{Decoded: 1000}, content.TooLarge},
		"long text":              {"text/plain", "", page, content.Limits{Decoded: 1000}, content.TooLarge},
		"bomb":                   {"text/html", "gzip", bomb, content.Limits{}, content.Bomb},
		"bomb in an archive":     {"application/zip", "", []byte(reading.Archive(t, "a.txt", string(make([]byte, 32<<20)))), content.Limits{}, content.Bomb},
		"documents in documents": {"text/html", "", []byte(framed(reading.Limit("mostNested")+3, "x")), content.Limits{}, content.Intricate},
		"encrypted":              {"application/vnd.openxmlformats-officedocument.wordprocessingml.document", "", []byte(reading.Archive(t, "EncryptedPackage", "x")), content.Limits{}, content.Encrypted},
	} {
		var b content.Body
		b.Reset(content.Describe(c.typ, c.coding), c.lim)
		b.Append(c.in)
		b.Finish()
		_, _ = b.Text()
		if got := b.Unread(); got != c.want {
			t.Errorf("%s: unread %q, want %q", name, got, c.want)
		}
		b.Release()
	}
}

// Bodies whose readers have stopped keep no more text than there is room for. Without room each
// keeps its end, and those who follow it still read every word.
func TestTextThatIsKeptNeedsRoom(t *testing.T) {
	const pieces = 100
	piece := []byte(strings.Repeat("some words of a page without an end ", 450))
	for _, room := range []int64{0, 256 << 10, 64 << 20} {
		left := &budget{left: room}
		m := &meter{}
		var b content.Body
		b.Reset(content.Describe("text/plain; charset=utf-8", ""), content.Limits{Text: left})
		b.Follow(m)
		for range pieces {
			b.Append(piece)
			if err := b.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		b.Finish()
		text, err := b.Text()
		if err != nil {
			t.Fatal(err)
		}
		if whole := len(text) > 1<<20; whole != (room > 1<<20) || cap(text) > 256<<10 && room == 0 {
			t.Errorf("with room for %d bytes the text has %d bytes in %d", room, len(text), cap(text))
		}
		if room > 1<<20 && left.left == room {
			t.Errorf("a text of %d bytes took no room", len(text))
		}
		if want := pieces * len(piece); m.text < want-64 {
			t.Errorf("with room for %d bytes the follower read %d of %d bytes", room, m.text, want)
		}
		if b.Release(); left.left != room {
			t.Errorf("%d bytes of room were not given back", room-left.left)
		}
	}
}
