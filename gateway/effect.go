package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"shuultuur/admin/web"
	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/policy"
	"shuultuur/vote"
	"shuultuur/whatif"
)

// Limits for finding the effect of a change: the number of newest events, and time.
const (
	effectSpan = 24 * time.Hour
	maxEffect  = 1_000_000
	effectRead = 10 * time.Second // time for judging; after it, the events judged so far are shown
	effectTime = 40 * time.Second // time including the building of both engines
	effectRows = 50               // kinds of changes to show
)

// effect judges the events of the last day with and without a change.
func (p *pages) effect(ctx context.Context, t web.Trial) (*web.Effect, error) {
	x, err := p.prepareTrial(&t)
	if err != nil {
		return nil, err
	}
	p.gateway.questions.Lock()
	defer p.gateway.questions.Unlock()
	ctx, cancel := context.WithTimeout(ctx, effectTime)
	defer cancel()
	run := p.gateway.engine.Load()
	r := run.Events.Reader()
	if r == nil {
		return nil, web.ErrNoRecord
	}
	start := time.Now()
	var judges [2]whatif.Judge
	base, err := p.gateway.questions.current(ctx, run)
	if err != nil {
		return nil, tooSlow(ctx, err)
	}
	x.change(base, false)
	judges[0] = base.JudgeInOrder(p.gateway.file)
	e, done, err := x.build(ctx, base)
	if err != nil {
		return nil, tooSlow(ctx, err)
	}
	defer done()
	judges[1] = e.JudgeInOrder(p.gateway.file)
	r, others, err := touches(ctx, r, event.Filter{Since: start.Add(-effectSpan)}, &t, &judges, base.Settings, e.Settings)
	if err != nil {
		return nil, tooSlow(ctx, err)
	}
	out, err := compare(ctx, &judges, r, start)
	if err == nil && !out.Cut {
		out.Judged += int64(others)
	}
	return out, tooSlow(ctx, err)
}

// compare judges the events of the day before start with two judges.
func compare(ctx context.Context, judges *[2]whatif.Judge, r event.Reader, start time.Time) (*web.Effect, error) {
	rows := &whatif.NewestReader{Reader: r, Since: start.Add(-effectSpan), Most: maxEffect, Until: time.Now().Add(effectRead),
		InOrder: judges[0].Counts() || judges[1].Counts()}
	var source whatif.Source
	w := whatif.Comparison{Old: &judges[0], New: judges[1]}
	x, err := w.Run(ctx, source.Events(ctx, rows, "the record"))
	if err != nil {
		return nil, err
	}
	in := source.Input()
	out := &web.Effect{Since: rows.Since, Judged: x.Judged, Changed: x.Changed, Unknown: x.Unknown + in.Broken + in.Other, Cut: rows.Cut, Took: time.Since(start).Seconds(), Changes: []web.EffectKind{}}
	refuses := func(action string) bool { return action == filter.Block.String() || action == filter.Redirect.String() }
	for _, c := range x.Changes {
		switch was, is := refuses(c.Was), refuses(c.Is); {
		case was && !is:
			out.Opens += c.Count
		case is && !was:
			out.Closes += c.Count
		}
	}
	for _, c := range x.Changes[:min(len(x.Changes), effectRows)] {
		out.Changes = append(out.Changes, web.EffectKind(c))
	}
	return out, nil
}

func tooSlow(ctx context.Context, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("judging the last day took longer than %v: the effect of the change is unknown", effectTime)
	}
	return err
}

// A trial is a change that is made only in an engine for questions.
type trial struct {
	*web.Trial
	lists  map[string][]list.Change
	change func(e *engine.Engine, changed bool) // changes values that engines consult
}

// prepareTrial prepares a trial. A change that is not possible gives [*web.BadChange].
func (p *pages) prepareTrial(t *web.Trial) (*trial, error) {
	x := &trial{Trial: t, lists: t.Lists}
	run, now := p.gateway.engine.Load(), time.Now()
	decisions := slices.Clone(t.Decisions)
	for i := range decisions {
		var err error
		if decisions[i], err = p.normaliseDecision(decisions[i]); err != nil {
			return nil, err
		}
	}
	bonus := t.Bonus
	for _, v := range t.Votes {
		if v.Action == vote.More {
			bonus = &policy.Bonus{Who: v.Who, Minutes: vote.MoreMinutes}
			if !v.Ended.IsZero() {
				bonus.Minutes = 0
			}
			continue
		}
		if name, c, ok := p.listed(&v); ok {
			x.lists = map[string][]list.Change{name: append(x.lists[name], c)}
			continue
		}
		d := siteDecision(&v)
		if !v.Ended.IsZero() {
			d.Until = now
		}
		decisions = append(decisions, d)
	}
	pauses, err := p.pausesAfter(t.Pause, now)
	if err != nil {
		return nil, err
	}
	bonuses, err := p.bonusesAfter(bonus, now)
	if err != nil {
		return nil, err
	}
	x.change = func(e *engine.Engine, changed bool) {
		e.Decisions.Copy(run.Decisions)
		switch {
		case !changed && t.Pause != nil:
			e.Pauses.Pauses.Set(run.Pauses.At(now))
		case !changed:
			e.Pauses.Pauses.Set(nil) // the day was not paused
		case t.Pause != nil:
			e.Pauses.Pauses.Set(pauses)
		case t.Bonus != nil:
			e.Decisions.SetBonuses(bonuses)
		case len(decisions) > 0:
			e.Decisions.Set(withDecisions(run.Decisions.Sites(now), decisions, now))
		}
	}
	return x, nil
}

