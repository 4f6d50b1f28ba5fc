package jsonl

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/event/eventtest"
	"shuultuur/test/race"
)

func open(path string) (event.Store, error) { return Open(path) }

func TestStore(t *testing.T)      { eventtest.Run(t, open) }
func BenchmarkStore(b *testing.B) { eventtest.Bench(b, open) }

func TestLine(t *testing.T) {
	r := eventtest.Rows(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), 1)[0]
	r.Note, r.Learned = "a\nb", true
	got := string(AppendLine(nil, &r))
	want := `{"time":"2026-01-02T03:04:05.000006Z","id":"0j000000000000","proto":"http","client":"10.1.0.0","user":"pupil000",` +
		`"policy":"pupils","rule":"words","action":"block","learned":true,"method":"GET",` +
		`"url":"https://www.site-0.example.com/articles/2026/01/page-0.html?ref=home","host":"www.site-0.example.com","port":443,` +
		`"status":403,"type":"text/html","bytes_out":5000,"head_out":300,"looked":5000,"length":5000,"duration_us":1000,"server":"192.0.2.0","score":120,"category":"phrase",` +
		`"evidence":"gambling: casino (w.list:12) 80; poker (w.list:40) 40","findings":[{"check":"phrase","category":"phrase",` +
		`"score":120,"evidence":"gambling: casino (w.list:12) 80; poker (w.list:40) 40"}],"note":"a\nb"}` + "\n"
	if got != want {
		t.Errorf("got  %swant %s", got, want)
	}
	if got, want := string(AppendLine(nil, &event.Row{})), `{"time":"0001-01-01T00:00:00.000000Z","proto":"http","client":"","action":"pass","host":"","status":0}`+"\n"; got != want {
		t.Errorf("got  %swant %s", got, want)
	}
}

func TestTornLastLineIsCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	rows := eventtest.Rows(eventtest.Start(), 3)
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), rows[:2]); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first := bytes.IndexByte(whole, '\n') + 1
	for cut := 0; cut < len(whole)-first; cut += 13 {
		if err := os.WriteFile(path, whole[:first+cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err = Open(path); err != nil {
			t.Fatal(err)
		}
		if s.Torn() != int64(cut) {
			t.Fatalf("opening cut off %d bytes, want %d", s.Torn(), cut)
		}
		if err := s.Write(t.Context(), rows[2:]); err != nil {
			t.Fatal(err)
		}
		var got []event.Row
		for r, err := range s.Query(t.Context(), event.Filter{}, event.Page{}) {
			if err != nil {
				t.Fatal(err)
			}
			r.Seq = 0
			got = append(got, r)
		}
		if len(got) != 2 || got[0] != rows[0] || got[1] != rows[2] {
			t.Fatalf("after a line was cut at %d: got %d rows, want the first and the third", cut, len(got))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestQueryNamesABadLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	good := AppendLine(nil, &eventtest.Rows(eventtest.Start(), 1)[0])
	bad := append(bytes.Clone(good), "{\"time\":12}\n"...)
	for _, newest := range []bool{false, true} {
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var last error
		for _, err := range s.Query(t.Context(), event.Filter{}, event.Page{Newest: newest}) {
			last = err
		}
		if last == nil || !strings.Contains(last.Error(), path) {
			t.Errorf("newest %v: error is %v, want one that names %q", newest, last, path)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBackwardIsForwardReversed(t *testing.T) {
	for _, s := range []string{"", "a", "\n", "a\n", "\n\n", "a\nb", "a\nb\n", "a\n\nb\nc", strings.Repeat("x", 3*blockSize) + "\ny\n",
		strings.Repeat("0123456789\n", 30_000), strings.Repeat("\n", blockSize+1), strings.Repeat("z", blockSize-1) + "\n" + strings.Repeat("z", blockSize-1) + "\n"} {
		r := strings.NewReader(s)
		type at struct {
			at   int64
			line string
		}
		var fwd, bwd []at
		for off, l := range forward(r, 0, int64(len(s))) {
			fwd = append(fwd, at{off, string(l.line)})
		}
		for off, l := range backward(r, int64(len(s))) {
			bwd = append(bwd, at{off, string(l.line)})
		}
		if len(fwd) != strings.Count(s, "\n") || len(fwd) != len(bwd) {
			t.Fatalf("%.20q: %d lines forward, %d backward, want %d", s, len(fwd), len(bwd), strings.Count(s, "\n"))
		}
		for i := range fwd {
			if fwd[i] != bwd[len(bwd)-1-i] {
				t.Fatalf("%.20q: line %d differs", s, i)
			}
		}
	}
}

func FuzzParseLine(f *testing.F) {
	for _, r := range append(eventtest.HostileRows(time.Unix(1767225600, 0).UTC()), eventtest.Rows(time.Unix(1767225600, 0).UTC(), 2)...) {
		if len(r.URL) < 10_000 {
			f.Add(AppendLine(nil, &r))
		}
	}
	f.Add([]byte(`{"time":"2026-01-02T03:04:05Z","proto":"http","action":"pass","findings":null,"client":"::ffff:1.2.3.4%eth0"}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseLine(b)
		if err != nil {
			return
		}
		line := AppendLine(nil, &r)
		if i := bytes.IndexByte(line, '\n'); i != len(line)-1 && r.Findings == "" {
			t.Fatalf("line end inside %q", line)
		}
		if r.Time.Year() < 0 || r.Time.Year() > 9999 || r.Findings != "" {
			return
		}
		again, err := ParseLine(line)
		if err != nil {
			t.Fatalf("%q became the line %q: %v", b, line, err)
		}
		r.Time = r.Time.Truncate(time.Microsecond)
		if again != r {
			t.Fatalf("%q was read as %+v, written and read again as %+v", b, r, again)
		}
	})
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\n"), 2)
	f.Add([]byte("\n\n"), 2)
	f.Fuzz(func(t *testing.T, b []byte, repeat int) {
		b = bytes.Repeat(b, max(1, repeat%5000))
		if len(b) > 1<<20 {
			return
		}
		n, m := 0, 0
		for range forward(bytes.NewReader(b), 0, int64(len(b))) {
			n++
		}
		for range backward(bytes.NewReader(b), int64(len(b))) {
			m++
		}
		if want := bytes.Count(b, []byte("\n")); n != want || m != want {
			t.Fatalf("%d lines forward, %d backward, want %d", n, m, want)
		}
	})
}

func TestOldLinesAreAnonymised(t *testing.T) {
	race.Without(t)
	eventtest.Anonymous(t, open, true)
}

func TestAWrongClockMakesNothingAnonymous(t *testing.T) {
	eventtest.Clock(t, false, func(path string, _ time.Duration) (event.Store, error) { return open(path) })
}

// The rotated file stays as it is, and the new one is examined from its beginning.
func TestARotatedFileIsAnonymisedFromItsBeginning(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Anonymise(24 * time.Hour)
	old := eventtest.Rows(time.Now().UTC().Add(-48*time.Hour), 4)
	for range 2 {
		if err := s.Write(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		s.nameless.next = time.Time{}
		if err := s.Write(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(data, []byte("pupil")); n != 4 { // the policy is named pupils
			t.Errorf("pupil occurs %d times, want 4, in\n%s", n, data)
		}
		if err := os.Rename(path, path+".1"); err != nil {
			t.Fatal(err)
		}
		if err := s.Reopen(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestABoundedFileMakesWayForAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Bound(10_000)
	rows := eventtest.Rows(eventtest.Start(), 100)
	for n := range 10 {
		if err := s.Write(t.Context(), rows[10*n:][:10]); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{path, path + ".1"} {
			if st, err := os.Stat(p); err == nil && st.Size() > 20_000 {
				t.Errorf("%s has %d bytes, want at most 20000", p, st.Size())
			}
		}
	}
	var last string
	for _, p := range []string{path, path + ".1"} { // the younger half, in one of the two files
		for r, err := range Reader(p).Query(t.Context(), event.Filter{}, event.Page{}) {
			if err != nil {
				t.Fatal(err)
			}
			last = max(last, r.ID)
		}
	}
	if last != rows[99].ID {
		t.Errorf("the last row is %s, want %s", last, rows[99].ID)
	}
}

func TestAPersonIsErased(t *testing.T) {
	eventtest.Erases(t, func(path string) (event.Store, error) { return Open(path) })
}
