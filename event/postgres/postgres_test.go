package postgres

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"shuultuur/event"
	"shuultuur/event/eventtest"
	"shuultuur/event/jsonl"
	"shuultuur/lib/clock"
	"shuultuur/test/peer"
)

// tool finds a program of PostgreSQL, which Debian keeps out of the path.
func tool(t testing.TB, name string) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		return peer.Program(t, name)
	}
	return slices.Max(found)
}

// server starts PostgreSQL and returns a function that makes the URL of a
// database for each path that the tests of stores name.
func server(t testing.TB) func(path string) (string, error) {
	t.Helper()
	peer.NotQuick(t, "PostgreSQL")
	initdb, postgres := tool(t, "initdb"), tool(t, "postgres")
	dir, err := os.MkdirTemp("", "pg") // only its owner can enter the folder of t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	as := func(cmd *exec.Cmd) *exec.Cmd { return cmd }
	if os.Getuid() == 0 { // PostgreSQL refuses to run as root
		const nobody = 65534
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		as = func(cmd *exec.Cmd) *exec.Cmd {
			if cmd.SysProcAttr == nil {
				cmd.SysProcAttr = &syscall.SysProcAttr{}
			}
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
			return cmd
		}
	}
	data := filepath.Join(dir, "data")
	init := as(peer.Command(t, initdb, "-D", data, "-U", "test", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"))
	init.Dir = dir
	if out, err := init.CombinedOutput(); err != nil {
		t.Skipf("initdb does not work here: %v\n%s", err, out)
	}
	port := peer.Port(t)
	cmd := as(peer.Command(t, postgres, "-D", data, "-p", port, "-h", "127.0.0.1", "-k", "", "-F", "-c", "max_connections=100"))
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		late := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		_ = cmd.Wait()
	})
	base := "postgres://test@127.0.0.1:" + port + "/"
	var admin *pgx.Conn
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if admin, err = pgx.Connect(t.Context(), base+"postgres"); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	known := map[string]bool{}
	return func(path string) (string, error) {
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return "", fmt.Errorf("the folder of the database for %s: %w", path, err)
		}
		h := fnv.New64a()
		h.Write([]byte(path))
		name := "d" + strconv.FormatUint(h.Sum64(), 36)
		if !known[name] {
			if _, err := admin.Exec(context.Background(), "CREATE DATABASE "+name); err != nil {
				return "", err
			}
			known[name] = true
		}
		return base + name, nil
	}
}

var lines = jsonl.Codec

const year = 365 * 24 * time.Hour

func TestPostgreSQL(t *testing.T) {
	database := server(t)
	t.Run("store", func(t *testing.T) { testStore(t, database) })
	t.Run("old days are dropped", func(t *testing.T) { testSweep(t, database) })
	t.Run("two gateways write to one table", func(t *testing.T) { testTwo(t, database) })
	t.Run("the server counts", func(t *testing.T) { testCount(t, database) })
	t.Run("old rows forget who was behind them", func(t *testing.T) { testAnonymise(t, database) })
	t.Run("a wrong clock forgets nothing", func(t *testing.T) { testClock(t, database) })
	t.Run("a gateway with a wrong clock drops nothing", func(t *testing.T) { testClocksDiffer(t, database) })
	t.Run("texts are found through parts", func(t *testing.T) { testParts(t, database) })
	t.Run("a person is erased", func(t *testing.T) { testErase(t, database) })
}

func testClock(t *testing.T, database func(string) (string, error)) {
	eventtest.Clock(t, true, func(path string, keep time.Duration) (event.Store, error) {
		at, err := database(path)
		if err != nil {
			return nil, err
		}
		return Open(at, keep, lines)
	})
}

