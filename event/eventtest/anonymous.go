package eventtest

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"shuultuur/event"
)

const oldUser = "zz-quilliam-77"

var oldClient = netip.MustParseAddr("10.77.66.55")

// anonymousRows returns n old rows and n recent ones, with different clients
// and users.
func anonymousRows(n int) (old, young []event.Row) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	old, young = Rows(now.Add(-10*24*time.Hour), n), Rows(now.Add(-time.Hour), n)
	for i := range old {
		r := &old[i]
		r.User, r.ID = "old-"+r.User, "o"+r.ID
		r.Client = netip.AddrFrom4([4]byte{10, 2, byte(i >> 5), byte(i)})
		switch i % 100 {
		case 7:
			r.User, r.Client = oldUser, oldClient
		case 8:
			r.User, r.Note = "", "paused for "+oldUser
		case 10:
			r.User, r.Evidence, r.Findings = oldUser, "quota of "+oldUser, `[{"evidence":"quota of `+oldUser+`"}]`
		}
	}
	return old, young
}

// Anonymous tests that a store makes old rows anonymous and leaves the others alone. files
// reports that the store's data are files beside the path; then their bytes are searched.
func Anonymous(t *testing.T, open func(path string) (event.Store, error), files bool) {
	dir := t.TempDir()
	path := filepath.Join(dir, "record")
	start := func(after time.Duration) event.Store {
		st, err := open(path)
		if err != nil {
			t.Fatal(err)
		}
		if after > 0 {
			st.(event.Anonymiser).Anonymise(after)
		}
		return st
	}
	const n = 18_000
	old, young := anonymousRows(n)
	st := start(0) // a time when the setting was off
	write(t, st, old)
	write(t, st, young[:n/2])
	write(t, st, nil) // upkeep
	shut(t, st)

	st = start(7 * 24 * time.Hour)
	defer func() { shut(t, st) }()
	r := st.(event.Reader)
	if _, err := r.Count(t.Context(), event.Question{By: event.User, Top: 3}, event.Question{By: event.Client, Top: 3}); err != nil { // fills caches of the reader
		t.Fatal(err)
	}
	for _, rows := range slices.Collect(slices.Chunk(young[n/2:], n/10)) {
		write(t, st, rows)
	}
	for range 5 { // minutes without events
		write(t, st, nil)
	}
	want := slices.Concat(old, young)
	for i := range old {
		want[i].Anonymise()
	}
	holds(t, r, want)
	if files {
		hasNot(t, dir, oldUser, oldClient.String(), "old-pupil001")
	}
	check := func(filter string, want int) {
		t.Helper()
		got, err := r.Count(t.Context(), event.Question{Filter: parsed(t, filter)})
		if err != nil || events(got[0]) != want {
			t.Errorf("%s: %d rows, %v; want %d", filter, events(got[0]), err, want)
		}
	}
	check("user:"+oldUser, 0)
	check("client:"+oldClient.String(), 0)
	check(oldUser, 0)
	check("user:pupil003", n/400)
	check("client:10.77.66.0/24", n/100)

	// A second pass changes nothing. Then recent rows become old.
	shut(t, st)
	st = start(7 * 24 * time.Hour)
	r = st.(event.Reader)
	write(t, st, nil)
	holds(t, r, want)
}

// holds checks that a store has rows, and that its counts agree with them.
func holds(t *testing.T, r event.Reader, want []event.Row) {
	t.Helper()
	got := collect(t, r, event.Filter{}, event.Page{})
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	wrong := 0
	for i := range want {
		if !same(got[i], want[i]) {
			if wrong++; wrong < 4 {
				t.Errorf("row %d is\n%+v, want\n%+v", i, got[i], want[i])
			}
		}
	}
	var questions []event.Question
	for _, by := range []event.Field{event.Client, event.User, event.Host, event.Text} {
		for _, f := range []string{"", "action:block", "user:pupil003,pupil004", "client:10.0.0.0/8", "since:2d", "until:2d"} {
			questions = append(questions, event.Question{By: by, Filter: parsed(t, f)})
		}
	}
	counter, err := event.NewCounter(questions)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		counter.Add(&want[i])
	}
	sums, err := r.Count(t.Context(), questions...)
	if err != nil {
		t.Fatal(err)
	}
	for i, all := range counter.Tallies() {
		if got, want := fmt.Sprint(sums[i]), fmt.Sprint(all); got != want {
			t.Errorf("by %s of %v: got %.300s, want %.300s", questions[i].By, questions[i].Filter.Terms, got, want)
		}
	}
}

// hasNot checks that no file in a folder contains any of the words.
func hasNot(t *testing.T, dir string, words ...string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the store's folder: got files %q, %v, want some", files, err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range words {
			if n := bytes.Count(data, []byte(w)); n > 0 {
				t.Errorf("%s holds %q %d times", f, w, n)
			}
		}
	}
}
