package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"shuultuur/admin"
	"shuultuur/configuration"
	"shuultuur/engine"
	"shuultuur/event"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/policy"
	"shuultuur/replay"
	"shuultuur/vote"
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
func (g *pages) effect(ctx context.Context, t admin.Trial) (*admin.Effect, error) {
	x, err := g.prepareTrial(&t)
	if err != nil {
		return nil, err
	}
	g.questions.Lock()
	defer g.questions.Unlock()
	ctx, cancel := context.WithTimeout(ctx, effectTime)
	defer cancel()
	run := g.engine.Load()
	r := run.Events.Reader()
	if r == nil {
		return nil, admin.ErrNoRecord
	}
	start := time.Now()
	var judges [2]replay.Judge
	base, err := g.questions.current(ctx, run)
	if err != nil {
		return nil, tooSlow(ctx, err)
	}
	x.change(base, false)
	judges[0] = base.JudgeInOrder(g.file)
	e, done, err := x.build(ctx, base)
	if err != nil {
		return nil, tooSlow(ctx, err)
	}
	defer done()
	judges[1] = e.JudgeInOrder(g.file)
	out, err := compare(ctx, &judges, r, start)
	return out, tooSlow(ctx, err)
}

// compare judges the events of the day before start with two judges.
func compare(ctx context.Context, judges *[2]replay.Judge, r event.Reader, start time.Time) (*admin.Effect, error) {
	rows := &replay.NewestReader{Reader: r, Since: start.Add(-effectSpan), Most: maxEffect, Until: time.Now().Add(effectRead),
		InOrder: judges[0].Counts() || judges[1].Counts()}
	var source replay.Source
	w := replay.WhatIf{Old: &judges[0], New: judges[1]}
	x, err := w.Run(ctx, source.Events(ctx, rows, "the record"))
	if err != nil {
		return nil, err
	}
	in := source.Input()
	out := &admin.Effect{Since: rows.Since, Judged: x.Judged, Changed: x.Changed, Unknown: x.Unknown + in.Broken + in.Other, Cut: rows.Cut, Took: time.Since(start).Seconds(), Changes: []admin.EffectKind{}}
	for _, c := range x.Changes[:min(len(x.Changes), effectRows)] {
		out.Changes = append(out.Changes, admin.EffectKind(c))
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
	*admin.Trial
	lists  map[string][]list.Change
	change func(e *engine.Engine, changed bool) // changes values that engines consult
}

// prepareTrial prepares a trial. A change that is not possible gives [*admin.BadChange].
func (g *pages) prepareTrial(t *admin.Trial) (*trial, error) {
	x := &trial{Trial: t, lists: t.Lists}
	run, now := g.engine.Load(), time.Now()
	rulings := slices.Clone(t.Rulings)
	for i := range rulings {
		var err error
		if rulings[i], err = g.normaliseDecision(rulings[i]); err != nil {
			return nil, err
		}
	}
	for _, v := range t.Votes {
		if name, c, ok := g.listed(&v); ok {
			x.lists = map[string][]list.Change{name: append(x.lists[name], c)}
			continue
		}
		d := siteDecision(&v)
		if !v.Ended.IsZero() {
			d.Until = now
		}
		rulings = append(rulings, d)
	}
	pauses, err := g.pausesAfter(t.Pause, now)
	if err != nil {
		return nil, err
	}
	bonuses, err := g.bonusesAfter(t.Bonus, now)
	if err != nil {
		return nil, err
	}
	x.change = func(e *engine.Engine, changed bool) {
		e.Rulings.Copy(run.Rulings)
		switch {
		case !changed && t.Pause != nil:
			e.Pauses.Pauses.Set(run.Pauses.At(now))
		case !changed:
			e.Pauses.Pauses.Set(nil) // the day was not paused
		case t.Pause != nil:
			e.Pauses.Pauses.Set(pauses)
		case t.Bonus != nil:
			e.Rulings.SetBonuses(bonuses)
		case len(rulings) > 0:
			e.Rulings.Set(withDecisions(run.Rulings.Sites(now), rulings, now))
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
		return &admin.BadChange{Err: err}
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
func (g *pages) pausesAfter(p *policy.Pause, now time.Time) ([]policy.Pause, error) {
	if p == nil {
		return nil, nil
	}
	e := g.engine.Load()
	who := p.Who
	if who != "" {
		var err error
		if who, err = e.NormaliseWho(who); err != nil {
			return nil, err
		}
	}
	ends := !p.Until.After(now)
	all := slices.DeleteFunc(e.Pauses.At(now), func(o policy.Pause) bool { return o.Who == who || ends && who == "" })
	if !ends {
		all = append(all, policy.Pause{Who: who, Until: p.Until})
	}
	return all, nil
}

// bonusesAfter returns the extra time after some is given or withdrawn.
func (g *pages) bonusesAfter(b *policy.Bonus, now time.Time) ([]policy.Bonus, error) {
	if b == nil {
		return nil, nil
	}
	e := g.engine.Load()
	who, err := e.NormaliseWho(b.Who)
	if err != nil {
		return nil, err
	}
	given := *b
	given.Who, given.Until = who, now.Add(effectSpan)
	all := slices.DeleteFunc(e.Rulings.Bonuses(now), func(o policy.Bonus) bool {
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
func (g *pages) listed(d *vote.Decision) (name string, c list.Change, ok bool) {
	s := g.engine.Load().Settings.Votes
	if s == nil || s.List == "" || d.Action != vote.Block || d.Who != "" || !d.Until.IsZero() {
		return "", c, false
	}
	return s.List, list.Change{Entry: d.Site, Remove: !d.Ended.IsZero()}, true
}

// siteDecision converts a decision about votes to one about a site.
func siteDecision(d *vote.Decision) policy.Decision {
	return policy.Decision{Who: d.Who, Site: d.Site, Block: d.Action == vote.Block, Until: d.Until}
}
