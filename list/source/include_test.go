package source

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/lib/setting"
	"shuultuur/list"
)

// TestListsIncludeWithinTheirServer has lists that name others: near ones are part of the version, and
// all else is reported and asked of nobody.
func TestListsIncludeWithinTheirServer(t *testing.T) {
	t.Parallel()
	var strange atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		strange.Add(1)
		fmt.Fprint(w, "||evil.example^\n")
	}))
	t.Cleanup(elsewhere.Close)
	t.Cleanup(func() {
		if n := strange.Load(); n > 1 { // the redirect is followed, and what comes is not read
			t.Errorf("another server was asked %d times", n)
		}
	})
	good := "! a list\n||a.example^\n||a2.example^\n||a3.example^\n||a4.example^\n"
	for name, c := range map[string]struct {
		main  string
		parts map[string]string
		want  string // entries that there are
		not   string
		asked int64 // at the list's server, for parts; -1 for any number
		bad   bool  // the version is refused
	}{
		"beside it":              {good + "!#include part.txt\n||z.example^\n", map[string]string{"/l/part.txt": "||b.example^"}, "b z", "", 1, false},
		"below it":               {good + "!#include sub/part.txt\n", map[string]string{"/l/sub/part.txt": "||b.example^\n!#include more.txt\n", "/l/sub/more.txt": "||c.example^\n"}, "b c", "", 2, false},
		"from the root":          {good + "!#include /other/part.txt\n", map[string]string{"/other/part.txt": "||b.example^\n"}, "b", "", 1, false},
		"the whole address":      {good + "!#include HERE/part.txt\n", map[string]string{"/part.txt": "||b.example^\n"}, "b", "", 1, false},
		"a block that holds":     {good + "!#if true\n!#include part.txt\n!#endif\n", map[string]string{"/l/part.txt": "||b.example^\n"}, "b", "", 1, false},
		"a block of others":      {good + "!#if env_firefox\n!#include part.txt\n!#endif\n", map[string]string{"/l/part.txt": "||b.example^\n"}, "", "b", 0, false},
		"a block without an end": {good + "!#include part.txt\n||z.example^\n", map[string]string{"/l/part.txt": "!#if env_firefox\n||b.example^\n"}, "z", "b", 1, false},
		"the end of another":     {good + "!#if env_firefox\n||y.example^\n!#else\n!#include part.txt\n||z.example^\n!#endif\n", map[string]string{"/l/part.txt": "!#else\n!#endif\n||b.example^\n"}, "b z", "y", 1, false},
		"above the root":         {good + "!#include ../../../../part.txt\n", map[string]string{"/part.txt": "||b.example^\n"}, "b", "", 1, false},
		"another server":         {good + "!#include ELSE/part.txt\n", nil, "", "evil", 0, false},
		"the same by //":         {good + "!#include //ELSEHOST/part.txt\n", nil, "", "evil", 0, false},
		"a user":                 {good + "!#include http://u:p@HOST/part.txt\n", map[string]string{"/part.txt": "||b.example^\n"}, "", "b", 0, false},
		"a redirect elsewhere":   {good + "!#include away.txt\n", nil, "", "evil", 1, false},
		"a file":                 {good + "!#include file:///etc/passwd\n", nil, "", "root", 0, false},
		"other schemes":          {good + "!#include gopher://HOST/x\n!#include data:text/plain,||evil.example^\n", nil, "", "evil", 0, false},
		"no address":             {good + "!#include a%zzb\n!#include\n", nil, "", "", 0, false},
		"itself":                 {good + "!#include list.txt\n", nil, "", "", 0, false},
		"a circle":               {good + "!#include part.txt\n", map[string]string{"/l/part.txt": "||b.example^\n!#include more.txt\n", "/l/more.txt": "||c.example^\n!#include part.txt\n"}, "b c", "", 2, false},
		"a page":                 {good + "!#include page.txt\n", map[string]string{"/l/page.txt": "<!DOCTYPE html><html><body>Sign in</body></html>"}, "", "", 1, false},
		"nothing there":          {good + "!#include gone.txt\n", nil, "", "", 1, false},
		"10,000":                 {good + strings.Repeat("!#include part.txt?N\n", 10_000), nil, "", "", 100, true},
		"too much":               {good + "!#include big.txt\n!#include big.txt?2\n", map[string]string{"/l/big.txt": strings.Repeat("||b.example^\n", 50_000)}, "b", "", 2, false},
		"depth":                  {good + "!#include deep1.txt\n", map[string]string{}, "d5", "d6", 5, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			main := c.main
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/l/list.txt" {
					w.Header().Set("ETag", `"1"`)
					fmt.Fprint(w, main)
					return
				}
				asked.Add(1)
				var n int
				text, ok := c.parts[r.URL.Path]
				switch {
				case ok:
					fmt.Fprint(w, text)
				case r.URL.Path == "/l/away.txt":
					http.Redirect(w, r, elsewhere.URL+"/part.txt", http.StatusFound)
				case strings.HasPrefix(r.URL.Path, "/l/deep"):
					fmt.Sscanf(r.URL.Path, "/l/deep%d.txt", &n)
					fmt.Fprintf(w, "||d%d.example^\n!#include deep%d.txt\n", n, n+1)
				default:
					http.NotFound(w, r)
				}
			}))
			defer srv.Close()
			main = strings.NewReplacer("HERE", srv.URL, "ELSEHOST", strings.TrimPrefix(elsewhere.URL, "http://"), "ELSE", elsewhere.URL, "HOST", strings.TrimPrefix(srv.URL, "http://")).Replace(main)
			for i := 0; strings.Contains(main, "?N\n") && i < 10_000; i++ {
				main = strings.Replace(main, "?N\n", fmt.Sprintf("?%d\n", i), 1)
			}
			s := newStore(t)
			src := Source{URL: srv.URL + "/l/list.txt", Every: time.Hour, Minimum: 1, Shrink: 0.2, Limit: 1 << 20}
			it := Item{Source: src, Includes: true, Try: TryList("x", list.Config{Format: list.Adblock, Fetched: true})}
			_, err := s.Update(t.Context(), "x", it)
			if (err != nil) != c.bad {
				t.Fatalf("update: %v", err)
			}
			if n := asked.Load(); c.asked >= 0 && n != c.asked {
				t.Errorf("its server was asked %d times for parts, want %d", n, c.asked)
			}
			if c.bad {
				return
			}
			text, err := os.ReadFile(s.Path("x"))
			if err != nil {
				t.Fatal(err)
			}
			file := t.TempDir() + "/x.list"
			report, err := list.Compile(context.Background(), "x", list.Config{Format: list.Adblock, Fetched: true, Path: setting.Source(s.Path("x"))}, file)
			if err != nil {
				t.Fatal(err)
			}
			f, err := list.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for _, x := range []struct {
				names string
				there bool
			}{{"a a4 " + c.want, true}, {c.not, false}} {
				for _, n := range strings.Fields(x.names) {
					if hits, err := f.Ask(n + ".example"); err != nil || len(hits) > 0 != x.there {
						t.Errorf("%s.example: %v, %v, want it there: %v\n%s", n, hits, err, x.there, text)
					}
				}
			}
			reported := report.Bad > 0
			if left := strings.Contains(string(text), "!#include"); left != (reported || name == "a block of others") {
				t.Errorf("a line is left: %v; lines are reported: %v", left, report.Problems)
			}
		})
	}
}

