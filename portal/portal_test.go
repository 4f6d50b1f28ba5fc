package portal

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/identity/session"
	"shuultuur/intercept"
	"shuultuur/lib/setting"
)

// A gate is a portal with what its clients have done.
type gate struct {
	*Server
	engine Engine
	begun  []session.Session
	ended  []netip.Addr
}

var place = Place{URL: "https://gate.example", Name: "gate.example", Proxy: "gate.example:8080", Key: make([]byte, 32)}

// A wrongPassword is the error of a password that is wrong.
type wrongPassword struct{}

func (wrongPassword) Error() string        { return "wrong password" }
func (wrongPassword) Challenges() []string { return nil }

// A tooOften is the error of somebody who tries passwords.
type tooOften struct{}

func (tooOften) Error() string { return "too many attempts" }
func (tooOften) RetryAfter() (int, time.Duration) {
	return http.StatusTooManyRequests, 90 * time.Second
}

// newGate returns a portal where anna signs in with a password.
func newGate(t *testing.T, cfg Config, at Place, change func(*Engine)) *gate {
	t.Helper()
	g := &gate{Server: NewServer(slog.New(slog.DiscardHandler), "")}
	t.Cleanup(g.Close)
	pages, err := New(cfg, at)
	if err != nil {
		t.Fatal(err)
	}
	g.engine = Engine{
		Pages: pages, SignsIn: true, Passwords: true, Session: time.Hour,
		Identify: func(_ context.Context, a netip.Addr) filter.Client {
			c := filter.Client{Addr: a}
			if i := slices.IndexFunc(g.begun, func(s session.Session) bool { return s.Addr == a }); i >= 0 {
				c.User, c.Groups = g.begun[i].User, g.begun[i].Groups
			}
			return c
		},
		Verify: func(_ context.Context, _ netip.Addr, name, password string) (filter.Client, error) {
			switch {
			case name == "often":
				return filter.Client{}, tooOften{}
			case name == "away":
				return filter.Client{}, errors.New("the directory is away")
			case name == "anna" && password == "secret":
				return filter.Client{User: "anna", Groups: []string{"staff"}, Source: "basic"}, nil
			}
			return filter.Client{}, wrongPassword{}
		},
		Captive: func(_ context.Context, a netip.Addr) bool { return a != netip.MustParseAddr("10.0.0.9") },
		Start:   func(s session.Session) error { g.begun = append(g.begun, s); return nil },
		End:     func(a netip.Addr) error { g.ended = append(g.ended, a); return nil },
	}
	if change != nil {
		change(&g.engine)
	}
	if err := g.Use(&g.engine); err != nil {
		t.Fatal(err)
	}
	return g
}

// ask sends a request from an address; form is the body of a POST.
func (g *gate) ask(from, method, path string, form url.Values, cookies ...*http.Cookie) *http.Response {
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r := httptest.NewRequest(method, path, body)
	r.RemoteAddr = from + ":1234"
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w.Result()
}

