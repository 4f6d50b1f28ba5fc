package transfer_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/lib/metric"
	"shuultuur/lib/setting"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
	"shuultuur/zone"
	"shuultuur/zone/sign"
	"shuultuur/zone/transfer"
)

// testZones implements Zones, and shows which records it serves.
type testZones struct{ *zone.Responder }

func newKept() testZones { return testZones{zone.NewResponder()} }

// records returns the served records.
func (k testZones) records() (all []miekg.RR) {
	for wire := range k.Served("example.com.", "").Records() {
		rr, _, err := miekg.UnpackRR(bytes.Clone(wire), 0)
		if err != nil {
			panic(err)
		}
		all = append(all, rr)
	}
	return all
}

func (k testZones) serial() uint32 { return k.Served("example.com.", "").Info().Serial }

func TestSerials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const now = 946684800 // where synctest begins: midnight UTC 2000-01-01
		years := time.Date(2025, 1, 2, 0, 0, 0, 0, time.UTC).Sub(time.Unix(now, 0))
		type round struct {
			serial, n int
			wait      time.Duration
			want      uint32
		}
		for _, tt := range []struct {
			name, policy string
			rounds       []round
		}{
			{"keep", "keep", []round{{7, 1, 0, 7}, {7, 2, 0, 7}, {9, 2, 0, 9}, {8, 2, 0, 8}}},
			{"increment", "increment", []round{{7, 1, 0, 7}, {7, 1, 0, 7}, {7, 2, 0, 8}, {7, 3, 0, 9}, {20, 3, 0, 20}, {20, 3, 0, 20}, {19, 4, 0, 21}}},
			{"unixtime", "unixtime", []round{{7, 1, 0, now}, {7, 1, time.Hour, now}, {7, 2, 0, now + 3600}, {7, 3, 0, now + 3601}, {2026112101, 3, 0, 2026112101}, {2026112101, 4, 0, 2026112102}}},
			{"dates", "unixtime", []round{{2026112101, 1, years - time.Hour, 2026112101 + 24}, {2026112101, 1, time.Hour, 2026112101 + 24}, {2026112101, 2, time.Hour, 2026112101 + 26}, {2026112102, 3, 0, 2026112102 + 26}}},
		} {
			k := newKept()
			s, err := transfer.New(transfer.Config{Serial: tt.policy}, k, nil, nil, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range tt.rounds {
				time.Sleep(r.wait)
				if err := s.Publish(t.Context(), zoneOf(t, r.serial, r.n)); err != nil {
					t.Fatal(err)
				}
				if got := k.serial(); got != r.want {
					t.Errorf("%s: round %d: serial %d, want %d", tt.name, i, got, r.want)
				}
			}
		}
	})
}

func TestSignedZonesAreSignedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKept()
		s, err := transfer.New(transfer.Config{}, k, nil, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = s.Run(ctx) }()
		key, err := sign.Generate("example.com.", "ed25519", true)
		if err != nil {
			t.Fatal(err)
		}
		signer, err := sign.NewWithKeys("example.com.", sign.Config{}, []*sign.Key{key})
		if err != nil {
			t.Fatal(err)
		}
		z := zoneOf(t, 1, 20)
		z.Signer = signer
		if err := s.Publish(ctx, z); err != nil {
			t.Fatal(err)
		}
		before := k.serial()
		for range 60 {
			time.Sleep(24 * time.Hour)
			synctest.Wait()
			for _, rr := range k.records() {
				if sig, ok := rr.(*miekg.RRSIG); ok {
					if left := time.Until(time.Unix(int64(sig.Expiration), 0)); left < 3*24*time.Hour {
						t.Fatalf("the signature of %s has %v left, want at least 3 days", sig.Hdr.Name, left)
					}
				}
			}
		}
		if after := k.serial(); int32(after-before) <= 0 {
			t.Errorf("serial %d after 60 days is not above %d, so secondaries would not notice", after, before)
		}
		cancel()
		<-done
	})
}

func TestKeysOfTheSettingsRoll(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		for _, ksk := range []bool{true, false} {
			k, err := sign.Generate("example.com", "ed25519", ksk)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := k.Write(dir); err != nil {
				t.Fatal(err)
			}
		}
		k := newKept()
		s, err := transfer.New(transfer.Config{Sign: []transfer.Sign{{Zones: []string{"example.com"}, Config: sign.Config{Keys: []setting.Source{setting.Source(dir)}, ZSKLifetime: setting.Duration(7 * 24 * time.Hour)}}}}, k, nil, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = s.Run(ctx) }()
		if err := s.Publish(ctx, zoneOf(t, 1, 3)); err != nil {
			t.Fatal(err)
		}
		signers := map[uint16]uint32{}
		last := uint32(0)
		for range 22 {
			time.Sleep(24 * time.Hour)
			synctest.Wait()
			for _, rr := range k.records() {
				sig, ok := rr.(*miekg.RRSIG)
				if !ok || sig.TypeCovered != miekg.TypeA {
					continue
				}
				if _, known := signers[sig.KeyTag]; !known {
					if signers[sig.KeyTag] = k.serial(); signers[sig.KeyTag] <= last {
						t.Errorf("another key signs, but the serial is %d after %d", k.serial(), last)
					}
					last = k.serial()
				}
			}
		}
		if len(signers) != 4 {
			t.Errorf("%d keys signed in 22 days with a lifetime of 7, want 4", len(signers))
		}
		cancel()
		<-done
	})
}

