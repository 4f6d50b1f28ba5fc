package source

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.yaml.in/yaml/v4"

	"shuultuur/lib/setting"
	"shuultuur/list"
)

// A mirror answers with a status, or with content and its ETag, and counts.
type mirror struct {
	*httptest.Server
	content, tag, later string
	status              int
	asked, whole        int
	seen                http.Header
}

func mirrorOf(t *testing.T, content string) *mirror {
	m := &mirror{content: content}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.asked++
		m.seen = r.Header.Clone()
		if m.later != "" {
			w.Header().Set("Retry-After", m.later)
		}
		if m.status != 0 {
			w.WriteHeader(m.status)
			return
		}
		if m.tag != "" {
			w.Header().Set("ETag", m.tag)
			if r.Header.Get("If-None-Match") == m.tag {
				w.WriteHeader(http.StatusNotModified)
				return
			}
		}
		m.whole++
		_, _ = io.WriteString(w, m.content)
	}))
	t.Cleanup(m.Close)
	return m
}

// TestWhatOneAddressDoesNotHaveComesFromTheNext: whatever is wrong with the first.
func TestWhatOneAddressDoesNotHaveComesFromTheNext(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	for what, first := range map[string]func(*mirror){
		"it is good": nil, "404": func(m *mirror) { m.status = 404 }, "500": func(m *mirror) { m.status = 500 }, "429": func(m *mirror) { m.status, m.later = 429, "3600" },
		"a page": func(m *mirror) { m.content = "<!DOCTYPE html>\n<html><body>Sign in</body></html>" }, "nothing": func(m *mirror) { m.content = "" }, "too little": func(m *mirror) { m.content = lines(2) },
	} {
		a, b := mirrorOf(t, lines(10)), mirrorOf(t, lines(12))
		want := 12
		if first == nil {
			want = 10
		} else {
			first(a)
		}
		store := newStore(t)
		it := Item{Source: resolve(t, Config{URL: []string{a.URL, b.URL}, Minimum: 5}), Try: TryList("own", domains)}
		c, err := store.Update(t.Context(), "own", it)
		if err != nil || c.Entries != want || first == nil && b.asked > 0 {
			t.Errorf("%s: %d entries, %v; the mirror was asked %d times", what, c.Entries, err, b.asked)
		}
		if a.later != "" {
			if _, err := store.Update(t.Context(), "own", it); err != nil || a.asked != 1 {
				t.Errorf("%s: asked %d times, %v", what, a.asked, err)
			}
		}
	}
	_, err := newStore(t).Update(t.Context(), "own", Item{Source: resolve(t, Config{URL: []string{gone.URL, mirrorOf(t, "").URL}}), Try: TryList("own", domains)})
	if err == nil || !strings.Contains(err.Error(), "refused") || !strings.Contains(err.Error(), "has 0 entries") {
		t.Errorf("without a good address the error is %v, want what each has answered", err)
	}
}

// TestAnAddressIsAskedForItsOwnVersion: an ETag is sent to the server that gave it, and the list stays the
// same whichever address it came from.
func TestAnAddressIsAskedForItsOwnVersion(t *testing.T) {
	a, b := mirrorOf(t, lines(100)), mirrorOf(t, lines(100))
	a.tag, b.tag = `"a"`, `"b"`
	store := newStore(t)
	it := Item{Source: resolve(t, Config{URL: []string{a.URL, b.URL}}), Try: TryList("own", domains)}
	update := func(want bool) {
		t.Helper()
		if c, err := store.Update(t.Context(), "own", it); err != nil || c.Updated != want {
			t.Fatalf("updated: %v, %v; want %v", c.Updated, err, want)
		}
	}
	update(true)
	update(false)
	if a.whole != 1 || a.seen.Get("If-None-Match") != `"a"` {
		t.Errorf("the first was fetched %d times, and was asked for %q", a.whole, a.seen.Get("If-None-Match"))
	}
	a.status = 404
	update(false)
	if b.seen.Get("If-None-Match") != "" {
		t.Errorf("a mirror was asked for %q", b.seen.Get("If-None-Match"))
	}
	update(false)
	if b.whole != 1 || b.seen.Get("If-None-Match") != `"b"` {
		t.Errorf("the mirror was fetched %d times, and was asked for %q", b.whole, b.seen.Get("If-None-Match"))
	}
	b.content, b.tag = lines(20), `"c"`
	if _, err := store.Update(t.Context(), "own", it); err == nil || !strings.Contains(err.Error(), "shrunk") {
		t.Errorf("a mirror may shrink the list: %v", err)
	}
}

// TestARefusedVersionIsNotFetchedAgain: its server is asked whether it has another, and what was wrong
// stays known. By other settings it is tried again.
func TestARefusedVersionIsNotFetchedAgain(t *testing.T) {
	a := mirrorOf(t, lines(100))
	a.tag = `"good"`
	store := newStore(t)
	it := Item{Source: resolve(t, Config{URL: []string{a.URL}}), Try: TryList("own", domains)}
	if _, err := store.Update(t.Context(), "own", it); err != nil {
		t.Fatal(err)
	}
	good := a.content
	a.content, a.tag = lines(10), `"short"`
	for range 3 {
		_, err := store.Update(t.Context(), "own", it)
		if err == nil || !strings.Contains(err.Error(), "shrunk from 100 entries to 10") || a.whole != 2 {
			t.Fatalf("the server gave the list %d times, %v", a.whole, err)
		}
		if st, err := store.State("own"); err != nil || !strings.Contains(st.Problem, "shrunk") {
			t.Fatalf("the state is %+v, %v", st, err)
		}
	}
	a.content, a.tag = good, `"good"`
	if c, err := store.Update(t.Context(), "own", it); err != nil || c.Updated || a.whole != 3 {
		t.Fatalf("the old version is back: %+v, %v, given %d times", c, err, a.whole)
	}
	a.content, a.tag = lines(10), `"short"`
	if _, err := store.Update(t.Context(), "own", it); err == nil || a.whole != 4 {
		t.Fatalf("it is short again: %v, given %d times", err, a.whole)
	}
	it.Source = resolve(t, Config{URL: []string{a.URL}, Shrink: "100%"})
	if c, err := store.Update(t.Context(), "own", it); err != nil || !c.Updated || c.Entries != 10 {
		t.Errorf("by other settings: %+v, %v", c, err)
	}
}

