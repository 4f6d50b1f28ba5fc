package transfer_test

import (
	"bytes"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/setting"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
	"shuultuur/zone"
	"shuultuur/zone/sign"
	"shuultuur/zone/transfer"
)

// signing returns settings that sign example.com., with their own keys and
// folder.
func signing(t *testing.T, denial string) transfer.Config {
	t.Helper()
	keys := t.TempDir()
	for _, ksk := range []bool{true, false} {
		k, err := sign.Generate("example.com", "ed25519", ksk)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Write(keys); err != nil {
			t.Fatal(err)
		}
	}
	return transfer.Config{
		Keys:   keyed(),
		Allow:  []transfer.Allow{{Key: keyName}},
		Sign:   []transfer.Sign{{Zones: []string{"example.com"}, Config: sign.Config{Keys: []setting.Source{setting.Source(keys)}, Denial: denial}}},
		Folder: setting.Folder(t.TempDir()),
	}
}

func TestIncrementalTransfersGoOnAfterARestart(t *testing.T) {
	for i, p := range peers(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			own := peer.Port(t)
			addr := "127.0.0.1:" + own
			c := signing(t, []string{sign.NSEC, sign.Compact}[i])
			c.Notify = []transfer.Notify{{Address: addr, Key: keyName}}
			at := "127.0.0.1:" + peer.Port(t)
			has := func(name string) func() bool {
				return func() bool {
					m := query(addr, name, miekg.TypeA)
					return m != nil && len(m.Answer) > 0
				}
			}

			s, stop := startAt(t, c, at)
			publish(t, s, zoneOf(t, 1, 1000), nil)
			p.secondary(t, t.TempDir(), own, s.port())
			waittest.Until(t, p.name+" has the zone", has("host999.example.com."))
			publish(t, s, zoneOf(t, 1, 1001), nil)
			waittest.Until(t, p.name+" has a change", has("host1000.example.com."))
			before := serial(addr)
			stop()

			// The zone changes while it is not served, and again afterwards.
			s, stop = startAt(t, c, at)
			defer stop()
			publish(t, s, zoneOf(t, 1, 1002), nil)
			waittest.Until(t, p.name+" has the change made meanwhile", has("host1001.example.com."))
			publish(t, s, zoneOf(t, 1, 1003), nil)
			waittest.Until(t, p.name+" has the change after it", has("host1002.example.com."))
			if n := serial(addr); int32(n-before) <= 0 {
				t.Errorf("serial %d after the restart is not above %d", n, before)
			}
			if whole, changes := s.Stats.Out.Load(), s.Stats.OutIncremental.Load(); whole != 0 || changes == 0 {
				t.Errorf("after the restart %s fetched the zone whole %d times, changes %d times", p.name, whole, changes)
			}
			text := out(t, "dig", "@127.0.0.1", "-p", s.port(), "-y", "hmac-sha256:"+keyName+":"+secret, "+noall", "+answer", "+onesoa", "example.com", "AXFR")
			out(t, "dnssec-verify", "-z", "-o", "example.com.", write(t, t.TempDir(), "zone", text))
		})
	}
}

// signaturesOf returns the served signatures, by the signed data.
func signaturesOf(records []miekg.RR) map[string]string {
	all := map[string]string{}
	for _, rr := range records {
		if sig, ok := rr.(*miekg.RRSIG); ok {
			all[sig.Hdr.Name+miekg.TypeToString[sig.TypeCovered]] = sig.String()
		}
	}
	return all
}

