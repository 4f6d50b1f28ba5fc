package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"shuultuur/filter"
	"shuultuur/intercept"
	"shuultuur/lib/message"
	"shuultuur/test/cert"
)

// serveTLS starts a server for example.com with a certificate that verifiers of verified trust.
func serveTLS(t *testing.T, http2 bool, change func(*tls.Config), h http.HandlerFunc) (s *httptest.Server, addr string) {
	t.Helper()
	s = httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2, s.TLS = http2, &tls.Config{}
	if change != nil {
		change(s.TLS)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, s.Listener.Addr().String()
}

// verified returns a Transport that trusts the certificate of s; that of nobody if s is nil.
func verified(t *testing.T, s *httptest.Server, cfg Config) *Transport {
	t.Helper()
	roots := x509.NewCertPool()
	if s != nil {
		roots.AddCert(s.Certificate())
	}
	v, err := intercept.NewVerifier(intercept.VerifierConfig{Roots: roots})
	if err != nil {
		t.Fatal(err)
	}
	up := newTransport(t, cfg)
	up.Verify(v)
	return up
}

func greet(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s %s", r.Proto, r.Host) }

func TestTLSAsABrowserDoes(t *testing.T) {
	t.Parallel()
	for _, two := range []bool{false, true} {
		s, addr := serveTLS(t, two, nil, greet)
		up := verified(t, s, Config{})
		want := "HTTP/1.1 example.com"
		if two {
			want = "HTTP/2.0 example.com"
		}
		q := askFor("https", "example.com", addr)
		want += fmt.Sprintf(":%d", q.Port)
		for range 2 {
			if status, body := trip(t, t.Context(), up, q); status != 200 || body != want {
				t.Errorf("the answer is %d %q, want %q", status, body, want)
			}
		}
		if got := counted(t, up, "shuultuur_upstream_connections_total"); got != "1" {
			t.Errorf("%s connections for two requests, want 1", got)
		}
	}
}

func TestAConnectionWithATrustedCertificateServesOnlyItsName(t *testing.T) {
	t.Parallel()
	s, addr := serveTLS(t, false, nil, greet)
	up := verified(t, s, Config{})
	trip(t, t.Context(), up, askFor("https", "example.com", addr))
	_, err := up.RoundTrip(t.Context(), askFor("https", "other.test", addr))
	if e, ok := errors.AsType[*FaultError](err); !ok || len(e.Faults) == 0 || e.Faults[0].Check != CertificateCheck {
		t.Errorf("another name at the same address: %v, want the faults of the certificate", err)
	}
}

func TestFaultsOfACertificateAreForTheCaller(t *testing.T) {
	t.Parallel()
	for _, two := range []bool{false, true} {
		_, addr := serveTLS(t, two, nil, greet)
		up := verified(t, nil, Config{})
		var got []filter.Finding
		refuse := errors.New("refused")
		c := &Caller{Faults: func(all []filter.Finding) error { got = all; return refuse }}
		if _, err := up.RoundTrip(c.Context(t.Context()), askFor("https", "example.com", addr)); !errors.Is(err, refuse) || len(got) == 0 {
			t.Errorf("the error is %v with %d faults, want that of the caller", err, len(got))
		}
		var h filter.Handshake
		faults, err := up.Meet(c.Context(t.Context()), askFor("https", "example.com", addr), &h)
		if err != nil || len(faults) != len(got) || len(h.Certificates) == 0 || h.Version < tls.VersionTLS12 {
			t.Errorf("Meet: %v, %v, version %x, %d certificates", faults, err, h.Version, len(h.Certificates))
		}
		c.Faults = func([]filter.Finding) error { return nil }
		if status, _ := trip(t, c.Context(t.Context()), up, askFor("https", "example.com", addr)); status != 200 {
			t.Errorf("a caller that accepts the faults gets %d, want 200", status)
		}
		_, err = up.RoundTrip(t.Context(), askFor("https", "example.com", addr))
		if e, ok := errors.AsType[*FaultError](err); !ok || !strings.Contains(e.Error(), got[0].Category) {
			t.Errorf("without a caller the error is %v, want the faults, also on a kept connection", err)
		}
	}
}

// RFC 8446, 4.3.2: who has no certificate is refused after the handshake.
func TestAnOriginThatDemandsAClientCertificateIsNamed(t *testing.T) {
	t.Parallel()
	for _, two := range []bool{false, true} {
		s, addr := serveTLS(t, two, func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }, greet)
		_, err := verified(t, s, Config{}).RoundTrip(t.Context(), askFor("https", "example.com", addr))
		if e, ok := errors.AsType[*HandshakeError](err); !ok || !e.WantsClientCert || !strings.Contains(err.Error(), "client certificate") {
			t.Errorf("HTTP/2 %v: %v, want the demand for a certificate", two, err)
		}
	}
}

func TestOldTLSIsForTheHostsOfTheSettings(t *testing.T) {
	t.Parallel()
	s, addr := serveTLS(t, false, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS10 }, greet)
	_, err := verified(t, s, Config{OldTLS: []string{"com.test"}}).RoundTrip(t.Context(), askFor("https", "example.com", addr))
	if e, ok := errors.AsType[*HandshakeError](err); !ok || e.Old || e.Timeout() || !strings.Contains(err.Error(), "proxy.old-tls") {
		t.Errorf("a host that is not named: %v, want a hint at the settings", err)
	}
	up := verified(t, s, Config{OldTLS: []string{"com"}})
	c := &Caller{Faults: func([]filter.Finding) error { return nil }}
	if status, _ := trip(t, c.Context(t.Context()), up, askFor("https", "example.com", addr)); status != 200 {
		t.Errorf("a host that is named gets %d, want 200", status)
	}
}

