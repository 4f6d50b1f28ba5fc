package sign_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/setting"
	"shuultuur/zone"
	"shuultuur/zone/sign"
)

// A servedSet is everything that a resolver may have received at a moment: a set with
// its signatures.
type servedSet struct {
	from, until time.Time // while it was served
	set         []miekg.RR
	sigs        []*miekg.RRSIG
}

// setOf takes a set out of a signed zone.
func setOf(z *zone.Zone, name string, typ uint16, now time.Time) servedSet {
	s := servedSet{from: now, until: now}
	for _, rr := range z.Records {
		if rr.Header().Name != name {
			continue
		}
		if sig, ok := rr.(*miekg.RRSIG); ok && sig.TypeCovered == typ {
			s.sigs = append(s.sigs, sig)
		} else if rr.Header().Rrtype == typ {
			s.set = append(s.set, rr)
		}
	}
	return s
}

// history is the list of served zones, latest last.
type history []servedSet

// serve appends the zone that is served now.
func (h history) serve(s servedSet) history {
	if len(h) > 0 {
		h[len(h)-1].until = s.from
		if fmt.Sprint(h[len(h)-1].set, h[len(h)-1].sigs) == fmt.Sprint(s.set, s.sigs) {
			return h
		}
	}
	return append(h, s)
}

// known returns everything that a resolver may still have: everything served
// within the TTL.
func (h history) known(now time.Time, ttl time.Duration) []servedSet {
	h[len(h)-1].until = now
	return slices.DeleteFunc(slices.Clone(h), func(s servedSet) bool { return s.until.Add(ttl).Before(now) })
}

// A checker verifies signatures, each once.
type checker map[*miekg.RRSIG]error

func (c checker) verify(now time.Time, s servedSet, key *miekg.DNSKEY) error {
	err := errors.New("no signature by this key")
	for _, sig := range s.sigs {
		if sig.KeyTag != key.KeyTag() || sig.Algorithm != key.Algorithm {
			continue
		}
		if !sig.ValidityPeriod(now) {
			err = errors.New("a signature out of its time")
			continue
		}
		checked, ok := c[sig]
		if !ok {
			checked = sig.Verify(key, s.set)
			c[sig] = checked
		}
		if err = checked; err == nil {
			return nil
		}
	}
	return err
}