func TestViewsAreFetchedApart(t *testing.T) {
	s := start(t, transfer.Config{
		Keys: append(keyed(), transfer.KeyConfig{Name: "inside.example", Secret: secret}),
		Allow: []transfer.Allow{
			{Key: "inside.example", View: "inside"},
			{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		},
	})
	key, err := sign.Generate("example.com.", "ed25519", true)
	if err != nil {
		t.Fatal(err)
	}
	const head = "$TTL 300\n@ SOA ns1 hostmaster 1 3600 600 86400 300\n@ NS ns1\nns1 A 192.0.2.1\n"
	for view, host := range map[string]string{"inside": "secret A 192.0.2.2\n", "": "public A 192.0.2.3\n"} {
		z := read(t, "example.com.", head+host)
		if z.View = view; view != "" {
			z.Clients = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		}
		signer, err := sign.NewWithKeys("example.com.", sign.Config{}, []*sign.Key{key})
		if err != nil {
			t.Fatal(err)
		}
		publish(t, s, z, signer)
	}
	args := []string{"@127.0.0.1", "-p", s.port(), "+onesoa", "+noall", "+answer", "example.com", "AXFR"}
	public := out(t, "dig", args...)
	inside := out(t, "dig", append([]string{"-y", "hmac-sha256:inside.example.:" + secret}, args...)...)
	for what, tt := range map[string]struct{ text, has, lacks string }{
		"everybody": {public, "public.example.com.", "secret.example.com."},
		"inside":    {inside, "secret.example.com.", "public.example.com."},
	} {
		if !strings.Contains(tt.text, tt.has) || strings.Contains(tt.text, tt.lacks) {
			t.Errorf("%s: wrong lines in\n%s", what, tt.text)
		}
		out(t, "dnssec-verify", "-z", "-o", "example.com.", write(t, t.TempDir(), "zone", tt.text))
	}
}

// notify gives a NOTIFY to a server as its listener does.
func notify(t *testing.T, s *transfer.Server, zone string, from string) (dns.Outcome, uint16) {
	t.Helper()
	m := new(miekg.Msg)
	m.SetNotify(zone)
	msg, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	q := dns.Query{Client: netip.MustParseAddrPort(from), At: time.Now()}
	if q.Parse(msg) != dns.OK {
		t.Fatal("Parse failed for the NOTIFY")
	}
	var r dns.Reply
	r.Start(&q, make([]byte, 0, 512), 512)
	out := s.Notify(&q, &r)
	return out, r.Rcode
}

func TestNotifyIsTakenFromPrimariesAlone(t *testing.T) {
	s, err := transfer.New(transfer.Config{
		Keys:   keyed(),
		Folder: setting.Folder(t.TempDir()),
		Secondaries: []transfer.Secondary{
			{Zone: "example.com", Primaries: []transfer.Primary{{Address: "192.0.2.1"}}},
			{Zone: "example.net", Primaries: []transfer.Primary{{Address: "192.0.2.1", Key: keyName}}},
		},
	}, zone.NewResponder(), nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		zone, from string
		out        dns.Outcome
		rcode      uint16
	}{
		{"example.com.", "192.0.2.1:1234", dns.Answered, 0},
		{"EXAMPLE.com.", "192.0.2.1:1234", dns.Answered, 0},
		{"example.com.", "192.0.2.2:53", dns.Answered, miekg.RcodeRefused},
		{"example.net.", "192.0.2.1:53", dns.Answered, miekg.RcodeRefused}, // not signed
		{"example.org.", "192.0.2.1:53", dns.Declined, 0},
	} {
		if out, rcode := notify(t, s, tt.zone, tt.from); out != tt.out || rcode != tt.rcode {
			t.Errorf("NOTIFY of %s from %s: outcome %d, rcode %d; want %d, %d", tt.zone, tt.from, out, rcode, tt.out, tt.rcode)
		}
	}
}

func TestObjectsOnDiskExpire(t *testing.T) {
	folder := t.TempDir()
	file := write(t, folder, "example.com.zone", text(t, 5, 3)) // expires in a day
	c := transfer.Config{
		Folder:      setting.Folder(folder),
		Secondaries: []transfer.Secondary{{Zone: "example.com", Primaries: []transfer.Primary{{Address: "127.0.0.1:" + peer.Port(t)}}}},
	}
	s := start(t, c)
	waittest.Until(t, "what is on disk is served", func() bool { return serial(s.addr.String()) == 5 })
	old := time.Now().Add(-25 * time.Hour)
	if err := os.Chtimes(file, old, old); err != nil {
		t.Fatal(err)
	}
	s = start(t, c)
	waittest.Until(t, "the primary was asked", func() bool { return s.Stats.InFailed.Load() > 0 })
	if m := query(s.addr.String(), "host1.example.com.", miekg.TypeA); m == nil || m.Rcode != miekg.RcodeServerFailure {
		t.Errorf("expired zone: got %v, want SERVFAIL", m)
	}
	if m := query(s.addr.String(), "example.org.", miekg.TypeA); m == nil || m.Rcode != miekg.RcodeRefused {
		t.Errorf("name outside the expired zone: got %v, want REFUSED", m)
	}
	if files, err := filepath.Glob(filepath.Join(folder, "*")); err != nil || len(files) != 1 {
		t.Errorf("files in the folder: got %v, %v, want 1", files, err)
	}
}

func TestMistakesInTheSettings(t *testing.T) {
	primary := []transfer.Primary{{Address: "192.0.2.1"}}
	for name, tt := range map[string]struct {
		c    transfer.Config
		want string
	}{
		"everybody":      {transfer.Config{Allow: []transfer.Allow{{}}}, "allow[0].networks: neither"},
		"unknown key":    {transfer.Config{Allow: []transfer.Allow{{Key: "x"}}}, `allow[0].key: there is no key "x"`},
		"bad zone":       {transfer.Config{Allow: []transfer.Allow{{Key: keyName, Zones: []string{""}}}, Keys: keyed()}, "allow[0].zones[0]"},
		"bad address":    {transfer.Config{Notify: []transfer.Notify{{Address: "ns.example"}}}, "notify[0].address"},
		"bad policy":     {transfer.Config{Serial: "date"}, "serial"},
		"no primary":     {transfer.Config{Folder: ".", Secondaries: []transfer.Secondary{{Zone: "example.com"}}}, "secondary[0].primaries"},
		"no folder":      {transfer.Config{Secondaries: []transfer.Secondary{{Zone: "example.com", Primaries: primary}}}, "folder"},
		"twice":          {transfer.Config{Folder: ".", Secondaries: []transfer.Secondary{{Zone: "example.com", Primaries: primary}, {Zone: "Example.com.", Primaries: primary}}}, "secondary[1].zone"},
		"bad port":       {transfer.Config{Notify: []transfer.Notify{{Address: "192.0.2.1:0"}}}, "notify[0].address"},
		"key of primary": {transfer.Config{Folder: ".", Secondaries: []transfer.Secondary{{Zone: "a", Primaries: []transfer.Primary{{Address: "::1", Key: "no"}}}}}, "secondary[0].primaries[0].key"},
		"signing":        {transfer.Config{Sign: []transfer.Sign{{Zones: []string{"a"}, Config: sign.Config{Keys: []setting.Source{"/nowhere"}}}}}, "sign[0].keys[0]"},
		"no keys":        {transfer.Config{Sign: []transfer.Sign{{Zones: []string{"a"}}}}, "sign[0].keys"},
		"denial":         {transfer.Config{Sign: []transfer.Sign{{Zones: []string{"a"}, Config: sign.Config{Keys: []setting.Source{"/nowhere"}, Denial: "x"}}}}, "sign[0].denial"},
	} {
		if _, err := transfer.New(tt.c, zone.NewResponder(), nil, nil, slog.New(slog.DiscardHandler)); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: New returned %v, want %q", name, err, tt.want)
		}
	}
}

func TestZonesOfTheSettingsAreSigned(t *testing.T) {
	dir := t.TempDir()
	key, err := sign.Generate("example.com", "ecdsap256sha256", true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := key.Write(dir); err != nil {
		t.Fatal(err)
	}
	k := newKept()
	s, err := transfer.New(transfer.Config{Sign: []transfer.Sign{{Zones: []string{"Example.com"}, Config: sign.Config{Keys: []setting.Source{setting.Source(dir)}, Denial: sign.Compact}}}}, k, nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Replace(zoneOf(t, 1, 5)); err != nil {
		t.Fatal(err)
	}
	signed := 0
	for _, rr := range k.records() {
		if rr.Header().Rrtype == miekg.TypeRRSIG {
			signed++
		}
	}
	var counts strings.Builder
	if err := metric.Write(&counts, s); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(counts.String(), "\nshuultuur_dns_signatures_renew_timestamp_seconds") {
		t.Errorf("no metric gives the time of the next signing: %s", &counts)
	}
	if signed < 9 || !k.Zones()[0].Signed {
		t.Errorf("%d signatures counted, want at least 9 and a signed zone", signed)
	}
}
