package engine

import (
	"strings"
	"testing"

	"shuultuur/lib/suricata/rule"
)

// TestRulesOutsideAnyBufferInspectTheStream covers rules with a pattern, rules without one for
// a prefilter, and traces.
func TestRulesOutsideAnyBufferInspectTheStream(t *testing.T) {
	for _, tt := range []struct {
		options string
		want    bool
	}{
		{`content:"POST"; `, true},
		{`content:!"POST"; `, true},
		{`pcre:"/^[A-Z]+/"; `, true},
		{`http.method; content:"POST"; `, false},
	} {
		rules, _, err := rule.NewParser().Read("a.rules", strings.NewReader(`alert http any any -> any any (`+tt.options+`sid:1;)`))
		if err != nil {
			t.Fatal(err)
		}
		for _, trace := range []bool{false, true} {
			e, _, err := New(Config{Rules: rules, Packets: true, Trace: trace})
			if err != nil {
				t.Fatal(err)
			}
			if got := e.HasStream(rule.ToServer); got != tt.want {
				t.Errorf("%s, trace %v: the stream is looked at: %v, want %v", tt.options, trace, got, tt.want)
			}
		}
	}
}
