//go:build !small

package record

import (
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
