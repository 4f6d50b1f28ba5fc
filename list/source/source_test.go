package source

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/blake2b"

	"shuultuur/lib/setting"
	"shuultuur/list"
)

var anywhere = (&net.Dialer{}).DialContext

func never(string) bool { return false }

func newStore(t *testing.T) *Store {
	return &Store{Dir: t.TempDir(), Client: NewClient(nil, never, anywhere), wait: time.Millisecond}
}

// lines returns a list of n entries.
func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "host%d.example\n", i)
	}
	return b.String()
}

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

func resolve(t *testing.T, c Config) Source {
	t.Helper()
	src, _, ok, err := c.Resolve(list.Config{Format: list.Domains})
	if err != nil || !ok {
		t.Fatalf("Resolve(%+v): found %v, error %v", c, ok, err)
	}
	return src
}

func inUse(t *testing.T, s *Store) string {
	t.Helper()
	b, err := os.ReadFile(s.Path("ads"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var domains = list.Config{Format: list.Domains}

func TestMistakesOfASourceAreNamed(t *testing.T) {
	const at = "https://lists.example/ads"
	for _, c := range []struct {
		cfg  Config
		path string
		key  string
	}{
		{Config{Source: "nowhere"}, "", "source"},
		{Config{Source: "easylist", URL: []string{at}}, "", "url"},
		{Config{URL: []string{at}}, "ads.txt", "path"},
		{Config{URL: []string{"ftp://lists.example/ads"}}, "", "url"},
		{Config{URL: []string{"https:///ads"}}, "", "url"},
		{Config{URL: []string{at}, Every: time.Minute}, "", "every"},
		{Config{URL: []string{at}, Every: -time.Hour}, "", "every"},
		{Config{URL: []string{at}, SHA256: "abc"}, "", "sha256"},
		{Config{URL: []string{at}, Minimum: -1}, "", "minimum"},
		{Config{URL: []string{at}, Shrink: "20"}, "", "shrink"},
		{Config{URL: []string{at}, Shrink: "NaN%"}, "", "shrink"},
		{Config{URL: []string{at}, Shrink: "120%"}, "", "shrink"},
		{Config{URL: []string{at}, Limit: -1}, "", "limit"},
		{Config{Every: time.Hour}, "ads.txt", "every"},
		{Config{Minimum: 1}, "ads.txt", "minimum"},
	} {
		_, _, _, err := c.cfg.Resolve(list.Config{Path: setting.Source(c.path)})
		var s *setting.Error
		if !errors.As(err, &s) || s.Key != c.key {
			t.Errorf("%+v, path %q: got %v, want a mistake about %s", c.cfg, c.path, err, c.key)
		}
	}
}

func TestEveryCatalogueEntryResolves(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Catalogue() {
		_, cfg, ok, err := Config{Source: k.Name}.Resolve(list.Config{})
		if err != nil || !ok || cfg.Format != Rules && !slices.Contains(list.FormatNames(), string(cfg.Format)) || !strings.HasPrefix(k.URL, "https://") || k.Licence == "" || k.Size == "" || seen[k.Name] {
			t.Errorf("known list %+v: error %v, found %v, format %q", k, ok, err, cfg.Format)
		}
		seen[k.Name] = true
	}
}

func TestUnchangedIsNotFetchedTwice(t *testing.T) {
	var full, short atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") == `"1"` {
			short.Add(1)
			w.WriteHeader(http.StatusNotModified)
			return
		}
		full.Add(1)
		w.Header().Set("ETag", `"1"`)
		fmt.Fprint(w, lines(10))
	}))
	defer srv.Close()
	s := newStore(t)
	src := resolve(t, Config{URL: []string{srv.URL}})
	for i := range 3 {
		c, err := s.Update(t.Context(), "ads", Item{Source: src, Try: TryList("ads", domains)})
		if err != nil || c.Updated != (i == 0) || c.Entries != 10 {
			t.Fatalf("Update %d: got %+v, %v", i, c, err)
		}
	}
	if full.Load() != 1 || short.Load() != 2 {
		t.Errorf("%d whole answers and %d short ones, want 1 and 2", full.Load(), short.Load())
	}
	// A removed version is fetched again.
	if err := os.Remove(s.Path("ads")); err != nil {
		t.Fatal(err)
	}
	if c, err := s.Update(t.Context(), "ads", Item{Source: src, Try: TryList("ads", domains)}); err != nil || !c.Updated {
		t.Errorf("Update after the list was removed: got %+v, %v", c, err)
	}
}

