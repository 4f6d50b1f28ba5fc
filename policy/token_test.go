package policy

import (
	"encoding/base64"
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/state"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// clicked returns the token that a click on the warn page of t produces.
func clicked(t testing.TB, e *Engine, tr *filter.Transaction) string {
	t.Helper()
	token, err := e.Accept(t.Context(), tr, tr.Verdict.To)
	if err != nil {
		t.Fatalf("click on the page of %+v: %v", tr.Verdict, err)
	}
	return token
}

func TestAClickCountsOnce(t *testing.T) {
	counted(t, Policy{Rules: []Rule{{Name: "w", Action: "warn", Category: cats("grey"), WarnFor: Duration(10 * time.Minute)}}}, func(t *testing.T, e *Engine) {
		ask := func() *filter.Transaction {
			time.Sleep(time.Nanosecond)
			tr, _ := page{start: time.Now()}.judge(t, e)
			return tr
		}
		asked := ask()
		if again := ask(); again.Verdict.To == asked.Verdict.To {
			t.Error("two warn pages have the same token")
		}
		cookie := clicked(t, e, asked)
		for _, test := range []struct {
			what, token string
			change      func(*filter.Transaction)
			want        error
		}{
			{"a second click", asked.Verdict.To, nil, errSpent},
			{"one by another client", ask().Verdict.To, func(t *filter.Transaction) { t.Client = client("10.9.9.9") }, errNoClick},
			{"one on another host", ask().Verdict.To, func(t *filter.Transaction) { t.Host = "other.example" }, errNoClick},
			{"one that comes too late", ask().Verdict.To, func(t *filter.Transaction) { t.Start = t.Start.Add(10 * time.Minute) }, errNoClick},
			{"what is in the cookie", cookie, nil, errNoClick},
			{"what is no token", "x", nil, errNoClick},
			{"another page's", ask().Verdict.To, nil, nil},
		} {
			tr := ask()
			if test.change != nil {
				test.change(tr)
			}
			if got, err := e.Accept(t.Context(), tr, test.token); err != test.want || (got == "") != (err != nil) {
				t.Errorf("%s: Accept returned %q, %v; want %v", test.what, got, err, test.want)
			}
		}
		// The page was open for a while; the time begins with the click.
		asked = ask()
		time.Sleep(9 * time.Minute)
		asked.Start = time.Now()
		cookie = clicked(t, e, asked)
		for passed, want := range map[time.Duration]filter.Action{9 * time.Minute: filter.Pass, 10 * time.Minute: filter.Warn} {
			p := page{start: asked.Start.Add(passed), request: []string{"Cookie", "shuultuur=" + cookie}}
			if tr, _ := p.judge(t, e); tr.Verdict.Action != want {
				t.Errorf("%v after the click: got %v, want %v", passed, tr.Verdict.Action, want)
			}
		}
	})
}

func TestAClickWithoutTheFleet(t *testing.T) {
	for on, want := range map[OnLoss]error{"": nil, "open": nil, "closed": errUnknown} {
		e := newEngineOf(t, Config{{Name: "p", WarnOnLoss: on, Rules: []Rule{{Name: "w", Action: "warn"}}}}, Parts{Counter: blind{}}, list(nil))
		tr, _ := page{}.judge(t, e)
		if _, err := e.Accept(t.Context(), tr, tr.Verdict.To); err != want {
			t.Errorf("warn-on-loss %q: Accept returned %v, want %v", on, err, want)
		}
	}
}

func TestAFloodOfClientsLetsNoTokenBeSpentTwice(t *testing.T) {
	warn := Policy{Rules: []Rule{{Name: "w", Action: "warn", Category: cats("grey"), WarnFor: Duration(time.Hour)}}}
	counted(t, warn, func(t *testing.T, e *Engine) {
		ask := func() *filter.Transaction {
			time.Sleep(time.Nanosecond)
			tr, _ := page{start: time.Now()}.judge(t, e)
			return tr
		}
		spent, late := ask(), ask()
		clicked(t, e, spent)
		for i := range uint64(200_000) { // more than the counters have room for
			n := []state.Count{{Key: [16]byte(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, i*0x9e3779b97f4a7c15), i)), Until: time.Now().Add(time.Minute), Add: 1, Most: 1}}
			e.counter.Count(t.Context(), n)
		}
		for what, try := range map[string]struct {
			*filter.Transaction
			want error
		}{"spent before the flood": {spent, errSpent}, "not spent yet": {late, errUncounted}} {
			for range 2 {
				if _, err := e.Accept(t.Context(), try.Transaction, try.Verdict.To); err != try.want {
					t.Errorf("%s while counters are full: Accept returned %v, want %v", what, err, try.want)
				}
			}
		}
		time.Sleep(2 * time.Minute)
		late.Start = time.Now()
		clicked(t, e, late)
	})
}

