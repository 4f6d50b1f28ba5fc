package eventtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"shuultuur/event"
)

// mixed returns rows of all kinds, and the time of the first.
func mixed() ([]event.Row, time.Time) {
	start := Start()
	rows := append(Rows(start, 250), HostileRows(start.Add(time.Minute))...)
	rows = append(rows, event.Row{Time: start, Host: "example.com"}, event.Row{Time: start, Host: "notexample.com"})
	return rows, start
}

// filled returns a store that holds rows.
func (s suite) filled(t *testing.T, rows []event.Row) (event.Store, event.Reader) {
	st := s.at(t, filepath.Join(t.TempDir(), "events"))
	t.Cleanup(func() { shut(t, st) })
	write(t, st, rows)
	return st, st.(event.Reader)
}

// parsed returns the filter in text.
func parsed(t *testing.T, text string) event.Filter {
	t.Helper()
	f, err := event.ParseFilter(text, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// filterTexts are filters in the filter language, at least one for each field.
var filterTexts = []string{
	"", "client:10.1.0.7", "client:2001:DB8:0::1", "client:10.1.3.0/24,10.1.4.9", "-client:10.0.0.0/8", "client:",
	"user:pupil017", "-user:pupil017,pupil018", "user:", "host:site-17.example.com", "host:example.com", "-host:example.com",
	"host:", "action:pass", "action:block", "-action:pass,block", `policy:"' OR 1=1 --"`, "rule:words", "-rule:",
	"category:phrase host:example.com", "proto:dns", "proto:tls,dns", "method:AAAA", "status:3", "status:403,3", "-status:",
	"type:text/html", "-type:text/html", "learned:yes", "-learned:yes", "source:", "-source:", "unread:too-large",
	"cache:", "-cache:", "picture:🙂", "conversation:日本語", `monitored:"new list"`, `monitored:"quote"`, "monitored:new", "-monitored:",
	"signature:2024897", "-signature:2024897", "signature:201940", "signature:", "PAGE-17", `"100%"`, `text:"back\slash"`, "баатар", "-page",
	"casino", "_", "id:0j000000001eef", "0j000000001eef", "user:nobody", "action:block -host:site-10.example.com status:403 casino",
	`rule:"line` + "\n" + `break"`, "client:10.1.0.1 user:pupil033 action:pass",
}

// followed: new rows are those that were recorded since, whatever time they have.
func (s suite) followed(t *testing.T) {
	start := Start()
	st, r := s.filled(t, Rows(start, 5))
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	next, done := iter.Pull2(event.Tail(ctx, r, parsed(t, "user:pupil000")))
	defer done()
	for i, step := range []time.Duration{-2 * time.Hour, 2 * time.Hour, -24 * time.Hour, 0} {
		rows := Rows(start.Add(step), 2)
		for n := range rows {
			rows[n].Host = fmt.Sprintf("step-%d.example", i)
		}
		got := make(chan string, 1)
		go func() {
			row, err, ok := next()
			if !ok {
				err = errors.New("it ended")
			}
			got <- fmt.Sprint(row.Host, err)
		}()
		if i == 0 {
			time.Sleep(100 * time.Millisecond) // it begins behind the rows that are there
		}
		write(t, st, rows)
		if g, want := <-got, rows[0].Host+"<nil>"; g != want {
			t.Errorf("after a step by %v: got %s, want %s", step, g, want)
		}
	}
}

func (s suite) filters(t *testing.T) {
	rows, start := mixed()
	_, st := s.filled(t, rows)
	all := map[string]event.Filter{
		"since":         {Since: start.Add(time.Minute)},
		"since between": {Since: start.Add(6*time.Millisecond + 1)},
		"until":         {Until: start.Add(10 * time.Millisecond)},
		"until between": {Until: start.Add(9*time.Millisecond + 1)},
		"span":          {Since: start.Add(5 * time.Millisecond), Until: start.Add(9 * time.Millisecond)},
	}
	for _, text := range filterTexts {
		all[text] = parsed(t, text)
	}
	for name, f := range all {
		t.Run(name, func(t *testing.T) {
			var want []event.Row
			for i := range rows {
				if f.Match(&rows[i]) {
					want = append(want, rows[i])
				}
			}
			compare(t, collect(t, st, f, event.Page{}), want)
			slices.Reverse(want)
			compare(t, collect(t, st, f, event.Page{Newest: true, Limit: 7}), want[:min(7, len(want))])
		})
	}
}

func compare(t *testing.T, got, want []event.Row) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range want {
		if !same(got[i], want[i]) {
			t.Fatalf("row %d is %q at %v, want %q at %v", i, got[i].URL, got[i].Time, want[i].URL, want[i].Time)
		}
		if got[i].Seq <= 0 {
			t.Fatalf("row %d has the place %d", i, got[i].Seq)
		}
	}
}

func (s suite) pages(t *testing.T) {
	rows, _ := mixed()
	_, st := s.filled(t, rows)
	for _, text := range []string{"", "action:block", "host:site-7.example.com", "page-1"} {
		for _, newest := range []bool{false, true} {
			f := parsed(t, text)
			want := collect(t, st, f, event.Page{Newest: newest})
			var got []event.Row
			p := event.Page{Newest: newest, Limit: 30}
			for {
				page := collect(t, st, f, p)
				got = append(got, page...)
				if len(page) < p.Limit {
					break
				}
				p.After = page[len(page)-1].Seq
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q, newest first %v: %d rows in pages, %d at once", text, newest, len(got), len(want))
			}
		}
	}
}

func (s suite) counts(t *testing.T) {
	rows, start := mixed()
	for i := range rows { // stores may repair texts, which then count differently
		rows[i].Host, rows[i].User, rows[i].Rule = valid(rows[i].Host), valid(rows[i].User), valid(rows[i].Rule)
		rows[i].Policy, rows[i].Category, rows[i].Method = valid(rows[i].Policy), valid(rows[i].Category), valid(rows[i].Method)
		rows[i].Type, rows[i].Source, rows[i].Unread, rows[i].Cache = valid(rows[i].Type), valid(rows[i].Source), valid(rows[i].Unread), valid(rows[i].Cache)
	}
	_, st := s.filled(t, rows)
	fields := []event.Field{event.Text, event.Client, event.User, event.Host, event.Action, event.Policy, event.Rule, event.Category,
		event.Proto, event.Method, event.Status, event.Type, event.Learned, event.Source, event.Unread, event.Cache}
	var questions []event.Question
	for i, text := range filterTexts {
		questions = append(questions, event.Question{Filter: parsed(t, text), By: fields[i%len(fields)], Top: 10})
	}
	for _, by := range fields {
		questions = append(questions, event.Question{By: by},
			event.Question{Filter: event.Filter{Since: start.Add(5 * time.Millisecond), Until: start.Add(9 * time.Millisecond)}, By: by})
	}
	c, err := event.NewCounter(questions)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		c.Add(&rows[i])
	}
	want := c.Tallies()
	got, err := st.Count(t.Context(), questions...)
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range questions {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("by %v with %+v: %v, want %v", q.By, q.Filter, got[i], want[i])
		}
	}
	if _, err := st.Count(t.Context(), event.Question{By: event.ID}); err == nil {
		t.Error("counted by what every row has for itself")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := st.Count(ctx, event.Question{By: event.Host}); err == nil {
		t.Error("counted after its context ended")
	}
}

