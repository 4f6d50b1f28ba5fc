package accounts_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
)

func TestOwnersLookAfterAccounts(t *testing.T) {
	h := admintest.NewHouse(t)
	h.Exchanges(t, []admintest.Exchange{
		{As: account.Owner, Method: "POST", Path: "/accounts", Form: "name=tim&role=helper&groups=7a,7b&password=correct+horse+battery", Page: false, Status: 200, Says: `"done":"/accounts"`},
		{As: account.Owner, Method: "POST", Path: "/accounts", Form: "name=tim&role=viewer&password=correct+horse+battery", Page: false, Status: 409, Says: "tim"},
		{As: account.Owner, Method: "POST", Path: "/accounts", Form: "name=tom&role=king", Page: false, Status: 400, Says: "king"},
		{As: account.Owner, Method: "GET", Path: "/accounts", Form: "", Page: false, Status: 200, Says: `"tim"`},
		{As: account.Owner, Method: "GET", Path: "/accounts", Form: "", Page: true, Status: 200, Says: "tim"},
		{As: account.Owner, Method: "POST", Path: "/accounts/edit", Form: "name=tim&role=viewer", Page: true, Status: 303, Says: "/accounts"},
		{As: account.Owner, Method: "POST", Path: "/accounts/edit", Form: "name=nobody&role=viewer", Page: false, Status: 404, Says: "nobody"},
		{As: account.Owner, Method: "POST", Path: "/accounts/password", Form: "name=tim&password=short", Page: false, Status: 400, Says: ""},
		{As: account.Owner, Method: "POST", Path: "/accounts/password", Form: "name=tim&password=another+horse+battery", Page: false, Status: 200, Says: "done"},
		{As: account.Owner, Method: "POST", Path: "/accounts/totp/end", Form: "name=tim", Page: false, Status: 200, Says: "done"},
		{As: account.Owner, Method: "GET", Path: "/accounts/sessions", Form: "", Page: false, Status: 200, Says: "the-viewer"},
		{As: account.Owner, Method: "POST", Path: "/accounts/sessions/end", Form: "id=none", Page: false, Status: 404, Says: "ended already"},
		{As: account.Owner, Method: "GET", Path: "/accounts/tokens", Form: "", Page: false, Status: 200, Says: "["},
		{As: account.Owner, Method: "POST", Path: "/accounts/tokens/end", Form: "id=none", Page: false, Status: 404, Says: "ended already"},
		{As: account.Owner, Method: "POST", Path: "/accounts/remove", Form: "name=tim", Page: false, Status: 200, Says: "done"},
		{As: account.Owner, Method: "POST", Path: "/accounts/remove", Form: "name=tim", Page: false, Status: 404, Says: "tim"},
		{As: account.Operator, Method: "GET", Path: "/accounts", Form: "", Page: false, Status: 403, Says: "owner"},
		{As: account.Owner, Method: "GET", Path: "/audit", Form: "", Page: false, Status: 200, Says: "POST /accounts/remove"},
		{As: account.Owner, Method: "GET", Path: "/audit", Form: "", Page: true, Status: 200, Says: "POST /accounts/remove"},
		{As: account.Owner, Method: "GET", Path: "/audit/verify", Form: "", Page: false, Status: 200, Says: "{"},
	})
}

func TestPeopleLookAfterTheirOwnAccount(t *testing.T) {
	h := admintest.NewHouse(t)
	if err := h.Parts.Accounts.SetPassword("the-owner", "correct horse battery"); err != nil {
		t.Fatal(err)
	}
	var err error
	if h.Cookie[account.Owner], err = h.Parts.Accounts.Begin("the-owner", "passkey", account.Origin{}); err != nil {
		t.Fatal(err)
	}
	h.Exchanges(t, []admintest.Exchange{
		{As: account.Viewer, Method: "GET", Path: "/account", Form: "", Page: true, Status: 200, Says: "the-viewer"},
		{As: account.Viewer, Method: "POST", Path: "/account/tokens", Form: "purpose=timetable&scope=read&for=30d", Page: true, Status: 200, Says: "Token, shown this once"},
		{As: account.Viewer, Method: "POST", Path: "/account/tokens", Form: "purpose=timetable&scope=read&for=soon", Page: false, Status: 400, Says: "write 30d"},
		{As: account.Viewer, Method: "POST", Path: "/account/tokens/end", Form: "id=none", Page: false, Status: 404, Says: "ended already"},
		{As: account.Viewer, Method: "POST", Path: "/account/sessions/end", Form: "id=none", Page: false, Status: 404, Says: "ended already"},
		{As: account.Viewer, Method: "POST", Path: "/account/totp", Form: "", Page: true, Status: 200, Says: "Secret"},
		{As: account.Viewer, Method: "POST", Path: "/account/totp", Form: "code=000000", Page: false, Status: 400, Says: ""},
		{As: account.Viewer, Method: "POST", Path: "/account/passkeys/challenge", Form: "", Page: false, Status: 200, Says: `"challenge"`},
		{As: account.Viewer, Method: "POST", Path: "/account/passkeys", Form: "{}", Page: false, Status: 400, Says: ""},
		{As: account.Owner, Method: "POST", Path: "/account/totp/end", Form: "password=correct+horse+battery", Page: false, Status: 200, Says: "done"},
		{As: account.Owner, Method: "POST", Path: "/account/password", Form: "old=correct+horse+battery&password=another+horse+battery", Page: true, Status: 303, Says: "/account"},
		{As: account.None, Method: "POST", Path: "/login/passkey/challenge", Form: "", Page: false, Status: 200, Says: "challenge"},
		{As: account.None, Method: "POST", Path: "/login/passkey", Form: "{}", Page: false, Status: 401, Says: ""},
	})
	var made struct{ Token, ID string }
	w := h.Ask(account.Viewer, "POST", "/account/tokens", url.Values{"scope": {"read"}, "purpose": {"x"}}.Encode())
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || made.Token == "" {
		t.Fatalf("a token: status %d, %v, %s", w.Code, err, w.Body)
	}
	h.Exchanges(t, []admintest.Exchange{{As: account.Viewer, Method: "POST", Path: "/account/tokens/end", Form: "id=" + made.ID, Page: false, Status: 200, Says: "done"}})
}

