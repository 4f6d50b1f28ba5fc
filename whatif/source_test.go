package whatif

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shuultuur/event"
	"shuultuur/filter"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, write func(io.Writer) error) {
	t.Helper()
	var got bytes.Buffer
	if err := write(&got); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("entries of %s (-want +got):\n%s", name, diff)
	}
}

// all reads a source to its end.
func all(t testing.TB, s *Source) []Entry {
	t.Helper()
	var got []Entry
	for e, err := range s.Entries(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	return got
}

func TestEveryFormatIsDetectedAndRead(t *testing.T) {
	golden(t, "entries.txt", func(w io.Writer) error {
		for _, name := range []string{"squid.log", "combined.log", "dansguardian.log", "dansguardian2.log", "dansguardian4.log", "events.jsonl", "browser.har"} {
			s := &Source{Files: []string{"testdata/" + name}, Zone: time.UTC}
			for _, e := range all(t, s) {
				fmt.Fprintf(w, "%s %s %v user=%q %s %s host=%s:%d status=%d sent=%d bytes=%d type=%q referer=%q agent=%q refused=%v",
					e.Start.Format(time.RFC3339Nano), e.Duration, e.Client, e.User, e.Method, e.Target(), e.Host, e.Port, e.Status, e.Sent, e.Bytes, e.Type, e.Referer, e.Agent, e.Refused)
				if r := e.Recorded; r != nil {
					fmt.Fprintf(w, " recorded=%s policy=%q rule=%q category=%q unseen=%v", r.Action, r.Policy, r.Rule, r.Category, r.isUnseen())
				}
				fmt.Fprintln(w)
			}
			p := Printer{W: w}
			in := s.Input()
			in.Text(&p)
			fmt.Fprintln(w)
		}
		return nil
	})
}

func TestBaseIsPutBeforePathsWithoutHost(t *testing.T) {
	s := &Source{Files: []string{"testdata/combined.log"}, Base: "https://www.example.net/"}
	got := all(t, s)
	if last := got[len(got)-1].URL; last != "https://www.example.net/only/a/path" {
		t.Errorf("a URL without a host became %q", last)
	}
}

func TestCompressedLogsAndStandardInputAreRead(t *testing.T) {
	plain, err := os.ReadFile("testdata/squid.log")
	if err != nil {
		t.Fatal(err)
	}
	var z bytes.Buffer
	for range 2 { // logs are put together as members
		w := gzip.NewWriter(&z)
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "access.log.1.gz")
	if err := os.WriteFile(file, z.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Source{Files: []string{file, "-"}, Stdin: bytes.NewReader(plain)}
	if got := len(all(t, s)); got != 15 {
		t.Errorf("got %d entries, want 15: 5 of each member", got)
	}
	if in := s.Input(); in.Broken != 6 || in.Other != 3 {
		t.Errorf("%d broken and %d other, want 6 and 3", in.Broken, in.Other)
	}

	cut := filepath.Join(t.TempDir(), "cut.gz")
	if err := os.WriteFile(cut, z.Bytes()[:z.Len()*3/4], 0o600); err != nil {
		t.Fatal(err)
	}
	s = &Source{Files: []string{cut}}
	if got := len(all(t, s)); got < 5 {
		t.Errorf("%d entries of a truncated file, want those of its first part", got)
	}
	in := s.Input()
	if err := in.CheckComplete(); err == nil || !strings.Contains(err.Error(), "cut.gz") || !strings.Contains(err.Error(), "unexpected EOF") {
		t.Errorf("CheckComplete after a truncated file: %v, want an error that names cut.gz", err)
	}
	s = &Source{Files: []string{file}}
	all(t, s)
	if in = s.Input(); in.CheckComplete() != nil {
		t.Errorf("CheckComplete after a whole file: %v", in.CheckComplete())
	}
}

func TestLongLineIsBrokenAndTheNextIsRead(t *testing.T) {
	line := "1767225600.123 1 10.1.2.3 TCP_MISS/200 1 GET http://www.example.com/%s - HIER_NONE/- text/html\n"
	text := fmt.Sprintf(line, "a") + fmt.Sprintf(line, strings.Repeat("x", 3*maxLine)) + strings.TrimSuffix(fmt.Sprintf(line, "b"), "\n")
	s := &Source{Files: []string{"-"}, Stdin: strings.NewReader(text)}
	got := all(t, s)
	if len(got) != 2 || got[1].URL != "http://www.example.com/b" {
		t.Errorf("got %d entries, want the two short lines", len(got))
	}
	want := []string{fmt.Sprintf("-:2: longer than %d bytes", maxLine)}
	if diff := cmp.Diff(want, s.Input().Examples); diff != "" {
		t.Errorf("examples of broken lines (-want +got):\n%s", diff)
	}
}

func TestLargeHAREntryEndsTheFile(t *testing.T) {
	head := `{"log":{"entries":[{"startedDateTime":"2026-01-01T00:00:00Z","request":{"method":"GET","url":"http://a.example/"},"response":{"status":200}},{"request":{"url":"`
	s := &Source{}
	got := 0
	in := &allowance{r: io.MultiReader(strings.NewReader(head), &endless{}), most: 100_000}
	if _, err := s.har(t.Context(), "x.har", in, func(Entry) bool { got++; return true }); err != nil || got != 1 {
		t.Errorf("%d entries, error %v; want the one before", got, err)
	}
	want := []string{"x.har: entry 2: the rest cannot be read: an entry is larger than 100000 bytes"}
	if diff := cmp.Diff(want, s.Input().Examples); diff != "" {
		t.Errorf("examples of broken lines (-want +got):\n%s", diff)
	}
}

type endless struct{}

func (*endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func TestMistakesOfTheCallEndTheRun(t *testing.T) {
	odd := filepath.Join(t.TempDir(), "odd.log")
	if err := os.WriteFile(odd, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		s    *Source
		want string
	}{
		{&Source{Files: []string{"testdata/none.log"}}, "none.log"},
		{&Source{Files: []string{"testdata"}}, "is a folder"},
		{&Source{Files: []string{odd}}, "match none of the formats"},
		{&Source{Files: []string{odd}, Form: "apache"}, `form "apache" is not one of`},
	} {
		var err error
		for _, e := range c.s.Entries(context.Background()) {
			err = e
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("reading %v: %v, want an error with %q", c.s.Files, err, c.want)
		}
	}
}

func TestEmptyFileHasNoRequests(t *testing.T) {
	s := &Source{Files: []string{"-"}, Stdin: strings.NewReader("\n\n")}
	if got := all(t, s); len(got) != 0 || s.Input().Broken != 0 {
		t.Errorf("reading empty lines gave %d entries and %d broken lines, want none", len(got), s.Input().Broken)
	}
}

// sound fails the test if an entry has values that could harm a program that uses it.
func sound(t *testing.T, e Entry, err error) {
	if err != nil {
		return
	}
	if e.Host == "" || e.Bytes < 0 || e.Sent < 0 || e.Status < 0 || e.Status > 999 || e.Duration < 0 {
		t.Errorf("the entry has impossible values: %+v", e)
	}
	if _, bad := method(e.Method); bad != nil {
		t.Errorf("the entry has an invalid method: %v", bad)
	}
	for _, s := range []string{e.Host, e.URL} {
		if strings.ContainsAny(s, " \r\n\t\x00") {
			t.Errorf("the host or URL %q would break a request line", s)
		}
	}
}

func FuzzLines(f *testing.F) {
	for _, name := range []string{"squid.log", "combined.log", "dansguardian.log", "dansguardian4.log", "events.jsonl", "adguardhome.json", "pihole.log", "unbound.log", "blocky.log", "nextdns.csv", "technitium.csv", "technitium.log", "dansguardian2.log"} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			f.Add(strings.TrimSpace(line))
		}
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, parse := range []func(string) (Entry, error){
			parseSquid, parseEvent, parseAdGuardHome, unboundParser(),
			func(l string) (Entry, error) { return parseDnsmasq(l, time.UTC, time.Unix(1.8e9, 0)) },
			func(l string) (Entry, error) { return parseCombined(l, "http://base.example") },
			func(l string) (Entry, error) { return parseDansGuardian(l, time.UTC) },
		} {
			e, err := parse(line)
			sound(t, e, err)
		}
		for _, expr := range queryLogs {
			e, err := parseQuery(line, expr, time.UTC)
			sound(t, e, err)
		}
	})
}

