package gateway

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"shuultuur/admin"
	"shuultuur/admin/alert"
	"shuultuur/admin/mail"
	"shuultuur/filter"
	"shuultuur/metric"
	"shuultuur/policy"
	"shuultuur/setting"
)

// newMail makes what sends mail.
func newMail(_ context.Context, b *builder) (*mail.Sender, error) {
	return mail.New(*b.settings.Mail)
}

// alerts are what is watched by these settings, and the desk that all settings
// share; on trial there is no desk.
type alerts struct {
	*alert.Watch
	desk *alert.Desk
}

func newAlerts(_ context.Context, b *builder) (*alerts, error) {
	w, err := alert.New(*b.settings.Alerts, b.mail, b.g.texts)
	if err != nil {
		return nil, err
	}
	// The conditions are those of rules. Compiled alone, a mistake in them is named
	// where it was written.
	_, err = policy.New(policy.Config{{Name: "alerts", Rules: w.Rules()}}, b.checks.Checks, policy.Parts{Key: b.data.Key, Log: b.log})
	if err != nil {
		return nil, placed(w.Rules(), err)
	}
	a := &alerts{Watch: w}
	if b.trial() {
		return a, nil
	}
	if b.old != nil && b.old.alerts != nil {
		a.desk = b.old.alerts.desk
		return a, nil
	}
	a.desk, err = alert.OpenDesk(filepath.Join(string(b.settings.Data), "alerts.json"), b.log)
	return a, err
}

// Run makes alerts until ctx ends.
func (a *alerts) Run(ctx context.Context) error {
	a.desk.Use(a.Watch)
	return a.desk.Run(ctx)
}

// Problems implements the method of parts.
func (a *alerts) Problems() []string {
	if a.desk == nil {
		return nil
	}
	return a.desk.Problems()
}

// Collect implements [metric.Collector].
func (a *alerts) Collect(ch chan<- metric.Metric) { a.desk.Collect(ch) }

// placed says of a mistake in the rules that watch where it stands in the
// settings.
func placed(rules []policy.Rule, err error) error {
	var at *setting.Error
	if !errors.As(err, &at) {
		return err
	}
	for i := range rules {
		rest, ok := strings.CutPrefix(at.Key, fmt.Sprintf("[0].rules[%d]", i))
		if theme, _ := alert.ThemeOf(rules[i].Name); ok {
			return setting.At("themes."+theme+rest, at.Err)
		}
	}
	return err
}

// watched has a transaction that is over looked at for alerts.
func (e *Engine) watched(t *filter.Transaction) {
	if len(t.Monitored) > 0 && e.alerts != nil {
		e.alerts.desk.Add(t)
	}
}

// watching are the parts of the admin address by which people are told.
func (g *Gateway) watching(*builder) admin.Watching {
	return admin.Watching{Alerts: func() *alert.Desk {
		if e := g.engine.Load(); e != nil && e.alerts != nil {
			return e.alerts.desk
		}
		return nil
	}}
}
