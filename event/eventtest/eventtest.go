// Package eventtest holds the tests every event store passes, and rows to
// test and measure with.
package eventtest

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shuultuur/event"
	"shuultuur/filter"
)

// Rows returns n rows as a school's proxy makes them: most pages pass, every
// tenth is blocked with findings. Apart from start, the time of the first,
// they are the same every time.
func Rows(start time.Time, n int) []event.Row {
	rows := make([]event.Row, n)
	for i := range rows {
		r := &rows[i]
		*r = event.Row{
			Time:     start.Add(time.Duration(i) * 50 * time.Microsecond),
			Duration: time.Duration(1000+i%5000) * time.Microsecond,
			ID:       fmt.Sprintf("0j%012x", i*7919),
			Client:   netip.AddrFrom4([4]byte{10, 1, byte(i >> 5), byte(i)}),
			User:     fmt.Sprintf("pupil%03d", i%400),
			Policy:   "pupils",
			Method:   "GET",
			Host:     fmt.Sprintf("www.site-%d.example.com", i%1000),
			URL:      fmt.Sprintf("https://www.site-%d.example.com/articles/2026/01/page-%d.html?ref=home", i%1000, i),
			Type:     "text/html",
			BytesOut: int64(5000 + i%60000),
			Looked:   int64(5000 + i%60000),
			Status:   200,
			Port:     443,
		}
		if i%10 == 0 {
			r.Action, r.Rule, r.Status, r.Score = filter.Block, "words", 403, 120
			r.Category, r.Evidence = "phrase", "gambling: casino (w.list:12) 80; poker (w.list:40) 40"
			r.Findings = `[{"check":"phrase","category":"phrase","score":120,"evidence":"gambling: casino (w.list:12) 80; poker (w.list:40) 40"}]`
		}
	}
	return rows
}

// Hostile returns rows with everything in them that could break a format.
func Hostile(start time.Time) []event.Row {
	texts := []string{
		"line\nbreak", "carriage\rreturn", "tab\there", "quote\"back\\slash", "nul\x00byte", "esc\x1b[31m", "del\x7f",
		"not utf-8 \xff\xfe\xc3", "c1 \u0085\u009b31m", "lines\u2028and\u2029", "Улаанбаатар", "日本語", "🙂",
		"' OR 1=1 --", "%0a%00 100%", "{\"a\":1}", "* *DENIED* x", " GET 1 1 x 1 200", "  two  blanks ", "]]>&lt;",
	}
	rows := make([]event.Row, len(texts))
	for i, s := range texts {
		rows[i] = event.Row{
			Time: start, // all the same: order is that of recording
			ID:   s, User: s, Policy: s, Rule: s, Method: s, URL: "http://" + s, Host: s, Type: s,
			Category: s, Evidence: s, Note: s,
			Client: netip.MustParseAddr("2001:db8::1"), Action: filter.Action(i % 5), Proto: filter.Proto(i % 3),
			Learned: i%2 == 0, Score: -i, BytesIn: 1 << 40, Port: 65535,
			Findings: string(event.AppendJSON([]byte(`[{"evidence":`), s)) + "}]",
		}
	}
	return append(rows,
		event.Row{Time: start}, // nothing known
		event.Row{Time: start.Add(-time.Minute), Host: "clock.set.back"},
		event.Row{Time: start, URL: "http://long/" + strings.Repeat("ä", 60_000)},
	)
}

// Start is a moment not long ago, as rows have it.
func Start() time.Time { return time.Now().UTC().Add(-10 * time.Minute).Truncate(time.Microsecond) }

// Run tests the stores that open makes; each test has a path of its own.
// Stores that are no [event.Querier] must be text files with a line per row.
func Run(t *testing.T, open func(path string) (event.Store, error)) {
	s := suite{open: open}
	t.Run("rows survive closing", s.survive)
	t.Run("hostile text stays inside its row", s.hostile)
	t.Run("a write that is refused keeps nothing", s.refused)
	t.Run("a write of nothing is upkeep", s.nothing)
	t.Run("a folder that is not there is an error", s.nowhere)
	st := s.at(t, filepath.Join(t.TempDir(), "events"))
	_, can := st.(event.Querier)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if can {
		t.Run("queries find what their filter lets through", s.filters)
		t.Run("a query sees a beginning of what is written meanwhile", s.meanwhile)
		t.Run("a query ends with its context", s.cancelled)
	}
}

