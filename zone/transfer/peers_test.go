package transfer_test

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/setting"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
	"shuultuur/zone"
	"shuultuur/zone/sign"
	"shuultuur/zone/transfer"
)

// A program is another's server: it writes its settings and starts it.
type program struct {
	name string
	// secondary fetches example.com. from this server at port.
	secondary func(t *testing.T, dir, own, port string)
	// primary has the zone in file, and tells the server at port of changes. It
	// reads the file again when reload is called.
	primary func(t *testing.T, dir, own, port, file string) (reload func())
}

// nsdHead returns the configuration that nsd needs before its zones.
func nsdHead(t *testing.T, dir, own string) string {
	t.Helper()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`
server:
	ip-address: 127.0.0.1
	port: %s
	do-ip6: no
	chroot: ""
	username: %q
	zonesdir: %q
	database: ""
	pidfile: ""
	xfrdfile: "%s/xfrd.state"
	zonelistfile: "%s/zone.list"
	xfrdir: %q
	xfrd-reload-timeout: 0
	server-count: 1
	verbosity: 1
remote-control:
	control-enable: no
key:
	name: %s
	algorithm: hmac-sha256
	secret: %q
`, own, me.Username, dir, dir, dir, dir, strings.TrimSuffix(keyName, "."), secret)
}

func peers(t *testing.T) []program {
	nsdConf := func(dir, own, zone string) string {
		return nsdHead(t, dir, own) + "zone:\n\tname: example.com\n" + zone
	}
	key := strings.TrimSuffix(keyName, ".")
	knotConf := func(dir, own, port, acl, zone string) string {
		return fmt.Sprintf(`
server:
    rundir: %q
    listen: 127.0.0.1@%s
database:
    storage: %q
log:
  - target: stderr
    any: info
key:
  - id: %s
    algorithm: hmac-sha256
    secret: %s
remote:
  - id: us
    address: 127.0.0.1@%s
    key: %s
acl:
  - id: them
    address: 127.0.0.1
    key: %s
    action: %s
zone:
  - domain: example.com
    storage: %q
    acl: them
%s`, dir, own, dir, keyName, secret, port, keyName, keyName, acl, dir, zone)
	}
	return []program{{
		"nsd",
		func(t *testing.T, dir, own, port string) {
			conf := nsdConf(dir, own, fmt.Sprintf("\tzonefile: copy\n\tallow-notify: 127.0.0.1 %s\n\trequest-xfr: 127.0.0.1@%s %s\n", key, port, key))
			peer.Start(t, "nsd", "-d", "-c", write(t, dir, "nsd.conf", conf))
		},
		func(t *testing.T, dir, own, port, file string) func() {
			conf := nsdConf(dir, own, fmt.Sprintf("\tzonefile: %q\n\tprovide-xfr: 127.0.0.1 %s\n\tnotify: 127.0.0.1@%s %s\n\tstore-ixfr: yes\n\tcreate-ixfr: yes\n", file, key, port, key))
			p := peer.Start(t, "nsd", "-d", "-c", write(t, dir, "nsd.conf", conf))
			return func() { _ = p.Process.Signal(syscall.SIGHUP) }
		},
	}, {
		"knot",
		func(t *testing.T, dir, own, port string) {
			peer.Start(t, "knotd", "-c", write(t, dir, "knot.conf", knotConf(dir, own, port, "notify", "    file: copy\n    master: us\n")))
		},
		func(t *testing.T, dir, own, port, file string) func() {
			conf := knotConf(dir, own, port, "transfer", fmt.Sprintf("    file: %s\n    notify: us\n    zonefile-load: difference\n    journal-content: changes\n    zonefile-sync: -1\n", file))
			p := peer.Start(t, "knotd", "-c", write(t, dir, "knot.conf", conf))
			return func() { _ = p.Process.Signal(syscall.SIGHUP) }
		},
	}}
}

func keyed() []transfer.KeyConfig {
	return []transfer.KeyConfig{{Name: keyName, Secret: secret}}
}