// TestAPreviewedVersionIsUsedAndFetchedOnce: what a person was shown comes into use, though the
// server has something else by then, unless that was long ago or is not what the settings want.
func TestAPreviewedVersionIsUsedAndFetchedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*State, *Source)
		fetches int32
	}{
		"soon":           {func(*State, *Source) {}, 2},
		"long ago":       {func(st *State, _ *Source) { st.Seen.At = st.Seen.At.Add(-time.Hour) }, 3},
		"from elsewhere": {func(_ *State, src *Source) { src.URL += "/other" }, 3},
		"cut off":        {func(st *State, _ *Source) { st.Seen.Size++ }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int32
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, lines(10*int(n.Add(1))))
			}))
			defer srv.Close()
			s, src := newStore(t), resolve(t, Config{URL: []string{srv.URL}})
			it := Item{Source: src, Try: TryList("ads", domains)}
			if _, err := s.Update(t.Context(), "ads", it); err != nil {
				t.Fatal(err)
			}
			newer, err := s.Newer(t.Context(), "ads", it, func(file string) error {
				if shown, err := os.ReadFile(file); err != nil || string(shown) != lines(20) {
					t.Errorf("Newer showed the file %.40q, %v", shown, err)
				}
				return nil
			})
			if !newer || err != nil || inUse(t, s) != lines(10) {
				t.Fatalf("Newer: got %v, %v, or the list in use changed", newer, err)
			}
			st, err := s.State("ads")
			if err != nil {
				t.Fatal(err)
			}
			c.change(&st, &it.Source)
			if err := s.save("ads", st); err != nil {
				t.Fatal(err)
			}
			got, err := s.Update(t.Context(), "ads", it)
			if err != nil || !got.Updated || n.Load() != c.fetches || inUse(t, s) != lines(10*int(c.fetches)) {
				t.Errorf("Update: got %+v, %v after %d fetches, want %d", got, err, n.Load(), c.fetches)
			}
			if st, err := s.State("ads"); err != nil || st.Seen != nil {
				t.Errorf("the state still has the previewed download %+v, %v", st.Seen, err)
			}
			if _, err := os.Stat(filepath.Join(s.Dir, "ads", seenFile)); err == nil {
				t.Error("the file of the previewed download still exists")
			}
		})
	}
}