func TestWarnTokens(t *testing.T) {
	rules := []Rule{
		{Name: "w", Action: "warn", Category: cats("adult"), WarnFor: Duration(10 * time.Minute)},
		{Name: "other", Action: "warn", Host: []string{"other.test"}, WarnFor: Duration(10 * time.Minute)},
	}
	checks := []filter.Check{list(map[filter.Stage][]string{filter.Name: {"adult"}})}
	key := []byte("a key of this gateway")
	engine := func(name string, key []byte) *Engine {
		return newEngineOf(t, Config{{Name: name, Rules: rules}}, Parts{Key: key}, checks...)
	}
	anna := filter.Client{Addr: netip.MustParseAddr("10.1.2.3"), User: "anna"}
	e := engine("p", key)
	asked, _ := page{client: anna, start: noon}.judge(t, e)
	if asked.Verdict.Action != filter.Warn || asked.Verdict.To == "" || strings.ContainsAny(asked.Verdict.To, ".;= ") {
		t.Fatalf("verdict %+v, want a warning with a token", asked.Verdict)
	}
	token := clicked(t, e, asked)
	flip := func(i int) string {
		b, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil {
			t.Fatal(err)
		}
		b[i] ^= 1
		return base64.RawURLEncoding.EncodeToString(b)
	}
	many := func(n int) string { return strings.Repeat("x.", n) + token }
	tests := map[string]struct {
		cookies  string
		page     page
		e        *Engine
		accepted bool
	}{
		"the one of the page":         {"shuultuur=" + asked.Verdict.To, page{client: anna, start: noon}, e, false},
		"the token":                   {"shuultuur=" + token, page{client: anna, start: noon}, e, true},
		"until its time is up":        {"shuultuur=" + token, page{client: anna, start: noon.Add(10*time.Minute - time.Second)}, e, true},
		"and no longer":               {"shuultuur=" + token, page{client: anna, start: noon.Add(10 * time.Minute)}, e, false},
		"from before it was made":     {"shuultuur=" + token, page{client: anna, start: noon.Add(-time.Hour)}, e, false},
		"among others":                {"a=b; shuultuur=zzz." + token + ".; c=d", page{client: anna, start: noon}, e, true},
		"the last that is looked at":  {"shuultuur=" + many(MaxTokens-1), page{client: anna, start: noon}, e, true},
		"too many":                    {"shuultuur=" + many(MaxTokens), page{client: anna, start: noon}, e, false},
		"in a second cookie":          {"shuultuur=x; shuultuur=" + token, page{client: anna, start: noon}, e, true},
		"another cookie":              {"shuultuur2=" + token, page{client: anna, start: noon}, e, false},
		"none":                        {"", page{client: anna, start: noon}, e, false},
		"altered sum":                 {"shuultuur=" + flip(20), page{client: anna, start: noon}, e, false},
		"altered time":                {"shuultuur=" + flip(7), page{client: anna, start: noon}, e, false},
		"cut":                         {"shuultuur=" + token[:len(token)-1], page{client: anna, start: noon}, e, false},
		"another site":                {"shuultuur=" + token, page{client: anna, start: noon, host: "www.example.org"}, e, false},
		"another address":             {"shuultuur=" + token, page{client: filter.Client{Addr: netip.MustParseAddr("10.1.2.4"), User: "anna"}, start: noon}, e, false},
		"another user":                {"shuultuur=" + token, page{client: filter.Client{Addr: anna.Addr}, start: noon}, e, false},
		"another policy":              {"shuultuur=" + token, page{client: anna, start: noon}, engine("q", key), false},
		"another key":                 {"shuultuur=" + token, page{client: anna, start: noon}, engine("p", nil), false},
		"the same after a reload":     {"shuultuur=" + token, page{client: anna, start: noon}, engine("p", key), true},
		"the same letters in another": {"shuultuur=" + token[:53] + "-", page{client: anna, start: noon}, e, strings.HasSuffix(token, "-")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.page.request = []string{"Cookie", test.cookies}
			tr, _ := test.page.judge(t, test.e)
			if got := tr.Verdict.Action == filter.Pass; got != test.accepted {
				t.Fatalf("got verdict %+v, want the click accepted: %v", tr.Verdict, test.accepted)
			}
			noted := 0
			for _, f := range tr.Findings {
				if f == (filter.Finding{Check: "policy", Category: "accepted", Evidence: "w"}) {
					noted++
				}
			}
			if (noted == 1) != test.accepted || noted > 1 {
				t.Errorf("findings %v, want it noted once: %v", tr.Findings, test.accepted)
			}
		})
	}
}

