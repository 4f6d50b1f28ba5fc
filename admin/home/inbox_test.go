package home_test

import (
	"testing"

	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
)

// TestTheInboxIsForProgramsToo: each role gets what it may answer, with the counts of its pages.
func TestTheInboxIsForProgramsToo(t *testing.T) {
	h := admintest.NewHouse(t)
	h.Exchanges(t, []admintest.Exchange{
		{As: account.Owner, Method: "GET", Path: "/inbox.json", Form: "", Page: false, Status: 200, Says: `{"counts":{},"tasks":[]}`},
		{As: account.Lead, Method: "POST", Path: "/looks", Form: "whom=anna&reason=a+worry", Page: false, Status: 200, Says: ""},
		{As: account.Owner, Method: "GET", Path: "/inbox.json", Form: "", Page: false, Status: 200, Says: `"counts":{"/looks":1}`},
		{As: account.Owner, Method: "GET", Path: "/inbox", Form: "", Page: false, Status: 200, Says: `"to":"/looks"`},
		{As: account.Helper, Method: "GET", Path: "/inbox.json", Form: "", Page: false, Status: 200, Says: `"tasks":[]`},
		{As: account.Viewer, Method: "GET", Path: "/inbox.json", Form: "", Page: false, Status: 403, Says: "helper"},
	})
}
