package demo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"shuultuur/event"
	"shuultuur/filter"
)

// A lettingAll is a gateway that records requests and lets all but tunnels pass. Names are asked
// of the demonstration's upstream itself.
type lettingAll struct {
	proxy    *httptest.Server
	upstream string
	mu       sync.Mutex
	rows     []event.Row
}

func (g *lettingAll) Run(ctx context.Context) error { <-ctx.Done(); g.proxy.Close(); return nil }
func (g *lettingAll) ProxyAddr() string             { return g.proxy.Listener.Addr().String() }
func (g *lettingAll) AdminAddr() string             { return "127.0.0.1:0" }
func (g *lettingAll) DNSAddr() string               { return g.upstream }
func (g *lettingAll) Store() event.Reader           { return g }

func (g *lettingAll) Query(context.Context, event.Filter, event.Page) iter.Seq2[event.Row, error] {
	return func(yield func(event.Row, error) bool) {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, r := range g.rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (g *lettingAll) Count(context.Context, ...event.Question) ([][]event.Tally, error) {
	return nil, nil
}

func (g *lettingAll) serve(parent *url.URL) http.HandlerFunc {
	origin := &http.Transport{Proxy: http.ProxyURL(parent), DisableCompression: true}
	return func(w http.ResponseWriter, r *http.Request) {
		row := event.Row{Action: filter.Pass}
		defer func() {
			g.mu.Lock()
			g.rows = append(g.rows, row)
			g.mu.Unlock()
		}()
		if r.Method == http.MethodConnect {
			row.Action, row.Rule, row.Score = filter.Block, "tunnels", 7
			w.WriteHeader(http.StatusForbidden)
			return
		}
		r.RequestURI = ""
		res, err := origin.RoundTrip(r)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer res.Body.Close()
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body)
	}
}

func TestTheDemonstrationPrintsWhatBecameOfEveryStep(t *testing.T) {
	var out bytes.Buffer
	err := Run(t.Context(), &out, false, func(_ context.Context, adapt func(string) string) (Gateway, error) {
		settings := adapt("listen: {proxy: 127.0.0.1:8080, admin: 127.0.0.1:8081}\ndns:\n  listen: [\"127.0.0.1:8053\"]\n")
		m := regexp.MustCompile(`(?s)proxy: 127\.0\.0\.1:0.*parent: '(.*?)'.*upstreams: \['(.*?)'\]`).FindStringSubmatch(settings)
		if m == nil {
			t.Fatalf("the settings are %q", settings)
		}
		parent, err := url.Parse(m[1])
		if err != nil {
			t.Fatal(err)
		}
		g := &lettingAll{upstream: m[2]}
		g.proxy = httptest.NewServer(g.serve(parent))
		return g, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		if !strings.Contains(out.String(), s.url) {
			t.Errorf("the table lacks %s", s.url)
		}
	}
	for _, want := range []string{"200     pass", "403     block", "tunnels (score 7)", "NOERROR", "198.51.100.1", "shop.doubleclick.net."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the tables lack %q:\n%s", want, out.String())
		}
	}
}

func TestTheDemonstrationSaysWhyNoGatewayOpened(t *testing.T) {
	err := Run(t.Context(), io.Discard, false, func(context.Context, func(string) string) (Gateway, error) {
		return nil, net.ErrClosed
	})
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want %v", err, net.ErrClosed)
	}
}