// TestAnInvitationIsGoodOnce: the link makes the account that was chosen, once, and not after it was
// taken back.
func TestAnInvitationIsGoodOnce(t *testing.T) {
	h := admintest.NewHouse(t)
	link := func(form string) string {
		t.Helper()
		var made struct{ Name, Link string }
		w := h.Ask(account.Owner, "POST", "/accounts/invite", form)
		if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || made.Link == "" {
			t.Fatalf("an invitation: status %d, %v, %s", w.Code, err, w.Body)
		}
		u, err := url.Parse(made.Link)
		if err != nil {
			t.Fatal(err)
		}
		return u.RequestURI()
	}
	tess, back := link("name=tess&role=helper&groups=7a"), link("name=bert&role=viewer")
	token := func(path string) string { _, token, _ := strings.Cut(path, "token="); return "token=" + token }
	open, err := h.Parts.Accounts.Invitations()
	if err != nil || len(open) != 2 || open[0].Digest != "" {
		t.Fatalf("open are %v, %v", open, err)
	}
	h.Exchanges(t, []admintest.Exchange{
		{As: account.Operator, Method: "POST", Path: "/accounts/invite", Form: "name=x&role=viewer", Status: 403, Says: "owner"},
		{As: account.Owner, Method: "POST", Path: "/accounts/invite", Form: "name=the-viewer&role=viewer", Status: 409, Says: "the-viewer"},
		{As: account.Owner, Method: "POST", Path: "/accounts/invite", Form: "name=tom&role=helper", Page: true, Status: 400, Says: `value="tom"`},
		{As: account.Owner, Method: "GET", Path: "/accounts", Page: true, Status: 200, Says: "invited, not here yet"},
		{As: account.None, Method: "GET", Path: tess, Page: true, Status: 200, Says: "Welcome, tess"},
		{As: account.None, Method: "POST", Path: "/login/invited", Form: token(tess) + "&password=short", Page: true, Status: 400, Says: "Welcome, tess"},
		{As: account.None, Method: "POST", Path: "/login/invited", Form: token(tess) + "&password=correct+horse+battery", Page: true, Status: 303, Says: ""},
		{As: account.None, Method: "POST", Path: "/login/invited", Form: token(tess) + "&password=correct+horse+battery", Status: 400, Says: "was used"},
		{As: account.None, Method: "GET", Path: tess, Page: true, Status: 410, Says: "leads nowhere"},
		{As: account.Owner, Method: "POST", Path: "/accounts/uninvite", Form: "id=" + url.QueryEscape(open[1].ID), Status: 200, Says: "done"},
		{As: account.None, Method: "POST", Path: "/login/invited", Form: token(back) + "&password=correct+horse+battery", Status: 400, Says: "taken back"},
		{As: account.None, Method: "POST", Path: "/login/invited", Form: "token=&password=correct+horse+battery", Status: 400, Says: "expired"},
		{As: account.Owner, Method: "POST", Path: "/accounts/remove", Form: "name=tess", Page: true, Status: 200, Says: "Take out tess?"},
		{As: account.Owner, Method: "POST", Path: "/accounts/remove", Form: "name=tess&sure=yes", Page: true, Status: 303, Says: ""},
		{As: account.Owner, Method: "POST", Path: "/accounts/restore", Form: "name=tess", Status: 200, Says: "done"},
		{As: account.Owner, Method: "POST", Path: "/accounts/restore", Form: "name=tess", Status: 404, Says: "tess"},
	})
	if a, err := h.Parts.Accounts.One("tess"); err != nil || a.Role != account.Helper || len(a.Groups) != 1 || a.Password == "" {
		t.Errorf("the account is %+v, %v", a, err)
	}
}
