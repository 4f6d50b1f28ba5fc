package engine

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/state"
	"shuultuur/lib/suricata/traffic"
	"shuultuur/test/race"
)

// TestHostileRulesEndWithTheMessagesBudget tries many rules that each take all the time
// permitted for a search. A few of them use up the budget of a message.
func TestHostileRulesEndWithTheMessagesBudget(t *testing.T) {
	for name, options := range map[string]string{
		"backtracking": `http.request_body; content:"aa"; pcre:"/(a+)+b(?=x)%d/";`,
		"short":        `http.request_line; content:"GET /"; pcre:"/(a+)+b(?=x)%d/";`,
		"transforms":   `http.request_body; pcrexform:"((a+)+b(?=x)%d)"; content:"b";`,
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			for i := range 40 {
				fmt.Fprintf(&text, "alert http any any -> any any ("+options+" sid:%d;)\n", i, i+1)
			}
			rules, _, err := rule.NewParser().Read("a.rules", strings.NewReader(text.String()))
			if err != nil {
				t.Fatal(err)
			}
			e, mistakes, err := New(Config{Rules: rules, Trace: true})
			if err != nil || len(mistakes) > 0 {
				t.Fatal(err, mistakes)
			}
			line := []byte("GET /" + strings.Repeat("a", 60) + " HTTP/1.1")
			h := &traffic.HTTP{}
			h.Sides[0] = traffic.Side{Line: line, Method: []byte("GET"), Target: line[4:65], Body: bytes.Repeat([]byte("a"), 1000), HasBody: true, At: rule.Complete}
			tx := &Tx{Flow: &state.Flow{}, Source: h.Joined(), App: rule.HTTP1, L4: rule.TCP}
			e.Inspect(tx, rule.ToServer, rule.Complete, nil)
			n := e.Counters()
			if got := n.OverRule.Load(); !tx.Over.Message || got > 10 {
				t.Errorf("%d of 40 searches were given up, and the message %v; each takes 20 ms of 50", got, tx.Over.Message)
			}
			traces := e.Traces()
			if last := traces[len(traces)-1]; !strings.HasSuffix(last.Failed, "used up a message's time") {
				t.Errorf("the last rule was not tried, and its trace says %q", last.Failed)
			}
		})
	}
}

// TestAMessageHasOneBudgetForAllItsSteps: when the head of a message has used up the budget, a
// rule that would match the body is not tried.
func TestAMessageHasOneBudgetForAllItsSteps(t *testing.T) {
	rules, mistakes, err := rule.NewParser().Read("a.rules", strings.NewReader(`alert http any any -> any any (http.request_body; content:"root"; sid:1;)`))
	if err != nil || len(mistakes) > 0 {
		t.Fatal(err, mistakes)
	}
	for _, spent := range []int{0, 2 * messageWork} {
		e, _, err := New(Config{Rules: rules})
		if err != nil {
			t.Fatal(err)
		}
		h := &traffic.HTTP{}
		tx := &Tx{Flow: &state.Flow{}, Source: h, App: rule.HTTP1, L4: rule.TCP}
		side := &h.Sides[0]
		side.Method, side.Target, side.Line, side.At = []byte("POST"), []byte("/"), []byte("POST / HTTP/1.1"), rule.Headers
		alerts := e.Inspect(tx, rule.ToServer, rule.Headers, nil)
		tx.dir[0].spent += spent
		side.Body, side.HasBody, side.At = []byte("user=root"), true, rule.Body
		for _, at := range []rule.Progress{rule.Body, rule.Complete} {
			side.At = at
			alerts = e.Inspect(tx, rule.ToServer, at, alerts)
		}
		if over := spent > 0; len(alerts) > 0 == over || tx.Over.Message != over || e.Counters().OverMessage.Load() > 0 != over || e.Counters().OverMessage.Load() > 1 {
			t.Errorf("with %d spent: %d alerts, over %v, counted %d", spent, len(alerts), tx.Over.Message, e.Counters().OverMessage.Load())
		}
	}
}

// TestARuleIsGivenUpByItsWork: a rule that does more than permitted is given up,
// independently of the clock; earlier matches count.
func TestARuleIsGivenUpByItsWork(t *testing.T) {
	race.Without(t) // a backtracking expression has 20 ms by the clock
	long := strings.Repeat("ab", 400<<10)
	for _, x := range []struct {
		rule, data string
		alert      bool
		over       int
	}{
		{`pcre:"/a.{3}x/s"; content:"a"`, long, false, 1},
		{`pcre:"/ab$/"; content:"a"`, long, false, 1}, // its end was not looked at
		{`pcre:"/a.{3}x/s"; content:"a"`, "abbbx" + long, true, 0},
		{`content:"a"; content:"c"; distance:0; content:"d"; within:1`, strings.Repeat("ac", 4000), false, 1},
		{`content:"a"; pcre:"/(?<!x)b(?=c)/R"`, strings.Repeat("ab", 100), false, 0},
	} {
		e := build(t, `alert tcp any any -> any any (`+x.rule+`; sid:1;)`)
		tx := packetTx("10.0.0.1", "10.0.0.2", x.data, &state.Flow{})
		alerts := e.Try(tx, rule.ToServer, true, nil)
		if len(alerts) > 0 != x.alert || len(tx.Over.Rules) != x.over || int(e.Counters().OverRule.Load()) != x.over {
			t.Errorf("%s on %.10s…: %d alerts, given up %v, counted %d; want %v, %d", x.rule, x.data, len(alerts), tx.Over.Rules, e.Counters().OverRule.Load(), x.alert, x.over)
		}
	}
}
