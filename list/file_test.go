package list

import (
	"context"
	"os"
	"path/filepath"
	"shuultuur/lib/setting"
	"slices"
	"strings"
	"testing"
)

// compileText compiles a list with one source of this text and opens it.
func compileText(t testing.TB, cfg Config, text string) (*File, Report) {
	t.Helper()
	dir := t.TempDir()
	cfg.Path = setting.Source(filepath.Join(dir, "source"))
	if err := os.WriteFile(string(cfg.Path), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return compilePath(t, cfg)
}

func compilePath(t testing.TB, cfg Config) (*File, Report) {
	t.Helper()
	dst := filepath.Join(t.TempDir(), "own.list")
	rep, err := Compile(context.Background(), "own", cfg, dst)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(dst)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, rep
}

// ask looks up a URL without scheme and returns the matches: category, "!" in
// front for an exception, and the entry.
func ask(t testing.TB, f *File, url string) []string {
	t.Helper()
	var q Query
	host, path := url, ""
	if i := strings.IndexAny(url, "/?"); i >= 0 {
		host, path = url[:i], url[i:]
	}
	q.SetURL(host, []byte(path))
	found, err := f.Lookup(&q, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range found {
		entry, _, _ := strings.Cut(f.Evidence(m), " in ")
		s := m.Category + " " + strings.Trim(entry, `"`)
		if m.Exception {
			s = "!" + s
		}
		got = append(got, s)
	}
	return got
}

func TestDomainCoversItselfAndSubdomains(t *testing.T) {
	f, _ := compileText(t, Config{Format: Domains}, "example.com\nwww.e.com\n.xxx\nD.com/\nE2.com. # note\n*.wild.com\n10.1.1.1\n[2001:DB8::1]\n2001:db8::2\nbücher.example\n")
	for url, want := range map[string][]string{
		"example.com":           {"own example.com"},
		"www.example.com":       {"own example.com"},
		"a.b.c.example.com/x":   {"own example.com"},
		"notexample.com":        nil,
		"example.com.au":        nil,
		"com":                   nil,
		"www.e.com":             {"own www.e.com"},
		"e.com":                 nil,
		"foo.xxx":               {"own xxx"},
		"d.com":                 {"own d.com"},
		"e2.com":                {"own e2.com"},
		"x.wild.com":            {"own wild.com"},
		"10.1.1.1":              {"own 10.1.1.1"},
		"1.1":                   nil,
		"2001:db8::1":           {"own 2001:db8::1"},
		"2001:db8:0::2":         {"own 2001:db8::2"},
		"xn--bcher-kva.example": {"own xn--bcher-kva.example"},
		"":                      nil,
		".":                     nil,
		"a..example.com":        {"own example.com"},
	} {
		if got := ask(t, f, url); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", url, got, want)
		}
	}
}

func TestURLMatchesAtBoundary(t *testing.T) {
	f, _ := compileText(t, Config{Format: Domains}, "example.com/foo\nexample.com/foo-bar\nexample.com/foo/aa/\nh.com/q?x=1\nhttp://s.com:81/a\nenc.com/%66oo%20b\ny.info/?here\n")
	for url, want := range map[string]int{
		"example.com/foo":           1,
		"example.com/foo/bar":       1,
		"example.com/foo?x=1":       1,
		"example.com/foo&z":         1,
		"example.com/foo=1":         1,
		"www.example.com/foo/x":     1,
		"example.com/%66oo/x":       1,
		"example.com/a/../foo/x":    1,
		"example.com/a/%2e%2E/foo":  1,
		"example.com//foo":          1,
		"example.com/./foo/":        1,
		"example.com/FOO/x":         1,
		"example.com/foo/aa/x":      2,
		"example.com/foo-bar":       1,
		"example.com/foo-bar?":      1,
		"example.com/foo#x":         1,
		"example.com/foobar":        0,
		"example.com/foo.html":      0,
		"example.com/foo;x":         0,
		"example.com/":              0,
		"example.com":               0,
		"h.com/q?x=1":               1,
		"h.com/q?x=1&y":             1,
		"h.com/q?x=12":              0,
		"h.com/q":                   0,
		"s.com/a":                   1,
		"enc.com/foo%20b":           1,
		"y.info/?here":              1,
		"y.info/?here=2":            1,
		"y.info/?hereafter":         0,
		"example.com/foo/../../foo": 1,
		"example.com/" + strings.Repeat("a/", 3000) + strings.Repeat("../", 3000) + "foo": 1,
		"example.com/foo/" + strings.Repeat("a", 5000):                                    1,
		"example.com/foo?" + strings.Repeat("a", 5000):                                    1,
	} {
		if got := ask(t, f, url); len(got) != want {
			t.Errorf("%.60q: got %q, want %d", url, got, want)
		}
	}
}
