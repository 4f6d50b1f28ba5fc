package accounts_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
)

func TestSignInAndOut(t *testing.T) {
	h := admintest.NewHouse(t)
	if err := h.Parts.Accounts.SetPassword("the-viewer", "correct horse battery"); err != nil {
		t.Fatal(err)
	}
	html := func(r *http.Request) { r.Header.Set("Accept", "text/html") }
	if w := h.Ask(account.None, "GET", "/events?last=1h", "", html); w.Code != 303 || w.Header().Get("Location") != "/login?to=%2Fevents%3Flast%3D1h" {
		t.Errorf("a page without a session: status %d, header %v; want a redirect to the sign-in page", w.Code, w.Header())
	}
	if w := h.Ask(account.None, "POST", "/login", "name=the-viewer&password=wrong", html); w.Code != 401 || !strings.Contains(w.Body.String(), "wrong") || w.Header().Get("Set-Cookie") != "" {
		t.Errorf("signing in with a wrong password: status %d, want 401: %s", w.Code, w.Body)
	}
	w := h.Ask(account.None, "POST", "/login", "name=the-viewer&password=correct+horse+battery&to=%2Fevents", html)
	c := w.Result().Cookies()
	if w.Code != 303 || w.Header().Get("Location") != "/events" || len(c) != 1 || !c[0].HttpOnly || c[0].SameSite != http.SameSiteStrictMode || c[0].Secure {
		t.Fatalf("signing in: status %d, header %v", w.Code, w.Header())
	}
	h.Cookie[account.Viewer] = c[0].Value
	if w := h.Ask(account.Viewer, "GET", "/account", ""); w.Code != 200 || strings.Contains(w.Body.String(), "argon2") {
		t.Errorf("the account page: status %d, want 200 without a hash: %s", w.Code, w.Body)
	}
	if w := h.Ask(account.Viewer, "POST", "/logout", ""); w.Code != 200 {
		t.Errorf("signing out: status %d, want 200: %s", w.Code, w.Body)
	}
	if w := h.Ask(account.Viewer, "GET", "/account", ""); w.Code != 401 {
		t.Errorf("the account page after signing out: status %d, want 401", w.Code)
	}
	for _, page := range []string{"/login", "/account", "/accounts", "/audit", "/looks"} {
		if w := h.Ask(account.Owner, "GET", page, "", html); w.Code != 200 || !strings.Contains(w.Body.String(), "</html>") || !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src '") {
			t.Errorf("%s: status %d, or no page: %s", page, w.Code, w.Body)
		}
	}
	// Many wrong passwords bar the address.
	var last int
	const tries = 11 // one more than are allowed
	for range tries {
		last = h.Ask(account.None, "POST", "/login", "name=nobody&password=wrong").Code
	}
	if last != 429 {
		t.Errorf("after %d wrong passwords: status %d, want 429", tries, last)
	}
}

func TestTokensDoWhatTheirScopeAndAccountMay(t *testing.T) {
	h := admintest.NewHouse(t)
	w := h.Ask(account.Helper, "POST", "/account/tokens", url.Values{"purpose": {"timetable"}, "scope": {"GET /events,POST /pause"}, "for": {"1d"}}.Encode())
	var created struct{ Token string }
	if err := json.Unmarshal(w.Body.Bytes(), &created); err != nil || created.Token == "" {
		t.Fatalf("making a token: status %d, want 200 and the token: %s", w.Code, w.Body)
	}
	bearer := func(r *http.Request) {
		r.RemoteAddr = "192.0.2.7:99"
		r.Header.Set("Authorization", "Bearer "+created.Token)
	}
	for ask, want := range map[string]int{"GET /events": 200, "GET /pause": 403, "GET /accounts": 403, "POST /account/tokens": 403} {
		method, path, _ := strings.Cut(ask, " ")
		if w := h.Ask(account.None, method, path, "", bearer); w.Code != want {
			t.Errorf("%s with a token: status %d, %s", ask, w.Code, w.Body)
		}
	}
	for _, dry := range []string{"?dry_run=true", ""} { // a token may ask for the effect of every change that it may make
		if w := h.Ask(account.None, "POST", "/pause"+dry, "for=1m&who=7a", bearer); w.Code != 200 {
			t.Errorf("POST /pause%s with a token: status %d, %s", dry, w.Code, w.Body)
		}
	}
	for who, want := range map[string]int{"7a": 200, "7b": 403} {
		if w := h.Ask(account.None, "POST", "/pause", "for=1m&who="+who, bearer); w.Code != want {
			t.Errorf("pausing filtering for %s with a token: status %d, %s", who, w.Code, w.Body)
		}
	}
	key := account.LocalKey(h.Dir)
	for token, want := range map[string]int{h.Token: 200, key: 200, key + "x": 401} {
		if w := h.Ask(account.None, "GET", "/accounts", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }); w.Code != want {
			t.Errorf("GET /accounts with the token %q: status %d, %s", token, w.Code, w.Body)
		}
	}
	if text := fmt.Sprint(h.Ask(account.Owner, "GET", "/accounts/tokens", "").Body); !strings.Contains(text, "timetable") || strings.Contains(text, created.Token) {
		t.Errorf("the list of tokens lacks timetable, or has the secret: %s", text)
	}
}

// Without accounts, this machine needs no token. A wrong token is refused, so that a program
// with an old token notices.
func TestAWrongTokenIsWrongOnThisMachineToo(t *testing.T) {
	h := admintest.NewHouse(t)
	for _, r := range account.Roles { // the last owner may be removed when nobody else is left
		if err := h.Parts.Accounts.Remove("the-" + r.String()); err != nil {
			t.Fatal(err)
		}
	}
	for token, want := range map[string]int{"": 200, "wrong": 401, h.Token: 200, account.LocalKey(h.Dir): 200} {
		w := h.Ask(account.None, "GET", "/settings", "", func(r *http.Request) {
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
		})
		if w.Code != want {
			t.Errorf("without accounts, with the token %q: status %d, %s", token, w.Code, w.Body)
		}
	}
}
