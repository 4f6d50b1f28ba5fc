package redins

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestNamesAreAsAMapHasThem(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	n, want := &names{}, map[string]uint64{}
	for step := range 20_000 {
		label := fmt.Sprintf("h%d", rnd.IntN(500+step/10))
		i := n.find([]byte(label))
		if _, known := want[label]; known != (i >= 0) {
			t.Fatalf("step %d: %s: found %v, want %v", step, label, i >= 0, known)
		}
		if rnd.IntN(5) < 2 && i >= 0 {
			n.remove(i)
			delete(want, label)
			continue
		}
		at, fresh, err := n.add([]byte(label))
		if err != nil || fresh != (i < 0) {
			t.Fatalf("step %d: add(%s): fresh %v, error %v", step, label, fresh, err)
		}
		sum := rnd.Uint64()
		n.all[at].sum, want[label] = sum, sum
	}
	if len(n.all) != len(want) {
		t.Errorf("%d names, want %d", len(n.all), len(want))
	}
	for label, sum := range want {
		if i := n.find([]byte(label)); i < 0 || n.all[i].sum != sum || string(n.label(i)) != label {
			t.Errorf("%s lost its checksum or label", label)
		}
	}
	n.beginRead()
	for label := range want {
		n.all[n.find([]byte(label))].round = n.round
		break
	}
	for _, i := range n.missingIndexes() {
		n.remove(i)
	}
	if len(n.all) != 1 || len(n.text) > 4000 {
		t.Errorf("%d names in %d bytes are left after a read that saw one", len(n.all), len(n.text))
	}
	if _, _, err := n.add(make([]byte, 1<<16)); err == nil {
		t.Error("add accepted a label of 64 KiB")
	}
}
