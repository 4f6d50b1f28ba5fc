package transfer_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/setting"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
	"shuultuur/zone"
	"shuultuur/zone/transfer"
)

const catalogName = "catalog.example."

// memberZone returns a small zone with a serial number.
func memberZone(t *testing.T, origin string, serial int) *zone.Zone {
	t.Helper()
	z, err := zone.Read(strings.NewReader(memberText(serial)), origin, "")
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func memberText(serial int) string {
	return fmt.Sprintf("$TTL 300\n@ SOA ns hostmaster %d 3600 600 86400 300\n@ NS ns\nns A 192.0.2.1\n", serial)
}

// has reports whether a server answers for a zone with authority.
func has(addr, origin string) bool {
	m := query(addr, origin, miekg.TypeSOA)
	return m != nil && m.Rcode == 0 && len(m.Answer) == 1
}

// bindConf returns the configuration that named needs before its zones.
func bindConf(dir, port string) string {
	return fmt.Sprintf(`options { directory %q; listen-on port %s { 127.0.0.1; }; listen-on-v6 { none; }; pid-file none; session-keyfile none;
 recursion no; dnssec-validation no; minimal-responses no; notify-delay 0; startup-notify-rate 100; %%s };
controls { };
key %q { algorithm hmac-sha256; secret %q; };
`, dir, port, strings.TrimSuffix(keyName, "."), secret)
}

// knotHead returns the configuration that knotd needs before its zones; us is
// our port.
func knotHead(dir, own, us string) string {
	return fmt.Sprintf(`server:
    rundir: %q
    listen: 127.0.0.1@%s
    automatic-acl: on
database:
    storage: %q
key:
  - id: %s
    algorithm: hmac-sha256
    secret: %s
remote:
  - id: us
    address: 127.0.0.1@%s
    key: %s
acl:
  - id: transfer
    key: %s
    action: [transfer, notify]
`, dir, own, dir, keyName, secret, us, keyName, keyName)
}

func TestOthersFollowOurCatalog(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T, dir, own, us string){
		"knot": func(t *testing.T, dir, own, us string) {
			conf := knotHead(dir, own, us) + fmt.Sprintf("template:\n  - id: member\n    storage: %q\n    master: us\n    acl: transfer\nzone:\n  - domain: %s\n    storage: %q\n    master: us\n    acl: transfer\n    catalog-role: interpret\n    catalog-template: member\n", dir, catalogName, dir)
			peer.Start(t, "knotd", "-c", write(t, dir, "knot.conf", conf))
		},
		"bind": func(t *testing.T, dir, own, us string) {
			key := strings.TrimSuffix(keyName, ".")
			conf := fmt.Sprintf(bindConf(dir, own), fmt.Sprintf("allow-new-zones no; catalog-zones { zone %q default-primaries { 127.0.0.1 port %s key %q; } in-memory yes min-update-interval 0; };", catalogName, us, key))
			conf += fmt.Sprintf("server 127.0.0.1 { keys { %q; }; };\nzone %q { type secondary; primaries { 127.0.0.1 port %s key %q; }; allow-notify { any; }; };\n", key, catalogName, us, key)
			peer.Start(t, "named", "-g", "-n", "1", "-c", write(t, dir, "named.conf", conf))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := peer.Port(t)
			addr := "127.0.0.1:" + own
			s := start(t, transfer.Config{
				Keys: keyed(), Allow: []transfer.Allow{{Key: keyName}}, Notify: []transfer.Notify{{Address: addr, Key: keyName}},
				Catalogs: []transfer.Catalog{{Zone: catalogName}},
			})
			if err := s.Replace(memberZone(t, "a.test.", 1), memberZone(t, "b.test.", 1)); err != nil {
				t.Fatal(err)
			}
			waittest.Until(t, "the catalog is there", func() bool { return has(s.addr.String(), catalogName) })
			begin(t, t.TempDir(), own, s.port())
			waittest.Until(t, name+" has both zones", func() bool { return has(addr, "a.test.") && has(addr, "b.test.") })
			if err := s.Replace(memberZone(t, "c.test.", 1)); err != nil {
				t.Fatal(err)
			}
			waittest.Until(t, name+" has the third zone", func() bool { return has(addr, "c.test.") })
			s.Remove("a.test.", "")
			waittest.Until(t, name+" has lost the first zone", func() bool { return !has(addr, "a.test.") })
		})
	}
}

