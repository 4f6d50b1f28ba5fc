package clients_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
	"shuultuur/admin/clients"
	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/policy"
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

// TestPeopleOfAHouseAreCardsAndOfASchoolRows: the groups come first there, and pages follow.
func TestPeopleOfAHouseAreCardsAndOfASchoolRows(t *testing.T) {
	for name, tt := range map[string]struct {
		people        int
		path          string
		have, haveNot []string
	}{
		"nobody":        {0, "/clients", []string{"no members in the settings"}, []string{"<article"}},
		"a house":       {3, "/clients", []string{"<article", "p000", "p002", "In no group", "web closed until", "paused until", "+20 minutes today"}, []string{"page=2"}},
		"one of them":   {3, "/clients?q=P001", []string{"p001"}, []string{"who=p002"}},
		"a school":      {60, "/clients", []string{`id="t-groups"`, ">p000<", "page=2"}, []string{"<article", ">p059<", "page=0"}},
		"its last page": {60, "/clients?page=3", []string{">p059<", "page=2"}, []string{">p000<", "page=4"}},
		"too far":       {60, "/clients?page=99", []string{"Nothing", "page=98"}, []string{">p000<"}},
		"one group":     {60, "/clients?group=odd", []string{">p001<"}, []string{">p000<"}},
		"no such group": {60, "/clients?group=x", []string{"Nothing"}, []string{">p000<"}},
	} {
		h := admintest.NewHouse(t)
		parts := h.Parts
		parts.Shared.Accounts, parts.Groups = nil, nil
		users, odd := map[string][]string{}, []string{}
		for i := range tt.people {
			who := fmt.Sprintf("p%03d", i)
			users[who] = []string{fmt.Sprintf("10.2.0.%d", i)}
			if i%2 == 1 {
				odd = append(odd, who)
			}
		}
		parts.Clients = &clients.Clients{Known: func() (u, g map[string][]string) { return users, map[string][]string{"odd": odd} },
			About: func(_ context.Context, _ netip.Addr, user, group string) clients.ClientState {
				if group != "" || slices.Contains(odd, user) {
					return clients.ClientState{Groups: []string{"odd"}}
				}
				return clients.ClientState{User: user}
			},
			Bonuses: func() []policy.Bonus { return []policy.Bonus{{Who: "p002", Minutes: 20}} }, Give: func(string, int64, netip.Addr) error { return nil }}
		parts.Events = nil
		parts.Pause.All = func() []policy.Pause { return []policy.Pause{{Who: "p001", Until: time.Now().Add(time.Hour)}} }
		parts.Decisions.All = func() []policy.Decision {
			return []policy.Decision{{Who: "p002", Site: policy.AnySite, Block: true, Until: time.Now().Add(time.Hour)}}
		}
		page := admintest.Ask(admin.New(parts), "GET", tt.path, "text/html", "").Body.String()
		for _, want := range tt.have {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page lacks %s", name, want)
			}
		}
		for _, no := range tt.haveNot {
			if strings.Contains(page, no) {
				t.Errorf("%s: the page has %s", name, no)
			}
		}
	}
}

// TestAPersonIsRenamedAndMovedInTheSettings: in addresses and groups.
func TestAPersonIsRenamedAndMovedInTheSettings(t *testing.T) {
	const before = "identity:\n  groups: {7a: [anna], 7b: [ben]} # pupils\n  addresses:\n    anna: [10.0.0.1]\n"
	for form, want := range map[string]string{
		"what=rename&name=anna&to=Anna+M":         "identity:\n  groups: {7a: [Anna M], 7b: [ben]} # pupils\n  addresses:\n    Anna M: [10.0.0.1]\n",
		"what=move&name=anna&from=7a&group=7b":    "identity:\n  groups: {7a: [], 7b: [ben, anna]} # pupils\n  addresses:\n    anna: [10.0.0.1]\n",
		"what=move&name=anna&from=7a":             "identity:\n  groups: {7a: [], 7b: [ben]} # pupils\n  addresses:\n    anna: [10.0.0.1]\n",
		"what=move&name=anna&group=7b":            "identity:\n  groups: {7a: [anna], 7b: [ben, anna]} # pupils\n  addresses:\n    anna: [10.0.0.1]\n",
		"what=rename&name=anna&to=anna":           "",
		"what=rename&name=anna&to=":               "",
		"what=rename&name=zoe&to=y":               "",
		"what=rename&name=anna&to=7a":             "",
		"what=rename&name=7a&to=8a":               "identity:\n  groups: {8a: [anna], 7b: [ben]} # pupils\n  addresses:\n    anna: [10.0.0.1]\n",
		"what=rename&name=7a&to=7A":               "identity:\n  groups: {7A: [anna], 7b: [ben]} # pupils\n  addresses:\n    anna: [10.0.0.1]\n",
		"what=rename&name=7a&to=7B":               "",
		"what=rename&name=7a&to=Anna":             "",
		"what=move&name=anna&from=7b&group=7a":    "",
		"what=move&name=anna&from=7a&group=7a":    "",
		"what=move&name=&group=7a":                "",
		"what=rename&name=anna&to=b&back=//other": "identity:\n  groups: {7a: [b], 7b: [ben]} # pupils\n  addresses:\n    b: [10.0.0.1]\n",
	} {
		p := &admintest.Paper{Text: before}
		parts := admintest.Nobody()
		parts.Settings = p.Parts(t)
		parts.Clients = &clients.Clients{Known: func() (u, g map[string][]string) {
			return map[string][]string{"anna": {"10.0.0.1"}}, map[string][]string{"7a": {"anna"}, "7b": {"ben"}}
		}, About: func(context.Context, netip.Addr, string, string) clients.ClientState { return clients.ClientState{} }, Bonuses: func() []policy.Bonus { return nil }}
		w := admintest.Ask(admin.New(parts), "POST", "/clients", "", form)
		if want == "" && (w.Code != 400 || p.Text != before) {
			t.Errorf("%s: status %d, want 400; the settings are\n%s", form, w.Code, p.Text)
		}
		if want != "" && (w.Code != 200 || p.Text != want) {
			t.Errorf("%s: status %d, %s; the settings are\n%s\nwant\n%s", form, w.Code, w.Body, p.Text, want)
		}
	}
}