func TestABadVersionDoesNotReplaceAGoodOne(t *testing.T) {
	good := lines(100)
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter, r *http.Request)
		change func(*Source)
		want   string
	}{
		{"shrunken", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, lines(79)) }, nil, "shrunk from 100 entries to 79"},
		{"empty", func(http.ResponseWriter, *http.Request) {}, nil, "0 entries"},
		{"garbage", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.Repeat("\x00\xff !! \x01\n", 500)+lines(100))
		}, nil, "binary data"},
		{"lines of another format", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.Repeat("local-zone: \"x.example\" static\n", 20)+lines(100))
		}, nil, "20 of 120 lines are not valid domains, and of the version in use 0"},
		{"web page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprint(w, "<html>\n"+lines(200))
		}, nil, "is a web page"},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5000")
			fmt.Fprint(w, lines(200))
		}, nil, "unexpected EOF"},
		{"gone", http.NotFound, nil, "404"},
		{"broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, nil, "503"},
		{"too large", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, lines(5000)) }, func(s *Source) { s.Limit = 4000 }, "limit of 4000"},
		{"announced too large", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "1000000") }, func(s *Source) { s.Limit = 4000 }, "limit of 4000"},
		{"too few", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, lines(99)) }, func(s *Source) { s.Minimum = 100 }, "fewer than the minimum of 100"},
		{"other checksum", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, lines(101)) }, func(s *Source) { s.SHA256 = sum(lines(100)) }, "SHA-256"},
		{"redirects in circles", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", 302) }, nil, "redirects"},
		{"not modified, unasked", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }, nil, "304"},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, good) }
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r) }))
			defer srv.Close()
			s := newStore(t)
			src := resolve(t, Config{URL: []string{srv.URL}})
			if _, err := s.Update(t.Context(), "ads", Item{Source: src, Try: TryList("ads", domains)}); err != nil {
				t.Fatal(err)
			}
			answer = c.answer
			if c.change != nil {
				c.change(&src)
			}
			got, err := s.Update(t.Context(), "ads", Item{Source: src, Try: TryList("ads", domains)})
			if err == nil || !strings.Contains(err.Error(), c.want) || got.Updated {
				t.Errorf("got %+v, %v, want an error with %q", got, err, c.want)
			}
			if inUse(t, s) != good {
				t.Error("the good version is no longer in use")
			}
			st, err := s.State("ads")
			if err != nil || !strings.Contains(st.Problem, c.want) || len(st.Versions) != 1 {
				t.Errorf("state after the failure: got %+v, %v", st, err)
			}
			left, err := filepath.Glob(filepath.Join(s.Dir, "ads", "new-*"))
			if err != nil || len(left) > 0 {
				t.Errorf("Update left temporary files: %q, %v", left, err)
			}
		})
	}
}

func TestAFailureThatPassesIsTriedAgain(t *testing.T) {
	var n atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch n.Add(1) {
		case 1:
			w.WriteHeader(http.StatusBadGateway)
		case 2: // ends in the middle: nothing of it may stay
			w.Header().Set("Content-Length", "100000")
			fmt.Fprint(w, lines(300))
		default:
			fmt.Fprint(w, lines(10))
		}
	}))
	defer srv.Close()
	s := newStore(t)
	c, err := s.Update(t.Context(), "ads", Item{Source: resolve(t, Config{URL: []string{srv.URL}}), Try: TryList("ads", domains)})
	if err != nil || c.Entries != 10 || inUse(t, s) != lines(10) {
		t.Errorf("Update after failed attempts: got %+v, %v", c, err)
	}
	if n.Load() != attempts {
		t.Errorf("%d attempts to fetch, want %d", n.Load(), attempts)
	}
}

