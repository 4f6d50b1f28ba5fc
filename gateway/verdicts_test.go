package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

const withVerdicts = `listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
proxy: {private: [127.0.0.0/8]}
cache: {memory: 16MiB}
checks:
  phrase: {weighted: [words], banned: [banned], exception: [good]}
SIGNATURE
policies:
  - name: all
    LEARN
    rules:
      - {name: good, action: allow, category: [phrase/exceptionphrase]}
      - {name: words, action: block, category: [phrase], over: 100}
      - {name: banned, action: block, category: [phrase/bannedphrase]}
RULE
      - {name: unread, action: block, category: [unread]}
`

// When anything that decides about a body changes, in any way, the gateway judges the cached
// body again without fetching it.
func TestCachedBodiesAreJudgedByWhatDecidesToday(t *testing.T) {
	const page = "<html><title>x</title><p>Come to the casino and play.</p>"
	for name, c := range map[string]struct{ file, was, is string }{
		"a lower limit":           {"shuultuur.yaml", "over: 100", "over: 10"},
		"another action":          {"shuultuur.yaml", "action: block, category: [phrase], over: 100", "action: block, category: [phrase], over: 40"},
		"a rule that comes first": {"shuultuur.yaml", "      - {name: good", "      - {name: low, action: block, category: [phrase], over: 1}\n      - {name: good"},
		"heavier words":           {"words", "<50>", "<500>"},
		"another word":            {"words", "<casino>", "<play><400>\n<casino>"},
		"a banned word":           {"banned", "<nothing>", "<casino>"},
		"a signature":             {"own.rules", "no such text", "casino"},
	} {
		for _, learn := range []string{"", "learn: 1h"} {
			t.Run(name+" "+learn, func(t *testing.T) {
				var fetched atomic.Int64
				origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					fetched.Add(1)
					w.Header().Set("Cache-Control", "max-age=600")
					w.Header().Set("Content-Type", "text/html")
					io.WriteString(w, page)
				}))
				defer origin.Close()
				check, rule := "", ""
				if c.file == "own.rules" {
					check, rule = "  signature: {rules: [own.rules]}\n", "      - {name: rules, action: block, signature: [1000001]}\n"
				}
				settings := strings.NewReplacer("LEARN", learn, "SIGNATURE\n", check, "RULE\n", rule).Replace(withVerdicts)
				file := folder(t, map[string]string{
					"shuultuur.yaml": settings, "words": "<casino><50>\n", "banned": "<nothing>\n", "good": "<paradise>\n",
					"own.rules": `alert http any any -> any any (msg:"x"; flow:to_client; file.data; content:"no such text"; sid:1000001;)` + "\n",
				})
				g := serving(t, file)
				proxy := &url.URL{Scheme: "http", Host: g.ProxyAddr()}
				client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}}
				get := func() string {
					r, err := client.Get(origin.URL + "/a")
					if err != nil {
						t.Fatal(err)
					}
					defer r.Body.Close()
					_, _ = io.Copy(io.Discard, r.Body)
					return fmt.Sprint(r.StatusCode)
				}
				for range 3 {
					if got := get(); got != "200" {
						t.Fatalf("before the change: status %s, want 200", got)
					}
				}
				if n := verdictsOn(t, g, origin.URL+"/a"); learn == "" && n != 1 && check == "" {
					t.Errorf("the cache keeps %d verdicts, want 1", n)
				}
				at := filepath.Join(filepath.Dir(file), c.file)
				text, err := os.ReadFile(at)
				if err != nil {
					t.Fatal(err)
				}
				changed := strings.Replace(string(text), c.was, c.is, 1)
				if changed == string(text) {
					t.Fatal("the case changes nothing in the settings")
				}
				if err := os.WriteFile(at, []byte(changed), 0o644); err != nil {
					t.Fatal(err)
				}
				if err := g.Reload(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := get(); got != "403" {
					t.Errorf("after the change: status %s, want 403", got)
				}
				if n := fetched.Load(); n != 1 {
					t.Errorf("the origin was asked %d times, want once", n)
				}
			})
		}
	}
}

// verdictsOn returns the number of verdicts kept for the stored objects of a
// URL.
func verdictsOn(t *testing.T, g *Gateway, u string) (n int) {
	t.Helper()
	r, err := http.Get("http://" + g.AdminAddr() + "/cache/look?url=" + url.QueryEscape(u))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var look struct{ Verdicts int }
	if err := json.NewDecoder(r.Body).Decode(&look); err != nil {
		t.Fatal(err)
	}
	return look.Verdicts
}
