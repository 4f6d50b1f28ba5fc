package portal

import (
	"net/http"
	"net/netip"
	"net/url"
	"testing"
)

// TestASignInThatHasEndedBeginsNothing: the cookie of a sign-in that was ended, or whose account
// is gone, begins no session, wherever it comes from.
func TestASignInThatHasEndedBeginsNothing(t *testing.T) {
	for name, end := range map[string]func(g *gate, out map[string]bool, gone *bool, member *http.Cookie){
		"signed out": func(g *gate, _ map[string]bool, _ *bool, member *http.Cookie) {
			g.ask("10.0.0.1", "POST", "/sign-out", url.Values{}, member)
		},
		"signed out, elsewhere": func(g *gate, _ map[string]bool, _ *bool, member *http.Cookie) {
			g.ask("10.0.0.7", "POST", "/sign-out", url.Values{}, member)
		},
		"account gone": func(_ *gate, _ map[string]bool, gone *bool, _ *http.Cookie) { *gone = true },
		"nothing":      func(*gate, map[string]bool, *bool, *http.Cookie) {},
	} {
		out, gone := map[string]bool{}, false
		g := newGate(t, Config{}, place, func(e *Engine) {
			e.SignInID = func(user, source string) string { return user + "-1." }
			e.Stands = func(_, _, id string) bool { return !out[id] && !gone }
			e.SignOut = func(_ netip.Addr, id string) error { out[id] = true; return nil }
		})
		s := g.ask("10.0.0.1", "POST", "/sign-in", url.Values{"name": {"anna"}, "password": {"secret"}})
		var member *http.Cookie
		for _, c := range s.Cookies() {
			if c.Name == memberCookie {
				member = c
			}
		}
		if member == nil || len(g.begun) != 1 || g.begun[0].ID != "anna-1." {
			t.Fatalf("signing in gave the sessions %+v and the cookies %v", g.begun, s.Cookies())
		}
		end(g, out, &gone, member)
		g.ask("10.0.0.2", "GET", "/sign-in", nil, member)
		if again := len(g.begun) == 2; again != (name == "nothing") {
			t.Errorf("%s: the cookie began a session: %v", name, again)
		}
	}
}

// TestEachTabHasItsOwnSignIn: the cookies of two sign-ins that are under way differ.
func TestEachTabHasItsOwnSignIn(t *testing.T) {
	one, two := loginOf("ABCDEFGHIJKLMNOP"), loginOf("QRSTUVWXYZ234567")
	if one == two || one != loginOf("ABCDEFGHIJKLMNOP") {
		t.Errorf("the cookies are called %s and %s", one, two)
	}
	for _, state := range []string{"", "a", "a;b=\r\n\"", "ü"} {
		c := &http.Cookie{Name: loginOf(state), Value: "x"}
		if err := c.Valid(); err != nil {
			t.Errorf("the cookie of the state %q: %v", state, err)
		}
	}
}