// TestWhatAListIncludesIsOfItsVersion: a change of a part alone makes a new version, a part that cannot
// be had keeps the one in use, and a checksum of the list is not one of its parts.
func TestWhatAListIncludesIsOfItsVersion(t *testing.T) {
	t.Parallel()
	part, failing := "||b.example^\n", false
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/list.txt":
			w.Header().Set("ETag", `"1"`)
			if r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			fmt.Fprint(w, "||a.example^\n!#include part.txt\n")
		case failing:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			if r.Header.Get("X-Key") != "secret" {
				t.Errorf("a part is asked for with %v", r.Header)
			}
			fmt.Fprint(w, part)
		}
	}))
	defer srv.Close()
	s := newStore(t)
	src := Source{URL: srv.URL + "/list.txt", Headers: map[string]string{"X-Key": "secret"}, Every: time.Hour, Minimum: 1, Shrink: 0.2, Limit: 1 << 20}
	it := Item{Source: src, Includes: true, Try: TryList("x", list.Config{Format: list.Adblock, Fetched: true})}
	update := func() (string, bool, error) {
		c, err := s.Update(t.Context(), "x", it)
		text, _ := os.ReadFile(s.Path("x"))
		return string(text), c.Updated, err
	}
	if text, updated, err := update(); err != nil || !updated || !strings.Contains(text, "b.example") {
		t.Fatalf("first: %q, %v, %v", text, updated, err)
	}
	if _, updated, err := update(); err != nil || updated {
		t.Errorf("the same again: %v, %v", updated, err)
	}
	part += "||c.example^\n"
	if text, updated, err := update(); err != nil || !updated || !strings.Contains(text, "c.example") {
		t.Errorf("a part has changed: %q, %v, %v", text, updated, err)
	}
	failing = true
	if text, updated, err := update(); err == nil || updated || !strings.Contains(text, "c.example") {
		t.Errorf("a part fails: %q, %v, %v", text, updated, err)
	}
	failing = false
	s = newStore(t)
	it.Source.SHA256 = sum("||a.example^\n!#include part.txt\n")
	if text, updated, err := update(); err != nil || strings.Contains(text, "b.example") {
		t.Errorf("with a checksum: %q, %v, %v", text, updated, err)
	}
}
