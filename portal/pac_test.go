package portal

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/dop251/goja"

	"shuultuur/lib/setting"
)

// engine runs the script like a browser and returns its function.
func engine(t *testing.T, text []byte) func(url, host string) string {
	t.Helper()
	vm := goja.New()
	if _, err := vm.RunString(string(text)); err != nil {
		t.Fatalf("the script fails: %v\n%s", err, text)
	}
	find, ok := goja.AssertFunction(vm.Get("FindProxyForURL"))
	if !ok {
		t.Fatal("the script does not define FindProxyForURL")
	}
	return func(url, host string) string {
		v, err := find(goja.Undefined(), vm.ToValue(url), vm.ToValue(host))
		if err != nil {
			t.Fatalf("FindProxyForURL(%q, %q): %v", url, host, err)
		}
		return v.String()
	}
}

func TestTheScriptSaysWhichProxy(t *testing.T) {
	r := &Route{Direct: []string{"intranet.example", "*-cdn.example", "10.0.0.0/8", "192.0.2.7", "2001:db8::/33", ".corp.test", "172.16.0.0/12"}}
	s, err := newScript(r, []string{"gate.example:8080", "https://[2001:db8::1]:8443", "direct"}, "gate.example")
	if err != nil {
		t.Fatal(err)
	}
	find := engine(t, s.text)
	const proxies = "PROXY gate.example:8080; HTTPS [2001:db8::1]:8443; DIRECT"
	for host, want := range map[string]string{
		"www.example.org": proxies, "intranet.example": "DIRECT", "a.b.INTRANET.example.": "DIRECT", "notintranet.example": proxies,
		"img-cdn.example": "DIRECT", "img-cdn.example.org": proxies, "printer": "DIRECT", "localhost": "DIRECT", "x.localhost": "DIRECT",
		"10.255.0.1": "DIRECT", "11.0.0.1": proxies, "192.0.2.7": "DIRECT", "192.0.2.8": proxies, "127.0.0.53": "DIRECT",
		"2001:db8:7fff::1": "DIRECT", "2001:db8:8000::1": proxies, "[2001:db8::5]": "DIRECT", "::1": "DIRECT", "::": proxies,
		"172.31.255.255": "DIRECT", "172.32.0.1": proxies, "gate.example": "DIRECT", "host.corp.test": "DIRECT", "corp.test": "DIRECT",
		"010.0.0.1": proxies, "1.2.3": proxies, "": "DIRECT", "2001:db8::192.0.2.1": "DIRECT", "::ffff:10.0.0.1": proxies,
	} {
		if got := find("https://"+host+"/", host); got != want {
			t.Errorf("the script returns for %q: %s, want %s", host, got, want)
		}
		if s.direct(host) != (want == "DIRECT") {
			t.Errorf("direct(%q) differs from the script", host)
		}
	}
}

func TestPatternsAndProxiesThatAreNone(t *testing.T) {
	for _, s := range []string{"", ".", "a b", `x"y`, "exämple.org", "10.0.0.0/33", "http://a/", "a/b", "fe80::1%eth0"} {
		if _, err := newScript(&Route{Direct: []string{s}}, []string{"a:1"}); err == nil || !strings.Contains(err.Error(), "direct[0]") {
			t.Errorf("newScript accepts the invalid pattern %q: %v", s, err)
		}
	}
	for _, s := range []string{"", "gate.example", "gate.example:0", "gate.example:70000", "ftp://a:1", `a";b:1`, ":8080", "https://a"} {
		if _, err := newScript(&Route{}, []string{s}); err == nil || !strings.Contains(err.Error(), "proxies[0]") {
			t.Errorf("newScript accepts the invalid proxy %q: %v", s, err)
		}
	}
	if _, err := newScript(&Route{}, nil); err == nil {
		t.Error("newScript makes a script without a proxy")
	}
}

// FuzzPatterns checks that every accepted pattern makes a valid script, which agrees with the
// gateway about every host.
func FuzzPatterns(f *testing.F) {
	for _, seed := range [][3]string{
		{"intranet.example", "10.0.0.0/9", "www.intranet.example"}, {"*a*b*", "2001:db8::/47", "2001:db8:1::2"}, {"**", "::/0", "::ffff:1.2.3.4"},
		{"a.*", "0.0.0.0/0", "1.2.3.4"}, {"x", "::1", "[::1]"}, {".", "127.0.0.1", "127.1"}, {"a", "b", "1:2:3:4:5:6:7::"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, one, two, host string) {
		if len(host) > 300 {
			return
		}
		for i := range len(host) { // hosts in URLs are ASCII
			if host[i] <= ' ' || host[i] >= 0x7f {
				return
			}
		}
		s, err := newScript(&Route{Direct: []string{one, two}}, []string{"gate.example:8080"})
		if err != nil {
			return
		}
		got := engine(t, s.text)("http://"+host+"/", host)
		if got != "DIRECT" && got != "PROXY gate.example:8080" {
			t.Fatalf("the script returns %q, want DIRECT or the proxy", got)
		}
		if want := s.direct(host); (got == "DIRECT") != want {
			t.Fatalf("patterns %q and %q, host %q: the script says %s, the gateway direct=%v", one, two, host, got, want)
		}
	})
}

// direct reports whether the script must reach a host without a proxy.
func (p *patterns) direct(host string) bool {
	host = strings.TrimSuffix(strings.Trim(strings.ToLower(host), "[]"), ".")
	if a, err := netip.ParseAddr(host); err == nil && a.Zone() == "" {
		if a.IsLoopback() && !a.Is4In6() {
			return true
		}
		for _, n := range p.nets {
			if n.Contains(a) {
				return true
			}
		}
		return false
	}
	if !strings.ContainsAny(host, ".:") { // a plain name, and localhost
		return true
	}
	if strings.HasSuffix(host, ".localhost") {
		return true
	}
	for _, d := range p.domains {
		if host == d || strings.HasSuffix(host, "."+d) {
			return true
		}
	}
	for _, g := range p.globs {
		if glob(g, host) {
			return true
		}
	}
	return false
}

// TestWithTicketsTheProxyHasItsName: a client asks for a ticket of the name that it was given.
func TestWithTicketsTheProxyHasItsName(t *testing.T) {
	for _, tt := range []struct {
		name, listen string
		named        bool
		want         string
	}{
		{"gate.school.example", "10.1.0.1:8080", true, "gate.school.example:8080"},
		{"gate.school.example", "10.1.0.1:8080", false, "10.1.0.1:8080"},
		{"gate.school.example", "0.0.0.0:8080", true, "gate.school.example:8080"},
		{"10.1.0.1", "10.1.0.2:8080", true, "10.1.0.2:8080"},
		{"", "10.1.0.1:8080", true, "10.1.0.1:8080"},
	} {
		p := (&Config{Name: tt.name}).Place(Doors{Proxy: []setting.Address{setting.Address(tt.listen)}, Named: tt.named})
		if p.Proxy != tt.want {
			t.Errorf("%+v: the proxy is %q", tt, p.Proxy)
		}
	}
}
