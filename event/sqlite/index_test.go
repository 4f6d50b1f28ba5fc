package sqlite

import (
	"fmt"
	"iter"
	"maps"
	"math/bits"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/event/eventtest"
	"shuultuur/filter"
)

// asked has filters as people write them, for all fields and all ways in which rows are found.
var asked = []string{
	"", "host:site-17.example.com", "host:nowhere.example.com", "-host:example.com", "client:10.1.3.0/24", "user:pupil017", "action:block",
	"action:pass status:200", "type:text/html page-17", "casino", "poker -host:site-10.example.com", "monitored:\"new list\"", "signature:7",
	"unread:too-large", "proto:dns,tls", "rule:words policy:pupils", "id:0j0000003d0ec5", "0j0000003d0ec5", "-signature:2024897 action:block host:example.com",
	"since:1h", "until:1h", "since:2s until:1s", "learned:yes", "page-1000", "page-1000.html -page",
}

// agree compares the results of r with rows, the newest of which was written at now.
func agree(t *testing.T, r event.Reader, rows []event.Row, now time.Time) {
	t.Helper()
	fields := []event.Field{event.Text, event.Client, event.User, event.Host, event.Action, event.Policy, event.Rule, event.Category, event.Proto, event.Status}
	var questions []event.Question
	for i, text := range asked {
		f, err := event.ParseFilter(text, now)
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			questions = append(questions, event.Question{Filter: f, By: fields[i/2%len(fields)], Top: 10})
		}
		var want []string
		for i := range rows {
			if f.Match(&rows[i]) {
				want = append(want, rows[i].ID)
			}
		}
		slices.Reverse(want)
		want = want[:min(len(want), 40)]
		var got []string
		for row, err := range r.Query(t.Context(), f, event.Page{Newest: true, Limit: 40}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, row.ID)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("Query(%q) found %d rows, want %d", text, len(got), len(want))
		}
	}
	for _, by := range fields {
		questions = append(questions, event.Question{By: by, Top: 10})
	}
	c, err := event.NewCounter(questions)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		c.Add(&rows[i])
	}
	want := c.Tallies()
	got, err := r.Count(t.Context(), questions...)
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range questions {
		if !slices.Equal(got[i], want[i]) {
			t.Fatalf("counting by %v with %+v:\n%v, want\n%v", q.By, q.Filter, got[i], want[i])
		}
	}
}

// manyRows returns rows for several segments; the last row is current.
func manyRows(now time.Time, n int) []event.Row {
	return eventtest.Rows(now.Add(-time.Duration(n)*50*time.Microsecond), n)
}

func openGrouped(t *testing.T, path string, keep time.Duration) *Store {
	t.Helper()
	s, err := Open(path, keep)
	if err != nil {
		t.Fatal(err)
	}
	small(&s.index.b, &s.tail.b)
	s.w.group = 2 // so that few rows make totals of both levels
	return s
}

// smallRows are the rows of a segment in most tests.
const smallRows = 256

func small(all ...*builder) {
	for _, b := range all {
		b.most = smallRows
	}
}

