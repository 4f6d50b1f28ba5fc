package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/proxy/exchange"
)

// reader inspects bodies, and blocks those with "bad".
type reader struct{ scanner }

func (*reader) Wants(t *filter.Transaction, s filter.Stage) bool {
	return s == filter.ResponseBody && (t.Response == nil || t.Content().Readable())
}

func (r *reader) Decide(ctx context.Context, t *filter.Transaction, s filter.Stage) {
	r.scanner.Decide(ctx, t, s)
}

func TestAPartOfAPageIsJudgedAsAWhole(t *testing.T) {
	good, bad := []byte(strings.Repeat("0123456789", 100)), []byte(strings.Repeat("0123456789", 100)+"bad")
	date := time.Unix(1e9, 0)
	asked := make(chan string, 100)
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		asked <- q.Header.Get("Range") + q.Header.Get("If-Modified-Since") + q.Header.Get("If-None-Match")
		w.Header().Set("Content-Type", q.URL.Query().Get("type"))
		page := good
		if strings.HasPrefix(q.URL.Path, "/bad") {
			page = bad
		}
		http.ServeContent(w, q, "", date, bytes.NewReader(page))
	})
	for _, tt := range []struct {
		ranges            exchange.Ranges
		target, conds     string
		status, len, asks int
	}{
		{exchange.FetchWhole, "/good?type=text/html", "Range: bytes=10-19", 200, 1000, 2},
		{exchange.FetchWhole, "/bad?type=text/html", "Range: bytes=10-19", 403, -1, 2},
		{exchange.FetchWhole, "/bad?type=text/html", "Range: bytes=10-19,30-39", 403, -1, 2},
		{exchange.FetchWhole, "/good?type=video/mp4", "Range: bytes=10-19", 206, 10, 1},
		{exchange.RefuseRange, "/good?type=text/html", "Range: bytes=10-19", 416, -1, 1},
		{exchange.CombineRanges, "/good?type=text/html", "Range: bytes=10-19", 206, 10, 2},
		{exchange.CombineRanges, "/bad?type=text/html", "Range: bytes=10-19", 403, -1, 2},
		{exchange.FetchWhole, "/good?type=text/html", "If-Modified-Since: " + date.UTC().Format(http.TimeFormat), 200, 1000, 2},
		{exchange.FetchWhole, "/bad?type=text/html", "If-Modified-Since: " + date.UTC().Format(http.TimeFormat), 403, -1, 2},
		{exchange.FetchWhole, "/good?type=text/html", "Accept: image/webp\nIf-Modified-Since: " + date.UTC().Format(http.TimeFormat), 304, 0, 1},
	} {
		r := start(t, Config{Exchange: exchange.Config{Ranges: tt.ranges}}, Engine{Decider: &reader{}})
		ask := func() (int, int) {
			q, _ := http.NewRequest("GET", o.URL+tt.target, nil)
			for line := range strings.SplitSeq(tt.conds, "\n") {
				name, value, _ := strings.Cut(line, ": ")
				q.Header.Set(name, value)
			}
			res, err := r.client().Do(q)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			b, _ := io.ReadAll(res.Body)
			return res.StatusCode, len(b)
		}
		status, n := ask()
		if status != tt.status || tt.len >= 0 && n != tt.len || len(asked) != tt.asks {
			t.Errorf("%s with %s: got status %d, %d bytes, %d requests to the origin", tt.target, tt.conds, status, n, len(asked))
		}
		clear := func() {
			for len(asked) > 0 {
				<-asked
			}
		}
		clear()
		if tt.status == 200 && strings.HasPrefix(tt.conds, "If-") {
			if status, _ := ask(); status != 304 || len(asked) != 1 {
				t.Errorf("%s, judged before: got status %d, %d requests to the origin; want 304 and 1", tt.target, status, len(asked))
			}
			clear()
		}
	}
}
