package gateway

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/event/sqlite"
	"shuultuur/filter"
	"shuultuur/whatif"
)

const townSettings = `
listen: {proxy: [127.0.0.1:0], admin: 127.0.0.1:0}
data: data
events: {sqlite: events.db}
lists:
  own: {path: own.txt, format: domains, category: gambling}
checks: {category: {lists: [own]}}
identity:
  addresses: {anna: [10.1.0.1, 10.1.0.7], ben: [10.1.0.2]}
  client-ids: {carl: [carls-phone-9f2k]}
  groups: {kids: [anna, ben], staff: [carl, 10.1.0.5]}
policies:
  - name: kids
    groups: [kids]
    quotas: [{time: 30m}]
    rules:
      - {name: gambling, action: block, category: [gambling]}
  - {name: staff, groups: [staff], rules: []}
  - {name: others, rules: [{name: news, action: block, host: [news.example]}]}
`

// TestAChangeOfPeopleIsJudgedOnTheirRows: judging the rows of those whom a change concerns gives what
// judging all rows gives.
func TestAChangeOfPeopleIsJudgedOnTheirRows(t *testing.T) {
	file := folder(t, map[string]string{"own.txt": "casino.example\n", "shuultuur.yaml": townSettings})
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
		for i, user := range []string{"anna", "ben", "", "carl", "", "Anna", "anna", ""} {
			at := begin.Add(time.Duration(minute)*time.Minute + time.Duration(i)*time.Second)
			host := []string{"news.example", "shop.example", "casino.example", "news.example"}[(minute+i)%4]
			rows = append(rows, event.Row{Time: at, ID: fmt.Sprint(at.Format("150405"), i), Client: netip.AddrFrom4([4]byte{10, 1, 0, byte(i + 1)}), User: user,
				Method: "GET", Host: host, URL: "http://" + host + "/", Proto: filter.HTTP, Status: 200, Policy: "kids"})
		}
	}
	if err := errors.Join(store.Write(t.Context(), rows), store.Close()); err != nil {
		t.Fatal(err)
	}
	g := serving(t, file)
	p := &pages{gateway: g}
	r := g.engine.Load().Events.Reader()
	const addresses, groups = "{anna: [10.1.0.1, 10.1.0.7], ben: [10.1.0.2]}", "{kids: [anna, ben], staff: [carl, 10.1.0.5]}"
	for name, c := range map[string]struct {
		pairs []string // of texts
		all   bool     // every row may change
	}{
		"a device that nobody uses":     {pairs: []string{addresses, "{anna: [10.1.0.1, 10.1.0.7], ben: [10.1.0.2], dora: [10.1.0.99]}"}},
		"a device that somebody uses":   {pairs: []string{addresses, "{anna: [10.1.0.1, 10.1.0.7], ben: [10.1.0.2], dora: [10.1.0.8]}"}},
		"a further device":              {pairs: []string{addresses, "{anna: [10.1.0.1, 10.1.0.7, 10.1.0.3], ben: [10.1.0.2]}"}},
		"a device goes":                 {pairs: []string{addresses, "{anna: [10.1.0.1], ben: [10.1.0.2]}"}},
		"a device changes hands":        {pairs: []string{addresses, "{anna: [10.1.0.1], ben: [10.1.0.2, 10.1.0.7]}"}},
		"another name":                  {pairs: []string{addresses, "{zoe: [10.1.0.1, 10.1.0.7], ben: [10.1.0.2]}", groups, "{kids: [zoe, ben], staff: [carl, 10.1.0.5]}"}},
		"a child joins the staff":       {pairs: []string{groups, "{kids: [ben], staff: [carl, 10.1.0.5, anna]}"}},
		"somebody who signs in":         {pairs: []string{groups, "{kids: [anna, ben, carl], staff: [10.1.0.5]}"}},
		"an address joins the children": {pairs: []string{groups, "{kids: [anna, ben, 10.1.0.5], staff: [carl]}"}},
		"a network joins the children":  {pairs: []string{groups, "{kids: [anna, ben, 10.1.0.0/29], staff: [carl, 10.1.0.5]}"}},
		"a rule":                        {pairs: []string{"host: [news.example]", "host: [shop.example]"}, all: true},
		"a device and a rule":           {pairs: []string{addresses, "{anna: [10.1.0.1], ben: [10.1.0.2]}", "host: [news.example]", "host: [shop.example]"}, all: true},
		"a common quota":                {pairs: []string{"time: 30m", "time: 30m, by: policy"}, all: true},
	} {
		t.Run(name, func(t *testing.T) {
			trial := web.Trial{Text: []byte(strings.NewReplacer(c.pairs...).Replace(townSettings))}
			got, err := p.effect(t.Context(), trial)
			if err != nil {
				t.Fatal(err)
			}
			want, read := judgedWhole(t, p, &trial, r)
			got.Took, want.Took, got.Since, want.Since = 0, 0, time.Time{}, time.Time{}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("judging some rows gives\n%+v, all of them\n%+v", got, want)
			}
			if all := read == len(rows); all != c.all {
				t.Errorf("%d of %d rows are judged; all of them: want %v", read, len(rows), c.all)
			}
		})
	}
}

// judgedWhole is the effect of a change by all rows, and how many would do.
func judgedWhole(t *testing.T, p *pages, trial *web.Trial, r event.Reader) (out *web.Effect, some int) {
	t.Helper()
	p.gateway.questions.Lock()
	defer p.gateway.questions.Unlock()
	x, err := p.prepareTrial(trial)
	if err != nil {
		t.Fatal(err)
	}
	base, err := p.gateway.questions.current(t.Context(), p.gateway.engine.Load())
	if err != nil {
		t.Fatal(err)
	}
	e, done, err := x.build(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	start := time.Now()
	judge := func() *[2]whatif.Judge {
		return &[2]whatif.Judge{base.JudgeInOrder(p.gateway.file), e.JudgeInOrder(p.gateway.file)}
	}
	f := event.Filter{Since: start.Add(-effectSpan)}
	part, _, err := touches(t.Context(), r, f, trial, judge(), base.Settings, e.Settings)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range part.Query(t.Context(), f, event.Page{}) {
		if err != nil {
			t.Fatal(err)
		}
		some++
	}
	if out, err = compare(t.Context(), judge(), r, start); err != nil {
		t.Fatal(err)
	}
	return out, some
}
