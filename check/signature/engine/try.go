package engine

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"shuultuur/check/signature/rule"
)

// An answer is the current result of a condition or a group.
type answer uint8

const (
	no answer = iota
	yes
	later
)

// try tries a candidate on a message.
func (w *work) try(k *compiledRule, n int, c *candidate, dst []Alert) []Alert {
	began := w.clock
	k.cost.checks.Add(1)
	w.rule, w.context = k, c.context
	w.in.work, w.in.slow, w.in.over = tryWork, 0, false
	w.in.captures = w.in.captures[:0]
	w.in.regexps = 0
	a := w.decide(k, c)
	w.spent += w.in.work + w.in.slow
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
	c.dead = true
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
	w.e.counters.Checks.add(1)
	w.e.counters.Regexps.add(int64(w.in.regexps))
	if w.in.over {
		w.e.counters.OverRule.add(1)
		if len(w.tx.Over.Rules) < maxOver {
			w.tx.Over.Rules = append(w.tx.Over.Rules, k.SID)
		}
		if most := w.e.config.Patience; k.cost.over.Add(1) >= most && most > 0 && k.disabled.CompareAndSwap(false, true) {
			w.e.counters.Disabled.add(1)
			w.tx.Over.Disabled = append(w.tx.Over.Disabled, k.SID)
		}
	}
}