// testClocksDiffer: a gateway that is new, so that it knows nothing else, compares its clock with
// the server's. Its newest row is one of its own, with its own wrong time.
func testClocksDiffer(t *testing.T, database func(string) (string, error)) {
	at, err := database(filepath.Join(t.TempDir(), "clocks"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(at, 90*24*time.Hour, lines)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wrong := time.Now().UTC().AddDate(1, 0, 0)
	rows := slices.Concat(eventtest.Rows(time.Now().UTC().AddDate(0, 0, -5), 50), eventtest.Rows(wrong.Add(-time.Minute), 1))
	if err := s.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	s.nextSweep = time.Time{}
	guard := clock.New(clock.Config{Wall: func() time.Time { return wrong }})
	s.Mind(guard)
	for range 3 {
		if err := s.Write(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	n, err := s.texts(t.Context(), "SELECT count(*)::text FROM event")
	if err != nil || !slices.Equal(n, []string{"51"}) {
		t.Errorf("the table has %v rows, %v; want 51", n, err)
	}
	if p := guard.Problem(); !strings.Contains(p, "the clock of the database shows") {
		t.Errorf("the problem is %q", p)
	}
	guard = clock.New(clock.Config{})
	s.Mind(guard)
	if ok, err := s.believed(t.Context()); ok || err != nil || !strings.Contains(guard.Problem(), "the last time known") {
		t.Errorf("a right clock before the newest row is believed at once: %v, %v, %q", ok, err, guard.Problem())
	}
}

func testStore(t *testing.T, database func(string) (string, error)) {
	defer func(was [2]int64) { nearRows = was }(nearRows)
	nearRows = [...]int64{40, 60} // makes the tests' rows a larger share
	defer func(seal, part int) { sealRows, partRows = seal, part }(sealRows, partRows)
	sealRows, partRows = 20, 7
	eventtest.Run(t, func(path string) (event.Store, error) {
		at, err := database(path)
		if err != nil {
			return nil, err
		}
		return Open(at, year, lines)
	})
}

// openNew opens a store in a new database. It is closed when the test ends.
func openNew(t *testing.T, database func(string) (string, error), name string, keep time.Duration) *Store {
	t.Helper()
	at, err := database(filepath.Join(t.TempDir(), name))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(at, keep, lines)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func testSweep(t *testing.T, database func(string) (string, error)) {
	s := openNew(t, database, "x", 3*24*time.Hour)
	now := time.Now().UTC().Truncate(time.Microsecond)
	var rows []event.Row
	for day := range 10 {
		rows = append(rows, event.Row{Time: now.AddDate(0, 0, -day), Host: strconv.Itoa(day)})
	}
	if err := s.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	s.nextSweep = time.Time{}
	if err := s.Write(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	var left []string
	for r, err := range s.Query(t.Context(), event.Filter{}, event.Page{}) {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, r.Host)
	}
	if got := strings.Join(left, ""); got != "0123" {
		t.Errorf("after old days were dropped: days %q, want 0123", got)
	}
	if err := s.Write(t.Context(), rows[8:9]); err != nil {
		t.Errorf("writing a row of a day that was dropped: %v", err)
	}
}

// testCount begins with a table that an older program made, by which the server cannot count,
// and counts how many rows are read.
func testCount(t *testing.T, database func(string) (string, error)) {
	at, err := database(filepath.Join(t.TempDir(), "count"))
	if err != nil {
		t.Fatal(err)
	}
	parsed := 0
	counting := event.Codec{Append: lines.Append, Parse: func(line []byte) (event.Row, error) { parsed++; return lines.Parse(line) }}
	rows := eventtest.Rows(time.Now().UTC().Add(-time.Minute).Truncate(time.Microsecond), 400)
	rows[399].User = "a\x00b" // bytes that no column accepts
	questions := []event.Question{{}, {By: event.Rule}, {By: event.Client}, {By: event.Method, Filter: event.Filter{Since: rows[50].Time}}}
	for _, text := range []string{"action:block", "host:site-17.example.com -user:pupil017", "rule:words", "policy: status:403"} {
		f, err := event.ParseFilter(text, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		questions = append(questions, event.Question{By: event.User, Filter: f, Top: 5})
	}
	want, err := event.NewCounter(questions)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		want.Add(&rows[i])
	}
	for i, part := range [][]event.Row{rows[:100], rows[100:]} {
		s, err := Open(at, year, counting)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Write(t.Context(), part); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if _, err := s.db.Exec("ALTER TABLE event DROP COLUMN " + strings.Join(columns[8:], ", DROP COLUMN ")); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := s.Count(t.Context(), questions...)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Tallies(), got); diff != "" {
			t.Errorf("counts differ (-want +got):\n%s", diff)
		}
		if parsed != 101 {
			t.Errorf("%d rows were read, want the 100 of the older program and the one that no column accepts", parsed)
		}
		parsed = 0
		text, _ := event.NewTerm(event.Text, false, "page-1")
		n, err := s.Count(t.Context(), event.Question{Filter: event.Filter{Terms: []event.Term{text}}})
		if err != nil || n[0][0].Events < 10 || parsed > n[0][0].Events+5 {
			t.Errorf("searching texts read %d rows and found %+v: %v", parsed, n, err)
		}
		for r, err := range s.Query(t.Context(), event.Filter{Terms: []event.Term{text}}, event.Page{Newest: true, Limit: 500}) { // rows of the older program, too
			if n[0][0].Events--; err != nil || !text.Match(&r) {
				t.Errorf("searching texts found %+v: %v", r, err)
			}
		}
		if n[0][0].Events != 0 {
			t.Errorf("Query found %d rows fewer than Count", n[0][0].Events)
		}
	}
}

func testAnonymise(t *testing.T, database func(string) (string, error)) {
	eventtest.Anonymous(t, func(path string) (event.Store, error) {
		at, err := database(path)
		if err != nil {
			return nil, err
		}
		return Open(at, year, lines)
	}, false)

	// A finished day is not examined again; late rows are anonymous when they are written.
	at, err := database(filepath.Join(t.TempDir(), "late"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	old := eventtest.Rows(now.AddDate(0, 0, -3), 10)
	for range 2 {
		s, err := Open(at, year, lines)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		s.Anonymise(24 * time.Hour)
		for _, rows := range [][]event.Row{old, nil} {
			if err := s.Write(t.Context(), rows); err != nil {
				t.Fatal(err)
			}
		}
		s.nameless.next = time.Time{}
		for range 2 {
			if err := s.Write(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		if days, err := s.nameable(t.Context(), now); len(days) > 0 || err != nil {
			t.Errorf("days still to be made anonymous: %v, %v; want none", days, err)
		}
		for _, q := range []string{"SELECT count(*) FROM event WHERE name <> '' OR line LIKE '%pupil0%' OR words LIKE '%pupil0%'", "SELECT count(*) FROM event WHERE client <> '10.1.0.0'"} {
			n := -1
			if err := s.db.QueryRow(q).Scan(&n); n != 0 || err != nil {
				t.Errorf("%s yields %d, %v; want 0", q, n, err)
			}
		}
	}
}

func testErase(t *testing.T, database func(string) (string, error)) {
	s := openNew(t, database, "erase", year)
	rows := eventtest.Rows(time.Now().UTC().Add(-time.Minute).Truncate(time.Microsecond), 100)
	rows[3].User, rows[4].Client, rows[5].Note = "anna", netip.MustParseAddr("10.77.66.55"), "paused for anna"
	if err := s.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	n, err := s.Erase(t.Context(), event.Person{Users: []string{"anna"}, Clients: []netip.Addr{netip.MustParseAddr("10.77.66.55")}}, false)
	if n != 2 || err != nil {
		t.Fatal(n, err)
	}
	left := 0
	for r, err := range s.Query(t.Context(), event.Filter{}, event.Page{}) {
		if left++; err != nil || r.User == "anna" || r.Note != "" || r.Client == netip.MustParseAddr("10.77.66.55") {
			t.Errorf("after the erasure a row names the person: %+v %v", r, err)
		}
	}
	if left != 98 {
		t.Errorf("after the erasure %d rows are left, want 98", left)
	}
}

func TestAServerThatIsAwayIsAnErrorOfTheWrite(t *testing.T) {
	u := url.URL{Scheme: "postgres", User: url.UserPassword("gateway", "secret"), Host: "127.0.0.1:" + peer.Port(t), Path: "/x"}
	s, err := Open(u.String(), year, lines)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Write(t.Context(), []event.Row{{Time: time.Now()}})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("connecting with a wrong password: %v, want an error without the password", err)
	}
	if _, err := Open("postgres://gateway:secret@host:port/", year, lines); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("Open of a bad URL: %v, want an error without the password", err)
	}
}

func testTwo(t *testing.T, database func(string) (string, error)) {
	at, err := database(filepath.Join(t.TempDir(), "x"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	for range 2 {
		s, err := Open(at, year, lines)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		go func() {
			var err error
			for i := range 20 {
				if err = s.Write(t.Context(), eventtest.Rows(eventtest.Start().AddDate(0, 0, -i), 50)); err != nil {
					break
				}
			}
			done <- err
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	s, err := Open(at, year, lines)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n, err := s.Count(t.Context(), event.Question{})
	if err != nil || n[0][0].Events != 2000 {
		t.Errorf("counted %+v, %v; want 2000 events", n, err)
	}
}

// within returns the parts in which a text may be, and the number of rows that match it.
func within(t *testing.T, s *Store, text string) (parts, rows int) {
	t.Helper()
	f, err := event.ParseFilter(text, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	spans, err := s.spans(t.Context(), s.db, &f, &event.Page{})
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range spans {
		parts += len(at.parts)
	}
	for _, err := range s.Query(t.Context(), f, event.Page{Newest: true, Limit: 1000}) {
		if rows++; err != nil {
			t.Fatal(err)
		}
	}
	return parts, rows
}

func testParts(t *testing.T, database func(string) (string, error)) {
	s := openNew(t, database, "parts", 4*24*time.Hour)
	sum := func() (n int) {
		t.Helper()
		if err := s.db.QueryRow("SELECT count(*) FROM event_part").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	defer func(seal, part int) { sealRows, partRows = seal, part }(sealRows, partRows)
	sealRows, partRows = 500, 100
	now := time.Now().UTC().Truncate(time.Microsecond)
	write := func(rows []event.Row) {
		t.Helper()
		if err := s.Write(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
	}
	rows := eventtest.Rows(now.AddDate(0, 0, -2), 3000)
	rows[700].URL, rows[700].User = "https://www.example.com/Quaint-Zebra", "anna"
	rows[1500].URL, rows[1500].Note = "https://www.example.com/hollow-kettle", "asked by anna"
	rows[2999].URL = "https://www.example.com/velvet-orchid"
	rows[1200].Note = "asked for a copper teapot"
	write(rows[:1000])

	// The number of a row is given before it is seen. Its part must not be made before that.
	tx, err := s.db.Begin()
	if err == nil {
		_, err = tx.Exec("SET search_path TO public")
	}
	if err != nil {
		t.Fatal(err)
	}
	write(rows[1000:2000])
	made := sum()
	if made < 2 {
		t.Fatalf("%d parts of 1000 rows, want several", made)
	}
	if _, err := tx.Exec("INSERT INTO event (time, name, host, action, rule, category, line, words) SELECT time, name, host, action, rule, category, replace(line, 'page-', 'brisk-walnut-'), replace(words, 'page-', 'brisk-walnut-') FROM event WHERE seq = 1"); err != nil {
		t.Fatal(err)
	}
	write(rows[2000:])
	write(nil)
	if got := sum(); got != made {
		t.Errorf("%d parts while a row is not committed, want %d", got, made)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	s.nextSeal = time.Time{}
	write(nil)
	if got := sum(); got <= made {
		t.Errorf("%d parts after it was committed, want more than %d", got, made)
	}
	for text, want := range map[string][2]int{"Quaint-Zebra": {1, 1}, "hollow-kettle": {1, 1}, "velvet-orchid": {0, 1}, "copper teapot": {1, 1}, "brisk-walnut": {1, 1}, "nowhere-to-be-found": {0, 0}, "id:" + rows[800].ID: {1, 1}} {
		if parts, found := within(t, s, text); parts != want[0] || found != want[1] {
			t.Errorf("%s: %d parts and %d rows, want %v", text, parts, found, want)
		}
	}

	// A part no longer has the words of an erased row.
	if _, err := s.Erase(t.Context(), event.Person{Users: []string{"anna"}}, false); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"Quaint-Zebra", "asked by anna"} {
		if parts, found := within(t, s, `"`+text+`"`); parts != 0 || found != 0 {
			t.Errorf("%s after it was erased: %d parts and %d rows", text, parts, found)
		}
	}
	if parts, found := within(t, s, "hollow-kettle"); parts != 1 || found != 1 {
		t.Errorf("a row that lost its note: %d parts and %d rows, want 1 and 1", parts, found)
	}

	// The same holds for words that a row lost when it became anonymous.
	s.Anonymise(24 * time.Hour)
	for range 2*len(rows)/anonymousRows + 10 { // a step each
		write(nil)
	}
	if parts, found := within(t, s, `"copper teapot"`); parts != 0 || found != 0 {
		t.Errorf("the note of an anonymous row: %d parts and %d rows", parts, found)
	}
	if parts, found := within(t, s, "hollow-kettle"); parts != 1 || found != 1 {
		t.Errorf("the address of an anonymous row: %d parts and %d rows, want 1 and 1", parts, found)
	}

	// Parts go with their days.
	s.keep, s.nextSweep = 24*time.Hour, time.Time{}
	write(nil)
	if got := sum(); got != 0 {
		t.Errorf("%d parts after their days were dropped", got)
	}
}
