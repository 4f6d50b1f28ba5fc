package gateway

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/admin/web"
	"shuultuur/admin/why"
	"shuultuur/event"
	"shuultuur/event/sqlite"
	"shuultuur/filter"
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/vote"
)

const homeSettings = `
listen: {proxy: [127.0.0.1:0], admin: 127.0.0.1:0}
data: data
events: {sqlite: events.db}
lists:
  own: {path: own.txt, format: domains, category: gambling}
votes: {list: own}
checks: {category: {lists: [own]}}
identity:
  addresses: {anna: [10.1.0.1], ben: [10.1.0.2]}
  groups: {kids: [anna, ben]}
policies:
  - name: kids
    groups: [kids]
    quotas: [{time: 30m}]
    rules:
      - {name: gambling, action: block, category: [gambling]}
  - {name: others, rules: []}
`

// Each kind of change to the filter shows what it would have altered in an hour in which anna,
// ben and a third person each viewed a page a minute, two of them a betting page. Of the 58
// others, the quota of anna and ben lets 30 pass.
func TestEveryKindOfChangeIsJudged(t *testing.T) {
	file := folder(t, map[string]string{"own.txt": "casino.example\n", "shuultuur.yaml": homeSettings})
	dir := filepath.Join(filepath.Dir(file), "data")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(filepath.Join(dir, "events.db"), 90*24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	var rows []event.Row
	begin := hourAgo(time.Now(), 2)
	for minute := range 60 {
		for i, user := range []string{"anna", "ben", ""} {
			at := begin.Add(time.Duration(minute) * time.Minute)
			host := "news.example"
			if minute == 5 || minute == 50 {
				host = "casino.example"
			}
			rows = append(rows, event.Row{Time: at, ID: at.Format("150405") + user, Client: netip.AddrFrom4([4]byte{10, 1, 0, byte(i + 1)}), User: user,
				Method: "GET", Host: host, URL: "http://" + host + "/", Proto: filter.HTTP, Status: 200, Policy: "kids"})
		}
	}
	if err := errors.Join(store.Write(t.Context(), rows), store.Close()); err != nil {
		t.Fatal(err)
	}
	g := serving(t, file)
	until := time.Now().Add(5 * time.Minute)
	own := func(c list.Change) web.Trial {
		return web.Trial{Lists: map[string][]list.Change{"own": {c}}}
	}
	for name, c := range map[string]struct {
		trial   web.Trial
		changed int64
		is      string // "" for several results: a minute that passes uses up a later one
	}{
		"an entry":                     {own(list.Change{Entry: "news.example"}), 60, "block"},
		"an entry for nothing":         {own(list.Change{Entry: "other.example"}), 0, ""},
		"an exception":                 {own(list.Change{Entry: "casino.example", Exception: true}), 4, ""},
		"an entry goes":                {own(list.Change{Entry: "casino.example", Remove: true}), 4, ""},
		"a vote for the list":          {web.Trial{Votes: []vote.Decision{{Site: "news.example", Action: vote.Block}}}, 60, "block"},
		"a vote for somebody":          {web.Trial{Votes: []vote.Decision{{Site: "news.example", Action: vote.Block, Who: "anna"}}}, 30, "block"},
		"a vote is taken back":         {web.Trial{Votes: []vote.Decision{{Site: "casino.example", Action: vote.Block, Ended: time.Now()}}}, 4, ""},
		"a pause for one":              {web.Trial{Pause: &policy.Pause{Who: "anna", Until: until}}, 2, ""},
		"a pause for the group":        {web.Trial{Pause: &policy.Pause{Who: "kids", Until: until}}, 4, ""},
		"a pause for all":              {web.Trial{Pause: &policy.Pause{Until: until}}, 4, ""},
		"a pause for others":           {web.Trial{Pause: &policy.Pause{Who: "10.1.0.3", Until: until}}, 0, ""},
		"more time for one":            {web.Trial{Bonus: &policy.Bonus{Who: "anna", Minutes: 15}}, 15, "pass"},
		"more time than the day needs": {web.Trial{Bonus: &policy.Bonus{Who: "kids", Minutes: 240}}, 56, "pass"},
		"a shorter quota":              {web.Trial{Text: []byte(strings.Replace(homeSettings, "time: 30m", "time: 10m", 1))}, 40, "block"},
		"a site for all":               {web.Trial{Decisions: []policy.Decision{{Site: "news.example", Block: true}}}, 118, "block"},
		"an exception from the list":   {web.Trial{Decisions: []policy.Decision{{Site: "casino.example", Who: "anna", Until: until}}}, 2, ""},
		"a limit that nobody reaches":  {web.Trial{Text: []byte(strings.Replace(homeSettings, "    quotas", "    limits: [{requests: 100/1m}]\n    quotas", 1))}, 0, ""},
		"a limit of a request an hour": {web.Trial{Text: []byte(strings.Replace(homeSettings, "    quotas", "    limits: [{requests: 1/1h}]\n    quotas", 1))}, 58, "block"},
	} {
		x, err := (&pages{gateway: g}).effect(t.Context(), c.trial)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		t.Logf("%s changes %d of %d events: %+v", name, x.Changed, x.Judged, x.Changes)
		if x.Judged != 180 || x.Changed != c.changed {
			t.Errorf("%s changes %d of %d events, want %d of 180", name, x.Changed, x.Judged, c.changed)
		}
		for _, k := range x.Changes {
			if c.is != "" && k.Is != c.is {
				t.Errorf("%s: the change is %+v, want events to become %s", name, k, c.is)
			}
		}
	}
	for name, trial := range map[string]web.Trial{
		"a list that is not there": {Lists: map[string][]list.Change{"none": {{Entry: "a.example"}}}},
		"no entry":                 own(list.Change{Entry: "not a host"}),
		"a stranger":               {Pause: &policy.Pause{Who: "stranger", Until: until}},
		"a stranger's time":        {Bonus: &policy.Bonus{Who: "stranger", Minutes: 15}},
		"a site of no name":        {Decisions: []policy.Decision{{Site: "not a host", Block: true}}},
	} {
		var bad *web.BadChange
		if _, err := (&pages{gateway: g}).effect(t.Context(), trial); !errors.As(err, &bad) {
			t.Errorf("%s: %v, want a BadChange", name, err)
		}
	}
	e := g.engine.Load()
	if hits, err := e.Lists.Search("news.example"); err != nil || len(hits) > 0 || len(e.Pauses.At(time.Now())) > 0 || len(e.Decisions.Bonuses(time.Now())) > 0 {
		t.Errorf("asking for effects changed what is in use: %v, %v", hits, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "lists", "trial-*")); len(left) > 0 {
		t.Errorf("asking for effects left files behind: %q", left)
	}
}

// hourAgo is the beginning of an hour on the same day as now, so that quotas count one day.
func hourAgo(now time.Time, hours int) time.Time {
	y, m, d := now.Date()
	if now.Hour() >= hours {
		return time.Date(y, m, d, now.Hour()-hours, 0, 0, 0, now.Location())
	}
	return time.Date(y, m, d-1, 20, 0, 0, 0, now.Location()) // at night it is yesterday evening, within the last day
}

// The engine for questions is kept, and follows what is in use.
func TestQuestionsBuildOnlyWhatHasChanged(t *testing.T) {
	file := folder(t, map[string]string{"own.txt": "casino.example\n", "shuultuur.yaml": homeSettings})
	g := serving(t, file)
	p := &pages{gateway: g}
	why := func(host, want string) {
		t.Helper()
		x, err := p.explain(t.Context(), why.Question{URL: "http://" + host + "/", Client: netip.MustParseAddr("10.1.0.1")})
		if err != nil || x.Action != want {
			t.Errorf("%s: %+v %v, want %s", host, x, err, want)
		}
	}
	why("casino.example", "block")
	why("news.example", "pass")
	first := g.questions.engine
	why("casino.example", "block")
	if e := g.questions.engine; e.Checks != first.Checks || e.Lists != first.Lists || e.Policies != first.Policies {
		t.Error("parts that have not changed were built again")
	}
	if _, err := p.effect(t.Context(), web.Trial{Lists: map[string][]list.Change{"own": {{Entry: "news.example"}}}}); err != nil && !errors.Is(err, web.ErrNoRecord) {
		t.Error(err)
	}
	why("news.example", "pass")
	if err := p.rule(policy.Decision{Site: "casino.example", Who: "anna"}, netip.MustParseAddr("127.0.0.1")); err != nil {
		t.Fatal(err)
	}
	why("casino.example", "pass")
	if err := p.rule(policy.Decision{Site: "casino.example", Who: "anna", Until: time.Now().Add(-time.Second)}, netip.MustParseAddr("127.0.0.1")); err != nil {
		t.Fatal(err)
	}
	why("casino.example", "block")
	g.engine.Load().Pauses.Pauses.Set([]policy.Pause{{Until: time.Now().Add(time.Minute)}})
	why("casino.example", "pass")
	if err := g.checkText(t.Context(), []byte(strings.Replace(homeSettings, "    quotas", "    expect: [{url: casino.example, is: block}]\n    quotas", 1))); err != nil {
		t.Errorf("an expectation is not met because of a pause: %v", err)
	}
	g.engine.Load().Pauses.Pauses.Set(nil)
	why("casino.example", "block")
	for _, action := range []string{"warn", "block"} {
		if err := errors.Join(os.WriteFile(file, []byte(strings.Replace(homeSettings, "action: block", "action: "+action, 1)), 0o600), g.Reload(t.Context())); err != nil {
			t.Fatal(err)
		}
		why("casino.example", action)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(filepath.Dir(file), "own.txt"), []byte("news.example\n"), 0o600), g.Reload(t.Context())); err != nil {
		t.Fatal(err)
	}
	why("news.example", "block")
	g.questions.drop(time.Hour)
	if g.questions.engine == nil {
		t.Error("an engine that was just used is released")
	}
	g.questions.drop(0)
	if g.questions.engine != nil {
		t.Error("an engine that nobody uses is kept")
	}
	why("news.example", "block")
}
