package sign

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/atomicfile"
	"shuultuur/lib/platform"
	"shuultuur/lib/setting"
)

// Rollovers are recorded in BIND's key files: the times of each key, and which key it replaces
// (Predecessor). Nothing else is stored, so that a restart continues them.
//
// A zone-signing key is published before it signs, for as long as resolvers may have the
// DNSKEY set without it. The previous one stays published for as long as resolvers may have
// its signatures (pre-publication, RFC 6781 section 4.1.1.1, RFC 7583 section 3.2.1).
//
// A key that the parent knows signs beside the previous one from the start. When all resolvers
// have seen it, CDS and CDNSKEY ask the parent for its DS. When the parent has it, and no
// resolver has the old DS any more, the old key is removed (double signature, RFC 6781 section
// 4.1.2 and, where this key signs everything, section 4.1.3).
const (
	// keepDS is how long resolvers may have the old DS record after the parent has the new one:
	// none keeps anything longer than a week.
	keepDS = 7 * 24 * time.Hour
	// leastTTL is assumed as the least TTL of a zone's records, because they may have had a
	// longer one before.
	leastTTL = 24 * time.Hour
	// slack is added to each wait, for wrong clocks and slow secondaries.
	slack = time.Hour
	// lookAgain bounds the delay until a due key is noticed.
	lookAgain = time.Hour

	leastLifetime = 7 * 24 * time.Hour
)

// waits are how long others may have data that a zone no longer has.
type waits struct {
	keys    time.Duration // a DNSKEY set
	records time.Duration // any record, with its signatures
}

// waits returns the waits, and false before the zone was signed for the first time.
func (s *Signer) waits(keys []*Key) (waits, bool) {
	s.renewMu.Lock()
	defer s.renewMu.Unlock()
	if s.longest == 0 {
		return waits{}, false
	}
	ttl := uint32(0)
	for _, k := range keys {
		ttl = max(ttl, k.Hdr.Ttl)
	}
	return waits{time.Duration(ttl)*time.Second + s.spreads, max(s.longest, leastTTL) + s.spreads}, true
}

// note records the longest TTL of a zone, and how long a secondary without NOTIFY takes to
// query twice.
func (s *Signer) note(p *plan) {
	longest := uint32(1)
	for _, set := range p.sets {
		longest = max(longest, set.rrs[0].Header().Ttl)
	}
	s.noteTTL(longest)
	s.renewMu.Lock()
	defer s.renewMu.Unlock()
	s.spreads = slack + min(time.Duration(p.soa.Refresh)*time.Second+time.Duration(p.soa.Retry)*time.Second, keepDS)
}

// noteTTL records one TTL.
func (s *Signer) noteTTL(ttl uint32) {
	s.renewMu.Lock()
	defer s.renewMu.Unlock()
	s.longest = max(s.longest, time.Duration(ttl)*time.Second)
}

// Roll reads changed key files, and takes the steps that are due: it makes the next
// zone-signing key and sets the times of the others. It reports whether the zone has to be
// signed again. An error leaves the keys as they were. Call it about every minute, once Zone
// has signed the zone.
func (s *Signer) Roll(now time.Time) (changed bool, err error) {
	if len(s.config.Keys) == 0 {
		return false, nil
	}
	s.rolling.Lock()
	defer s.rolling.Unlock()
	seen, err := keyFiles(s.origin, s.config.Keys)
	if err != nil {
		return false, err
	}
	if seen == s.seen && now.Before(s.look) {
		return false, nil
	}
	keys, err := loadKeys(s.origin, s.config.Keys)
	if err != nil {
		return false, err
	}
	if w, ok := s.waits(keys); ok {
		wrote, err := s.advance(keys, w, now)
		if err != nil {
			return false, fmt.Errorf("roll the keys of %q: %w", s.origin, err)
		}
		if wrote {
			if keys, err = loadKeys(s.origin, s.config.Keys); err != nil {
				return false, err
			}
			if seen, err = keyFiles(s.origin, s.config.Keys); err != nil {
				return false, err
			}
		}
		s.look = now.Add(lookAgain)
	}
	keys, err = keysOf(s.origin, keys)
	if err != nil {
		return false, err
	}
	if ksk, zsk := active(keys, now); len(ksk) == 0 || len(zsk) == 0 {
		return false, errNoKey(s.origin, len(keys))
	}
	s.seen = seen
	if slices.EqualFunc(keys, *s.keys.Load(), (*Key).equalTimes) {
		return false, nil
	}
	s.keys.Store(&keys)
	s.renewMu.Lock()
	defer s.renewMu.Unlock()
	clear(s.renew)
	return true, nil
}

