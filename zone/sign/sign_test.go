package sign_test

import (
	"bytes"
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
	"shuultuur/test/peer"
	"shuultuur/zone"
	"shuultuur/zone/sign"
)

// zoneText has records that are difficult to sign: a delegation with and without
// DS, glue at and below the cut, an empty non-terminal, a wildcard, a DNAME that
// hides names, names in upper case, a set with two TTLs and a duplicate record.
const zoneText = `
$TTL 3600
@	SOA ns1 hostmaster 2026010101 7200 3600 1209600 300
	NS ns1
	NS NS2.Example.NET.
	MX 10 Mail
	CAA 0 issue "ca.example"
ns1	A 192.0.2.1
	AAAA 2001:db8::1
mail	300 A 192.0.2.2
mail	A 192.0.2.3
mail	A 192.0.2.3
WWW	CNAME mail
txt	TXT "one" "two"
*.wild	A 192.0.2.4
*.wild	TXT "any"
a.b.empty	A 192.0.2.5
_sip._tcp	SRV 1 2 5060 Mail
naptr	NAPTR 100 10 "u" "E2U+sip" "!^.*$!sip:info@example.com!" .
moved	DNAME Other.Example.NET.
x.moved	A 192.0.2.6
insecure	NS ns.insecure
ns.insecure	A 192.0.2.7
secure	NS secure
secure	A 192.0.2.8
	DS 12345 13 2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
\000zero	A 192.0.2.9
https	HTTPS 1 . alpn=h2
unknown	TYPE65400 \# 3 010203
`

func parseZone(t testing.TB, origin, text string) *zone.Zone {
	t.Helper()
	z, err := zone.Read(strings.NewReader(text), origin, "")
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func newKeys(t testing.TB, origin, algorithm string) []*sign.Key {
	t.Helper()
	var keys []*sign.Key
	for _, ksk := range []bool{true, false} {
		k, err := sign.Generate(origin, algorithm, ksk)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k)
	}
	return keys
}

