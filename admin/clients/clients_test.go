package clients_test

import (
	"encoding/json"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/filter"
)

// TestAHelperSeesAndServesTheirOwnGroups, and no others.
func TestAHelperSeesAndServesTheirOwnGroups(t *testing.T) {
	h := admintest.NewHouse(t)
	var d struct {
		People, Groups []struct {
			Name   string
			Events int
		}
	}
	w := h.Ask(account.Helper, "GET", "/clients", "")
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil {
		t.Fatalf("GET /clients by a helper: %v: %s", err, w.Body)
	}
	if len(d.People) != 1 || d.People[0].Name != "anna" || d.People[0].Events != 1 || len(d.Groups) != 1 || d.Groups[0].Name != "7a" {
		t.Errorf("a helper sees %+v", d)
	}
	w = h.Ask(account.Operator, "GET", "/clients", "")
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || len(d.People) != 2 || len(d.Groups) != 2 {
		t.Errorf("an operator sees %s, want two people and two groups", w.Body)
	}
	for path, want := range map[string]int{"/clients/one?who=anna": 200, "/clients/one?who=ben": 403, "/clients/one?who=7b": 403, "/clients/one?who=10.0.0.9": 403, "/clients/one": 400} {
		if w := h.Ask(account.Helper, "GET", path, ""); w.Code != want {
			t.Errorf("%s as a helper: status %d, %s; want %d", path, w.Code, w.Body, want)
		}
	}
	for who, want := range map[string]int{"7a": 200, "anna": 200, "ben": 403, "7b": 403, "": 400} {
		if w := h.Ask(account.Helper, "POST", "/bonus", url.Values{"who": {who}, "minutes": {"15"}}.Encode()); w.Code != want {
			t.Errorf("a helper gives %q more time: status %d, %s", who, w.Code, w.Body)
		}
	}
	slices.Sort(h.Given)
	if strings.Join(h.Given, " ") != "7a15 anna15" && strings.Join(h.Given, " ") != "7a 15 anna 15" {
		t.Errorf("time was given to %q", h.Given)
	}
	if w := h.Ask(account.Operator, "POST", "/bonus", "who=anna&minutes=9999"); w.Code != 400 {
		t.Errorf("giving 9999 minutes: status %d, want 400", w.Code)
	}
}

// TestANewDeviceIsNamedInTheSettings, which keep their comments and order. If that would have
// altered a verdict, a page shows it first.
func TestANewDeviceIsNamedInTheSettings(t *testing.T) {
	const before = "# ours\nidentity:\n  groups: {7a: [anna]} # pupils\n"
	p := &admintest.Paper{Text: before}
	parts := admintest.Nobody()
	parts.Settings = p.Parts(t)
	parts.Judge = admintest.PaperEffect
	parts.Events = &web.Record{Reader: admintest.Memory{event.Row{Time: time.Now(), Client: netip.MustParseAddr("10.0.0.9"), Action: filter.Pass}}}
	h := admintest.NewHouse(t)
	parts.Clients = h.Parts.Clients
	s := admin.New(parts)
	if page := admintest.Ask(s, "GET", "/clients", "text/html", "").Body.String(); !strings.Contains(page, `id="new"`) || !strings.Contains(page, "10.0.0.9") {
		t.Errorf("the page does not show a device without a name: %s", page)
	}
	form := url.Values{"what": {"name"}, "address": {"10.0.0.9"}, "name": {"cara"}, "group": {"7a"}}.Encode()
	w := admintest.Ask(s, "POST", "/clients", "text/html", form)
	want := "# ours\nidentity:\n  groups: {7a: [anna, cara]} # pupils\n  addresses:\n    cara: [10.0.0.9]\n"
	if w.Code != 200 || p.Text != before || !strings.Contains(w.Body.String(), "This change would have") || !strings.Contains(w.Body.String(), "cara") {
		t.Errorf("a change with an effect is not shown first: status %d, the settings are %q", w.Code, p.Text)
	}
	w = admintest.Ask(s, "POST", "/clients", "", form+"&dry_run=true")
	if w.Code != 200 || p.Text != before || !strings.Contains(w.Body.String(), `"saved":false`) {
		t.Errorf("a request for the effect alone: status %d, %s", w.Code, w.Body)
	}
	if w = admintest.Ask(s, "POST", "/clients", "", form); w.Code != 200 || p.Text != want {
		t.Errorf("naming the device: status %d, %s; the settings are\n%s", w.Code, w.Body, p.Text)
	}
	for _, bad := range []string{"what=name&address=x&name=y", "what=name&address=10.0.0.9", "what=other", "what=leave&name=zoe&group=7a", "what=forget&name=zoe"} {
		if w := admintest.Ask(s, "POST", "/clients", "", bad); w.Code != 400 {
			t.Errorf("the invalid form %s: status %d, want 400: %s", bad, w.Code, w.Body)
		}
	}
}