// keyFiles returns the state of a zone's key files, to detect changes.
func keyFiles(origin string, sources []setting.Source) (string, error) {
	var b strings.Builder
	note := func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("look for keys of %q: %w", origin, err)
		}
		fmt.Fprintln(&b, path, info.Size(), info.ModTime().UnixNano())
		return nil
	}
	for _, source := range sources {
		path := string(source)
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			files, err := keysIn(path, origin)
			if err != nil {
				return "", err
			}
			for _, f := range files {
				if err := note(f); err != nil {
					return "", err
				}
			}
			continue
		}
		if err := note(Base(path) + ".private"); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

// advance sets times of keys in their files, and makes a key that is due. It reports whether
// it wrote anything.
func (s *Signer) advance(keys []*Key, w waits, now time.Time) (wrote bool, err error) {
	ksk, _ := active(keys, now)
	for _, k := range keys {
		if k.predecessor == 0 {
			continue
		}
		old := predecessor(keys, k)
		if old == nil || !k.KSK() {
			continue
		}
		// Once resolvers have the new key, ask the parent for its DS.
		if k.syncPublish.IsZero() {
			k.syncPublish = now.Add(w.keys)
			old.syncDelete = k.syncPublish
			wrote = true
			if err := errors.Join(old.save(), k.save()); err != nil {
				return wrote, err
			}
		}
		// Once the parent has the new DS and no resolver has the old one, the old key ends.
		if !k.dsPublish.IsZero() && old.inactive.IsZero() {
			old.inactive = later(k.dsPublish.Add(keepDS), k.syncPublish.Add(w.records))
			old.remove = old.inactive
			wrote = true
			if err := old.save(); err != nil {
				return wrote, err
			}
		}
	}
	lifetime := s.config.ZSKLifetime.Or(0)
	if lifetime == 0 {
		return wrote, nil
	}
	for _, k := range keys {
		// Without a key-signing key of its algorithm, the parent knows this key: an
		// administrator rolls it.
		if k.KSK() || !k.active(now) || !k.inactive.IsZero() || !slices.ContainsFunc(ksk, func(above *Key) bool { return above.KSK() && above.Algorithm == k.Algorithm }) {
			continue
		}
		due := k.activate.Add(lifetime)
		if now.Before(due.Add(-w.keys)) {
			continue
		}
		next := successor(keys, k)
		if next == nil {
			if next, err = k.next(keys); err != nil {
				return wrote, err
			}
			next.publish, next.activate = now, later(due, now.Add(w.keys))
			wrote = true
			if _, err := next.Write(filepath.Dir(k.file)); err != nil {
				return wrote, err
			}
		}
		k.inactive = next.activate
		k.remove = k.inactive.Add(w.records)
		wrote = true
		if err := k.save(); err != nil {
			return wrote, err
		}
	}
	return wrote, nil
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// predecessor returns the key that k replaces; successor is the reverse.
func predecessor(keys []*Key, k *Key) *Key {
	for _, old := range keys {
		if old.Tag == k.predecessor && old.Algorithm == k.Algorithm && old.KSK() == k.KSK() {
			return old
		}
	}
	return nil
}

func successor(keys []*Key, old *Key) *Key {
	for _, k := range keys {
		if predecessor(keys, k) == old {
			return k
		}
	}
	return nil
}

// next makes the successor of k, with a tag that none of keys has.
func (k *Key) next(keys []*Key) (*Key, error) {
	for {
		n, err := Generate(k.Hdr.Name, fmt.Sprint(k.Algorithm), k.KSK())
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(keys, func(have *Key) bool { return have.Tag == n.Tag }) {
			n.Hdr.Ttl, n.predecessor, n.owner = k.Hdr.Ttl, k.Tag, k.owner
			return n, nil
		}
	}
}

// BeginRoll begins the rollover of the key of a zone whose DS record the parent has. It makes
// the next key, which signs beside it. The server of the zone continues from there, see
// [Signer.Roll].
func BeginRoll(dir, origin string, now time.Time) (old, next *Key, err error) {
	keys, err := LoadDir(dir, origin)
	if err != nil {
		return nil, nil, err
	}
	for _, k := range keys {
		if !k.KSK() || !k.active(now) || !k.inactive.IsZero() {
			continue
		}
		if p := predecessor(keys, k); p != nil && p.active(now) {
			return nil, nil, fmt.Errorf("roll the key of %q: key %d is already replacing %d", origin, k.Tag, p.Tag)
		}
		if old != nil {
			return nil, nil, fmt.Errorf("roll the key of %q: both %d and %d sign the others; give one of them an Inactive time", origin, old.Tag, k.Tag)
		}
		old = k
	}
	if old == nil {
		return nil, nil, fmt.Errorf("roll the key of %q: %q has no key with the SEP flag (257) that signs now", origin, dir)
	}
	if next, err = old.next(keys); err != nil {
		return nil, nil, err
	}
	next.publish, next.activate = now, now
	_, err = next.Write(dir)
	return old, next, err
}

// FinishRoll records that the parent has the DS record of the key from BeginRoll, and not that
// of the old one.
func FinishRoll(dir, origin string, now time.Time) (*Key, error) {
	keys, err := LoadDir(dir, origin)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		old := predecessor(keys, k)
		if !k.KSK() || old == nil || !old.active(now) || !k.dsPublish.IsZero() {
			continue
		}
		if k.syncPublish.IsZero() {
			return nil, fmt.Errorf("roll the key of %q: key %d is not in the zone yet; is the gateway running with %q?", origin, k.Tag, dir)
		}
		if now.Before(k.syncPublish) {
			return nil, fmt.Errorf("roll the key of %q: some caches may not have key %d yet; give the parent its DS after %s", origin, k.Tag, k.syncPublish.UTC().Format(time.RFC3339))
		}
		k.dsPublish = now
		return k, k.save()
	}
	return nil, fmt.Errorf("roll the key of %q: no roll is in progress; begin without -ds-seen", origin)
}