func textOf(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func cookieNamed(r *http.Response, name string) *http.Cookie {
	for _, c := range r.Cookies() {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func TestBeforeThereAreSettingsThePortalSaysSo(t *testing.T) {
	g := &gate{Server: NewServer(slog.New(slog.DiscardHandler), "")}
	defer g.Close()
	if r := g.ask("10.0.0.1", "GET", "/", nil); r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the status is %d, want 503", r.StatusCode)
	}
	for _, e := range []*Engine{nil, {}, {Pages: &Pages{}}} {
		if g.Use(e) == nil {
			t.Errorf("Use accepts %+v", e)
		}
	}
}

func TestEachClientGetsTheScriptOfItsRoute(t *testing.T) {
	cfg := Config{PAC: []Route{
		{Networks: setting.OneOrMore[string]{"10.1.0.0/16", "2001:db8::1"}, Proxies: setting.OneOrMore[string]{"network.example:1"}},
		{Groups: setting.OneOrMore[string]{"staff"}, Proxies: setting.OneOrMore[string]{"group.example:2"}},
		{Policies: setting.OneOrMore[string]{"children"}, Groups: setting.OneOrMore[string]{"family"}, Proxies: setting.OneOrMore[string]{"both.example:3"}},
	}}
	g := newGate(t, cfg, place, func(e *Engine) {
		e.Identify = func(_ context.Context, a netip.Addr) filter.Client {
			c := filter.Client{Addr: a}
			switch a.String() {
			case "10.2.0.1":
				c.Groups = []string{"all", "staff"}
			case "10.2.0.2", "10.2.0.3":
				c.Groups = []string{"family"}
			}
			return c
		}
		e.Policy = func(_ context.Context, c *filter.Client) string {
			if c.Addr == netip.MustParseAddr("10.2.0.2") {
				return "children"
			}
			return "adults"
		}
	})
	for from, want := range map[string]string{"10.1.2.3": "network.example:1", "[2001:db8::1]": "network.example:1", "[2001:db8::2]": "gate.example:8080", "10.2.0.1": "group.example:2", "10.2.0.2": "both.example:3", "10.2.0.3": "gate.example:8080", "10.2.0.4": "gate.example:8080", "[::ffff:10.1.2.3]": "network.example:1"} {
		for _, path := range []string{"/proxy.pac", "/wpad.dat", "/wpad.da"} {
			r := g.ask(from, "GET", path, nil)
			if kind := r.Header.Get("Content-Type"); kind != "application/x-ns-proxy-autoconfig" || r.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s gets type %q, caching %q", path, kind, r.Header.Get("Cache-Control"))
			}
			if text := textOf(t, r); !strings.Contains(text, "PROXY "+want) {
				t.Errorf("%s gets at %s no script for %s", from, path, want)
			}
		}
	}
	alone := newGate(t, Config{}, Place{Key: place.Key}, nil)
	if r := alone.ask("10.1.2.3", "GET", "/proxy.pac", nil); r.StatusCode != http.StatusNotFound {
		t.Errorf("without a proxy the status is %d, want 404", r.StatusCode)
	}
}

func TestWrongRoutesAreNamedByTheirKey(t *testing.T) {
	for key, cfg := range map[string]Config{
		"name":               {Name: "https://gate.example/"},
		"pac[1]":             {PAC: []Route{{}, {Groups: setting.OneOrMore[string]{"staff"}}}},
		"pac[0].networks[1]": {PAC: []Route{{Networks: setting.OneOrMore[string]{"10.0.0.1", "10.0.0.0/99"}}}},
		"pac[0].proxies[0]":  {PAC: []Route{{Proxies: setting.OneOrMore[string]{"ftp://gate.example:1"}}}},
		"pac[0].direct[0]":   {PAC: []Route{{Direct: setting.OneOrMore[string]{"a b"}}}},
	} {
		if _, err := New(cfg, place); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("New: %v, want an error at %s", err, key)
		}
	}
}

