package settings_test

import (
	"net/url"
	"testing"

	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
	"shuultuur/admin/web"
)

func TestTheEditorAndThePoliciesOfAHouse(t *testing.T) {
	h := admintest.NewHouse(t)
	var made []string
	h.Watch(t, func(what string) { made = append(made, what) })
	tag := web.Tag([]byte(admintest.HouseSettings))
	policy := func(form string) string { return "policy=0&tag=" + tag + "&" + form }
	h.Exchanges(t, []admintest.Exchange{
		{As: account.Operator, Method: "GET", Path: "/settings", Form: "", Page: true, Status: 200, Says: "anna"},
		{As: account.Operator, Method: "POST", Path: "/settings/check", Form: "a: mistake", Page: false, Status: 200, Says: "mistake"},
		{As: account.Operator, Method: "PUT", Path: "/settings?dry_run=true", Form: "a: 2", Page: false, Status: 200, Says: `"changed":312`},
		{As: account.Operator, Method: "PUT", Path: "/settings?dry_run=true", Form: "a: mistake", Page: false, Status: 422, Says: "mistake"},
		{As: account.Operator, Method: "PUT", Path: "/settings", Form: "a: 2", Page: false, Status: 428, Says: "If-Match"},
		{As: account.Operator, Method: "GET", Path: "/settings/versions", Form: "", Page: false, Status: 200, Says: "20260101T000000.000000Z"},
		{As: account.Operator, Method: "GET", Path: "/settings/versions/20260101T000000.000000Z", Form: "", Page: true, Status: 200, Says: "old: 1"},
		{As: account.Operator, Method: "GET", Path: "/settings/versions/none", Form: "", Page: false, Status: 404, Says: ""},
		{As: account.Viewer, Method: "GET", Path: "/policies", Form: "", Page: true, Status: 200, Says: "pupils"},
		{As: account.Operator, Method: "GET", Path: "/policies", Form: "", Page: true, Status: 200, Says: tag},
		{As: account.Operator, Method: "POST", Path: "/policies", Form: "policy=0&tag=old&what=remove&rule=0", Page: false, Status: 412, Says: "changed meanwhile"},
		{As: account.Operator, Method: "POST", Path: "/policies", Form: policy("what=dance"), Page: false, Status: 400, Says: "dance"},
		{As: account.Operator, Method: "POST", Path: "/policies", Form: policy("what=remove&rule=7"), Page: false, Status: 400, Says: ""},
		{As: account.Operator, Method: "POST", Path: "/policies", Form: policy("what=window&rule=0&day=mon&from=8:00&until=16:00&dry_run=true"), Page: false, Status: 200, Says: `"changed":312`},
		{As: account.Operator, Method: "POST", Path: "/policies", Form: policy("what=add&dry_run=true&" + url.Values{"text": {"{name: tea, action: block}"}}.Encode()), Page: false, Status: 200, Says: `"changed":312`},
		{As: account.Operator, Method: "POST", Path: "/policies", Form: policy("what=edit&rule=0&" + url.Values{"text": {"{name: games, action: allow}"}}.Encode()), Page: true, Status: 200, Says: "312"},
	})
	if len(made) > 0 {
		t.Errorf("asking for an effect made %q, want nothing", made)
	}
	h.Exchanges(t, []admintest.Exchange{{As: account.Operator, Method: "POST", Path: "/policies", Form: policy("what=remove&rule=0"), Page: false, Status: 200, Says: ""}})
	if len(made) != 1 {
		t.Errorf("made %q, want one change of the settings", made)
	}
}
