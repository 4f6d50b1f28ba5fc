package engine

import (
	"shuultuur/lib/suricata/index"
	"shuultuur/lib/suricata/match"
	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/state"
)

// An Alert reports a rule that matched.
type Alert struct {
	*rule.Rule
	Action   rule.Action // after rate_filter
	Priority int
	Class    *Class
	// Context has the values of JSON datasets for the values that matched.
	Context map[string]any
	// Entropy is the measured entropy of the message, by buffer.
	Entropy map[string]float64
	// Captures are the groups of expressions for the alert and for the packet.
	Captures []match.Capture
	// Silent alerts take effect but are hidden by a threshold.
	Silent bool

	due *state.Occurrence // not nil while thresholds must still be applied
}

// Settle applies thresholds to an alert of a Tx that is Unsettled.
func (e *Engine) Settle(a *Alert) {
	if m := a.due; m != nil {
		a.due = nil
		a.Silent = !e.limit(a, m) || a.Silent
	}
}

// limit applies thresholds to an alert. It returns false if there is no alert at all.
func (e *Engine) limit(a *Alert, m *state.Occurrence) bool {
	effect := e.state.Limit(e.limits, m)
	a.Silent = a.Silent || effect.Silent
	if effect.Changed {
		a.Action = effect.Action
	}
	return !effect.None
}

// Serial reports whether thresholds must be applied at once: those that change the action of a
// rule, or decide about a connection.
func (e *Engine) Serial() bool {
	if e.limits.ChangeActions() {
		return true
	}
	for _, k := range e.rules {
		if k.Action == rule.Pass && len(k.limits) > 0 {
			return true
		}
	}
	return e.config.Prevent
}

// matched carries out a rule that matched, and appends its alert.
func (w *work) matched(k *compiledRule, n int, dst []Alert) []Alert {
	tx := w.tx
	src, dstEnd := tx.ends(w.dir)
	w.flushCaptures()
	for _, x := range k.post {
		switch x := x.(type) {
		case *rule.Bit:
			for _, name := range x.Names {
				if x.Kind == "flow" || x.Track == "tx" {
					tx.Flow.Bit(x.Command, bitName(x, name, tx))
				} else {
					w.e.state.Bit(x, name, src.Addr(), dstEnd.Addr(), tx.Now)
				}
			}
		case *rule.Int:
			other := x.Value
			if x.Var != "" {
				other, _ = tx.Flow.Int(x.Var)
			}
			tx.Flow.SetInt(x.Name, func(old uint32, ok bool) uint32 {
				switch {
				case x.Op == "=":
					return other
				case x.Op == "-" && old < other:
					return 0
				case x.Op == "-":
					return old - other
				}
				return old + other
			})
		}
	}
	if k.Bypass { // like what changes bits, whether thresholds show the alert or not
		tx.Flow.Passed, tx.Flow.Bypassed = true, true
	}
	a := Alert{Rule: k.Rule, Action: k.Action, Priority: k.priority, Class: k.class, Context: w.context, Entropy: tx.measured}
	for _, c := range w.in.Captures {
		if c.Scope != "flow" {
			a.Captures = append(a.Captures, c)
		}
	}
	w.context = nil
	here := state.Occurrence{Rule: k.Rule, Own: k.limits, Src: src, Dst: dstEnd, Client: w.dir == rule.ToServer, Flow: tx.Flow, Now: tx.Now}
	if tx.Unsettled {
		a.due = &here
	} else if !w.e.limit(&a, &here) {
		return dst
	}
	if k.NoAlert || a.Action == rule.Config {
		a.Silent = true
	}
	switch {
	case a.Action == rule.Pass:
		tx.Flow.Passed = true
		a.Silent = a.Silent || !k.Alerts
	case a.Action < rule.Alert && k.wholeFlow(tx):
		tx.Flow.Dropped = true
	}
	w.e.counters.Alerts.Add(1)
	return append(dst, a)
}

// wholeFlow reports whether a rule that drops applies to the connection instead of the current
// packet: one on messages, on the stream or on addresses.
func (k *compiledRule) wholeFlow(tx *Tx) bool {
	return k.Kinds&(index.OnMessage|index.OnStream|index.OnFrame) != 0 || tx.Packet.Stream || k.Single || k.app != 0
}