func TestThePlaceIsWhatClientsReach(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cfg   Config
		doors Doors
		want  Place
	}{
		{"nothing", Config{}, Doors{}, Place{}},
		{"a name", Config{Name: "gate.example"}, Doors{Plain: []setting.Address{":80"}, Proxy: []setting.Address{":8080"}}, Place{Name: "gate.example", URL: "http://gate.example", Proxy: "gate.example:8080"}},
		{"TLS before plain", Config{Name: "gate.example"}, Doors{Plain: []setting.Address{":80"}, TLS: []setting.Address{":8443"}}, Place{Name: "gate.example", URL: "https://gate.example:8443"}},
		{"an address", Config{}, Doors{Plain: []setting.Address{"0.0.0.0:80", "[2001:db8::1]:81"}, Proxy: []setting.Address{"10.0.0.1:0", "10.0.0.2:3128"}}, Place{Name: "2001:db8::1", URL: "http://[2001:db8::1]", Proxy: "10.0.0.2:3128"}},
		{"all addresses without a name", Config{}, Doors{Plain: []setting.Address{":80"}, Proxy: []setting.Address{":8080"}}, Place{}},
		{"encrypted DNS", Config{Name: "gate.example"}, Doors{DNSOverHTTPS: []string{"10.0.0.1:443"}, DNSOverTLS: []string{":853", "127.0.0.1:853"}}, Place{Name: "gate.example", DNS: DNS{HTTPS: "https://gate.example/dns-query", TLS: "gate.example", Addrs: []string{"10.0.0.1"}}}},
		{"encrypted DNS elsewhere", Config{Name: "gate.example"}, Doors{DNSName: "dns.example", DNSPath: "/q", DNSOverHTTPS: []string{":8443"}, DNSOverTLS: []string{":8853"}}, Place{Name: "gate.example", DNS: DNS{HTTPS: "https://dns.example:8443/q"}}},
	} {
		got := tt.cfg.Place(tt.doors)
		if got.URL != tt.want.URL || got.Name != tt.want.Name || got.Proxy != tt.want.Proxy || got.DNS.HTTPS != tt.want.DNS.HTTPS || got.DNS.TLS != tt.want.DNS.TLS || !slices.Equal(got.DNS.Addrs, tt.want.DNS.Addrs) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// withRoot returns a gate with a certificate, encrypted DNS, and a name that needs escaping.
func withRoot(t *testing.T) (*gate, *intercept.Root) {
	t.Helper()
	root, err := intercept.NewRoot(intercept.RootConfig{})
	if err != nil {
		t.Fatal(err)
	}
	at := place
	at.DNS = DNS{HTTPS: "https://gate.example/dns-query", TLS: "gate.example", Addrs: []string{"10.0.0.1", "2001:db8::1"}}
	return newGate(t, Config{}, at, func(e *Engine) { e.Root = func() *intercept.Root { return root } }), root
}

// pairs returns the keys of a property list with the text that follows each.
func pairs(t *testing.T, text string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	d, key, in := xml.NewDecoder(strings.NewReader(text)), "", ""
	for {
		token, err := d.Token()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatalf("the profile is no XML: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			in = token.Name.Local
			if in == "true" || in == "false" {
				all[key] = append(all[key], in)
			}
		case xml.EndElement:
			in = ""
		case xml.CharData:
			switch in {
			case "key":
				key = string(token)
			case "string", "integer", "data":
				all[key] = append(all[key], string(token))
			}
		}
	}
}

func TestAProfileForAppleSetsWhatTheGatewayHas(t *testing.T) {
	g, root := withRoot(t)
	r := g.ask("10.0.0.1", "GET", "/profile/shuultuur.mobileconfig?ssid="+url.QueryEscape(`A & <B>`), nil)
	if kind := r.Header.Get("Content-Type"); kind != "application/x-apple-aspen-config" {
		t.Errorf("the type is %q", kind)
	}
	all := pairs(t, textOf(t, r))
	for key, want := range map[string]string{
		"SSID_STR": "A & <B>", "ProxyPACURL": "https://gate.example/proxy.pac", "ServerURL": "https://gate.example/dns-query",
		"ServerAddresses": "10.0.0.1 2001:db8::1", "ProxyPACFallbackAllowed": "false",
		"PayloadType": "Configuration com.apple.security.root com.apple.dnsSettings.managed com.apple.wifi.managed",
	} {
		if got := strings.Join(all[key], " "); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if got := all["PayloadContent"]; len(got) != 1 || got[0] != base64.StdEncoding.EncodeToString(root.Certificate.Raw) {
		t.Errorf("the certificate is %q", got)
	}
	ids := all["PayloadUUID"]
	slices.Sort(ids)
	if len(slices.Compact(ids)) != 4 {
		t.Errorf("the identifiers are %q, want four different ones", ids)
	}
	supervised := pairs(t, textOf(t, g.ask("10.0.0.1", "GET", "/profile/shuultuur.mobileconfig?supervised=1", nil)))
	if !slices.Contains(supervised["PayloadType"], "com.apple.proxy.http.global") || len(supervised["SSID_STR"]) > 0 {
		t.Errorf("the profile for a supervised device has %q", supervised["PayloadType"])
	}
	bare := newGate(t, Config{}, Place{Name: "gate.example", Key: place.Key}, nil)
	if got := pairs(t, textOf(t, bare.ask("10.0.0.1", "GET", "/profile/shuultuur.mobileconfig?ssid=x&supervised=1", nil)))["PayloadType"]; len(got) != 1 {
		t.Errorf("a gateway without anything makes payloads %q", got)
	}
}

func TestAScriptForWindowsQuotesItsValues(t *testing.T) {
	p := profile{name: "gate'; rm", pac: "http://a/'b\n\u2019", dns: DNS{HTTPS: "https://d/q", Addrs: []string{"10.0.0.1"}}, root: []byte{1, 2, 3}}
	text := string(p.windows())
	for _, want := range []string{"filter gaterm.\r\n", "AutoConfigURL -Value 'http://a/''b '''\r\n", "FromBase64String('AQID')", "-ServerAddress '10.0.0.1' -DohTemplate 'https://d/q'", "-ServerAddresses '10.0.0.1'\r\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the script lacks %q:\n%s", want, text)
		}
	}
	g, _ := withRoot(t)
	if r := g.ask("10.0.0.1", "GET", "/profile/shuultuur.ps1", nil); r.StatusCode != 200 || !strings.Contains(r.Header.Get("Content-Disposition"), "shuultuur.ps1") {
		t.Errorf("the download is %d, %q", r.StatusCode, r.Header.Get("Content-Disposition"))
	}
	empty := string((&profile{name: "gate"}).windows())
	if strings.Contains(empty, "AutoConfigURL") || strings.Contains(empty, "X509") || strings.Contains(empty, "Dns") {
		t.Errorf("a profile of nothing sets something:\n%s", empty)
	}
}