func TestChecksumsOfTheServerAreCompared(t *testing.T) {
	body, sums := lines(10), ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/SUMS" && sums == "" {
			http.NotFound(w, r)
			return
		}
		if r.URL.Path == "/SUMS" {
			fmt.Fprint(w, sums)
			return
		}
		fmt.Fprint(w, body)
	}))
	defer srv.Close()
	src := resolve(t, Config{URL: []string{srv.URL + "/ads.txt"}})
	src.Sums = srv.URL + "/SUMS"
	for _, c := range []struct{ name, sums, want string }{
		{"right", sum("x") + "  other.txt\n" + sum(body) + "  ads.txt\n", ""},
		{"alone", sum(body) + "\n", ""},
		{"binary mark", strings.ToUpper(sum(body)) + " *./ads.txt\n", ""},
		{"wrong", sum("x") + "  ads.txt\n", "checksum is not the one"},
		{"as BSD writes it", "SHA256 (ads.txt) = " + sum(body) + "\n", ""},
		{"wrong, as BSD writes it", "SHA256 (ads.txt) = " + sum("x") + "\n", "checksum is not the one"},
		{"behind a byte order mark", "\ufeff" + sum(body) + "  ads.txt\r\n", ""},
		{"a page", "<!DOCTYPE html>\n<title>Please sign in</title>\n<form action=/login></form>\n", "has no checksum of it"},
		{"an error text", "404: Not Found", "has no checksum of it"},
		{"an empty file", " ", "has no checksum of it"},
		{"one endless line", strings.Repeat("a", 1<<20), "too long"},
		{"digits of another length", sum(body)[:40] + "  ads.txt\n", "has no checksum of it"},
		{"offered for another file only", sum("x") + "  other.txt\n", "has no checksum of it"},
		{"not offered", "", "404"},
	} {
		sums = c.sums
		_, err := newStore(t).Update(t.Context(), "ads", Item{Source: src, Try: TryList("ads", domains)})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// sign makes a signature as minisign does.
func sign(t *testing.T, key ed25519.PrivateKey, number, kind, comment string, content []byte) string {
	t.Helper()
	signed := content
	if kind == "ED" {
		sum := blake2b.Sum512(content)
		signed = sum[:]
	}
	sig := ed25519.Sign(key, signed)
	b64 := base64.StdEncoding.EncodeToString
	text := "untrusted comment: x\n" + b64([]byte(kind+number+string(sig))) + "\n"
	if comment != "" {
		text += "trusted comment: " + comment + "\n" + b64(ed25519.Sign(key, append(sig, comment...))) + "\n"
	}
	return text
}

func TestOnlySignedContentIsTaken(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	const number = "12345678"
	body := lines(10)
	signature := ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/ads.txt":
			fmt.Fprint(w, body)
		case signature == "":
			http.NotFound(w, r)
		default:
			fmt.Fprint(w, signature)
		}
	}))
	defer srv.Close()
	src := resolve(t, Config{URL: []string{srv.URL + "/ads.txt"}, Key: base64.StdEncoding.EncodeToString([]byte("Ed" + number + string(public)))})
	for _, c := range []struct{ name, signature, want string }{
		{"by its digest", sign(t, private, number, "ED", "timestamp:1", []byte(body)), ""},
		{"as a whole", sign(t, private, number, "Ed", "timestamp:1", []byte(body)), ""},
		{"as signify does", sign(t, private, number, "Ed", "", []byte(body)), ""},
		{"other content", sign(t, private, number, "ED", "timestamp:1", []byte(lines(11))), "not one of this content"},
		{"other key", sign(t, other, number, "ED", "timestamp:1", []byte(body)), "not one of this content"},
		{"other number", sign(t, private, "87654321", "ED", "timestamp:1", []byte(body)), "by the key 3132333435363738"},
		{"other comment", strings.Replace(sign(t, private, number, "ED", "timestamp:1", []byte(body)), "stamp:1", "stamp:2", 1), "comment has been changed"},
		{"no second signature", strings.Join(strings.SplitAfter(sign(t, private, number, "ED", "c", []byte(body)), "\n")[:3], ""), "comment has been changed"},
		{"no signature at all", "<html>", "not a signature"},
		{"a page", "<!DOCTYPE html>\n<title>Please sign in</title>\n" + strings.Repeat("<p>", 5000), "not a signature"},
		{"an empty file", " ", "not a signature"},
		{"a comment alone", "untrusted comment: x\n", "not a signature"},
		{"half of one", sign(t, private, number, "ED", "", []byte(body))[:60], "not a signature"},
		{"none offered", "", "there is none"},
	} {
		signature = c.signature
		got, err := newStore(t).Update(t.Context(), "ads", Item{Source: src, Try: TryList("ads", domains)})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || got.Updated != (c.want == "") {
			t.Errorf("%s: got %+v, %v, want %q", c.name, got, err, c.want)
		}
	}
}

