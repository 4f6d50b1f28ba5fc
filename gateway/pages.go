package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"shuultuur/admin"
	"shuultuur/atomicfile"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/policy"
	"shuultuur/replay"
	"shuultuur/state"
)

// explain answers a question by an engine of its own, built from the settings in
// use: it names all evidence, and counts and remembers nothing.
func (g *Gateway) explain(ctx context.Context, q admin.Question) (*admin.Explanation, error) {
	g.trying.Lock()
	defer g.trying.Unlock()
	run := g.engine.Load()
	s, err := Parse(run.settings.text.File, run.settings.text.Data())
	if err != nil {
		return nil, err
	}
	e, done, err := try(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("the settings in use cannot be built once more: %w", err)
	}
	defer done()
	e.pauses.Pauses.Set(run.pauses.At(time.Now()))
	e.rulings.Copy(run.rulings)
	return e.Why(ctx, q)
}

// try builds an engine to ask. The returned function lets go of it.
func try(ctx context.Context, s *Settings) (*Engine, func(), error) {
	s.Checks.Full()
	log := slog.New(slog.DiscardHandler)
	e, err := build(ctx, s, nil, nil, log)
	if err != nil {
		return nil, nil, err
	}
	return e, func() { e.drop(nil, log) }, nil
}

// hostName is what a site may be called.
var hostName = regexp.MustCompile(`^[\pL\pN_-]+(\.[\pL\pN_-]+)*$`)

// rule opens or blocks a site for somebody on all nodes, or ends that.
func (g *Gateway) rule(d policy.Decision, by netip.Addr) error {
	e := g.engine.Load()
	_, noAddr := netip.ParseAddr(d.Site)
	if noAddr != nil && !hostName.MatchString(d.Site) || len(d.Site) > 253 {
		return &admin.BadChange{Err: fmt.Errorf("%q is not the name of a site", d.Site)}
	}
	if d.Who != "" {
		who, err := e.whom(d.Who)
		if err != nil {
			return err
		}
		d.Who = who
	}
	ended := !d.Until.IsZero() && !d.Until.After(time.Now())
	if err := e.rulings.Rule(d, ended, by.String()); err != nil {
		return err
	}
	said := "opened"
	switch {
	case ended:
		said = "no longer decided by hand"
	case d.Block:
		said = "blocked"
	}
	g.note(by, "ruling", fmt.Sprintf("%s: %s for %s", d.Site, said, orEveryone(d.Who)))
	return nil
}

func orEveryone(who string) string {
	if who == "" {
		return "everyone"
	}
	return who
}

// note puts what somebody did into the log and on record.
func (g *Gateway) note(by netip.Addr, category, said string) {
	g.log.Info(said, "by", by)
	now := time.Now()
	f := filter.Finding{Check: "admin", Category: category}
	t := filter.Transaction{ID: g.ids.Next(now), Start: now, Client: filter.Client{Addr: by}, Record: filter.Record{Note: said}, Verdict: filter.Verdict{Reason: filter.Reason{Finding: f}}}
	g.engine.Load().events.Add(event.From(&t))
}

// settingsParts are what the admin address shows and changes of the settings.
func (g *Gateway) settingsParts(s *Settings) *admin.Settings {
	return &admin.Settings{
		File:     g.file,
		Read:     func() ([]byte, error) { return os.ReadFile(g.file) },
		Check:    g.checkText,
		Effect:   g.effect,
		Save:     g.saveSettings,
		Versions: s.versions(),
		Policies: func() ([]admin.PolicyView, error) {
			s := g.engine.Load().settings
			return admin.PolicyViews(s.text, s.Policies)
		},
	}
}

