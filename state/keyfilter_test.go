package state

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// keyKinds has consecutive keys, as tests use, and keys that are digests.
var keyKinds = map[string]func(i uint64) [16]byte{
	"counted": func(i uint64) (k [16]byte) { binary.BigEndian.PutUint64(k[8:], i); return k },
	"drawn": func(i uint64) (k [16]byte) {
		r := rand.New(rand.NewPCG(i, 1))
		binary.BigEndian.PutUint64(k[:], r.Uint64())
		binary.BigEndian.PutUint64(k[8:], r.Uint64())
		return k
	},
}

func TestTheKeyFilterHasNoFalseNegativesAndFewFalsePositives(t *testing.T) {
	for name, key := range keyKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const held, asked = 2_000_000, 200_000
			k := new(keyFilter)
			for i := range uint64(held) {
				key := key(i)
				k.add(key[:])
			}
			wrong := 0
			for i := range uint64(asked) {
				there, other := key(i*(held/asked)), key(held+i)
				if !k.has(there[:]) {
					t.Fatalf("the filter lacks key %d, which was added", i)
				}
				if k.has(other[:]) {
					wrong++
				}
			}
			if wrong > asked/500 {
				t.Errorf("%d of %d keys that were not added are reported as known, want 1 in 500 at most", wrong, asked)
			}
			t.Logf("%d of %d keys that were not added are reported as known", wrong, asked)
		})
	}
}
