package policy

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/state"
)

// counted runs a test with an engine that counts, in a bubble in which it is noon at the start.
func counted(t *testing.T, p Policy, test func(t *testing.T, e *Engine)) {
	t.Helper()
	countedWith(t, p, phrases(1), test)
}

// countedWith does the same with pages that have more properties.
func countedWith(t *testing.T, p Policy, pages *fake, test func(t *testing.T, e *Engine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		y, m, d := time.Now().Date()
		time.Sleep(time.Until(time.Date(y, m, d+1, 12, 0, 0, 0, time.Local)))
		s, err := state.New(state.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		p.Name = "p"
		test(t, newEngineOf(t, Config{p}, Parts{Counter: s, Memory: s}, list(map[filter.Stage][]string{filter.Name: {"grey"}}), pages))
	})
}

// refused requests a page and reports whether a limit or quota refused it. The transaction
// takes took and transfers n bytes.
func refused(t *testing.T, e *Engine, p page, took time.Duration, n int64) bool {
	t.Helper()
	p.start = time.Now()
	tr, _ := p.judge(t, e)
	time.Sleep(took)
	tr.Duration, tr.BytesOut = took, n
	for at := tr.Start; at.Before(tr.Start.Add(took)); at = at.Add(time.Minute) { // something moved all the time
		tr.Minutes.Add(filter.MinuteOf(at))
	}
	e.Done(t.Context(), tr)
	v := tr.Verdict
	if (v.After > 0) != (v.Action == filter.Block) {
		t.Errorf("%+v: want After with a block and with nothing else", v)
	}
	return v.After > 0
}

func TestLimits(t *testing.T) {
	two := Rate{2, time.Minute}
	anna := filter.Client{User: "anna"}
	for name, test := range map[string]struct {
		by    string
		third page
		over  bool
	}{
		"a client":                  {"client", page{}, true},
		"another client":            {"client", page{client: client("10.0.0.9")}, false},
		"a user":                    {"user", page{}, true},
		"another user":              {"user", page{client: anna}, false},
		"another client, one limit": {"policy", page{client: anna}, true},
		"a host":                    {"host", page{client: anna}, true},
		"another host":              {"host", page{host: "b.example"}, false},
		"a tunnel":                  {"client", page{tunnel: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			counted(t, Policy{Limits: []Limit{{Requests: two, By: test.by}}}, func(t *testing.T, e *Engine) {
				for i := range 2 {
					if refused(t, e, page{}, 0, 0) {
						t.Fatalf("request %d was refused, within the limit", i+1)
					}
				}
				if got := refused(t, e, test.third, 0, 0); got != test.over {
					t.Errorf("request after the limit was refused: %v, want %v", got, test.over)
				}
			})
		})
	}
}

// TestAMachineHasOneLimitWhateverAddressItTakes: of IPv6 a prefix is one client.
func TestAMachineHasOneLimitWhateverAddressItTakes(t *testing.T) {
	for _, tt := range []struct {
		prefix      int
		first, next string
		same        bool
	}{
		{0, "2001:db8::1", "2001:db8::2", true},
		{0, "2001:db8::1", "2001:db8:0:0:ffff::", true},
		{0, "2001:db8::1", "2001:db8:0:1::1", false},
		{56, "2001:db8::1", "2001:db8:0:ff::1", true},
		{56, "2001:db8::1", "2001:db8:0:100::1", false},
		{128, "2001:db8::1", "2001:db8::2", false},
		{128, "2001:db8::1", "2001:db8::1", true},
		{0, "fe80::1", "fe80::2", false}, // two machines of one link
		{0, "fd00::1", "fd00::2", true},
		{0, "10.0.0.1", "10.0.0.2", false},
		{8, "10.0.0.1", "10.0.0.2", false},
	} {
		counted(t, Policy{Limits: []Limit{{Requests: Rate{1, time.Minute}, Prefix: tt.prefix}}}, func(t *testing.T, e *Engine) {
			if refused(t, e, page{client: client(tt.first)}, 0, 0) {
				t.Fatal("the first request was refused")
			}
			if got := refused(t, e, page{client: client(tt.next)}, 0, 0); got != tt.same {
				t.Errorf("prefix %d, %s after %s: refused %v, want %v", tt.prefix, tt.next, tt.first, got, tt.same)
			}
		})
	}
	counted(t, Policy{Quotas: []Quota{{Bytes: 5, By: "client"}}}, func(t *testing.T, e *Engine) {
		refused(t, e, page{client: client("2001:db8::1")}, 0, 10)
		if refused(t, e, page{client: client("2001:db8::2")}, 0, 0) {
			t.Error("a quota of one device is used up by another one of its network")
		}
	})
}

