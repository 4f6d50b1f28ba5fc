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
	"strings"
	"time"

	"shuultuur/event"
	"shuultuur/event/jsonl"
	"shuultuur/event/postgres"
	"shuultuur/event/sqlite"
	"shuultuur/filter"
	programs "shuultuur/test/peer"
)

const (
	recordAbout         = "The record: cost of a row, and of questions to a record of 5 million rows"
	recordPostgresAbout = "The record in PostgreSQL: questions to a record of 5 million rows"
)

const (
	recordRows = 5_000_000
	recordSpan = 30 * 24 * time.Hour
	recordHost = 100_000 // different hosts

	recordBatch = 10_000 // rows per write

	// Rows written during queries.
	meanwhileRows  = 500
	meanwhileEvery = 500 * time.Millisecond
)

// recordQuestion is one query of the record.
type recordQuestion struct {
	name   string
	limit  time.Duration // of processor time if the store is in this process
	server time.Duration // wall time if the store is on a server; 0 for none
	ask    func(ctx context.Context, r event.Reader, now time.Time) (found int, err error)
}

// A recordPlace is a store to fill and query.
type recordPlace struct {
	about, command string
	open           func() (event.Store, error)
	read           func() (recordReader, error)
	size           func() (int64, error) // size of the rows in bytes; nil if it is not measured
	clock          bool                  // targets are wall times, because the work is not done in this process
}

type recordReader interface {
	event.Reader
	Close() error
}

