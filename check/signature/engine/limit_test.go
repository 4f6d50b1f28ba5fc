package engine

import (
	"slices"
	"strings"
	"testing"

	"shuultuur/check/signature/rule"
	"shuultuur/test/race"
)

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
		h := &HTTP{}
		tx := &Tx{Flow: &Flow{}, Source: h, App: HTTP1, L4: TCP}
		side := &h.Sides[0]
		side.Method, side.Target, side.Line, side.At = []byte("POST"), []byte("/"), []byte("POST / HTTP/1.1"), rule.Headers
		alerts := e.Inspect(tx, rule.ToServer, rule.Headers, nil)
		tx.dir[0].spent += spent
		side.Body, side.HasBody, side.At = []byte("user=root"), true, rule.Body
		for _, at := range []rule.Progress{rule.Body, rule.Complete} {
			side.At = at
			alerts = e.Inspect(tx, rule.ToServer, at, alerts)
		}
		if over := spent > 0; len(alerts) > 0 == over || tx.Over.Message != over || e.Counters().OverMessage.Value() > 0 != over || e.Counters().OverMessage.Value() > 1 {
			t.Errorf("with %d spent: %d alerts, over %v, counted %d", spent, len(alerts), tx.Over.Message, e.Counters().OverMessage.Value())
		}
	}
}

// TestLimitsAreReadAndMistakesNameTheirPlace reads lines of threshold.config.
func TestLimitsAreReadAndMistakesNameTheirPlace(t *testing.T) {
	got, err := ReadLimits("threshold.config", strings.NewReader("# none\nsuppress\tgen_id 1,\tsig_id\t7, track by_src, \\\n ip [10.0.0.0/8,!10.1.1.1]\n"))
	if err != nil || len(got) != 1 || got[0].GID != 1 || got[0].SID != 7 || got[0].Addresses != "[10.0.0.0/8,!10.1.1.1]" {
		t.Errorf("ReadLimits returned %+v, %v", got, err)
	}
	for line, want := range map[string]string{
		"suppress gen_id 1, sig_id x": `threshold.config:2: sig_id "x" is not a number`,
		"limit gen_id 1, sig_id 2":    `threshold.config:2: "limit" is not threshold, rate_filter or suppress`,
		"threshold gen_id 1, track x": `threshold.config:2: track "x"`,
		"threshold gen_id 1, sig_id 1, type limits, track by_src, count 1, seconds 60":                     `threshold.config:2: type "limits" is not`,
		"threshold gen_id 1, sig_id 1, type limit, track by_src, seconds 60":                               `threshold.config:2: threshold has no count`,
		"threshold gen_id 1, sig_id 1, type backoff, track by_flow, count 1, seconds 60":                   `threshold.config:2: threshold has no multiplier`,
		"rate_filter gen_id 1, sig_id 1, track by_src, count 1, seconds 60, new_action explode, timeout 3": `threshold.config:2: new_action "explode" is not`,
		"rate_filter gen_id 1, sig_id 1, track by_src, count 1, seconds 60, new_action drop":               `threshold.config:2: rate_filter has no timeout`,
		"suppress gen_id 1, sig_id 1, track by_src":                                                        `threshold.config:2: suppress has either both`,
		"suppress sig_id 1": `threshold.config:2: suppress has no gen_id`,
	} {
		if _, err := ReadLimits("threshold.config", strings.NewReader("\n"+line)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("reading the line %s: %v, want %s", line, err, want)
		}
	}
}

// TestOneThresholdAppliesToARule has rules with a threshold of their own, lines for one of them
// and lines for all.
func TestOneThresholdAppliesToARule(t *testing.T) {
	limits, err := ReadLimits("threshold.config", strings.NewReader(`
threshold gen_id 1, sig_id 1, type limit, track by_src, count 1, seconds 60
threshold gen_id 1, sig_id 2, type limit, track by_src, count 4, seconds 60
threshold gen_id 1, sig_id 2, type limit, track by_src, count 3, seconds 60
threshold gen_id 0, sig_id 0, type threshold, track by_src, count 2, seconds 60
threshold gen_id 1, sig_id 0, type threshold, track by_src, count 5, seconds 60
`))
	if err != nil {
		t.Fatal(err)
	}
	rules, mistakes, err := rule.NewParser().Read("a.rules", strings.NewReader(`
alert tcp any any -> any any (content:"a"; sid:1;)
alert tcp any any -> any any (content:"a"; threshold:type limit,track by_src,count 1,seconds 60; sid:2;)
alert tcp any any -> any any (content:"a"; threshold:type limit,track by_src,count 5,seconds 60; sid:3;)
alert tcp any any -> any any (content:"a"; sid:4;)
`))
	if err != nil || len(mistakes) > 0 {
		t.Fatal(err, mistakes)
	}
	e, _, err := New(Config{Rules: rules, Limits: limits, Packets: true})
	if err != nil {
		t.Fatal(err)
	}
	shown := map[uint32]int{}
	for range 6 {
		for _, a := range e.Try(packetTx("10.0.0.1", "10.0.0.2", "a", &Flow{}), rule.ToServer, true, nil) {
			if !a.Silent {
				shown[a.SID]++
			}
		}
	}
	for sid, want := range map[uint32]int{1: 1, 2: 3, 3: 5, 4: 3} {
		if shown[sid] != want {
			t.Errorf("sid %d: %d of 6 alerts are shown, want %d", sid, shown[sid], want)
		}
	}
}

// TestANumberWithoutALengthIsAsLongAsItIs tries byte_test with 0 bytes of digits, as public
// rules do for Content-Length.
func TestANumberWithoutALengthIsAsLongAsItIs(t *testing.T) {
	e := build(t,
		`alert tcp any any -> any any (byte_test:0,=,26,0,string,dec; sid:1;)`,
		`alert tcp any any -> any any (byte_test:0,>=,200,0,string,dec; sid:2;)`,
		`alert tcp any any -> any any (content:"n="; byte_test:0,<,1000,0,relative,string,dec; sid:3;)`)
	for data, want := range map[string][]uint32{"26": {1}, "200": {2}, "4000000": {2}, "": nil, "x": nil, "n=999;": {3}, "n=1000": nil} {
		if got := sids(e.Try(packetTx("10.0.0.1", "10.0.0.2", data, &Flow{}), rule.ToServer, true, nil)); !slices.Equal(got, want) {
			t.Errorf("the payload %q matched the rules %v, want %v", data, got, want)
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
		tx := packetTx("10.0.0.1", "10.0.0.2", x.data, &Flow{})
		alerts := e.Try(tx, rule.ToServer, true, nil)
		if len(alerts) > 0 != x.alert || len(tx.Over.Rules) != x.over || int(e.Counters().OverRule.Value()) != x.over {
			t.Errorf("%s on %.10s…: %d alerts, given up %v, counted %d; want %v, %d", x.rule, x.data, len(alerts), tx.Over.Rules, e.Counters().OverRule.Value(), x.alert, x.over)
		}
	}
}