// RFC 7301, 3.2: such an origin ends the handshake with an alert.
func TestAnOriginOfHTTP2AloneIsTranslated(t *testing.T) {
	t.Parallel()
	pair, err := tls.LoadX509KeyPair(cert.Files(t, t.TempDir(), "example.com"))
	if err != nil {
		t.Fatal(err)
	}
	s, addr := serveTLS(t, true, func(c *tls.Config) {
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			protocol := "h2"
			if !slices.Contains(hello.SupportedProtos, protocol) {
				protocol = "none" // crypto/tls pardons a client of HTTP/1.1 that a server of h2 does not speak
			}
			return &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{protocol}}, nil
		}
	}, greet)
	up := verified(t, s, Config{})
	for range 2 {
		c := &Caller{TLS: &TLS{ServerName: "example.com", Name: "example.com"}, Faults: func([]filter.Finding) error { return nil }}
		if _, body := trip(t, c.Context(t.Context()), up, askFor("https", "example.com", addr)); !strings.HasPrefix(body, "HTTP/2.0") {
			t.Errorf("the answer is %q, want one of HTTP/2", body)
		}
		if !c.TLS.HTTP2 {
			t.Error("the caller does not learn that the origin speaks HTTP/2 only")
		}
	}
}

// RFC 9113, 8.1: interim responses, bodies without a length, and trailers.
func TestStreamsCarryAllPartsOfAMessage(t *testing.T) {
	t.Parallel()
	s, addr := serveTLS(t, true, nil, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("Trailer", "X-Digest")
		w.Header().Set("X-Path", r.RequestURI)
		w.WriteHeader(200)
		_, _ = w.Write(b)
		w.Header().Set("X-Digest", r.Trailer.Get("Digest"))
	})
	up := verified(t, s, Config{})
	var hints []string
	c := &Caller{Interim: func(s *message.Response) error {
		hints = append(hints, fmt.Sprint(s.Status, " ", string(s.Get("Link"))))
		return nil
	}}
	long := strings.Repeat("x", 300_000)
	for _, body := range []string{"", "hello", long} {
		hints = nil
		raw := "POST / HTTP/1.1\r\nHost: x\r\nTrailer: Digest\r\nTransfer-Encoding: chunked\r\n\r\n"
		if body != "" {
			raw += string(message.AppendChunk(nil, len(body))) + body + "\r\n"
		}
		q := posted(t, addr, raw+"0\r\nDigest: abc\r\n\r\n", message.Chunked)
		q.Scheme, q.Dial, q.Host, q.Path = "https", "127.0.0.1", []byte("example.com"), []byte("//a/b?c=%20d")
		res, err := up.RoundTrip(c.Context(t.Context()), q)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		if n, err := res.Body.Copy(&got, 1<<30); err != nil || n != int64(len(body)) || got.String() != body {
			t.Errorf("%d bytes are returned, %v, want %d", n, err, len(body))
		}
		if res.Proto != 20 || res.Status != 200 || string(res.Get("X-Path")) != "//a/b?c=%20d" {
			t.Errorf("the head is %+v", res)
		}
		if d := string(res.Body.Trailer().Get("X-Digest")); d != "abc" {
			t.Errorf("the trailer has the digest %q, want abc", d)
		}
		if !res.Body.AtEnd() || res.Body.Remaining() != 0 {
			t.Errorf("%d bytes remain", res.Body.Remaining())
		}
		res.Body.Close()
		if strings.Join(hints, "|") != "103 </a>" {
			t.Errorf("the caller got %q, want a hint", hints)
		}
	}
}