func client(addr string) (c filter.Client) {
	c.Addr = netip.MustParseAddr(addr)
	return c
}

func TestALimitSaysWhenToTryAgain(t *testing.T) {
	counted(t, Policy{Limits: []Limit{{Requests: Rate{10, time.Minute}}}}, func(t *testing.T, e *Engine) {
		for range 10 {
			if refused(t, e, page{}, 0, 0) {
				t.Fatal("a request within the limit was refused")
			}
		}
		tr, s := page{start: time.Now()}.judge(t, e)
		v := tr.Verdict
		if s != filter.Name {
			t.Fatalf("refused at stage %v, want at the name", s)
		}
		if v.Reason.Rule != "limit 10/1m by client" || v.Reason.Finding.Category != "limit" || v.After < 30*time.Second || v.After > 2*time.Minute {
			t.Fatalf("%+v, want a refusal by the limit for a minute or so", v)
		}
		time.Sleep(v.After)
		if refused(t, e, page{}, 0, 0) {
			t.Error("a request after the announced time was refused")
		}
	})
}

func TestQuotas(t *testing.T) {
	games := Names{"grey"}
	for name, test := range map[string]struct {
		quota Quota
		rules []Rule
		took  time.Duration
		bytes int64
		often int // before it is used up; 0: never
	}{
		"time":                         {Quota{Category: games, Time: Duration(3 * time.Minute)}, nil, time.Minute, 1, 3},
		"time, one long answer":        {Quota{Category: games, Time: Duration(3 * time.Minute)}, nil, 10 * time.Minute, 1, 1},
		"many requests in a minute":    {Quota{Category: games, Time: Duration(time.Minute)}, nil, time.Second, 1, 60},
		"bytes":                        {Quota{Category: games, Bytes: 100}, nil, 0, 40, 3},
		"bytes of everything":          {Quota{Bytes: 100}, nil, 0, 40, 3},
		"another category":             {Quota{Category: Names{"adult"}, Bytes: 100}, nil, 0, 40, 0},
		"what is allowed is free":      {Quota{Bytes: 100}, []Rule{{Name: "a", Action: "allow"}}, 0, 40, 0},
		"what is blocked is not spent": {Quota{Bytes: 100}, []Rule{{Name: "b", Action: "block", URL: []string{"/a"}}}, 0, 40, 3},
	} {
		t.Run(name, func(t *testing.T) {
			counted(t, Policy{Quotas: []Quota{test.quota}, Rules: test.rules}, func(t *testing.T, e *Engine) {
				if test.rules != nil && test.often > 0 {
					for range 10 {
						page{path: "/a", start: time.Now()}.judge(t, e)
					}
				}
				n := 0
				for ; n < 100 && !refused(t, e, page{}, test.took, test.bytes); n++ {
				}
				if want := test.often; n != want && (want > 0 || n != 100) {
					t.Errorf("the quota was used up after %d requests, want %d", n, want)
				}
				if test.often == 0 {
					return
				}
				tr, _ := page{start: time.Now()}.judge(t, e)
				if a := tr.Verdict.After; a < 11*time.Hour || a > 12*time.Hour || !strings.Contains(tr.Verdict.Reason.Finding.Evidence, "used up") {
					t.Errorf("%+v, want it used up until midnight", tr.Verdict)
				}
				time.Sleep(12 * time.Hour)
				if refused(t, e, page{}, 0, 0) {
					t.Error("the quota is still used up on the next day")
				}
			})
		})
	}
}

