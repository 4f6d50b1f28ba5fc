package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"shuultuur/gateway"
)

// The commands act on a running gateway: warmed URLs are stored, and purged ones are fetched
// again.
func TestCacheIsWarmedLookedIntoAndPurged(t *testing.T) {
	var mu sync.Mutex
	fetched := map[string]int{}
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		fetched[r.URL.Path]++
		switch r.URL.Path {
		case "/absent":
			http.NotFound(w, r)
			return
		case "/mine":
			w.Header().Set("Cache-Control", "private")
		default:
			w.Header().Set("Cache-Control", "max-age=3600")
			w.Header().Set("Cache-Tag", "pictures")
		}
		fmt.Fprint(w, r.URL.Path)
	}))
	t.Cleanup(origin.Close)

	dir := t.TempDir()
	const settings = "listen: {proxy: %q, admin: %q}\ndata: %s\nproxy: {private: [127.0.0.0/8]}\ncache: {memory: 8MiB}\npolicies: [{name: all}]\n"
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	ctx, stop := context.WithCancel(context.Background())
	g, err := gateway.New(ctx, write("shuultuur.yaml", fmt.Sprintf(settings, "127.0.0.1:0", "127.0.0.1:0", filepath.Join(dir, "data"))), slog.New(slog.DiscardHandler))
	if err != nil {
		stop()
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- g.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	running := write("running.yaml", fmt.Sprintf(settings, g.ProxyAddr(), g.AdminAddr(), filepath.Join(dir, "data")))
	at := func(path string) string { return origin.URL + path }
	urls := write("urls", strings.Join([]string{"# of the morning", "", at("/a/1"), " " + at("/a/2"), at("/b"), at("/mine"), at("/absent"), "nothing"}, "\n"))

	for _, step := range []struct {
		args   []string
		status int
		want   string // part of the output
	}{
		{[]string{"warm", urls}, 1, "stored 3, had 0, cannot be stored 1, failed 2"},
		{[]string{"warm", urls}, 1, "stored 0, had 3, cannot be stored 1, failed 2"},
		{[]string{"look", at("/a/1")}, 0, "fresh for"},
		{[]string{"purge", "url", at("/a/1")}, 0, "purged url"},
		{[]string{"look", at("/a/1")}, 1, "nothing is stored"},
		{[]string{"warm", urls}, 1, "stored 1, had 2"},
		{[]string{"purge", "prefix", at("/a/*")}, 0, "purged prefix"},
		{[]string{"look", at("/b")}, 0, "fresh for"},
		{[]string{"warm", urls}, 1, "stored 2, had 1"},
		{[]string{"purge", "tag", "pictures"}, 0, "purged tag"},
		{[]string{"warm", urls}, 1, "stored 3, had 0"},
		{[]string{"purge", "host", "127.0.0.1"}, 0, "purged host"},
		{[]string{"warm", urls}, 1, "stored 3, had 0"},
		{[]string{"purge", "url", "nothing"}, 1, "is not a URL"},
		{[]string{"purge", "colour", "red"}, 1, "url, prefix, host, tag or category"},
	} {
		args := append([]string{"cache", step.args[0], "-config", running}, step.args[1:]...)
		if status, out, errs := callAs(t, args...); status != step.status || !strings.Contains(out+errs, step.want) {
			t.Errorf("%v: status %d, want %d; the output is %q, want %q in it", step.args, status, step.status, out+errs, step.want)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for path, want := range map[string]int{"/a/1": 5, "/a/2": 4, "/b": 3} {
		if fetched[path] != want {
			t.Errorf("%s was fetched %d times, want %d", path, fetched[path], want)
		}
	}
}