func TestConcurrentRequestsShareAnHTTP2Connection(t *testing.T) {
	t.Parallel()
	all := make(chan bool)
	var arrived sync.WaitGroup
	arrived.Add(5)
	s, addr := serveTLS(t, true, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/path" && r.Method == "PUT" {
			arrived.Done()
			<-all
		}
		greet(w, r)
	})
	up := verified(t, s, Config{})
	trip(t, t.Context(), up, askFor("https", "example.com", addr))
	var work sync.WaitGroup
	for range 5 {
		work.Go(func() {
			q := askFor("https", "example.com", addr)
			q.Method = "PUT"
			res, err := up.RoundTrip(t.Context(), q)
			if err != nil {
				t.Error(err)
				return
			}
			finish(t, res)
		})
	}
	arrived.Wait()
	close(all)
	work.Wait()
	if got := counted(t, up, "shuultuur_upstream_connections_total"); got != "1" {
		t.Errorf("%s connections for six requests, want 1", got)
	}
}

func TestAStreamThatIsRefusedOrLeftDoesNotEndItsConnection(t *testing.T) {
	t.Parallel()
	s, addr := serveTLS(t, true, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
	})
	up := verified(t, s, Config{})
	q := askFor("https", "example.com", addr)
	q.Method, q.Length, q.Body = "POST", 1<<30, newStalled()
	if status, _ := trip(t, t.Context(), up, q); status != http.StatusRequestEntityTooLarge {
		t.Errorf("the status is %d, want 413", status)
	}
	left, err := up.RoundTrip(t.Context(), askFor("https", "example.com", addr))
	if err != nil {
		t.Fatal(err)
	}
	left.Body.Close() // before it is read
	if _, body := trip(t, t.Context(), up, askFor("https", "example.com", addr)); len(body) != 1<<20 {
		t.Errorf("%d bytes are read of the next response, want 1 MiB", len(body))
	}
	head := askFor("https", "example.com", addr)
	head.Method = "HEAD"
	if _, body := trip(t, t.Context(), up, head); body != "" {
		t.Errorf("the response to HEAD has %d bytes", len(body))
	}
	if got := counted(t, up, "shuultuur_upstream_connections_total"); got != "1" {
		t.Errorf("%s connections, want 1", got)
	}
}

func TestTLSThroughAParent(t *testing.T) {
	t.Parallel()
	s, addr := serveTLS(t, true, nil, greet)
	p := newParent(t, addr)
	up := verified(t, s, Config{Parent: "http://" + p.addr})
	q := &message.Request{Method: "GET", Scheme: "https", Host: []byte("example.com"), Path: []byte("/"), Proto: 11}
	var c Caller
	if _, body := trip(t, c.Context(t.Context()), up, q); body != "HTTP/2.0 example.com" || !c.Parent {
		t.Errorf("the answer is %q, through the parent %v", body, c.Parent)
	}
}