func TestAPolicyForAndroid(t *testing.T) {
	g, root := withRoot(t)
	var policy struct {
		Proxy struct{ PacURI string } `json:"recommendedGlobalProxy"`
		Conn  struct {
			DNS struct{ PrivateDNSHost string } `json:"privateDnsSettings"`
		} `json:"deviceConnectivityManagement"`
		Network struct {
			Certificates          []struct{ X509 string }
			NetworkConfigurations []struct {
				WiFi          struct{ SSID string }
				ProxySettings struct{ PAC string }
			}
		} `json:"openNetworkConfiguration"`
	}
	if err := json.Unmarshal([]byte(textOf(t, g.ask("10.0.0.1", "GET", "/profile/shuultuur.json?ssid=school", nil))), &policy); err != nil {
		t.Fatal(err)
	}
	n := policy.Network
	if policy.Proxy.PacURI != "https://gate.example/proxy.pac" || policy.Conn.DNS.PrivateDNSHost != "gate.example" || len(n.Certificates) != 1 || n.Certificates[0].X509 != base64.StdEncoding.EncodeToString(root.Certificate.Raw) ||
		len(n.NetworkConfigurations) != 1 || n.NetworkConfigurations[0].WiFi.SSID != "school" || n.NetworkConfigurations[0].ProxySettings.PAC != policy.Proxy.PacURI {
		t.Errorf("the policy is %+v", policy)
	}
	bare := newGate(t, Config{}, Place{Key: place.Key}, nil)
	if text := textOf(t, bare.ask("10.0.0.1", "GET", "/profile/shuultuur.json", nil)); text != "{}" {
		t.Errorf("a gateway without anything makes %s, want an empty policy", text)
	}
}

func TestTheNameOfAWirelessNetworkHasAtMost32Bytes(t *testing.T) {
	g, _ := withRoot(t)
	for _, path := range []string{"shuultuur.mobileconfig", "shuultuur.ps1", "shuultuur.json"} {
		for n, want := range map[int]int{32: 200, 33: 400} {
			if r := g.ask("10.0.0.1", "GET", "/profile/"+path+"?ssid="+strings.Repeat("x", n), nil); r.StatusCode != want {
				t.Errorf("%s with a name of %d bytes gets %d, want %d", path, n, r.StatusCode, want)
			}
		}
	}
}