type suite struct {
	open func(path string) (event.Store, error)
}

func (s suite) at(t *testing.T, path string) event.Store {
	t.Helper()
	st, err := s.open(path)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// check compares what the store at path holds, opened anew, with rows.
func (s suite) check(t *testing.T, path string, rows []event.Row) {
	t.Helper()
	st := s.at(t, path)
	defer st.Close()
	q, ok := st.(event.Querier)
	if !ok {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := bytes.Count(b, []byte("\n")), len(rows); got != want {
			t.Errorf("%d lines, want %d", got, want)
		}
		for i, c := range b {
			if c < ' ' && c != '\n' || c == 0x7f {
				t.Fatalf("control character %#x at byte %d", c, i)
			}
		}
		return
	}
	got := collect(t, q, event.Filter{})
	if len(got) != len(rows) {
		t.Fatalf("%d rows, want %d", len(got), len(rows))
	}
	for i := range rows {
		if !same(got[i], rows[i]) {
			t.Errorf("row %d (-want +got):\n%s", i, cmp.Diff(rows[i], got[i], cmp.Comparer(func(a, b netip.Addr) bool { return a == b })))
		}
	}
}

// same compares two rows; a text that was not UTF-8 may have been mended.
func same(got, want event.Row) bool {
	if got == want {
		return true
	}
	for _, s := range []*string{&want.ID, &want.User, &want.Policy, &want.Rule, &want.Method, &want.URL, &want.Host,
		&want.Type, &want.Category, &want.Evidence, &want.Note} {
		*s = string([]rune(*s))
	}
	return got == want
}

func collect(t *testing.T, q event.Querier, f event.Filter) []event.Row {
	t.Helper()
	var rows []event.Row
	for r, err := range q.Query(t.Context(), f) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return rows
}

func write(t *testing.T, st event.Store, rows []event.Row) {
	t.Helper()
	if err := st.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
}

func shut(t *testing.T, st event.Store) {
	t.Helper()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}

func (s suite) survive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	rows := Rows(Start(), 3000)
	st := s.at(t, path)
	write(t, st, rows[:1000])
	write(t, st, rows[1000:1001])
	shut(t, st)
	st = s.at(t, path)
	write(t, st, rows[1001:])
	shut(t, st)
	s.check(t, path, rows)
}

func (s suite) hostile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events ?%#'ä") // paths too
	rows := Hostile(Start())
	st := s.at(t, path)
	write(t, st, rows)
	shut(t, st)
	s.check(t, path, rows)
}

func (s suite) refused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	rows := Rows(Start(), 200)
	st := s.at(t, path)
	write(t, st, rows[:100])
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := st.Write(ctx, rows[100:]); err == nil {
		t.Error("no error from a context that has ended")
	}
	shut(t, st)
	s.check(t, path, rows[:100])
}

func (s suite) nothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	st := s.at(t, path)
	write(t, st, nil)
	shut(t, st)
	s.check(t, path, nil)
}

func (s suite) nowhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "events")
	st, err := s.open(path)
	if err == nil {
		shut(t, st)
		t.Fatal("no error")
	}
	if !strings.Contains(err.Error(), path) {
		t.Errorf("error %q does not name %q", err, path)
	}
}

