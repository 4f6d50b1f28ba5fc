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
	none := func(func(field, value []byte)) error { return nil }
	cs.unpack(&quick[0], func(take func(field, value []byte)) error { take([]byte("b1"), []byte("1")); return nil }, nil)
	between := cs.pack("a", keys, false)
	cs.unpack(&slow[0], none, nil) // read before b wrote
	if n := others(); n != 1 {
		t.Errorf("the sum of the others is %d, want 1: an older reading replaced it", n)
	}
	cs.unpack(&between[0], none, nil) // began when b's number was there; b has withdrawn it since
	if n := others(); n != 0 {
		t.Errorf("the sum of the others is %d, want 0 after b withdrew its number", n)
	}
	if c := cs.of(keys[0]).m[keys[0]]; c.pushing != nil {
		t.Error("an exchange never ends")
	}
}