// TestWhatComesInPlaceOfAChecksumIsAFault: whatever a server answers that is no checksum and no signature,
// the version in use stays, the state says what is wrong, and nothing is taken before there is a right one.
func TestWhatComesInPlaceOfAChecksumIsAFault(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	const number = "12345678"
	var mu sync.Mutex // guards the next two
	var body string
	var instead http.HandlerFunc
	serve := func(text string, answer http.HandlerFunc) {
		mu.Lock()
		defer mu.Unlock()
		body, instead = text, answer
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.URL.Path == "/login":
			fmt.Fprint(w, "<!DOCTYPE html><form action=/login><input name=password></form>")
		case r.URL.Path == "/ads.txt":
			fmt.Fprint(w, body)
		case instead != nil:
			instead(w, r)
		case r.URL.Path == "/SUMS":
			fmt.Fprint(w, sum(body)+"  ads.txt\n")
		default:
			fmt.Fprint(w, sign(t, private, number, "ED", "x", []byte(body)))
		}
	}))
	defer srv.Close()
	summed := resolve(t, Config{URL: []string{srv.URL + "/ads.txt"}})
	summed.Sums = srv.URL + "/SUMS"
	signed := resolve(t, Config{URL: []string{srv.URL + "/ads.txt"}, Key: base64.StdEncoding.EncodeToString([]byte("Ed" + number + string(public)))})
	for kind, src := range map[string]Source{"checksum": summed, "signature": signed} {
		s := newStore(t)
		it := Item{Source: src, Try: TryList("ads", domains)}
		serve(lines(10), nil)
		if _, err := s.Update(t.Context(), "ads", it); err != nil {
			t.Fatal(err)
		}
		for what, answer := range map[string]http.HandlerFunc{
			"404": http.NotFound,
			"404 with the old one": func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(404)
				fmt.Fprint(w, sum(body)+"  ads.txt\n")
			},
			"401":                        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) },
			"410":                        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(410) },
			"500":                        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
			"204":                        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
			"304":                        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) },
			"a redirect to a login page": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusFound) },
			"a redirect without a place": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(302) },
			"nothing":                    func(http.ResponseWriter, *http.Request) {},
			"a page":                     func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html><body>404</body></html>") },
			"the list again":             func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) },
			"that of the version before": func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/SUMS" {
					fmt.Fprint(w, sum(lines(10))+"  ads.txt\n")
				} else {
					fmt.Fprint(w, sign(t, private, number, "ED", "x", []byte(lines(10))))
				}
			},
			"the end of the connection": func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) },
		} {
			serve(lines(11), answer)
			got, err := s.Update(t.Context(), "ads", it)
			st, failed := s.State("ads")
			if err == nil || got.Updated || failed != nil || st.Problem == "" || st.inUse() == nil || st.inUse().SHA256 != sum(lines(10)) {
				t.Errorf("%s in place of a %s: %+v, %v; the state is %+v, %v", what, kind, got, err, st, failed)
			}
		}
		serve(lines(11), nil)
		if got, err := s.Update(t.Context(), "ads", it); err != nil || !got.Updated {
			t.Errorf("the right %s: %+v, %v", kind, got, err)
		}
	}
}

// TestAKeyThatComesLaterIsAskedFor: that a server says nothing has changed is no signature.
func TestAKeyThatComesLaterIsAskedFor(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	const number = "12345678"
	signature, whole := "", 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/ads.txt" && signature == "":
			http.NotFound(w, r)
		case r.URL.Path != "/ads.txt":
			fmt.Fprint(w, signature)
		case r.Header.Get("If-None-Match") != "":
			w.WriteHeader(http.StatusNotModified)
		default:
			whole++
			w.Header().Set("ETag", `"1"`)
			fmt.Fprint(w, lines(10))
		}
	}))
	defer srv.Close()
	s := newStore(t)
	update := func(key string) error {
		_, err := s.Update(t.Context(), "ads", Item{Source: resolve(t, Config{URL: []string{srv.URL + "/ads.txt"}, Key: key}), Try: TryList("ads", domains)})
		return err
	}
	key := base64.StdEncoding.EncodeToString([]byte("Ed" + number + string(public)))
	if err := errors.Join(update(""), update("")); err != nil || whole != 1 {
		t.Fatalf("without a key it was fetched %d times: %v", whole, err)
	}
	if err := update(key); err == nil || !strings.Contains(err.Error(), "there is none") {
		t.Errorf("with a key, and no signature: %v", err)
	}
	signature = sign(t, private, number, "ED", "x", []byte(lines(10)))
	if err := errors.Join(update(key), update(key), update(key)); err != nil || whole != 3 {
		t.Errorf("with a key and its signature it was fetched %d times, want 3: %v", whole, err)
	}
}

