package clients_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/policy"
)

// TestAPersonsPageHasTheirWeekAndWhatWasDecidedForThem: a minute counts once, and what was blocked or
// is of others not at all.
func TestAPersonsPageHasTheirWeekAndWhatWasDecidedForThem(t *testing.T) {
	now := time.Now()
	noon := time.Date(now.Year(), now.Month(), now.Day()-2, 12, 0, 30, 0, time.Local)
	row := func(at time.Time, user, host string, action filter.Action) event.Row {
		return event.Row{Time: at, User: user, Host: host, Action: action}
	}
	for name, tt := range map[string]struct {
		rows []event.Row
		want string // minutes of the last seven days
	}{
		"nothing":            {nil, "[0 0 0 0 0 0 0]"},
		"one minute":         {[]event.Row{row(noon, "anna", "a.example", filter.Pass), row(noon.Add(10*time.Second), "anna", "b.example", filter.Pass)}, "[0 0 0 0 1 0 0]"},
		"two":                {[]event.Row{row(noon.Add(time.Minute), "anna", "a.example", filter.Pass), row(noon, "anna", "a.example", filter.Allow)}, "[0 0 0 0 2 0 0]"},
		"blocked, of others": {[]event.Row{row(noon, "anna", "a.example", filter.Block), row(noon, "ben", "a.example", filter.Pass)}, "[0 0 0 0 0 0 0]"},
		"too long ago":       {[]event.Row{row(noon.AddDate(0, 0, -6), "anna", "a.example", filter.Pass)}, "[0 0 0 0 0 0 0]"},
	} {
		h := admintest.NewHouse(t)
		h.Parts.Events = &web.Record{Reader: admintest.Memory(tt.rows)}
		h.Parts.Decisions.All = func() []policy.Decision {
			return []policy.Decision{{Who: "anna", Site: "wiki.example"}, {Who: "ben", Site: "other.example"}, {Who: "anna", Site: policy.AnySite, Block: true, Until: now.Add(time.Hour)}}
		}
		h.Site = admin.New(h.Parts)
		var d struct{ Week []struct{ Minutes int } }
		w := h.Ask(account.Operator, "GET", "/clients/one?who=anna", "")
		if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil {
			t.Fatalf("%s: %v: %s", name, err, w.Body)
		}
		var got []int
		for _, day := range d.Week {
			got = append(got, day.Minutes)
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("%s: minutes %v, want %s", name, got, tt.want)
		}
		page := admintest.Ask(admin.New(func() admin.Parts { p := h.Parts; p.Shared.Accounts = nil; return p }()), "GET", "/clients/one?who=anna", "text/html", "").Body.String()
		for _, want := range []string{"wiki.example", "the whole web", "Undo"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page lacks %s", name, want)
			}
		}
		if strings.Contains(page, "other.example") {
			t.Errorf("%s: the page has what was decided for somebody else", name)
		}
	}
}
