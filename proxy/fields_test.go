package proxy

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"shuultuur/filter"
	"shuultuur/lib/setting"
)

// fieldsOf knows the client that X-User names.
type fieldsOf struct{}

func (fieldsOf) ForwardedClient(_ context.Context, addr netip.Addr, field func(string) []string) (filter.Client, string, bool) {
	user := strings.Join(field("X-User"), ",")
	return filter.Client{Addr: addr, User: user, Source: "header"}, "", user != ""
}
func (fieldsOf) FieldNames() []string { return []string{"X-User", "X-Groups"} }
func (fieldsOf) CertifiedClient(context.Context, netip.Addr, *x509.Certificate) (filter.Client, bool) {
	return filter.Client{}, false
}
func (fieldsOf) IdentifyAgain(_ context.Context, was filter.Client) (filter.Client, bool) {
	return was, true
}

// TestFieldsThatNameClientsGoNoFurther: whoever wrote them, at each way in. They count only where a
// trusted proxy may have written them, which is not so inside of TLS.
func TestFieldsThatNameClientsGoNoFurther(t *testing.T) {
	w := newWorld(t)
	say := func(rw http.ResponseWriter, q *http.Request) {
		fmt.Fprintf(rw, "%s%s%s", q.Header.Get("X-User"), q.Header.Get("X-Groups"), q.Header.Get("X-Other"))
	}
	_, inside := w.origin(t, w.leaf(t, nil), say)
	plain := httptest.NewServer(http.HandlerFunc(say))
	defer plain.Close()
	trusted := setting.Networks{netip.MustParsePrefix("127.0.0.0/8")}
	for name, tt := range map[string]struct {
		trusted setting.Networks
		url     string
		user    string
	}{
		"plain":                            {nil, plain.URL, ""},
		"inside of TLS":                    {nil, "https://" + inside, ""},
		"of a trusted proxy":               {trusted, plain.URL, "anna"},
		"inside of TLS, a trusted proxy's": {trusted, "https://" + inside, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, Config{Trusted: tt.trusted}, Engine{Intercept: w.in, Identifier: fieldsOf{}, Decider: judge{}})
			q, _ := http.NewRequest("GET", tt.url, nil)
			q.Header = http.Header{"X-User": {"anna"}, "x-groups": {"staff"}, "X-Other": {"stays"}}
			res, err := r.browser(w).Do(q)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			got := make([]byte, 100)
			n, _ := res.Body.Read(got)
			if res.StatusCode != 200 || string(got[:n]) != "stays" {
				t.Errorf("status %d, and the origin saw %q", res.StatusCode, got[:n])
			}
			for _, row := range r.wait(1) {
				if row.URL != "" && strings.Contains(row.URL, "://") && row.Client.User != tt.user {
					t.Errorf("%s is a request of %q, want %q", row.URL, row.Client.User, tt.user)
				}
			}
		})
	}
}