func TestAVersionThatLosesACategoryIsRefused(t *testing.T) {
	body := "entry,category\na.com,games\nb.com,news\n"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
	defer srv.Close()
	s, cfg := newStore(t), list.Config{Format: "csv"}
	for _, c := range []struct{ shrink, body, want string }{
		{"", body, ""},
		{"", "entry,category\na.com,games\nb.com,games\nc.com,sport\n", `lost the category "news"`},
		{"100%", "entry,category\na.com,games\nb.com,games\nc.com,sport\n", ""},
	} {
		body = c.body
		got, err := s.Update(t.Context(), "x", Item{Source: resolve(t, Config{URL: []string{srv.URL}, Shrink: c.shrink}), Try: TryList("x", cfg)})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || got.Updated != (c.want == "") {
			t.Errorf("%q with shrink %q: got %+v, %v, want %q", c.body, c.shrink, got, err, c.want)
		}
	}
}

func FuzzSignature(f *testing.F) {
	public, private, _ := ed25519.GenerateKey(nil)
	k := &publicKey{number: [numberSize]byte([]byte("12345678")), key: public}
	f.Add([]byte("untrusted comment: x\nRWQ=\ntrusted comment: y\nAAAA\n"))
	content := filepath.Join(f.TempDir(), "content")
	if err := os.WriteFile(content, []byte("a.com\n"), 0o644); err != nil {
		f.Fatal(err)
	}
	file, err := os.Open(content)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { file.Close() })
	want := ed25519.Sign(private, []byte("a.com\n"))
	f.Fuzz(func(t *testing.T, signature []byte) {
		if k.check(signature, file) == nil && !bytes.Contains(signature, []byte(base64.StdEncoding.EncodeToString([]byte("Ed12345678"+string(want))))) {
			t.Errorf("check accepted the signature %q", signature)
		}
	})
}

func TestVersionsAreKeptAndOneCanGoBack(t *testing.T) {
	n := 10
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, lines(n)) }))
	defer srv.Close()
	s := newStore(t)
	src := resolve(t, Config{URL: []string{srv.URL}})
	update := func(want bool) {
		t.Helper()
		if c, err := s.Update(t.Context(), "ads", Item{Source: src, Try: TryList("ads", domains)}); err != nil || c.Updated != want {
			t.Fatalf("with %d lines: %+v, %v, want taken %v", n, c, err, want)
		}
	}
	for n = 10; n < 16; n++ {
		update(true)
	}
	st, err := s.State("ads")
	if err != nil || len(st.Versions) != kept+1 || !st.Versions[0].Current || st.Versions[0].Entries != 15 {
		t.Fatalf("state with kept versions: got %+v, %v", st, err)
	}
	for want := 14; want >= 12; want-- {
		if v, err := s.Rollback("ads"); err != nil || v.Entries != want || inUse(t, s) != lines(want) {
			t.Fatalf("rolled back to %+v, %v, want %d entries", v, err, want)
		}
	}
	if v, err := s.Rollback("ads"); err == nil {
		t.Errorf("Rollback beyond the oldest version returned %+v", v)
	}
	n = 15
	update(false) // one that was rolled back
	n = 16
	update(true)
	if inUse(t, s) != lines(16) {
		t.Error("Update after a rollback did not put the newer version into use")
	}
}

func TestTheParentIsAskedAndPrivateAddressesAreNot(t *testing.T) {
	asked := ""
	parent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		fmt.Fprint(w, lines(10))
	}))
	defer parent.Close()
	u, err := url.Parse(parent.URL)
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	refuse := (&net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		tried++
		return fmt.Errorf("%s is private", address)
	}}).DialContext
	s := newStore(t)
	s.Client = NewClient(u, func(host string) bool { return host == "127.0.0.1" }, refuse)
	if _, err := s.Update(t.Context(), "ads", Item{Source: resolve(t, Config{URL: []string{"http://lists.example/ads"}}), Try: TryList("ads", domains)}); err != nil || asked != "http://lists.example/ads" {
		t.Errorf("fetch through the parent: the parent got %q, error %v", asked, err)
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	if _, err := s.Update(t.Context(), "own", Item{Source: resolve(t, Config{URL: []string{other.URL}}), Try: TryList("own", domains)}); err == nil || !strings.Contains(err.Error(), "is private") || tried != 1 {
		t.Errorf("beside the parent: got %v after %d attempts, want a refusal after one", err, tried)
	}
}

