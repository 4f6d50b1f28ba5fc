package engine

import (
	"slices"
	"time"

	"shuultuur/lib/suricata/index"
	"shuultuur/lib/suricata/match"
	"shuultuur/lib/suricata/rule"
)

// messageWork limits the inspection of one message in one direction, in all steps together: 50
// ms, in the same units as ruleWork.
const messageWork = 50 * match.RuleWork

// A work is the scratch memory of one inspection.
type work struct {
	hits     []int32
	seen     match.Sight
	body     match.Sight // of the body of the message
	in       match.Inspector
	tx       *Tx
	e        *Engine
	dir      rule.Direction
	context  map[string]any
	rule     *compiledRule
	buffered rule.Buffer // that is inspected
	spent    int         // work of the rules tried on the message
	clock    time.Time   // when the last rule ended
	begin    streamBeginning
	whole    [2]payloadCopy
	again    Tx // for rules on content outside any buffer
	key      []byte
	matches  []int32 // rules that matched a packet or a piece of a stream
}

// A payloadCopy is the complete payload of one side.
type payloadCopy struct {
	data   []byte
	joined bool   // data is valid for the current message
	room   []byte // memory for data
}

// Inspect tries the rules on the known part of a message in one direction. at is the progress
// of the message: from Body on, part of the body is known, from Trailer on all of it. It may
// be called again at each step, also at the same one.
func (e *Engine) Inspect(tx *Tx, dir rule.Direction, at rule.Progress, dst []Alert) []Alert {
	if len(e.rules) == 0 || tx.Flow.Passed {
		return dst
	}
	d := dir.Index()
	s := &e.index[d]
	w := e.work.Get().(*work)
	defer e.release(w)
	w.tx, w.e, w.dir = tx, e, dir
	tx.state, tx.work = e.state, w
	p := &tx.dir[d]
	headed := p.at >= rule.Headers
	p.at = max(p.at, at)
	w.hits = w.hits[:0]
	if !p.started {
		p.started = true
		p.scanned = make([]int, len(s.Messages))
		for _, n := range s.Always {
			if e.rules[n].app == 0 || e.rules[n].app&tx.App != 0 {
				w.hits = append(w.hits, n)
			}
		}
	}
	known, from := false, s.Heads
	if !headed {
		known, from = w.fields(p), 0
	}
	for i, t := range s.Messages[from:] {
		if known && t.Fields {
			continue
		}
		if p.at >= t.At || t.Buffer == rule.Payload && p.at > rule.NotStarted {
			w.prefilter(t, &p.scanned[from+i])
		}
	}
	w.beginning(p)
	more := false
	for _, n := range sortUnique(w.hits) {
		if k := e.rules[n]; k.Kinds&index.OnStream != 0 {
			p.stream = append(p.stream, n)
			more = true
		} else {
			tx.add(n, dir, k.Exchange)
		}
	}
	if more {
		p.stream = sortUnique(p.stream)
	}
	if dst = w.pending(p, dst); tx.Flow.Passed {
		return dst
	}
	return w.outside(dst)
}

// pending tries the candidates.
func (w *work) pending(p *progress, dst []Alert) []Alert {
	tx, e := w.tx, w.e
	if len(tx.pending) == 0 {
		return dst
	}
	slices.SortFunc(tx.pending, func(a, b candidate) int { return int(a.rule) - int(b.rule) })
	w.spent, w.clock = p.spent, time.Now()
	for i := range tx.pending {
		c := &tx.pending[i]
		if c.dead || c.dir&w.dir == 0 {
			continue
		}
		if w.spent+p.shaped > messageWork {
			w.giveUp(p)
			break
		}
		k := e.rules[c.rule]
		if k.disabled.Load() {
			continue
		}
		dst = w.try(k, int(c.rule), c, dst)
		if tx.Flow.Passed {
			return dst
		}
	}
	p.spent = w.spent
	tx.pending = slices.DeleteFunc(tx.pending, func(c candidate) bool { return c.dead })
	return dst
}

// keptStream limits the memory for joined streams that is kept for the next message.
const keptStream = 2 << 20

func (e *Engine) release(w *work) {
	w.tx.work = nil
	w.tx, w.context, w.rule = nil, nil, nil
	w.in.Release()
	w.body.Data, w.begin.seen.Data = nil, nil
	w.whole[0].joined, w.whole[1].joined = false, false
	w.whole[0].data, w.whole[1].data = nil, nil
	for _, room := range []*[]byte{&w.whole[0].room, &w.whole[1].room} {
		if cap(*room) > keptStream {
			*room = nil
		}
	}
	e.work.Put(w)
}

// sortUnique sorts rule numbers and removes duplicates.
func sortUnique(s []int32) []int32 {
	slices.Sort(s)
	return slices.Compact(s)
}