// TestABonusExtendsAQuotaForTheDay: a bonus applies only to those who were given it, and ends with
// the day.
func TestABonusExtendsAQuotaForTheDay(t *testing.T) {
	counted(t, Policy{Quotas: []Quota{{Category: Names{"grey"}, Time: Duration(3 * time.Minute)}}}, func(t *testing.T, e *Engine) {
		e.decided = &Decisions{}
		now := time.Now()
		use := func() (n int) {
			for ; n < 100 && !refused(t, e, page{client: filter.Client{Addr: netip.MustParseAddr("10.0.0.7")}}, time.Minute, 1); n++ {
			}
			return n
		}
		if n := use(); n != 3 {
			t.Errorf("the quota was used up after %d minutes, want 3", n)
		}
		client := filter.Client{Addr: netip.MustParseAddr("10.0.0.7")}
		e.decided.SetBonuses([]Bonus{{Who: "somebody else", Minutes: 50, Until: now.Add(9 * time.Hour)}, {Who: client.Addr.String(), Minutes: 15, Until: now.Add(2 * time.Hour)}})
		if _, left := e.Balance(t.Context(), "", &client, time.Now()); left[0].Most != 18 || left[0].Left != 15 {
			t.Errorf("balance: got %+v, want 15 of 18 minutes", left)
		}
		if n := use(); n != 15 {
			t.Errorf("with a bonus of 15, the quota was used up after %d more minutes, want 15", n)
		}
		e.decided.SetBonuses([]Bonus{{Who: "anna", Minutes: 15, Until: now.Add(2 * time.Hour)}, {Who: "ben", Minutes: 9, Until: now.Add(9 * 24 * time.Hour)}})
		if far := e.decided.TooFarAhead(now); len(far) != 1 || far[0].Who != "ben" {
			t.Errorf("too far ahead: %+v, want that of ben", far)
		}
		time.Sleep(3 * time.Hour)
		if _, left := e.Balance(t.Context(), "", &client, time.Now()); left[0].Most != 3 || left[0].Left != 0 {
			t.Errorf("hours later left: %+v, want none of 3 minutes", left)
		}
	})
}

// The subject of a page is known when it has been fetched: it counts then.
func TestQuotasOfWhatThePageSays(t *testing.T) {
	for name, test := range map[string]struct {
		quota Quota
		says  *fake
		often int // before it is used up; 0: never
	}{
		"a category":             {Quota{Category: Names{"phrase/banned"}, Bytes: 100}, phrases(1, "banned"), 3},
		"minutes of a category":  {Quota{Category: Names{"phrase/banned"}, Time: Duration(2 * time.Minute)}, phrases(1, "banned"), 2},
		"another category":       {Quota{Category: Names{"phrase/banned"}, Bytes: 100}, phrases(1, "exception"), 0},
		"a score over the limit": {Quota{Category: Names{"phrase"}, Over: over(50), Bytes: 100}, phrases(60), 3},
		"a score under it":       {Quota{Category: Names{"phrase"}, Over: over(50), Bytes: 100}, phrases(40), 0},
		"list and page, once":    {Quota{Category: Names{"grey", "phrase/banned"}, Bytes: 100}, phrases(1, "banned"), 3},
	} {
		t.Run(name, func(t *testing.T) {
			// Learning must not hide the page's category.
			countedWith(t, Policy{Quotas: []Quota{test.quota}, Learn: Learn{Duration(time.Hour)}}, test.says, func(t *testing.T, e *Engine) {
				n := 0
				for ; n < 20 && !refused(t, e, etag(`"1"`), time.Minute, 40); n++ {
				}
				if n != test.often && (test.often > 0 || n != 20) {
					t.Fatalf("the quota was used up after %d requests, want %d", n, test.often)
				}
				if test.often == 0 {
					return
				}
				p := etag(`"1"`)
				p.start = time.Now()
				tr, s := p.judge(t, e)
				known := len(test.quota.Category) == 2 // by its address
				if want := filter.ResponseBody; tr.Verdict.Reason.Finding.Category != "quota" || s != want && !known {
					t.Errorf("%+v at %v, want it refused by the quota at %v", tr.Verdict, s, want)
				}
				_, left := e.Balance(t.Context(), "", &tr.Client, time.Now())
				if len(left) != 1 || left[0].Left != 0 || left[0].Used < left[0].Most {
					t.Errorf("balance: got %+v, want nothing left", left)
				}
			})
		})
	}
}

func TestPagesAreNotHeldForQuotasWithoutNeed(t *testing.T) {
	quota := []Quota{{Category: Names{"grey", "phrase/banned"}, Bytes: 100}}
	counted(t, Policy{Quotas: quota}, func(t *testing.T, e *Engine) {
		if _, s := (page{start: time.Now()}).judge(t, e); s != filter.Response {
			t.Errorf("judged at %v, although the address shows that the page counts", s)
		}
	})
	e := newEngineOf(t, Config{{Name: "p", Quotas: quota}}, Parts{}, list(nil), phrases(1))
	if _, s := (page{}).judge(t, e); s != filter.Response {
		t.Errorf("judged at %v, although there is no Counter", s)
	}
}

