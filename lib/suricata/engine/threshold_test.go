package engine

import (
	"slices"
	"strings"
	"testing"

	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/state"
)

// TestOneThresholdAppliesToARule has rules with a threshold of their own, lines for one of them
// and lines for all.
func TestOneThresholdAppliesToARule(t *testing.T) {
	limits, err := state.ReadLimits("threshold.config", strings.NewReader(`
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
		for _, a := range e.Try(packetTx("10.0.0.1", "10.0.0.2", "a", &state.Flow{}), rule.ToServer, true, nil) {
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
		if got := sids(e.Try(packetTx("10.0.0.1", "10.0.0.2", data, &state.Flow{}), rule.ToServer, true, nil)); !slices.Equal(got, want) {
			t.Errorf("the payload %q matched the rules %v, want %v", data, got, want)
		}
	}
}
