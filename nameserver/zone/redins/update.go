package redins

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"shuultuur/nameserver/zone"
	"shuultuur/nameserver/zone/redins/health"
)

// A zone that was read once is read again name by name: what is remembered of
// each name is a sum, and only those that have another are decoded and changed
// in the name server.

// held is what is remembered of a name.
type held struct {
	sum     uint64
	records uint32
	round   uint32 // of reading, in which it was last seen
}

// part is what there is to say about a name besides its records, if anything.
type part struct {
	problems []Problem
	watched  []*health.Status
}

// touched is what of a zone was written. Its settings always count as touched.
type touched struct {
	names  bool            // any name may be another
	list   bool            // the set of names (z42)
	labels map[string]bool // these names (z42)
}

func (t *touched) add(o *touched) {
	t.names, t.list = t.names || o.names, t.list || o.list
	if len(o.labels) > 0 && t.labels == nil {
		t.labels = map[string]bool{}
	}
	maps.Copy(t.labels, o.labels)
	if len(t.labels) > maxTouched {
		t.names, t.labels = true, nil
	}
}

// maxTouched is of how many names it is noted that they were written; of more
// the whole zone is looked at.
const maxTouched = 10_000

// plainLabel says whether a label is the only one that stands for its name: one
// with escapes or capitals is another spelling of one without.
func plainLabel(label string) bool {
	return !strings.ContainsFunc(label, func(r rune) bool { return r == '\\' || 'A' <= r && r <= 'Z' })
}

// remember notes what a zone that is served now was made of. A zone that spells
// names in more ways than one is not remembered, and so read as a whole each time.
func (k *known) remember(r *raw, b *builder, counts map[string]uint32) {
	k.names, k.apex, k.config, k.keys, k.settings = nil, nil, r.config, r.keys, b.config
	names := make(map[string]*held, max(len(counts), len(r.labels)))
	all := make([]held, 0, max(len(counts), len(r.labels))+16) // in one piece
	add := func(label string) *held {
		h := names[label]
		if h == nil {
			all = append(all, held{records: counts[label]})
			h = &all[len(all)-1]
			names[label] = h
		}
		return h
	}
	for _, label := range r.labels {
		add(label)
	}
	for _, v := range r.values {
		if !plainLabel(v.label) {
			return
		}
		add(v.label).sum += v.sum()
		if v.label == "@" {
			k.apex = append(k.apex, v)
		}
	}
	k.names = names
}

// sum tells versions of a value apart. Those of a name add up.
func (v value) sum() uint64 { return xxh3.HashSeed(v.json, xxh3.HashString(v.typ)) }

// update reads what was touched of a zone and changes the names that differ.
// It returns zone.ErrWhole when the zone has to be read as a whole.
func (s *Source) update(ctx context.Context, store *Store, name string, k *known, t *touched) error {
	began := time.Now()
	r, err := store.settings(ctx, name)
	if err != nil {
		return err
	}
	changes := 0
	if r.keys != k.keys && k.settings.DNSSEC {
		return zone.ErrWhole
	}
	if !bytes.Equal(r.config, k.config) {
		b := s.builder()
		b.begin(r)
		if b.config.DNSSEC != k.settings.DNSSEC || b.config.Flattened != k.settings.Flattened || b.config.DomainID != k.settings.DomainID {
			return zone.ErrWhole
		}
		if err := s.apply(k, r, nil); err != nil {
			return err
		}
		k.config = r.config
		changes++
	}
	apply := func(changed map[string][]value) error {
		changes += len(changed)
		if len(changed) == 0 {
			return nil
		}
		return s.apply(k, r, changed)
	}
	if err := s.compare(ctx, store, name, k, t, apply); err != nil {
		return err
	}
	s.mu.Lock()
	k.failed, k.took, k.ended = false, time.Since(began), time.Now()
	s.slowest = max(s.slowest, k.took)
	s.mu.Unlock()
	if changes > 0 {
		s.loads.Add(1)
		s.log.Info("zone changed in Redis", "zone", k.origin, "names", changes, "took", k.took)
	}
	return nil
}