func TestBalance(t *testing.T) {
	anna, ben := filter.Client{User: "anna"}, filter.Client{User: "ben"}
	quotas := []Quota{{Category: Names{"grey"}, Time: Duration(time.Hour), Bytes: 5e6}, {Bytes: 1e9, By: "policy"}}
	counted(t, Policy{Quotas: quotas}, func(t *testing.T, e *Engine) {
		refused(t, e, page{client: anna}, 35*time.Minute, 2_500_000)
		for _, test := range []struct {
			who    filter.Client
			policy string
			want   []string
		}{
			{anna, "", []string{"grey user 25m left of 1h", "grey user 2.5 MB left of 5 MB", "everything policy 997.5 MB left of 1 GB"}},
			{ben, "", []string{"grey user 1h left of 1h", "grey user 5 MB left of 5 MB", "everything policy 997.5 MB left of 1 GB"}},
			{anna, "p", []string{"grey user 25m left of 1h", "grey user 2.5 MB left of 5 MB", "everything policy 997.5 MB left of 1 GB"}},
			{anna, "q", nil},
		} {
			policy, left := e.Balance(t.Context(), test.policy, &test.who, time.Now())
			var got []string
			for _, b := range left {
				got = append(got, b.Of+" "+b.By+" "+b.Text)
				if h, m, _ := b.Until.Clock(); !b.Known || b.Left != b.Most-b.Used || h+m != 0 {
					t.Errorf("balance: got %+v", b)
				}
			}
			if !slices.Equal(got, test.want) || (policy == "p") != (test.want != nil) {
				t.Errorf("user %s, policy %q: got policy %q with %q; want %q", test.who.User, test.policy, policy, got, test.want)
			}
		}
		refused(t, e, page{client: anna}, time.Hour, 9_000_000)
		if _, left := e.Balance(t.Context(), "", &anna, time.Now()); left[0].Text != "0m left of 1h" || left[1].Text != "0 bytes left of 5 MB" || left[1].Used != 11_500_000 {
			t.Errorf("balance of an exceeded quota: got %+v", left)
		}
	})
}

func TestAllowedRequestsCountTowardsLimits(t *testing.T) {
	counted(t, Policy{Limits: []Limit{{Requests: Rate{1, time.Minute}}}, Rules: []Rule{{Name: "all", Action: "allow"}}}, func(t *testing.T, e *Engine) {
		for i := range 2 {
			tr, _ := page{start: time.Now()}.judge(t, e)
			if want := []filter.Action{filter.Allow, filter.Block}[i]; tr.Verdict.Action != want {
				t.Errorf("request %d: got %v, want %v", i+1, tr.Verdict.Action, want)
			}
		}
	})
}

// queried has the engine judge and count a query, and returns the verdict.
func queried(t *testing.T, e *Engine, c filter.Client, host string) filter.Verdict {
	t.Helper()
	tr := &filter.Transaction{Start: time.Now(), Proto: filter.DNS, Type: 1, Last: filter.Name, Terse: true, Client: c, Host: host}
	e.Decide(t.Context(), tr, filter.Name)
	e.Query(tr)
	return tr.Verdict
}

func TestLimitsOfQueries(t *testing.T) {
	two := Rate{2, time.Minute}
	for name, test := range map[string]struct {
		by    string
		third filter.Client
		over  bool
	}{
		"a client":                  {"client", filter.Client{}, true},
		"another client":            {"client", client("10.0.0.9"), false},
		"another client, one limit": {"policy", client("10.0.0.9"), true},
		"another user":              {"user", filter.Client{User: "anna"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			rules := []Rule{{Name: "a", Action: "allow", Host: []string{"a.example"}}, {Name: "b", Action: "block", Host: []string{"b.example"}}}
			counted(t, Policy{Limits: []Limit{{Queries: two, By: test.by}, {Requests: Rate{1, time.Hour}}}, Rules: rules}, func(t *testing.T, e *Engine) {
				// Each counts, whatever its verdict.
				for host, want := range map[string]filter.Action{"a.example": filter.Allow, "b.example": filter.Block} {
					if v := queried(t, e, filter.Client{}, host); v.Action != want || v.After != 0 {
						t.Fatalf("query for %s: got %+v", host, v)
					}
				}
				v := queried(t, e, test.third, "a.example")
				if over := v.After > 0; over != test.over || over && (v.Action != filter.Block || v.Names.Answer != filter.Refused || v.Reason.Rule != "limit of queries 2/1m by "+test.by) {
					t.Errorf("the third: %+v, want it refused: %v", v, test.over)
				}
				if refused(t, e, page{host: "a.example"}, 0, 0) {
					t.Error("a page was refused: queries count as requests")
				}
				time.Sleep(2 * time.Minute)
				if v := queried(t, e, test.third, "a.example"); v.After > 0 {
					t.Errorf("query after two minutes: got %+v, want it not refused", v)
				}
			})
		})
	}
}

