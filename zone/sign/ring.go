package sign

import (
	"fmt"
	"slices"
	"sync"

	miekg "github.com/miekg/dns"
)

// A Ring keeps the signers of zones whose keys come with the zone, such as those in Redis: a
// zone that is read again with the same keys keeps its signatures.
type Ring struct {
	config Config

	mu      sync.Mutex
	signers map[string]ringEntry
}

type ringEntry struct {
	texts  []string
	signer *Signer
}

// NewRing makes a ring whose signers use c; its Keys are ignored.
func NewRing(c Config) (*Ring, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Ring{config: c, signers: map[string]ringEntry{}}, nil
}

// Signer returns the signer of a zone. texts are its keys, for each the public and then the
// private part, in the form of [Parse]; a pair of empty texts is skipped.
func (r *Ring) Signer(origin string, texts ...string) (*Signer, error) {
	origin = miekg.CanonicalName(origin)
	r.mu.Lock()
	defer r.mu.Unlock()
	if have, ok := r.signers[origin]; ok && slices.Equal(have.texts, texts) {
		return have.signer, nil
	}
	var keys []*Key
	for i := 0; i+1 < len(texts); i += 2 {
		if texts[i] == "" && texts[i+1] == "" {
			continue
		}
		k, err := Parse(texts[i], texts[i+1])
		if err != nil {
			return nil, fmt.Errorf("zone %q: %w", origin, err)
		}
		keys = append(keys, k)
	}
	s, err := NewWithKeys(origin, r.config, keys)
	if err != nil {
		return nil, err
	}
	r.signers[origin] = ringEntry{slices.Clone(texts), s}
	return s, nil
}

// Forget drops a zone's signer.
func (r *Ring) Forget(origin string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.signers, miekg.CanonicalName(origin))
}