func TestOthersFetchFromUs(t *testing.T) {
	for _, p := range peers(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			own := peer.Port(t)
			addr := "127.0.0.1:" + own
			s := start(t, transfer.Config{
				Keys:   keyed(),
				Allow:  []transfer.Allow{{Key: keyName}},
				Notify: []transfer.Notify{{Address: addr, Key: keyName}},
			})
			publish(t, s, zoneOf(t, 1, 3000), nil)
			p.secondary(t, t.TempDir(), own, s.port())
			waittest.Until(t, p.name+" has serial 1", func() bool { return serial(addr) == 1 })
			publish(t, s, zoneOf(t, 2, 3001), nil)
			waittest.Until(t, p.name+" has serial 2", func() bool { return serial(addr) == 2 })
			// A server that is being replaced may still answer.
			waittest.Until(t, p.name+" has what was added", func() bool {
				m := query(addr, "host3000.example.com.", miekg.TypeA)
				return m != nil && len(m.Answer) == 1
			})
			// Less comes too.
			publish(t, s, zoneOf(t, 3, 2999), nil)
			waittest.Until(t, p.name+" has serial 3", func() bool { return serial(addr) == 3 })
			waittest.Until(t, p.name+" has lost what was taken away", func() bool {
				m := query(addr, "host2999.example.com.", miekg.TypeA)
				return m != nil && m.Rcode == miekg.RcodeNameError
			})
			if s.Stats.OutIncremental.Load() == 0 {
				t.Errorf("%s requested no differences, but %d whole zones", p.name, s.Stats.Out.Load())
			}
			if s.Stats.NotifyOut.Load() == 0 {
				t.Errorf("%s acknowledged no NOTIFY", p.name)
			}
		})
	}
}

func TestOthersFetchSignedZones(t *testing.T) {
	for i, p := range peers(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			own := peer.Port(t)
			addr := "127.0.0.1:" + own
			s := start(t, transfer.Config{
				Keys:   keyed(),
				Allow:  []transfer.Allow{{Key: keyName}},
				Notify: []transfer.Notify{{Address: addr, Key: keyName}},
			})
			k, err := sign.Generate("example.com.", "ed25519", true)
			if err != nil {
				t.Fatal(err)
			}
			signer, err := sign.NewWithKeys("example.com.", sign.Config{Denial: []string{sign.NSEC3, sign.Compact}[i]}, []*sign.Key{k})
			if err != nil {
				t.Fatal(err)
			}
			chosen := func(n int) *zone.Zone {
				z := zoneOf(t, 1, n)
				z.Choices = []zone.Choice{{Name: "host7.example.com.", Type: miekg.TypeA, Pick: first{}}}
				return z
			}
			publish(t, s, chosen(500), signer)
			p.secondary(t, t.TempDir(), own, s.port())
			waittest.Until(t, p.name+" has the zone", func() bool { return serial(addr) > 1 })
			before := serial(addr)
			publish(t, s, chosen(501), signer) // the source's serial stays
			waittest.Until(t, p.name+" has the next serial", func() bool { return serial(addr) > before })
			// The zone that the peer hands out verifies.
			text := out(t, "dig", "@127.0.0.1", "-p", s.port(), "-y", "hmac-sha256:"+keyName+":"+secret, "+noall", "+answer", "+onesoa", "example.com", "AXFR")
			file := write(t, t.TempDir(), "zone", text)
			out(t, "dnssec-verify", "-z", "-o", "example.com.", file)
			m := new(miekg.Msg)
			m.SetQuestion("host500.example.com.", miekg.TypeA)
			m.SetEdns0(4096, true)
			reply, err := miekg.Exchange(m, addr)
			if err != nil {
				t.Fatal(err)
			}
			for _, rr := range reply.Answer {
				if sig, ok := rr.(*miekg.RRSIG); ok {
					if err := sig.Verify(k.DNSKEY, reply.Answer[:1]); err != nil {
						t.Error(err)
					}
					return
				}
			}
			t.Errorf("no valid signature from %s: %v", p.name, reply)
		})
	}
}

func out(t *testing.T, name string, args ...string) string {
	t.Helper()
	b, err := peer.Command(t, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, b)
	}
	return string(b)
}

func text(t testing.TB, serial, n int) string {
	var b strings.Builder
	for _, rr := range zoneOf(t, serial, n).Records {
		fmt.Fprintln(&b, rr)
	}
	return b.String()
}