func newSigner(t testing.TB, c sign.Config, keys []*sign.Key) *sign.Signer {
	t.Helper()
	s, err := sign.NewWithKeys(keys[0].Hdr.Name, c, keys)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func writeZone(t testing.TB, z *zone.Zone) string {
	t.Helper()
	var b bytes.Buffer
	for _, rr := range z.Records {
		fmt.Fprintln(&b, rr)
	}
	path := filepath.Join(t.TempDir(), "zone")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tool runs a program of another project; it fails the test if the program is missing.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(peer.Program(t, name), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s\n(test/setup.sh installs it)", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestOtherToolsVerifySignedZones(t *testing.T) {
	for _, algorithm := range sign.Algorithms() {
		for _, c := range []sign.Config{{Denial: sign.NSEC}, {Denial: sign.NSEC3}, {Denial: sign.NSEC3, OptOut: true}} {
			t.Run(fmt.Sprintf("%s %s %v", algorithm, c.Denial, c.OptOut), func(t *testing.T) {
				t.Parallel()
				s := newSigner(t, c, newKeys(t, "example.com.", algorithm))
				signed, err := s.Zone(t.Context(), parseZone(t, "example.com.", zoneText), time.Now())
				if err != nil {
					t.Fatal(err)
				}
				path := writeZone(t, signed)
				out := tool(t, "dnssec-verify", "-o", "example.com.", path)
				if !strings.Contains(out, "Zone fully signed") {
					t.Errorf("dnssec-verify: %s", out)
				}
				out = tool(t, "ldns-verify-zone", path)
				if !strings.Contains(out, "Zone is verified and complete") {
					t.Errorf("ldns-verify-zone: %s", out)
				}
			})
		}
	}
}

func TestOneKeySignsAll(t *testing.T) {
	k, err := sign.Generate("example.com", "ed25519", true)
	if err != nil {
		t.Fatal(err)
	}
	s := newSigner(t, sign.Config{}, []*sign.Key{k})
	signed, err := s.Zone(t.Context(), parseZone(t, "example.com.", zoneText), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	tool(t, "dnssec-verify", "-z", "-o", "example.com.", writeZone(t, signed))
}

func TestOnlyWhatChangedIsSigned(t *testing.T) {
	s := newSigner(t, sign.Config{}, newKeys(t, "example.com.", "ecdsap256sha256"))
	now := time.Now()
	first, err := s.Zone(t.Context(), parseZone(t, "example.com.", zoneText), now)
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.Zone(t.Context(), parseZone(t, "example.com.", zoneText+"\nnew A 192.0.2.10\n"), now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, rr := range first.Records {
		have[rr.String()] = true
	}
	var fresh []string
	for _, rr := range second.Records {
		if sig, ok := rr.(*miekg.RRSIG); ok && !have[rr.String()] {
			fresh = append(fresh, sig.Hdr.Name+" "+miekg.TypeToString[sig.TypeCovered])
		}
	}
	slices.Sort(fresh)
	want := []string{"naptr.example.com. NSEC", "new.example.com. A", "new.example.com. NSEC"}
	// The names are in canonical order: new comes between naptr and ns1.
	if !slices.Equal(fresh, want) {
		t.Errorf("names signed anew: got %v, want %v", fresh, want)
	}
}

func TestSignaturesAreMadeAnewBeforeTheyExpire(t *testing.T) {
	s := newSigner(t, sign.Config{}, newKeys(t, "example.com.", "ed25519"))
	z := parseZone(t, "example.com.", zoneText)
	now := time.Now().Truncate(time.Second)
	if !s.Renew("").IsZero() {
		t.Errorf("Renew before the first signing: got %v, want the zero time", s.Renew(""))
	}
	for round := range 5 {
		signed, err := s.Zone(t.Context(), z, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, rr := range signed.Records {
			sig, ok := rr.(*miekg.RRSIG)
			if !ok {
				continue
			}
			from, until := time.Unix(int64(sig.Inception), 0), time.Unix(int64(sig.Expiration), 0)
			if from.After(now.Add(-3 * time.Hour)) {
				t.Errorf("round %d: the signature of %s %d begins at %v, less than 3 hours before %v", round, sig.Hdr.Name, sig.TypeCovered, from, now)
			}
			if left := until.Sub(now); left <= 4*24*time.Hour || left > 14*24*time.Hour {
				t.Errorf("round %d: the signature of %s %d expires in %v, want 4 to 14 days", round, sig.Hdr.Name, sig.TypeCovered, left)
			}
		}
		next := s.Renew("")
		if in := next.Sub(now); in < 24*time.Hour || in > 10*24*time.Hour {
			t.Fatalf("round %d: next signing in %v, want 1 to 10 days", round, in)
		}
		now = next
	}
}

// TestSignaturesOfAWrongClockAreMadeAnew: a zone is signed while the clock is wrong, and then the clock is
// set right, with a restart in between or without.
func TestSignaturesOfAWrongClockAreMadeAnew(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Now().Truncate(time.Second)
	for _, step := range []time.Duration{-time.Hour, time.Hour, -day, day, -365 * day, 365 * day} {
		for name, restarts := range map[string]bool{"runs on": false, "restarts": true} {
			t.Run(fmt.Sprintf("%v, %s", step, name), func(t *testing.T) {
				keys := newKeys(t, "example.com.", "ed25519")
				s := newSigner(t, sign.Config{}, keys)
				z := parseZone(t, "example.com.", zoneText)
				if _, err := s.Zone(t.Context(), z, now.Add(step)); err != nil {
					t.Fatal(err)
				}
				if restarts {
					kept := s.Signatures("")
					s = newSigner(t, sign.Config{}, keys)
					s.Restore("", kept, now)
				}
				due := s.Due("", now)
				if wrong := step > 3*time.Hour || step < -10*day; wrong != !due.After(now) {
					t.Errorf("it is due %v from now", due.Sub(now))
				}
				if due.After(now) {
					return // all signatures are valid
				}
				signed, err := s.Zone(t.Context(), z, now)
				if err != nil {
					t.Fatal(err)
				}
				for _, rr := range signed.Records {
					if sig, ok := rr.(*miekg.RRSIG); ok && !sig.ValidityPeriod(now) {
						t.Errorf("the signature of %s %s is valid from %v until %v, not now", sig.Hdr.Name, miekg.TypeToString[sig.TypeCovered],
							time.Unix(int64(sig.Inception), 0).Sub(now), time.Unix(int64(sig.Expiration), 0).Sub(now))
					}
				}
				if in := s.Due("", now).Sub(now); in < day || in > 10*day {
					t.Errorf("it is due again in %v, want 1 to 10 days", in)
				}
			})
		}
	}
}

func TestChosenSetsAndAliasesAreInTheChain(t *testing.T) {
	s := newSigner(t, sign.Config{}, newKeys(t, "example.com.", "ed25519"))
	z := parseZone(t, "example.com.", zoneText)
	z.Choices = []zone.Choice{{Name: "mail.example.com.", Type: miekg.TypeA}}
	z.Aliases = []zone.Alias{{Name: "alias.example.com.", Target: "mail.example.com."}}
	signed, err := s.Zone(t.Context(), z, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	types := map[string][]uint16{}
	for _, rr := range signed.Records {
		if rr, ok := rr.(*miekg.NSEC); ok {
			types[rr.Hdr.Name] = rr.TypeBitMap
		}
	}
	if want := []uint16{miekg.TypeA, miekg.TypeRRSIG, miekg.TypeNSEC}; !slices.Equal(types["mail.example.com."], want) {
		t.Errorf("mail has %v in the chain, want %v", types["mail.example.com."], want)
	}
	if want := []uint16{miekg.TypeA, miekg.TypeAAAA, miekg.TypeRRSIG, miekg.TypeNSEC}; !slices.Equal(types["alias.example.com."], want) {
		t.Errorf("alias has %v in the chain, want %v", types["alias.example.com."], want)
	}
	for _, rr := range signed.Records {
		if rr.Header().Rrtype == 0 || rr.Header().Rrtype == miekg.TypeANY {
			t.Errorf("the signed zone has a placeholder record: %s", rr)
		}
	}
	if signed.Signer == nil {
		t.Error("a zone with online denial has no Signer")
	}
}

func TestKeysThatComeAndGo(t *testing.T) {
	dir := t.TempDir()
	keys := newKeys(t, "example.com.", "ed25519")
	now := time.Now().UTC().Add(time.Second) // when the keys below become active
	var paths []setting.Source
	for _, k := range keys {
		path, err := k.Write(dir)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, setting.Source(path))
	}
	next, err := sign.Generate("example.com.", "ed25519", false)
	if err != nil {
		t.Fatal(err)
	}
	path, err := next.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	stamp := func(path, line string) {
		private := strings.TrimSuffix(path, ".key") + ".private"
		b, err := os.ReadFile(private)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(private, append(b, line+"\n"...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change := now.Add(48 * time.Hour)
	stamp(path, "Activate: "+change.Format("20060102150405"))
	stamp(string(paths[1]), "Inactive: "+change.Format("20060102150405"))
	s, err := sign.New("example.com.", sign.Config{Keys: []setting.Source{setting.Source(dir)}})
	if err != nil {
		t.Fatal(err)
	}
	z := parseZone(t, "example.com.", zoneText)
	tags := func(now time.Time) (keys int, by map[uint16]int) {
		signed, err := s.Zone(t.Context(), z, now)
		if err != nil {
			t.Fatal(err)
		}
		by = map[uint16]int{}
		for _, rr := range signed.Records {
			switch rr := rr.(type) {
			case *miekg.DNSKEY:
				keys++
			case *miekg.RRSIG:
				by[rr.KeyTag]++
			}
		}
		return keys, by
	}
	n, by := tags(now)
	if n != 3 || by[next.Tag] != 0 || by[keys[1].Tag] == 0 {
		t.Errorf("before the change of keys: %d keys, signatures by tag %v", n, by)
	}
	if at := s.Renew(""); !at.Equal(change.Truncate(time.Second)) {
		t.Errorf("to be renewed at %v, want when the keys change: %v", at, change)
	}
	n, by = tags(s.Renew(""))
	if n != 3 || by[next.Tag] == 0 || by[keys[1].Tag] != 0 {
		t.Errorf("after the change of keys: %d keys, signatures by tag %v", n, by)
	}
}

func TestZonesThatCannotBeSigned(t *testing.T) {
	s := newSigner(t, sign.Config{}, newKeys(t, "example.com.", "ed25519"))
	outside := parseZone(t, "example.com.", zoneText)
	rr, err := miekg.NewRR("www.example.org. 60 IN A 192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	outside.Records = append(outside.Records, rr)
	for name, tt := range map[string]struct {
		z    *zone.Zone
		want string
	}{
		"no SOA":    {&zone.Zone{Origin: "example.com."}, "no SOA record"},
		"elsewhere": {outside, `"www.example.org." is outside the zone`},
	} {
		if _, err := s.Zone(t.Context(), tt.z, time.Now()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: Zone returned %v, want %q", name, err, tt.want)
		}
	}
	if _, err := sign.NewWithKeys("example.org", sign.Config{}, newKeys(t, "example.com.", "ed25519")); err == nil {
		t.Error("NewWithKeys accepted a key of another zone")
	}
	if _, err := sign.NewWithKeys("example.org", sign.Config{}, nil); err == nil {
		t.Error("NewWithKeys accepted an empty list of keys")
	}
}

func TestWholeZonesOfCompactDenialHaveAChain(t *testing.T) {
	s := newSigner(t, sign.Config{Denial: sign.Compact}, newKeys(t, "example.com.", "ed25519"))
	z := parseZone(t, "example.com.", zoneText)
	z.Choices = []zone.Choice{{Name: "mail.example.com.", Type: miekg.TypeA}}
	now := time.Now()
	served, err := s.Zone(t.Context(), z, now)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := s.AllRecords(t.Context(), z, now)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, rr := range whole {
		have[rr.String()] = true
	}
	for _, rr := range served.Records {
		if rr.Header().Rrtype == miekg.TypeNSEC {
			t.Errorf("the zone serves an NSEC record: %s", rr)
		}
		if !have[rr.String()] {
			t.Errorf("record that the whole zone lacks: %s", rr)
		}
	}
	tool(t, "dnssec-verify", "-o", "example.com.", writeZone(t, &zone.Zone{Records: whole}))
}
