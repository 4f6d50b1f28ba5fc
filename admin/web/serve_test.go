package web_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"shuultuur/admin/admintest"
	"shuultuur/admin/system"
	"shuultuur/admin/web"
)

func TestServeStopsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- web.Serve(ctx, l, nil, admintest.Handler(true)) }()
	res, err := http.Get("http://" + l.Addr().String() + "/health")
	if err != nil {
		t.Fatal(err)
	}
	var h system.Health
	if err := json.NewDecoder(res.Body).Decode(&h); err != nil || h.Revision != "abc" {
		t.Errorf("/health says %+v, %v", h, err)
	}
	res.Body.Close()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve after its context ended: %v", err)
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("the address still accepts connections after Serve returned")
	}
}

func TestBeyondLoopbackTLSIsSpoken(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := web.Serve(t.Context(), l, nil, admintest.Handler(true)); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("serving other machines without a certificate: %v, want an error", err)
	}
	cert := httptest.NewTLSServer(nil)
	defer cert.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- web.Serve(ctx, l, &tls.Config{Certificates: cert.TLS.Certificates}, admintest.Handler(true))
	}()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if res, err := cert.Client().Get("https://127.0.0.1:" + port + "/health"); err != nil || res.StatusCode != 200 {
		t.Errorf("GET /health over TLS: %v", err)
	}
	if res, err := http.Get("http://127.0.0.1:" + port + "/health"); err == nil && res.StatusCode == 200 {
		t.Error("an address for other machines answers without TLS")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
