package vote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"shuultuur/metric"
)

// An Automatic is a rule that decides without a person: so many votes of so many
// people within a time.
type Automatic struct {
	Kind   Kind
	Votes  int      // different voters
	Groups []string // they are in one of these; none is anybody
	Within time.Duration
	Who    string        // for whom it is decided; "" is everyone
	For    time.Duration // for how long; 0 is for good
}

// A Desk is where votes are decided. It is safe for many goroutines.
type Desk struct {
	store Store
	rules []Automatic
	// apply carries a decision out, or takes one back that has ended.
	apply func(ctx context.Context, d *Decision) error
	// answer sends a decision to the voters with these mail addresses. It may be
	// nil.
	answer func(d *Decision, to []string)
	log    *slog.Logger

	deciding sync.Mutex // held while a decision is kept and carried out
	decided  *metric.CounterVec
}

// NewDesk returns a desk.
func NewDesk(s Store, rules []Automatic, apply func(ctx context.Context, d *Decision) error, answer func(d *Decision, to []string), log *slog.Logger) *Desk {
	return &Desk{store: s, rules: rules, apply: apply, answer: answer, log: log,
		decided: metric.NewCounterVec("shuultuur_votes_decisions_total", "Decisions about votes, by what was decided and whether a rule did.", "action", "by")}
}

// Collect implements [metric.Collector].
func (d *Desk) Collect(ch chan<- metric.Metric) { d.decided.Collect(ch) }

// Store is where votes and decisions are.
func (d *Desk) Store() Store { return d.store }

// maxBeside is how many decisions are looked through for others.
const maxBeside = 100_000

// maxAnswers is how many mails one decision sends at most.
const maxAnswers = 10_000

// A DecisionError is the error of a decision with a mistake.
type DecisionError struct{ Err error }

func (e *DecisionError) Error() string { return e.Err.Error() }

// Unwrap returns the mistake.
func (e *DecisionError) Unwrap() error { return e.Err }

// Decide carries out a decision and keeps it. Without a site it is about the
// host of the first vote.
func (d *Desk) Decide(ctx context.Context, n *Decision) error {
	d.deciding.Lock()
	defer d.deciding.Unlock()
	return d.decide(ctx, n, "person")
}

func (d *Desk) decide(ctx context.Context, n *Decision, by string) error {
	now := time.Now()
	n.At = now
	if n.Site == "" && n.Remedy != "" {
		c, err := d.store.Case(ctx, n.Remedy)
		if err != nil {
			return &DecisionError{err}
		}
		n.Site = c.Host
	}
	if err := n.Check(now); err != nil {
		return &DecisionError{err}
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

// Withdraw takes back a decision. Where it had replaced an earlier one for the
// same site and people, that one holds again; where a later one has replaced it,
// the later one goes on to hold.
func (d *Desk) Withdraw(ctx context.Context, id int64) (Decision, error) {
	d.deciding.Lock()
	defer d.deciding.Unlock()
	return d.withdraw(ctx, id)
}

func (d *Desk) withdraw(ctx context.Context, id int64) (Decision, error) {
	n, err := d.store.Decision(ctx, id)
	if err == nil && !n.Ended.IsZero() {
		err = fmt.Errorf("decision %d was withdrawn at %s", id, n.Ended.Format(time.DateTime))
	}
	if err != nil {
		return n, &DecisionError{err}
	}
	now := time.Now()
	other, later, err := d.otherFor(ctx, &n, now)
	if err != nil {
		return n, err
	}
	if n.Action != Keep && !later {
		gone := n
		gone.Ended = now
		if err := d.apply(ctx, &gone); err != nil {
			return n, fmt.Errorf("taking back the decision about %s: %w", n.Site, err)
		}
		if other != nil {
			if err := d.apply(ctx, other); err != nil {
				return n, fmt.Errorf("carrying out the decision before about %s: %w", n.Site, err)
			}
		}
	}
	return d.store.Withdraw(ctx, id, now)
}

// otherFor returns the last other decision that holds for the same site and people,
// and says whether it is later than n.
func (d *Desk) otherFor(ctx context.Context, n *Decision, now time.Time) (other *Decision, later bool, err error) {
	all, err := d.store.Decisions(ctx, maxBeside)
	for i := range all { // the last one first
		o := &all[i]
		if o.ID != n.ID && o.Site == n.Site && o.Who == n.Who && o.Action != Keep && o.Ended.IsZero() && (o.Until.IsZero() || o.Until.After(now)) {
			return o, o.ID > n.ID, nil
		}
	}
	return nil, false, err
}

// Erase takes out the votes of a person, and takes back decisions for that person
// alone. It returns how many votes there were.
func (d *Desk) Erase(ctx context.Context, p *Person) (int64, error) {
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
	return d.store.Erase(ctx, p)
}

// After decides by rules what votes that were just counted ask for.
func (d *Desk) After(ctx context.Context, fresh []Vote) {
	for _, rule := range d.rules {
		seen := map[string]bool{}
		for n := range fresh {
			v := &fresh[n]
			if remedy := v.Remedy(); v.Kind == rule.Kind && !seen[remedy] && v.in(rule.Groups) {
				seen[remedy] = true
				if err := d.automatic(ctx, &rule, v); err != nil && ctx.Err() == nil {
					d.log.Error("a rule about votes was not carried out", "remedy", remedy, "error", err)
				}
			}
		}
	}
}

// in reports whether the voter is in one of the groups; with none, always.
func (v *Vote) in(groups []string) bool {
	for _, g := range groups {
		for _, is := range v.Event.Groups {
			if is == g {
				return true
			}
		}
	}
	return len(groups) == 0
}

func (d *Desk) automatic(ctx context.Context, rule *Automatic, v *Vote) error {
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
