//go:build !small

package watch_test

import (
	"strings"
	"testing"

	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
)

func TestADayIsSummedUpInSeveralForms(t *testing.T) {
	h := admintest.NewHouse(t)
	h.Exchanges(t, []admintest.Exchange{
		{As: account.Operator, Method: "GET", Path: "/reports?span=7d", Form: "", Page: true, Status: 200, Says: "b.example"},
		{As: account.Operator, Method: "GET", Path: "/reports?span=7d", Form: "", Page: false, Status: 200, Says: "b.example"},
		{As: account.Helper, Method: "GET", Path: "/reports?span=7d", Form: "", Page: false, Status: 200, Says: "a.example"},
		{As: account.Operator, Method: "GET", Path: "/reports?span=7d&format=csv&person=anna", Form: "", Page: false, Status: 200, Says: "a.example"},
		{As: account.Operator, Method: "GET", Path: "/reports?span=7d&format=pdf", Form: "", Page: false, Status: 200, Says: "%PDF"},
		{As: account.Operator, Method: "GET", Path: "/reports?span=7d&format=stone", Form: "", Page: false, Status: 400, Says: "json, csv or pdf"},
		{As: account.Operator, Method: "GET", Path: "/reports?span=year", Form: "", Page: false, Status: 400, Says: ""},
		{As: account.Operator, Method: "GET", Path: "/reports?span=year", Form: "", Page: true, Status: 400, Says: "year"},
		{As: account.Owner, Method: "GET", Path: "/audit", Form: "", Page: false, Status: 200, Says: "report of"},
	})
}

func TestAlertsSayThatNothingIsWatched(t *testing.T) {
	h := admintest.NewHouse(t)
	h.Exchanges(t, []admintest.Exchange{
		{As: account.Lead, Method: "GET", Path: "/alerts", Form: "", Page: true, Status: 200, Says: "<h1"},
		{As: account.Lead, Method: "GET", Path: "/alerts", Form: "", Page: false, Status: 404, Says: "nothing is watched"},
		{As: account.Lead, Method: "GET", Path: "/alerts/1", Form: "", Page: false, Status: 404, Says: "nothing is watched"},
		{As: account.Lead, Method: "POST", Path: "/alerts/1", Form: "does=closed&note=x", Page: false, Status: 404, Says: "nothing is watched"},
		{As: account.Viewer, Method: "GET", Path: "/alerts", Form: "", Page: false, Status: 403, Says: "safeguarding-lead"},
	})
}

// TestTodayStandsBesideYesterday: of everyone whom the user may see, or of a person, whose look is
// recorded.
func TestTodayStandsBesideYesterday(t *testing.T) {
	h := admintest.NewHouse(t)
	h.Exchanges(t, []admintest.Exchange{
		{As: account.Viewer, Method: "GET", Path: "/day", Form: "", Page: false, Status: 200, Says: `"requests_before":`},
		{As: account.Viewer, Method: "GET", Path: "/day", Form: "", Page: true, Status: 200, Says: "Today beside yesterday"},
		{As: account.Viewer, Method: "GET", Path: "/", Form: "", Page: true, Status: 200, Says: `hx-get="/day"`},
	})
	looks := func() int { return strings.Count(h.Ask(account.Owner, "GET", "/audit", "").Body.String(), "report of") }
	if n := looks(); n != 0 {
		t.Errorf("looks at the day of everyone are %d entries of the audit log", n)
	}
	h.Exchanges(t, []admintest.Exchange{{As: account.Operator, Method: "GET", Path: "/day?person=anna", Form: "", Page: true, Status: 200, Says: `aria-current="true"`}})
	if n := looks(); n != 1 {
		t.Errorf("a look at the day of anna is %d entries of the audit log", n)
	}
}
