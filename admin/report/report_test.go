//go:build !small

package report

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"iter"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/filter"
	texts "shuultuur/text"
)

type rows []event.Row

func (r rows) Query(_ context.Context, f event.Filter, _ event.Page) iter.Seq2[event.Row, error] {
	return func(yield func(event.Row, error) bool) {
		for i := range r {
			if f.Match(&r[i]) && !yield(r[i], nil) {
				return
			}
		}
	}
}

func sample(at time.Time) (all rows) {
	add := func(minute int, user, url string, a filter.Action, category string) {
		host := strings.Split(strings.TrimPrefix(url, "https://"), "/")[0]
		all = append(all, event.Row{Time: at.Add(time.Duration(minute)*time.Minute + 10*time.Second), User: user, Client: netip.MustParseAddr("10.0.0.1"), Host: host, URL: url, Action: a, Category: category})
	}
	add(0, "Бат-Эрдэнэ Өнөр", "https://www.google.com/search?q=Casino++Bonus", filter.Pass, "")
	add(0, "Бат-Эрдэнэ Өнөр", "https://casino.example/", filter.Block, "gambling")
	add(1, "Бат-Эрдэнэ Өнөр", "https://casino.example/", filter.Block, "gambling")
	add(90, "=anna", "https://duckduckgo.com/?q=casino+bonus", filter.Pass, "")
	add(91, "=anna", "https://www.google.com/complete/search?q=casin", filter.Pass, "")
	add(3000, "=anna", "https://late.example/", filter.Pass, "")
	all = append(all, event.Row{Time: at.Add(time.Hour), User: "=anna", Proto: filter.DNS, Host: "a.example"})
	return all
}

