//go:build !small

package zones_test

import (
	"encoding/json"
	"net/url"
	"testing"

	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
)

// A record is changed by its form: first the page shows what that does, then the change is made.
func TestARecordIsAddedAndAZoneIsMade(t *testing.T) {
	h := admintest.NewHouse(t)
	tag := func() string {
		t.Helper()
		var d page
		w := h.Ask(account.Operator, "GET", "/zones/example.test.", "")
		if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil {
			t.Fatalf("the zone: status %d, %v", w.Code, err)
		}
		return d.Tag
	}
	form := func(more url.Values) string {
		f := url.Values{"what": {"add"}, "name": {"tea"}, "type": {"A"}, "ttl": {"60"}, "address": {"192.0.2.9"}, "tag": {tag()}}
		for k, v := range more {
			f[k] = v
		}
		return f.Encode()
	}
	h.Exchanges(t, []admintest.Exchange{
		{As: account.Operator, Method: "GET", Path: "/zones", Form: "", Page: true, Status: 200, Says: "example.test."},
		{As: account.Operator, Method: "GET", Path: "/zones/example.test.?type=MX", Form: "", Page: true, Status: 200, Says: "<form"},
		{As: account.Operator, Method: "GET", Path: "/zones/other.test.", Form: "", Page: false, Status: 404, Says: ""},
		{As: account.Operator, Method: "POST", Path: "/zones/example.test./record", Form: form(url.Values{"dry_run": {"true"}}), Page: false, Status: 200, Says: "tea"},
		{As: account.Operator, Method: "POST", Path: "/zones/example.test./record", Form: form(nil), Page: true, Status: 200, Says: "tea"},
		{As: account.Operator, Method: "POST", Path: "/zones/example.test./record", Form: form(url.Values{"address": {"here"}}), Page: true, Status: 422, Says: "here"},
		{As: account.Operator, Method: "POST", Path: "/zones/example.test./record", Form: form(url.Values{"tag": {"old"}}), Page: false, Status: 412, Says: ""},
		{As: account.Operator, Method: "POST", Path: "/zones", Form: "origin=tea.test&address=192.0.2.1&dry_run=true", Page: false, Status: 200, Says: "tea.test"},
		{As: account.Operator, Method: "POST", Path: "/zones", Form: "origin=..", Page: false, Status: 400, Says: ""},
		{As: account.Operator, Method: "POST", Path: "/zones/none.test/restore", Form: "dry_run=true", Page: false, Status: 404, Says: ""},
		{As: account.Operator, Method: "POST", Path: "/zones/example.test./delete", Form: "dry_run=true&tag=" + tag(), Page: false, Status: 200, Says: ""},
		{As: account.Operator, Method: "POST", Path: "/zones/example.test./record", Form: form(nil), Page: false, Status: 200, Says: `"saved":true`},
		{As: account.Operator, Method: "GET", Path: "/zones/example.test.?q=tea", Form: "", Page: false, Status: 200, Says: "192.0.2.9"},
		{As: account.Operator, Method: "GET", Path: "/zones/example.test.", Form: "", Page: true, Status: 200, Says: "tea"},
		{As: account.Viewer, Method: "GET", Path: "/zones", Form: "", Page: false, Status: 403, Says: "operator"},
	})
}