func TestNamesOfAQuotaThatIsUsedUpAreBlocked(t *testing.T) {
	hour, anna := Duration(time.Hour), filter.Client{User: "anna"}
	for name, test := range map[string]struct {
		quota Quota
		query bool // counts queries instead of page requests
		often int  // minutes before it is used up; 0: never
	}{
		"by a page":                     {Quota{Category: Names{"grey"}, Bytes: 100}, false, 1},
		"by a page, minutes":            {Quota{Category: Names{"grey"}, Time: hour}, false, 60},
		"by queries":                    {Quota{Category: Names{"grey"}, Time: hour, Queries: new(true)}, true, 60},
		"queries of a silent client":    {Quota{Category: Names{"grey"}, Time: hour}, true, 60},
		"queries that shall not count":  {Quota{Category: Names{"grey"}, Time: hour, Queries: new(false)}, true, 0},
		"of another category":           {Quota{Category: Names{"adult"}, Time: hour, Queries: new(true)}, true, 0},
		"of everything, by the queries": {Quota{Time: hour, Queries: new(true)}, true, 60},
	} {
		t.Run(name, func(t *testing.T) {
			counted(t, Policy{Quotas: []Quota{test.quota}, DNS: DNS{Answer: filter.NXDomain}}, func(t *testing.T, e *Engine) {
				n := 0
				for ; n < 100; n++ {
					if v := queried(t, e, anna, "example.com"); v.After > 0 {
						break
					}
					if !test.query {
						refused(t, e, page{client: anna}, time.Minute, 100)
					} else {
						queried(t, e, anna, "example.com")
						time.Sleep(time.Minute)
					}
				}
				if n != test.often && (test.often > 0 || n != 100) {
					t.Fatalf("used up after %d minutes, want %d", n, test.often)
				}
				if test.often == 0 {
					return
				}
				if v := queried(t, e, anna, "example.com"); v.Action != filter.Block || v.Reason.Finding.Category != "quota" || v.Names.Answer != filter.NXDomain {
					t.Errorf("%+v, want it blocked by the quota, as the policy blocks", v)
				}
				if v := queried(t, e, filter.Client{User: "ben"}, "example.com"); v.Final() {
					t.Errorf("query of another user: got %+v, want it not refused", v)
				}
				time.Sleep(13 * time.Hour)
				if v := queried(t, e, anna, "example.com"); v.Final() {
					t.Errorf("query on the next day: got %+v, want it not refused", v)
				}
			})
		})
	}
}

// TestNamesCountForClientsOfWhichNothingElseIsKnown: for a day.
func TestNamesCountForClientsOfWhichNothingElseIsKnown(t *testing.T) {
	tv, pc := filter.Client{User: "kids", Addr: netip.MustParseAddr("10.0.0.7")}, filter.Client{User: "kids", Addr: netip.MustParseAddr("10.0.0.8")}
	counted(t, Policy{Quotas: []Quota{{Category: Names{"grey"}, Time: Duration(time.Hour)}}}, func(t *testing.T, e *Engine) {
		balance := func() filter.Balance {
			_, left := e.Balance(t.Context(), "", &pc, time.Now())
			return left[0]
		}
		refused(t, e, page{client: pc, host: "grey.example"}, time.Minute, 1)
		for range 5 {
			queried(t, e, pc, "grey.example")
			time.Sleep(time.Minute)
		}
		if b := balance(); b.Used != 1 || b.Names {
			t.Errorf("of a client that sends requests names were counted: %+v", b)
		}
		for range 5 {
			queried(t, e, tv, "grey.example")
			queried(t, e, tv, "grey.example")
			time.Sleep(time.Minute)
		}
		if b := balance(); b.Used != 6 {
			t.Errorf("%+v, want 6 minutes of both", b)
		}
		if _, left := e.Balance(t.Context(), "", &tv, time.Now()); !left[0].Names {
			t.Errorf("%+v does not say that it was counted by names", left)
		}
		time.Sleep(24 * time.Hour)
		queried(t, e, pc, "grey.example")
		if b := balance(); b.Used != 1 || !b.Names {
			t.Errorf("on a day without a request: %+v", b)
		}
	})
}

