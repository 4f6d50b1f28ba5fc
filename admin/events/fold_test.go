package events

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/text"
)

func TestTheLogFoldsWhatSaysNothingNew(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	row := func(ago time.Duration, method, link string, action filter.Action) web.EventRow {
		host := strings.Split(strings.TrimPrefix(link, "https://"), "/")[0]
		return web.EventRow{Row: &event.Row{Time: now.Add(-ago), Client: netip.MustParseAddr("192.0.2.1"), Host: host, Method: method, URL: link, Action: action}}
	}
	for name, c := range map[string]struct {
		rows []web.EventRow
		want string // the methods and hosts that stay, with how often
	}{
		"the same within a minute is counted": {[]web.EventRow{row(0, "GET", "https://a.example/x?1", filter.Pass), row(20*time.Second, "GET", "https://a.example/x?2", filter.Pass), row(50*time.Second, "GET", "https://a.example/x", filter.Pass)}, "GET a.example 3"},
		"the same after a minute is not":      {[]web.EventRow{row(0, "GET", "https://a.example/x", filter.Pass), row(70*time.Second, "GET", "https://a.example/x", filter.Pass)}, "GET a.example 1, GET a.example 1"},
		"another path, action or host stays":  {[]web.EventRow{row(0, "GET", "https://a.example/x", filter.Pass), row(1, "GET", "https://a.example/y", filter.Pass), row(2, "GET", "https://a.example/x", filter.Block), row(3, "GET", "https://b.example/x", filter.Pass)}, "GET a.example 1, GET a.example 1, GET a.example 1, GET b.example 1"},
		"a CONNECT is in its request":         {[]web.EventRow{row(0, "GET", "https://a.example/x", filter.Pass), row(time.Second, "CONNECT", "a.example:443", filter.Pass)}, "GET a.example 1"},
		"a CONNECT that was blocked stays":    {[]web.EventRow{row(0, "GET", "https://a.example/x", filter.Pass), row(time.Second, "CONNECT", "a.example:443", filter.Block)}, "GET a.example 1, CONNECT a.example:443 1"},
		"a CONNECT alone stays":               {[]web.EventRow{row(0, "GET", "https://b.example/x", filter.Pass), row(time.Second, "CONNECT", "a.example:443", filter.Pass)}, "GET b.example 1, CONNECT a.example:443 1"},
	} {
		for i := range c.rows {
			if c.rows[i].Method == "CONNECT" {
				c.rows[i].Host = "a.example"
			}
		}
		var got []string
		for _, r := range fold(c.rows) {
			host := r.Host
			if r.Method == "CONNECT" {
				host = r.URL
			}
			got = append(got, r.Method+" "+host+" "+string(rune('0'+r.Times)))
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s: got %s, want %s", name, s, c.want)
		}
	}
}

func TestChipsWriteTheFilter(t *testing.T) {
	for filter, want := range map[string][]string{
		"":                            {"action:block", "action:warn", "action:allow"},
		"host:a.example":              {"host:a.example action:block", "host:a.example action:warn", "host:a.example action:allow"},
		"action:block host:a.example": {"host:a.example", "host:a.example action:warn", "host:a.example action:allow"},
	} {
		all := chips("/events", eventQuery{Filter: filter, Last: "1d"}, true)
		for i, w := range want {
			if to := "/events?" + (url.Values{"filter": {w}, "last": {"1d"}}).Encode(); all[i].To != to || all[i].On != (filter == "action:block host:a.example" && i == 0) {
				t.Errorf("the chip %s of the filter %q leads to %q (on: %v), want %q", all[i].Name, filter, all[i].To, all[i].On, to)
			}
		}
	}
}

func TestTheReasonIsASentence(t *testing.T) {
	for want, r := range map[string]event.Row{
		"Blocked for anna: bet.example counts as gambling, and the rule betting decides.":            {User: "anna", Host: "bet.example", Category: "gambling", Rule: "betting", Action: filter.Block},
		"anna was warned: what is on the page counts 140 as phrase, and the rule bad words decides.": {User: "anna", Host: "a.example", Category: "phrase", Score: 140, Rule: "bad words", Action: filter.Warn},
		"Allowed for anna: the rule school decides.":                                                 {User: "anna", Host: "a.example", Rule: "school", Action: filter.Allow},
		"Open for anna: no rule fits, so it opens.":                                                  {User: "anna", Host: "a.example", Action: filter.Pass},
	} {
		if got := reason(nil, web.EventRow{Row: &r}); got != want {
			t.Errorf("the reason is %q, want %q", got, want)
		}
	}
}

