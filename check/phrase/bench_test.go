package phrase

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/language"
	"shuultuur/lib/setting"
	"shuultuur/test/data"
)

// e2gLists returns settings with the phrase lists that Debian's e2guardian enables, or skips
// the test.
func e2gLists(t testing.TB, compat string) Config {
	t.Helper()
	dir := os.Getenv("SHUULTUUR_E2G")
	if dir == "" {
		dir = "/etc/e2guardian"
	}
	lists := filepath.Join(dir, "lists")
	if _, err := os.Stat(filepath.Join(lists, "weightedphraselist")); err != nil {
		t.Skipf("no e2guardian lists in %s: install e2guardian or set SHUULTUUR_E2G", dir)
	}
	return Config{
		Weighted:  []setting.File{setting.File(filepath.Join(lists, "weightedphraselist"))},
		Banned:    []setting.File{setting.File(filepath.Join(lists, "bannedphraselist"))},
		Exception: []setting.File{setting.File(filepath.Join(lists, "exceptionphraselist"))},
		Compat:    compat,
	}
}

func e2gCheck(t testing.TB, compat string) *Check {
	t.Helper()
	c, err := New(e2gLists(t, compat), ".", noon)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func realPages(t testing.TB) (pages [][]byte, size int64) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(data.Path(t, "pages"), "*.html"))
	if err != nil || len(names) == 0 {
		t.Skip("the test data has no pages")
	}
	for _, name := range names {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, page)
		size += int64(len(page))
	}
	return pages, size
}

// texts returns the visible text of the pages.
func texts(t testing.TB, pages [][]byte) (texts [][]byte, size int64) {
	t.Helper()
	var body content.Body
	for _, p := range pages {
		body.Reset(content.Describe("text/html; charset=utf-8", ""), content.Limits{})
		body.Append(p)
		body.Finish()
		text, err := body.Text()
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, bytes.Clone(text))
		size += int64(len(text))
		body.Release()
	}
	return texts, size
}

func BenchmarkMatchText(b *testing.B) {
	for _, once := range []bool{false, true} {
		b.Run(map[bool]string{false: "all", true: "once"}[once], func(b *testing.B) {
			c := e2gCheck(b, "modern")
			pages, _ := realPages(b)
			pages, size := texts(b, pages)
			benchmarkMatch(b, c, pages, size, once)
		})
	}
}

func BenchmarkMatchRaw(b *testing.B) {
	c := e2gCheck(b, "e2guardian-5.3")
	pages, _ := realPages(b)
	size := int64(0)
	for i, p := range pages {
		v := c.dialect.view(pass{fold: true}, p)
		pages[i] = v.next(make([]byte, 0, 2*len(p)))
		size += int64(len(pages[i]))
	}
	benchmarkMatch(b, c, pages, size, false)
}

func benchmarkMatch(b *testing.B, c *Check, pages [][]byte, size int64, once bool) {
	h := c.set.NewHits(0)
	h.Once = once
	b.SetBytes(size)
	b.ReportAllocs()
	hits := 0
	for b.Loop() {
		hits = 0
		for _, p := range pages {
			h.Reset()
			c.set.Scan(h, p, 0)
			hits += len(h.Seen)
		}
	}
	b.ReportMetric(float64(c.set.Size()), "automaton-bytes")
	b.ReportMetric(float64(hits)/float64(len(pages)), "phrases/page")
}

// BenchmarkScore measures all work of the check for a page whose text is known.
func BenchmarkScore(b *testing.B) {
	for _, evidence := range []bool{false, true} {
		b.Run(map[bool]string{false: "judge", true: "report"}[evidence], func(b *testing.B) {
			c := e2gCheck(b, "modern")
			pages, _ := realPages(b)
			pages, size := texts(b, pages)
			b.SetBytes(size)
			b.ReportAllocs()
			var found []filter.Finding
			for b.Loop() {
				for _, p := range pages {
					sc := c.Follow(nil).(*scan)
					for at := 0; at < len(p); at += step / 4 {
						from := max(0, at-c.set.MaxLen())
						sc.Read(p[from:min(at+step/4, len(p))], at-from)
					}
					sc.judge(sc.hits, c.now(), language.Every, &sc.best)
					if evidence {
						found = sc.report(found[:0])
					}
					sc.Close()
				}
			}
		})
	}
}

func BenchmarkPage(b *testing.B) {
	for _, compat := range []string{"dansguardian", "e2guardian-5.3", "e2guardian-5.5"} {
		b.Run(compat, func(b *testing.B) {
			c := e2gCheck(b, compat)
			pages, size := realPages(b)
			b.SetBytes(size)
			b.ReportAllocs()
			var found []filter.Finding
			for b.Loop() {
				for _, p := range pages {
					sc := c.scans.Get().(*scan)
					if err := sc.whole(context.Background(), p); err != nil {
						b.Fatal(err)
					}
					found = sc.report(found[:0])
					c.scans.Put(sc)
				}
			}
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	cfg := e2gLists(b, "modern")
	for b.Loop() {
		if _, err := New(cfg, ".", noon); err != nil {
			b.Fatal(err)
		}
	}
}