// compare reads the names that may be others, and has those applied that are,
// as soon as they are found.
func (s *Source) compare(ctx context.Context, store *Store, name string, k *known, t *touched, apply func(map[string][]value) error) error {
	if t.names && store.Schema == Redins {
		n, err := store.length(ctx, name)
		if err != nil {
			return err
		}
		if max(n, len(k.names)) <= maxAtOnce {
			return s.compareHash(ctx, store, name, k, n, apply)
		}
	}
	k.round++
	seen := 0
	see := func(label string) *held {
		h := k.names[label]
		if h == nil {
			h = &held{}
			k.names[label] = h
		}
		if h.round != k.round {
			h.round = k.round
			seen++
		}
		return h
	}
	take := func(found []named) error {
		changed := map[string][]value{}
		for _, f := range found {
			if h := see(f.label); h.sum != f.sum() {
				changed[f.label] = f.all(store.hash(name))
			}
		}
		return apply(changed)
	}
	if t.names {
		if err := store.names(ctx, name, nil, take); err != nil {
			return err
		}
	} else {
		// What was written itself comes first: to read the list may take long.
		var some, others []string
		for label := range t.labels {
			if k.names[label] != nil {
				some = append(some, label)
			} else {
				others = append(others, label)
			}
		}
		others, err := store.among(ctx, name, others)
		if err != nil {
			return err
		}
		if some = append(some, others...); len(some) > 0 {
			if err := store.names(ctx, name, some, take); err != nil {
				return err
			}
		}
		if !t.list {
			return nil
		}
		some = nil
		if err := store.listed(ctx, name, func(label string) {
			if k.names[label] == nil {
				some = append(some, label)
			}
			see(label)
		}); err != nil {
			return err
		}
		if len(some) > 0 {
			if err := store.names(ctx, name, some, take); err != nil {
				return err
			}
		}
	}
	if seen == len(k.names) {
		return nil
	}
	gone := map[string][]value{}
	for label, h := range k.names {
		if h.round != k.round {
			gone[label] = nil
		}
	}
	if err := apply(gone); err != nil {
		return err
	}
	for label := range gone {
		delete(k.names, label)
	}
	return nil
}

// maxAtOnce is how many fields a hash may have to be asked for all their names
// at once: the server does nothing else for about 0.1 ms for each thousand.
const maxAtOnce = 200_000

// compareHash is compare for a hash with n fields. Of names that are known the
// values alone are asked for, and of all the names only when their number says
// that they are others: each is half of what there is.
func (s *Source) compareHash(ctx context.Context, store *Store, name string, k *known, n int, apply func(map[string][]value) error) error {
	missing := 0
	take := func(found []named, none []string) error {
		changed := map[string][]value{}
		for _, f := range found {
			if k.names[f.label].sum != f.sum() {
				changed[f.label] = f.all(store.hash(name))
			}
		}
		for _, label := range none {
			changed[label] = nil
		}
		if err := apply(changed); err != nil {
			return err
		}
		for _, label := range none {
			delete(k.names, label)
		}
		missing += len(none)
		return nil
	}
	relist := func() error {
		labels, err := store.fields(ctx, name)
		if err != nil {
			return err
		}
		k.round++
		var fresh, gone []string
		for _, label := range labels {
			if h := k.names[label]; h != nil {
				h.round = k.round
			} else {
				fresh = append(fresh, label)
			}
		}
		if len(labels)-len(fresh) < len(k.names) {
			for label, h := range k.names {
				if h.round != k.round {
					gone = append(gone, label)
				}
			}
		}
		if err := take(nil, gone); err != nil {
			return err
		}
		for _, label := range fresh {
			k.names[label] = &held{round: k.round}
		}
		return store.values(ctx, name, fresh, take)
	}
	listed := n != len(k.names)
	if listed {
		if err := relist(); err != nil {
			return err
		}
	}
	missing = 0
	if err := store.values(ctx, name, slices.Collect(maps.Keys(k.names)), take); err != nil {
		return err
	}
	if missing > 0 && !listed { // as many may have come
		return relist()
	}
	return nil
}