func TestCertificatesAreChecked(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, lines(10)) }))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	_, err := newStore(t).Update(t.Context(), "ads", Item{Source: resolve(t, Config{URL: []string{srv.URL}}), Try: TryList("ads", domains)})
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v, want a certificate that is not trusted", err)
	}
}

func TestAPasswordIsNotWrittenDown(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "hunter2" || r.URL.RawQuery != "" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, lines(10))
	}))
	defer srv.Close()
	s := newStore(t)
	at := strings.Replace(srv.URL, "http://", "http://me:hunter2@", 1)
	for _, more := range []string{"", "?broken"} {
		src := resolve(t, Config{URL: []string{at + "/" + more}})
		_, err := s.Update(t.Context(), "ads", Item{Source: src, Try: TryList("ads", domains)})
		if (err == nil) != (more == "") || err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("URL with a password and %q: got %v", more, err)
		}
	}
	b, err := os.ReadFile(filepath.Join(s.Dir, "ads", stateOf))
	if err != nil || strings.Contains(string(b), "hunter2") {
		t.Errorf("the state contains the password: %s, %v", b, err)
	}
}

func TestOneUpdateAtATime(t *testing.T) {
	s := newStore(t)
	unlock, err := s.lock("ads")
	if err != nil {
		t.Fatal(err)
	}
	src := resolve(t, Config{URL: []string{"http://lists.example/"}})
	if _, err := s.Update(t.Context(), "ads", Item{Source: src, Try: TryList("ads", domains)}); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("got %v, want that another is at work", err)
	}
	unlock()
}

func TestAnUpdateThatIsStoppedSaysNothingAboutTheList(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() }))
	defer srv.Close()
	s := newStore(t)
	if _, err := s.Update(ctx, "ads", Item{Source: resolve(t, Config{URL: []string{srv.URL}}), Try: TryList("ads", domains)}); err == nil {
		t.Error("Update with a canceled context returned no error")
	}
	if st, err := s.State("ads"); err != nil || st.Problem != "" || !st.Checked.IsZero() {
		t.Errorf("state after cancellation: got %+v, %v, want it unchanged", st, err)
	}
}

