//go:build !small

package report

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shuultuur/event"
	"shuultuur/event/eventtest"
	"shuultuur/event/sqlite"
	"shuultuur/filter"
)

// Count makes rows a record.
func (r rows) Count(_ context.Context, questions ...event.Question) ([][]event.Tally, error) {
	c, err := event.NewCounter(questions)
	if err != nil {
		return nil, err
	}
	for i := range r {
		c.Add(&r[i])
	}
	return c.Tallies(), nil
}

// lesson is a week of two people and a device, with the week before.
func lesson(monday time.Time) (all rows) {
	add := func(day, hour int, user, addr, host string, a filter.Action, category, rule string) {
		all = append(all, event.Row{Time: monday.AddDate(0, 0, day).Add(time.Duration(hour)*time.Hour + time.Minute), User: user, Client: netip.MustParseAddr(addr),
			Host: host, Action: a, Category: category, Policy: "pupils", Rule: rule})
	}
	for range 3 {
		add(-6, 9, "anna", "10.0.0.1", "old.example", filter.Pass, "", "")
	}
	add(-6, 9, "anna", "10.0.0.1", "casino.example", filter.Block, "gambling", "no gambling")
	for range 4 {
		add(0, 9, "anna", "10.0.0.1", "casino.example", filter.Block, "gambling", "no gambling")
	}
	add(0, 10, "anna", "10.0.0.1", "old.example", filter.Pass, "", "")
	add(1, 10, "bat", "10.0.0.2", "new.example", filter.Pass, "", "")
	add(1, 10, "bat", "10.0.0.2", "game.example", filter.Block, "games", "no games")
	add(2, 23, "", "10.0.0.3", "warn.example", filter.Warn, "games", "careful")
	add(6, 23, "", "10.0.0.3", "move.example", filter.Redirect, "", "elsewhere")
	add(7, 0, "bat", "10.0.0.2", "later.example", filter.Block, "games", "no games")
	return all
}

func classOf(addr netip.Addr, user string) []string {
	if user == "bat" || addr == netip.MustParseAddr("10.0.0.3") {
		return []string{"7b"}
	}
	return nil
}

// TestCountedAndReadPicturesAreTheSame: the page counts, the PDF and the mail read.
func TestCountedAndReadPicturesAreTheSame(t *testing.T) {
	t.Run("and hours are read", countAndRead)
	kept := maxCurveRows
	maxCurveRows = 0
	defer func() { maxCurveRows = kept }()
	t.Run("and hours are counted", countAndRead)
}

func countAndRead(t *testing.T) {
	monday := time.Date(2026, 11, 23, 0, 0, 0, 0, time.Local)
	for _, q := range []Question{{}, {Person: "anna"}, {Person: "10.0.0.3"}, {Person: "nobody"}, {Group: "7b"}, {Group: "none"}} {
		q.Since, q.Until, q.Groups = monday, monday.AddDate(0, 0, 7), classOf
		read, err := Build(t.Context(), lesson(monday), q)
		if err != nil {
			t.Fatal(err)
		}
		counted, err := Look(t.Context(), lesson(monday), q, event.Category, q.Until)
		if err != nil {
			t.Fatal(err)
		}
		for i := range counted.Steps {
			counted.Steps[i].Before = 0 // a report has no time before
		}
		type drawn struct {
			Steps  []Step
			Kinds  []Kind
			Hours  [7][24]int
			People []Curve
		}
		of := func(p *Pictures) drawn { return drawn{p.Steps, p.Kinds, p.Hours, p.People} }
		if diff := cmp.Diff(of(read.Pictures), of(counted.Pictures), cmp.AllowUnexported(Curve{})); diff != "" {
			t.Errorf("person %q, group %q: read (-) and counted (+) differ:\n%s", q.Person, q.Group, diff)
		}
		if int64(counted.Requests) != read.Requests || int64(counted.Blocked) != read.Blocked {
			t.Errorf("person %q, group %q: %d requests and %d blocked are counted, %d and %d read", q.Person, q.Group, counted.Requests, counted.Blocked, read.Requests, read.Blocked)
		}
	}
}

