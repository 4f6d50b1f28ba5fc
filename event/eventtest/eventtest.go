// Package eventtest has the tests that every event store must pass, and rows
// for tests and measurements. [Run] tests a store. If it is also an
// [event.Reader], its answers are tested too.
package eventtest

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shuultuur/event"
	"shuultuur/filter"
)

// Rows returns n rows like those of a school's proxy: most pages pass, every
// tenth is blocked with findings. They depend only on start, the time of the
// first.
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
			Status:   200,
			Port:     443,
			RareValues: event.RareValues{
				HeadOut: int64(300 + i%200),
				Looked:  int64(5000 + i%60000),
				Length:  int64(5000 + i%60000),
				Server:  netip.AddrFrom4([4]byte{192, 0, 2, byte(i % 250)}),
			},
		}
		if i%10 == 0 {
			r.Action, r.Rule, r.Status, r.Score = filter.Block, "words", 403, 120
			r.Category, r.Evidence = "phrase", "gambling: casino (w.list:12) 80; poker (w.list:40) 40"
			r.Findings = `[{"check":"phrase","category":"phrase","score":120,"evidence":"gambling: casino (w.list:12) 80; poker (w.list:40) 40"}]`
		}
		switch i % 100 {
		case 1:
			r.Unread, r.Length = "too-large", 50_000_000
		case 2:
			r.Monitored, r.Signatures = `["new list"]`, `[2019401,2024897]`
		case 3:
			r.Proto, r.Method, r.URL, r.Type, r.Status = filter.DNS, "AAAA", "", "", 3
		case 4:
			r.Proto, r.Method, r.URL, r.Type, r.Learned = filter.TLS, "CONNECT", "", "", true
		}
	}
	return rows
}

// HostileRows returns rows with all contents that could break a format.
func HostileRows(start time.Time) []event.Row {
	texts := []string{
		"line\nbreak", "carriage\rreturn", "tab\there", "quote\"back\\slash", "nul\x00byte", "esc\x1b[31m", "del\x7f",
		"not utf-8 \xff\xfe\xc3", "c1 \u0085\u009b31m", "lines\u2028and\u2029", "Улаанбаатар", "日本語", "🙂",
		"' OR 1=1 --", "%0a%00 100%", "{\"a\":1}", "* *DENIED* x", " GET 1 1 x 1 200", "  two  blanks ", "]]>&lt;",
	}
	rows := make([]event.Row, len(texts))
	for i, s := range texts {
		rows[i] = event.Row{
			Time: start, // these have equal times, so that only the order of recording sorts them
			ID:   s, User: s, Policy: s, Rule: s, Method: s, URL: "http://" + s, Host: s, Type: s,
			Category: s, Evidence: s, Note: s,
			Client: netip.MustParseAddr("2001:db8::1"), Action: filter.Action(i % 5), Proto: filter.Proto(i % 3),
			Learned: i%2 == 0, Score: -i, BytesIn: 1 << 40, Port: 65535,
			Findings: string(event.AppendJSON([]byte(`[{"evidence":`), s)) + "}]",
			RareValues: event.RareValues{
				Source: s, Unread: s, Cache: s, Picture: s, Conversation: s, Minutes: s, Parent: i%3 == 0, Length: 1 << 41,
				Monitored: string(event.AppendJSON([]byte("["), s)) + "]", Server: netip.MustParseAddr("2001:db8::2"),
			},
		}
	}
	return append(rows,
		event.Row{Time: start}, // all unknown
		event.Row{Time: start.Add(-time.Minute), Host: "clock.set.back"},
		event.Row{Time: start, URL: "http://long/" + strings.Repeat("ä", 60_000)},
	)
}

// Start returns a recent time with the precision of rows.
func Start() time.Time { return time.Now().UTC().Add(-10 * time.Minute).Truncate(time.Microsecond) }

// Run tests the stores that open returns. Each test has its own path. A store that is not an
// [event.Reader] must be a text file with a line per row.
func Run(t *testing.T, open func(path string) (event.Store, error)) {
	s := suite{open: open}
	t.Run("rows survive closing", s.survive)
	t.Run("hostile text stays inside its row", s.hostile)
	t.Run("a write that is refused keeps nothing", s.refused)
	t.Run("a write of nothing is upkeep", s.nothing)
	t.Run("a folder that is not there is an error", s.nowhere)
	st := s.at(t, filepath.Join(t.TempDir(), "events"))
	_, can := st.(event.Reader)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if can {
		t.Run("queries find what their filter wants", s.filters)
		t.Run("rows are followed while the clock steps", s.followed)
		t.Run("pages follow one another without gaps", s.pages)
		t.Run("counts agree with the rows", s.counts)
		t.Run("one transaction is found by its ID", s.one)
		t.Run("a query sees a beginning of what is written meanwhile", s.meanwhile)
		t.Run("a query ends with its context", s.cancelled)
		t.Run("a tail yields what is recorded from now on", s.tail)
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

// check opens the store at path again and compares its contents with rows.
func (s suite) check(t *testing.T, path string, rows []event.Row) {
	t.Helper()
	st := s.at(t, path)
	defer st.Close()
	q, ok := st.(event.Reader)
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
	got := collect(t, q, event.Filter{}, event.Page{})
	if len(got) != len(rows) {
		t.Fatalf("%d rows, want %d", len(got), len(rows))
	}
	for i := range rows {
		if !same(got[i], rows[i]) {
			t.Errorf("row %d (-want +got):\n%s", i, cmp.Diff(rows[i], got[i], cmp.Comparer(func(a, b netip.Addr) bool { return a == b })))
		}
	}
}

// same compares two rows except for their place in the store. Invalid UTF-8 may
// have been repaired.
func same(got, want event.Row) bool {
	got.Seq, want.Seq = 0, 0
	texts := func(r *event.Row) []*string {
		return []*string{&r.ID, &r.User, &r.Policy, &r.Rule, &r.Method, &r.URL, &r.Host, &r.Type, &r.Category, &r.Evidence, &r.Note,
			&r.Source, &r.Unread, &r.Cache, &r.Picture, &r.Conversation, &r.Minutes}
	}
	for i, s := range texts(&want) {
		if g := texts(&got)[i]; *g == string([]rune(*s)) {
			*s = *g
		}
	}
	return got == want
}

func collect(t *testing.T, q event.Reader, f event.Filter, p event.Page) []event.Row {
	t.Helper()
	var rows []event.Row
	for r, err := range q.Query(t.Context(), f, p) {
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
	rows := HostileRows(Start())
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
