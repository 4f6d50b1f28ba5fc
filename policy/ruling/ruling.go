// Package ruling keeps what people have decided by hand over restarts, and the
// same on all nodes of a fleet: which sites are open or blocked for whom, and
// who is given more time than the quotas say.
//
// Data moves through it as follows. [Keeper.Rule] and [Keeper.GiveTime] make an
// instruction, which the store keeps and gives to all nodes. [Keeper.Refresh]
// makes of the instructions in force what the policy engine reads without a lock
// ([policy.Decisions]).
package ruling

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/arrange"
	"shuultuur/policy"
	"shuultuur/state"
)

// Topics of instructions.
const (
	SiteTopic = "decision" // the key is for whom and about which site, with a tab between
	TimeTopic = "bonus"    // the key is for whom, the value how many minutes
)

// Values of instructions about sites.
const (
	opened  = "open"
	blocked = "block"
)

// A Store keeps instructions.
type Store interface {
	Give(all ...state.Instruction) error
	InForce(topic string) []state.Instruction
}

// A Keeper keeps decisions. They outlive policy engines.
type Keeper struct {
	policy.Decisions
	store Store
}

// New returns a keeper of the decisions in a store.
func New(store Store) *Keeper {
	k := &Keeper{store: store}
	k.Refresh()
	return k
}

// Refresh takes the instructions in force into use, such as those that another
// node has given.
func (k *Keeper) Refresh() { k.take(k.store) }

// Copy takes what another keeper has into use, once.
func (k *Keeper) Copy(from *Keeper) { k.take(from.store) }

func (k *Keeper) take(s Store) {
	k.Set(sites(s))
	var given []policy.Bonus
	for _, i := range s.InForce(TimeTopic) {
		if n, err := strconv.ParseInt(i.Value, 10, 64); err == nil {
			given = append(given, policy.Bonus{Who: i.Key, Minutes: n, Until: i.Until})
		}
	}
	k.SetBonuses(given)
}

// sites are the instructions in force about sites, later ones last.
func sites(s Store) []policy.Decision {
	given := s.InForce(SiteTopic)
	arrange.By(given, func(a, b state.Instruction) int { return cmp.Compare(a.At, b.At) })
	all := make([]policy.Decision, 0, len(given))
	for _, i := range given {
		who, site, _ := strings.Cut(i.Key, "\t")
		all = append(all, policy.Decision{Who: who, Site: site, Block: i.Value == blocked, Until: i.Until})
	}
	return all
}

// Sites are the decisions about sites that hold at a time, later ones last.
func (k *Keeper) Sites(now time.Time) []policy.Decision {
	return slices.DeleteFunc(sites(k.store), func(d policy.Decision) bool { return !d.Until.IsZero() && !d.Until.After(now) })
}

// Rule opens or blocks a site for somebody, or with ended takes that back. by
// says who asked for it.
func (k *Keeper) Rule(d policy.Decision, ended bool, by string) error {
	i := state.Instruction{Topic: SiteTopic, Key: d.Who + "\t" + d.Site, Value: opened, Until: d.Until, By: by}
	if d.Block {
		i.Value = blocked
	}
	if ended {
		i.Value, i.Until = "", time.Time{}
	}
	if err := k.store.Give(i); err != nil {
		return err
	}
	k.Refresh()
	return nil
}

// A TooMuch says that a day has fewer minutes than somebody would be given.
type TooMuch struct {
	Who     string
	Minutes int64
}

func (e *TooMuch) Error() string {
	return fmt.Sprintf("%s would have %d minutes more: a day has %d", e.Who, e.Minutes, policy.MaxBonus)
}

// GiveTime gives somebody minutes beyond quotas for the rest of the day, besides
// those that were given before, and returns how many that makes; 0 takes all
// back. An error may be a [*TooMuch].
func (k *Keeper) GiveTime(who string, minutes int64, now time.Time, by string) (int64, error) {
	i := state.Instruction{Topic: TimeTopic, Key: who, By: by}
	if minutes > 0 {
		for _, b := range k.Bonuses(now) {
			if b.Who == who {
				minutes += b.Minutes
			}
		}
		if minutes > policy.MaxBonus {
			return 0, &TooMuch{who, minutes}
		}
		y, m, d := now.Date()
		i.Value, i.Until = strconv.FormatInt(minutes, 10), time.Date(y, m, d+1, 0, 0, 0, 0, now.Location())
	}
	if err := k.store.Give(i); err != nil {
		return 0, err
	}
	k.Refresh()
	return minutes, nil
}