func valid(s string) string { return string([]rune(s)) }

func (s suite) one(t *testing.T) {
	rows, _ := mixed()
	_, st := s.filled(t, rows)
	got, err := event.RowByID(t.Context(), st, rows[150].ID)
	if err != nil || !same(got, rows[150]) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := event.RowByID(t.Context(), st, "0jnobody"); !errors.Is(err, event.ErrNone) {
		t.Errorf("of an ID that no row has: %v", err)
	}
}

func (s suite) tail(t *testing.T) {
	rows := Rows(Start(), 200)
	st, r := s.filled(t, rows[:100])
	var want []event.Row
	f := parsed(t, "action:block")
	for i := range rows[100:] {
		if f.Match(&rows[100+i]) {
			want = append(want, rows[100+i])
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	started, got := false, []event.Row(nil)
	next := event.Tail(ctx, reading{r, func() { // Tail has seen the end
		if !started {
			started = true
			write(t, st, rows[100:150])
			write(t, st, rows[150:])
		}
	}}, f)
	for row, err := range next {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, row); len(got) == len(want) {
			break
		}
	}
	compare(t, got, want)
}

// A reading is a reader that signals the end of a query.
type reading struct {
	event.Reader
	over func()
}

func (r reading) Query(ctx context.Context, f event.Filter, p event.Page) iter.Seq2[event.Row, error] {
	return func(yield func(event.Row, error) bool) {
		r.Reader.Query(ctx, f, p)(yield)
		r.over()
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
		got := collect(t, st.(event.Reader), event.Filter{}, event.Page{})
		if len(got) < seen {
			t.Fatalf("%d rows, and %d before", len(got), seen)
		}
		seen = len(got)
		for i := range got {
			if !same(got[i], rows[i]) {
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
	for _, err := range st.(event.Reader).Query(ctx, event.Filter{}, event.Page{}) {
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
