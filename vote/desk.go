package vote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"shuultuur/lib/metric"
)

// An AutomaticRule is a rule that decides without a person: when a number of people
// have voted within a time.
type AutomaticRule struct {
	Kind   Kind
	Votes  int      // the number of different voters
	Groups []string // groups of the voters; none is any
	Within time.Duration
	Who    string        // whom the decision is for; "" is everyone
	For    time.Duration // how long the decision holds; 0 is for good
}

// A Desk decides cases. It is safe for concurrent use.
type Desk struct {
	store Store
	rules []AutomaticRule
	// apply carries out a decision, or withdraws one that has ended.
	apply func(ctx context.Context, d *Decision) error
	// answer sends a decision to the voters with these mail addresses. It may be
	// nil.
	answer func(d *Decision, to []string)
	log    *slog.Logger

	deciding sync.Mutex // held while a decision is stored and carried out
	decided  *metric.CounterVec
}

// NewDesk returns a desk.
func NewDesk(s Store, rules []AutomaticRule, apply func(ctx context.Context, d *Decision) error, answer func(d *Decision, to []string), log *slog.Logger) *Desk {
	return &Desk{store: s, rules: rules, apply: apply, answer: answer, log: log,
		decided: metric.NewCounterVec("shuultuur_votes_decisions_total", "Decisions about votes, by what was decided and whether a rule did.", "action", "by")}
}

// Collect implements [metric.Collector].
func (d *Desk) Collect(ch chan<- metric.Metric) { d.decided.Collect(ch) }

// Store returns the store of votes and decisions.
func (d *Desk) Store() Store { return d.store }

// maxBeside is the number of decisions that are searched for those of the same
// site.
const maxBeside = 100_000

// maxAnswers is the most mails that one decision sends.
const maxAnswers = 10_000

// A DecisionError reports a mistake in a decision.
type DecisionError struct{ Err error }

func (e *DecisionError) Error() string { return e.Err.Error() }

// Unwrap returns the mistake.
func (e *DecisionError) Unwrap() error { return e.Err }

// Decide carries out and stores a decision. Without a site, it is about the
// host of the first vote.
func (d *Desk) Decide(ctx context.Context, n *Decision) error {
	d.deciding.Lock()
	defer d.deciding.Unlock()
	return d.decide(ctx, n, "person")
}

// Complete gives a decision without a site the host of the first vote, and looks for mistakes.
func (d *Desk) Complete(ctx context.Context, n *Decision) error {
	if n.Site == "" && n.Remedy != "" {
		c, err := d.store.Case(ctx, n.Remedy)
		if err != nil {
			return &DecisionError{err}
		}
		n.Site = c.Host
	}
	if err := n.Check(time.Now()); err != nil {
		return &DecisionError{err}
	}
	return nil
}

func (d *Desk) decide(ctx context.Context, n *Decision, by string) error {
	n.At = time.Now()
	if err := d.Complete(ctx, n); err != nil {
		return err
	}
	if n.Action != Keep {
		if err := d.apply(ctx, n); err != nil {
			return fmt.Errorf("carrying out the decision about %s: %w", n.Site, err)
		}
	}
	mails, err := d.store.Mails(ctx, n.Remedy, maxAnswers)
	if err == nil {
		err = d.store.Decide(ctx, n)
	}
	if err != nil {
		return fmt.Errorf("the decision about %s is carried out but could not be kept; decide again: %w", n.Site, err)
	}
	d.decided.With(string(n.Action), by).Inc()
	d.log.Info("votes are answered", "decision", n.ID, "action", n.Action, "site", n.Site, "for", n.scope(), "until", n.Until, "votes", n.Votes, "by", n.By)
	if d.answer != nil && len(mails) > 0 {
		d.answer(n, mails)
	}
	return nil
}

// Withdraw withdraws a decision. If it had replaced an earlier one for the same
// site and people, the earlier one applies again. If a later one has replaced it,
// the later one stays.
func (d *Desk) Withdraw(ctx context.Context, id int64) (Decision, error) {
	d.deciding.Lock()
	defer d.deciding.Unlock()
	return d.withdraw(ctx, id)
}

func (d *Desk) withdraw(ctx context.Context, id int64) (Decision, error) {
	now := time.Now()
	n, then, err := d.withdrawn(ctx, id, now)
	if err != nil {
		return n, err
	}
	for i := range then {
		does := "carrying out the decision before about"
		if !then[i].Ended.IsZero() {
			does = "taking back the decision about"
		}
		if err := d.apply(ctx, &then[i]); err != nil {
			return n, fmt.Errorf("%s %s: %w", does, n.Site, err)
		}
	}
	return d.store.Withdraw(ctx, id, now)
}

