package test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"shuultuur/test/data"
)

// anonymous returns the anonymous memory of a process (RssAnon) in bytes. It is no part of a
// mapped file, so the system cannot take it back.
func anonymous(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		kb := 0
		if n, _ := fmt.Sscanf(line, "RssAnon: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	t.Fatal("no RssAnon in /proc")
	return 0
}

// A small machine runs every list that we have, with real pages, in 64 MiB.
func TestASmallBoxIsEnough(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	folder := data.Path(t, "pages")
	pages, err := filepath.Glob(filepath.Join(folder, "*.html"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	origin := httptest.NewServer(http.FileServer(http.Dir(folder)))
	t.Cleanup(origin.Close)

	var settings strings.Builder
	settings.WriteString(`
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
proxy: {private: [127.0.0.0/8]}
policies:
  - name: all
    rules:
      - {name: listed, action: block, category: [listed]}
      - {name: words, action: block, category: [phrase], over: 1000000}
checks:
  category: {lists: [ut1, adguard, dnsmasq, hagezi, steven, ultimate, easylist, easyprivacy]}
  phrase: {weighted: [weighted]}
lists:
`)
	for name, file := range map[string]string{
		"ut1": "ut1.tar.gz", "adguard": "adguarddns.hosts.txt.gz", "dnsmasq": "adguarddns.dnsmasq.txt.gz", "hagezi": "hagezi-light.adblock.txt.gz",
		"steven": "stevenblack.domains.txt.gz", "ultimate": "ultimatehosts.wildcard.txt.gz", "easylist": "easylist.txt.gz", "easyprivacy": "easyprivacy.txt.gz",
	} {
		category := ", category: listed"
		if name == "ut1" {
			category = ""
		}
		fmt.Fprintf(&settings, "  %s: {path: %q%s}\n", name, data.Path(t, "lists", file), category)
	}
	home := t.TempDir()
	for name, text := range map[string]string{"shuultuur.yaml": settings.String(), "weighted": "< the ><1>\n<news><5>\n<and>,<the><3>\n"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// The first start compiles the lists, the second only opens them.
	first := start(t, filepath.Join(home, "shuultuur.yaml"))
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.cmd.Wait()
	p := start(t, filepath.Join(home, "shuultuur.yaml"), "GOMEMLIMIT=64MiB")

	if idle := anonymous(t, p.cmd.Process.Pid); idle > 40<<20 {
		t.Errorf("idle with every list: %d bytes of anonymous memory, want at most 40 MiB", idle)
	}
	if status, _, err := get(through(p.proxy), "http://ads.doubleclick.net/"); status != 403 {
		t.Errorf("a listed host: status %d, %v; want 403", status, err)
	}
	var clients sync.WaitGroup
	for i := range 20 {
		clients.Go(func() {
			c := through(p.proxy)
			defer c.CloseIdleConnections()
			for j := range 2 * len(pages) / 4 {
				page := pages[(i*7+j)%len(pages)]
				res, err := c.Get(origin.URL + "/" + filepath.Base(page))
				if err != nil {
					t.Errorf("%s: %v", page, err)
					return
				}
				n, err := io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if err != nil || res.StatusCode != 200 || n != res.ContentLength {
					t.Errorf("%s: status %d, %d of %d bytes, %v", page, res.StatusCode, n, res.ContentLength, err)
					return
				}
			}
		})
	}
	clients.Wait()
	if busy := anonymous(t, p.cmd.Process.Pid); busy > 100<<20 {
		t.Errorf("after 20 concurrent clients: %d bytes of anonymous memory, want at most 64 MiB", busy)
	}
}
