package network_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"shuultuur/admin"
	"shuultuur/admin/clients"
	"shuultuur/admin/system"
	"shuultuur/admin/web"
	"shuultuur/intercept"
)

func TestTheRootIsForEverybodyAndItsKeyForNobody(t *testing.T) {
	root, err := intercept.NewRoot(intercept.RootConfig{Name: "Filter of the <School>"})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(root *intercept.Root, path string) *httptest.ResponseRecorder {
		h := admin.New(admin.Parts{Metrics: http.NotFoundHandler(), Health: func() system.Health { return system.Health{} }, Shared: web.Shared{Token: "0123456789abcdef"},
			Root: func() *intercept.Root { return root }, Refusals: func() any { return []string{"secret.test"} },
			Quotas: func(context.Context, string, netip.Addr, string) clients.Quotas {
				return clients.Quotas{User: "secret.test"}
			}})
		r := httptest.NewRequest("GET", "http://192.0.2.1"+path, nil)
		r.RemoteAddr = "192.0.2.7:5000" // no login is needed, even from another machine
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	long, _ := intercept.Fingerprints(root.Certificate)
	for _, tt := range []struct {
		path     string
		status   int
		contains string
	}{
		{"/ca", 200, long},
		{"/ca", 200, "Filter of the &lt;School&gt;"},
		{"/ca", 200, "Certificate Trust Settings"},
		{"/ca/root.pem", 200, "BEGIN CERTIFICATE"},
		{"/ca/root.crt", 200, "BEGIN CERTIFICATE"},
		{"/ca/root.cer", 200, string(root.Certificate.Raw)},
		{"/ca/root.mobileconfig", 200, "com.apple.security.root"},
		{"/ca/root.key", 404, ""},
		{"/ca/..%2froot.pem", 404, ""},
		{"/refusals", 401, ""},
		{"/quotas?client=10.1.2.3", 401, ""},
	} {
		w := ask(root, tt.path)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.contains) {
			t.Errorf("%s: status %d, want %q in %s", tt.path, w.Code, tt.contains, w.Body)
		}
		if strings.Contains(w.Body.String(), "PRIVATE") || strings.Contains(w.Body.String(), "secret.test") {
			t.Errorf("%s reveals secrets or hosts", tt.path)
		}
	}
	if w := ask(root, "/ca"); w.Header().Get("Cache-Control") != "no-store" || !strings.Contains(w.Header().Get("Content-Security-Policy"), "frame-ancestors 'none'") || strings.Contains(w.Body.String(), "/events") {
		t.Errorf("the page of the certificate lacks headers, or leads to other pages: %v", w.Header())
	}
	if w := ask(nil, "/ca"); w.Code != 200 || !strings.Contains(w.Body.String(), "nothing to install") {
		t.Errorf("/ca without a root: status %d, %s", w.Code, w.Body)
	}
	if w := ask(nil, "/ca/root.pem"); w.Code != 404 {
		t.Errorf("/ca/root.pem without a root: status %d, want 404", w.Code)
	}
}
