package sign

import (
	"fmt"
	"slices"
	"strings"
	"time"

	miekg "github.com/miekg/dns"
)

// steady is how long the parent must have the new DS record, and not the old one, at each
// lookup. Not all of its servers change at once, and the lookup may not be validated.
const steady = 24 * time.Hour

// changingKeys returns the last key that replaces a key known to the parent, and the replaced
// key.
func changingKeys(keys []*Key) (next, old *Key) {
	for _, k := range keys {
		if p := predecessor(keys, k); k.KSK() && k.predecessor != 0 && p != nil && successor(keys, k) == nil {
			return k, p
		}
	}
	return nil, nil
}

// awaitedKeys is changingKeys while the parent has to act.
func awaitedKeys(keys []*Key, now time.Time) (next, old *Key) {
	next, old = changingKeys(keys)
	if next == nil || next.syncPublish.IsZero() || now.Before(next.syncPublish) || !next.dsPublish.IsZero() {
		return nil, nil
	}
	return next, old
}

// AwaitsParent reports whether a rollover waits for the parent's DS record, so that
// [Signer.ParentHas] should be called.
func (s *Signer) AwaitsParent(now time.Time) bool {
	next, _ := awaitedKeys(*s.keys.Load(), now)
	return next != nil
}

// ParentHas tells the signer the DS records in the parent zone. After a day with those of the
// new key and none of the old one, it notes this in the key's file, as [FinishRoll] does, and
// seen is true.
func (s *Signer) ParentHas(ds []*miekg.DS, now time.Time) (seen bool, err error) {
	s.rolling.Lock()
	defer s.rolling.Unlock()
	next, old := awaitedKeys(*s.keys.Load(), now)
	if next == nil || !slices.ContainsFunc(ds, next.is) || slices.ContainsFunc(ds, old.is) {
		s.parentSince = time.Time{}
		return false, nil
	}
	if s.parentSince.IsZero() {
		s.parentSince = now
	}
	if now.Sub(s.parentSince) < steady {
		return false, nil
	}
	k, err := Load(next.file) // the signer's own keys are not changed
	if err != nil {
		return false, err
	}
	k.dsPublish = now
	return true, k.save()
}

// is reports whether a DS record is that of a key, whatever its digest.
func (k *Key) is(ds *miekg.DS) bool {
	if ds.KeyTag != k.Tag || ds.Algorithm != k.Algorithm {
		return false
	}
	want := k.ToDS(ds.DigestType)
	return want != nil && strings.EqualFold(want.Digest, ds.Digest)
}

// RollStatus describes the state of the rollover of the key that the parent knows, by the
// files in a folder, and the next step.
func RollStatus(dir, origin string, now time.Time) (string, error) {
	keys, err := LoadDir(dir, origin)
	if err != nil {
		return "", err
	}
	next, old := changingKeys(keys)
	when := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	switch {
	case next == nil:
		return "no key that the parent knows is being rolled", nil
	case next.syncPublish.IsZero():
		return fmt.Sprintf("key %d is made; it is used when a gateway with these keys signs the zone", next.Tag), nil
	case now.Before(next.syncPublish):
		return fmt.Sprintf("key %d is in the zone; after %s all caches have it, and the parent is asked for its DS record", next.Tag, when(next.syncPublish)), nil
	case next.dsPublish.IsZero():
		return fmt.Sprintf("key %d waits for the parent to have its DS record, and no longer that of key %d; the gateway looks each hour, and believes it after a day:\n%s",
			next.Tag, old.Tag, strings.ReplaceAll(next.DS().String(), "\t", " ")), nil
	case old.inactive.IsZero():
		return fmt.Sprintf("the parent has the DS record of key %d; a gateway with these keys sets the time at which key %d is removed", next.Tag, old.Tag), nil
	case now.Before(old.remove):
		return fmt.Sprintf("the parent has had the DS record of key %d since %s; key %d is removed at %s", next.Tag, when(next.dsPublish), old.Tag, when(old.remove)), nil
	}
	return fmt.Sprintf("key %d has replaced key %d, whose files may be deleted", next.Tag, old.Tag), nil
}
