package redins

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/lib/wait/waittest"
	"shuultuur/test/redistest"
	"shuultuur/zone"
)

// startKeeping starts a name server that keeps its zones in a folder, and writes
// its log to a buffer that may be read when it has stopped.
func startKeeping(t *testing.T, cfg Config, folder string) (*node, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	n := &node{zones: zone.NewResponder()}
	var err error
	if n.Source, err = New(cfg, folder, n.zones, nil, nil, nil, slog.New(slog.NewTextHandler(log, nil))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- n.Run(ctx) }()
	n.stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(n.stop)
	return n, log
}

func TestAStartWithoutRedisServesWhatWasKept(t *testing.T) {
	t.Parallel()
	for _, schema := range []Schema{Redins, Z42} {
		t.Run(string(schema), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			folder := filepath.Join(t.TempDir(), "kept")
			store := open(t, s, schema)
			put := func(origin, ip string) {
				t.Helper()
				if _, _, err := store.Write(t.Context(), parseZone(t, "@ 300 SOA a. b. 1 2 3 4 5\nwww 300 A "+ip+"\nwww 300 TXT a\n*.w 300 A "+ip, origin)); err != nil {
					t.Fatal(err)
				}
			}
			put("a.example.", "192.0.2.1")
			put("b.example.", "192.0.2.1")
			put("gone.example.", "192.0.2.1")
			cfg := at127(s)
			cfg.Schema = schema
			n, _ := startKeeping(t, cfg, folder)
			waittest.Until(t, "they are kept", func() bool {
				files, _ := filepath.Glob(filepath.Join(folder, "*.redis"))
				return len(files) == 3
			})
			s.Do(t, "SREM", store.list(), "gone.example.")
			waittest.Until(t, "one is gone from the disk", func() bool {
				files, _ := filepath.Glob(filepath.Join(folder, "*.redis"))
				return len(files) == 2
			})
			for _, f := range []string{"a.example.redis", "b.example.redis"} {
				if info, err := os.Stat(filepath.Join(folder, f)); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: mode of %v, error %v; want 0600, because it may have private keys", f, info, err)
				}
			}
			n.stop()
			s.Stop()
			broken := filepath.Join(folder, "b.example.redis")
			b, err := os.ReadFile(broken)
			if err != nil {
				t.Fatal(err)
			}
			b[len(b)/2] ^= 1
			if err := os.WriteFile(broken, b, 0o600); err != nil {
				t.Fatal(err)
			}

			n, log := startKeeping(t, cfg, folder)
			n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 192.0.2.1")
			n.answers(t, "x.w.a.example.", "A", "NOERROR x.w.a.example. 300 IN A 192.0.2.1")
			waittest.Until(t, "it is told", func() bool { st := n.Stats(); return st.Zones == 1 && st.Kept == 1 && st.Failures > 1 && !st.Connected })
			if got := n.ask(t, "www.b.example.", "A"); got != "declined" {
				t.Errorf("zone whose file is damaged: got %s, want declined", got)
			}
			s.Restart(t)
			reconnected(t, s)
			put("a.example.", "192.0.2.2")
			put("b.example.", "192.0.2.2")
			n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 192.0.2.2")
			n.answers(t, "www.b.example.", "A", "NOERROR www.b.example. 300 IN A 192.0.2.2")
			waittest.Until(t, "nothing is from the disk any more", func() bool { return n.Stats().Kept == 0 })
			n.stop()
			if text := log.String(); !strings.Contains(text, "b.example.redis") || !strings.Contains(text, "checksum") || !strings.Contains(text, "zones=1") {
				t.Errorf("log about the damaged file:\n%s", text)
			}

			// Zones of another database are not ours.
			s.Stop()
			cfg.Redis.DB = 1
			n, _ = startKeeping(t, cfg, folder)
			waittest.Until(t, "files are looked at", func() bool { return n.Stats().Failures > 1 })
			if st := n.Stats(); st.Zones != 0 {
				t.Errorf("%d zones kept from another database are served", st.Zones)
			}
		})
	}
}

func TestAZoneIsWrittenAtMostEveryInterval(t *testing.T) {
	s := &Source{known: map[string]*zoneState{"a.": {unkept: true}, "b.": {}}}
	now := time.Now()
	if got := s.unkept(now); len(got) != 1 || got[0] != "a." {
		t.Errorf("unkept: got %q, want a.", got)
	}
	s.known["a."].unkept, s.known["a."].keep = true, now.Add(keepRest)
	if got := s.unkept(now.Add(keepRest / 2)); len(got) != 0 {
		t.Errorf("unkept during the pause after a write: got %q, want none", got)
	}
	if got := s.unkept(now.Add(2 * keepRest)); len(got) != 1 {
		t.Errorf("unkept after the pause: got %q, want one zone", got)
	}
}

func FuzzKept(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x01s\x00\x00\x00\x02a.\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01@\x00\x00\x00\x00\x00\x00\x00\x02{}\x00"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, name, r, err := parseKept(b)
		if err != nil {
			return
		}
		if name == "" || len(r.values) > len(b) || len(r.names.all) > len(r.values) {
			t.Errorf("file of zone %q: %d values of %d names from %d bytes", name, len(r.values), len(r.names.all), len(b))
		}
		r.sum()
		plainBuilder(Redins).build(r)
	})
}
