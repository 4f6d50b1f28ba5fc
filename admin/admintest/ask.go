package admintest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/system"
	"shuultuur/admin/web"
)

// Target returns a path that matches the pattern of a route.
func Target(r web.Route) string {
	p := strings.ReplaceAll(strings.TrimSuffix(r.Path, "{$}"), "{file}", "root.pem")
	for strings.Contains(p, "{") {
		before, rest, _ := strings.Cut(p, "{")
		_, after, _ := strings.Cut(rest, "}")
		p = before + "1" + after
	}
	return p
}

// Ask sends a request from this machine; form is the body of a POST.
func Ask(h http.Handler, method, path, accept, form string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(form))
	r.RemoteAddr = "127.0.0.1:5000"
	r.Header.Set("Accept", accept)
	if method == "POST" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func Nobody() admin.Parts {
	return admin.Parts{Metrics: http.NotFoundHandler(), Health: func() system.Health { return system.Health{Ready: true, Revision: "abc"} }}
}

// An Exchange is a request to a house, and what the answer is to be.
type Exchange struct {
	As                 account.Role
	Method, Path, Form string
	Page               bool // the browser asks
	Status             int
	Says               string // in the answer, or in the address to which it leads
}

// Exchanges sends requests one after the other.
func (h *House) Exchanges(t *testing.T, all []Exchange) {
	t.Helper()
	for _, x := range all {
		w := h.Ask(x.As, x.Method, x.Path, x.Form, func(r *http.Request) {
			if x.Page {
				r.Header.Set("Accept", "text/html")
			}
		})
		if w.Code != x.Status || !strings.Contains(w.Header().Get("Location")+w.Body.String(), x.Says) {
			t.Errorf("%s %s %q as %v: status %d, want %d with %q\n%.2000s", x.Method, x.Path, x.Form, x.As, w.Code, x.Status, x.Says, w.Body)
		}
	}
}
