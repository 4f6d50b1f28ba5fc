package transfer_test

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/setting"
	"shuultuur/zone/sign"
	"shuultuur/zone/transfer"
)

// TestValidatorsAcceptEveryStateOfARollover makes both kinds of keys reach each
// state of a rollover now, and lets validators check the zone with the DS records
// that they may have then.
func TestValidatorsAcceptEveryStateOfARollover(t *testing.T) {
	for algorithm, denial := range map[string]string{"ecdsap256sha256": sign.NSEC3, "ed25519": sign.NSEC} {
		t.Run(algorithm+" "+denial, func(t *testing.T) {
			t.Parallel()
			rollover(t, algorithm, denial)
		})
	}
}

const (
	day     = 24 * time.Hour
	begin   = 2 * day              // of the rollover of the key that the parent knows
	finish  = begin + 10*time.Hour // when the parent is said to have it
	zskLife = 10 * day
)

func rollover(t *testing.T, algorithm, denial string) {
	const before, after = 1, 2 // which DS records are good: the old key's, the new one's
	for _, state := range []struct {
		what string
		at   time.Duration // since the keys were made
		good int
		keys int
	}{
		{"before", day, before, 2},
		{"both keys sign", begin + 2*time.Hour, before | after, 3},
		{"the parent is asked", begin + 6*time.Hour, before | after, 3},
		{"the parent has the new DS", begin + day, before | after, 3},
		{"the old key has gone", finish + 7*day + 4*time.Hour, after, 2},
		{"the next ZSK is published", zskLife - 2*time.Hour, after, 3},
		{"the next ZSK signs", zskLife + 5*time.Hour, after, 3},
		{"the old ZSK has gone", zskLife + 40*time.Hour, after, 2},
	} {
		start := time.Now().Add(-state.at)
		dir := t.TempDir()
		for _, ksk := range []bool{true, false} {
			makeKey(t, dir, algorithm, ksk, start)
		}
		ds := replay(t, dir, start, denial)
		s := startSigned(t, dir, denial)
		if m := query(s.addr.String(), "example.com.", miekg.TypeDNSKEY); m == nil || len(m.Answer) != state.keys {
			t.Errorf("%s: DNSKEY: got %v, want %d keys", state.what, m, state.keys)
		}
		for i, good := range []int{before, after} {
			if state.good&good == 0 || i >= len(ds) {
				continue
			}
			v := newValidator(t, s, ds[i])
			for _, q := range []struct {
				name         string
				typ          uint16
				rcode, count int
			}{
				{"example.com.", miekg.TypeDNSKEY, 0, state.keys},
				{"example.com.", miekg.TypeCDS, 0, 1},
				{"mail.example.com.", miekg.TypeA, 0, 2},
				{"mail.example.com.", miekg.TypeAAAA, 0, 0},
				{"a.b.wild.example.com.", miekg.TypeA, 0, 1},
				{"b.empty.example.com.", miekg.TypeA, 0, 0},
				{"nothing.example.com.", miekg.TypeA, miekg.RcodeNameError, 0},
				{"insecure.example.com.", miekg.TypeDS, 0, 0},
			} {
				v.ask(t, q.name, q.typ, q.rcode, q.count, true)
			}
			if t.Failed() {
				t.Fatalf("failed in state %s with the DS %v", state.what, ds[i])
			}
		}
		text := out(t, "dig", "@127.0.0.1", "-p", s.port(), "+noall", "+answer", "+onesoa", "example.com", "AXFR")
		file := write(t, t.TempDir(), "zone", text)
		out(t, "dnssec-verify", "-o", "example.com.", file)
		out(t, "ldns-verify-zone", file)
	}
}

// makeKey makes a key that was made at a moment.
func makeKey(t *testing.T, dir, algorithm string, ksk bool, at time.Time) {
	t.Helper()
	k, err := sign.Generate("example.com", algorithm, ksk)
	if err != nil {
		t.Fatal(err)
	}
	file, err := k.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	file = strings.TrimSuffix(file, ".key") + ".private"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`((?:Created|Publish|Activate): )\d+`).ReplaceAll(text, []byte("${1}"+at.UTC().Format("20060102150405")))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// replay repeats the history of keys from a moment to now, and returns the DS
