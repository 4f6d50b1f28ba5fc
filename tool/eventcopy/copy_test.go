package eventcopy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"shuultuur/event"
	"shuultuur/event/eventtest"
	"shuultuur/event/jsonl"
)

// rowsOf returns all rows of a store without their places in it.
func rowsOf(t *testing.T, s string) (all []event.Row) {
	t.Helper()
	r, err := openSource(s)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for row, err := range r.Query(t.Context(), event.Filter{}, event.Page{}) {
		if err != nil {
			t.Fatal(err)
		}
		row.Seq = 0
		all = append(all, row)
	}
	return all
}

func TestEventsAreCopiedBetweenStores(t *testing.T) {
	dir := t.TempDir()
	first, db, back := "jsonl:"+filepath.Join(dir, "a.jsonl"), "sqlite:"+filepath.Join(dir, "b.db"), "jsonl:"+filepath.Join(dir, "c.jsonl")
	s, err := jsonl.Open(filepath.Join(dir, "a.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	rows := eventtest.Rows(time.Now().UTC().AddDate(-3, 0, 0).Truncate(time.Microsecond), copyRows+500)
	if err := s.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, step := range [][2]string{{first, db}, {db, back}} {
		if n, err := Copy(t.Context(), step[0], step[1], event.Filter{}); n != len(rows) || err != nil {
			t.Fatalf("copying %s to %s: %d rows, %v", step[0], step[1], n, err)
		}
	}
	if d := cmp.Diff(rows, rowsOf(t, back), cmpopts.EquateComparable(event.Row{}.Client)); d != "" {
		t.Errorf("the copied rows differ (-want +got):\n%.2000s", d)
	}
	blocked, err := event.ParseFilter("action:block", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "access.log")
	if n, err := Copy(t.Context(), db, "squid:"+log, blocked); n != len(rows)/10 || err != nil {
		t.Errorf("copying blocked rows to a log of Squid: %d, %v", n, err)
	}
	if b, err := os.ReadFile(log); err != nil || strings.Count(string(b), "TCP_DENIED") != len(rows)/10 {
		t.Errorf("the log has %d lines with TCP_DENIED, %v", strings.Count(string(b), "TCP_DENIED"), err)
	}
	for _, c := range []struct{ from, to, want string }{
		{first, db, "already has rows"},
		{first, back, "already has rows"},
		{first, "squid:" + log, "already has rows"},
		{"squid:" + log, "jsonl:" + filepath.Join(dir, "d"), "cannot be read"},
		{first, "paper:x", "not a store"},
		{first, "x.db", "not a store"},
		{"sqlite:" + filepath.Join(dir, "none.db"), "jsonl:" + filepath.Join(dir, "e"), "none.db"},
	} {
		if _, err := Copy(t.Context(), c.from, c.to, event.Filter{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("copying %s to %s: %v, want %q", c.from, c.to, err, c.want)
		}
	}
}
