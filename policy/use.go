package policy

import (
	"context"
	"fmt"
	"time"

	"shuultuur/filter"
	"shuultuur/state"
)

// This file counts what transactions use of their quotas: at their end, and each minute while they go
// on. Minutes are members of a set, so it does no harm to count one twice.

// Done counts the time and bytes of a finished transaction against its quotas.
func (e *Engine) Done(ctx context.Context, t *filter.Transaction) {
	if e.counter == nil || !e.metered || t.Verdict.Action == filter.Allow {
		return
	}
	counts := e.used(nil, t, t.Used())
	if !t.Verdict.Final() && t.Proto != filter.DNS && t.Conversation == "" { // its conversation has the bytes of a message
		counts = e.transferred(counts, t, t.BytesIn+t.BytesOut)
	}
	if len(counts) > 0 {
		e.counter.Count(ctx, counts)
	}
}

// used appends the counts of minutes. Each belongs to the policy and the day of that minute.
func (e *Engine) used(counts []state.Count, t *filter.Transaction, minutes filter.Minutes) []state.Count {
	zone := timeOf(t).Location()
	var p *policy
	var set quotaSet
	for m := range minutes.All() {
		at := filter.MinuteTime(m).In(zone)
		if of := e.policyFor(&t.Client, at); of != p {
			if p = of; p != nil {
				set = p.quotasFor(t, allChecks)
			}
		}
		if p == nil {
			continue
		}
		d := e.dayOf(at)
		if p.requests != nil {
			n := p.requests.readCount(t, d)
			n.Member = 0
			counts = append(counts, n)
		}
		for i := range p.quotas {
			if l := &p.quotas[i]; l.minutes && set.has(i) {
				n := l.readCount(t, d)
				n.Member = d.minute(at)
				counts = append(counts, n)
			}
		}
	}
	return counts
}

// transferred appends the counts of bytes, but for those that were counted while the transaction went on.
func (e *Engine) transferred(counts []state.Count, t *filter.Transaction, bytes int64) []state.Count {
	now := timeOf(t)
	p := e.policyFor(&t.Client, now)
	if p == nil || len(p.quotas) == 0 {
		return counts
	}
	set := p.quotasFor(t, allChecks)
	then := *t // as it was followed
	then.Findings = t.Findings[:min(t.Followed, len(t.Findings))]
	charged := p.quotasFor(&then, allChecks)
	for i := range p.quotas {
		l := &p.quotas[i]
		if l.minutes || !set.has(i) {
			continue
		}
		n := l.readCount(t, e.dayOf(now))
		if n.Add = bytes; charged.has(i) {
			n.Add -= t.Charged
		}
		if n.Add > 0 {
			counts = append(counts, n)
		}
	}
	return counts
}

// Follow implements [filter.Follower]. The client is judged as if it asked now: by the policy, schedules,
// pauses and decisions of now, for what was found in the meantime. Nothing is looked up again, and a
// question that a person would have to answer ends nothing.
func (e *Engine) Follow(t *filter.Transaction, used filter.Use, now time.Time) (ends string) {
	t.Start = now
	if e.counter != nil && used.Moved && t.Verdict.Action != filter.Allow {
		counts := e.used(nil, t, filter.Minutes{{First: used.Minute, Last: used.Minute}})
		t.Followed = len(t.Findings)
		if counts = e.transferred(counts, t, t.Charged+used.Bytes); len(counts) > 0 {
			e.counter.CountHere(counts)
		}
	}
	p := e.policyFor(&t.Client, now)
	if p == nil {
		return "no policy covers the client any more"
	}
	found := len(t.Findings)
	defer func() { t.Findings = t.Findings[:found] }()
	stage := filter.Name
	switch {
	case t.Response != nil:
		stage = filter.Response
	case t.Request != nil && t.Proto == filter.HTTP:
		stage = filter.Request
	}
	w := e.walk(p, t, stage, now)
	defer w.release()
	if w.blocked {
		return "a person has blocked the site"
	}
	w.ran = ^uint64(0)
	w.count()
	r, _ := w.first()
	switch {
	case r == nil || r.replace || r.show != filter.Nothing || r.action == filter.Warn:
	case r.action == filter.Allow:
		return ""
	default:
		return fmt.Sprintf("rule %q of policy %q applies now", r.name, p.name)
	}
	return e.usedUp(p, t, now)
}

// usedUp returns which quota of a transaction that goes on is used up, "" for none. A minute that was
// begun may be finished.
func (e *Engine) usedUp(p *policy, t *filter.Transaction, now time.Time) string {
	if e.counter == nil || len(p.quotas) == 0 {
		return ""
	}
	set, d, extra := p.quotasFor(t, allChecks), e.dayOf(now), e.decided.minutes(&t.Client, now)
	for i := range p.quotas {
		l := &p.quotas[i]
		if !set.has(i) {
			continue
		}
		one := [1]state.Count{l.readCount(t, d)}
		n, most := &one[0], l.most
		if l.minutes {
			most += extra
		}
		e.counter.CountHere(one[:])
		over := n.Sum > most
		if n.Sum == most && l.minutes {
			n.Most, n.Member = most, d.minute(now) // it does not fit, unless it is there
			e.counter.CountHere(one[:])
			over = n.Over
		} else if n.Sum == most {
			over = true
		}
		if over {
			return fmt.Sprintf("%s of policy %q is used up", l.name, p.name)
		}
	}
	return ""
}