// checkText says what is wrong with a text of settings, and which expectations
// of policies it does not meet.
func (g *Gateway) checkText(ctx context.Context, text []byte) error {
	g.trying.Lock()
	defer g.trying.Unlock()
	s, err := Parse(g.file, text)
	if err != nil {
		return err
	}
	if err := g.engine.Load().keepsLocked(ctx, s); err != nil {
		return s.text.Mistakes(err)
	}
	e, done, err := try(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	return e.Expectations(ctx)
}

// What a change does is found with as many of the newest events, in this time.
const (
	effectSpan = 24 * time.Hour
	maxEffect  = 1_000_000
	effectTime = 20 * time.Second
	effectRows = 50 // kinds of changes that are shown
)

var errNoRecord = errors.New("no store that can be asked keeps events: what the change does cannot be said")

// effect judges the events of the last day by the settings in use and by a text.
func (g *Gateway) effect(ctx context.Context, text []byte) (*admin.Effect, error) {
	g.trying.Lock()
	defer g.trying.Unlock()
	ctx, cancel := context.WithTimeout(ctx, effectTime)
	defer cancel()
	run := g.engine.Load()
	r := run.events.Reader()
	if r == nil {
		return nil, errNoRecord
	}
	start := time.Now()
	var judges [2]replay.Judge
	for i, t := range [][]byte{run.settings.text.Data(), text} {
		s, err := Parse(g.file, t)
		if err != nil {
			return nil, err
		}
		e, done, err := try(ctx, s)
		if err != nil {
			return nil, err
		}
		defer done()
		e.rulings.Copy(run.rulings)
		judges[i] = e.judge(g.file)
	}
	rows := &dayOf{Reader: r, since: start.Add(-effectSpan)}
	var source replay.Source
	w := replay.WhatIf{Old: &judges[0], New: judges[1]}
	x, err := w.Run(ctx, source.Events(ctx, rows, "the record"))
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("judging the last day took longer than %v: what the change does cannot be said", effectTime)
		}
		return nil, err
	}
	in := source.Input()
	out := &admin.Effect{Since: rows.since, Judged: x.Judged, Changed: x.Changed, Unknown: x.Unknown + in.Broken + in.Other, Cut: rows.cut, Took: time.Since(start).Seconds(), Changes: []admin.EffectKind{}}
	for _, c := range x.Changes[:min(len(x.Changes), effectRows)] {
		out.Changes = append(out.Changes, admin.EffectKind(c))
	}
	return out, nil
}

// dayOf gives only the newest rows since a time, whatever it is asked for.
type dayOf struct {
	event.Reader
	since time.Time
	cut   bool
}

func (d *dayOf) Query(ctx context.Context, f event.Filter, _ event.Page) iter.Seq2[event.Row, error] {
	f.Since = d.since
	return func(yield func(event.Row, error) bool) {
		n := 0
		for row, err := range d.Reader.Query(ctx, f, event.Page{Newest: true, Limit: maxEffect + 1}) {
			if n++; n > maxEffect {
				d.cut = true
				return
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// judge is what judges a record by an engine. A record knows the name of who had
// logged in; the groups are those that the settings give that name now.
func (e *Engine) judge(name string) replay.Judge {
	groups := map[string][]string{}
	for name, members := range e.settings.Identity.Groups {
		for _, m := range members {
			groups[m] = append(groups[m], name)
		}
	}
	return replay.Judge{Name: name, Decider: e.policies.Engine, Client: func(ctx context.Context, r *replay.Entry) filter.Client {
		// Who would have to log in comes back with an error and the groups of the
		// address, which is what is known.
		c, _ := e.Identify(ctx, r.Client)
		if r.User != "" && r.User != c.User {
			c.User = r.User
			c.Groups = slices.Concat(c.Groups, groups[r.User])
		}
		return c
	}}
}

// saveSettings writes a text of settings and takes it into use. When that fails
// the text before is put back.
func (g *Gateway) saveSettings(ctx context.Context, text []byte, tag, by, reason string) ([]string, error) {
	if err := g.checkText(ctx, text); err != nil {
		return nil, err
	}
	g.saving.Lock()
	defer g.saving.Unlock()
	was, err := os.ReadFile(g.file)
	if err != nil {
		return nil, err
	}
	if admin.Tag(was) != tag {
		return nil, admin.ErrChanged
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(g.file); err == nil {
		mode = info.Mode().Perm()
	}
	kept := g.engine.Load().settings.versions()
	if err := kept.Found(was); err != nil {
		return nil, fmt.Errorf("keeping the version before: %w", err)
	}
	if err := atomicfile.WriteBytes(g.file, mode, text); err != nil {
		return nil, fmt.Errorf("writing the settings: %w", err)
	}
	if err := g.Reload(context.WithoutCancel(ctx)); err != nil {
		if back := atomicfile.WriteBytes(g.file, mode, was); back != nil {
			return nil, errors.Join(err, fmt.Errorf("putting the settings back: %w", back))
		}
		_ = g.Reload(context.WithoutCancel(ctx)) // as it was; what is wrong then is in /health
		return nil, err
	}
	if err := kept.Add(text, by, reason); err != nil {
		g.log.Error("the saved settings are in use, and not kept in the history", "error", err)
	}
	g.log.Info("settings saved", "by", by, "because", reason, "revision", g.engine.Load().revision)
	g.tell(state.Instruction{Topic: settingsTopic, Value: g.engine.Load().revision, Until: time.Now().Add(settingsFor)})
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.problems), nil
}

// versions keep the texts of the settings.
func (s *Settings) versions() admin.Versions {
	return admin.Versions{Dir: filepath.Join(string(s.Data), "versions")}
}
