package dns

import (
	"net/netip"
	"strings"
	"testing"
)

// TestNamesTakenAsTheyAre: IsHost accepts exactly the names that Host would
// return unchanged.
func TestNamesTakenAsTheyAre(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, tt := range []struct {
		host string
		want bool
	}{
		{"example.com", true}, {"a.b", true}, {"_dmarc.x-y.co.uk", true}, {"xn--bcher-kva.example", true}, {"1.2.3.a4", true},
		{long + ".com", true}, {"com." + long, true},
		{"", false}, {"com", false}, {".", false}, {"example.com.", false}, {".example.com", false}, {"a..b", false},
		{"Example.com", false}, {"bücher.example", false}, {"example.com:80", false}, {"a b.com", false}, {"example.com/x", false},
		{"1.2.3.4", false}, {"a.1", false}, {"a.0x1f", false}, {"::1", false}, {"a.-", false},
		{long + "a.com", false}, {"com." + long + "a", false},
		{strings.Repeat(long+".", 4) + "com", false},
	} {
		if got := IsHost([]byte(tt.host)); got != tt.want {
			t.Errorf("IsHost(%q) = %v, want %v", tt.host, got, tt.want)
		}
		if host, reason := Host(nil, []byte(tt.host)); tt.want && (string(host) != tt.host || reason != "") {
			t.Errorf("Host(%q) = %q, %s; want it unchanged", tt.host, host, reason)
		}
	}
}

func TestAnAddressIsReadInEveryForm(t *testing.T) {
	for _, tt := range []struct{ host, want string }{
		{"127.0.0.1", "127.0.0.1"}, {"127.1", "127.0.0.1"}, {"127.0.1", "127.0.0.1"}, {"2130706433", "127.0.0.1"},
		{"0x7f.0x0.0x0.0x1", "127.0.0.1"}, {"0x7f000001", "127.0.0.1"}, {"0X7F.1", "127.0.0.1"}, {"0177.0.0.01", "127.0.0.1"},
		{"017700000001", "127.0.0.1"}, {"0x7f.1", "127.0.0.1"}, {"1.2.3.0x", "1.2.3.0"}, {"192.0x00A80001", "192.168.0.1"},
		{"00000000000000000000000000000000000000000000000300.0.2.1", "192.0.2.1"}, {"0", "0.0.0.0"}, {"1.65535", "1.0.255.255"},
		{"255.255.255.255", "255.255.255.255"}, {"4294967295", "255.255.255.255"}, {"010.010.010.010", "8.8.8.8"},
		{"::ffff:192.0.2.1", "192.0.2.1"}, {"::FFFF:c000:201", "192.0.2.1"}, {"64:ff9b::192.0.2.1", "192.0.2.1"},
		{"64:ff9b::c000:201", "192.0.2.1"}, {"0064:FF9B:0:0:0:0:c000:0201", "192.0.2.1"}, {"2001:DB8:0::1", "2001:db8::1"},
		{"fe80::1%eth0", "fe80::1"},
		{"", ""}, {".", ""}, {"example.com", ""}, {"1.2.3.4.5", ""}, {"256.0.0.1", ""}, {"1.2.3.256", ""}, {"1.16777216", ""},
		{"4294967296", ""}, {"99999999999999999999", ""}, {"08.0.0.1", ""}, {"0x7g.1", ""}, {"1..2", ""}, {".1", ""}, {"1.2.3.4.", ""},
		{"a.1", ""}, {"1.2.3.a", ""}, {"-1", ""}, {"+1", ""}, {"1e100.net", ""}, {"[::1]", ""}, {"::g", ""}, {"0x1.example", ""},
	} {
		a, ok := Address(tt.host)
		got := ""
		if ok {
			got = a.String()
		}
		if got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.host, got, tt.want)
		}
	}
}

