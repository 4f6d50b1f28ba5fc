package test

import (
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
)

// startClamd starts a clamd with one signature: the words "forty marmots".
func startClamd(t *testing.T) (socket string) {
	t.Helper()
	peer.Program(t, "clamd")
	dir := t.TempDir()
	socket = filepath.Join(dir, "c.sock")
	for name, text := range map[string]string{
		"own.ndb":    "Own.Marmots:0:*:" + hex.EncodeToString([]byte("forty marmots")) + "\n",
		"clamd.conf": fmt.Sprintf("Foreground yes\nDatabaseDirectory %s\nLocalSocket %s\nMaxThreads 4\n", dir, socket),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	peer.Start(t, "clamd", "--config-file="+filepath.Join(dir, "clamd.conf"))
	waittest.Until(t, "clamd listens", func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return socket
}

// slowOrigin sends a program in pieces over some seconds, and pauses before its end. /bad.exe
// ends with a virus that clamd finds. whole counts programs whose last piece was sent.
func slowOrigin(t *testing.T) (origin *httptest.Server, whole *atomic.Int64) {
	whole = new(atomic.Int64)
	origin = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		for n := range slowPieces {
			piece := slowPiece
			if n == slowPieces-1 && r.URL.Path == "/bad.exe" {
				piece += "forty marmots"
			}
			_, _ = io.WriteString(w, piece)
			_ = http.NewResponseController(w).Flush()
			if n == slowPieces-1 {
				whole.Add(1)
			}
			select {
			case <-time.After(500 * time.Millisecond):
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(origin.Close)
	return origin, whole
}

const slowPieces = 6

var slowPiece = strings.Repeat("MZ quiet bytes. ", 4096)

const downloadSettings = `
listen: {proxy: 127.0.0.1:0, admin: off}
data: data
checks:
  virus: {clamd: %s}
policies:
  - name: readers
    rules:
      - {name: viruses, action: block, category: [virus, virus-error]}
proxy: {private: [127.0.0.0/8], held: 64KiB%s}
`

// TestBrowserWaitsWhileADownloadIsScanned: Chromium shows a page that grows while clamd reads a
// slow download. Then the page offers the file, or says that it is not available.
func TestBrowserWaitsWhileADownloadIsScanned(t *testing.T) {
	t.Parallel()
	socket := startClamd(t)
	origin, _ := slowOrigin(t)
	g := runGateway(t, t.TempDir(), fmt.Sprintf(downloadSettings, socket, ""))
	b := newBrowser(t, g.ProxyAddr(), "--proxy-bypass-list=<-loopback>")
	b.open(origin.URL + "/setup.exe")
	b.shows("setup.exe")
	link := ""
	waittest.Until(t, "the page leads to the file", func() bool {
		link = b.script(`let a = document.querySelector("a.button"); return a ? a.href : ""`)
		return link != ""
	})
	status, text, err := get(through(g.ProxyAddr()), link)
	if err != nil || status != 200 || text != strings.Repeat(slowPiece, slowPieces) {
		t.Errorf("fetching the scanned file: status %d, %d bytes, %v; want 200 and the whole file", status, len(text), err)
	}
	b.open(origin.URL + "/bad.exe")
	b.shows("is not available")
	if link := b.script(`let a = document.querySelector("a.button"); return a ? a.href : ""`); strings.Contains(link, "bad.exe") {
		t.Errorf("the page links to the file in which clamd found a virus: %s", link)
	}
}

// TestADownloadTricklesWhileItIsScanned: with proxy.downloads off, the client
// gets judged parts as they arrive, but not the last part of a body that clamd
// refuses.
func TestADownloadTricklesWhileItIsScanned(t *testing.T) {
	t.Parallel()
	socket := startClamd(t)
	origin, whole := slowOrigin(t)
	g := runGateway(t, t.TempDir(), fmt.Sprintf(downloadSettings, socket, `, downloads: "off"`))
	for path, good := range map[string]bool{"/setup.exe": true, "/bad.exe": false} {
		before := whole.Load()
		res, err := through(g.ProxyAddr()).Get(origin.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 1)
		_, err = io.ReadFull(res.Body, first)
		if late := whole.Load() > before; err != nil || late {
			t.Errorf("%s: the first byte came after the last part was sent: %v, error %v", path, late, err)
		}
		rest, err := io.ReadAll(res.Body)
		res.Body.Close()
		if whole := len(rest)+1 == slowPieces*len(slowPiece) && err == nil; whole != good || strings.Contains(string(rest), "marmots") {
			t.Errorf("%s: received %d bytes, %v; want the whole file only if it has no virus", path, len(rest)+1, err)
		}
	}
}