func TestATokenIsForOneRule(t *testing.T) {
	rules := []Rule{
		{Name: "first", Action: "warn", Category: cats("adult")},
		{Name: "second", Action: "warn", Category: cats("grey")},
	}
	e := newEngine(t, rules, list(map[filter.Stage][]string{filter.Name: {"adult", "grey"}}))
	p := page{start: noon}
	tr, _ := p.judge(t, e)
	first := tr.Verdict
	one := clicked(t, e, tr)
	p.request = []string{"Cookie", "shuultuur=" + one}
	tr, _ = p.judge(t, e)
	second := tr.Verdict
	if first.Reason.Rule != "first" || second.Reason.Rule != "second" || second.Action != filter.Warn {
		t.Fatalf("rules %q then %q, want first then second", first.Reason.Rule, second.Reason.Rule)
	}
	two := clicked(t, e, tr)
	p.request = []string{"Cookie", "shuultuur=" + two + "." + one}
	if tr, _ = p.judge(t, e); tr.Verdict.Action != filter.Pass {
		t.Errorf("verdict %+v, want a pass with both tokens", tr.Verdict)
	}
	// Pages behind an accepted warning still count.
	p.request = []string{"Cookie", "shuultuur=" + two}
	if tr, _ = p.judge(t, e); tr.Verdict.Reason.Rule != "first" {
		t.Errorf("verdict %+v, want the first warning", tr.Verdict)
	}
}

func FuzzToken(f *testing.F) {
	e := newEngineOf(f, Config{{Name: "p", Rules: []Rule{{Name: "w", Action: "warn", Category: cats("adult")}}}}, Parts{Key: []byte("k")},
		list(map[filter.Stage][]string{filter.Name: {"adult"}}))
	tr, _ := page{start: noon}.judge(f, e)
	good := clicked(f, e, tr)
	f.Add("shuultuur=" + good)
	f.Add("a=b; shuultuur=x." + good + "; c")
	f.Add("shuultuur=" + tr.Verdict.To)
	f.Add("shuultuur=;;=.;shuultuur=....")
	f.Fuzz(func(t *testing.T, cookie string) {
		tr := &filter.Transaction{Start: noon, Host: "example.com", Last: filter.Response, Request: &message.Request{Method: "GET"}}
		tr.Request.Add("Cookie", cookie)
		e.Decide(t.Context(), tr, filter.Name)
		e.Decide(t.Context(), tr, filter.Request)
		v := tr.Verdict
		if v.Action != filter.Warn && !strings.Contains(cookie, good) {
			t.Errorf("the forged cookie %q was accepted", cookie)
		}
	})
}

// TestAClickCoversTheSite: the page's pictures and scripts come from other hosts of it.
func TestAClickCoversTheSite(t *testing.T) {
	e := newEngine(t, []Rule{{Name: "w", Action: "warn", Host: []string{"shop.example", "other.example", "10.0.0.1"}}}, list(nil))
	tr, _ := page{host: "www.shop.example"}.judge(t, e)
	cookie := clicked(t, e, tr)
	for host, want := range map[string]filter.Action{
		"www.shop.example": filter.Pass, "shop.example": filter.Pass, "a.cdn.shop.example": filter.Pass, "other.example": filter.Warn, "10.0.0.1": filter.Warn,
	} {
		if tr, _ := (page{host: host, request: []string{"Cookie", "shuultuur=" + cookie}}).judge(t, e); tr.Verdict.Action != want {
			t.Errorf("%s after the click on www.shop.example: got %v, want %v", host, tr.Verdict.Action, want)
		}
	}
}