func TestWeFetchFromOthers(t *testing.T) {
	for _, p := range peers(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			own, dir, folder := peer.Port(t), t.TempDir(), t.TempDir()
			c := transfer.Config{
				Keys:        keyed(),
				Folder:      setting.Folder(folder),
				Secondaries: []transfer.Secondary{{Zone: "example.com", Primaries: []transfer.Primary{{Address: "127.0.0.1:" + own, Key: keyName}}}},
			}
			s := start(t, c)
			ours := s.addr.String()
			// There is no primary yet.
			if m := query(ours, "www.example.com.", miekg.TypeA); m == nil || m.Rcode != miekg.RcodeServerFailure {
				t.Errorf("before the first transfer: got %v, want SERVFAIL", m)
			}
			file := write(t, dir, "zone", text(t, 1, 3000))
			reload := p.primary(t, dir, own, s.port(), file)
			waittest.Until(t, "we have serial 1", func() bool { return serial(ours) == 1 })
			time.Sleep(1100 * time.Millisecond) // the peers look at whole seconds of a file's time
			write(t, dir, "zone", text(t, 2, 3010))
			reload()
			waittest.Until(t, "we have serial 2", func() bool { return serial(ours) == 2 })
			if s.Stats.NotifyIn.Load() == 0 {
				t.Error("no NOTIFY arrived from the primary")
			}
			waittest.Until(t, "both transfers are counted", func() bool { return s.Stats.InIncremental.Load()+s.Stats.In.Load() == 2 })
			if s.Stats.InIncremental.Load() != 1 {
				t.Errorf("%d transfers of differences, %d whole ones, want 1 and 1", s.Stats.InIncremental.Load(), s.Stats.In.Load())
			}
			if m := query(ours, "host3009.example.com.", miekg.TypeA); m == nil || len(m.Answer) != 1 {
				t.Errorf("the added record is missing here: %v", m)
			}
			waittest.Until(t, "it is on disk", func() bool {
				b, err := os.ReadFile(filepath.Join(folder, "example.com.zone"))
				return err == nil && strings.Contains(string(b), "host3009.")
			})
			// Another start without the primary: the zone on disk is served.
			c.Secondaries[0].Primaries[0].Address = "127.0.0.1:" + peer.Port(t)
			again := start(t, c)
			waittest.Until(t, "what is on disk is served", func() bool { return serial(again.addr.String()) == 2 })
		})
	}
}

func TestDigAndKdig(t *testing.T) {
	s := start(t, transfer.Config{
		Keys:  append(keyed(), transfer.KeyConfig{Name: "other.example", Algorithm: "hmac-sha512", Secret: secret}),
		Allow: []transfer.Allow{{Key: keyName, Zones: []string{"example.com"}}},
	})
	publish(t, s, zoneOf(t, 1, 5000), nil)
	publish(t, s, zoneOf(t, 2, 5001), nil)
	publish(t, s, zoneOf(t, 3, 5000), nil)
	good := "hmac-sha256:" + keyName + ":" + secret
	for _, tool := range []string{"dig", "kdig"} {
		ask := func(key, typ string) string {
			args := []string{"@127.0.0.1", "-p", s.port(), "example.com", "-t", typ}
			if key != "" {
				args = append(args, "-y", key)
			}
			b, _ := peer.Command(t, tool, args...).CombinedOutput() // a refusal is a failure to some
			return string(b)
		}
		// All: 5,000 hosts, and NS, its address, a wildcard, SOA twice.
		if got := strings.Count(ask(good, "AXFR"), "\tIN\t") + strings.Count(ask(good, "AXFR"), " IN "); got < 5005 {
			t.Errorf("%s AXFR: got %d records, want at least 5005", tool, got)
		}
		// From 1: the SOA, then 1→2 with one more, 2→3 with one less, the SOA.
		text := ask(good, "IXFR=1")
		if got := strings.Count(text, "SOA"); got < 6 || strings.Count(text, "host5000.") != 2 || strings.Contains(text, "host1.example") {
			t.Errorf("%s IXFR=1:\n%s", tool, text)
		}
		if text := ask(good, "IXFR=3"); strings.Count(text, "ns1.example.com. hostmaster") != 1 {
			t.Errorf("%s IXFR=3:\n%s", tool, text)
		}
		// From a serial we do not know: all of it.
		if text := ask(good, "IXFR=0"); !strings.Contains(text, "host4999.") {
			t.Errorf("%s IXFR=0 did not return the whole zone", tool)
		}
		for name, key := range map[string]string{
			"no key":         "",
			"another key":    "hmac-sha512:other.example.:" + secret,
			"unknown key":    "hmac-sha256:nobody.example.:" + secret,
			"another secret": "hmac-sha256:" + keyName + ":AAAAAAAAAAAAAAAAAAAAAAAAAAA=",
		} {
			if text := ask(key, "AXFR"); strings.Contains(text, "host1.example") {
				t.Errorf("%s with %s: the zone was sent, want a refusal", tool, name)
			}
		}
	}
	if s.Stats.BadKey.Load() == 0 || s.Stats.BadSig.Load() == 0 || s.Stats.OutRefused.Load() == 0 {
		t.Errorf("counted %d unknown keys, %d bad signatures, %d refusals; want some of each", s.Stats.BadKey.Load(), s.Stats.BadSig.Load(), s.Stats.OutRefused.Load())
	}
}
