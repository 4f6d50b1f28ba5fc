package engine

import (
	"encoding/json"
	"strings"
	"time"

	"shuultuur/lib/suricata/match"
	"shuultuur/lib/suricata/rule"
)

// An answer is the current result of a condition or a group.
type answer uint8

const (
	no answer = iota
	yes
	later
)

// The work of trying a rule, and of running a script.
const (
	tryWork    = 500
	scriptWork = 20e3
)

// try tries a candidate on a message.
func (w *work) try(k *compiledRule, n int, c *candidate, dst []Alert) []Alert {
	began := w.clock
	k.cost.checks.Add(1)
	w.rule, w.context = k, c.context
	w.in.Begin(len(k.Vars), w)
	w.in.Work = tryWork
	a := w.decide(k, c)
	w.spent += w.in.Work + w.in.Slow
	w.clock = time.Now()
	w.account(k, w.clock.Sub(began), a == yes)
	switch a {
	case later:
		c.context = w.context
		return dst
	case no:
		c.dead = true
		return dst
	}
	c.dead, c.matched = true, true
	return w.matched(k, n, dst)
}

// account adds the cost of trying a rule.
func (w *work) account(k *compiledRule, spent time.Duration, hit bool) {
	k.cost.nanos.Add(int64(spent))
	if hit {
		k.cost.matches.Add(1)
		k.cost.nanosMatch.Add(int64(spent))
	}
	if int64(spent) > k.cost.worst.Load() {
		k.cost.worst.Store(int64(spent))
	}
	w.e.counters.Checks.Add(1)
	if n := w.in.Regexps; n > 0 {
		w.e.counters.Regexps.Add(int64(n))
	}
	if w.in.Over {
		w.e.counters.OverRule.Add(1)
		if len(w.tx.Over.Rules) < maxOver {
			w.tx.Over.Rules = append(w.tx.Over.Rules, k.SID)
		}
		if most := w.e.config.Patience; k.cost.over.Add(1) >= most && most > 0 && k.disabled.CompareAndSwap(false, true) {
			w.e.counters.Disabled.Add(1)
			w.tx.Over.Disabled = append(w.tx.Over.Disabled, k.SID)
		}
	}
}

// overMessage records that a message reached its limit before all rules were tried.
func (w *work) overMessage() {
	w.e.counters.OverMessage.Add(1)
	w.tx.Over.Message = true
}

// giveUp records, once, that the rest of a message is not inspected.
func (w *work) giveUp(p *progress) {
	if !p.over {
		p.over = true
		w.overMessage()
	}
}

// decide reports whether a rule matches the message so far.
func (w *work) decide(k *compiledRule, c *candidate) answer {
	tx := w.tx
	if !w.applies(k) {
		w.recordReach(1, "protocol, addresses, ports or flow")
		return no
	}
	at := tx.dir[w.dir>>1].at
	wait := at < k.hook
	if k.hook > 0 && k.flow.Direction != 0 && k.flow.Direction != w.dir {
		return no
	}
	for _, x := range k.gates {
		if w.condition(x, at) != yes && !w.e.config.Trace { // a trace also shows how far buffers got
			if at < rule.Complete {
				return later // a rule may set the bit later
			}
			return no
		}
	}
	for i := range k.Groups {
		g := &k.Groups[i]
		if c.done>>i&1 != 0 {
			continue
		}
		if k.Exchange && g.Dir&w.dir == 0 {
			wait = true
			continue
		}
		switch w.group(g, at) {
		case no:
			w.failed(i, g)
			if k.Exchange && g.Dir == rule.Both && w.dir == rule.ToServer {
				wait = true // the response may contain it
				continue
			}
			return no
		case later:
			wait = true
		case yes:
			c.done |= 1 << i
		}
	}
	if wait {
		return later
	}
	for _, list := range [][]rule.Condition{k.pre, k.last} {
		for _, x := range list {
			if a := w.condition(x, at); a != yes {
				w.recordReach(1<<20, describe(x))
				return a
			}
		}
	}
	return yes
}