// NSD has catalogs since 4.9; an older one carries them, and their members, from
// one server to another.
func TestACatalogPassesThroughNSD(t *testing.T) {
	own, members := peer.Port(t), []string{"a.test.", "b.test."}
	addr := "127.0.0.1:" + own
	first := start(t, transfer.Config{
		Keys: keyed(), Allow: []transfer.Allow{{Key: keyName}}, Notify: []transfer.Notify{{Address: addr, Key: keyName}},
		Catalogs: []transfer.Catalog{{Zone: catalogName}},
	})
	if err := first.Replace(memberZone(t, members[0], 1), memberZone(t, members[1], 1)); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the catalog is there", func() bool { return has(first.addr.String(), catalogName) })
	last := start(t, transfer.Config{
		Keys: keyed(), Folder: setting.Folder(t.TempDir()),
		Secondaries: []transfer.Secondary{{Zone: catalogName, Catalog: true, Primaries: []transfer.Primary{{Address: addr, Key: keyName}}}},
	})
	dir, key := t.TempDir(), strings.TrimSuffix(keyName, ".")
	conf := nsdHead(t, dir, own)
	for _, z := range append(members, catalogName) {
		conf += fmt.Sprintf("zone:\n\tname: %s\n\tzonefile: %q\n\tallow-notify: 127.0.0.1 %s\n\trequest-xfr: 127.0.0.1@%s %s\n\tprovide-xfr: 127.0.0.1 %s\n\tnotify: 127.0.0.1@%s %s\n",
			z, z+"copy", key, first.port(), key, key, last.port(), key)
	}
	peer.Start(t, "nsd", "-d", "-c", write(t, dir, "nsd.conf", conf))
	ours := last.addr.String()
	waittest.Until(t, "both zones are here", func() bool { return has(ours, members[0]) && has(ours, members[1]) })
	first.Remove(members[0], "")
	waittest.Until(t, "the first zone is gone", func() bool { return !has(ours, members[0]) && has(ours, members[1]) })
}

func TestWeFollowTheCatalogsOfOthers(t *testing.T) {
	catalog := func(serial int, members ...string) string {
		text := fmt.Sprintf("$TTL 0\n@ SOA invalid. invalid. %d 3600 600 2147483646 0\n@ NS invalid.\nversion TXT \"2\"\n", serial)
		for _, m := range members {
			text += strings.ReplaceAll(m, ".", "-") + ".zones PTR " + m + "\n"
		}
		return text
	}
	for name, begin := range map[string]func(t *testing.T, dir, own, us string, members ...string){
		"bind": func(t *testing.T, dir, own, us string, members ...string) {
			key := strings.TrimSuffix(keyName, ".")
			conf := fmt.Sprintf(bindConf(dir, own), fmt.Sprintf("allow-transfer { key %q; }; notify explicit; also-notify { 127.0.0.1 port %s key %q; };", key, us, key))
			for _, m := range append(members, catalogName) {
				conf += fmt.Sprintf("zone %q { type primary; file %q; };\n", m, filepath.Join(dir, m+"zone"))
			}
			peer.Start(t, "named", "-g", "-n", "1", "-c", write(t, dir, "named.conf", conf))
		},
		"knot": func(t *testing.T, dir, own, us string, members ...string) {
			conf := knotHead(dir, own, us) + fmt.Sprintf("template:\n  - id: default\n    storage: %q\n    file: \"%%s.zone\"\n    acl: transfer\n    notify: us\nzone:\n  - domain: %s\n    catalog-role: generate\n", dir, catalogName)
			for _, m := range members {
				conf += fmt.Sprintf("  - domain: %s\n    catalog-role: member\n    catalog-zone: %s\n", m, catalogName)
			}
			peer.Start(t, "knotd", "-c", write(t, dir, "knot.conf", conf))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own, dir, folder := peer.Port(t), t.TempDir(), t.TempDir()
			for _, m := range []string{"a.test.", "b.test."} {
				write(t, dir, m+"zone", memberText(1))
				write(t, dir, strings.TrimSuffix(m, ".")+".zone", memberText(1))
			}
			write(t, dir, catalogName+"zone", catalog(1, "a.test.", "b.test.", "missing.test."))
			c := transfer.Config{
				Keys: keyed(), Folder: setting.Folder(folder), Allow: []transfer.Allow{{Key: keyName}},
				Secondaries: []transfer.Secondary{{Zone: catalogName, Catalog: true, Primaries: []transfer.Primary{{Address: "127.0.0.1:" + own, Key: keyName}}}},
			}
			s, stop := startAt(t, c, "127.0.0.1:0")
			begin(t, dir, own, s.port(), "a.test.", "b.test.")
			waittest.Until(t, "we have the zones of the catalog of "+name, func() bool { return has(s.addr.String(), "a.test.") && has(s.addr.String(), "b.test.") })
			if m := query(s.addr.String(), "x.missing.test.", miekg.TypeA); name == "bind" && (m == nil || m.Rcode != miekg.RcodeServerFailure) {
				t.Errorf("catalog member that its primary does not have: got %v, want SERVFAIL", m)
			}
			stop()
			// After another start they are served from disk at once.
			again, err := transfer.New(c, zone.NewResponder(), nil, nil, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			if again.Served("a.test.", "") == nil {
				t.Error("a zone of the catalog is not served after a restart")
			}
		})
	}
}