// TestEverythingFollowsANewNameOfAGroup: policies, expectations, alerts, reports and what answers requests. A
// person of that name keeps it.
func TestEverythingFollowsANewNameOfAGroup(t *testing.T) {
	p := &admintest.Paper{Text: "identity:\n  addresses: {anna: [10.0.0.1]}\n  groups: {7a: [anna]}\npolicies:\n  - name: 7a\n    groups: [7A, 7b] # two\n    expect: [{url: a.example, as: 7a, is: block}]\nreports: [{group: 7a, mail: a@school.example}]\nalerts: {to: [{groups: [7a], mail: a@school.example}]}\nvotes: {automatic: [{votes: 3, groups: 7a, who: 7a}]}\n"}
	parts := admintest.Nobody()
	parts.Settings = p.Parts(t)
	parts.Clients = &clients.Clients{Known: func() (u, g map[string][]string) {
		return map[string][]string{"anna": {"10.0.0.1"}}, map[string][]string{"7a": {"anna"}}
	}, About: func(context.Context, netip.Addr, string, string) clients.ClientState { return clients.ClientState{} }, Bonuses: func() []policy.Bonus { return nil }}
	want := strings.NewReplacer("{7a:", "{8a:", "[7A,", "[8a,", "as: 7a", "as: 8a", "group: 7a", "group: 8a", "groups: [7a]", "groups: [8a]", "groups: 7a", "groups: 8a", "who: 7a", "who: 8a").Replace(p.Text)
	if w := admintest.Ask(admin.New(parts), "POST", "/clients", "", "what=rename&name=7a&to=8a"); w.Code != 200 || p.Text != want {
		t.Errorf("status %d, %s; the settings are\n%s\nwant\n%s", w.Code, w.Body, p.Text, want)
	}
}

// TestRulesFollowANewName: policies, expectations and what answers requests name the same person.
func TestRulesFollowANewName(t *testing.T) {
	p := &admintest.Paper{Text: "identity:\n  addresses: {anna: [10.0.0.1]}\n  groups: {7a: [anna]}\npolicies:\n  - name: p\n    users: [ben, Anna] # two\n    rules: [{name: anna, action: block}]\n    expect: [{url: a.example, as: anna, is: block}]\n"}
	parts := admintest.Nobody()
	parts.Settings = p.Parts(t)
	parts.Clients = &clients.Clients{Known: func() (u, g map[string][]string) {
		return map[string][]string{"anna": {"10.0.0.1"}}, map[string][]string{"7a": {"anna"}}
	}, About: func(context.Context, netip.Addr, string, string) clients.ClientState { return clients.ClientState{} }, Bonuses: func() []policy.Bonus { return nil }}
	want := strings.NewReplacer("{anna:", "{zoe:", "[anna]", "[zoe]", "Anna]", "zoe]", "as: anna", "as: zoe").Replace(p.Text)
	if w := admintest.Ask(admin.New(parts), "POST", "/clients", "", "what=rename&name=anna&to=zoe"); w.Code != 200 || p.Text != want {
		t.Errorf("status %d, %s; the settings are\n%s\nwant\n%s", w.Code, w.Body, p.Text, want)
	}
}

// TestThePageOfASchoolStaysSmall: however many groups it has, what is seldom used of each is on the page of
// the group.
func TestThePageOfASchoolStaysSmall(t *testing.T) {
	h := admintest.NewHouse(t)
	parts := h.Parts
	parts.Shared.Accounts, parts.Groups, parts.Events = nil, nil, nil
	parts.Settings = (&admintest.Paper{}).Parts(t)
	users, groups := map[string][]string{}, map[string][]string{}
	for i := range 3000 {
		who, group := fmt.Sprintf("p%04d", i), fmt.Sprintf("g%03d", i/10)
		users[who], groups[group] = []string{fmt.Sprintf("10.2.%d.%d", i/256, i%256)}, append(groups[group], who)
	}
	parts.Clients = &clients.Clients{Known: func() (u, g map[string][]string) { return users, groups },
		About: func(_ context.Context, _ netip.Addr, user, group string) clients.ClientState {
			return clients.ClientState{User: user}
		},
		Bonuses: func() []policy.Bonus { return nil }, Give: func(string, int64, netip.Addr) error { return nil }}
	site := admin.New(parts)
	page := admintest.Ask(site, "GET", "/clients", "text/html", "").Body.String()
	if len(page) > 200<<10 || !strings.Contains(page, "g299") {
		t.Errorf("the page of 300 groups has %d bytes, want at most 200 KiB", len(page))
	}
	for path, want := range map[string]string{"/clients/one?who=g007": `name="to" value="g007"`, "/clients/one?who=p0007": `name="to" value="p0007"`} {
		if page := admintest.Ask(site, "GET", path, "text/html", "").Body.String(); !strings.Contains(page, want) {
			t.Errorf("%s lacks %s", path, want)
		}
	}
}
