package alert

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"shuultuur/filter"
	"shuultuur/lib/metric"
	"shuultuur/lib/problem"
	"shuultuur/lib/setting"
	"shuultuur/policy"
)

// Start starts watching. The conditions are those of rules; a mistake names its
// place in the settings.
func Start(w *Watch, parts Parts) (*WatchSet, error) {
	_, err := policy.New(policy.Config{{Name: "alerts", Rules: w.Rules()}}, parts.Checks, policy.Parts{Key: parts.Key, Log: parts.Log})
	if err != nil {
		return nil, atPlace(w.Rules(), err)
	}
	a := &WatchSet{Watch: w}
	switch {
	case parts.File == "":
	case parts.Previous != nil:
		a.Desk = parts.Previous.Desk
	default:
		if a.Desk, err = OpenDesk(parts.File, parts.Log); err == nil {
			a.Desk.Use(w) // who asks before Run is told of, too
		}
	}
	return a, err
}

// atPlace adds the place in the settings to a mistake in the watching rules.
func atPlace(rules []policy.Rule, err error) error {
	var at *setting.Error
	if !errors.As(err, &at) {
		return err
	}
	for i := range rules {
		rest, ok := strings.CutPrefix(at.Key, fmt.Sprintf("[0].rules[%d]", i))
		if theme, _ := ThemeOf(rules[i].Name); ok {
			return setting.At("themes."+theme+rest, at.Err)
		}
	}
	return err
}

// Run makes alerts until ctx ends.
func (a *WatchSet) Run(ctx context.Context) error {
	a.Desk.Use(a.Watch)
	return a.Desk.Run(ctx)
}

// Done passes a completed transaction to the desk.
func (a *WatchSet) Done(t *filter.Transaction) {
	if len(t.Monitored) > 0 {
		a.Desk.Add(t)
	}
}

// Problems returns the reasons why people may not be notified.
func (a *WatchSet) Problems() []problem.Problem {
	if a.Desk == nil {
		return nil
	}
	return a.Desk.Problems()
}

// Collect implements [metric.Collector].
func (a *WatchSet) Collect(ch chan<- metric.Metric) { a.Desk.Collect(ch) }
