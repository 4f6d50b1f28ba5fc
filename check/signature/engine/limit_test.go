package engine

import (
	"strings"
	"testing"
	"time"

	"shuultuur/check/signature/rule"
)

// TestAMessageHasOneBudgetForAllItsSteps gives a message whose head took all the
// time a body that a rule would match.
func TestAMessageHasOneBudgetForAllItsSteps(t *testing.T) {
	rules, mistakes, err := rule.NewParser().Read("a.rules", strings.NewReader(`alert http any any -> any any (http.request_body; content:"root"; sid:1;)`))
	if err != nil || len(mistakes) > 0 {
		t.Fatal(err, mistakes)
	}
	for _, spent := range []time.Duration{0, 2 * messageTime} {
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
			t.Errorf("%v spent: %d alerts, over %v, counted %d", spent, len(alerts), tx.Over.Message, e.Counters().OverMessage.Value())
		}
	}
}
