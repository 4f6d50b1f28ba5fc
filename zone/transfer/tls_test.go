package transfer_test

import (
	"fmt"
	"net/netip"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/lib/setting"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
	"shuultuur/zone/transfer"
)

// nsdOverTLS returns settings of an NSD with example.com. that trusts the
// certificate in ca.
func nsdOverTLS(t *testing.T, dir, own, ca, more, zone string) string {
	t.Helper()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return write(t, dir, "nsd.conf", fmt.Sprintf(`
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
	tls-cert-bundle: %q
%sremote-control:
	control-enable: no
key:
	name: %s
	algorithm: hmac-sha256
	secret: %q
tls-auth:
	name: us
	auth-domain-name: %s
zone:
	name: example.com
%s`, own, me.Username, dir, dir, dir, dir, ca, more, strings.TrimSuffix(keyName, "."), secret, serverName, zone))
}

// TestZonesAreFetchedOverTLS tests RFC 9103 as a server: a client that may fetch
// over TLS only gets nothing without TLS.
func TestZonesAreFetchedOverTLS(t *testing.T) {
	dir, own := t.TempDir(), peer.Port(t)
	addr := "127.0.0.1:" + own
	s := start(t, transfer.Config{
		Keys: keyed(),
		Allow: []transfer.Allow{
			{Key: keyName, TLS: true},
			{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, TLS: true},
		},
		Notify: []transfer.Notify{{Address: addr, Key: keyName}},
	})
	publish(t, s, zoneOf(t, 1, 3000), nil)
	port := fmt.Sprint(s.tls.Port())
	for _, args := range [][]string{{"dig", "+tls", "@127.0.0.1", "-p", port}, {"kdig", "+tls", "@127.0.0.1", "-p", port}} {
		if got := strings.Count(out(t, args[0], append(args[1:], "example.com", "AXFR")...), "host"); got < 3000 {
			t.Errorf("%v: got %d hosts, want at least 3000", args, got)
		}
	}
	if text, _ := peer.Command(t, "dig", "@127.0.0.1", "-p", s.port(), "example.com", "AXFR").CombinedOutput(); strings.Contains(string(text), "host7.") {
		t.Error("the zone was sent without TLS")
	}
	key := strings.TrimSuffix(keyName, ".")
	conf := nsdOverTLS(t, dir, own, s.cert, "", fmt.Sprintf("\tzonefile: copy\n\tallow-notify: 127.0.0.1 %s\n\trequest-xfr: 127.0.0.1@%s %s us\n", key, port, key))
	peer.Start(t, "nsd", "-d", "-c", conf)
	waittest.Until(t, "nsd has serial 1", func() bool { return serial(addr) == 1 })
	publish(t, s, zoneOf(t, 2, 3001), nil)
	waittest.Until(t, "nsd has serial 2", func() bool { return serial(addr) == 2 })
	if s.Stats.OutIncremental.Load() == 0 {
		t.Error("NSD requested no differences")
	}
}

// TestWeFetchOverTLS tests RFC 9103 as a client, from an NSD whose certificate
// first has another name.
func TestWeFetchOverTLS(t *testing.T) {
	dir, own, secure := t.TempDir(), peer.Port(t), peer.Port(t)
	cert, private := certificate(t, dir)
	write(t, dir, "zone", text(t, 1, 3000))
	fetch := func(name string) *server {
		return start(t, transfer.Config{
			Keys:        keyed(),
			Folder:      setting.Folder(t.TempDir()),
			Secondaries: []transfer.Secondary{{Zone: "example.com", Primaries: []transfer.Primary{{Address: "127.0.0.1:" + secure, Key: keyName, TLS: name, CA: setting.File(cert)}}}},
		})
	}
	key := strings.TrimSuffix(keyName, ".")
	more := fmt.Sprintf("\tip-address: 127.0.0.1@%s\n\ttls-service-key: %q\n\ttls-service-pem: %q\n\ttls-port: %s\n", secure, private, cert, secure)
	conf := nsdOverTLS(t, dir, own, cert, more, fmt.Sprintf("\tzonefile: %q\n\tprovide-xfr: 127.0.0.1 %s\n", filepath.Join(dir, "zone"), key))
	peer.Start(t, "nsd", "-d", "-c", conf)
	waittest.Until(t, "nsd answers", func() bool { return serial("127.0.0.1:"+own) == 1 })
	wrong, right := fetch("other.example"), fetch(serverName)
	waittest.Until(t, "we have serial 1", func() bool { return serial(right.addr.String()) == 1 })
	waittest.Until(t, "the wrong name has failed", func() bool { return wrong.Stats.InFailed.Load() > 0 })
	if wrong.Stats.In.Load() > 0 {
		t.Error("a primary with the certificate of another name was accepted")
	}
}