func TestRowsAreFoldedAsTheyArrive(t *testing.T) {
	now := time.Now()
	row := func(second int, method, address string) *delivery {
		return &delivery{Row: event.Row{Time: now.Add(time.Duration(second) * time.Second), Method: method, URL: address, Host: "a.example", User: "anna"}}
	}
	var f liveFold
	said := func(some ...*delivery) (all []string) {
		for _, c := range f.next(some) {
			all = append(all, fmt.Sprintf("%s %s %d", c.Method, c.URL, c.times))
		}
		return all
	}
	for _, tt := range []struct {
		name string
		some []*delivery
		want []string
	}{
		{"nothing", nil, nil},
		{"a tunnel with its request, and the same again", []*delivery{row(0, "CONNECT", ""), row(1, "GET", "https://a.example/x"), row(2, "GET", "https://a.example/x?b=1")}, []string{"GET https://a.example/x?b=1 2"}},
		{"its end, a message later", []*delivery{row(4, "CONNECT", "")}, nil},
		{"another tunnel, much later", []*delivery{row(600, "CONNECT", "")}, []string{"CONNECT  1"}},
		{"in the order in which they came", []*delivery{row(601, "GET", "https://a.example/1"), row(602, "GET", "https://a.example/2")}, []string{"GET https://a.example/1 1", "GET https://a.example/2 1"}},
	} {
		if got := said(tt.some...); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	f.whole = true
	if got := said(row(700, "GET", "https://a.example/x"), row(700, "GET", "https://a.example/x")); len(got) != 2 {
		t.Errorf("where every row is wanted: %q", got)
	}
}

func TestChipsTakeTermsOutOfTheFilterAndNarrowIt(t *testing.T) {
	rows := []web.EventRow{{Row: &event.Row{User: "anna", Category: "chat"}}, {Row: &event.Row{User: "ben lee", Proto: filter.DNS}}, {Row: &event.Row{User: "anna"}}}
	for filter, want := range map[string]string{
		"":                          "user:anna|user:\"ben lee\"|category:chat|proto:http|proto:dns",
		`user:"ben lee" -proto:dns`: `-proto:dns|user:"ben lee"|user:"ben lee" -proto:dns category:chat`,
		"action:block a:b":          "action:block|action:block a:b user:anna|action:block a:b user:\"ben lee\"|action:block a:b category:chat|action:block a:b proto:http|action:block a:b proto:dns",
	} {
		var got []string
		for _, c := range termChips("/events", eventQuery{Filter: filter, Last: "1d"}, rows, true) {
			u, err := url.Parse(c.To)
			if err != nil || u.Query().Get("last") != "1d" {
				t.Errorf("the chip %q leads to %q", c.Name, c.To)
			}
			got = append(got, u.Query().Get("filter"))
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%q: chips lead to\n%s, want\n%s", filter, strings.Join(got, "|"), want)
		}
	}
}

func TestTheWayOfADecisionNamesWhatDidNotFit(t *testing.T) {
	rules := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	o := &onePage{events: &Events{Rules: func(string) []string { return rules }, Groups: func(netip.Addr, string) []string { return []string{"7a"} }}}
	set, err := text.New("")
	if err != nil {
		t.Fatal(err)
	}
	texts := set.For("en")
	for rule, want := range map[string]string{
		"a": "anna 7a p a", "c": "anna 7a p -a -b c", "h": "anna 7a p -a -b -c -d -e -2 h", "gone": "anna 7a p gone",
		"": "anna 7a p -a -b -c -d -e -3 no rule matched",
	} {
		way, scopes := o.way(texts, &event.Row{User: "anna", Policy: "p", Rule: rule})
		var got []string
		for _, s := range way {
			if s.Not {
				s.Value = "-" + s.Value
			}
			got = append(got, s.Value)
		}
		if strings.Join(got, " ") != want || strings.Join(scopes, " ") != "anna 7a" {
			t.Errorf("%q: the way is %q, want %q; for %q", rule, got, want, scopes)
		}
	}
}
