package test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/test/peer"
)

// h2spec is a public HTTP/2 conformance client.
const h2spec = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"

func TestHTTP2OfTheDecryptedSideConforms(t *testing.T) {
	t.Parallel()
	peer.NotQuick(t, "h2spec")
	dir := t.TempDir()
	install := exec.Command("go", "install", h2spec)
	install.Env = append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("h2spec cannot be built here: %v: %s", err, out)
	}
	h := newHTTPSHouse(t, map[string]string{"/": "The ferry sails at nine."})
	l := forwarder(t, h.g.ProxyAddr(), "www.example.com")
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(dir, "h2spec"), "generic", "hpack", "http2",
		"-h", "127.0.0.1", "-p", port, "-t", "-k", "-o", "20").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "145 tests, 145 passed, 0 skipped, 0 failed") {
		t.Errorf("h2spec: %v\n%q", err, out[max(0, bytes.Index(out, []byte("Failures:"))):])
	}
}

// forwarder accepts connections and sends each through a tunnel of a proxy, for clients that
// cannot use a proxy.
func forwarder(t *testing.T, proxy, host string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				to, err := net.Dial("tcp", proxy)
				if err != nil {
					return
				}
				defer to.Close()
				fmt.Fprintf(to, "CONNECT %s:443 HTTP/1.1\r\nHost: %s:443\r\n\r\n", host, host)
				answer := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
				if _, err := io.ReadFull(to, answer); err != nil {
					return
				}
				go func() {
					_, _ = io.Copy(to, c)
					_ = to.(*net.TCPConn).CloseWrite()
				}()
				_, _ = io.Copy(c, to)
			}()
		}
	}()
	return l
}
