package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"shuultuur/event"
	"shuultuur/event/sqlite"
	"shuultuur/filter"
)

const recordAbout = "The record: cost of a row, and of questions to a record of 5 million rows"

const (
	recordRows = 5_000_000
	recordSpan = 30 * 24 * time.Hour
	recordHost = 100_000 // different hosts

	recordBatch = 10_000 // rows written at once
)

// recordQuestion is one question to the record.
type recordQuestion struct {
	name  string
	limit time.Duration // of processor time
	ask   func(ctx context.Context, r event.Reader, now time.Time) (found int, err error)
}

// record writes a record in batches as the gateway does, and asks it.
func record(ctx context.Context, opt options, out io.Writer) error {
	dir, err := os.MkdirTemp("", "shuultuur-record-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "events.db")
	s, err := sqlite.Open(path, 365*24*time.Hour)
	if err != nil {
		return err
	}
	defer s.Close()
	now := time.Now().UTC().Truncate(time.Microsecond)
	spent, err := fillRecord(ctx, s, now)
	if err != nil {
		return err
	}
	var total time.Duration
	var tenths []float64 // µs for each row
	for part := range slices.Chunk(spent, len(spent)/10) {
		var sum time.Duration
		for _, d := range part {
			sum += d
		}
		total += sum
		tenths = append(tenths, sum.Seconds()/float64(len(part)*recordBatch)*1e6)
	}
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "### %s\n\n%s. %s\n`go run ./bench record -rounds %d`: %d rows over %d days, written in batches of 10,000: %.2f µs of the processor (%.2f to %.2f over tenths of the rows) and %d bytes for each row. A database that was just opened answers; medians of %[4]d and the range over rounds.\n\n",
		recordAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine(), opt.rounds, recordRows, recordSpan/(24*time.Hour),
		total.Seconds()/recordRows*1e6, slices.Min(tenths), slices.Max(tenths), st.Size()/recordRows)
	fmt.Fprintln(out, "| question | CPU ms | range | ms | found | target, CPU ms |\n|--|--:|--:|--:|--:|--:|")
	var failed []error
	for _, q := range recordQuestions() {
		if err := q.measure(ctx, path, now, opt.rounds, out); err != nil {
			failed = append(failed, err)
		}
	}
	fmt.Fprintln(out)
	return errors.Join(failed...)
}