func (s suite) filters(t *testing.T) {
	start := Start()
	rows := append(Rows(start, 1500), Hostile(start.Add(time.Minute))...)
	rows = append(rows, event.Row{Time: start, Host: "example.com"}, event.Row{Time: start, Host: "notexample.com"})
	st := s.at(t, filepath.Join(t.TempDir(), "events"))
	defer st.Close()
	write(t, st, rows)
	for name, f := range map[string]event.Filter{
		"all":            {},
		"newest":         {Newest: true},
		"limit":          {Limit: 7},
		"newest limited": {Newest: true, Limit: 7},
		"since":          {Since: start.Add(time.Minute)},
		"since between":  {Since: start.Add(25*time.Millisecond + 1)},
		"until":          {Until: start.Add(50 * time.Millisecond)},
		"until between":  {Until: start.Add(50*time.Millisecond + 1)},
		"span":           {Since: start.Add(10 * time.Millisecond), Until: start.Add(20 * time.Millisecond), Newest: true},
		"client":         {Client: netip.MustParseAddr("10.1.0.7")},
		"client v6":      {Client: netip.MustParseAddr("2001:DB8:0::1")},
		"user":           {User: "pupil017"},
		"host":           {Host: "site-17.example.com"},
		"domain":         {Host: "example.com", Limit: 5, Newest: true},
		"passed":         {Action: "pass"},
		"blocked":        {Action: "block"},
		"no such action": {Action: "shout"},
		"policy":         {Policy: "' OR 1=1 --"},
		"category":       {Category: "phrase", Host: "example.com"},
		"text":           {Text: "PAGE-17"},
		"text of a like": {Text: "100%"},
		"text escaped":   {Text: `back\slash`},
		"text not ascii": {Text: "баатар"},
		"nothing":        {User: "nobody"},
	} {
		t.Run(name, func(t *testing.T) {
			var want []event.Row
			for i := range rows {
				if f.Match(&rows[i]) {
					want = append(want, rows[i])
				}
			}
			if f.Newest {
				for i, j := 0, len(want)-1; i < j; i, j = i+1, j-1 {
					want[i], want[j] = want[j], want[i]
				}
			}
			if f.Limit > 0 {
				want = want[:min(f.Limit, len(want))]
			}
			got := collect(t, st.(event.Querier), f)
			if len(got) != len(want) {
				t.Fatalf("%d rows, want %d", len(got), len(want))
			}
			for i := range want {
				if !same(got[i], want[i]) {
					t.Fatalf("row %d is %q at %v, want %q at %v", i, got[i].URL, got[i].Time, want[i].URL, want[i].Time)
				}
			}
		})
	}
}

func (s suite) meanwhile(t *testing.T) {
	st := s.at(t, filepath.Join(t.TempDir(), "events"))
	defer st.Close()
	rows := Rows(Start(), 1500)
	write(t, st, rows[:100])
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for i := 100; i < len(rows); i += 50 {
			if err := st.Write(t.Context(), rows[i:i+50]); err != nil {
				failed <- err
				return
			}
		}
	}()
	seen := 0
	for writing := true; writing; {
		select {
		case err := <-failed:
			if err != nil {
				t.Fatal(err)
			}
			writing = false
		default:
		}
		got := collect(t, st.(event.Querier), event.Filter{})
		if len(got) < seen {
			t.Fatalf("%d rows, and %d before", len(got), seen)
		}
		seen = len(got)
		for i := range got {
			if got[i] != rows[i] {
				t.Fatalf("row %d is not the one written", i)
			}
		}
	}
	if seen != len(rows) {
		t.Errorf("%d rows at the end, want %d", seen, len(rows))
	}
}

func (s suite) cancelled(t *testing.T) {
	st := s.at(t, filepath.Join(t.TempDir(), "events"))
	defer st.Close()
	write(t, st, Rows(Start(), 1000))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n, failed := 0, false
	for _, err := range st.(event.Querier).Query(ctx, event.Filter{}) {
		if err != nil {
			failed = true
			continue
		}
		if n++; n == 10 {
			cancel()
		}
	}
	if !failed {
		t.Errorf("%d rows and no error after the context ended", n)
	}
}

// Bench measures batches of 10,000 rows: wall clock and processor time.
func Bench(b *testing.B, open func(path string) (event.Store, error)) {
	st, err := open(filepath.Join(b.TempDir(), "events"))
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	rows := Rows(Start(), 10_000)
	b.ReportAllocs()
	n, start := 0, CPU()
	for b.Loop() {
		for i := range rows {
			rows[i].Time = rows[i].Time.Add(time.Second)
		}
		if err := st.Write(b.Context(), rows); err != nil {
			b.Fatal(err)
		}
		n += len(rows)
	}
	b.ReportMetric(float64(CPU()-start)/float64(n), "cpu-ns/row")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/row")
}

// CPU returns the processor time this process has used, 0 where that is not
// known.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