func TestDueAfterItsTime(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	const at = "https://lists.example/"
	some := []Version{{File: "v", Current: true}}
	for _, c := range []struct {
		name string
		st   State
		ago  time.Duration
		part float64
		want bool
	}{
		{"just asked", State{URL: at, Versions: some}, time.Minute, 0, false},
		{"early in the row", State{URL: at, Versions: some}, 18 * time.Hour, 0, true},
		{"too early", State{URL: at, Versions: some}, 17 * time.Hour, 0, false},
		{"a day ago", State{URL: at, Versions: some}, 24 * time.Hour, 0.5, true},
		{"a day ago, late in the row", State{URL: at, Versions: some}, 24 * time.Hour, 1, false},
		{"late in the row, its turn", State{URL: at, Versions: some}, 30 * time.Hour, 1, true},
		{"failed an hour ago", State{URL: at, Versions: some, Problem: "x", Failures: 1}, time.Hour, 0.5, true},
		{"failed just now", State{URL: at, Versions: some, Problem: "x", Failures: 1}, 50 * time.Minute, 0.5, false},
		{"nothing yet, failed once", State{URL: at, Problem: "x", Failures: 1}, 5 * time.Second, 0.5, true},
		{"nothing yet, failed just now", State{URL: at, Problem: "x", Failures: 1}, 3 * time.Second, 0, false},
		{"nothing yet, failed four times", State{URL: at, Problem: "x", Failures: 4}, 40 * time.Second, 0.5, true},
		{"nothing yet, failed four times just now", State{URL: at, Problem: "x", Failures: 4}, 20 * time.Second, 0, false},
		{"nothing yet, failed for days", State{URL: at, Problem: "x", Failures: 4000}, 10 * time.Minute, 0.5, true},
		{"nothing yet, failed for days, just now", State{URL: at, Problem: "x", Failures: 4000}, 7 * time.Minute, 0, false},
		{"nothing yet, of an older release", State{URL: at, Problem: "x"}, 10 * time.Minute, 0.5, true},
		{"another address", State{URL: "https://old.example/", Versions: some}, time.Minute, 0, true},
		{"in the future", State{URL: at, Versions: some}, -time.Minute, 0, true},
		{"later, says the server", State{URL: at, Versions: some, Problem: "x", Later: now.Add(time.Minute)}, 30 * time.Hour, 0, false},
		{"later has come", State{URL: at, Versions: some, Problem: "x", Later: now}, 30 * time.Hour, 0, true},
		{"later than a server may ask for", State{URL: at, Versions: some, Problem: "x", Later: now.AddDate(1, 0, 0)}, 30 * time.Hour, 0, true},
		{"later, from another address", State{URL: "https://old.example/", Versions: some, Later: now.Add(time.Minute)}, time.Minute, 0, true},
	} {
		c.st.Checked = now.Add(-c.ago)
		if got := c.st.Due(Source{URL: at, Every: 24 * time.Hour}, c.part, now); got != c.want {
			t.Errorf("%s: due %v, want %v", c.name, got, c.want)
		}
	}
	if !(State{}).Due(Source{URL: at, Every: time.Hour}, 1, now) {
		t.Error("a list that was never fetched is not due")
	}
}

func TestAnEmptyListHasItsCategories(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		rest list.Config
		want []string
	}{
		{Config{Source: "stevenblack"}, list.Config{}, []string{"ads"}},
		{Config{Source: "stevenblack"}, list.Config{Category: "x/../y"}, []string{"x/../y"}},
		{Config{Source: "ut1-adult"}, list.Config{}, []string{"adult"}},
		{Config{Source: "ut1-adult"}, list.Config{Category: "bad"}, []string{"bad"}},
		{Config{Source: "ut1"}, list.Config{}, ut1Categories()},
	} {
		s := newStore(t)
		src, cfg, _, err := c.cfg.Resolve(c.rest)
		if err != nil {
			t.Fatal(err)
		}
		dst := filepath.Join(t.TempDir(), "ads.list")
		if err := s.Empty(t.Context(), "ads", src, cfg, dst); err != nil {
			t.Fatal(err)
		}
		f, err := list.Open(dst)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Categories(); !slices.Equal(got, c.want) || f.Len() != 0 {
			t.Errorf("%+v: categories %q and %d entries, want %q", c.cfg, got, f.Len(), c.want)
		}
		f.Close()
	}
}

func TestADamagedStateIsAnErrorAndLeadsNowhereElse(t *testing.T) {
	for _, text := range []string{"", "{", `{"Versions":[{"File":"../../secret"}]}`, `{"Versions":[{"File":"current"}]}`, `[]`} {
		s := newStore(t)
		if err := os.MkdirAll(filepath.Join(s.Dir, "ads"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.Dir, "ads", stateOf), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if st, err := s.State("ads"); err == nil {
			t.Errorf("State of a file with %q: got %+v, want an error", text, st)
		}
	}
}

func FuzzSums(f *testing.F) {
	f.Add(sum("a") + "  ads.txt\n")
	f.Add("MD5 (ads.txt) = D41D8CD98F00B204E9800998ECF8427E\n")
	f.Add("d41d8cd98f00b204e9800998ecf8427e *ads.txt\r\n\n# no\n")
	f.Fuzz(func(t *testing.T, text string) {
		found, err := parseSums(strings.NewReader(text), "ads.txt")
		if err != nil {
			return
		}
		for _, x := range found {
			if !strings.Contains(strings.ToLower(text), x) {
				t.Errorf("the text lacks %q: %q", x, text)
			}
		}
	})
}
