package content

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// zeros returns n zero bytes under the codings named by how.
func zeros(t testing.TB, how string, n int) []byte {
	return encodeAll(t, how, make([]byte, n))
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
	for _, c := range bombs {
		wire := zeros(t, c.how, 16<<20)
		for _, done := range []bool{true, false} {
			var b Body
			b.Reset([]byte("text/html"), []byte(c.header), Limits{})
			b.Append(wire)
			if done {
				b.Finish()
			}
			if _, err := b.Text(); !errors.Is(err, ErrBomb) {
				t.Errorf("%s, finished %v: Text gives error %v, want %v", c.header, done, err, ErrBomb)
			}
			p, err := b.Decoded()
			if !errors.Is(err, ErrBomb) || len(p) > 2<<20 {
				t.Errorf("%s, finished %v: Decoded gives %d bytes, error %v, want %v", c.header, done, len(p), err, ErrBomb)
			}
			b.Release()
		}
	}
}

func TestManyBombsTakeLittleMemory(t *testing.T) {
	many := 200
	if raceEnabled {
		many = 12 // the race detector makes the scanning ten times slower
	}
	for _, c := range bombs {
		wire := zeros(t, c.how, 16<<20)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		bodies := make([]Body, many)
		var wg sync.WaitGroup
		for i := range bodies {
			b := &bodies[i]
			b.Reset([]byte("text/html"), []byte(c.header), Limits{})
			b.Append(wire)
			if i%2 == 0 {
				b.Finish()
			}
			wg.Go(func() { b.Text() })
		}
		wg.Wait()
		took := time.Since(start)
		runtime.GC()
		runtime.GC() // the first leaves what is pooled
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
	}
}

func TestBodiesGivenUpLeaveNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		wire := encode(t, coding, samplePage())
		for _, n := range []int{0, 1, 5, len(wire) / 2, len(wire)} {
			var b Body
			b.Reset([]byte("text/html"), []byte(coding), Limits{})
			b.Append(wire[:n])
			b.Text()
			b.Decoded()
			b.Release()
		}
	}
	if now := runtime.NumGoroutine(); now > before {
		t.Errorf("%d goroutines, before there were %d", now, before)
	}
}

func TestDecodedLimitCuts(t *testing.T) {
	page := []byte(strings.Repeat("<p>one two three", 10000))
	for _, coding := range []string{"", "gzip", "br", "zstd", "deflate"} {
		for _, done := range []bool{true, false} {
			var b Body
			b.Reset([]byte("text/html"), []byte(coding), Limits{Decoded: 1600})
			b.Append(encode(t, coding, page))
			if done {
				b.Finish()
			}
			p, err := b.Decoded()
			if err != nil || !bytes.Equal(p, page[:1600]) {
				t.Errorf("%q: %d bytes, error %v; want 1600 and none", coding, len(p), err)
			}
			got, err := b.Text()
			if want := strings.Repeat(" one two three", 100) + " "; err != nil || string(got) != want {
				t.Errorf("%q: text of %d bytes, error %v; want %d", coding, len(got), err, len(want))
			}
			if !b.Cut() {
				t.Errorf("%q: Cut is false", coding)
			}
			b.Release()
		}
	}
}

func TestTextLimitCuts(t *testing.T) {
	var b Body
	b.Reset([]byte("text/plain"), nil, Limits{Text: 1000})
	defer b.Release()
	b.Append([]byte(strings.Repeat("word ", 100000)))
	b.Finish()
	got, err := b.Text()
	if want := " " + strings.Repeat("word ", 199); err != nil || string(got) != want || !b.Cut() {
		t.Errorf("text of %d bytes, error %v, Cut %v; want %d, none, true", len(got), err, b.Cut(), len(want))
	}
}

func TestViewsAskedForLate(t *testing.T) {
	var b Body
	b.Reset([]byte("text/plain"), nil, Limits{})
	b.Append([]byte("one two"))
	b.Forget()
	b.Append([]byte("three"))
	b.Finish()
	if got, err := b.Text(); err != nil || string(got) != " three " {
		t.Errorf("Text after Forget: %q, %v; want what came since", got, err)
	}
	b.Release()

	b.Reset([]byte("text/plain"), []byte("gzip"), Limits{})
	wire := encode(t, "gzip", []byte("one two three"))
	b.Append(wire[:10])
	b.Forget()
	b.Append(wire[10:])
	b.Finish()
	if _, err := b.Text(); err == nil || !strings.Contains(err.Error(), "forgotten") {
		t.Errorf("Text after Forget of gzip: error %v", err)
	}
	b.Release()
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	page := samplePage()
	html := []byte("text/html")
	for _, coding := range []string{"", "gzip", "deflate"} {
		wire := encode(t, coding, page)
		header := []byte(coding)
		var b Body
		got := testing.AllocsPerRun(50, func() {
			b.Reset(html, header, Limits{})
			b.Append(wire)
			b.Finish()
			if _, err := b.Text(); err != nil {
				t.Error(err)
			}
			b.Release()
		})
		if got > 0.5 && !raceEnabled {
			t.Errorf("%q: %v allocations a body", coding, got)
		}
	}
}

func TestTypeIsTheHeadersOrGuessed(t *testing.T) {
	for _, c := range []struct{ header, coding, body, want string }{
		{"Text/HTML; charset=x", "", "GIF89a", "text/html"},
		{"", "", "  <!DOCTYPE HTML><p>", "text/html"},
		{"", "gzip", "<html>", "text/html"},
		{"", "", "<htmlx>", "text/plain"},
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
		var b Body
		b.Reset([]byte(c.header), []byte(c.coding), Limits{})
		b.Append(encode(t, c.coding, []byte(c.body)))
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
		{"text/css", ".Foo{}", " foo "},
		{"application/json", `{"a":"caf\u00e9\nx \ud83d\ude00 \ud835\udcfc\u0065x\"q\\u"}`, " a café x sex q u "},
		{"application/activity+json", `"\u0041"`, " a "},
		{"application/x-www-form-urlencoded", "q=big+bang&r=caf%C3%A9%20x%4", " q big bang r café x 4 "},
		{"image/png", "abc", " "},
		{"image/svg+xml", "<svg><text>a</text><text>b</text></svg>", " a b "},
		{"application/rss+xml", "<item><title>A<![CDATA[ <b>c ]]></title><x>d</x></item>", " a b c d "},
		{"application/xhtml+xml", "<p>a<b>b</b><script>no</script></p>", " ab "},
	} {
		if got := textOf(t, c.typ, c.in); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.typ, c.in, got, c.want)
		}
	}
}