func build(t *testing.T, q Question) *Report {
	t.Helper()
	q.Since, q.Until, _ = Span("day", time.Date(2026, 11, 24, 9, 0, 0, 0, time.Local))
	q.Groups = func(_ netip.Addr, user string) []string {
		if user == "=anna" {
			return []string{"7a"}
		}
		return []string{"7b", "chess"}
	}
	r, err := Build(t.Context(), sample(q.Since.Add(8*time.Hour)), q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAReportSumsUpADay(t *testing.T) {
	r := build(t, Question{})
	if r.Requests != 6 || r.Blocked != 2 || len(r.Groups) != 3 {
		t.Errorf("the report is %+v", r)
	}
	want := []Line{{"=anna", 3, 0, 2}, {"Бат-Эрдэнэ Өнөр", 3, 2, 1}}
	if !slices.Equal(r.People, want) {
		t.Errorf("people are %+v", r.People)
	}
	if want := []Line{{"casino bonus", 2, 0, 0}}; !slices.Equal(r.Searches, want) {
		t.Errorf("the searches are %+v", r.Searches)
	}
	says := strings.Join(r.Says, " ")
	for _, want := range []string{"People and devices that used the web: 2. Requests: 6.", "Requests blocked: 2, 33.3 % of all.", "the category “Gambling” (2)."} {
		if !strings.Contains(says, want) {
			t.Errorf("the sentences %q lack %q", says, want)
		}
	}
	if r := build(t, Question{Group: "7a"}); r.Requests != 3 || r.Blocked != 0 || len(r.People) != 1 {
		t.Errorf("the report of a group is %+v", r)
	}
	if r := build(t, Question{Person: "=anna"}); r.Requests != 3 || !strings.Contains(strings.Join(r.Says, " "), "Time online: 0 h 02 min.") {
		t.Errorf("the report of a person is %+v", r)
	}
}

// TestAMinuteOnlineCountsOnce: across devices, connections and long polls, in whatever order they end.
func TestAMinuteOnlineCountsOnce(t *testing.T) {
	since := time.Date(2026, 11, 23, 0, 0, 0, 0, time.Local)
	row := func(begin, took time.Duration, minutes string) event.Row {
		at := since.Add(begin)
		return event.Row{Time: at.Add(took), Duration: took, User: "ann", Client: netip.MustParseAddr("10.0.0.1"), RareValues: event.RareValues{Minutes: minutes}}
	}
	long, short, noon := 25*time.Hour, time.Second, 12*time.Hour
	var polls rows
	for i := range 40 { // two pages of one person poll for 55 s each
		polls = append(polls, row(noon+time.Duration(i)*time.Second, 55*time.Second, "0-1"), row(noon+time.Duration(i)*time.Second, short, ""))
	}
	blocked := row(noon, short, "")
	blocked.Action = filter.Block
	late := blocked
	late.Server = netip.MustParseAddr("192.0.2.1")
	name := row(noon, short, "")
	name.Proto = filter.DNS
	for what, tt := range map[string]struct {
		rows rows
		want int64
	}{
		"nothing":                       {nil, 0},
		"one request":                   {rows{row(noon, short, "")}, 1},
		"polls of two pages":            {polls, 2},
		"a tunnel that was used":        {rows{row(noon, 2*time.Hour, "0-119")}, 120},
		"one that was idle":             {rows{row(noon, 2*time.Hour, "0,60,119")}, 3},
		"one that nobody has looked at": {rows{row(noon, 2*time.Hour, "")}, 1},
		"two at once":                   {rows{row(noon, time.Hour, "0-59"), row(noon+30*time.Minute, time.Hour, "0-59")}, 90},
		"one over midnight":             {rows{row(long-2*time.Hour, 2*time.Hour, "0-119")}, 60},
		"one from the day before":       {rows{row(-time.Hour, 2*time.Hour, "0-119")}, 60},
		"the next day":                  {rows{row(long, short, "")}, 0},
		"refused":                       {rows{blocked}, 0},
		"refused after it was sent":     {rows{late}, 1},
		"a name":                        {rows{name}, 0},
		"a damaged row":                 {rows{row(noon, time.Hour, "9-3")}, 1},
	} {
		r, err := Build(t.Context(), tt.rows, Question{Since: since, Until: since.Add(24 * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.minutes(); got != tt.want {
			t.Errorf("%s: %d minutes online, want %d", what, got, tt.want)
		}
	}
}

func TestACSVHasNoFormulas(t *testing.T) {
	var b bytes.Buffer
	if err := build(t, Question{}).CSV(&b); err != nil {
		t.Fatal(err)
	}
	all, err := csv.NewReader(&b).ReadAll()
	if err != nil || all[1][1] != "'=anna" || all[1][4] != "2" {
		t.Errorf("the CSV is %q, %v", all, err)
	}
}

func TestNamesThatSpreadsheetsTakeForFormulas(t *testing.T) {
}

func TestAPDFHoldsTheLettersOfItsNames(t *testing.T) {
	r := build(t, Question{})
	for i := range 120 { // more than one sheet
		r.Sites = append(r.Sites, Line{Name: fmt.Sprintf("site-%d.example", i), Requests: 1})
	}
	var b bytes.Buffer
	if err := r.PDF(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if !strings.HasPrefix(text, "%PDF-1.7\n") || !strings.HasSuffix(text, "%%EOF\n") || strings.Count(text, "/Type /Page ") < 3 {
		t.Errorf("the PDF has %d bytes and %d sheets", len(text), strings.Count(text, "/Type /Page "))
	}
	// Each entry in the table of objects is the place of its object.
	for i, m := range regexp.MustCompile(`(?m)^(\d{10}) 00000 n $`).FindAllStringSubmatch(text, -1) {
		at, _ := strconv.Atoi(m[1])
		if want := fmt.Sprintf("%d 0 obj\n", i+1); !strings.HasPrefix(text[at:], want) {
			t.Fatalf("object %d is not at %d", i+1, at)
		}
	}
	streams := unpackStreams(t, text)
	if !strings.Contains(streams, "/ActualText <FEFF"+utf16Hex("Бат-Эрдэнэ Өнөр")+">") {
		t.Error("the PDF has no text for copying the name")
	}
	dir := os.Getenv("SHUULTUUR_PICTURES")
	if dir == "" {
		dir = t.TempDir()
	}
	file := filepath.Join(dir, "report.pdf")
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	tool, err := exec.LookPath("pdftotext")
	if err != nil {
		t.Log("pdftotext of poppler-utils is not installed: no other program has read the file")
		return
	}
	out, err := exec.CommandContext(t.Context(), tool, file, "-").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Бат-Эрдэнэ Өнөр") || strings.Contains(string(out), "Error") {
		t.Errorf("pdftotext prints %s, %v", out, err)
	}
}

// unpackStreams returns the streams of a PDF, one after the other.
func unpackStreams(t *testing.T, pdf string) (streams string) {
	t.Helper()
	for _, part := range strings.Split(pdf, "\nstream\n")[1:] {
		z, err := zlib.NewReader(strings.NewReader(part))
		if err != nil {
			t.Fatal(err)
		}
		s, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		streams += string(s)
	}
	return streams
}

// TestAReportInArabicIsAnEnglishPDF: the font of the PDF has no Arabic letters. The sentences of the
// page and the mail stay Arabic.
func TestAReportInArabicIsAnEnglishPDF(t *testing.T) {
	s, err := texts.New("")
	if err != nil {
		t.Fatal(err)
	}
	r := build(t, Question{Texts: s.For("ar")})
	arabic := []string{"استخدام الويب في \u20682026-11-23\u2069", "الطلبات المحجوبة: 2، أي \u206833.3\u2069 % من الكل."}
	check := func(when string) {
		t.Helper()
		if r.Title != arabic[0] || !slices.Contains(r.Says, arabic[1]) {
			t.Errorf("%s the PDF the title is %q and the sentences are %q, want %q", when, r.Title, r.Says, arabic)
		}
	}
	check("before")
	var b bytes.Buffer
	if err := r.PDF(&b); err != nil {
		t.Fatal(err)
	}
	check("after")
	streams := unpackStreams(t, b.String())
	for _, want := range []string{"Web use on Monday 23 November 2026", "Requests blocked: 2, 33.3 % of all.", "Blocked", "0 h 02 min"} {
		if !strings.Contains(streams, "/ActualText <FEFF"+utf16Hex(want)+">") {
			t.Errorf("the PDF lacks %q", want)
		}
	}
	if strings.Contains(streams, utf16Hex("ال")) {
		t.Error("the PDF has Arabic words")
	}
}

func TestSpansAndTimes(t *testing.T) {
	at := func(s string) time.Time { x, _ := time.ParseInLocation("2006-01-02 15:04", s, time.Local); return x }
	for _, x := range []struct{ kind, now, since, until string }{
		{"day", "2026-11-24 09:00", "2026-11-23 00:00", "2026-11-24 00:00"},
		{"today", "2026-11-24 09:00", "2026-11-24 00:00", "2026-11-25 00:00"},
		{"week", "2026-11-24 09:00", "2026-11-16 00:00", "2026-11-23 00:00"},
		{"week", "2026-11-22 09:00", "2026-11-09 00:00", "2026-11-16 00:00"}, // a Sunday
		{"7d", "2026-11-24 09:00", "2026-11-18 00:00", "2026-11-25 00:00"},
	} {
		since, until, err := Span(x.kind, at(x.now))
		if err != nil || !since.Equal(at(x.since)) || !until.Equal(at(x.until)) {
			t.Errorf("span %s at %s: %v to %v, %v", x.kind, x.now, since, until, err)
		}
	}
	for _, x := range []struct{ every, now, due string }{
		{"day", "2026-11-24 09:00", "2026-11-24 07:00"}, {"day", "2026-11-24 06:59", "2026-11-23 07:00"},
		{"week", "2026-11-24 09:00", "2026-11-23 07:00"}, {"week", "2026-11-23 06:00", "2026-11-16 07:00"},
	} {
		s := Schedule{Every: x.every, At: "07:00"}
		if due := s.Due(at(x.now)); !due.Equal(at(x.due)) {
			t.Errorf("every %s at %s: due at %v", x.every, x.now, due)
		}
	}
}

// Sunday, 6 September 2026, has no midnight in Santiago and begins at one.
func TestReportsOfADayWithoutMidnight(t *testing.T) {
	santiago, err := time.LoadLocation("America/Santiago")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ kind, now, since, until string }{
		{"today", "2026-09-06T15:00:00Z", "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"},
		{"day", "2026-09-06T15:00:00Z", "2026-09-05T04:00:00Z", "2026-09-06T04:00:00Z"},
		{"day", "2026-09-07T15:00:00Z", "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"},
		{"7d", "2026-09-12T15:00:00Z", "2026-09-06T04:00:00Z", "2026-09-13T03:00:00Z"},
		{"week", "2026-09-08T15:00:00Z", "2026-08-31T04:00:00Z", "2026-09-07T03:00:00Z"},
	} {
		now, _ := time.Parse(time.RFC3339, x.now)
		since, until, err := Span(x.kind, now.In(santiago))
		if err != nil || since.UTC().Format(time.RFC3339) != x.since || until.UTC().Format(time.RFC3339) != x.until {
			t.Errorf("%s at %s: %v to %v, %v; want %s to %s", x.kind, x.now, since.UTC(), until.UTC(), err, x.since, x.until)
		}
	}
	for at, want := range map[string]string{"00:30": "2026-09-06T04:00:00Z", "01:00": "2026-09-06T04:00:00Z", "23:00": "2026-09-06T03:00:00Z"} {
		s := Schedule{Every: "day", At: at}
		if due := s.Due(time.Date(2026, 9, 6, 15, 0, 0, 0, time.UTC).In(santiago)); due.UTC().Format(time.RFC3339) != want {
			t.Errorf("every day at %s: due at %v, want %s", at, due.UTC(), want)
		}
	}
}