// apply gives names what they have now, and the zone its SOA.
func (s *Source) apply(k *known, r *raw, changed map[string][]value) error {
	apex, other := changed["@"]
	if !other {
		apex = k.apex
	}
	next := *r
	next.values = append([]value(nil), apex...)
	c := &zone.Change{Origin: k.origin, Names: []string{k.origin}}
	for label, values := range changed {
		if !plainLabel(label) {
			return zone.ErrWhole
		}
		if label == "@" {
			continue
		}
		if owner, err := ownerName(label, k.origin); err == nil {
			c.Names = append(c.Names, owner)
		}
		next.values = append(next.values, values...)
	}
	b, counts, parts := s.builder(), map[string]uint32{}, map[string]part{}
	b.each = collect(counts, parts)
	z := b.build(&next)
	c.Records, c.Choices, c.Aliases = z.Records, z.Choices, z.Aliases
	if err := s.to.Change(c); err != nil {
		for _, st := range b.watched {
			s.checker.Drop(st)
		}
		return zone.ErrWhole // which finds out what is wrong
	}
	k.apex = apex
	var old []*health.Status
	s.mu.Lock()
	k.problems, k.sum = b.general, xxh3.Uint128{}
	put := func(label string) {
		old = append(old, k.parts[label].watched...)
		if p, ok := parts[label]; ok {
			k.parts[label] = p
		} else {
			delete(k.parts, label)
		}
		if h := k.names[label]; h != nil {
			k.records += int(counts[label]) - int(h.records)
			h.records = counts[label]
		}
	}
	put("@")
	for label, values := range changed {
		put(label)
		if h := k.names[label]; h != nil {
			h.sum = 0
			for _, v := range values {
				h.sum += v.sum()
			}
		}
	}
	s.mu.Unlock()
	for _, st := range old {
		s.checker.Drop(st)
	}
	for _, p := range b.problems[:min(len(b.problems), maxSaid)] {
		s.log.Warn("not served", "zone", k.origin, "key", p.Key, "field", p.Field, "error", p.Err)
	}
	return nil
}

// collect notes what a builder says about each name.
func collect(counts map[string]uint32, parts map[string]part) func(string, int, []Problem, []*health.Status) {
	return func(label string, records int, problems []Problem, watched []*health.Status) {
		counts[label] = uint32(records)
		if len(problems)+len(watched) > 0 {
			parts[label] = part{problems, watched}
		}
	}
}

// whole reads one zone as a whole and puts it in its place.
func (s *Source) whole(ctx context.Context, store *Store, name string, k *known) error {
	began := time.Now()
	r, err := store.read(ctx, name)
	if err != nil {
		return err
	}
	sum := r.sum()
	if k.served && k.sum == sum {
		s.mu.Lock()
		k.failed, k.took, k.ended = false, time.Since(began), time.Now()
		s.mu.Unlock()
		return nil
	}
	b, counts, parts := s.builder(), map[string]uint32{}, map[string]part{}
	b.each = collect(counts, parts)
	z := b.build(r)
	err = s.signed(b, &z, k)
	if err == nil {
		err = s.to.Replace(z)
	}
	if err != nil {
		s.refuse(store, name, k, b, err)
		return nil
	}
	k.remember(r, b, counts)
	s.mu.Lock()
	old := k.parts
	k.sum, k.served, k.records, k.problems, k.parts = sum, true, len(z.Records), b.general, parts
	k.failed, k.took, k.ended = false, time.Since(began), time.Now()
	s.slowest = max(s.slowest, k.took)
	s.mu.Unlock()
	for _, p := range old {
		for _, st := range p.watched {
			s.checker.Drop(st)
		}
	}
	s.loads.Add(1)
	s.say(r.origin, z, b.problems, k.took)
	return nil
}

// load reads what was touched of one zone, or all of it.
func (s *Source) load(ctx context.Context, store *Store, name string, t *touched) {
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	s.mu.Lock()
	k := s.known[name]
	s.mu.Unlock()
	err := zone.ErrWhole
	if k.names != nil {
		err = s.update(ctx, store, name, k, t)
	}
	if errors.Is(err, zone.ErrWhole) {
		err = s.whole(ctx, store, name, k)
	}
	if err != nil {
		s.fail(ctx, name, t, err)
	}
}
