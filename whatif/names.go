package whatif

import (
	"context"
	"strings"

	"shuultuur/filter"
)

// OwnNames passes the names that the name server answers from the settings, or
// with the answer of a list's rule, instead of refusing them.
type OwnNames struct {
	filter.Decider
	Own func(name string) bool
}

// Decide implements [filter.Decider].
func (d OwnNames) Decide(ctx context.Context, t *filter.Transaction, stage filter.Stage) {
	if t.Proto == filter.DNS && d.Own(t.Host) {
		t.Verdict.Reason.Rule = "dns: hosts"
		return
	}
	d.Decider.Decide(ctx, t, stage)
	if v := &t.Verdict; t.Proto == filter.DNS && v.Action == filter.Block && strings.HasPrefix(v.Reason.Finding.Modifier, "dnsrewrite=NOERROR") {
		v.Action = filter.Pass // it is answered as the rule demands
	}
}
