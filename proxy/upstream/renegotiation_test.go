package upstream

import (
	"bufio"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	testpeer "shuultuur/test/peer"
)

// An origin that asks for a client certificate by renegotiation (TLS 1.2) gets none and answers,
// and its connection serves nobody else.
func TestAnOriginRenegotiatesForAnOptionalCertificate(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS() // for its certificate
	defer s.Close()
	dir := t.TempDir()
	pair := s.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "pair.pem")
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	addr := "127.0.0.1:" + testpeer.Port(t)
	_, port, _ := net.SplitHostPort(addr)
	cmd := testpeer.Command(t, "openssl", "s_server", "-accept", port, "-cert", file, "-key", file, "-tls1_2", "-client_renegotiation", "-crlf")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	ready := make(chan bool)
	go func() {
		r := bufio.NewScanner(out)
		for r.Scan() {
			switch {
			case strings.HasPrefix(r.Text(), "ACCEPT"):
				ready <- true
			case r.Text() == "" || r.Text() == "\r": // the end of the request's head
				io.WriteString(in, "R\n") // asks for a certificate
				time.Sleep(200 * time.Millisecond)
				io.WriteString(in, "HTTP/1.1 200 OK\nContent-Length: 2\n\nok")
				in.Close()
			}
		}
	}()
	<-ready
	up := verified(t, s, Config{})
	q := askFor("https", "example.com", addr)
	if status, body := trip(t, t.Context(), up, q); status != 200 || body != "ok" {
		t.Errorf("the answer is %d %q, want 200", status, body)
	}
	if n := up.pool.size(); n != 0 {
		t.Errorf("%d connections are kept for everyone, want none", n)
	}
}
