package network_test

import (
	"testing"

	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
)

func TestNamesAndTheCacheAreAsked(t *testing.T) {
	h := admintest.NewHouse(t)
	h.Exchanges(t, []admintest.Exchange{
		{As: account.Operator, Method: "GET", Path: "/names", Form: "", Page: true, Status: 200, Says: "up.example"},
		{As: account.Operator, Method: "GET", Path: "/names?name=tea.example&type=aaaa", Form: "", Page: true, Status: 200, Says: "tea.example AAAA"},
		{As: account.Operator, Method: "GET", Path: "/names?name=tea.example", Form: "", Page: false, Status: 200, Says: `"tea.example A"`},
		{As: account.Operator, Method: "POST", Path: "/names/flush", Form: "", Page: false, Status: 200, Says: ""},
		{As: account.Operator, Method: "POST", Path: "/names/flush", Form: "", Page: true, Status: 303, Says: "/names"},
		{As: account.Operator, Method: "GET", Path: "/cache", Form: "", Page: true, Status: 200, Says: "<h1"},
		{As: account.Operator, Method: "GET", Path: "/cache", Form: "", Page: false, Status: 200, Says: "{"},
		{As: account.Operator, Method: "GET", Path: "/cache/look?url=http://a.example/&field=Accept:+text/html", Form: "", Page: false, Status: 400, Says: "nothing"},
		{As: account.Operator, Method: "POST", Path: "/cache/purge", Form: "kind=host&value=a.example", Page: false, Status: 200, Says: "host a.example"},
		{As: account.Operator, Method: "POST", Path: "/cache/purge", Form: "kind=host&value=a.example", Page: true, Status: 303, Says: "/cache"},
		{As: account.None, Method: "GET", Path: "/ca/root.pem", Form: "", Page: false, Status: 404, Says: ""},
		{As: account.None, Method: "GET", Path: "/ca/address.svg", Form: "", Page: false, Status: 404, Says: ""},
		{As: account.Viewer, Method: "GET", Path: "/names", Form: "", Page: false, Status: 403, Says: "operator"},
	})
}
