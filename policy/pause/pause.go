// Package pause keeps the pauses of filtering over restarts, and equal on all nodes of a
// fleet.
//
// [Keeper.Set] turns a request into an instruction, which the store keeps and sends to all
// nodes. [Keeper.Refresh] turns the instructions in force into [policy.Pauses], which the
// policy engine reads without a lock. Run says which are over.
package pause

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"shuultuur/lib/metric"
	"shuultuur/lib/problem"
	"shuultuur/policy"
	"shuultuur/state"
)

// Topic is the topic of instructions about pauses. The key is for whom; the value says that
// there is a pause.
const Topic = "pause"

// paused is the value of an instruction that pauses.
const paused = "paused"

// A Store keeps instructions.
type Store interface {
	Issue(all ...state.Instruction) error
	InForce(topic string) []state.Instruction
}

// A Keeper keeps pauses. They outlive policy engines.
type Keeper struct {
	policy.Pauses
	store Store
	log   *slog.Logger
	mu    sync.Mutex     // held while pauses change
	told  []policy.Pause // those of which the log says that they are over
}

// New returns a keeper of the pauses in a store.
func New(store Store, log *slog.Logger) *Keeper {
	k := &Keeper{store: store, log: log}
	k.Refresh()
	return k
}

// Refresh puts the instructions in force into use, such as those from another node.
func (k *Keeper) Refresh() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refresh()
}

// refresh is Refresh for callers that hold mu.
func (k *Keeper) refresh() {
	var all []policy.Pause
	for _, i := range k.store.InForce(Topic) {
		all = append(all, policy.Pause{Who: i.Key, Until: i.Until})
	}
	k.Pauses.Set(all)
}

// Set pauses filtering for who (see [policy.Pause]) until a time, or resumes it if that is
// not in the future; with "", it resumes for all. by is the user. message describes the
// change, or is "".
func (k *Keeper) Set(who string, until, now time.Time, by string) (message string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var give []state.Instruction
	asked := policy.Pause{Who: who, Until: until}
	before := k.At(now)
	if until.After(now) {
		give = append(give, state.Instruction{Topic: Topic, Key: who, Value: paused, Until: until, By: by})
		message = fmt.Sprintf("filtering is paused for %s until %s, %v", asked.Whom(), until.Format(time.DateTime), until.Sub(now).Round(time.Second))
	} else {
		for _, p := range slices.Concat(before, k.TooFarAhead(now)) {
			if who == "" || p.Who == who {
				give = append(give, state.Instruction{Topic: Topic, Key: p.Who, By: by})
			}
		}
		message = "filtering resumes for " + asked.Whom()
	}
	switch {
	case len(give) == 0 && who == "":
		return "", nil
	case len(give) == 0:
		return "", fmt.Errorf("there is no pause for %q", who)
	case until.After(now) && len(before) >= policy.MaxPauses && !slices.ContainsFunc(before, func(p policy.Pause) bool { return p.Who == who }):
		return "", fmt.Errorf("there are %d pauses, the most that are possible; end some, or name a network or a group", len(before))
	}
	if err := k.store.Issue(give...); err != nil {
		return "", err
	}
	k.refresh()
	return message, nil
}

// Run tells the log of pauses that are over, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			k.end(now)
		}
	}
}

func (k *Keeper) end(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	over := k.Over(now)
	for _, p := range over {
		if !slices.Contains(k.told, p) {
			k.log.Info("filtering resumes for "+p.Whom(), "because", "its pause is over")
		}
	}
	k.told = over // they stay: the clock may be wrong, and come back
}

// Problems returns for whom filtering is paused, for the operator.
func (k *Keeper) Problems() (all []problem.Problem) {
	for _, p := range k.At(time.Now()) {
		all = append(all, problem.Problem{Kind: problem.Paused, Text: fmt.Sprintf("filtering is paused for %s until %s", p.Whom(), p.Until.Format(time.DateTime))})
	}
	for _, p := range k.TooFarAhead(time.Now()) {
		all = append(all, problem.Problem{Kind: problem.Clock, Text: fmt.Sprintf("a pause for %s until %s does not count: no pause may be so long, so the clock is wrong, or was when it began; set the clock, or end the pause", p.Whom(), p.Until.Format(time.DateTime))})
	}
	return all
}

// Collect implements [metric.Collector].
func (k *Keeper) Collect(ch chan<- metric.Metric) {
	ch <- metric.New(countDesc, metric.Gauge, float64(len(k.At(time.Now()))))
}

var countDesc = metric.NewDesc("shuultuur_pauses", "Pauses of filtering: for clients, groups or networks.")
