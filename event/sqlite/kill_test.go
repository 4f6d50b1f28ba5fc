//go:build unix

package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/event/eventtest"
)

// killedPath is the environment variable that makes the test binary the process to be killed:
// it writes to the database at that path until then.
const killedPath = "SHUULTUUR_TEST_KILLED"

// killedEvery is the environment variable with the time between two of its batches, by which the
// store chooses its journal.
const killedEvery = "SHUULTUUR_TEST_EVERY"

func TestMain(m *testing.M) {
	if path := os.Getenv(killedPath); path != "" {
		writeUntilKilled(path)
	}
	os.Exit(m.Run())
}

// writeUntilKilled writes batches and prints after each Write how many rows it has
// acknowledged.
func writeUntilKilled(path string) {
	every, err := time.ParseDuration(os.Getenv(killedEvery))
	var s *Store
	if err == nil {
		s, err = openStore(path, year, every)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	rows := eventtest.Rows(time.Now().UTC(), 1500)
	for n := 0; ; n += len(rows) {
		for i := range rows {
			rows[i].Score = n + i
			rows[i].Time = rows[i].Time.Add(time.Second)
		}
		if err := s.Write(context.Background(), rows); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(n + len(rows))
	}
}

func TestKilledInMidRun(t *testing.T) {
	for _, every := range []time.Duration{time.Second, time.Minute} {
		path := filepath.Join(t.TempDir(), "events.db")
		rows := 0
		for round := range 3 {
			rows += killed(t, path, every, time.Duration(round)*37*time.Millisecond, rows)
		}
	}
}

// killed starts a process that writes to path, and kills it some time after its first batch. It
// checks that every acknowledged row is there, in whole batches, and returns the number of rows
// that this run has left.
func killed(t *testing.T, path string, every, after time.Duration, before int) int {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), killedPath+"="+path, killedEvery+"="+every.String())
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	acknowledged := 0
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if acknowledged == 0 {
			time.AfterFunc(after, func() { cmd.Process.Kill() })
		}
		if acknowledged, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err == nil || complaint.Len() > 0 {
		t.Fatalf("the process ended before it was killed: %v %s", err, complaint.String())
	}
	if acknowledged == 0 {
		t.Fatal("the process acknowledged no row before it was killed")
	}

	s, err := openStore(path, year, every)
	if err != nil {
		t.Fatal(err)
	}
	var integrity string
	if err := s.db.QueryRow("PRAGMA integrity_check").Scan(&integrity); err != nil || integrity != "ok" {
		t.Errorf("integrity check: %q, %v", integrity, err)
	}
	var got []event.Row
	for r, err := range s.Query(t.Context(), event.Filter{}, event.Page{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	n := len(got) - before
	if n < acknowledged || n%1500 != 0 {
		t.Fatalf("%d rows are left, %d were acknowledged; want whole batches of 1500", n, acknowledged)
	}
	for i, r := range got[before:] {
		if r.Score != i {
			t.Fatalf("row %d has the number %d", i, r.Score)
		}
	}
	return n
}