func fill(t *testing.T, s *Store, rows []event.Row) {
	t.Helper()
	for part := range slices.Chunk(rows, 110) {
		if err := s.Write(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *Store) number(t *testing.T, query string) int64 {
	t.Helper()
	n, err := s.w.int(query)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestIndexAgreesWithTheRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	now := time.Now().UTC().Truncate(time.Microsecond)
	rows := manyRows(now, 5*smallRows+80)
	s := openGrouped(t, path, year)
	defer func() { s.Close() }()
	fill(t, s, rows)
	if n := s.number(t, "SELECT count(*) FROM segment"); n != 5 {
		t.Errorf("the index has %d segments, want 5", n)
	}
	for level, want := range map[int]int64{1: 2, 2: 1} {
		if n := s.number(t, fmt.Sprintf("SELECT count(*) FROM total WHERE id & 63 = %d AND length(data) > 0", level*totalColumnsMax+int(columnHost))); n != want {
			t.Errorf("the index has %d totals of level %d, want %d", n, level, want)
		}
	}
	agree(t, s, rows, now)

	// Another process reads the existing rows, then newer ones.
	r, err := OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	small(&r.tail.b)
	agree(t, r, rows, now)
	more := eventtest.Rows(now, 300)
	fill(t, s, more)
	rows = append(rows, more...)
	agree(t, r, rows, now.Add(time.Second))

	// A rebuilt index is the same.
	if err := s.w.exec("DELETE FROM segment; DELETE FROM part; DELETE FROM total"); err != nil {
		t.Fatal(err)
	}
	agree(t, r, rows, now.Add(time.Second))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openGrouped(t, path, year)
	if err := s.Write(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if n := s.number(t, "SELECT count(*) FROM segment"); n != 6 {
		t.Errorf("%d segments were rebuilt, want 6", n)
	}
	agree(t, s, rows, now.Add(time.Second))
}

// TestRowsWithoutAUserAreCounted: where all rows have none, where all have one, and where some have one.
func TestRowsWithoutAUserAreCounted(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	for name, named := range map[string]func(i int) bool{
		"all": func(int) bool { return true }, "none": func(int) bool { return false }, "every third": func(i int) bool { return i%3 == 0 },
		"the first half": func(i int) bool { return i < 4*smallRows }, "one": func(i int) bool { return i == 3*smallRows },
	} {
		t.Run(name, func(t *testing.T) {
			rows := manyRows(now, 8*smallRows+20)
			for i := range rows {
				if rows[i].User = ""; named(i) {
					rows[i].User = fmt.Sprintf("pupil%d", i%20)
				}
			}
			s := openGrouped(t, filepath.Join(t.TempDir(), "events.db"), year)
			defer s.Close()
			fill(t, s, rows)
			if n := s.number(t, "SELECT count(*) FROM total"); n == 0 {
				t.Fatal("there are no totals")
			}
			agree(t, s, rows, now)
			middle := rows[len(rows)/2].Time
			var pupils []string
			for i := range manyValues {
				pupils = append(pupils, fmt.Sprintf("pupil%d", i))
			}
			var questions []event.Question
			for _, who := range [][]string{{""}, {"", "pupil1"}, pupils} {
				for _, not := range []bool{false, true} {
					for _, f := range []event.Filter{{}, {Since: middle}, {Until: middle}} {
						f.Terms = []event.Term{{Field: event.User, Values: who, Not: not}}
						questions = append(questions, event.Question{Filter: f, By: event.Client}, event.Question{Filter: f, By: event.Host})
					}
				}
			}
			c, err := event.NewCounter(questions)
			if err != nil {
				t.Fatal(err)
			}
			for i := range rows {
				c.Add(&rows[i])
			}
			got, err := s.Count(t.Context(), questions...)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range c.Tallies() {
				if !slices.Equal(got[i], want) {
					t.Errorf("counting by %v with %+v:\n%v, want\n%v", questions[i].By, questions[i].Filter, got[i], want)
				}
			}
		})
	}
}
func TestIndexForgetsWhatIsDeleted(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	old := eventtest.Rows(now.Add(-3*time.Hour), 4*smallRows)
	s := openGrouped(t, filepath.Join(t.TempDir(), "events.db"), 2*time.Hour)
	defer s.Close()
	for part := range slices.Chunk(old, 10_000) {
		var err error
		if s.last, err = s.index.write(s.w, s.last, s.limit, part); err != nil { // without deleting
			t.Fatal(err)
		}
	}
	young := manyRows(now, smallRows+100)
	rows := slices.Concat(old, young)
	written, agreed := len(old), 0
	for part := range slices.Chunk(young, 100) { // each write deletes a few thousand
		if err := s.Write(t.Context(), part); err != nil {
			t.Fatal(err)
		}
		written += len(part)
		if n := int(s.number(t, "SELECT count(*) FROM event")); n < written && n > len(young)/2 && n%3 == 0 && agreed < 5 {
			agree(t, s, rows[written-n:written], now)
			agreed++
		}
	}
	if agreed == 0 {
		t.Error("no search ran while rows were deleted")
	}
	if n := s.number(t, "SELECT count(*) FROM event"); n != int64(len(young)) {
		t.Fatalf("%d rows are left, want %d", n, len(young))
	}
	agree(t, s, young, now)
	limit := young[0].Time.Add(-time.Minute).UnixMicro()
	for what, query := range map[string]string{
		"segments": fmt.Sprintf("segment WHERE last < %d", limit), "totals": fmt.Sprintf("total WHERE last < %d", limit),
		"parts": "part WHERE id / 64 NOT IN (SELECT first FROM segment)",
	} {
		if n := s.number(t, "SELECT count(*) FROM "+query); n != 0 {
			t.Errorf("the index still has %d %s of deleted rows", n, what)
		}
	}
}

func TestIndexWithAClockSetBack(t *testing.T) {
	s := openGrouped(t, filepath.Join(t.TempDir(), "events.db"), year)
	defer s.Close()
	now := time.Now().UTC().Truncate(time.Microsecond)
	ahead := eventtest.Rows(now.Add(24*time.Hour), 2*smallRows+120)
	before, after := manyRows(now, smallRows+120), eventtest.Rows(now.Add(time.Millisecond), 2*smallRows)
	fill(t, s, before)
	fill(t, s, ahead)
	fill(t, s, after)
	agree(t, s, slices.Concat(before, after, ahead), now) // in the order of ids
}

func TestGramsFindEveryText(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var b builder
	b.begin(1)
	var urls []string
	for i := range 5000 {
		u := make([]byte, 3+rng.IntN(40))
		for j := range u {
			u[j] = byte(' ' + rng.IntN(95))
		}
		urls = append(urls, string(u))
		b.add(int64(i+1), &event.Row{URL: string(u)})
	}
	parts := maps.Collect(clones(b.grams.parts))
	missing := 0
	for i, u := range urls {
		from := rng.IntN(len(u) - 2)
		part := strings.ToUpper(u[from : from+3+rng.IntN(len(u)-from-2)])
		blocks, err := blocksWith(part, func(p int) ([]byte, error) { return parts[p], nil })
		if err != nil || blocks&(1<<(i/blockRows)) == 0 {
			t.Fatalf("searching %q of row %d: blocks %b, %v; want the row's block among them", part, i, blocks, err)
		}
		if len(part) > 10 {
			missing += 64 - bits.OnesCount64(blocks)
		}
	}
	if missing == 0 {
		t.Error("no search for an absent text ruled out a block")
	}
}

// clones yields copies of parts, which stay valid.
func clones(parts iter.Seq2[int, []byte]) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for p, b := range parts {
			if !yield(p, slices.Clone(b)) {
				return
			}
		}
	}
}

func TestTransposeMirrors(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var m [64]uint64
	for i := range m {
		m[i] = rng.Uint64()
	}
	was := m
	transpose(&m)
	for i := range 64 {
		for j := range 64 {
			if was[i]>>j&1 != m[j]>>i&1 {
				t.Fatalf("transpose: bit %d of row %d is not mirrored", j, i)
			}
		}
	}
}

func TestHostSet(t *testing.T) {
	var hosts []string
	for i := range 3000 {
		hosts = append(hosts, fmt.Sprintf("www.site-%d.example.org", i))
	}
	var c columnBuilder
	for _, host := range hosts {
		c.addText(host)
	}
	s := newHostSet(&c)
	for _, host := range hosts {
		for _, domain := range []string{host, host[4:], "example.org", "org"} {
			if !s.has(domain) {
				t.Fatalf("the set of hosts lacks %q", domain)
			}
		}
	}
	wrong := 0
	for i := range 10_000 {
		if s.has(fmt.Sprintf("other-%d.example.org", i)) {
			wrong++
		}
	}
	if wrong > 500 {
		t.Errorf("the set of hosts reports %d of 10000 absent hosts, want at most 500", wrong)
	}
}

// TestAskingChangesNoSegmentOfTheTail: many questions use one at the same time.
func TestAskingChangesNoSegmentOfTheTail(t *testing.T) {
	var b builder
	b.begin(1)
	for i, r := range eventtest.Rows(time.Unix(1, 0), 300) {
		b.add(int64(i+1), &r)
	}
	s := b.segment(300)
	host, err := event.NewTerm(event.Host, true, "nobody.example")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if exact, err := s.term(&host, allRows(s.rows)); !exact || err != nil {
			t.Fatalf("the term is exact: %v, %v", exact, err)
		}
	}
	if _, err := s.ids(); err != nil {
		t.Fatal(err)
	}
	if s.wanted != nil || s.numbers != nil || s.lags != nil {
		t.Error("a segment keeps what a question wanted, and others read it")
	}
}

