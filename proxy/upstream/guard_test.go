package upstream

import (
	"net/netip"
	"testing"
)

func TestAddressesThatMayBeReached(t *testing.T) {
	cfg := guard{
		private: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/32")},
		own:     []netip.AddrPort{netip.MustParseAddrPort("10.1.0.1:8080"), netip.MustParseAddrPort("[::]:8081")},
	}
	for _, tt := range []struct {
		addr string
		ok   bool
	}{
		{"192.0.2.1:80", true}, {"[2001:db8::1]:80", true}, {"8.8.8.8:443", true},
		{"10.1.2.3:80", true}, {"10.2.2.3:80", false}, {"172.16.0.1:80", false}, {"192.168.0.1:80", false},
		{"100.64.0.1:80", false}, {"127.0.0.1:80", false}, {"[::1]:80", false}, {"169.254.169.254:80", false},
		{"[fe80::1]:80", false}, {"[fe80::1%lo]:80", false}, {"[fd00:1::5]:80", true}, {"[fd00:2::5]:80", false},
		{"[fec0::1]:80", false}, {"0.0.0.0:80", false}, {"0.1.2.3:80", false}, {"[::]:80", false},
		{"224.0.0.1:80", false}, {"255.255.255.255:80", false}, {"[ff02::1]:80", false},
		{"[::ffff:127.0.0.1]:80", false}, {"[::ffff:10.1.2.3]:80", true}, {"[64:ff9b::7f00:1]:80", false},
		{"[64:ff9b::808:808]:80", true}, {"[64:ff9b::a01:203]:80", true}, {"[2002:7f00:1::]:80", false}, {"[2002:808:808::]:80", true},
		{"[::7f00:1]:80", false}, {"10.1.0.1:8080", false}, {"10.1.0.1:80", true}, {"[::ffff:10.1.0.1]:8080", false}, {"[64:ff9b::a01:1]:8080", false},
	} {
		if err := cfg.allowed(netip.MustParseAddrPort(tt.addr)); (err == nil) != tt.ok {
			t.Errorf("%s: got %v, want allowed %v", tt.addr, err, tt.ok)
		}
	}
}

// RFC 6052, 2.2: an address below the prefix of a translator is the IPv4 address in it.
func TestAddressesOfATranslatorAreJudgedAsTheIPv4Behind(t *testing.T) {
	for prefix, addrs := range map[string]map[string]bool{
		"2001:db8:64::/96": {
			"[2001:db8:64::10.77.0.8]:80": false, "[2001:db8:64::127.0.0.1]:80": false, "[2001:db8:64::169.254.169.254]:80": false, "[2001:db8:64::8.8.8.8]:80": true,
			"[2001:db8:64::10.1.2.3]:80": true, "[2001:db8:64::10.1.0.1]:8080": false, "[2001:db8:64::0.0.0.0]:80": false, "[2001:db8:65::10.77.0.8]:80": true,
		},
		"2001:db8:64::/64":      {"[2001:db8:64:0:a:4d00:800:0]:80": false, "[2001:db8:64:0:8:808:800:0]:80": true},
		"2001:db8::/32":         {"[2001:db8:a4d:8::]:80": false, "[2001:db8:808:808::]:80": true},
		"fd64::/96":             {"[fd64::10.77.0.8]:80": false, "[fd64::8.8.8.8]:80": true},
		"64:ff9b:1:fffe::/96":   {"[64:ff9b:1:fffe::10.77.0.8]:80": false, "[64:ff9b:1:fffe::8.8.8.8]:80": true},
		"2001:db8:64:0:1::/120": {"[2001:db8:64:0:1::8]:80": true}, // not one that the name server accepts
	} {
		cfg := Config{
			Private: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}, Own: []netip.AddrPort{netip.MustParseAddrPort("10.1.0.1:8080")},
			NAT64: netip.MustParsePrefix(prefix),
		}
		for addr, ok := range addrs {
			if err := cfg.Reachable(netip.MustParseAddrPort(addr)); (err == nil) != ok {
				t.Errorf("%s behind %s: got %v, want allowed %v", addr, prefix, err, ok)
			}
		}
	}
}
