package gateway

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"shuultuur/admin"
	"shuultuur/admin/hook"
	"shuultuur/atomicfile"
	"shuultuur/configuration"
	"shuultuur/engine"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/policy"
	"shuultuur/setting"
)

// questionTime is how long the engine for questions is kept after the last one.
const questionTime = 5 * time.Minute

// A questionEngine answers questions: it has the settings in use, gives all evidence,
// and counts and remembers nothing. It is kept for a while, because building it may take
// seconds.
type questionEngine struct {
	sync.Mutex                // held as long as the engine is used
	engine     *engine.Engine // guarded by the lock; nil for none
	forget     *time.Timer    // guarded by the lock
	at         time.Time      // of the last use; guarded by the lock
}

// current returns the engine with the settings of run. Only what has changed since the question
// before is built.
func (q *questionEngine) current(ctx context.Context, run *engine.Engine) (*engine.Engine, error) {
	s, err := configuration.Parse(run.Settings.Text.File, run.Settings.Text.Data())
	if err != nil {
		return nil, err
	}
	e, _, err := engine.TryFrom(ctx, q.engine, s)
	if err != nil {
		return nil, fmt.Errorf("the running settings cannot be built again: %w", err)
	}
	if q.engine != nil {
		q.engine.Drop(e, slog.New(slog.DiscardHandler))
	}
	q.engine, q.at = e, time.Now()
	if q.forget == nil {
		q.forget = time.AfterFunc(questionTime, func() { q.drop(questionTime) })
	} else {
		q.forget.Reset(questionTime)
	}
	return e, nil
}

// drop releases the engine if it was not used for a time.
func (q *questionEngine) drop(unused time.Duration) {
	q.Lock()
	defer q.Unlock()
	if q.engine != nil && time.Since(q.at) >= unused {
		q.engine.Drop(nil, slog.New(slog.DiscardHandler))
		q.engine = nil
	}
}

// explain answers a question with the engine for questions.
func (g *pages) explain(ctx context.Context, q admin.Question) (*admin.Explanation, error) {
	g.questions.Lock()
	defer g.questions.Unlock()
	run := g.engine.Load()
	e, err := g.questions.current(ctx, run)
	if err != nil {
		return nil, err
	}
	e.Pauses.Pauses.Set(run.Pauses.At(time.Now()))
	e.Rulings.Copy(run.Rulings)
	return e.Why(ctx, q)
}

// isSite reports whether name is a valid name of a site: labels of letters, digits,
// underscores and hyphens.
func isSite(name string) bool {
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || strings.ContainsFunc(label, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsNumber(c) && c != '_' && c != '-' }) {
			return false
		}
	}
	return len(name) <= 253
}

// normaliseDecision normalises a decision about a site.
func (g *pages) normaliseDecision(d policy.Decision) (policy.Decision, error) {
	if _, err := netip.ParseAddr(d.Site); err != nil && !isSite(d.Site) {
		return d, &admin.BadChange{Err: fmt.Errorf("%q is not the name of a site", d.Site)}
	}
	if d.Who == "" {
		return d, nil
	}
	who, err := g.engine.Load().NormaliseWho(d.Who)
	d.Who = who
	return d, err
}

// rule opens or blocks a site for a client on all nodes, or ends that.
func (g *pages) rule(d policy.Decision, by netip.Addr) error {
	d, err := g.normaliseDecision(d)
	if err != nil {
		return err
	}
	e := g.engine.Load()
	ended := !d.Until.IsZero() && !d.Until.After(time.Now())
	if err := e.Rulings.Rule(d, ended, by.String()); err != nil {
		return err
	}
	outcome := "opened"
	switch {
	case ended:
		outcome = "no longer decided by hand"
	case d.Block:
		outcome = "blocked"
	}
	g.note(by, "ruling", fmt.Sprintf("%s: %s for %s", d.Site, outcome, orEveryone(d.Who)))
	return nil
}

func orEveryone(who string) string {
	if who == "" {
		return "everyone"
	}
	return who
}

// note logs and records an administrator's action.
func (g *pages) note(by netip.Addr, category, outcome string) {
	g.log.Info(outcome, "by", by)
	now := time.Now()
	f := filter.Finding{Check: "admin", Category: category}
	t := filter.Transaction{ID: g.ids.Next(now), Start: now, Client: filter.Client{Addr: by}, Record: filter.Record{Note: outcome}, Verdict: filter.Verdict{Reason: filter.Reason{Finding: f}}}
	g.engine.Load().Events.Add(event.NewRow(&t))
}

