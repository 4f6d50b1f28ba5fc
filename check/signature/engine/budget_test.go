package engine

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"shuultuur/check/signature/rule"
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
			h := &HTTP{}
			h.Sides[0] = Side{Line: line, Method: []byte("GET"), Target: line[4:65], Body: bytes.Repeat([]byte("a"), 1000), HasBody: true, At: rule.Complete}
			tx := &Tx{Flow: &Flow{}, Source: h.Joined(), App: HTTP1, L4: TCP}
			e.Inspect(tx, rule.ToServer, rule.Complete, nil)
			n := e.Counters()
			if got := n.OverRule.Value(); !tx.Over.Message || got > 10 {
				t.Errorf("%d of 40 searches were given up, and the message %v; each takes 20 ms of 50", got, tx.Over.Message)
			}
			traces := e.Traces()
			if last := traces[len(traces)-1]; !strings.HasSuffix(last.Failed, "used up a message's time") {
				t.Errorf("the last rule was not tried, and its trace says %q", last.Failed)
			}
		})
	}
}
