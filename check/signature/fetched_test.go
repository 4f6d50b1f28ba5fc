//go:build !small

package signature

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/list/source"
)

// tarball packs files, given as alternating names and contents.
func tarball(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for i := 0; i < len(files); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: files[i], Mode: 0o644, Size: int64(len(files[i+1])), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRulesAreFetchedWithTheFilesThatTheyName(t *testing.T) {
	var content atomic.Value
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content.Load().([]byte)) }))
	defer srv.Close()
	const script = `function init() return {} end
		function match() return HttpGetRequestHeader("Host") == "a.example" and 1 or 0 end`
	first := tarball(t,
		"rules/classification.config", "config classification: strange-things,Strange things,2\n",
		"rules/bad.lst", "L2JhZA==\n", // /bad
		"rules/yes.lua", script,
		"rules/a.rules", `alert http any any -> any any (http.uri; dataset:isset,bad,type string,load bad.lst; classtype:strange-things; sid:1;)
alert http any any -> any any (http.uri; content:"/bad"; lua:yes.lua; sid:2;)
`)
	content.Store(first)
	cfg := Config{Sources: map[string]source.Config{"own": {URL: []string{srv.URL + "/rules.tar.gz"}, Shrink: "60%"}}}
	data := t.TempDir()
	var last *Check
	build := func() *Check {
		t.Helper()
		c, err := New(cfg, Parts{Previous: last, Now: time.Now, Data: data})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range c.Mistakes() {
			t.Error(m)
		}
		last = c
		return c
	}
	store := source.In(data, source.NewClient(nil, func(string) bool { return false }, (&net.Dialer{}).DialContext))
	update := func(c *Check) (source.Change, error) {
		return store.Update(t.Context(), "own", c.Fetched()["own"])
	}
	bad := conversation{request: "GET /bad HTTP/1.1\nHost: a.example\n\n"}
	worse := conversation{request: "GET /worse HTTP/1.1\nHost: a.example\n\n"}

	c := build()
	if p := c.Problems(); len(p) != 1 || !strings.Contains(p[0], "own not fetched yet") {
		t.Errorf("problems before anything is fetched: %q", p)
	}
	if got, err := update(c); err != nil || !got.Updated || got.Entries != 2 {
		t.Fatalf("the first fetch returned %+v, %v", got, err)
	}
	c = build()
	if names := judge(t, c, nil, "x", bad); !has(names, "strange-things") || !has(names, "2") {
		t.Errorf("found %q; want the rule with a dataset and the one with a script", names)
	}

	// A page of a captive portal, and a version that lacks most rules, are refused.
	for _, no := range []string{"<html>please log in</html>", "# nothing\n", "alert nonsense\nalert more\n"} {
		content.Store([]byte(no))
		if got, err := update(c); err == nil || got.Updated {
			t.Errorf("the fetched content %q was accepted", no)
		}
	}
	if names := judge(t, build(), nil, "x", bad); !has(names, "2") {
		t.Errorf("after failed fetches the request found %q", names)
	}

	// A newer version changes the dataset, too.
	content.Store(tarball(t, "rules/worse.lst", "L3dvcnNl\n", "rules/a.rules", `alert http any any -> any any (http.uri; dataset:isset,bad,type string,load worse.lst; sid:1;)`))
	if got, err := update(c); err != nil || !got.Updated || got.Was != 2 {
		t.Fatalf("fetching a newer version returned %+v, %v", got, err)
	}
	c = build()
	if was, is := judge(t, c, nil, "x", bad), judge(t, c, nil, "x", worse); has(was, "1") || !has(is, "1") {
		t.Errorf("with the newer version the old value found %q and the new one %q", was, is)
	}
	if _, err := store.Rollback("own"); err != nil {
		t.Fatal(err)
	}
	if names := judge(t, build(), nil, "x", bad); !has(names, "1") || !has(names, "2") {
		t.Errorf("after going back the request found %q", names)
	}
}

func TestMistakesOfRuleSourcesAreNamed(t *testing.T) {
	for want, cfg := range map[string]map[string]source.Config{
		"own: it has neither url nor source": {"own": {}},
		"own.source: ut1 is a list":          {"own": {Source: "ut1"}},
		"own.url: ":                          {"own": {URL: []string{"ftp://a.example/"}}},
		`"a/b" cannot name rules`:            {"a/b": {Source: "et-open"}},
	} {
		if _, err := Fetch(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Fetch returned %v, want an error with %q", err, want)
		}
	}
}

// TestDamagedRulesAreNotUsed: a fetched version that is no longer as it was fetched gives way to the
// one before, with a problem in /health, and is fetched again.
func TestDamagedRulesAreNotUsed(t *testing.T) {
	var content atomic.Value
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tag := `"` + content.Load().(string)[:20] + `"`
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("ETag", tag)
		_, _ = w.Write([]byte(content.Load().(string)))
	}))
	defer srv.Close()
	cfg := Config{Sources: map[string]source.Config{"own": {URL: []string{srv.URL + "/a.rules"}}}}
	data := t.TempDir()
	store := source.In(data, source.NewClient(nil, func(string) bool { return false }, (&net.Dialer{}).DialContext))
	build := func(previous *Check) (*Check, error) {
		return New(cfg, Parts{Previous: previous, Now: time.Now, Data: data})
	}
	c, err := build(nil)
	if err != nil {
		t.Fatal(err)
	}
	const rules = `alert http any any -> any any (http.uri; content:"/bad"; sid:1;)` + "\n"
	for _, version := range []string{"# the first version\n", "# the second version\n"} {
		content.Store(version + rules)
		if _, err := store.Update(t.Context(), "own", c.Fetched()["own"]); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(store.Path("own"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	bad := conversation{request: "GET /bad HTTP/1.1\nHost: a.example\n\n"}
	if c, err = build(nil); err != nil {
		t.Fatal(err)
	}
	if p := strings.Join(c.Problems(), "\n"); !has(judge(t, c, nil, "x", bad), "1") || !strings.Contains(p, "own: it is damaged") {
		t.Errorf("with an emptied file the rule of the version before does not match, or the problems do not say so: %q", p)
	}
	if got, err := store.Update(t.Context(), "own", c.Fetched()["own"]); err != nil || !got.Updated {
		t.Errorf("the next fetch returned %+v, %v", got, err)
	}
	if c, err = build(c); err != nil || len(c.Problems()) > 0 || !has(judge(t, c, nil, "x", bad), "1") {
		t.Errorf("after the next fetch: %v, problems %q", err, c.Problems())
	}
}
