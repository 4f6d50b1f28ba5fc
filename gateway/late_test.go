package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"shuultuur/lib/wait/waittest"
)

// TestWhatHoldsUntilAListIsThere: a gateway starts while the server of its list is away. Until the list
// is there, the policy passes or refuses as it says, and /health names the list; then the list decides.
func TestWhatHoldsUntilAListIsThere(t *testing.T) {
	for until, want := range map[string]int{"": 200, "until-loaded: pass, ": 200, "until-loaded: block, ": 403} {
		t.Run(until, func(t *testing.T) {
			t.Parallel()
			var there atomic.Bool
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path != "/list":
					_, _ = io.WriteString(w, "a page")
				case there.Load():
					_, _ = io.WriteString(w, "bet.example\n")
				default:
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			}))
			t.Cleanup(server.Close)
			g := serving(t, folder(t, map[string]string{"shuultuur.yaml": fmt.Sprintf(`
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
data: data
lists: {bets: {format: domains, url: "%[1]s/list", category: gambling}}
checks: {category: {lists: [bets]}}
proxy: {parent: "%[1]s"}
policies: [{name: all, %[2]srules: [{name: betting, action: block, category: [gambling]}]}]
`, server.URL, until)}))
			proxy, err := url.Parse("http://" + g.ProxyAddr())
			if err != nil {
				t.Fatal(err)
			}
			c := http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}}
			get := func(address string) (int, string) {
				res, err := c.Get(address)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				b, _ := io.ReadAll(res.Body)
				return res.StatusCode, string(b)
			}
			for _, host := range []string{"bet.example", "news.example"} {
				if got, _ := get("http://" + host + "/"); got != want {
					t.Errorf("%s before the list is there: status %d, want %d", host, got, want)
				}
			}
			c.Transport = http.DefaultTransport
			waittest.Until(t, "the list is missed", func() bool {
				_, body := get("http://" + g.AdminAddr() + "/health")
				return strings.Contains(body, "bets")
			})
			c.Transport = &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}
			there.Store(true)
			waittest.Until(t, "the list is there", func() bool {
				bet, _ := get("http://bet.example/")
				news, _ := get("http://news.example/")
				return bet == 403 && news == 200
			})
		})
	}
}
