package identity

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"shuultuur/lib/setting"
)

const (
	dnsmasqLeases = "1770000000 AA:bb:cc:00:00:01 10.1.0.5 laptop 01:aa:bb:cc:00:00:01\n1770000000 aa:bb:cc:00:00:02 10.1.0.6 * *\n" +
		"duid 00:01:00:01\n1770000000 5 2001:db8::5 phone 00:01\n"
	iscLeaseFile = `# The format of this file is documented in the dhcpd.leases(5) manual page.
authoring-byte-order little-endian;

lease 10.1.0.5 {
  starts 4 2026/01/29 08:00:00;
  binding state active;
  hardware ethernet aa:bb:cc:00:00:01;
  client-hostname "old laptop";
}
lease 10.1.0.5 {
  hardware ethernet AA:bb:cc:00:00:01;
  client-hostname "laptop";
}
lease 10.1.0.6 {
  hardware ethernet aa:bb:cc:00:00:02;
}
`
	keaLeaseFile = "address,hwaddr,client_id,valid_lifetime,expire,subnet_id,fqdn_fwd,fqdn_rev,hostname,state,user_context,pool_id\n" +
		"10.1.0.5,aa:bb:cc:00:00:01,,4000,1770000000,1,0,0,old.lan.,0,,0\n10.1.0.5,AA:bb:cc:00:00:01,,4000,1770000000,1,0,0,laptop,0,,0\n10.1.0.6,aa:bb:cc:00:00:02,,4000,1770000000,1,0,0,,0,,0\n"
	hostsFile = "127.0.0.1 localhost\n::1 localhost\n10.1.0.5 laptop laptop.lan # mine\n10.1.0.6\n"
)

func TestFilesOfNamesAreRead(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"dnsmasq": {dnsmasqLeases, "10.1.0.5 aa:bb:cc:00:00:01 laptop|10.1.0.6 aa:bb:cc:00:00:02 |2001:db8::5  phone|"},
		"isc":     {iscLeaseFile, "10.1.0.5 aa:bb:cc:00:00:01 old laptop|10.1.0.5 aa:bb:cc:00:00:01 laptop|10.1.0.6 aa:bb:cc:00:00:02 |"},
		"kea":     {keaLeaseFile, "10.1.0.5 aa:bb:cc:00:00:01 old.lan|10.1.0.5 aa:bb:cc:00:00:01 laptop|10.1.0.6 aa:bb:cc:00:00:02 |"},
		"hosts":   {hostsFile, "10.1.0.5  laptop|"},
		"nothing": {"what is this\n\x00\xff 1 2 3 4\n" + strings.Repeat("x", 10_000) + "\n10.0.0.1 after\n", "10.0.0.1  after|"},
	} {
		got := ""
		ReadNames([]byte(c.text), func(d Device) { got += fmt.Sprintf("%v %s %s|", d.Addr, d.MAC, d.Name) })
		if got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestDevicesHaveTheNameOfTheBestSource(t *testing.T) {
	dir := t.TempDir()
	hosts, leases := filepath.Join(dir, "hosts"), filepath.Join(dir, "leases")
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(hosts, "10.1.0.5 fromhosts\n10.1.0.6 printer\n10.1.0.9 nobody\n")
	write(leases, dnsmasqLeases)
	synctest.Test(t, func(t *testing.T) {
		id, err := New(Config{Addresses: map[string][]string{"anna": {"10.1.0.9"}}}, Parts{})
		if err != nil {
			t.Fatal(err)
		}
		n, err := NewNames(NamesConfig{Leases: []setting.Source{setting.Source(leases)}, Hosts: []setting.Source{setting.Source(hosts)}}, id)
		if err != nil {
			t.Fatal(err)
		}
		asked := map[string]int{}
		done := make(chan struct{}, 1)
		done <- struct{}{}
		ask := func(ctx context.Context, a netip.Addr) string {
			<-done
			asked[a.String()]++
			done <- struct{}{}
			switch a.String() {
			case "10.1.0.7":
				return "tv.home.arpa."
			case "10.1.0.8":
				return "\x1b[31m<b>" + strings.Repeat("ö", 200)
			case "10.1.0.66":
				<-ctx.Done()
			}
			return ""
		}
		of := func(addr string) string {
			a := netip.MustParseAddr(addr)
			return n.Of(t.Context(), []netip.Addr{a, a}, ask)[a.Unmap()]
		}
		for addr, want := range map[string]string{
			"10.1.0.5": "laptop", "10.1.0.6": "printer", "10.1.0.9": "anna", "2001:db8::5": "phone", "10.1.0.7": "tv.home.arpa", "10.1.0.10": "", "10.1.0.66": "", "192.0.2.1": "", "::ffff:10.1.0.5": "laptop",
		} {
			for range 2 {
				if got := of(addr); got != want {
					t.Errorf("the name of %s is %q, want %q", addr, got, want)
				}
			}
		}
		if asked["10.1.0.7"] != 1 || asked["10.1.0.10"] != 1 || asked["192.0.2.1"] != 0 || asked["10.1.0.5"] != 0 {
			t.Errorf("look-ups in the DNS by address: %v", asked)
		}
		if got := of("10.1.0.8"); !strings.HasPrefix(got, "?[31m<b>ö") || len(got) > maxShown || !utf8.ValidString(got) {
			t.Errorf("a hostile name became %q", got)
		}
		if got := n.Of(t.Context(), []netip.Addr{netip.MustParseAddr("10.1.0.77")}, nil); len(got) != 0 {
			t.Errorf("without a DNS, Of returned %v", got)
		}
		write(leases, strings.Replace(dnsmasqLeases, "laptop", "desktop", 1))
		time.Sleep(lookEvery)
		if got := of("10.1.0.5"); got != "desktop" {
			t.Errorf("after the file changed the name is %q, want desktop", got)
		}
		if p := n.Problems(); p != nil {
			t.Errorf("Problems returned %q, want none", p)
		}
		if err := os.Remove(leases); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookEvery)
		if p := n.Problems(); len(p) != 1 || !strings.Contains(p[0], leases) {
			t.Errorf("Problems returned %q, want one for %s", p, leases)
		}
	})
}

func FuzzReadNames(f *testing.F) {
	for _, s := range []string{dnsmasqLeases, iscLeaseFile, keaLeaseFile, hostsFile} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ReadNames(data, func(d Device) {
			if name := cleanName(d.Name); !d.Addr.IsValid() || d.Addr.Zone() != "" || len(name) > maxShown || !utf8.ValidString(name) || strings.ContainsAny(name, "\x00\n\r\x1b") {
				t.Fatalf("the data %q gave %+v with the name %q", data, d, name)
			}
		})
	})
}
