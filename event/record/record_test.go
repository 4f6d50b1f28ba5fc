//go:build !small

package record

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/event/eventtest"
	"shuultuur/event/kafka"
	"shuultuur/event/otlp"
	"shuultuur/event/parquet"
	"shuultuur/event/syslog"
	"shuultuur/lib/metric"
	"shuultuur/lib/problem"
	"shuultuur/lib/setting"
)

// TestADoubtfulClockIsTold: the folder says that the clock was a year behind a minute ago.
func TestADoubtfulClockIsTold(t *testing.T) {
	dir := t.TempDir()
	const day = 24 * time.Hour
	cfg := Config{Kept: Kept{SQLite: "events.db"}, Config: event.Config{Keep: setting.Duration(30 * day)}}
	parts := Parts{Data: dir, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	write := func(rows []event.Row) *Record {
		t.Helper()
		r, err := Open(cfg, parts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		for range 2 {
			if err := r.Stores[0].Write(t.Context(), rows); err != nil {
				t.Fatal(err)
			}
			rows = nil
		}
		return r
	}
	last := time.Now().Add(-365 * day)
	text, err := json.Marshal(map[string]time.Time{"good": last})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "clock-sqlite.json")
	if err := os.WriteFile(file, text, 0o640); err != nil {
		t.Fatal(err)
	}
	r := write(eventtest.Rows(last.Add(-time.Hour), 20))
	n := 0
	for _, err := range r.Reader().Query(t.Context(), event.Filter{}, event.Page{}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 20 {
		t.Errorf("%d of 20 rows are there", n)
	}
	if p := strings.Join(problem.Texts(r.Problems()), "\n"); !strings.HasPrefix(p, "events: sqlite: the clock is doubtful") || !strings.Contains(p, "365 days before") {
		t.Errorf("the problems are %q", p)
	}
	var out strings.Builder
	if err := metric.Write(&out, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`shuultuur_events_clock_doubtful{store="sqlite"} 1`, `shuultuur_events_clock_doubts_total{store="sqlite"} 1`, `shuultuur_events_written_total{store="sqlite"}`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is missing in\n%s", want, out.String())
		}
	}
}

// TestATrialLeavesNoFile: whoever checks settings writes nothing.
func TestATrialLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	r, err := Open(Config{Kept: Kept{JSONL: "events.jsonl"}, Config: event.Config{Anonymise: setting.Duration(48 * time.Hour)}}, Parts{Data: dir, Trial: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("a trial leaves %q", left)
	}
}

// TestOneStoreOpensNoOther: settings that keep events in one store, whichever it is, open
// nothing besides.
func TestOneStoreOpensNoOther(t *testing.T) {
	for i := range reflect.TypeFor[Kept]().NumField() {
		cfg := Config{}
		f := reflect.ValueOf(&cfg.Kept).Elem().Field(i)
		key := reflect.TypeFor[Kept]().Field(i).Tag.Get("yaml")
		f.SetString(map[string]string{"postgres": "postgres://a@127.0.0.1:1/b", "clickhouse": "http://a:b@127.0.0.1:1/c"}[key])
		if f.String() == "" {
			f.SetString("events." + key)
		}
		r, err := Open(cfg, Parts{Data: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		if len(r.Stores) != 1 || r.Stores[0].Name() != key {
			t.Errorf("settings with %s alone open %d stores, the first is %s", key, len(r.Stores), r.Stores[0].Name())
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestEventsAreKeptUnlessAStoreKeepsThem: receivers keep nothing that can be asked.
func TestEventsAreKeptUnlessAStoreKeepsThem(t *testing.T) {
	for want, cfg := range map[string]Config{
		"sqlite":                  {},
		"sqlite syslog":           {Sent: Sent{Syslog: &syslog.Config{To: "udp://127.0.0.1:9"}}},
		"squid syslog":            {Kept: Kept{Squid: "access.log"}, Sent: Sent{Syslog: &syslog.Config{To: "udp://127.0.0.1:9"}}},
		"sqlite otlp otlp-traces": {Sent: Sent{OTLP: &otlp.Config{To: "http://127.0.0.1:1", Traces: "http://127.0.0.1:1"}}},
	} {
		r, err := Open(cfg, Parts{Data: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		var got []string
		for _, s := range r.Stores {
			got = append(got, s.Name())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("opened %q, want %q", got, want)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestMistakesNameTheStore(t *testing.T) {
	for want, cfg := range map[string]Config{
		"syslog.to":  {Sent: Sent{Syslog: &syslog.Config{To: "logs"}}},
		"otlp.to":    {Sent: Sent{OTLP: &otlp.Config{}}},
		"parquet.to": {Sent: Sent{Parquet: &parquet.Config{}}},
		"kafka.to":   {Sent: Sent{Kafka: &kafka.Config{Topic: "x"}}},
		"jsonl":      {Kept: Kept{JSONL: "."}},
		"keep":       {Config: event.Config{Keep: 1}},
	} {
		for _, trial := range []bool{true, false} {
			_, err := Open(cfg, Parts{Data: t.TempDir(), Trial: trial, Log: slog.New(slog.DiscardHandler)})
			if s, ok := errors.AsType[*setting.Error](err); !ok || s.Key != want {
				t.Errorf("%+v, on trial %t: %v, want an error about %q", cfg, trial, err, want)
			}
		}
	}
}

// TestTheFirstStoreThatCanBeAskedIsLookedAt, as the running gateway asks it.
func TestTheFirstStoreThatCanBeAskedIsLookedAt(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{Kept: Kept{Squid: "access.log", JSONL: "events.jsonl"}}
	r, err := Open(cfg, Parts{Data: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Stores {
		if err := s.Write(t.Context(), eventtest.Rows(eventtest.Start(), 3)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	reader, done, err := Look(cfg, dir)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range reader.Query(t.Context(), event.Filter{}, event.Page{}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if err := done(); err != nil || n != 3 {
		t.Errorf("a look finds %d events, %v; want 3", n, err)
	}
	if _, _, err := Look(Config{Kept: Kept{Squid: "access.log"}}, dir); err == nil {
		t.Error("a log of Squid can be asked, which nothing here reads")
	}
	if got := cfg.Places(); len(got) != 2 {
		t.Errorf("the places of the stores are %q, want both files", got)
	}
}

// TestWhoAsksSeesWhatIsNew: where batches are written once a minute, a question has the rows written
// that wait, at most once a second; without questions nothing is written. Erasing does not wait either.
func TestWhoAsksSeesWhatIsNew(t *testing.T) {
	for name, kept := range map[string]Kept{"sqlite": {SQLite: "events.db"}, "jsonl": {JSONL: "events.jsonl"}} {
		t.Run(name, func(t *testing.T) {
			r, err := Open(Config{Kept: kept, Config: event.Config{Every: time.Minute}}, Parts{Data: t.TempDir(), Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- r.Run(ctx) }()
			rows := eventtest.Rows(time.Now().UTC().Truncate(time.Microsecond), 3)
			reader := r.Reader()
			begin := time.Now()
			for n, row := range rows {
				r.Add(row)
				if w := r.Stats()[0].Written; w != uint64(n) {
					t.Errorf("%d rows are written before anybody asks for the row %d", w, n)
				}
				count := func() int {
					sums, err := reader.Count(t.Context(), event.Question{})
					if err != nil || len(sums) != 1 || len(sums[0]) != 1 {
						t.Fatalf("%v, %v", sums, err)
					}
					return sums[0][0].Events
				}
				for {
					got := count()
					if got == n+1 {
						break
					}
					if since := time.Since(begin); got != n || since > 30*time.Second {
						t.Fatalf("%d rows of %d are seen after %v", got, n+1, since)
					}
					time.Sleep(20 * time.Millisecond) // until the second is over
				}
			}
			seen := 0
			for _, err := range reader.Query(t.Context(), event.Filter{}, event.Page{}) {
				if seen++; err != nil {
					t.Error(err)
				}
			}
			if seen != len(rows) {
				t.Errorf("a query sees %d rows", seen)
			}
			r.Add(rows[0])
			if err := r.Flush(t.Context()); err != nil || r.Stats()[0].Queued != 0 {
				t.Errorf("flush: %v, %+v", err, r.Stats()[0])
			}
			if took := time.Since(begin); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
