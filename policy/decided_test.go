package policy

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"shuultuur/filter"
)

func TestDecisionsAreAnOverlayOverRules(t *testing.T) {
	begin := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	var d Decisions
	e := newEngineOf(t, Config{{Name: "p", Rules: []Rule{{Name: "adult", Action: "block", Category: []string{"adult"}}}}}, Parts{Decisions: &d},
		list(map[filter.Stage][]string{filter.Name: {"adult"}}))
	for name, tt := range map[string]struct {
		decisions []Decision
		host      string
		client    filter.Client
		want      string
	}{
		"nothing is decided":             {nil, "a.example", filter.Client{}, "block adult"},
		"open for everyone":              {[]Decision{{Site: "a.example"}}, "a.example", filter.Client{}, "pass opened"},
		"open below":                     {[]Decision{{Site: "A.example."}}, "www.a.example", filter.Client{}, "pass opened"},
		"another site":                   {[]Decision{{Site: "a.example"}}, "ba.example", filter.Client{}, "block adult"},
		"open for a group":               {[]Decision{{Site: "a.example", Who: "teachers"}}, "a.example", filter.Client{Groups: []string{"teachers"}}, "pass opened"},
		"not for others":                 {[]Decision{{Site: "a.example", Who: "teachers"}}, "a.example", filter.Client{Groups: []string{"pupils"}}, "block adult"},
		"open for an address":            {[]Decision{{Site: "a.example", Who: "10.1.0.5"}}, "a.example", filter.Client{Addr: netip.MustParseAddr("10.1.0.5")}, "pass opened"},
		"over":                           {[]Decision{{Site: "a.example", Until: begin}}, "a.example", filter.Client{}, "block adult"},
		"not over":                       {[]Decision{{Site: "a.example", Until: begin.Add(1)}}, "a.example", filter.Client{}, "pass opened"},
		"blocked":                        {[]Decision{{Site: "b.example", Block: true}}, "b.example", filter.Client{}, "block decided"},
		"the longest name":               {[]Decision{{Site: "b.example", Block: true}, {Site: "www.b.example"}}, "www.b.example", filter.Client{}, "pass opened"},
		"one for somebody before others": {[]Decision{{Site: "b.example", Who: "t"}, {Site: "b.example", Block: true}}, "b.example", filter.Client{User: "t"}, "pass opened"},
		"the later one":                  {[]Decision{{Site: "b.example", Block: true}, {Site: "b.example"}}, "b.example", filter.Client{}, "pass opened"},
		"the web closed":                 {[]Decision{{Site: AnySite, Who: "t", Block: true}}, "c.example", filter.Client{User: "t"}, "block decided"},
		"closed at an address":           {[]Decision{{Site: AnySite, Block: true}}, "192.0.2.7", filter.Client{}, "block decided"},
		"closed for others":              {[]Decision{{Site: AnySite, Who: "t", Block: true}}, "c.example", filter.Client{User: "u"}, "block adult"},
		"closed until a time":            {[]Decision{{Site: AnySite, Block: true, Until: begin}}, "c.example", filter.Client{}, "block adult"},
		"a site in a closed web":         {[]Decision{{Site: "c.example"}, {Site: AnySite, Block: true}}, "www.c.example", filter.Client{}, "pass opened"},
		"the later one of a group":       {[]Decision{{Site: "b.example", Who: "g"}, {Site: "b.example", Who: "g", Block: true}}, "b.example", filter.Client{Groups: []string{"g"}}, "block decided"},
	} {
		d.Set(tt.decisions)
		x := page{host: tt.host, client: tt.client, start: begin, tunnel: true}
		tr, _ := x.judge(t, e)
		v := tr.Verdict
		if got := fmt.Sprintf("%v %s", v.Action, v.Reason.Finding.Category); got != tt.want {
			t.Errorf("%s: got verdict %s, want %s", name, got, tt.want)
		}
	}
}
