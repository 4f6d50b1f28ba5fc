package gateway

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"shuultuur/admin/account"
	"shuultuur/admin/hook"
	"shuultuur/admin/settings"
	"shuultuur/admin/web"
	"shuultuur/admin/why"
	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/intercept"
	"shuultuur/lib/atomicfile"
	"shuultuur/lib/problem"
	"shuultuur/lib/setting"
	"shuultuur/policy"
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
	var s *configuration.Settings
	if q.engine != nil && bytes.Equal(q.engine.Settings.Text.Data(), run.Settings.Text.Data()) {
		s = q.engine.Settings
	} else {
		var err error
		if s, err = configuration.Parse(run.Settings.Text.File, run.Settings.Text.Data()); err != nil {
			return nil, err
		}
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
func (p *pages) explain(ctx context.Context, q why.Question) (*why.Explanation, error) {
	p.gateway.questions.Lock()
	defer p.gateway.questions.Unlock()
	run := p.gateway.engine.Load()
	e, err := p.gateway.questions.current(ctx, run)
	if err != nil {
		return nil, err
	}
	e.Pauses.Pauses.Set(run.Pauses.At(time.Now()))
	e.Decisions.Copy(run.Decisions)
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
func (p *pages) normaliseDecision(d policy.Decision) (policy.Decision, error) {
	ends := !d.Until.IsZero() && !d.Until.After(time.Now())
	switch _, err := netip.ParseAddr(d.Site); {
	case d.Site == policy.AnySite && (d.Block || ends):
	case d.Site == policy.AnySite:
		return d, &web.BadChange{Err: errors.New("a decision closes the web, but does not open all of it; pause filtering instead")}
	case err != nil && !isSite(d.Site):
		return d, &web.BadChange{Err: fmt.Errorf("%q is not the name of a site", d.Site)}
	}
	if d.Who == "" {
		return d, nil
	}
	who, err := p.gateway.engine.Load().NormaliseWho(d.Who)
	d.Who = who
	return d, err
}

// rule opens or blocks a site for a client on all nodes, or ends that.
func (p *pages) rule(d policy.Decision, by netip.Addr) error {
	d, err := p.normaliseDecision(d)
	if err != nil {
		return err
	}
	e := p.gateway.engine.Load()
	ended := !d.Until.IsZero() && !d.Until.After(time.Now())
	if err := e.Decisions.Rule(d, ended, by.String()); err != nil {
		return err
	}
	outcome := "opened"
	switch {
	case ended:
		outcome = "no longer decided by hand"
	case d.Block:
		outcome = "blocked"
	}
	p.note(by, "ruling", fmt.Sprintf("%s: %s for %s", d.Site, outcome, orEveryone(d.Who)))
	return nil
}

func orEveryone(who string) string {
	if who == "" {
		return "everyone"
	}
	return who
}

// note logs and records an administrator's action.
func (p *pages) note(by netip.Addr, category, outcome string) {
	p.gateway.log.Info(outcome, "by", by)
	now := time.Now()
	f := filter.Finding{Check: "admin", Category: category}
	t := filter.Transaction{ID: p.gateway.ids.Next(now), Start: now, Client: filter.Client{Addr: by}, Record: filter.Record{Note: outcome}, Verdict: filter.Verdict{Reason: filter.Reason{Finding: f}}}
	p.gateway.engine.Load().Events.Add(event.NewRow(&t))
}

// settingsParts returns the functions by which the admin address shows and changes
// the settings.
func (p *pages) settingsParts(first *engine.Engine) *settings.Settings {
	s := first.Settings
	var views settings.PolicyViewer
	return &settings.Settings{
		File:     p.gateway.file,
		Read:     func() ([]byte, error) { return os.ReadFile(p.gateway.file) },
		InUse:    func() []byte { return p.gateway.engine.Load().Settings.Text.Data() },
		Check:    p.gateway.checkText,
		Save:     p.gateway.saveSettings,
		Versions: s.Versions(),
		Empty:    func() any { return &configuration.Settings{} },
		Key:      first.Data.Key,
		Own:      p.gateway.owns,
		Paths:    func(s any) []string { return s.(*configuration.Settings).Paths(filepath.Dir(p.gateway.file)) },
		Inside:   p.gateway.inside,
		Schema:   func() ([]byte, error) { return configuration.Schema(embed.FS{}) }, // keys only, without the texts of the manual
		Policies: func() ([]settings.PolicyView, error) {
			s := p.gateway.engine.Load().Settings
			return views.Views(s.Text, s.Policies)
		},
		Categories: func() []string { return p.gateway.engine.Load().Checks.Named() },
		Manual:     func() map[string]setting.Row { return p.gateway.manual() }, // it is set later
		Try:        p.gateway.try,
		Restart:    p.gateway.Restart,
		Waiting:    p.gateway.waiting,
	}
}

// SetManual has the form of the settings say what the manual says about each key. It is called before
// Run.
func (g *Gateway) SetManual(pages fs.FS) {
	g.manual = sync.OnceValue(func() map[string]setting.Row { // when somebody opens the form
		rows, err := setting.Manual(pages)
		if err != nil {
			g.log.Error("the manual of the settings cannot be read", "error", err)
		}
		all := map[string]setting.Row{}
		for _, r := range rows {
			all[r.Key] = r
		}
		return all
	})
}

// owns reports whether a path leads to files that settings of an operator must not name: the data
// folder, the settings with their program, and files that only an owner may name, such as keys. A
// folder above them leads there, too.
func (g *Gateway) owns(path string) bool {
	s := g.engine.Load().Settings
	own := append(setting.PowerFiles(s, account.Owner.String()), string(s.Data), g.file, hook.Path(g.file))
	own = slices.AppendSeq(own, maps.Keys(s.Text.SecretFiles()))
	if s.Intercept != nil && s.Intercept.Root != "" {
		own = append(own, intercept.KeyFile(string(s.Intercept.Root)))
	}
	path = realPath(path)
	return slices.ContainsFunc(own, func(o string) bool {
		o = realPath(o)
		return isBelow(path, o) || isBelow(o, path)
	})
}

// inside reports whether a path is in the folder of the settings or in that of the data.
func (g *Gateway) inside(path string) bool {
	s := g.engine.Load().Settings
	path = realPath(path)
	return isBelow(path, realPath(s.Dir)) || isBelow(path, realPath(string(s.Data)))
}

// realPath returns a path without symbolic links, as far as it exists.
func realPath(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	rest := ""
	for at := path; ; at = filepath.Dir(at) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, rest)
		}
		if at == filepath.Dir(at) {
			return path
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

func isBelow(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// lockedOf is the part of the settings that could undo a locked list.
func lockedOf(s *configuration.Settings) *settings.LockedSettings {
	return &settings.LockedSettings{Checks: s.Checks, Policies: s.Policies, Inspected: s.Proxy.Exchange.Inspected}
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
	if web.Tag(was) != tag {
		return nil, web.ErrChanged
	}
	mode := modeOf(g.file)
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
	remarks := problem.Texts(g.problems)
	if hookResult != nil {
		g.log.Warn(hookResult.Error())
		remarks = append(remarks, hookResult.Error())
	}
	return remarks, nil
}

// unmet returns lines for the operator about expectations that the settings in use do not
// meet, for example because a list has changed.
func (g *Gateway) unmet(ctx context.Context) (problems []problem.Problem) {
	run := g.engine.Load()
	if !slices.ContainsFunc(run.Settings.Policies, func(p policy.Policy) bool { return len(p.Expect) > 0 }) {
		return nil
	}
	g.questions.Lock()
	defer g.questions.Unlock()
	e, err := g.questions.current(ctx, run)
	if err != nil {
		return problem.Of(problem.Rules, fmt.Sprintf("the expectations of policies cannot be checked: %v", err))
	}
	e.Pauses.Pauses.Set(nil) // expectations are about the settings alone
	e.Decisions.Set(nil)
	e.Decisions.SetBonuses(nil)
	err = e.Expectations(ctx)
	var all setting.Mistakes
	if errors.As(err, &all) {
		for _, m := range all {
			problems = append(problems, problem.Of(problem.Rules, m.String())...)
		}
	}
	return problems
}