func TestBrokenCatalogsChangeNothing(t *testing.T) {
	primary := start(t, transfer.Config{Keys: keyed(), Allow: []transfer.Allow{{Key: keyName}}})
	text := func(serial int, rest string) *zone.Zone {
		z, err := zone.Read(strings.NewReader(fmt.Sprintf("$TTL 0\n@ SOA invalid. invalid. %d 3600 600 2147483646 0\n@ NS invalid.\n%s", serial, rest)), catalogName, "")
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	put := func(zones ...*zone.Zone) {
		t.Helper()
		if err := primary.Replace(zones...); err != nil {
			t.Fatal(err)
		}
	}
	put(memberZone(t, "a.test.", 1), memberZone(t, "b.test.", 1), text(1, "version TXT \"2\"\none.zones PTR a.test.\n"))
	s := start(t, transfer.Config{Keys: keyed(), Folder: setting.Folder(t.TempDir()), Secondaries: []transfer.Secondary{
		{Zone: catalogName, Catalog: true, Primaries: []transfer.Primary{{Address: primary.addr.String(), Key: keyName}}},
	}})
	ours := s.addr.String()
	waittest.Until(t, "we have the zone", func() bool { return has(ours, "a.test.") })
	serial := 1
	for what, rest := range map[string]string{
		"no version":      "one.zones PTR b.test.\n",
		"another version": "version TXT \"3\"\none.zones PTR b.test.\n",
		"a label twice":   "version TXT \"2\"\none.zones PTR b.test.\none.zones PTR a.test.\n",
		"a zone twice":    "version TXT \"2\"\none.zones PTR b.test.\ntwo.zones PTR b.test.\n",
	} {
		serial++
		put(text(serial, rest))
		announce(t, s, catalogName)
		waittest.Until(t, "the catalog with "+what+" is here", func() bool { return s.Served(catalogName, "").Info().Serial == uint32(serial) })
		if !has(ours, "a.test.") || has(ours, "b.test.") {
			t.Errorf("%s: the served zones have changed", what)
		}
	}
	serial++
	put(text(serial, "version TXT \"2\"\none.zones PTR b.test.\n"))
	announce(t, s, catalogName)
	waittest.Until(t, "the zones are others", func() bool { return !has(ours, "a.test.") && has(ours, "b.test.") })
}

// announce gives a server the NOTIFY that a primary sends.
func announce(t *testing.T, s *server, origin string) {
	t.Helper()
	m := new(miekg.Msg)
	m.SetNotify(origin)
	m.SetTsig(keyName, miekg.HmacSHA256, 300, 0)
	m.Extra[len(m.Extra)-1].(*miekg.TSIG).TimeSigned = uint64(time.Now().Unix())
	c := &miekg.Client{TsigSecret: map[string]string{keyName: secret}}
	if r, _, err := c.Exchange(m, s.addr.String()); err != nil || r.Rcode != 0 {
		t.Fatalf("NOTIFY: got %v, %v, want NOERROR", r, err)
	}
}