func TestAnOverviewComparesWithTheTimeBefore(t *testing.T) {
	monday := time.Date(2026, 11, 23, 0, 0, 0, 0, time.Local)
	q := Question{Since: monday, Until: monday.AddDate(0, 0, 7)}
	for _, tt := range []struct {
		by   event.Field
		want []Compared
	}{
		{event.Category, []Compared{{"gambling", 4, 1}, {"games", 1, 0}}},
		{event.Host, []Compared{{"casino.example", 4, 1}, {"game.example", 1, 0}}},
		{event.Rule, []Compared{{"pupils/no gambling", 4, 1}, {"pupils/no games", 1, 0}}},
	} {
		o, err := Look(t.Context(), lesson(monday), q, tt.by, q.Until)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, o.Top); diff != "" {
			t.Errorf("by %v:\n%s", tt.by, diff)
		}
		if o.Requests != 9 || o.RequestsBefore != 4 || o.BlockedBefore != 1 || o.Devices != 3 || o.Steps[1].Before != 4 {
			t.Errorf("%d requests, %d and %d blocked before, %d people, %d on the Tuesday before", o.Requests, o.RequestsBefore, o.BlockedBefore, o.Devices, o.Steps[1].Before)
		}
		fresh := ""
		for _, c := range o.New {
			fresh += c.Name + " "
		}
		if fresh != "game.example move.example new.example warn.example " || !o.Known || o.NewSites != 4 {
			t.Errorf("new are %q, of %d", fresh, o.NewSites)
		}
	}
	// In the middle of the period the time before is as long as what is over.
	if o, err := Look(t.Context(), lesson(monday), q, event.Category, monday.Add(20*time.Hour)); err != nil || o.RequestsBefore != 0 {
		t.Errorf("after a Monday the week before counts %d requests, %v", o.RequestsBefore, err)
	}
	if o, err := Look(t.Context(), rows{}, q, event.Category, q.Until); err != nil || o.Known || o.Requests != 0 || len(o.Bars().Shapes) != 0 || len(o.Top)+len(o.New)+len(o.People) != 0 {
		t.Errorf("an empty record gives %+v, %v", o, err)
	}
}

func TestStepsAreHoursDaysOrWeeks(t *testing.T) {
	at := time.Date(2026, 3, 28, 0, 0, 0, 0, time.Local)
	for days, want := range map[int]string{1: "hour 24", 2: "hour 48", 3: "day 3", 31: "day 31", 100: "day 100", 101: "week 15", 366: "week 53"} {
		p := newPictures(at, at.AddDate(0, 0, days))
		if got := fmt.Sprint(p.Unit, " ", len(p.Steps)); got != want {
			t.Errorf("%d days are %s, want %s", days, got, want)
		}
	}
}

func TestDaysOfAReport(t *testing.T) {
	now := time.Date(2026, 11, 24, 9, 0, 0, 0, time.Local)
	for _, tt := range []struct{ from, to, want string }{
		{"2026-11-01", "2026-11-03", "2026-11-01 2026-11-04"},
		{"2026-11-03", "2026-11-03", "2026-11-03 2026-11-04"},
		{"2026-11-20", "", "2026-11-20 2026-11-25"},
		{"2026-11-03", "2026-11-01", "comes first"},
		{"2026-11-25", "", "comes first"},
		{"2024-11-03", "2026-11-01", "more than a year"},
		{"yesterday", "", "is not a day"},
		{"2026-11-03", "03.11.2026", "is not a day"},
		{"", "2026-11-01", "is not a day"},
	} {
		since, until, err := Days(tt.from, tt.to, now)
		got := since.Format(time.DateOnly) + " " + until.Format(time.DateOnly)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("from %q to %q: %s, want %s", tt.from, tt.to, got, tt.want)
		}
	}
}

func TestAPDFHasThePictures(t *testing.T) {
	monday := time.Date(2026, 11, 23, 0, 0, 0, 0, time.Local)
	r, err := Build(t.Context(), lesson(monday), Question{Since: monday, Until: monday.AddDate(0, 0, 7)})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.PDF(&b); err != nil {
		t.Fatal(err)
	}
	streams := unpackStreams(t, b.String())
	for _, want := range []string{"Requests over time", "Blocked, by kind", "When is most blocked?", "Gambling", "Games", "Mon"} {
		if !strings.Contains(streams, "/ActualText <FEFF"+utf16Hex(want)+">") {
			t.Errorf("the PDF lacks %q", want)
		}
	}
	for _, class := range []string{"pass", "warn", "block", "h0", "h5"} {
		ink := fmt.Sprintf("q %.2f %.2f %.2f rg\n", inks[class][0], inks[class][1], inks[class][2])
		if !strings.Contains(streams, ink) {
			t.Errorf("the PDF has nothing of the colour %s", class)
		}
	}
	if slices.ContainsFunc(strings.Split(streams, "\n"), func(line string) bool { return strings.Contains(line, "NaN") || strings.Contains(line, "Inf") }) {
		t.Error("the PDF has figures that are none")
	}
}

// BenchmarkOverview looks at thirty days with a million events.
func BenchmarkOverview(b *testing.B) {
	file := os.Getenv("OVERVIEW_DB")
	if file == "" {
		file = filepath.Join(b.TempDir(), "events.db")
	}
	until := time.Now().Truncate(24 * time.Hour)
	if _, err := os.Stat(file); err != nil {
		s, err := sqlite.Open(file, 365*24*time.Hour)
		if err != nil {
			b.Fatal(err)
		}
		const batch = 10_000
		for i := range 100 {
			rows := eventtest.Rows(until.Add(-time.Duration(100-i)*30*24*time.Hour/100), batch)
			for k := range rows {
				rows[k].Time = rows[0].Time.Add(time.Duration(k) * 30 * 24 * time.Hour / 100 / batch)
			}
			if err := s.Write(b.Context(), rows); err != nil {
				b.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	r, err := sqlite.OpenReader(file)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	for b.Loop() {
		o, err := Look(b.Context(), r, Question{Since: until.AddDate(0, 0, -30), Until: until}, event.Category, until)
		if err != nil || o.Requests == 0 {
			b.Fatal(o, err)
		}
	}
}