// TestAnswersAboutNamesHoldUntilTheNextChange that a schedule or a quota may bring.
func TestAnswersAboutNamesHoldUntilTheNextChange(t *testing.T) {
	bedtime := Rule{Name: "bedtime", Action: "block", Schedule: Schedule{{Hours: "12:10-13:00"}}}
	for name, tt := range map[string]struct {
		policy Policy
		want   []time.Duration // at noon, five minutes later …; 0: for as long as one likes
	}{
		"nothing changes":  {Policy{}, []time.Duration{0, 0}},
		"a rule":           {Policy{Rules: []Rule{bedtime}}, []time.Duration{10 * time.Minute, 5 * time.Minute, 50 * time.Minute, 45 * time.Minute}},
		"a policy":         {Policy{Schedule: Schedule{{Hours: "00:00-12:03"}}}, []time.Duration{3 * time.Minute}},
		"nothing for long": {Policy{Rules: []Rule{{Name: "night", Action: "block", Schedule: Schedule{{Hours: "23:00-24:00"}}}}}, []time.Duration{time.Hour, 55 * time.Minute}},
		"a quota by names": {Policy{Quotas: []Quota{{Time: Duration(time.Hour)}}}, []time.Duration{time.Minute, time.Minute}},
		"a quota":          {Policy{Quotas: []Quota{{Time: Duration(20 * time.Minute), Queries: new(false)}}}, []time.Duration{20 * time.Minute}},
		"of other names":   {Policy{Quotas: []Quota{{Category: Names{"adult"}, Time: Duration(time.Hour)}}}, []time.Duration{0}},
	} {
		t.Run(name, func(t *testing.T) {
			counted(t, tt.policy, func(t *testing.T, e *Engine) {
				for i, want := range tt.want {
					if got := queried(t, e, client("10.0.0.7"), "a.example").Holds; got != want {
						t.Errorf("answer %d holds for %v, want %v", i, got, want)
					}
					time.Sleep(5 * time.Minute)
				}
			})
		})
	}
}

// TestAnswersAboutNamesHoldUntilAPauseOrADecisionEnds, also where the pause lifts what a person has blocked.
func TestAnswersAboutNamesHoldUntilAPauseOrADecisionEnds(t *testing.T) {
	counted(t, Policy{Rules: []Rule{{Name: "night", Action: "block", Schedule: Schedule{{Hours: "12:30-13:00"}}}}}, func(t *testing.T, e *Engine) {
		in := func(d time.Duration) time.Time { return time.Now().Add(d) }
		e.pauses, e.decided = &Pauses{}, &Decisions{}
		for name, tt := range map[string]struct {
			pauses    []Pause
			decisions []Decision
			want      time.Duration
		}{
			"neither":                      {nil, nil, 30 * time.Minute},
			"a pause":                      {[]Pause{{"", in(10 * time.Minute)}}, nil, 10 * time.Minute},
			"a pause for longer":           {[]Pause{{"", in(time.Hour)}}, nil, 30 * time.Minute},
			"a pause for others":           {[]Pause{{"10.0.0.8", in(10 * time.Minute)}}, nil, 30 * time.Minute},
			"two pauses":                   {[]Pause{{"", in(10 * time.Minute)}, {"10.0.0.7", in(20 * time.Minute)}}, nil, 20 * time.Minute},
			"an open site":                 {nil, []Decision{{Site: "a.example", Until: in(15 * time.Minute)}}, 15 * time.Minute},
			"a blocked site":               {nil, []Decision{{Site: "a.example", Block: true, Until: in(15 * time.Minute)}}, 15 * time.Minute},
			"a site blocked for good":      {nil, []Decision{{Site: "a.example", Block: true}}, 30 * time.Minute},
			"another site":                 {nil, []Decision{{Site: "b.example", Until: in(15 * time.Minute)}}, 30 * time.Minute},
			"a blocked site, but a pause":  {[]Pause{{"", in(10 * time.Minute)}}, []Decision{{Site: "a.example", Block: true}}, 10 * time.Minute},
			"an open site, and a pause":    {[]Pause{{"", in(10 * time.Minute)}}, []Decision{{Site: "a.example", Until: in(15 * time.Minute)}}, 10 * time.Minute},
			"an open site and its network": {nil, []Decision{{Who: "10.0.0.0/8", Site: "a.example", Until: in(time.Minute)}}, time.Minute},
		} {
			e.pauses.Set(tt.pauses)
			e.decided.Set(tt.decisions)
			if got := queried(t, e, client("10.0.0.7"), "a.example").Holds; got != tt.want {
				t.Errorf("%s: an answer holds for %v, want %v", name, got, tt.want)
			}
		}
	})
}

