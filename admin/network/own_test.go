package network_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"shuultuur/admin"
	"shuultuur/admin/system"
	"shuultuur/lib/certificate"
)

// TestTheOwnCertificateIsShown: none, one that is awaited, one that is there, and what an authority said.
func TestTheOwnCertificateIsShown(t *testing.T) {
	until := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		status certificate.Status
		want   []string
	}{
		{"none", certificate.Status{}, []string{"No certificate is ordered"}},
		{"awaited", certificate.Status{Names: []string{"a.example"}, Authority: "ca.example"}, []string{"a.example", "ca.example", "not here yet"}},
		{"there", certificate.Status{Names: []string{"a.example"}, Issuer: "Good CA", Until: until, Renewal: until.AddDate(0, -1, 0)}, []string{"Good CA", "2026-03-01 12:00 UTC", "2026-02-01 12:00 UTC", "nothing has to be installed"}},
		{"failed", certificate.Status{Names: []string{"a.example"}, Failed: 2, Error: "no <b>A</b> record", Next: until}, []string{"no &lt;b&gt;A&lt;/b&gt; record", "tried again by itself", "2026-03-01"}},
	} {
		h := admin.New(admin.Parts{Metrics: http.NotFoundHandler(), Health: func() system.Health { return system.Health{} }, Ordered: func() certificate.Status { return c.status }})
		for _, accept := range []string{"text/html", "application/json"} {
			r := httptest.NewRequest("GET", "http://127.0.0.1/certificate", nil)
			r.RemoteAddr = "127.0.0.1:5000"
			r.Header.Set("Accept", accept)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			for _, want := range c.want {
				if w.Code != 200 || accept == "text/html" && !strings.Contains(w.Body.String(), want) {
					t.Errorf("%s as %s: status %d, no %q in %s", c.name, accept, w.Code, want, w.Body)
				}
			}
		}
	}
}
