package exception_test

import (
	"testing"

	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
)

// A request is decided by somebody who has seen what that does, and only as it was shown.
func TestRequestsAreDecidedAfterTheirEffectWasSeen(t *testing.T) {
	h := admintest.NewHouse(t)
	h.Exchanges(t, []admintest.Exchange{
		{As: account.Lead, Method: "GET", Path: "/votes", Form: "", Page: false, Status: 404, Says: "no votes"},
		{As: account.Operator, Method: "GET", Path: "/votes", Form: "", Page: true, Status: 200, Says: `action="/votes/on"`},
		{As: account.Lead, Method: "GET", Path: "/votes", Form: "", Page: true, Status: 200, Says: "An operator can"},
		{As: account.Lead, Method: "POST", Path: "/votes/on", Form: "", Page: false, Status: 403, Says: "operator"},
		{As: account.Operator, Method: "POST", Path: "/votes/on", Form: "dry_run=true", Page: false, Status: 200, Says: `"saved":false`},
	})
	var made []string
	h.Watch(t, func(what string) { made = append(made, what) })
	h.Exchanges(t, []admintest.Exchange{
		{As: account.Lead, Method: "GET", Path: "/votes", Form: "", Page: true, Status: 200, Says: "<h1"},
		{As: account.Lead, Method: "GET", Path: "/votes", Form: "", Page: false, Status: 200, Says: "["},
		{As: account.Lead, Method: "POST", Path: "/votes", Form: "remedy=open+tea.example&action=block&site=tea.example&dry_run=true", Page: false, Status: 200, Says: `"changed":312`},
		{As: account.Lead, Method: "POST", Path: "/votes", Form: "remedy=open+tea.example&site=tea.example&action=dance", Page: false, Status: 400, Says: "dance"},
		{As: account.Lead, Method: "POST", Path: "/votes/withdraw", Form: "id=x", Page: false, Status: 400, Says: ""},
		{As: account.Lead, Method: "GET", Path: "/votes/decisions", Form: "", Page: false, Status: 200, Says: "["},
		{As: account.Lead, Method: "GET", Path: "/votes/counts?by=host", Form: "", Page: false, Status: 200, Says: "["},
		{As: account.Lead, Method: "GET", Path: "/votes/export?format=csv", Form: "", Page: false, Status: 200, Says: ""},
		{As: account.Lead, Method: "GET", Path: "/votes/export?format=stone", Form: "", Page: false, Status: 400, Says: "write text, csv or json"},
		{As: account.Viewer, Method: "GET", Path: "/votes", Form: "", Page: false, Status: 403, Says: "safeguarding-lead"},
	})
	if len(made) > 0 {
		t.Errorf("looking at requests and trying a decision made %q, want nothing", made)
	}
}

func TestAPauseIsShownAndEnded(t *testing.T) {
	h := admintest.NewHouse(t)
	h.Exchanges(t, []admintest.Exchange{
		{As: account.Operator, Method: "GET", Path: "/pause", Form: "", Page: true, Status: 200, Says: "<form"},
		{As: account.Operator, Method: "GET", Path: "/pause", Form: "", Page: false, Status: 200, Says: "["},
		{As: account.Operator, Method: "POST", Path: "/pause", Form: "who=anna&for=soon", Page: false, Status: 400, Says: "soon"},
		{As: account.Operator, Method: "POST", Path: "/pause", Form: "who=anna&for=5m", Page: false, Status: 200, Says: ""},
		{As: account.Operator, Method: "POST", Path: "/pause", Form: "who=anna&for=0", Page: false, Status: 200, Says: ""},
		{As: account.Operator, Method: "GET", Path: "/rulings?site=a.example", Form: "", Page: true, Status: 200, Says: "a.example"},
		{As: account.Operator, Method: "GET", Path: "/rulings", Form: "", Page: false, Status: 200, Says: "["},
	})
	if len(h.Paused) != 2 {
		t.Errorf("paused %q, want a pause and its end", h.Paused)
	}
}