// TestHeaderFieldsGoToTheServersOfTheListAlone: not where those redirect to, and not into state and errors.
func TestHeaderFieldsGoToTheServersOfTheListAlone(t *testing.T) {
	const secret = "s3cretThatNobodySees"
	other, list := mirrorOf(t, lines(10)), mirrorOf(t, lines(10))
	moved := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/here" {
			if r.Header.Get("X-Key") != secret {
				w.WriteHeader(403)
			}
			_, _ = io.WriteString(w, lines(10))
			return
		}
		http.Redirect(w, r, map[bool]string{true: "/here", false: other.URL}[r.URL.Path == "/own"], http.StatusFound)
	}))
	defer moved.Close()
	for _, at := range []string{list.URL, moved.URL + "/own", moved.URL + "/other"} {
		store := newStore(t)
		cfg := Config{URL: []string{at}, Headers: map[string]string{"Authorization": "Bearer " + secret, "x-key": secret}}
		if _, err := store.Update(t.Context(), "own", Item{Source: resolve(t, cfg), Try: TryList("own", domains)}); err != nil {
			t.Errorf("%s: %v", at, err)
		}
		b, err := os.ReadFile(filepath.Join(store.Dir, "own", stateOf))
		if err != nil || strings.Contains(string(b), secret) {
			t.Errorf("%s: the state is %s, %v", at, b, err)
		}
	}
	if list.seen.Get("Authorization") != "Bearer "+secret || list.seen.Get("X-Key") != secret {
		t.Errorf("the server of the list gets %v", list.seen)
	}
	if strings.Contains(fmt.Sprint(other.seen), secret) || other.seen.Get("User-Agent") == "" {
		t.Errorf("another server gets %v", other.seen)
	}
}

func TestAddressesAndHeaderFieldsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		`url: "http://a.example/"`: "", `url: ["http://a.example/", "http://b.example/"]`: "", `{url: "http://a.example/", headers: {Authorization: x, X-Key: y}}`: "",
		`url: ["http://a.example/", "ftp://b.example/"]`:                `url: "ftp://b.example/" is not a URL`,
		`url: ["http://a.example/", "http://a.example/"]`:               `there twice`,
		`{url: "http://a.example/", headers: {Host: x}}`:                `headers: "Host" is for the gateway`,
		`{url: "http://a.example/", headers: {"If-None-Match": x}}`:     `headers: "If-None-Match" is for the gateway`,
		`{url: "http://a.example/", headers: {"A B": x}}`:               `is not a header field`,
		`{url: "http://a.example/", headers: {"A": "x\r\nHost: evil"}}`: `is not a header field`,
		`headers: {A: x}`: `headers: is for lists that are fetched`,
	} {
		var c Config
		if err := yaml.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
		_, _, _, err := c.Resolve(list.Config{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	with := func(c Config) map[string]string {
		return setting.Powers(struct{ Lists map[string]Config }{map[string]Config{"a": c}}, "owner")
	}
	plain, secret := Config{URL: []string{"http://a.example/"}}, Config{URL: []string{"http://a.example/"}, Headers: map[string]string{"A": "x"}}
	moved := secret
	moved.URL = []string{"http://evil.example/"}
	if len(with(plain)) != 0 || len(with(secret)) == 0 || fmt.Sprint(with(secret)) == fmt.Sprint(with(moved)) {
		t.Errorf("an owner's are %v, with header fields %v, and at another address %v", with(plain), with(secret), with(moved))
	}
	var st State
	st.Busy = map[string]time.Time{"a": time.Now().Add(time.Hour), "b": time.Now().Add(1000 * time.Hour)}
	if !st.isBusy("a") || st.isBusy("b") || st.isBusy("c") {
		t.Error("an address is busy for as long as it says, and a time too far ahead is a fault of the clock")
	}
}

// TestATrialHasAnEnd: a version that takes too long to read is refused, and the one in use stays.
func TestATrialHasAnEnd(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{answer: func(_ int64, w io.Writer) { fmt.Fprint(w, plainHead+"Content-Length: 10\r\n\r\na.example\n") }}
		store := &Store{Dir: dir, Client: s.client(), wait: time.Second}
		_, err := store.Update(t.Context(), "own", Item{Source: resolve(t, Config{URL: []string{"http://lists.example/own"}}), Try: func(ctx context.Context, _ string) (c Content, err error) {
			<-ctx.Done()
			return c, ctx.Err()
		}})
		if err == nil || !strings.Contains(err.Error(), "takes longer than 10m0s") {
			t.Error(err)
		}
		store.Client.CloseIdleConnections()
		time.Sleep(time.Hour)
	})
}