// Withdrawing returns the changes that withdrawing a decision would make.
func (d *Desk) Withdrawing(ctx context.Context, id int64) ([]Decision, error) {
	_, then, err := d.withdrawn(ctx, id, time.Now())
	return then, err
}

// withdrawn returns a decision, and the changes that withdrawing it makes.
func (d *Desk) withdrawn(ctx context.Context, id int64, now time.Time) (n Decision, then []Decision, err error) {
	n, err = d.store.Decision(ctx, id)
	if err == nil && !n.Ended.IsZero() {
		err = fmt.Errorf("decision %d was withdrawn at %s", id, n.Ended.Format(time.DateTime))
	}
	if err != nil {
		return n, nil, &DecisionError{err}
	}
	if n.Action == More {
		gone := n
		gone.Ended = now
		return n, []Decision{gone}, nil
	}
	other, later, err := d.otherFor(ctx, &n, now)
	if err != nil || n.Action == Keep || later {
		return n, nil, err
	}
	gone := n
	gone.Ended = now
	then = append(then, gone)
	if other != nil {
		then = append(then, *other)
	}
	return n, then, nil
}

// otherFor returns the latest other decision that holds for the same site and
// people. later reports whether it was made after n.
func (d *Desk) otherFor(ctx context.Context, n *Decision, now time.Time) (other *Decision, later bool, err error) {
	all, err := d.store.Decisions(ctx, maxBeside)
	for i := range all { // latest first
		o := &all[i]
		if o.ID != n.ID && o.Site == n.Site && o.Who == n.Who && o.Action != Keep && o.Action != More && o.Ended.IsZero() && (o.Until.IsZero() || o.Until.After(now)) {
			return o, o.ID > n.ID, nil
		}
	}
	return nil, false, err
}

// Erase removes a person's votes, and withdraws decisions for that person alone.
// It returns the number of votes.
func (d *Desk) Erase(ctx context.Context, p *Person, dry bool) (int64, error) {
	if dry {
		return d.store.Erase(ctx, p, true)
	}
	d.deciding.Lock()
	defer d.deciding.Unlock()
	all, err := d.store.Decisions(ctx, maxBeside)
	if err != nil {
		return 0, err
	}
	for _, n := range all {
		if p.Is(n.Who) && n.Ended.IsZero() {
			if _, err := d.withdraw(ctx, n.ID); err != nil {
				return 0, err
			}
		}
	}
	return d.store.Erase(ctx, p, false)
}

// ApplyRules applies the automatic rules to votes that were just counted. They open and block sites;
// time is for people to give.
func (d *Desk) ApplyRules(ctx context.Context, fresh []Vote) {
	for _, rule := range d.rules {
		seen := map[string]bool{}
		for n := range fresh {
			v := &fresh[n]
			if remedy := v.Remedy(); v.Kind == rule.Kind && !v.ForTime() && !v.ForHours() && !seen[remedy] && v.inGroup(rule.Groups) {
				seen[remedy] = true
				if err := d.automatic(ctx, &rule, v); err != nil && ctx.Err() == nil {
					d.log.Error("a rule about votes was not carried out", "remedy", remedy, "error", err)
				}
			}
		}
	}
}

// inGroup reports whether the voter is in one of the groups. Without groups,
// everyone is.
func (v *Vote) inGroup(groups []string) bool {
	for _, g := range groups {
		for _, is := range v.Event.Groups {
			if is == g {
				return true
			}
		}
	}
	return len(groups) == 0
}

func (d *Desk) automatic(ctx context.Context, rule *AutomaticRule, v *Vote) error {
	d.deciding.Lock()
	defer d.deciding.Unlock()
	now := time.Now()
	n, err := d.store.Voters(ctx, v.Remedy(), now.Add(-rule.Within), rule.Groups, rule.Votes)
	if err != nil || n < rule.Votes {
		return err
	}
	decision := Decision{Remedy: v.Remedy(), Site: v.Event.Host, Action: Open, Who: rule.Who, By: "automatic rule",
		Reason: fmt.Sprintf("Decided by a rule, after %d votes.", n)}
	if rule.Kind == Dangerous {
		decision.Action = Block
	}
	if rule.For > 0 {
		decision.Until = now.Add(rule.For)
	}
	var bad *DecisionError
	if err := d.decide(ctx, &decision, "rule"); errors.As(err, &bad) {
		return bad.Err
	} else if err != nil {
		return err
	}
	return nil
}