// applies compares the header of a rule with the connection.
func (w *work) applies(k *compiledRule) bool {
	tx := w.tx
	if k.app != 0 && k.app&tx.App == 0 || k.l4&tx.L4 == 0 {
		return false
	}
	if k.flow.Direction != 0 && k.flow.Direction&w.dir == 0 && !k.Exchange {
		return false
	}
	if k.flow.Established && !tx.Packet.Established || k.flow.NotEstablished && tx.Packet.Established {
		return false
	}
	if k.flow.OnlyFrag && !tx.Packet.Fragment || k.flow.NoFrag && tx.Packet.Fragment {
		return false
	}
	dir := w.dir
	if k.Exchange {
		dir = rule.ToServer
	}
	src, dst := tx.ends(dir)
	if v6 := !src.Addr().Is4(); v6 && !k.v6 || !v6 && !k.v4 {
		return false
	}
	if k.Ends.Match(src, dst, dir == rule.ToServer) {
		return true
	}
	return k.Twoway && k.Ends.Match(dst, src, dir == rule.ToClient)
}

// group inspects one buffer with the matches of a rule.
func (w *work) group(g *match.Group, at rule.Progress) answer {
	info := g.Buffer.Info()
	complete := at > info.Progress || at >= rule.Complete || info.Progress < rule.Body && at >= info.Progress
	if g.Buffer == rule.Payload { // it ends with the message
		complete = at >= rule.Complete
	}
	if !complete && g.AtEnd {
		return later
	}
	if at < info.Progress {
		return later
	}
	w.in.Rewind()
	places, lacks := w.outsideSeen(g)
	if lacks { // no need to join the stream
		return notYet(at)
	}
	for i := 0; ; i++ {
		b := w.buffer(w.dir, g.Buffer, i, g.Chain)
		if !b.ok {
			switch {
			case i == 0 && g.Absent && complete:
				return yes
			case complete:
				return no
			}
			return later
		}
		if g.Absent && !g.OrElse {
			return no
		}
		w.in.Rewind()
		known, lacks := places, false
		if g.Buffer != rule.Payload {
			known, lacks = w.bodySeen(g, b.data)
		}
		w.buffered = g.Buffer
		if !lacks && w.in.Holds(g, b.data, known) {
			return yes
		}
		if !info.Multi {
			if complete {
				return no
			}
			return later
		}
	}
}

// Test implements [match.Outside]: it tests datasets and scripts.
func (w *work) Test(m rule.Match, buf []byte, cursor int) (ok bool, work int) {
	switch m := m.(type) {
	case *rule.Dataset:
		ok, doc := w.e.state.Ask(m, buf)
		if ok && doc != nil && m.Enrichment != "" {
			if w.context == nil {
				w.context = map[string]any{}
			}
			w.context[m.Enrichment] = json.RawMessage(doc)
		}
		return ok, 0
	case *rule.Lua:
		return w.script(m, buf, cursor), scriptWork
	}
	return false, 0
}

// Measured implements [match.Outside]: it records the measured entropy for alerts.
func (w *work) Measured(entropy float64) {
	if w.tx.measured == nil {
		w.tx.measured = map[string]float64{}
	}
	w.tx.measured[strings.ReplaceAll(w.buffered.String(), ".", "_")] = entropy
}

// script runs a script.
func (w *work) script(s *rule.Lua, buf []byte, cursor int) bool {
	w.flushCaptures()
	w.tx.vars = w.in.Vars
	return w.e.scripts[s].Match(w.tx, w.dir, w.rule.Rule, buf, cursor) != s.Negated
}

// flushCaptures passes the captures of expressions to scripts.
func (w *work) flushCaptures() {
	for _, c := range w.in.Captures {
		if c.Scope == "flow" {
			w.tx.Flow.SetVar(c.Name, c.Value)
		}
	}
}
