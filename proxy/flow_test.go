package proxy

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"shuultuur/filter"
)

// remembering counts the transactions of each connection in its Flow.
type remembering struct{ seen chan int }

func (r remembering) Wants(*filter.Transaction, filter.Stage) bool { return false }

func (r remembering) Decide(_ context.Context, t *filter.Transaction, s filter.Stage) {
	if s == filter.Request && t.Flow != nil {
		r.seen <- t.Flow.Update("n", func(old any) any {
			n, _ := old.(int)
			return n + 1
		}).(int)
	}
}

func TestRequestsOfOneConnectionShareWhatChecksRemember(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer origin.Close()
	d := remembering{make(chan int, 8)}
	r := start(t, Config{}, Engine{Decider: d})
	for range 2 { // connections
		tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: r.addr}), MaxConnsPerHost: 1}
		for want := range 3 {
			res, err := (&http.Client{Transport: tr}).Get(origin.URL)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if got := <-d.seen; got != want+1 {
				t.Errorf("request %d of a connection: Flow counted %d", want+1, got)
			}
		}
		tr.CloseIdleConnections()
	}
}