func TestTheCertificateIsServedIfThereIsOne(t *testing.T) {
	g, root := withRoot(t)
	if r := g.ask("10.0.0.1", "GET", "/profile/root.cer", nil); r.Header.Get("Content-Type") != "application/x-x509-ca-cert" || textOf(t, r) != string(root.Certificate.Raw) {
		t.Errorf("the certificate is not served: %d", r.StatusCode)
	}
	g = newGate(t, Config{}, place, nil)
	if r := g.ask("10.0.0.1", "GET", "/profile/root.cer", nil); r.StatusCode != http.StatusNotFound {
		t.Errorf("without a certificate the status is %d, want 404", r.StatusCode)
	}
}

func TestHomeShowsWhoTheClientIs(t *testing.T) {
	g := newGate(t, Config{}, place, func(e *Engine) {
		e.Identify = func(context.Context, netip.Addr) filter.Client { return filter.Client{User: "<anna>", Source: "basic"} }
		e.Policy = func(context.Context, *filter.Client) string { return "children" }
	})
	r := g.ask("10.0.0.1", "GET", "/", nil)
	text := textOf(t, r)
	for _, want := range []string{"&lt;anna&gt;", "children", "https://gate.example/proxy.pac"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if r.Header.Get("Content-Security-Policy") == "" || r.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the page has the fields %v", r.Header)
	}
	if r := g.ask("10.0.0.1", "GET", "/other", nil); r.StatusCode != http.StatusNotFound {
		t.Errorf("a page that does not exist gets %d, want 404", r.StatusCode)
	}
}

// RFC 8908, 5: the type, and the two keys that devices need.
func TestDevicesLearnWhetherTheyAreCaptive(t *testing.T) {
	g := newGate(t, Config{}, place, nil)
	for from, want := range map[string]bool{"10.0.0.1": true, "10.0.0.9": false} {
		r := g.ask(from, "GET", "/captive-portal", nil)
		var got map[string]any
		if err := json.Unmarshal([]byte(textOf(t, r)), &got); err != nil {
			t.Fatal(err)
		}
		if r.Header.Get("Content-Type") != "application/captive+json" || got["captive"] != want || got["user-portal-url"] != "https://gate.example/sign-in" {
			t.Errorf("%s gets %v of type %s, want captive %v", from, got, r.Header.Get("Content-Type"), want)
		}
	}
	g = newGate(t, Config{}, place, func(e *Engine) { e.SignsIn = false })
	if r := g.ask("10.0.0.1", "GET", "/captive-portal", nil); r.StatusCode != http.StatusNotFound {
		t.Errorf("where nobody signs in the status is %d, want 404", r.StatusCode)
	}
}

func TestSigningInWithAPassword(t *testing.T) {
	for _, tt := range []struct {
		name, password, to string
		status             int
		location           string
	}{
		{"anna", "secret", "", 303, "/"},
		{"anna", "secret", "https://example.org/a?b=c", 303, "https://example.org/a?b=c"},
		{"anna", "secret", "javascript:alert(1)", 303, "/"},
		{"anna", "secret", "//example.org", 303, "/"},
		{"anna", "secret", "http://example.org/" + strings.Repeat("x", 4096), 303, "/"},
		{"anna", "wrong", "", 401, ""},
		{"", "", "", 401, ""},
		{"often", "x", "", 429, ""},
		{"away", "x", "", 503, ""},
	} {
		g := newGate(t, Config{}, place, nil)
		r := g.ask("10.0.0.1", "POST", "/sign-in", url.Values{"name": {tt.name}, "password": {tt.password}, "to": {tt.to}})
		if r.StatusCode != tt.status || r.Header.Get("Location") != tt.location {
			t.Errorf("%q with %q gets %d to %.40q, want %d to %.40q", tt.name, tt.password, r.StatusCode, r.Header.Get("Location"), tt.status, tt.location)
		}
		c := cookieNamed(r, memberCookie)
		if in := tt.status == 303; in != (c != nil) || in != (len(g.begun) == 1) {
			t.Errorf("%q with %q has %d sessions and the cookie %v", tt.name, tt.password, len(g.begun), c)
			continue
		}
		if tt.status == 429 && r.Header.Get("Retry-After") != "91" {
			t.Errorf("Retry-After is %q, want 91", r.Header.Get("Retry-After"))
		}
		if c != nil && (!c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.MaxAge != 3600 || strings.Contains(c.Value, "anna")) {
			t.Errorf("the cookie is %v", c)
		}
		if text := textOf(t, r); strings.Contains(text, "secret") || strings.Contains(text, "wrong\"") {
			t.Error("the page has the password")
		}
	}
}

