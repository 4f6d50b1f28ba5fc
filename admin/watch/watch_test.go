//go:build !small

package watch_test

import (
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
