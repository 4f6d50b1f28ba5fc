//go:build !small

package find_test

import (
	"encoding/json"
	"strings"
	"testing"

	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
)

// TestOffersAreWhatARoleMayDo: the house has anna, ben and groups; the helper looks after one of
// them.
func TestOffersAreWhatARoleMayDo(t *testing.T) {
	h := admintest.NewHouse(t)
	for _, tt := range []struct {
		as    account.Role
		words string
		has   []string // in the answer
		lacks []string
	}{
		{account.Owner, "open+roblox+for+anna+1h", []string{`"post":"/rulings","form":"for=1h\u0026site=roblox\u0026what=open\u0026who=anna"`, `"to":"/why?url=https%3A%2F%2Froblox.com%2F\u0026user=anna"`, `"to":"/clients/one?who=anna"`, `"to":"/events?filter=`}, []string{"/pause"}},
		{account.Owner, "open+a.example", []string{`site=a.example\u0026what=open`, "everyone"}, []string{"who="}},
		{account.Owner, "pause+30m", []string{`"post":"/pause","form":"for=30m"`}, []string{"/rulings"}},
		{account.Owner, "anna+15m+more", []string{`"post":"/bonus","form":"minutes=15\u0026who=anna"`}, nil},
		{account.Owner, "anna+5h+more", nil, []string{"/bonus"}},
		{account.Owner, "account", []string{`"to":"/accounts"`}, nil},
		{account.Viewer, "open+roblox+for+anna", []string{"/why?"}, []string{"/rulings"}},
		{account.Helper, "ben", nil, []string{"who=ben"}},
		{account.Helper, "accounts", nil, []string{`"/accounts"`}},
	} {
		w := h.Ask(tt.as, "GET", "/find?q="+tt.words, "")
		if w.Code != 200 {
			t.Errorf("%v %s: status %d: %s", tt.as, tt.words, w.Code, w.Body)
			continue
		}
		for _, want := range tt.has {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%v %s: %q is not in %s", tt.as, tt.words, want, w.Body)
			}
		}
		for _, not := range tt.lacks {
			if strings.Contains(w.Body.String(), not) {
				t.Errorf("%v %s: %q is in %s", tt.as, tt.words, not, w.Body)
			}
		}
	}
}

func TestTheFirstOfferIsWhatTheVerbSays(t *testing.T) {
	h := admintest.NewHouse(t)
	for words, first := range map[string]string{
		"roblox": "What happens", "open+roblox": "Open Roblox", "block+roblox": "Block Roblox", "roblox+block+2d": "Block Roblox for everyone, for 2 days", "why+roblox": "What happens",
		"pause+anna": "Pause filtering for anna, for 5 minutes", "more+anna+1h": "60 minutes more", "anna": "Pause filtering for anna",
	} {
		var offers []struct{ Title string }
		w := h.Ask(account.Owner, "GET", "/find?q="+words, "")
		if err := json.Unmarshal(w.Body.Bytes(), &offers); err != nil || len(offers) == 0 || !strings.HasPrefix(offers[0].Title, first) {
			t.Errorf("%s: the first offer of %s is not %q: %v", words, w.Body, first, err)
		}
	}
	for _, words := range []string{"", "%20", "zzzz", "%ff%fe", strings.Repeat("x+", 3000)} {
		w := h.Ask(account.Owner, "GET", "/find?q="+words, "")
		if w.Code != 200 || !strings.HasPrefix(w.Body.String(), "[") {
			t.Errorf("%.20q: status %d: %s", words, w.Code, w.Body)
		}
	}
}

func TestTheFieldIsOnEachPageAndWorksWithoutAScript(t *testing.T) {
	h := admintest.NewHouse(t)
	h.Exchanges(t, []admintest.Exchange{
		{As: account.Owner, Method: "GET", Path: "/clients", Page: true, Status: 200, Says: `href="/find"`},
		{As: account.Owner, Method: "GET", Path: "/find", Page: true, Status: 200, Says: `<form action="/find" role="search">`},
		{As: account.Owner, Method: "GET", Path: "/find?q=open+roblox+for+anna+1h", Page: true, Status: 200, Says: `<form action="/rulings" method="post"><input type="hidden" name="what" value="open">`},
		{As: account.Owner, Method: "GET", Path: "/find?q=%3Cb%3E", Page: true, Status: 200, Says: "&lt;b&gt;"},
	})
}
