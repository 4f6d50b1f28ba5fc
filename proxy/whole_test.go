package proxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/setting"
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

// TestARangeOfALargeBodyIsCutOut: with "combine" a client gets the range that it asked for, of a body
// that memory has no room for, too, and its last bytes only when all of the body was judged.
func TestARangeOfALargeBodyIsCutOut(t *testing.T) {
	const size = 300_000
	good := bytes.Repeat([]byte("0123456789"), size/10)
	badEnd := bytes.Clone(good)
	copy(badEnd[size-3:], "bad")
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		page := good
		switch q.URL.Path {
		case "/bad":
			page = badEnd
		case "/other": // it has changed since the range
			if q.Header.Get("Range") == "" {
				page = good[:size/2]
			}
		case "/endless": // its length is unknown
			if q.Header.Get("Range") == "" {
				w.(http.Flusher).Flush()
				_, _ = w.Write(page)
				return
			}
		case "/shorter": // unknown, and shorter than it was
			if q.Header.Get("Range") == "" {
				w.(http.Flusher).Flush()
				_, _ = w.Write(page[:size/2])
				return
			}
		}
		http.ServeContent(w, q, "", time.Unix(1e9, 0), bytes.NewReader(page))
	})
	for _, held := range []setting.Size{20_000, 1 << 20} {
		for _, tt := range []struct {
			path, byteRange string
			status          int
			from, end       int // of what arrives; an end of -1 means that not all of it does
		}{
			{"/", "bytes=0-9", 206, 0, 10},
			{"/", "bytes=100000-199999", 206, 100_000, 200_000},
			{"/", "bytes=299990-", 206, size - 10, size},
			{"/", "bytes=-7", 206, size - 7, size},
			{"/", "bytes=0-", 206, 0, size},
			{"/", "bytes=5-5,7-7", 200, 0, size},
			{"/endless", "bytes=250000-250009", 206, 250_000, 250_010},
			{"/shorter", "bytes=100000-100009", 206, 0, -1},
			{"/other", "bytes=100000-100009", 200, 0, size / 2},
			{"/bad", "bytes=0-9", 206, 0, -1},
			{"/bad", "bytes=0-199999", 206, 0, -1},
		} {
			r := start(t, Config{Exchange: exchange.Config{Ranges: exchange.CombineRanges, Held: held}}, Engine{Decider: &reader{}})
			q, _ := http.NewRequest("GET", o.URL+tt.path, nil)
			q.Header.Set("Range", tt.byteRange)
			res, err := r.client().Do(q)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(res.Body)
			res.Body.Close()
			what := fmt.Sprintf("%s %s, %d held", tt.path, tt.byteRange, held)
			switch {
			case tt.end < 0:
				if res.StatusCode == 206 && err == nil {
					t.Errorf("%s: %d and all %d bytes arrive", what, res.StatusCode, len(b))
				}
			case res.StatusCode != tt.status || err != nil || !bytes.Equal(b, good[tt.from:tt.end]):
				t.Errorf("%s: got %d, %d bytes from %.10q, %v", what, res.StatusCode, len(b), b, err)
			case res.StatusCode == 206 && res.ContentLength != int64(tt.end-tt.from):
				t.Errorf("%s: length %d", what, res.ContentLength)
			}
			if note := r.wait(1)[0].Note; !strings.Contains(note, "all of the body was requested") {
				t.Errorf("%s: the record says %q", what, note)
			}
		}
	}
}