func FuzzFile(f *testing.F) {
	names, err := filepath.Glob("testdata/*.[hlj]*")
	if err != nil || len(names) < 6 {
		f.Fatalf("found %d files to begin with, want at least 6; error %v", len(names), err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"))
	f.Add([]byte(`{"log":{"x":[1,{"log":2}],"entries":{}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s := &Source{Files: []string{"-"}, Stdin: bytes.NewReader(text)}
		for e, err := range s.Entries(t.Context()) {
			sound(t, e, err)
		}
		if in := s.Input(); in.Lines != in.Requests+in.Other+in.Broken {
			t.Errorf("lines are neither requests nor other nor broken: %+v", in)
		}
	})
}

// rows is a record of events that fails after its last row.
type rows []event.Row

func (r rows) Count(context.Context, ...event.Question) ([][]event.Tally, error) { return nil, nil }

func (r rows) Query(context.Context, event.Filter, event.Page) iter.Seq2[event.Row, error] {
	return func(yield func(event.Row, error) bool) {
		for _, row := range r {
			if !yield(row, nil) {
				return
			}
		}
		yield(event.Row{}, errors.New("the disk is gone"))
	}
}

func TestRecordOfEventsIsRead(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 2, 0, time.UTC)
	record := rows{
		{Time: at, Duration: time.Second, Method: "GET", URL: "http://www.example.com/", Host: "www.example.com", Status: 200},
		{Proto: filter.TLS, Host: "2001:db8::1", Port: 8443},
		{Time: at, Status: 400},
		{URL: "http://www.example.com/" + strings.Repeat("x", 10) + "…", Host: "www.example.com"},
		{Proto: filter.DNS, Host: ""},
	}
	s := &Source{}
	var got []string
	var last error
	for e, err := range s.Events(t.Context(), record, "shuultuur.yaml") {
		if last = err; err == nil {
			got = append(got, e.Start.Format(time.TimeOnly)+" "+e.Method+" "+e.Target())
		}
	}
	if want := []string{"00:00:01 GET http://www.example.com/", "00:00:00 CONNECT [2001:db8::1]:8443"}; !slices.Equal(got, want) {
		t.Errorf("reading a record of events: got %q, want %q", got, want)
	}
	if last == nil || last.Error() != "the disk is gone" {
		t.Errorf("reading a record that fails: %v, want its error", last)
	}
	want := Input{Files: []string{"shuultuur.yaml"}, Lines: 5, Requests: 2, Other: 1, Broken: 2, Examples: []string{
		"shuultuur.yaml: row 4: the URL is too long for a record", `shuultuur.yaml: row 5: "" is not a host`,
	}}
	if diff := cmp.Diff(want, s.Input()); diff != "" {
		t.Errorf("counts of the input (-want +got):\n%s", diff)
	}
}

func TestRefusedEntriesAreKnown(t *testing.T) {
	for a := filter.Pass; a <= filter.Redirect; a++ {
		line := fmt.Sprintf(`{"time":"2026-01-01T00:00:01Z","proto":"http","action":%q,"url":"http://a.example/","host":"a.example"}`, a)
		e, err := parseEvent(line)
		if err != nil {
			t.Fatal(err)
		}
		if want := a >= filter.Warn; e.Refused != want {
			t.Errorf("action %s: the entry counts as refused: %v, want %v", a, e.Refused, want)
		}
	}
}