// records of the keys that the parent knows, oldest first.
func replay(t *testing.T, dir string, start time.Time, denial string) []*miekg.DS {
	t.Helper()
	s, err := sign.New("example.com", sign.Config{Keys: []setting.Source{setting.Source(dir)}, Denial: denial, ZSKLifetime: setting.Duration(zskLife)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Zone(t.Context(), read(t, "example.com.", signedZone), start); err != nil {
		t.Fatal(err)
	}
	ds := s.DS(start)
	for at, begun, finished := start, false, false; at.Before(time.Now()); at = at.Add(time.Hour) {
		if !begun && at.Sub(start) >= begin {
			_, next, err := sign.BeginRoll(dir, "example.com", at)
			if err != nil {
				t.Fatal(err)
			}
			begun = true
			ds = append(ds, next.DS())
		}
		if !finished && at.Sub(start) >= finish {
			if _, err := sign.FinishRoll(dir, "example.com", at); err != nil {
				t.Fatal(err)
			}
			finished = true
		}
		if _, err := s.Roll(at); err != nil {
			t.Fatal(err)
		}
	}
	return slices.Clip(ds)
}

// startSigned serves example.com. signed with the keys in a folder.
func startSigned(t *testing.T, dir, denial string) *server {
	t.Helper()
	s := start(t, transfer.Config{
		Sign:  []transfer.Sign{{Zones: []string{"example.com"}, Config: sign.Config{Keys: []setting.Source{setting.Source(dir)}, Denial: denial, ZSKLifetime: setting.Duration(zskLife)}}},
		Allow: []transfer.Allow{{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}},
	})
	publish(t, s, read(t, "example.com.", signedZone), nil)
	return s
}

// TestAKeyWaitsForItsParent rolls the key of a zone whose parent is first
// unreachable, then has the old DS record, both, the new one for some hours, and
// the new one permanently.
func TestAKeyWaitsForItsParent(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k, err := sign.Generate("example.com", "ed25519", true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Write(dir); err != nil {
			t.Fatal(err)
		}
		kept := newKept()
		var mu sync.Mutex
		var parent []*miekg.DS
		asked, down := 0, errors.New("it does not answer")
		ask := func(context.Context, string) ([]*miekg.DS, error) {
			mu.Lock()
			defer mu.Unlock()
			asked++
			return parent, down
		}
		s, err := transfer.New(transfer.Config{Sign: []transfer.Sign{{Zones: []string{"example.com"}, Config: sign.Config{Keys: []setting.Source{setting.Source(dir)}}}}}, kept, ask, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		has := func(err error, ds ...*miekg.DS) {
			mu.Lock()
			defer mu.Unlock()
			parent, down = ds, err
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = s.Run(ctx) }()
		if err := s.Publish(ctx, zoneOf(t, 1, 3)); err != nil {
			t.Fatal(err)
		}
		keys := func() (n int) {
			for _, rr := range kept.records() {
				if rr.Header().Rrtype == miekg.TypeDNSKEY {
					n++
				}
			}
			return n
		}
		pass := func(d time.Duration, want int, status string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			got, err := sign.RollStatus(dir, "example.com", time.Now())
			if err != nil || !strings.Contains(got, status) || keys() != want {
				t.Errorf("%d keys, want %d; status %s, want %q; error %v", keys(), want, got, status, err)
			}
		}
		pass(day, 1, "no key")
		if asked > 0 {
			t.Error("the parent zone was queried although no key waits for it")
		}
		old, next, err := sign.BeginRoll(dir, "example.com", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		unlike := *next.DS()
		unlike.Digest = strings.Repeat("00", 32)
		pass(5*time.Minute, 2, "is in the zone")
		pass(2*day, 2, "waits for the parent")
		pass(3*day, 2, "waits for the parent")
		has(nil, old.DS())
		pass(3*day, 2, "waits for the parent")
		has(nil, old.DS(), next.DS())
		pass(3*day, 2, "waits for the parent")
		has(nil, &unlike)
		pass(3*day, 2, "waits for the parent")
		has(nil)
		pass(3*day, 2, "waits for the parent")
		has(nil, next.DS())
		pass(12*time.Hour, 2, "waits for the parent")
		has(nil, old.DS())
		pass(2*time.Hour, 2, "waits for the parent")
		has(nil, next.ToDS(miekg.SHA384))
		pass(20*time.Hour, 2, "waits for the parent")
		pass(6*time.Hour, 2, "is removed at")
		pass(6*day, 2, "is removed at")
		pass(2*day, 1, "has replaced key")
		cancel()
		<-done
	})
}