func FuzzDamagedParts(f *testing.F) {
	var b builder
	b.begin(1)
	for i, r := range eventtest.Rows(time.Unix(1, 0), 300) {
		b.add(int64(i+1), &r)
	}
	for part, blob := range b.parts {
		f.Add(uint8(part), blob)
	}
	whole := b.segment(300)
	grams := maps.Collect(clones(b.grams.parts))
	var filters []event.Filter
	for _, text := range asked {
		q, err := event.ParseFilter(text, time.Now())
		if err != nil {
			f.Fatal(err)
		}
		filters = append(filters, q)
	}
	f.Fuzz(func(t *testing.T, part uint8, blob []byte) {
		s := *whole
		s.parts = map[int][]byte{}
		for p, b := range whole.parts {
			s.parts[p] = b
		}
		s.parts[int(part%maxParts)] = blob
		s.grams = func(p int) ([]byte, error) {
			if p == int(part) {
				return blob, nil
			}
			return grams[p], nil
		}
		for i := range filters {
			_, _, _, _ = s.idsOf(&filters[i], span{0, 400})
		}
		_, _, _ = s.tally(columnHost, 10, allRows(s.rows))
		_ = eachTotal(blob, func([]byte, int, int) {})
	})
}

func TestActionsFitTheirBits(t *testing.T) {
	for a := filter.Pass; a <= filter.Redirect; a++ {
		for p := filter.HTTP; p <= filter.DNS; p++ {
			k := kindOf(&event.Row{Action: a, Proto: p, Learned: true})
			if k.action() != a || k.proto() != p || !k.has(event.Learned) || k.has(event.Signature) {
				t.Errorf("packing %v, %v yields %v, %v", a, p, k.action(), k.proto())
			}
		}
	}
}
