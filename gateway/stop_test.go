package gateway

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/proxy"
)

// stuck is a decider that does not return from the body of a page until it may.
type stuck struct{ began, until chan struct{} }

func (d stuck) Wants(*filter.Transaction, filter.Stage) bool { return true }

func (d stuck) Decide(_ context.Context, t *filter.Transaction, s filter.Stage) {
	if s == filter.ResponseBody {
		close(d.began)
		<-d.until
	}
}

func TestAJudgementThatDoesNotEndDoesNotKeepTheProcess(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<p>a page")
	}))
	defer origin.Close()
	at := netip.MustParseAddrPort(strings.TrimPrefix(origin.URL, "http://"))
	file := folder(t, map[string]string{"shuultuur.yaml": fmt.Sprintf(`
listen: {proxy: [127.0.0.1:0], admin: 127.0.0.1:0}
data: data
events: {jsonl: events.jsonl}
proxy: {drain: 10ms, private: [127.0.0.1/32], safe-ports: [%d]}
policies: [{name: everyone, rules: []}]
`, at.Port())})
	var log strings.Builder
	g, err := New(t.Context(), file, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	d := stuck{make(chan struct{}), make(chan struct{})}
	err = g.engine.Load().Proxy.Use(&proxy.Engine{Decider: d, Identify: func(_ context.Context, addr netip.Addr, _ []byte) (filter.Client, error) {
		return filter.Client{Addr: addr}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	client := http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: g.ProxyAddr()})}}
	answered := make(chan error, 1)
	go func() {
		r, err := client.Get(origin.URL)
		if err == nil {
			r.Body.Close()
			err = fmt.Errorf("status %d", r.StatusCode)
		}
		answered <- err
	}()
	select {
	case <-d.began:
	case err := <-answered:
		stop()
		t.Fatalf("the page was not judged: %v", err)
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
		if !strings.Contains(log.String(), "connections do not end") {
			t.Errorf("the log is %s, want it to say what did not end", log.String())
		}
	case <-time.After(20 * time.Second):
		t.Error("the gateway has not ended 20 seconds after its drain time")
	}
	close(d.until)
	<-answered
}
