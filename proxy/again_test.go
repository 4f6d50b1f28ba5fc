package proxy

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/test/peer"
)

// nginx starts an nginx with directives for its server, as an origin of w.
func (w *world) nginx(t *testing.T, directives string) (host string) {
	t.Helper()
	dir := t.TempDir()
	cert := w.leaf(t, nil)
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	addr := "127.0.0.1:" + peer.Port(t)
	for name, b := range map[string][]byte{
		"cert.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}),
		"key.pem":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"nginx.conf": []byte(strings.NewReplacer("DIR", dir, "ADDR", addr, "EXTRA", directives).Replace(`
daemon off;
master_process off;
error_log DIR/error.log;
pid DIR/pid;
events { worker_connections 4096; }
http {
	access_log off;
	client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi; scgi_temp_path DIR/scgi; uwsgi_temp_path DIR/uwsgi;
	client_max_body_size 10m;
	server {
		listen ADDR ssl http2;
		ssl_certificate DIR/cert.pem;
		ssl_certificate_key DIR/key.pem;
		EXTRA
		location / { proxy_pass http://BEHIND; }
	}
}
`)),
	} {
		if name == "nginx.conf" {
			behind, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
				n, _ := io.Copy(io.Discard, q.Body)
				fmt.Fprintf(rw, "%s %d", q.Method, n)
			})}
			go s.Serve(behind)
			t.Cleanup(func() { s.Close() })
			b = bytes.ReplaceAll(b, []byte("BEHIND"), []byte(behind.Addr().String()))
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	peer.Start(t, "nginx", "-p", dir, "-c", filepath.Join(dir, "nginx.conf"))
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	return strings.Replace(addr, "127.0.0.1", "localhost", 1)
}

const requestsToNginx = 1500

// An origin such as nginx ends a connection after a number of requests, and limits the streams of one.
func TestNoRequestFailsWhenAnOriginEndsItsConnections(t *testing.T) {
	for name, directives := range map[string]string{
		"50 requests a connection": "keepalive_requests 50;",
		"1 stream a connection":    "http2_max_concurrent_streams 1;",
		"both":                     "keepalive_requests 7; http2_max_concurrent_streams 3;",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			host := w.nginx(t, directives)
			r := start(t, Config{}, Engine{Intercept: w.in})
			var next, failed atomic.Int64
			var wg sync.WaitGroup
			for range 8 {
				c := r.browser2(w)
				for range 5 {
					wg.Go(func() {
						for {
							k := next.Add(1)
							if k > requestsToNginx {
								return
							}
							method := []string{"POST", "PUT", "PATCH", "DELETE", "GET", "POST"}[k%6]
							size := []int{0, 3, 1000, 100_000}[k/6%4]
							var body io.Reader = bytes.NewReader(make([]byte, size))
							if k/24%2 == 1 && size > 0 { // without its length
								body = io.MultiReader(body)
							}
							q, err := http.NewRequest(method, "https://"+host+"/", body)
							if err != nil {
								t.Error(err)
								return
							}
							s, err := c.Do(q)
							if err != nil {
								failed.Add(1)
								t.Errorf("%s of %d bytes: %v", method, size, err)
								continue
							}
							b, err := io.ReadAll(s.Body)
							s.Body.Close()
							if want := fmt.Sprintf("%s %d", method, size); err != nil || s.StatusCode != 200 || string(b) != want {
								failed.Add(1)
								t.Errorf("the answer is %d %.60q, %v; want %q", s.StatusCode, b, err, want)
							}
						}
					})
				}
			}
			wg.Wait()
			t.Logf("%d of %d requests failed", failed.Load(), requestsToNginx)
		})
	}
}