// A blind counter does not know the counts of others.
type blind struct{}

func (blind) Count(_ context.Context, counts []state.Count) {
	for i := range counts {
		counts[i].Sum += counts[i].Add
	}
}
func (blind) CountHere([]state.Count) {}

func TestOnLoss(t *testing.T) {
	for _, on := range []OnLoss{"", "open", "closed"} {
		for kind, p := range map[string]Policy{
			"limit of queries": {Name: "p", Limits: []Limit{{Queries: Rate{2, time.Minute}, OnLoss: on}}},
			"quota":            {Name: "p", Quotas: []Quota{{Bytes: 5, OnLoss: on}}},
		} {
			v := queried(t, newEngineOf(t, Config{p}, Parts{Counter: blind{}}, list(nil)), filter.Client{}, "a.example")
			if got := v.After > 0; got != (on == "closed") {
				t.Errorf("DNS query, %s, on-loss %q: refused %v", kind, on, got)
			}
		}
		for kind, p := range map[string]Policy{
			"limit": {Name: "p", Limits: []Limit{{Requests: Rate{2, time.Minute}, OnLoss: on}}},
			"quota": {Name: "p", Quotas: []Quota{{Bytes: 5, OnLoss: on}}},
		} {
			tr, _ := page{}.judge(t, newEngineOf(t, Config{p}, Parts{Counter: blind{}}, list(nil)))
			if got := tr.Verdict.After > 0; got != (on == "closed") {
				t.Errorf("page, %s, on-loss %q: refused %v", kind, on, got)
			}
		}
	}
}

func TestExplainingCountsNothing(t *testing.T) {
	counted(t, Policy{Limits: []Limit{{Requests: Rate{1, time.Minute}}}}, func(t *testing.T, e *Engine) {
		d, err := e.As("p")
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if tr, _ := (page{start: time.Now()}).judge(t, d); tr.Verdict.Final() {
				t.Errorf("page without a Counter: got %+v, want it not refused", tr.Verdict)
			}
		}
	})
}

