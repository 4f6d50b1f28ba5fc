package test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/engine/configuration"
	"shuultuur/gateway"
	"shuultuur/lib/wait/waittest"
)

const fetchSettings = `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
lists:
  ads: {url: "%s/ads.txt", format: domains}
checks:
  category: {lists: [ads]}
policies:
  - name: all
    rules: [{name: ads, action: block, category: [ads]}]
proxy: {private: [127.0.0.0/8]}
`

func TestAListStillToComeIsFetchedBesideTheTraffic(t *testing.T) {
	var body atomic.Value
	arrived := make(chan struct{}, 10)
	gate := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-gate:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, body.Load().(string))
	}))
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "shuultuur.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, fetchSettings, srv.URL), 0o644); err != nil {
		t.Fatal(err)
	}
	start := func() (*gateway.Gateway, func()) {
		ctx, stop := context.WithCancel(t.Context())
		g, err := gateway.New(ctx, file, slog.New(slog.NewTextHandler(t.Output(), nil)))
		if err != nil {
			stop()
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- g.Run(ctx) }()
		return g, func() {
			stop()
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("the gateway ended with: %v", err)
				}
			case <-time.After(time.Minute):
				t.Fatal("the gateway does not end after it was stopped")
			}
		}
	}
	health := func(g *gateway.Gateway) string {
		_, text, err := get(http.DefaultClient, "http://"+g.AdminAddr()+"/health")
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	// blocked reports whether the policy refuses the host. The host does not exist,
	// so a gateway that passes the request fails.
	blocked := func(g *gateway.Gateway, host string) bool {
		status, _, err := get(through(g.ProxyAddr()), "http://"+host+".127.0.0.1.invalid/")
		if err != nil {
			t.Fatal(err)
		}
		return status == http.StatusForbidden
	}
	body.Store("ads.127.0.0.1.invalid\n")

	// A gateway that is stopped during a fetch ends at once.
	_, end := start()
	<-arrived
	end()

	g, end := start()
	defer func() { end() }()
	<-arrived
	if text := health(g); !strings.Contains(text, "list ads: not fetched yet") {
		t.Errorf("before the list was fetched, /health says %s", text)
	}
	if blocked(g, "ads") {
		t.Error("the gateway blocks a host although the list is still empty")
	}
	close(gate)
	waittest.Until(t, "the list is in use", func() bool { return blocked(g, "ads") })
	if text := health(g); strings.Contains(text, "list ads") {
		t.Errorf("after the list was fetched, /health says %s", text)
	}

	// The running gateway uses a list that another process fetched.
	body.Store("ads.127.0.0.1.invalid\nmore.127.0.0.1.invalid\n")
	f, err := configuration.ReadLists(file)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := f.Store.Update(t.Context(), "ads", f.Fetched["ads"]); err != nil || !c.Updated {
		t.Fatalf("updating the list from another process: %+v, %v", c, err)
	}
	waittest.Until(t, "the list fetched by hand is in use", func() bool { return blocked(g, "more") })
}