// record fills SQLite and queries it.
func record(ctx context.Context, opt options, out io.Writer) error {
	dir, err := os.MkdirTemp("", "shuultuur-record-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "events.db")
	p := recordPlace{
		about: recordAbout, command: "record",
		open: func() (event.Store, error) { return sqlite.Open(path, 365*24*time.Hour) },
		read: func() (recordReader, error) { return sqlite.OpenReader(path) },
		size: func() (int64, error) {
			st, err := os.Stat(path)
			if err != nil {
				return 0, err
			}
			return st.Size(), nil
		},
	}
	return p.run(ctx, opt, out)
}

// recordPostgres fills PostgreSQL and queries it.
func recordPostgres(ctx context.Context, opt options, out io.Writer) error {
	pg, err := programs.StartPostgres()
	if errors.Is(err, programs.ErrNoPostgres) {
		fmt.Fprintf(out, "### %s\n\nNot measured: %v.\n\n", recordPostgresAbout, err)
		return nil
	}
	if err != nil {
		return err
	}
	defer pg.Close()
	url, err := pg.Database("record")
	if err != nil {
		return err
	}
	open := func() (*postgres.Store, error) { return postgres.Open(url, 365*24*time.Hour, jsonl.Codec) }
	p := recordPlace{
		about: recordPostgresAbout, command: "record-postgres", clock: true,
		open: func() (event.Store, error) { return open() },
		read: func() (recordReader, error) { return open() },
	}
	return p.run(ctx, opt, out)
}

// run writes a record in batches as the gateway does, and queries it, idle and while rows are
// written.
func (p *recordPlace) run(ctx context.Context, opt options, out io.Writer) error {
	s, err := p.open()
	if err != nil {
		return err
	}
	defer s.Close()
	now := time.Now().UTC().Truncate(time.Microsecond)
	spent, err := fillRecord(ctx, s, now, recordRows, recordSpan)
	if err != nil {
		return err
	}
	questions := recordQuestions()
	rest, err := p.askAll(ctx, questions, now, opt.rounds)
	if err != nil {
		return err
	}
	w := writeMeanwhile(ctx, s)
	busy, err := p.askAll(ctx, questions, now, opt.rounds)
	written, lost := w.end()
	if err = errors.Join(err, lost); err != nil {
		return err
	}
	kept, err := p.count(ctx)
	if err != nil {
		return err
	}
	if err := p.preface(out, opt, spent); err != nil {
		return err
	}
	what := "CPU ms"
	if p.clock {
		what = "ms"
	}
	fmt.Fprintf(out, "| question | %s | range | ms, at rest | ms, while rows are written | range | found | target, %[1]s |\n|--|--:|--:|--:|--:|--:|--:|--:|\n", what)
	var missed []string
	for i, q := range questions {
		cpu, wall, meanwhile := rest[i].cpu, rest[i].wall, busy[i].wall
		judged, limit := cpu, q.limit
		if p.clock {
			judged, limit = wall, q.server
		}
		target := fmt.Sprintf("≤ %d", limit.Milliseconds())
		if limit == 0 {
			target = "none"
		}
		fmt.Fprintf(out, "| %s | %.0f | %.0f to %.0f | %.0f | %.0f | %.0f to %.0f | %d | %s |\n", q.name, middle(judged), judged[0], judged[len(judged)-1], middle(wall),
			middle(meanwhile), meanwhile[0], meanwhile[len(meanwhile)-1], rest[i].found, target)
		if limit > 0 && middle(judged) > float64(limit.Milliseconds()) {
			missed = append(missed, fmt.Sprintf("%s: %.0f %s", q.name, middle(judged), what))
		}
	}
	fmt.Fprintf(out, "\nMeanwhile %d rows were written in batches of %d, and all of them are there: %d rows.\n\n", written, meanwhileRows, kept)
	if len(missed) > 0 {
		fmt.Fprintf(out, "* targets **missed**: %s\n\n", strings.Join(missed, "; "))
	}
	if kept != recordRows+written {
		return fmt.Errorf("%d rows were written, %d are there", recordRows+written, kept)
	}
	return nil
}

// preface describes the measurement and the cost of rows.
func (p *recordPlace) preface(out io.Writer, opt options, spent []time.Duration) error {
	var total time.Duration
	var tenths []float64 // µs per row
	for part := range slices.Chunk(spent, len(spent)/10) {
		var sum time.Duration
		for _, d := range part {
			sum += d
		}
		total += sum
		tenths = append(tenths, sum.Seconds()/float64(len(part)*recordBatch)*1e6)
	}
	size := ""
	if p.size != nil {
		n, err := p.size()
		if err != nil {
			return err
		}
		size = fmt.Sprintf(" and %d bytes", n/recordRows)
	}
	_, err := fmt.Fprintf(out, "### %s\n\n%s. %s\n`go run -C bench . %s -rounds %d`: %d rows over %d days, written in batches of 10,000: %.2f µs of this program's processor (%.2f to %.2f over tenths of the rows)%s for each row. A database that was just opened answers; medians of %[5]d and the range over rounds.\n\n",
		p.about, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"), p.command, opt.rounds, recordRows, recordSpan/(24*time.Hour),
		total.Seconds()/recordRows*1e6, slices.Min(tenths), slices.Max(tenths), size)
	return err
}

// queryResults are the results of a query in several rounds.
type queryResults struct {
	cpu, wall []float64 // milliseconds, ascending
	found     int
}

func (p *recordPlace) askAll(ctx context.Context, questions []recordQuestion, now time.Time, rounds int) ([]queryResults, error) {
	all := make([]queryResults, len(questions))
	for i, q := range questions {
		a := &all[i]
		for range rounds {
			r, err := p.read()
			if err != nil {
				return nil, err
			}
			began, used := time.Now(), processorTime()
			a.found, err = q.ask(ctx, r, now)
			a.wall = append(a.wall, float64(time.Since(began).Microseconds())/1000)
			a.cpu = append(a.cpu, float64((processorTime()-used).Microseconds())/1000)
			if err := errors.Join(err, r.Close()); err != nil {
				return nil, fmt.Errorf("%s: %w", q.name, err)
			}
		}
		slices.Sort(a.cpu)
		slices.Sort(a.wall)
	}
	return all, nil
}

// count returns the number of rows.
func (p *recordPlace) count(ctx context.Context) (int, error) {
	r, err := p.read()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	t, err := r.Count(ctx, event.Question{})
	if err != nil {
		return 0, err
	}
	return t[0][0].Events, nil
}

// A rowWriter writes rows until it is stopped.
type rowWriter struct {
	stop    chan struct{}
	done    chan struct{}
	written int
	err     error
}

func writeMeanwhile(ctx context.Context, s event.Store) *rowWriter {
	m := &rowWriter{stop: make(chan struct{}), done: make(chan struct{})}
	gen := newRowMaker()
	rows := make([]event.Row, meanwhileRows)
	tick := time.NewTicker(meanwhileEvery)
	go func() {
		defer close(m.done)
		defer tick.Stop()
		for m.err == nil {
			for i := range rows {
				gen.fill(&rows[i], time.Now().UTC().Truncate(time.Microsecond))
			}
			if m.err = s.Write(ctx, rows); m.err == nil {
				m.written += len(rows)
			}
			select {
			case <-m.stop:
				return
			case <-tick.C:
			}
		}
	}()
	return m
}

func (m *rowWriter) end() (written int, err error) {
	close(m.stop)
	<-m.done
	return m.written, m.err
}

// fillRecord writes rows that are spread over the span before now, and returns the processor
// time of each batch.
func fillRecord(ctx context.Context, s event.Store, now time.Time, n int, span time.Duration) (spent []time.Duration, err error) {
	return newRowMaker().fillRecord(ctx, s, now, n, span)
}

func (g *rowMaker) fillRecord(ctx context.Context, s event.Store, now time.Time, n int, span time.Duration) (spent []time.Duration, err error) {
	rows := make([]event.Row, recordBatch)
	at, step := now.Add(-span), span/time.Duration(n)
	for range n / len(rows) {
		for i := range rows {
			at = at.Add(step)
			g.fill(&rows[i], at.Truncate(time.Microsecond))
		}
		before := processorTime()
		if err := s.Write(ctx, rows); err != nil {
			return nil, err
		}
		spent = append(spent, processorTime()-before)
	}
	return spent, nil
}

// A rowMaker makes rows like those of a school's proxy: few frequent hosts, many rare ones,
// paths of words and of random letters.
type rowMaker struct {
	rng    *rand.Rand
	hosts  *rand.Zipf
	n      int
	people int
}

func newRowMaker() *rowMaker {
	rng := rand.New(rand.NewPCG(1, 2))
	return &rowMaker{rng: rng, hosts: rand.NewZipf(rng, 1.1, 20, recordHost-1), people: 500}
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
	client := g.rng.IntN(g.people)
	size := int64(g.rng.IntN(100_000))
	*r = event.Row{
		Time: at, Duration: time.Duration(g.rng.IntN(500_000)) * time.Microsecond, ID: fmt.Sprintf("0%010x", at.UnixMicro()&(1<<40-1)),
		Client: netip.AddrFrom4([4]byte{10, 1, byte(client >> 8), byte(client)}), User: fmt.Sprintf("pupil%03d", client), Policy: "pupils",
		Method: "GET", Host: host, URL: "https://" + host + path, Type: []string{"text/html", "image/jpeg", "application/json", "text/javascript"}[g.rng.IntN(4)],
		BytesOut: size, Status: 200, Port: 443, RareValues: event.RareValues{HeadOut: 400, Looked: size, Length: size, Server: netip.AddrFrom4([4]byte{192, 0, 2, byte(n)})},
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

// recordQuestions returns the queries of pages and people.
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
		{"a host that occurs once", tenth, second, rows("host:rare.example.org", 50)},
		{"the most frequent hosts", tenth, 0, top("", event.Host)},
		{"the most frequent hosts, blocked, last day", tenth, third, top("action:block since:1d", event.Host)},
		{"the newest 200", tenth, tenth, rows("", 200)},
		{"last day, blocked, one client", tenth, tenth, rows("since:1d action:block client:10.1.0.7", 200)},
		{"last day, a text that does not occur", tenth, tenth, rows("since:1d needle-in-a-haystack", 200)},
		{"30 days, one client and category", second, second, rows("client:10.1.0.7 category:gambling", 200)},
		{"30 days, a text that occurs once", second, second, rows("needle-in-a-haystack", 200)},
		{"30 days, a text that occurs often", second, second, rows("casino", 200)},
		{"30 days, an identifier that does not occur", second, second, rows("id:0123456789a", 1)},
		{"statistics of an hour and a day", third, third, statistics},
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