func TestMistakesInLimitsAreNamed(t *testing.T) {
	rate := Rate{1, time.Minute}
	for want, p := range map[string]Policy{
		"[0].limits[0].requests: ":                        {Limits: []Limit{{}}},
		"[0].limits[0].by: ":                              {Limits: []Limit{{Requests: rate, By: "us"}}},
		"[0].limits[0].on-loss: ":                         {Limits: []Limit{{Requests: rate, OnLoss: "shut"}}},
		"[0].limits[0].prefix: -1":                        {Limits: []Limit{{Requests: rate, Prefix: -1}}},
		"[0].limits[0].prefix: 129":                       {Limits: []Limit{{Requests: rate, Prefix: 129}}},
		"[0].limits[0].prefix: 56":                        {Limits: []Limit{{Requests: rate, Prefix: 56, By: "host"}}},
		"[0].warn-on-loss: ":                              {WarnOnLoss: "shut"},
		"[0].quotas[0].time: a quota":                     {Quotas: []Quota{{}}},
		"[0].quotas[0].time: 1s":                          {Quotas: []Quota{{Time: Duration(time.Second)}}},
		"[0].quotas[0].by: ":                              {Quotas: []Quota{{Bytes: 1, By: "host"}}},
		"[0].limits[0].queries: ":                         {Limits: []Limit{{Requests: rate, Queries: rate}}},
		"[0].quotas[0].queries: ":                         {Quotas: []Quota{{Bytes: 1, Queries: new(true)}}},
		"[0].quotas[0].over: -1 is below 0":               {Quotas: []Quota{{Bytes: 1, Category: Names{"phrase"}, Over: over(-1)}}},
		"[0].quotas[0].over: ":                            {Quotas: []Quota{{Bytes: 1, Category: Names{"grey"}, Over: over(5)}}},
		"[0].quotas[0].category[0]: \"phrase\" is scored": {Quotas: []Quota{{Bytes: 1, Category: Names{"phrase"}}}},
		"[0].quotas[0].category[1]: ":                     {Quotas: []Quota{{Bytes: 1, Category: Names{"grey", "gray"}}}},
	} {
		p.Name = "p"
		if _, err := New(Config{p}, []filter.Check{list(nil), phrases(1)}, Parts{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("New returned %v, want %s…", err, want)
		}
	}
}

func FuzzRate(f *testing.F) {
	f.Add("100/1m")
	f.Add("5GB")
	f.Fuzz(func(t *testing.T, s string) {
		var r Rate
		if r.UnmarshalText([]byte(s)) == nil {
			var again Rate
			if err := again.UnmarshalText([]byte(r.String())); err != nil || again != r {
				t.Errorf("rate %q is %v, which was read as %v, %v", s, r, again, err)
			}
		}
		var n Size
		if n.UnmarshalText([]byte(s)) == nil && n < 0 {
			t.Errorf("size %q was read as %d bytes", s, n)
		}
	})
}

// A slow check takes its time for every body, and counts bodies.
type slow struct {
	fake
	judged atomic.Int64
}

func (s *slow) Find(ctx context.Context, t *filter.Transaction, at filter.Stage, dst []filter.Finding) ([]filter.Finding, error) {
	if at == filter.ResponseBody {
		s.judged.Add(1)
		time.Sleep(100 * time.Millisecond)
	}
	return s.fake.Find(ctx, t, at, dst)
}

func TestAStampedeIsScoredOnce(t *testing.T) {
	for name, score := range map[string]int{"passes": 1, "is blocked": 99} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, err := state.New(state.Config{})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				c := &slow{fake: *phrases(score)}
				e := newEngineOf(t, Config{{Name: "p", Rules: []Rule{words}, Learn: Learn{Duration(time.Hour)}}}, Parts{Memory: m, Revision: "1"}, c)
				var wg sync.WaitGroup
				for range 100 {
					wg.Go(func() {
						var r content.Body
						r.Reset(content.Describe("text/html", ""), content.Limits{})
						r.Append([]byte("hello"))
						r.Finish()
						tr := &filter.Transaction{Host: "example.com", URL: "http://example.com/", Last: filter.ResponseBody, Request: &message.Request{Method: "GET", Path: []byte("/")}}
						for _, s := range []filter.Stage{filter.Name, filter.Request} {
							e.Decide(t.Context(), tr, s)
						}
						tr.Response = &message.Response{Status: 200, Fields: fields([]string{"Content-Type", "text/html", "ETag", "1"})}
						e.Decide(t.Context(), tr, filter.Response)
						tr.Body = &r
						e.Decide(t.Context(), tr, filter.ResponseBody)
						v := tr.Verdict
						if (v.Action == filter.Block) != (score == 99) {
							t.Errorf("concurrent verdict on the same body: got %+v", v)
						}
					})
				}
				wg.Wait()
				if n := c.judged.Load(); n != 1 {
					t.Errorf("the check scored the body %d times, want once", n)
				}
			})
		})
	}
}

// TestErasedCountersBeginAnew: limits, queries and quotas are reset for a user and
// for a device, but for no other.
func TestErasedCountersBeginAnew(t *testing.T) {
	anna, ben := filter.Client{User: "anna", Addr: netip.MustParseAddr("10.0.0.1")}, filter.Client{User: "ben", Addr: netip.MustParseAddr("10.0.0.2")}
	for name, p := range map[string]Policy{
		"a limit of a user":   {Limits: []Limit{{Requests: Rate{1, time.Hour}, By: "user"}}},
		"a limit of a device": {Limits: []Limit{{Requests: Rate{1, time.Hour}, By: "client"}}},
		"a quota of a user":   {Quotas: []Quota{{Bytes: 10, By: "user"}}},
	} {
		t.Run(name, func(t *testing.T) {
			counted(t, p, func(t *testing.T, e *Engine) {
				for _, c := range []filter.Client{anna, ben} {
					refused(t, e, page{client: c}, 0, 100)
					if !refused(t, e, page{client: c}, 0, 100) {
						t.Fatalf("quota of %s: the request was not refused", c.User)
					}
				}
				keys := e.Counters([]string{"anna"}, []netip.Addr{anna.Addr}, time.Now())
				if err := e.counter.(interface {
					Forget(context.Context, ...[16]byte) error
				}).Forget(t.Context(), keys...); err != nil {
					t.Fatal(err)
				}
				if refused(t, e, page{client: anna}, 0, 100) {
					t.Error("the use before the erasure still counts")
				}
				if !refused(t, e, page{client: ben}, 0, 100) {
					t.Error("the erasure removed the use of another user")
				}
			})
		})
	}
}