// build builds the engine with the change.
func (x *trial) build(ctx context.Context, base *engine.Engine) (*engine.Engine, func(), error) {
	file, text := base.Settings.Text.File, base.Settings.Text.Data()
	var alter func(*collection.Collection)
	var failed error
	if x.Text != nil {
		text = x.Text
	}
	if len(x.lists) > 0 || x.File != "" {
		alter = func(c *collection.Collection) {
			failed = c.TryChanges(ctx, x.lists)
			if failed == nil && x.File != "" {
				failed = c.TryVersion(ctx, x.List, x.File)
			}
		}
	}
	s, err := configuration.Parse(file, text)
	if err != nil {
		return nil, nil, err
	}
	e, done, err := engine.TryChange(ctx, base, s, alter)
	if err != nil {
		return nil, nil, cmp.Or(failed, err)
	}
	if failed != nil {
		done()
		return nil, nil, badChange(failed)
	}
	x.change(e, true)
	return e, done, nil
}

// badChange converts err to the error that pages expect.
func badChange(err error) error {
	if bad := (*collection.BadChange)(nil); errors.As(err, &bad) || errors.Is(err, collection.ErrNoList) {
		return &web.BadChange{Err: err}
	}
	return err
}

// withDecisions returns decisions about sites with further ones added.
func withDecisions(all, further []policy.Decision, now time.Time) []policy.Decision {
	for _, d := range further {
		all = slices.DeleteFunc(all, func(o policy.Decision) bool { return o.Who == d.Who && o.Site == d.Site })
		if d.Until.IsZero() || d.Until.After(now) {
			all = append(all, d)
		}
	}
	return all
}

// pausesAfter returns the pauses in force after one begins or ends.
func (p *pages) pausesAfter(change *policy.Pause, now time.Time) ([]policy.Pause, error) {
	if change == nil {
		return nil, nil
	}
	e := p.gateway.engine.Load()
	who := change.Who
	if who != "" {
		var err error
		if who, err = e.NormaliseWho(who); err != nil {
			return nil, err
		}
	}
	ends := !change.Until.After(now)
	all := slices.DeleteFunc(e.Pauses.At(now), func(o policy.Pause) bool { return o.Who == who || ends && who == "" })
	if !ends {
		all = append(all, policy.Pause{Who: who, Until: change.Until})
	}
	return all, nil
}

// bonusesAfter returns the extra time after some is given or withdrawn.
func (p *pages) bonusesAfter(b *policy.Bonus, now time.Time) ([]policy.Bonus, error) {
	if b == nil {
		return nil, nil
	}
	e := p.gateway.engine.Load()
	who, err := e.NormaliseWho(b.Who)
	if err != nil {
		return nil, err
	}
	given := *b
	given.Who, given.Until = who, now.Add(effectSpan)
	all := slices.DeleteFunc(e.Decisions.Bonuses(now), func(o policy.Bonus) bool {
		if o.Who == who && given.Minutes > 0 {
			given.Minutes += o.Minutes
		}
		return o.Who == who
	})
	if given.Minutes > 0 {
		all = append(all, given)
	}
	return all, nil
}

// listed returns the change of a list that carries out a decision about votes, if there is
// one.
func (p *pages) listed(d *vote.Decision) (name string, c list.Change, ok bool) {
	s := p.gateway.engine.Load().Settings.Votes
	if s == nil || s.List == "" || d.Action != vote.Block || d.Who != "" || !d.Until.IsZero() {
		return "", c, false
	}
	return s.List, list.Change{Entry: d.Site, Remove: !d.Ended.IsZero()}, true
}

// siteDecision converts a decision about votes to one about a site.
func siteDecision(d *vote.Decision) policy.Decision {
	return policy.Decision{Who: d.Who, Site: d.Site, Block: d.Action == vote.Block, Until: d.Until}
}
