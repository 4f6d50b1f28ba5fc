package lists_test

import (
	"net/http"
	"testing"

	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
)

func TestEntriesOfListsAreChanged(t *testing.T) {
	h := admintest.NewHouse(t)
	var made []string
	h.Watch(t, func(what string) { made = append(made, what) })
	h.Exchanges(t, []admintest.Exchange{
		{As: account.Viewer, Method: "GET", Path: "/lists", Form: "", Page: true, Status: 200, Says: "<h1"},
		{As: account.Viewer, Method: "GET", Path: "/lists", Form: "", Page: false, Status: 200, Says: ""},
		{As: account.Viewer, Method: "GET", Path: "/lists?q=a.example", Form: "", Page: true, Status: 200, Says: "a.example"},
		{As: account.Viewer, Method: "GET", Path: "/lists?q=a.example", Form: "", Page: false, Status: 200, Says: ""},
		{As: account.Viewer, Method: "GET", Path: "/lists/none", Form: "", Page: false, Status: 404, Says: "no list"},
		{As: account.Operator, Method: "POST", Path: "/lists", Form: "what=add&entry=tea.example&list=own", Page: true, Status: 200, Says: "312"},
		{As: account.Operator, Method: "POST", Path: "/lists/own", Form: "entry=tea.example", Page: false, Status: 415, Says: "text/csv"},
		{As: account.Operator, Method: "POST", Path: "/lists/none/source", Form: "what=fetch", Page: false, Status: 404, Says: "no list"},
		{As: account.Viewer, Method: "GET", Path: "/checks", Form: "", Page: false, Status: 403, Says: ""},
		{As: account.Operator, Method: "GET", Path: "/checks", Form: "", Page: true, Status: 200, Says: "<h1"},
	})
	if len(made) > 0 {
		t.Errorf("asking for an effect made %q, want nothing", made)
	}
	h.Exchanges(t, []admintest.Exchange{{As: account.Operator, Method: "POST", Path: "/lists", Form: "what=add&entry=tea.example&list=own", Page: false, Status: 200, Says: ""}})
	csv := func(r *http.Request) { r.Header.Set("Content-Type", "text/csv") }
	if w := h.Ask(account.Operator, "POST", "/lists/own", "entry\ntea.example\n", csv); w.Code != 200 {
		t.Errorf("a change as CSV: status %d, %s", w.Code, w.Body)
	}
	if w := h.Ask(account.Operator, "POST", "/lists/own", "entry\n", csv); w.Code != 400 {
		t.Errorf("no change as CSV: status %d, want 400", w.Code)
	}
	if len(made) != 2 {
		t.Errorf("made %q, want two changes of lists", made)
	}
}