func TestHostIsWhatIsCompared(t *testing.T) {
	for _, tt := range []struct{ host, want, reason string }{
		{"Example.COM.", "example.com", ""}, {"B\u00fccher.example", "xn--bcher-kva.example", ""}, {"com", "com", ""},
		{"[2001:DB8::1]", "2001:db8::1", ""}, {"::ffff:1.2.3.4", "1.2.3.4", ""}, {"[64:ff9b::1.2.3.4]", "1.2.3.4", ""},
		{"0x1.2.3.4", "1.2.3.4", ""}, {"16909060", "1.2.3.4", ""}, {"01.02.03.04", "1.2.3.4", ""}, {"192.0.2", "", "is neither a domain name nor an address"}, {"0x7f.1", "127.0.0.1", ""}, {"1.2.3.4", "1.2.3.4", ""},
		{"1.2.3.4.5", "", "is neither a domain name nor an address"}, {"a.0x1f", "", "is neither a domain name nor an address"},
		{"a b", "", "is not a domain name"}, {"", "", "is not a domain name"}, {"a..b", "", "is not a domain name"},
		{"\xff", "", "is not UTF-8"}, {strings.Repeat("a.", 126) + "aa", "", "is longer than a domain name can be"},
	} {
		got, reason := Host(nil, []byte(tt.host))
		if string(got) != tt.want || reason != tt.reason {
			t.Errorf("%q: got %q, %q, want %q, %q", tt.host, got, reason, tt.want, tt.reason)
		}
	}
}

func FuzzHost(f *testing.F) {
	for _, s := range []string{"Example.com.", "b\u00fccher.example", "0x7f.1", "[64:ff9b::1.2.3.4]", "1.2.3", "\u3002", "xn--", "a.0x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		host, reason := Host(nil, []byte(s))
		if reason != "" {
			return
		}
		again, reason := Host(nil, host)
		if reason != "" || string(again) != string(host) {
			t.Errorf("Host(%q) = %q, and Host of that = %q %s", s, host, again, reason)
		}
		a, is := Address(string(host))
		if b, err := netip.ParseAddr(string(host)); is != (err == nil) || is && a != b {
			t.Errorf("Host(%q) = %q, but Address = %v, %v", s, host, a, b)
		}
		if !is {
			if name, err := Name(string(host)); err != nil || string(AppendHost(nil, name)) != string(host) {
				t.Errorf("%q gives the host %q and the name %q: %v", s, host, name, err)
			}
		}
	})
}

func FuzzName(f *testing.F) {
	for _, s := range []string{"Example.com.", "b\u00fccher.example", `a\.b.c`, `\000\255.x`, ".", "a..b", `a\`, "*.example", "_443._tcp.example"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, err := Name(s)
		if err != nil {
			return
		}
		if NameLen(name) != len(name) {
			t.Fatalf("Name(%q) = %q, which is not a valid name", s, name)
		}
		text := Text(name)
		again, err := Name(text)
		if err != nil || string(again) != string(name) || !EqualFold(again, name) || Compare(name, again) != 0 {
			t.Errorf("Name(%q) = %q, its text %q gives %q: %v", s, name, text, again, err)
		}
	})
}

func TestNamesInWireForm(t *testing.T) {
	long := strings.Repeat("a", 63)
	for in, want := range map[string]string{
		".":                         "\x00",
		"a":                         "\x01a\x00",
		"Example.com.":              "\x07example\x03com\x00",
		`a\.b.c`:                    "\x03a.b\x01c\x00",
		`\097\\.c`:                  "\x02a\\\x01c\x00",
		long + ".x":                 "\x3f" + long + "\x01x\x00",
		"":                          "\x00",
		"a..b":                      "",
		".a":                        "",
		long + "a":                  "",
		`a\`:                        "",
		`a\25`:                      "",
		`a\256`:                     "",
		strings.Repeat(long+".", 4): "",
	} {
		got, err := Name(in)
		if string(got) != want || (err == nil) == (want == "") {
			t.Errorf("Name(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
}