func TestWhereNobodySignsInThereIsNoForm(t *testing.T) {
	g := newGate(t, Config{}, place, func(e *Engine) { e.SignsIn = false })
	for _, q := range []string{"GET /sign-in", "POST /sign-in", "POST /sign-in/provider", "GET /sign-in/callback", "POST /sign-in/device", "GET /sign-in/device", "POST /sign-out"} {
		method, path, _ := strings.Cut(q, " ")
		if r := g.ask("10.0.0.1", method, path, nil); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s gets %d, want 404", q, r.StatusCode)
		}
	}
	g = newGate(t, Config{}, place, func(e *Engine) { e.Passwords = false })
	if r := g.ask("10.0.0.1", "POST", "/sign-in", url.Values{"name": {"anna"}, "password": {"secret"}}); r.StatusCode != http.StatusForbidden || len(g.begun) > 0 {
		t.Errorf("without passwords the status is %d, want 403", r.StatusCode)
	}
	for _, q := range []string{"POST /sign-in/provider", "GET /sign-in/callback", "POST /sign-in/device", "GET /sign-in/device"} {
		method, path, _ := strings.Cut(q, " ")
		if r := g.ask("10.0.0.1", method, path, nil); r.StatusCode != http.StatusNotFound {
			t.Errorf("without a provider %s gets %d, want 404", q, r.StatusCode)
		}
	}
}