// accepts reports whether a validator that has these three takes the records.
func (c checker) accepts(now time.Time, ds, keys, records servedSet) error {
	err := errors.New("no key has a DS")
	for _, rr := range keys.set {
		key := rr.(*miekg.DNSKEY)
		if slices.ContainsFunc(ds.set, func(d miekg.RR) bool { return miekg.IsDuplicate(d, key.ToDS(miekg.SHA256)) }) {
			if err = c.verify(now, keys, key); err == nil {
				break
			}
		}
	}
	if err != nil {
		return fmt.Errorf("the keys: %w", err)
	}
	err = errors.New("no key")
	for _, rr := range keys.set {
		if err = c.verify(now, records, rr.(*miekg.DNSKEY)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("the records: %w", err)
}

// TestEveryCacheValidatesWhileKeysRoll lets 150 days pass, two hours at a time, in
// which zone-signing keys roll automatically and the key that the parent knows
// rolls twice. At each step every combination of DS, keys and records that a
// resolver may have by their TTLs must validate, also from a secondary that lags
// two hours behind.
func TestEveryCacheValidatesWhileKeysRoll(t *testing.T) {
	const (
		step   = 2 * time.Hour
		dsTTL  = 48 * time.Hour
		keyTTL = time.Hour
		ttl    = 24 * time.Hour
		lag    = 2 * time.Hour
		day    = 24 * time.Hour
	)
	for _, both := range []bool{false, true} {
		t.Run(map[bool]string{false: "two keys", true: "one key"}[both], func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, ksk := range []bool{true, false}[:map[bool]int{false: 2, true: 1}[both]] {
				k, err := sign.Generate("example.com", "ecdsap256sha256", ksk)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := k.Write(dir); err != nil {
					t.Fatal(err)
				}
			}
			config := sign.Config{Keys: []setting.Source{setting.Source(dir)}, ZSKLifetime: setting.Duration(30 * day)}
			s, err := sign.New("example.com", config)
			if err != nil {
				t.Fatal(err)
			}
			z := parseZone(t, "example.com.", "$TTL 86400\n@ SOA ns1 hostmaster 1 3600 3600 1209600 300\n@ NS ns1\nns1 A 192.0.2.1\n")
			first := time.Now().Add(time.Minute).Truncate(time.Second)
			var ds, keys, records history
			check := checker{}
			parent := setOf(&zone.Zone{}, "", 0, first)
			for _, d := range s.DS(first) {
				parent.set = append(parent.set, d)
			}
			var signed *zone.Zone
			var asked time.Time // since when CDS differs from DS
			states, begun, finished := 0, 0, 0
			for now := first; now.Before(first.Add(150 * day)); now = now.Add(step) {
				if begun < 2 && !now.Before(first.Add(time.Duration(20+60*begun)*day)) {
					if _, _, err := sign.BeginRoll(dir, "example.com", now); err != nil {
						t.Fatal(err)
					}
					if _, _, err := sign.BeginRoll(dir, "example.com", now); err == nil {
						t.Error("BeginRoll succeeded twice")
					}
					if _, err := sign.FinishRoll(dir, "example.com", now); err == nil {
						t.Error("FinishRoll succeeded before resolvers can have seen the new key")
					}
					begun++
				}
				changed, err := s.Roll(now)
				if err != nil {
					t.Fatal(err)
				}
				if now.Sub(first)%(10*day) == 3*day { // a restart
					if s, err = sign.New("example.com", config); err != nil {
						t.Fatal(err)
					}
					changed = true
				}
				if signed == nil || changed || !now.Before(s.Renew("")) {
					if signed, err = s.Zone(t.Context(), z, now); err != nil {
						t.Fatal(err)
					}
				}
				n := len(keys)
				keys = keys.serve(setOf(signed, "example.com.", miekg.TypeDNSKEY, now))
				records = records.serve(setOf(signed, "ns1.example.com.", miekg.TypeA, now))
				if len(keys) > n {
					states++
					out, err := exec.Command("ldns-verify-zone", "-t", now.UTC().Format("20060102150405"), writeZone(t, signed)).CombinedOutput()
					if err != nil && !errors.Is(err, exec.ErrNotFound) {
						t.Errorf("%v: ldns-verify-zone: %v\n%s", now, err, out)
					}
				}
				// The parent adopts CDS when it looks next; the operator of the zone notices a
				// day later.
				var cds []miekg.RR
				for _, rr := range setOf(signed, "example.com.", miekg.TypeCDS, now).set {
					d := rr.(*miekg.CDS).DS
					d.Hdr = miekg.RR_Header{Name: "example.com.", Rrtype: miekg.TypeDS, Class: miekg.ClassINET, Ttl: 3600}
					cds = append(cds, &d)
				}
				if len(cds) != 1 {
					t.Fatalf("%v: %d CDS records, want 1", now, len(cds))
				}
				same := len(parent.set) == 1 && miekg.IsDuplicate(cds[0], parent.set[0])
				switch {
				case same:
					asked = time.Time{}
				case asked.IsZero():
					asked = now
				case now.Sub(asked) >= step:
					parent = servedSet{from: now, until: now, set: cds}
				}
				ds = ds.serve(servedSet{from: now, until: now, set: parent.set})
				if same && finished < begun && now.Sub(parent.from) >= day && parent.from.After(first) {
					if _, err := sign.FinishRoll(dir, "example.com", now); err == nil {
						finished++
					}
				}
				for _, d := range ds.known(now, dsTTL) {
					for _, k := range keys.known(now, keyTTL+lag) {
						for _, r := range records.known(now, ttl+lag) {
							if err := check.accepts(now, d, k, r); err != nil {
								t.Fatalf("after %v: DS since %v, keys since %v, records since %v: %v", now.Sub(first), d.from.Sub(first), k.from.Sub(first), r.from.Sub(first), err)
							}
						}
					}
				}
			}
			last, start := keys[len(keys)-1], keys[0]
			for _, old := range start.set {
				if slices.ContainsFunc(last.set, func(k miekg.RR) bool { return miekg.IsDuplicate(old, k) }) {
					t.Errorf("the zone still has the first key after the rollover: %v", old)
				}
			}
			want := map[bool]int{false: 3 + 4, true: 3}[both] // the first, two in place of the others; a ZSK each 30 days
			files, err := filepath.Glob(filepath.Join(dir, "*.private"))
			if err != nil || len(files) < want || finished != 2 {
				t.Errorf("%d keys (%v), want %d; %d of 2 changes were ended; %d states", len(files), err, want, finished, states)
			}
			t.Logf("%d keys, %d sets of keys, %d changes ended", len(files), states, finished)
		})
	}
}

// TestKeyFilesAreReadAgain changes the files of a signer that runs.
func TestKeyFilesAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	put := func(ksk bool) string {
		k, err := sign.Generate("example.com", "ed25519", ksk)
		if err != nil {
			t.Fatal(err)
		}
		file, err := k.Write(dir)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSuffix(file, ".key") + ".private"
	}
	put(true)
	file := put(false)
	s, err := sign.New("example.com", sign.Config{Keys: []setting.Source{setting.Source(dir)}})
	if err != nil {
		t.Fatal(err)
	}
	z := parseZone(t, "example.com.", "$TTL 60\n@ SOA ns1 hostmaster 1 3600 3600 1209600 300\n@ NS ns1\nns1 A 192.0.2.1\n")
	now := time.Now().Add(time.Minute)
	count := func() int {
		signed, err := s.Zone(t.Context(), z, now)
		if err != nil {
			t.Fatal(err)
		}
		return len(setOf(signed, "example.com.", miekg.TypeDNSKEY, now).set)
	}
	roll := func(want bool) {
		t.Helper()
		now = now.Add(time.Minute)
		if changed, err := s.Roll(now); err != nil || changed != want {
			t.Errorf("Roll: changed %v, error %v; want changed %v", changed, err, want)
		}
	}
	if _, err := sign.New("example.com", sign.Config{Keys: []setting.Source{setting.Source(file)}, ZSKLifetime: setting.Duration(720 * time.Hour)}); err == nil || !strings.HasPrefix(err.Error(), "zsk-lifetime: ") {
		t.Errorf("key file together with zsk-lifetime: got %v, want an error", err)
	}
	if _, err := sign.New("example.com", sign.Config{Keys: []setting.Source{setting.Source(dir + "/")}, ZSKLifetime: setting.Duration(720 * time.Hour)}); err != nil {
		t.Errorf("a folder, with a lifetime: %v", err)
	}
	roll(false)
	if n := count(); n != 2 {
		t.Errorf("%d key files before the rollover, want 2", n)
	}
	put(false)
	roll(true)
	if n := count(); n != 3 {
		t.Errorf("%d key files during the rollover, want 3", n)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Roll(now); err == nil {
		t.Error("Roll accepted a damaged key file")
	}
	if n := count(); n != 3 {
		t.Errorf("%d keys with a damaged file, want the 3 there were", n)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	roll(false)
}
