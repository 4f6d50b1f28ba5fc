package proxy

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"shuultuur/filter"
)

// TestConnectionsThatCannotBeDecrypted: one that carries no HTTP, or only old TLS, is judged by its name.
// It passes as it is or is refused, and is listed with the remedy either way.
func TestConnectionsThatCannotBeDecrypted(t *testing.T) {
	w := newWorld(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{w.leaf(t, nil)}, MinVersion: tls.VersionTLS10, NextProtos: []string{"mqtt", "x-amzn-mqtt-ca", "http/1.1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				line, err := bufio.NewReader(c).ReadString('\n')
				if err == nil {
					fmt.Fprint(c, "got ", line)
				}
			}()
		}
	}()
	host := strings.Replace(l.Addr().String(), "127.0.0.1", "localhost", 1)
	theirs := x509.NewCertPool()
	theirs.AddCert(w.ca)
	for _, tt := range []struct {
		name   string
		client *tls.Config
		why    string // "" if it is decrypted
	}{
		{"MQTT", &tls.Config{NextProtos: []string{"mqtt"}}, `the client speaks "mqtt", not HTTP`},
		{"two protocols", &tls.Config{NextProtos: []string{"x-amzn-mqtt-ca", "mqtt"}}, `the client speaks "x-amzn-mqtt-ca", not HTTP`},
		{"TLS 1.1", &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, "the client speaks no TLS newer than 1.1"},
		{"MQTT or HTTP", &tls.Config{NextProtos: []string{"mqtt", "http/1.1"}}, ""},
		{"HTTP/1.0", &tls.Config{NextProtos: []string{"http/1.0"}}, ""},
		{"no protocol", &tls.Config{}, ""},
		{"RSA", &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}}, ""},
		{"RSA without forward secrecy", &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA}}, ""},
	} {
		for _, refuse := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, " refused ", refuse), func(t *testing.T) {
				r := start(t, Config{}, Engine{Intercept: w.in, Decider: judge{decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
					if refuse && s == filter.Name && x.Last == filter.Name {
						return block("unseen") // what cannot be looked into
					}
					return filter.Verdict{}
				}}})
				c, br := r.tunnelTo(host)
				defer c.Close()
				conf := tt.client.Clone()
				conf.ServerName, conf.RootCAs = "localhost", theirs
				if tt.why == "" {
					conf.RootCAs = w.ours
				}
				tc := tls.Client(&buffered{c, br}, conf)
				err := tc.Handshake()
				list := r.Refusals()
				if tt.why == "" {
					if err != nil || len(list) > 0 {
						t.Fatalf("handshake: %v, listed: %+v; want it decrypted", err, list)
					}
					if key := tc.ConnectionState().PeerCertificates[0].PublicKeyAlgorithm; strings.HasPrefix(tt.name, "RSA") != (key == x509.RSA) {
						t.Errorf("the certificate has a key of %v", key)
					}
					return
				}
				if len(list) != 1 || list[0].Host != "localhost" || list[0].Why != tt.why || list[0].Remedy == "" || list[0].Times != 1 {
					t.Errorf("listed: %+v", list)
				}
				if refuse {
					if err == nil {
						t.Error("the connection passes although rules refuse what cannot be looked into")
					}
					if got := r.wait(1)[0]; got.Action != filter.Block || !strings.Contains(got.Note, tt.why) {
						t.Errorf("recorded: %+v", got)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintln(tc, "hello")
				if got, err := io.ReadAll(tc); string(got) != "got hello\n" || err != nil && !errors.Is(err, net.ErrClosed) {
					t.Errorf("through the tunnel: %q, %v", got, err)
				}
			})
		}
	}
}

// TestAnOriginThatAsksForACertificateIsListed with what an administrator can do.
func TestAnOriginThatAsksForACertificateIsListed(t *testing.T) {
	w := newWorld(t)
	s, host := w.origin(t, w.leaf(t, nil), func(http.ResponseWriter, *http.Request) {})
	s.TLS.ClientAuth = tls.RequireAnyClientCert
	r := start(t, Config{}, Engine{Intercept: w.in})
	res, err := r.browser(w).Get("https://" + host)
	if err != nil {
		t.Fatal(err)
	}
	page, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != 502 || !strings.Contains(string(page), "certificate of the client") {
		t.Errorf("got %d %s", res.StatusCode, page)
	}
	if list := r.Refusals(); len(list) != 1 || list[0].Why != "the origin asks for a certificate of the client" || list[0].Remedy == "" {
		t.Errorf("listed: %+v", list)
	}
}