func TestABrowserKeepsItsUserAtTheNextAddress(t *testing.T) {
	g := newGate(t, Config{}, place, nil)
	c := cookieNamed(g.ask("10.0.0.1", "POST", "/sign-in", url.Values{"name": {"anna"}, "password": {"secret"}}), memberCookie)
	if c == nil {
		t.Fatal("no cookie")
	}
	if r := g.ask("10.0.0.2", "GET", "/sign-in?to=http://example.org/", nil, c); r.StatusCode != 303 || r.Header.Get("Location") != "http://example.org/" {
		t.Errorf("the next address gets %d to %q, want 303", r.StatusCode, r.Header.Get("Location"))
	}
	if n := len(g.begun); n != 2 || g.begun[1].User != "anna" || g.begun[1].Addr != netip.MustParseAddr("10.0.0.2") || !g.begun[1].Until.Equal(g.begun[0].Until) {
		t.Errorf("the sessions are %+v, want a second one with the same end", g.begun)
	}
	over, err := g.engine.Pages.box.Seal(membership{User: "anna", Source: "basic", Until: time.Now().Add(-time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"forged": c.Value[:len(c.Value)-4] + "AAAA", "cut": c.Value[:10], "over": over} {
		if r := g.ask("10.0.0.3", "GET", "/sign-in", nil, &http.Cookie{Name: memberCookie, Value: value}); r.StatusCode != 200 || len(g.begun) != 2 {
			t.Errorf("a cookie that is %s gets %d and %d sessions, want the form", name, r.StatusCode, len(g.begun))
		}
	}
}

func TestSigningOutEndsTheSessionAndTheCookie(t *testing.T) {
	g := newGate(t, Config{}, place, nil)
	r := g.ask("10.0.0.1", "POST", "/sign-out", url.Values{})
	if c := cookieNamed(r, memberCookie); r.StatusCode != 303 || c == nil || c.MaxAge >= 0 || len(g.ended) != 1 || g.ended[0] != netip.MustParseAddr("10.0.0.1") {
		t.Errorf("signing out gets %d, cookie %v, ended %v", r.StatusCode, c, g.ended)
	}
	g.engine.End = func(netip.Addr) error { return errors.New("the disk is full") }
	if r := g.ask("10.0.0.1", "POST", "/sign-out", url.Values{}); r.StatusCode != http.StatusServiceUnavailable || !strings.Contains(textOf(t, r), "the disk is full") {
		t.Errorf("a session that does not end gets %d, want 503 with the reason", r.StatusCode)
	}
}

func TestFormsOfOtherSitesAreRefused(t *testing.T) {
	g := newGate(t, Config{}, place, nil)
	r := httptest.NewRequest("POST", "/sign-in", strings.NewReader("name=anna&password=secret"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	w := httptest.NewRecorder()
	if g.ServeHTTP(w, r); w.Code != http.StatusForbidden || len(g.begun) > 0 {
		t.Errorf("a form of another site gets %d, want 403", w.Code)
	}
	if r := g.ask("10.0.0.1", "POST", "/sign-in", url.Values{"name": {strings.Repeat("x", maxForm)}}); r.StatusCode != http.StatusBadRequest {
		t.Errorf("a form that is too large gets %d, want 400", r.StatusCode)
	}
}

func TestThePortalEndsWithItsContext(t *testing.T) {
	g := newGate(t, Config{}, place, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- g.Serve(ctx, l) }()
	r, err := http.Get("http://" + l.Addr().String() + "/wpad.dat")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	stop()
	if err := <-ended; err != nil || r.StatusCode != 200 {
		t.Errorf("the request got %d, Serve returns %v", r.StatusCode, err)
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("the portal still accepts connections")
	}
}

// TestTheFirstPageHasTheStepsOfTheDevice: by what the browser says, or by the tab that was chosen.
func TestTheFirstPageHasTheStepsOfTheDevice(t *testing.T) {
	g, root := withRoot(t)
	for name, c := range map[string]struct {
		query, agent string
		want, not    []string
	}{
		"an iPhone":        {"", "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X)", []string{`href="?device=apple" aria-current="true"`, "/profile/shuultuur.mobileconfig", "Switch full trust on", root.Certificate.Subject.CommonName}, []string{"shuultuur.ps1"}},
		"an Android phone": {"", "Mozilla/5.0 (Linux; Android 15; Pixel 9)", []string{`href="?device=android" aria-current="true"`, "/profile/root.cer", "CA certificate"}, []string{"mobileconfig"}},
		"Windows":          {"", "Mozilla/5.0 (Windows NT 10.0; Win64; x64)", []string{"/profile/shuultuur.ps1"}, []string{"mobileconfig"}},
		"something else":   {"", "Mozilla/5.0 (X11; Linux x86_64)", []string{`href="?device=other" aria-current="true"`, "/profile/root.cer"}, []string{"Open Settings, Security"}},
		"another tab":      {"?device=windows", "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X)", []string{`href="?device=windows" aria-current="true"`, "/profile/shuultuur.ps1"}, []string{`href="?device=apple" aria-current`}},
		"a tab of nobody":  {"?device=toaster", "Mozilla/5.0 (Windows NT 10.0)", []string{"/profile/shuultuur.ps1"}, nil},
	} {
		r := httptest.NewRequest("GET", "/"+c.query, nil)
		r.Header.Set("User-Agent", c.agent)
		r.RemoteAddr = "10.0.0.1:1"
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		page := w.Body.String()
		for _, want := range c.want {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page lacks %q", name, want)
			}
		}
		for _, not := range c.not {
			if strings.Contains(page, not) {
				t.Errorf("%s: the page has %q", name, not)
			}
		}
		_, rest, _ := strings.Cut(page, "<style>")
		style, _, _ := strings.Cut(rest, "</style>")
		sum := sha256.Sum256([]byte(style))
		if p := w.Header().Get("Content-Security-Policy"); !strings.Contains(p, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") || strings.Contains(p, "unsafe-inline") {
			t.Errorf("%s: the policy does not allow the style of the page, or any other: %s", name, p)
		}
		if len(page) > 12<<10 {
			t.Errorf("%s: the page has %d bytes, want at most 12 kB", name, len(page))
		}
	}
}
