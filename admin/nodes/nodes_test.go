package nodes_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
	"shuultuur/admin/nodes"
)

// TestWhoSeesAFleetAndWhoOffers: an operator sees it, an owner offers; what fails is said on the page.
func TestWhoSeesAFleetAndWhoOffers(t *testing.T) {
	h := admintest.NewHouse(t)
	var did []string
	var fails error
	do := func(what string) error {
		did = append(did, what)
		return fails
	}
	h.Parts.Fleet = &nodes.Pages{
		Look: func() nodes.Fleet {
			return nodes.Fleet{Desk: true, Offered: nodes.Offered{Serial: 7, Version: "monday", Share: 0.05, CanBack: true, Waits: "1 of 2 nodes", Stopped: "sunday: <b>"},
				Nodes: []nodes.Node{{Name: "library", Version: "monday", State: nodes.Runs}, {Name: "<i>", State: nodes.Refused, Why: "line 3", Drift: []string{"policies"}}}}
		},
		Publish: func(_ context.Context, version, reason string, all bool) error {
			if all {
				version += " to all"
			}
			return do("offer " + version + " " + reason)
		},
		More: func(context.Context) error { return do("more") }, Back: func(context.Context) error { return do("back") },
		Bundle: func(_ context.Context, name string) (io.ReadCloser, error) {
			if name != "current.json" {
				return nil, fs.ErrNotExist
			}
			return io.NopCloser(strings.NewReader("{}")), nil
		},
	}
	h.Site = admin.New(h.Parts)
	page := func(as account.Role) string {
		w := h.Ask(as, "GET", "/fleet", "", func(r *http.Request) { r.Header.Set("Accept", "text/html") })
		if w.Code != 200 {
			t.Fatalf("%v: status %d", as, w.Code)
		}
		return w.Body.String()
	}
	if body := page(account.Owner); !strings.Contains(body, "library") || !strings.Contains(body, "/fleet/offer") || !strings.Contains(body, "/fleet/back") || !strings.Contains(body, "&lt;i&gt;") || strings.Contains(body, "<b>sunday") || !strings.Contains(body, "line 3") {
		t.Errorf("the page of an owner: %s", body)
	}
	if body := page(account.Operator); strings.Contains(body, "/fleet/offer") {
		t.Error("an operator is offered to offer")
	}
	for _, c := range []struct {
		as     account.Role
		path   string
		form   url.Values
		fails  error
		status int
		did    string
	}{
		{account.Operator, "/fleet/more", nil, nil, 403, ""},
		{account.Owner, "/fleet/offer", url.Values{"version": {" tuesday "}, "reason": {"new list"}}, nil, 200, "offer tuesday new list"},
		{account.Owner, "/fleet/offer", url.Values{"version": {"x"}, "all": {"yes"}}, nil, 200, "offer x to all "},
		{account.Owner, "/fleet/offer", url.Values{"version": {" "}}, nil, 422, ""},
		{account.Owner, "/fleet/more", nil, nil, 200, "more"},
		{account.Owner, "/fleet/back", nil, errors.New("there is no such bundle"), 422, "back"},
	} {
		did, fails = nil, c.fails
		w := h.Ask(c.as, "POST", c.path, c.form.Encode())
		if got := strings.Join(did, ","); w.Code != c.status || got != c.did || c.fails != nil && !strings.Contains(w.Body.String(), c.fails.Error()) {
			t.Errorf("%s %v: status %d, did %q: %s", c.path, c.form, w.Code, got, w.Body)
		}
	}
	for path, want := range map[string]int{"/bundles/current.json": 200, "/bundles/held.json": 404} {
		if w := h.Ask(account.Operator, "GET", path, ""); w.Code != want {
			t.Errorf("%s: status %d, want %d", path, w.Code, want)
		}
	}
	if w := h.Ask(account.Viewer, "GET", "/bundles/current.json", ""); w.Code != 403 {
		t.Errorf("a viewer gets the bundle: status %d", w.Code)
	}
}
