package portal

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"

	"shuultuur/identity/session"
)

// signedIn signs anna in from an address, and returns her cookie.
func signedIn(t *testing.T, g *gate, from string) *http.Cookie {
	t.Helper()
	c := cookieNamed(g.ask(from, "POST", "/sign-in", url.Values{"name": {"anna"}, "password": {"secret"}}), memberCookie)
	if c == nil {
		t.Fatal("no cookie after signing in")
	}
	return c
}

// TestTheOtherFamilySignsInByThePass: once, soon, at an address of the other family that is
// nobody's, and by who has the cookie alone.
func TestTheOtherFamilySignsInByThePass(t *testing.T) {
	at := place
	at.Plain = append(at.Plain, address(t, "[::]:80"))
	g := newGate(t, Config{}, at, nil)
	member := signedIn(t, g, "[2001:db8::7]")
	pages := g.engine.Pages
	var m membership
	if err := pages.box.Open(member.Value, &m); err != nil {
		t.Fatal(err)
	}
	send := func(cookies ...*http.Cookie) *http.Response {
		r := httptest.NewRequest("GET", "/sign-in?to=http://site.example/a", nil)
		r.RemoteAddr = "[2001:db8::7]:1"
		for _, c := range cookies {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		if !g.sendOnTo(w, r, &g.engine, m, "http://192.0.2.1:80", "http://site.example/a") {
			g.ServeHTTP(w, r)
		}
		return w.Result()
	}
	res := send(member)
	to, err := url.Parse(res.Header.Get("Location"))
	if err != nil || res.StatusCode != 303 || to.Host != "192.0.2.1:80" || to.Path != "/sign-in/pass" {
		t.Fatalf("a browser that has signed in is sent to %v with %d", to, res.StatusCode)
	}
	again := cookieNamed(res, passCookie)
	if again == nil {
		t.Fatal("nothing keeps the browser from being sent on forever")
	}
	if res := send(member, again); res.StatusCode != 200 {
		t.Errorf("a browser that has just been sent on gets %d", res.StatusCode)
	}
	use := func(from string) *http.Response { return g.ask(from, "GET", to.RequestURI(), nil) }
	if res := use("[2001:db8::8]"); res.StatusCode != 403 {
		t.Errorf("an address of the same family gets %d", res.StatusCode)
	}
	g.begun = append(g.begun, session.Session{Addr: netip.MustParseAddr("192.0.2.9"), User: "ben"})
	if res := use("192.0.2.9"); res.StatusCode != 403 {
		t.Errorf("an address of somebody else gets %d", res.StatusCode)
	}
	if res := use("192.0.2.7"); res.StatusCode != 303 || res.Header.Get("Location") != "http://site.example/a" {
		t.Errorf("the other address gets %d, %q", res.StatusCode, res.Header.Get("Location"))
	}
	if last := g.begun[len(g.begun)-1]; last.User != "anna" || last.Addr.String() != "192.0.2.7" || last.ID != m.ID {
		t.Errorf("the session is %+v", last)
	}
	if res := use("192.0.2.8"); res.StatusCode != 403 {
		t.Errorf("a pass that was used gets %d", res.StatusCode)
	}
	if res := g.ask("192.0.2.8", "GET", "/sign-in/pass?pass="+member.Value, nil); res.StatusCode != 403 {
		t.Errorf("the cookie as a pass gets %d", res.StatusCode)
	}
}

// TestACookieOutranksTheAddress: the browser of anna at an address that somebody else has left.
func TestACookieOutranksTheAddress(t *testing.T) {
	g := newGate(t, Config{}, place, nil)
	member := signedIn(t, g, "10.0.0.1")
	g.begun = []session.Session{{Addr: netip.MustParseAddr("10.0.0.2"), User: "ben"}}
	if res := g.ask("10.0.0.2", "GET", "/sign-in?to=http://site.example/", nil, member); res.StatusCode != 303 || res.Header.Get("Location") != "http://site.example/" {
		t.Errorf("anna's browser at ben's address gets %d", res.StatusCode)
	}
	if last := g.begun[len(g.begun)-1]; last.User != "anna" || last.Addr.String() != "10.0.0.2" {
		t.Errorf("the session is %+v, want anna's", last)
	}
}

func TestWhereThePortalListensForTheOtherFamily(t *testing.T) {
	for listen, want := range map[string]string{"[::]:80": "http://192.0.2.1:80 http://[2001:db8::1]:80", "0.0.0.0:8080": "http://192.0.2.1:8080 ", "192.0.2.1:80": "http://192.0.2.1:80 ", "127.0.0.1:80": " "} {
		at := place
		at.Plain = append(at.Plain[:0:0], address(t, listen))
		g := newGate(t, Config{}, at, nil)
		if got := g.engine.plainAt(netip.MustParseAddr("192.0.2.1")) + " " + g.engine.plainAt(netip.MustParseAddr("2001:db8::1")); got != want {
			t.Errorf("%s: %q, want %q", listen, got, want)
		}
	}
	g := newGate(t, Config{}, place, nil)
	r := httptest.NewRequest("GET", "/", nil)
	if got := g.engine.otherFamily(r); got != "" { // it came through the proxy
		t.Errorf("without an address of ours: %q", got)
	}
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(203, 0, 113, 250), Port: 80}))
	if got := g.engine.otherFamily(r); got != "" {
		t.Errorf("at an address that is not ours: %q", got)
	}
}
