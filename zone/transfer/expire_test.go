package transfer_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/setting"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
	"shuultuur/zone/transfer"
)

// expireOf returns a server's expire option (RFC 7314), or -1.
func expireOf(t *testing.T, addr, origin string, typ uint16) int {
	t.Helper()
	m := new(miekg.Msg)
	m.SetQuestion(origin, typ)
	m.RecursionDesired = false
	m.SetEdns0(1232, false)
	m.IsEdns0().Option = []miekg.EDNS0{&miekg.EDNS0_EXPIRE{Code: miekg.EDNS0EXPIRE, Empty: true}}
	r, _, err := (&miekg.Client{Net: "tcp"}).Exchange(m, addr)
	if err != nil {
		t.Fatal(err)
	}
	if opt := r.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, ok := o.(*miekg.EDNS0_EXPIRE); ok && !e.Empty {
				return int(e.Expire)
			}
		}
	}
	return -1
}

// secondaryOf returns the settings of a secondary of a server.
func secondaryOf(t *testing.T, primary string) transfer.Config {
	t.Helper()
	return transfer.Config{
		Keys: keyed(), Folder: setting.Folder(t.TempDir()), Allow: []transfer.Allow{{Key: keyName}, {Networks: everywhere}},
		Secondaries: []transfer.Secondary{{Zone: "example.com", Primaries: []transfer.Primary{{Address: primary, Key: keyName}}}},
	}
}

func TestACopyOfACopyLastsNoLonger(t *testing.T) {
	first := start(t, transfer.Config{Keys: keyed(), Allow: []transfer.Allow{{Key: keyName}, {Networks: everywhere}}})
	publish(t, first, zoneOf(t, 1, 3), nil) // expires after a day
	c := secondaryOf(t, first.addr.String())
	c.Serial = transfer.Keep
	second, stop := startAt(t, c, "127.0.0.1:0")
	waittest.Until(t, "the copy is here", func() bool { return serial(second.addr.String()) == 1 })
	stop()
	// It has not heard of its primary for 23 hours.
	age(t, string(c.Folder), "example.com.zone", 23*time.Hour)
	c.Secondaries[0].Primaries[0].Address = "127.0.0.1:1"
	second = start(t, c)
	third := start(t, secondaryOf(t, second.addr.String()))
	waittest.Until(t, "the copy of the copy is here", func() bool { return serial(third.addr.String()) == 1 })
	for _, s := range []struct {
		what        string
		addr        string
		least, most int
	}{{"the primary", first.addr.String(), 86400, 86400}, {"the copy", second.addr.String(), 3000, 3600}, {"the copy of the copy", third.addr.String(), 3000, 3600}} {
		if got := expireOf(t, s.addr, "example.com.", miekg.TypeSOA); got < s.least || got > s.most {
			t.Errorf("%s keeps the zone for %d s, want %d to %d", s.what, got, s.least, s.most)
		}
		if got := expireOf(t, s.addr, "example.com.", miekg.TypeAXFR); got < s.least || got > s.most {
			t.Errorf("%s says %d s in a transfer, want %d to %d", s.what, got, s.least, s.most)
		}
	}
	if got := expireOf(t, first.addr.String(), "www.example.com.", miekg.TypeA); got != -1 {
		t.Errorf("an answer other than SOA has the expire option %d s, want none", got)
	}
}

// TestExpireAgreesWithPeers uses BIND and Knot as secondaries of this server, and
// as primaries. NSD does not send the option.
func TestExpireAgreesWithPeers(t *testing.T) {
	key := strings.TrimSuffix(keyName, ".")
	for name, begin := range map[string]func(t *testing.T, dir, own, us string){
		"bind": func(t *testing.T, dir, own, us string) {
			conf := fmt.Sprintf(bindConf(dir, own), "allow-transfer { any; };")
			conf += fmt.Sprintf("zone \"example.com\" { type secondary; primaries { 127.0.0.1 port %s key %q; }; file \"copy\"; };\n", us, key)
			peer.Start(t, "named", "-g", "-n", "1", "-c", write(t, dir, "named.conf", conf))
		},
		"knot": func(t *testing.T, dir, own, us string) {
			conf := knotHead(dir, own, us) + fmt.Sprintf("  - id: all\n    address: 127.0.0.1\n    action: transfer\nzone:\n  - domain: example.com.\n    storage: %q\n    master: us\n    acl: [transfer, all]\n", dir)
			peer.Start(t, "knotd", "-c", write(t, dir, "knot.conf", conf))
		},
		"nsd": func(t *testing.T, dir, own, us string) {
			conf := nsdHead(t, dir, own) + fmt.Sprintf("zone:\n\tname: example.com\n\tzonefile: copy\n\trequest-xfr: AXFR 127.0.0.1@%s %s\n\tprovide-xfr: 127.0.0.0/8 NOKEY\n", us, key)
			peer.Start(t, "nsd", "-d", "-c", write(t, dir, "nsd.conf", conf))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := peer.Port(t)
			first := start(t, transfer.Config{Keys: keyed(), Allow: []transfer.Allow{{Key: keyName}}})
			publish(t, first, zoneOf(t, 1, 3), nil)
			begin(t, t.TempDir(), own, first.port())
			peer := "127.0.0.1:" + own
			waittest.Until(t, name+" has the zone", func() bool { return serial(peer) == 1 })
			c := secondaryOf(t, peer)
			c.Secondaries[0].Primaries[0].Key = ""
			last := start(t, c)
			waittest.Until(t, "we have the zone from "+name, func() bool { return serial(last.addr.String()) == 1 })
			theirs, ours := expireOf(t, peer, "example.com.", miekg.TypeSOA), expireOf(t, last.addr.String(), "example.com.", miekg.TypeSOA)
			// Knot sends the option in transfers only. NSD does not have it: the SOA record
			// determines how long its zones last.
			if theirs > 86400 || theirs <= 0 && name == "bind" || name == "nsd" && ours < 86000 || ours <= 0 || ours > 86400 {
				t.Errorf("%s keeps our zone for %d s, we keep its for %d s; want 1 to 86400", name, theirs, ours)
			}
		})
	}
}

var everywhere = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// age makes a file of a folder older.
func age(t *testing.T, dir, name string, by time.Duration) {
	t.Helper()
	at := time.Now().Add(-by)
	if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
		t.Fatal(err)
	}
}
