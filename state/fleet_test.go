package state

import (
	"testing"
	"time"
)

func TestExchangesAtTheSameTimeForgetNothing(t *testing.T) {
	cs := &counters{shared: true}
	now, keys := time.Now(), [][16]byte{{1}}
	cs.take(now, []Count{{Key: keys[0], Until: now.Add(time.Hour), Add: 1, Most: 1}})
	others := func() int64 { return cs.of(keys[0]).m[keys[0]].others }
	slow, quick := cs.pack("a", keys, false), cs.pack("a", keys, false)
	cs.unpack(&quick[0], map[string]string{"b1": "1"}, true)
	between := cs.pack("a", keys, false)
	cs.unpack(&slow[0], nil, true) // has read before b wrote
	if n := others(); n != 1 {
		t.Errorf("the others have %d, want 1: what was heard is forgotten", n)
	}
	cs.unpack(&between[0], nil, true) // began when b's was here: b has taken it back
	if n := others(); n != 0 {
		t.Errorf("the others have %d, want 0 after b has taken back its own", n)
	}
	if c := cs.of(keys[0]).m[keys[0]]; c.pushing != nil {
		t.Error("an exchange is under way for ever")
	}
}