// settingsParts returns the functions by which the admin address shows and changes
// the settings.
func (g *pages) settingsParts(s *configuration.Settings) *admin.Settings {
	return &admin.Settings{
		File:     g.file,
		Read:     func() ([]byte, error) { return os.ReadFile(g.file) },
		Check:    g.checkText,
		Save:     g.saveSettings,
		Versions: s.Versions(),
		Schema:   func() ([]byte, error) { return configuration.Schema(embed.FS{}) }, // keys only, without the texts of the manual
		Keys:     setting.Keys(s),
		Policies: func() ([]admin.PolicyView, error) {
			s := g.engine.Load().Settings
			return admin.PolicyViews(s.Text, s.Policies)
		},
	}
}

// lockedOf is the part of the settings that could undo a locked list.
func lockedOf(s *configuration.Settings) *admin.LockedSettings {
	return &admin.LockedSettings{Checks: s.Checks, Policies: s.Policies, Inspected: s.Proxy.Exchange.Inspected}
}

// checkText finds mistakes in a text of settings, and expectations of policies that it does
// not meet.
func (g *Gateway) checkText(ctx context.Context, text []byte) error {
	g.questions.Lock()
	defer g.questions.Unlock()
	s, err := configuration.Parse(g.file, text)
	if err != nil {
		return err
	}
	run := g.engine.Load()
	now := lockedOf(run.Settings)
	if err := now.Keeps(ctx, lockedOf(s), slices.Collect(maps.Keys(run.Checks.Locked()))); err != nil {
		return s.Text.Mistakes(err)
	}
	e, done, err := engine.TryChange(ctx, g.questions.engine, s, nil)
	if err != nil {
		return err
	}
	defer done()
	return e.Expectations(ctx)
}

// saveSettings writes a text of settings and puts it into use. If that fails, it restores the
// previous text.
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
	kept := g.engine.Load().Settings.Versions()
	if err := kept.KeepDisk(was); err != nil {
		return nil, fmt.Errorf("keeping the version before: %w", err)
	}
	if err := atomicfile.WriteBytes(g.file, mode, text); err != nil {
		return nil, fmt.Errorf("writing the settings: %w", err)
	}
	if err := g.Reload(context.WithoutCancel(ctx)); err != nil {
		if back := atomicfile.WriteBytes(g.file, mode, was); back != nil {
			return nil, errors.Join(err, fmt.Errorf("putting the settings back: %w", back))
		}
		_ = g.Reload(context.WithoutCancel(ctx)) // the previous settings are restored; /health shows further problems
		return nil, err
	}
	if err := kept.Add(text, by, reason); err != nil {
		g.log.Error("the saved settings are in use, and not kept in the history", "error", err)
	}
	g.log.Info("settings saved", "by", by, "because", reason, "revision", g.engine.Load().Revision)
	g.node.Changed(g.engine.Load().Revision)
	hookResult := hook.Run(context.WithoutCancel(ctx), g.file, by, reason)
	g.mu.Lock()
	defer g.mu.Unlock()
	remarks := slices.Clone(g.problems)
	if hookResult != nil {
		g.log.Warn(hookResult.Error())
		remarks = append(remarks, hookResult.Error())
	}
	return remarks, nil
}

// unmet returns lines for the operator about expectations that the settings in use do not
// meet, for example because a list has changed.
func (g *Gateway) unmet(ctx context.Context) (problems []string) {
	run := g.engine.Load()
	if !slices.ContainsFunc(run.Settings.Policies, func(p policy.Policy) bool { return len(p.Expect) > 0 }) {
		return nil
	}
	g.questions.Lock()
	defer g.questions.Unlock()
	e, err := g.questions.current(ctx, run)
	if err != nil {
		return []string{fmt.Sprintf("the expectations of policies cannot be checked: %v", err)}
	}
	e.Pauses.Pauses.Set(nil) // expectations are about the settings alone
	e.Rulings.Set(nil)
	e.Rulings.SetBonuses(nil)
	err = e.Expectations(ctx)
	var all setting.Mistakes
	if errors.As(err, &all) {
		for _, m := range all {
			problems = append(problems, m.String())
		}
	}
	return problems
}
