package decision

import (
	"maps"
	"testing"
	"time"

	"shuultuur/policy"
	"shuultuur/state"
)

// A ledger is a Store in memory.
type ledger map[[2]string]state.Instruction

func (l ledger) Issue(all ...state.Instruction) error {
	for _, i := range all {
		if err := i.Check(); err != nil {
			return err
		}
		l[[2]string{i.Topic, i.Key}] = i
	}
	return nil
}

func (l ledger) InForce(topic string) (all []state.Instruction) {
	for _, i := range l {
		if i.Topic == topic && i.Value != "" && i.Until.After(time.Now()) {
			all = append(all, i)
		}
	}
	return all
}

// TestTimeGivenAtOnceAddsUp: at one node, and at two that hear of each other later. What an older program has
// given counts as well, and nothing is left when it is taken back.
func TestTimeGivenAtOnceAddsUp(t *testing.T) {
	one, two := ledger{}, ledger{}
	a, b := New(one), New(two)
	now := time.Now()
	day := now.Add(time.Hour)
	if err := one.Issue(state.Instruction{Topic: TimeTopic, Key: "anna", Value: "5", Until: day}, state.Instruction{Topic: TimeTopic, Key: "ben", Value: "7", Until: day}); err != nil {
		t.Fatal(err)
	}
	a.Refresh()
	for i, k := range []*Keeper{a, a, b} {
		total, err := k.GiveTime("anna", 15, now, "somebody")
		if want := []int64{20, 35, 15}[i]; err != nil || total != want {
			t.Errorf("the gift %d gives %d minutes, %v; want %d", i, total, err, want)
		}
	}
	sum := func(k *Keeper, who string) (n int64) {
		for _, x := range k.Bonuses(now) {
			if x.Who == who {
				n += x.Minutes
			}
		}
		return n
	}
	both := maps.Clone(one)
	maps.Copy(both, two)
	all := New(both)
	if got := sum(all, "anna"); got != 50 {
		t.Errorf("anna has %d minutes more, want 50", got)
	}
	if _, err := all.GiveTime("anna", policy.MaxBonus, now, "somebody"); err == nil {
		t.Error("more than a day is given")
	}
	if total, err := all.GiveTime("anna", 0, now, "somebody"); err != nil || total != 0 || sum(all, "anna") != 0 || sum(all, "ben") != 7 {
		t.Errorf("taken back, anna has %d minutes more, and ben %d; %v", sum(all, "anna"), sum(all, "ben"), err)
	}
}