func (q *recordQuestion) measure(ctx context.Context, path string, now time.Time, rounds int, out io.Writer) error {
	var cpu, wall []float64
	found := 0
	for range rounds {
		r, err := sqlite.OpenReader(path)
		if err != nil {
			return err
		}
		began, used := time.Now(), processorTime()
		found, err = q.ask(ctx, r, now)
		wall = append(wall, float64(time.Since(began).Microseconds())/1000)
		cpu = append(cpu, float64((processorTime()-used).Microseconds())/1000)
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	slices.Sort(cpu)
	slices.Sort(wall)
	fmt.Fprintf(out, "| %s | %.0f | %.0f to %.0f | %.0f | %d | ≤ %d |\n", q.name, middle(cpu), cpu[0], cpu[len(cpu)-1], middle(wall), found, q.limit.Milliseconds())
	if middle(cpu) > float64(q.limit.Milliseconds()) {
		return fmt.Errorf("%s took %.0f ms of the processor", q.name, middle(cpu))
	}
	return nil
}

// fillRecord writes the rows and returns the processor time that each batch took.
func fillRecord(ctx context.Context, s event.Store, now time.Time) (spent []time.Duration, err error) {
	gen := newRowMaker()
	rows := make([]event.Row, recordBatch)
	at, step := now.Add(-recordSpan), recordSpan/recordRows
	for range recordRows / len(rows) {
		for i := range rows {
			at = at.Add(step)
			gen.fill(&rows[i], at.Truncate(time.Microsecond))
		}
		before := processorTime()
		if err := s.Write(ctx, rows); err != nil {
			return nil, err
		}
		spent = append(spent, processorTime()-before)
	}
	return spent, nil
}

// A rowMaker makes rows as a school's proxy does: few hosts often, many
// seldom, paths of words and of random letters.
type rowMaker struct {
	rng   *rand.Rand
	hosts *rand.Zipf
	n     int
}

func newRowMaker() *rowMaker {
	rng := rand.New(rand.NewPCG(1, 2))
	return &rowMaker{rng: rng, hosts: rand.NewZipf(rng, 1.1, 20, recordHost-1)}
}

var recordWords = []string{"news", "article", "images", "static", "assets", "school", "video", "watch", "search", "profile", "comment", "index", "page", "history", "games", "music", "library"}

func (g *rowMaker) fill(r *event.Row, at time.Time) {
	n := g.hosts.Uint64()
	g.n++
	host := fmt.Sprintf("%s%d.example-%d.com", []string{"www", "cdn", "api", "img"}[n%4], n%7, n)
	path := "/" + recordWords[g.rng.IntN(len(recordWords))] + "/" + recordWords[g.rng.IntN(len(recordWords))]
	switch g.rng.IntN(3) {
	case 0:
		path += fmt.Sprintf("/%x.js?v=%d", g.rng.Uint64(), g.rng.IntN(100))
	case 1:
		path += fmt.Sprintf("/%d/%s-%d.html", 2020+g.rng.IntN(7), recordWords[g.rng.IntN(len(recordWords))], g.rng.IntN(10_000))
	}
	client := g.rng.IntN(500)
	size := int64(g.rng.IntN(100_000))
	*r = event.Row{
		Time: at, Duration: time.Duration(g.rng.IntN(500_000)) * time.Microsecond, ID: fmt.Sprintf("0%010x", at.UnixMicro()&(1<<40-1)),
		Client: netip.AddrFrom4([4]byte{10, 1, byte(client >> 8), byte(client)}), User: fmt.Sprintf("pupil%03d", client), Policy: "pupils",
		Method: "GET", Host: host, URL: "https://" + host + path, Type: []string{"text/html", "image/jpeg", "application/json", "text/javascript"}[g.rng.IntN(4)],
		BytesOut: size, Status: 200, Port: 443, More: event.More{HeadOut: 400, Looked: size, Length: size, Server: netip.AddrFrom4([4]byte{192, 0, 2, byte(n)})},
	}
	switch {
	case g.n%20 == 0:
		r.Action, r.Rule, r.Status, r.Score, r.Category = filter.Block, "words", 403, 120, []string{"phrase", "ads", "gambling"}[g.rng.IntN(3)]
		r.Evidence = "casino (w.list:12) 80; poker (w.list:40) 40"
		r.Findings = `[{"check":"phrase","category":"phrase","score":120,"evidence":"casino (w.list:12) 80; poker (w.list:40) 40"}]`
	case g.n%4 == 0:
		r.Proto, r.Method, r.URL, r.Type, r.Status, r.Server = filter.DNS, "A", "", "", 0, netip.Addr{}
	}
	if g.n == recordRows/3 {
		r.Host, r.URL = "rare.example.org", "https://rare.example.org/a-needle-in-a-haystack"
	}
}

// recordQuestions are what pages and people ask.
func recordQuestions() []recordQuestion {
	rows := func(text string, limit int) func(context.Context, event.Reader, time.Time) (int, error) {
		return func(ctx context.Context, r event.Reader, now time.Time) (found int, err error) {
			f, err := event.ParseFilter(text, now)
			if err != nil {
				return 0, err
			}
			for _, err := range r.Query(ctx, f, event.Page{Newest: true, Limit: limit}) {
				if err != nil {
					return 0, err
				}
				found++
			}
			return found, nil
		}
	}
	top := func(text string, by event.Field) func(context.Context, event.Reader, time.Time) (int, error) {
		return func(ctx context.Context, r event.Reader, now time.Time) (int, error) {
			f, err := event.ParseFilter(text, now)
			if err != nil {
				return 0, err
			}
			t, err := r.Count(ctx, event.Question{Filter: f, By: by, Top: 20})
			if err != nil {
				return 0, err
			}
			return t[0][0].Events, nil
		}
	}
	const tenth, third, second = 100 * time.Millisecond, 300 * time.Millisecond, time.Second
	return []recordQuestion{
		{"a host that occurs once", tenth, rows("host:rare.example.org", 50)},
		{"the most frequent hosts", tenth, top("", event.Host)},
		{"the most frequent hosts, blocked, last day", tenth, top("action:block since:1d", event.Host)},
		{"the newest 200", tenth, rows("", 200)},
		{"last day, blocked, one client", tenth, rows("since:1d action:block client:10.1.0.7", 200)},
		{"last day, a text that does not occur", tenth, rows("since:1d needle-in-a-haystack", 200)},
		{"30 days, one client and category", second, rows("client:10.1.0.7 category:gambling", 200)},
		{"30 days, a text that occurs once", second, rows("needle-in-a-haystack", 200)},
		{"30 days, a text that occurs often", second, rows("casino", 200)},
		{"30 days, an identifier that does not occur", second, rows("id:0123456789a", 1)},
		{"statistics of an hour and a day", third, statistics},
	}
}

func statistics(ctx context.Context, r event.Reader, now time.Time) (int, error) {
	var all []event.Question
	for _, since := range []time.Duration{time.Hour, 24 * time.Hour} {
		f := event.Filter{Since: now.Add(-since)}
		blocked := f
		if err := blocked.And(event.Action, false, "block"); err != nil {
			return 0, err
		}
		all = append(all, event.Question{Filter: f}, event.Question{Filter: f, By: event.Client, Top: 10},
			event.Question{Filter: blocked, By: event.Host, Top: 10}, event.Question{Filter: f, By: event.Category, Top: 10})
	}
	t, err := r.Count(ctx, all...)
	if err != nil {
		return 0, err
	}
	return t[4][0].Events, nil
}