// overMessage records that a message reached its limit before all rules were tried.
func (w *work) overMessage() {
	w.e.counters.OverMessage.add(1)
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
	for i := range k.groups {
		g := &k.groups[i]
		if c.done>>i&1 != 0 {
			continue
		}
		if k.Exchange && g.dir&w.dir == 0 {
			wait = true
			continue
		}
		switch w.group(g, at) {
		case no:
			w.failed(i, g)
			if k.Exchange && g.dir == rule.Both && w.dir == rule.ToServer {
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

// failed records which match of a group failed.
func (w *work) failed(i int, g *group) {
	if !w.e.config.Trace {
		return
	}
	n := len(g.matches) - w.in.left
	if n < 0 || n >= len(g.matches) {
		w.recordReach(2+i*1000, g.Buffer.String()+" is not there")
		return
	}
	w.recordReach(3+i*1000+n, g.Buffer.String()+": "+describe(g.matches[n]))
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
	if k.head(src, dst, dir == rule.ToServer) {
		return true
	}
	return k.Twoway && k.head(dst, src, dir == rule.ToClient)
}

// head compares addresses and ports. client means that src opened the connection.
func (k *compiledRule) head(src, dst netip.AddrPort, client bool) bool {
	return (k.ends.sp == nil || k.ends.sp.has(src.Port())) && (k.ends.dp == nil || k.ends.dp.has(dst.Port())) &&
		(k.ends.src == nil || k.ends.src.has(src.Addr(), client)) && (k.ends.dst == nil || k.ends.dst.has(dst.Addr(), !client))
}

// group inspects one buffer with the matches of a rule.
func (w *work) group(g *group, at rule.Progress) answer {
	info := g.Buffer.Info()
	complete := at > info.Progress || at >= rule.Complete || info.Progress < rule.Body && at >= info.Progress
	if g.Buffer == rule.Payload { // it ends with the message
		complete = at >= rule.Complete
	}
	if !complete && g.atEnd {
		return later
	}
	if at < info.Progress {
		return later
	}
	w.in.left = maxSteps
	places, lacks := w.outsideSeen(g)
	if lacks { // no need to join the stream
		return notYet(at)
	}
	for i := 0; ; i++ {
		b := w.buffer(w.dir, g.Buffer, i, g.chain)
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
		w.in.start(b.data)
		if g.pure {
			w.in.remember(&w.failures)
		}
		if w.in.known = places; g.Buffer != rule.Payload {
			w.in.known, lacks = w.bodySeen(g, b.data)
		}
		w.in.name = g.Buffer.String()
		w.in.vars = w.variables(w.rule)
		w.in.ctx = w
		if !lacks && w.in.inspect(g.matches, 0) == match {
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

func (w *work) variables(k *compiledRule) []uint64 {
	if n := len(k.Vars); len(w.in.vars) < n {
		w.in.vars = make([]uint64, n)
	}
	return w.in.vars
}

// dataset implements matcher.
func (w *work) dataset(d *rule.Dataset, buf []byte) bool {
	ok, doc := w.e.state.ask(d, buf)
	if ok && doc != nil && d.Enrichment != "" {
		if w.context == nil {
			w.context = map[string]any{}
		}
		w.context[d.Enrichment] = json.RawMessage(doc)
	}
	return ok
}

// entropy implements matcher: it records the measured entropy for alerts.
func (w *work) entropy(e float64) {
	if w.tx.measured == nil {
		w.tx.measured = map[string]float64{}
	}
	w.tx.measured[strings.ReplaceAll(w.in.name, ".", "_")] = e
}

// script implements matcher.
func (w *work) script(s *script, buf []byte, cursor int) bool {
	w.flushCaptures()
	w.tx.vars = w.in.vars
	return s.code.Match(w.tx, w.dir, w.rule.Rule, buf, cursor) != s.Negated
}

// flushCaptures passes the captures of expressions to scripts.
func (w *work) flushCaptures() {
	for _, c := range w.in.captures {
		if c.scope == "flow" {
			w.tx.Flow.SetVar(c.name, c.value)
		}
	}
}

// condition tests a condition that does not concern one buffer.
func (w *work) condition(x rule.Condition, at rule.Progress) answer {
	tx := w.tx
	src, dst := tx.ends(w.dir)
	switch x := x.(type) {
	case *rule.Bit:
		for _, name := range x.Names {
			ok := false
			if x.Kind == "flow" || x.Track == "tx" {
				ok = tx.Flow.Bit(x.Command, bitName(x, name, tx))
			} else {
				ok = w.e.state.bit(x, name, src.Addr(), dst.Addr(), tx.Now)
			}
			if ok && x.Command == "isset" {
				return yes
			}
			if !ok && x.Command == "isnotset" {
				return no
			}
		}
		return answerOf(x.Command == "isnotset")
	case *rule.Int:
		return answerOf(flowInt(tx.Flow, x))
	case *rule.Var:
		v, ok := tx.Flow.Var(x.Name)
		return answerOf(ok && bytes.Contains(v, x.Value) != x.Negated)
	case *rule.Integer:
		return w.integer(x, at)
	case *rule.Event:
		if tx.Source.Event(x.Kind, x.Name) != x.Negated {
			return yes
		}
		if tx.dir[1-w.dir>>1].at < rule.Complete && !x.Negated {
			return later // the other side may send it
		}
		return notYet(at)
	case *rule.Word:
		return w.word(x, at)
	case *digestMatcher:
		return w.hashed(x, at)
	case *script:
		w.in.work += scriptWork
		w.flushCaptures()
		tx.vars = w.in.vars
		return answerOf(x.code.Match(tx, w.dir, w.rule.Rule, nil, 0) != x.Negated)
	}
	return yes
}

func bitName(b *rule.Bit, name string, tx *Tx) string {
	if b.Kind == "x" {
		return fmt.Sprintf("tx %p %s", tx, name)
	}
	return name
}

func answerOf(ok bool) answer {
	if ok {
		return yes
	}
	return no
}

// notYet returns later, or no if nothing more will come.
func notYet(at rule.Progress) answer {
	if at >= rule.Complete {
		return no
	}
	return later
}

func flowInt(f *Flow, x *rule.Int) bool {
	v, ok := f.Int(x.Name)
	switch x.Op {
	case "isset":
		return ok
	case "isnotset", "notset":
		return !ok
	}
	other := x.Value
	if x.Var != "" {
		o, known := f.Int(x.Var)
		if !known {
			return false
		}
		other = o
	}
	if !ok {
		return false
	}
	switch x.Op {
	case "==":
		return v == other
	case "!=":
		return v != other
	case "<":
		return v < other
	case ">":
		return v > other
	case "<=":
		return v <= other
	case ">=":
		return v >= other
	}
	return false
}

// integer tests a keyword that compares one or several numbers.
func (w *work) integer(x *rule.Integer, at rule.Progress) answer {
	name := x.Keyword
	var ns []uint64
	ok := true
	switch name {
	case "urilen", "urilen.raw":
		b := rule.URI
		if name == "urilen.raw" {
			b = rule.URIRaw
		}
		buf := w.buffer(rule.ToServer, b, 0, 0)
		ns, ok = []uint64{uint64(len(buf.data))}, buf.ok
	case "filesize":
		for _, f := range w.tx.Source.Files(w.dir) {
			if f.Complete || (x.Op == ">" || x.Op == ">=") && x.Match(uint64(f.Size)) {
				ns = append(ns, uint64(f.Size))
			}
		}
		ok = len(ns) > 0
	default:
		ns, ok = w.tx.Source.Numbers(w.dir, name)
	}
	if !ok || len(ns) == 0 {
		switch {
		case x.Index == "count":
			return answerOf(x.Count.Match(0))
		case x.Absent, x.OrAbsent && len(ns) == 0, x.Index == "all_or_absent":
			return yes
		}
		return notYet(at)
	}
	if strings.HasPrefix(x.Index, "all") && at < rule.Complete {
		return later // another may follow
	}
	if x.Absent {
		return no
	}
	if applyIndex(x, ns) {
		return yes
	}
	return notYet(at)
}

// applyIndex applies the index of an integer keyword.
func applyIndex(x *rule.Integer, ns []uint64) bool {
	count := x.Count
	if op, ok := strings.CutSuffix(count.Op, "|slice"); ok {
		from, to := x.Position, int(int64(count.B))
		if from < 0 {
			from += len(ns)
		}
		if to <= 0 {
			to += len(ns)
		}
		count.Op, count.B = op, 0
		if from < 0 || from > len(ns) || to > len(ns) || from > to {
			return false
		}
		ns = ns[from:to]
	}
	good := 0
	for _, n := range ns {
		if x.Match(n) {
			good++
		}
	}
	switch x.Index {
	case "all", "all1", "all_or_absent":
		return good == len(ns)
	case "nb":
		return count.Match(uint64(good))
	case "count":
		return count.Match(uint64(len(ns)))
	case "at":
		i := x.Position
		if i < 0 {
			i += len(ns)
		}
		if i < 0 || i >= len(ns) {
			return x.OrAbsent
		}
		return x.Match(ns[i])
	}
	return good > 0
}

// word tests a keyword with words. Those about files are tested here.
func (w *work) word(x *rule.Word, at rule.Progress) answer {
	switch x.Keyword {
	case "filename", "fileext", "filemagic":
	default:
		if w.tx.Source.Word(w.dir, x.Keyword, x.Value) != x.Negated {
			return yes
		}
		return notYet(at)
	}
	want := strings.ToLower(x.Value)
	for _, f := range w.tx.Source.Files(w.dir) {
		name := strings.ToLower(f.Name)
		ok := false
		switch x.Keyword {
		case "filename":
			ok = strings.Contains(name, want)
		case "fileext":
			ok = strings.HasSuffix(name, "."+want)
		case "filemagic":
			magic := f.Magic()
			if magic == "" {
				continue
			}
			ok = strings.Contains(strings.ToLower(magic), want)
		}
		if ok != x.Negated {
			return yes
		}
	}
	return notYet(at)
}

// A digestMatcher is a keyword filemd5, filesha1 or filesha256 with its list.
type digestMatcher struct {
	*rule.Word
	set map[string]struct{}
}

// hashes reads the list of digests for a rule.
func (e *Engine) hashes(from string, w *rule.Word) (map[string]struct{}, error) {
	data, err := e.read(from, w.Value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.Keyword, err)
	}
	set := map[string]struct{}{}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 0 && f[0][0] != '#' {
			set[strings.ToLower(f[0])] = struct{}{}
		}
	}
	return set, nil
}

func (w *work) hashed(x *digestMatcher, at rule.Progress) answer {
	seen := false
	for _, f := range w.tx.Source.Files(w.dir) {
		if !f.Complete || int64(len(f.Data)) != f.Size {
			continue
		}
		seen = true
		sum := ""
		switch x.Keyword {
		case "filemd5":
			sum = fmt.Sprintf("%x", md5.Sum(f.Data))
		case "filesha1":
			sum = fmt.Sprintf("%x", sha1.Sum(f.Data))
		default:
			sum = fmt.Sprintf("%x", sha256.Sum256(f.Data))
		}
		if _, ok := x.set[sum]; ok != x.Negated {
			return yes
		}
	}
	if seen {
		return no
	}
	return notYet(at)
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
					w.e.state.bit(x, name, src.Addr(), dstEnd.Addr(), tx.Now)
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
	a := Alert{Rule: k.Rule, Action: k.Action, Priority: k.priority, Class: k.class, Context: w.context, Entropy: tx.measured}
	w.context = nil
	here := occurrence{rule: k, src: src, dst: dstEnd, client: w.dir == rule.ToServer, flow: tx.Flow, now: tx.Now}
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
	case a.Action < rule.Alert && w.e.config.Prevent && k.wholeFlow(tx):
		tx.Flow.Dropped = true
	}
	w.e.counters.Alerts.add(1)
	return append(dst, a)
}

// wholeFlow reports whether a rule that drops applies to the connection instead of the current
// packet: one on messages, on the stream or on addresses.
func (k *compiledRule) wholeFlow(tx *Tx) bool {
	return k.kinds&(onMessage|onStream) != 0 || tx.Packet.Stream || k.single || k.app != 0
}