// TestARestartKeepsSerialAndSignatures restarts a server with the same zone,
// with a change, with other keys, and after a long time.
func TestARestartKeepsSerialAndSignatures(t *testing.T) {
	for _, denial := range []string{sign.NSEC, sign.NSEC3, sign.Compact} {
		c := signing(t, denial)
		other := signing(t, denial)
		synctest.Test(t, func(t *testing.T) {
			// Keys are generated with the clock outside.
			time.Sleep(time.Until(time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC)))
			run := func(c transfer.Config, n int) (uint32, map[string]string) {
				k := newKept()
				s, err := transfer.New(c, k, nil, nil, slog.New(slog.NewTextHandler(t.Output(), nil)))
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Replace(zoneOf(t, 1, n)); err != nil {
					t.Fatal(err)
				}
				if !s.Save() {
					t.Error("Save failed")
				}
				return k.serial(), signaturesOf(k.records())
			}
			file := filepath.Join(string(c.Folder), "example.com.journal")
			stat := func() time.Time {
				info, err := os.Stat(file)
				if err != nil {
					t.Fatal(err)
				}
				return info.ModTime()
			}
			serial, sigs := run(c, 50)
			written := stat()
			time.Sleep(time.Hour)

			again, same := run(c, 50)
			if again != serial || !maps.Equal(same, sigs) {
				t.Errorf("%s: restart with the same zone: serial %d, before %d; same signatures: %v", denial, again, serial, maps.Equal(same, sigs))
			}
			if denial != sign.Compact && !stat().Equal(written) {
				t.Errorf("%s: Save wrote an unchanged zone again", denial)
			}
			changed, part := run(c, 51)
			different := 0
			for what, sig := range part {
				if sigs[what] != sig {
					different++
				}
			}
			if changed <= serial || different == 0 || different > 8 {
				t.Errorf("%s: zone with one name more: serial %d, before %d, %d signatures differ", denial, changed, serial, different)
			}
			c2 := other
			c2.Folder = c.Folder
			rolled, all := run(c2, 51)
			for what, sig := range all {
				if part[what] == sig {
					t.Errorf("%s: after a change of keys, %s still has the old signature", denial, what)
				}
			}
			if rolled <= changed {
				t.Errorf("%s: after a change of keys: serial %d, before %d", denial, rolled, changed)
			}
			time.Sleep(30 * 24 * time.Hour)
			later, fresh := run(c2, 51)
			if later <= rolled {
				t.Errorf("%s: after 30 days: serial %d, before %d", denial, later, rolled)
			}
			for what, sig := range fresh {
				if all[what] == sig {
					t.Errorf("%s: after 30 days, %s still has the old signature", denial, what)
				}
			}
		})
	}
}

func TestDamagedJournalsAreRefused(t *testing.T) {
	c := signing(t, sign.NSEC)
	file := filepath.Join(string(c.Folder), "example.com.journal")
	run := func(damage func(b []byte) []byte) string {
		var log bytes.Buffer
		s, err := transfer.New(c, zone.NewResponder(), nil, nil, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if damage != nil {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, damage(slices.Clone(b)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Replace(zoneOf(t, 1, 10)); err != nil {
			t.Fatal(err)
		}
		if !s.Save() {
			t.Error("Save failed")
		}
		return log.String()
	}
	run(nil)
	for name, damage := range map[string]func(b []byte) []byte{
		"a bit":         func(b []byte) []byte { b[len(b)/2] ^= 4; return b },
		"its end":       func(b []byte) []byte { return b[:len(b)-1] },
		"nearly all":    func(b []byte) []byte { return b[:30] },
		"everything":    func([]byte) []byte { return nil },
		"other version": func(b []byte) []byte { return bytes.Replace(b, []byte("journal 1"), []byte("journal 9"), 1) },
	} {
		if log := run(damage); !strings.Contains(log, "cannot be used") {
			t.Errorf("file with damage %s: the log is %q, want that it cannot be used", name, log)
		}
		if log := run(func(b []byte) []byte { return b }); log != "" {
			t.Errorf("after the damage %s, the file was not replaced by a good one: log %q", name, log)
		}
	}
	// That of another zone.
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(string(c.Folder), "example.net.journal"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s, err := transfer.New(c, zone.NewResponder(), nil, nil, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	z := zoneOf(t, 1, 10)
	z.Origin = "example.net."
	_ = s.Replace(z) // its records are elsewhere, and not part of this test
	if !strings.Contains(log.String(), `it is for zone \"example.com.\"`) {
		t.Errorf("file of another zone: the log is %q", log.String())
	}
}

func TestChangesAreKeptWhileRunning(t *testing.T) {
	c := signing(t, sign.NSEC)
	s := start(t, c)
	publish(t, s, zoneOf(t, 1, 10), nil)
	file := filepath.Join(string(c.Folder), "example.com.journal")
	waittest.Until(t, "it is kept", func() bool { _, err := os.Stat(file); return err == nil })
	if !s.Remove("example.com.", "") {
		t.Error("Remove: example.com. was not served")
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the journal of a removed zone still exists")
	}
}
