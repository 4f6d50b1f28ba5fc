// Package decision keeps manual decisions over restarts, and equal on all nodes of a fleet:
// which sites are open or blocked for which clients, and which clients get more time than their quotas.
//
// [Keeper.Rule] and [Keeper.GiveTime] make an instruction, which the store keeps and sends to
// all nodes. [Keeper.Refresh] turns the instructions in force into [policy.Decisions], which
// the policy engine reads without a lock.
package decision

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"shuultuur/lib/clock"
	"shuultuur/policy"
	"shuultuur/state"
)

// Topics of instructions.
const (
	SiteTopic = "decision" // the key is for whom and which site, separated by a tab
	// The key is for whom and, after a tab, which gift: two nodes may give some at once. The value is the
	// number of minutes.
	TimeTopic = "bonus"
)

// Values of instructions about sites.
const (
	opened  = "open"
	blocked = "block"
)

// A Store keeps instructions.
type Store interface {
	Issue(all ...state.Instruction) error
	InForce(topic string) []state.Instruction
}

// A Keeper keeps decisions. They outlive policy engines.
type Keeper struct {
	policy.Decisions
	store  Store
	giving sync.Mutex // held while a bonus is added to what was given before
}

// New returns a keeper of the decisions in a store.
func New(store Store) *Keeper {
	k := &Keeper{store: store}
	k.Refresh()
	return k
}

// Refresh puts the instructions in force into use, such as those from another node.
func (k *Keeper) Refresh() { k.take(k.store) }

// Copy puts the decisions of another keeper into use, once.
func (k *Keeper) Copy(from *Keeper) { k.take(from.store) }

func (k *Keeper) take(s Store) {
	k.Set(sites(s))
	k.SetBonuses(bonuses(s))
}

// bonuses returns what everybody was given until the same moment, in the order of names.
func bonuses(s Store) (all []policy.Bonus) {
	given := map[policy.Bonus]int64{}
	for _, i := range s.InForce(TimeTopic) {
		if n, err := strconv.ParseInt(i.Value, 10, 64); err == nil {
			who, _, _ := strings.Cut(i.Key, "\t")
			given[policy.Bonus{Who: who, Until: i.Until.Local()}] += n
		}
	}
	for b, n := range given {
		b.Minutes = n
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b policy.Bonus) int {
		return cmp.Or(strings.Compare(a.Who, b.Who), a.Until.Compare(b.Until))
	})
	return all
}

// sites returns the instructions in force about sites, oldest first.
func sites(s Store) []policy.Decision {
	given := s.InForce(SiteTopic)
	slices.SortStableFunc(given, func(a, b state.Instruction) int { return cmp.Compare(a.At, b.At) })
	all := make([]policy.Decision, 0, len(given))
	for _, i := range given {
		who, site, _ := strings.Cut(i.Key, "\t")
		all = append(all, policy.Decision{Who: who, Site: site, Block: i.Value == blocked, Until: i.Until})
	}
	return all
}

// Sites returns the decisions about sites in force at a time, oldest first.
func (k *Keeper) Sites(now time.Time) []policy.Decision {
	return slices.DeleteFunc(sites(k.store), func(d policy.Decision) bool { return !d.Until.IsZero() && !d.Until.After(now) })
}

// Rule opens or blocks a site for a client, or with ended reverses that. by is who asked for
// it.
func (k *Keeper) Rule(d policy.Decision, ended bool, by string) error {
	i := state.Instruction{Topic: SiteTopic, Key: d.Who + "\t" + d.Site, Value: opened, Until: d.Until, By: by}
	if d.Block {
		i.Value = blocked
	}
	if ended {
		i.Value, i.Until = "", time.Time{}
	}
	if err := k.store.Issue(i); err != nil {
		return err
	}
	k.Refresh()
	return nil
}

// Problems returns the bonuses that do not count, for the operator.
func (k *Keeper) Problems() (all []string) {
	for _, b := range k.TooFarAhead(time.Now()) {
		all = append(all, fmt.Sprintf("%d more minutes for %s until %s do not count: a bonus ends with the day, so the clock is wrong, or was when they were given; set the clock, or give them again", b.Minutes, b.Who, b.Until.Format(time.DateTime)))
	}
	return all
}

// A TooMuch error says that a bonus would exceed the minutes of a day.
type TooMuch struct {
	Who     string
	Minutes int64
}

func (e *TooMuch) Error() string {
	return fmt.Sprintf("%s would have %d minutes more: a day has %d", e.Who, e.Minutes, policy.MaxBonus)
}

// GiveTime adds minutes beyond quotas for the rest of the day, and returns the new total; 0
// revokes them. The error may be a [*TooMuch].
func (k *Keeper) GiveTime(who string, minutes int64, now time.Time, by string) (int64, error) {
	k.giving.Lock()
	defer k.giving.Unlock()
	var changes []state.Instruction
	total := minutes
	if minutes > 0 {
		for _, b := range k.Bonuses(now) {
			if b.Who == who {
				total += b.Minutes
			}
		}
		if total > policy.MaxBonus {
			return 0, &TooMuch{who, total}
		}
		changes = []state.Instruction{{Topic: TimeTopic, Key: who + "\t" + rand.Text()[:8], Value: strconv.FormatInt(minutes, 10), Until: clock.Day(now, 1), By: by}}
	} else {
		for _, i := range k.store.InForce(TimeTopic) {
			if of, _, _ := strings.Cut(i.Key, "\t"); of == who {
				changes = append(changes, state.Instruction{Topic: TimeTopic, Key: i.Key, By: by})
			}
		}
	}
	if err := k.store.Issue(changes...); err != nil {
		return 0, err
	}
	k.Refresh()
	return total, nil
}