// save writes the times of a key into its private file; the other lines stay.
func (k *Key) save() error {
	path := k.file
	text, err := readBounded(path)
	if err != nil {
		return fmt.Errorf("write the times of key %d: %w", k.Tag, err)
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(line, ":")
		if k.timing(strings.TrimSpace(name)) == nil && strings.TrimSpace(name) != "Predecessor" {
			b.WriteString(strings.TrimRight(line, "\n") + "\n")
		}
	}
	b.WriteString(k.timings())
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("write the times of key %d: %w", k.Tag, err)
	}
	err = atomicfile.Write(path, info.Mode().Perm(), func(f *os.File) error {
		if err := chown(f, info); err != nil {
			return err
		}
		_, err := f.WriteString(b.String())
		return err
	})
	if err != nil {
		return fmt.Errorf("write the times of key %d: %w", k.Tag, err)
	}
	return nil
}

// chown gives a file the owner of another, because the gateway has to read keys that an
// administrator rolls.
func chown(f *os.File, like os.FileInfo) error {
	user, group, ok := platform.Owner(like)
	if !ok || user == os.Geteuid() {
		return nil
	}
	return f.Chown(user, group)
}

// Base returns the common part of the names of a key's files.
func Base(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(path, ".key"), ".private")
}

// loadKeys reads the keys of a Config.
func loadKeys(origin string, sources []setting.Source) ([]*Key, error) {
	var keys []*Key
	for i, source := range sources {
		path := string(source)
		at := fmt.Sprintf("keys[%d]", i)
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			more, err := LoadDir(path, origin)
			if err != nil {
				return nil, setting.At(at, err)
			}
			keys = append(keys, more...)
			continue
		}
		k, err := Load(path)
		if err != nil {
			return nil, setting.At(at, err)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// keysOf verifies that keys belong to the zone, sorts them and removes duplicates.
func keysOf(origin string, keys []*Key) ([]*Key, error) {
	keys = slices.Clone(keys)
	for _, k := range keys {
		if k.Hdr.Name != origin {
			return nil, fmt.Errorf("key %d is one of zone %q, not of %q", k.Tag, k.Hdr.Name, origin)
		}
	}
	sortKeys(keys)
	return slices.CompactFunc(keys, func(a, b *Key) bool {
		return a.PublicKey == b.PublicKey && a.Flags == b.Flags && a.Algorithm == b.Algorithm
	}), nil
}

func errNoKey(origin string, n int) error {
	return fmt.Errorf("zone %q has %d keys, but none signs now: look at their Activate and Inactive times", origin, n)
}

// equalTimes reports whether k and o are the same key with the same times.
func (k *Key) equalTimes(o *Key) bool {
	return miekg.IsDuplicate(k.DNSKEY, o.DNSKEY) && k.Hdr.Ttl == o.Hdr.Ttl && k.timings() == o.timings()
}
