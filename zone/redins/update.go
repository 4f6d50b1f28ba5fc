package redins

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/zeebo/xxh3"

	"shuultuur/lib/redis"
	"shuultuur/zone"
	"shuultuur/zone/redins/health"
)

// After the first read, a zone is compared name by name: only names with a different checksum
// are decoded and changed in the name server.

// A part is the problems and health checks of a name.
type part struct {
	problems []Problem
	watched  []*health.Status
}

// A writtenPart is the part of a zone that was written. Its settings always count as touched.
type writtenPart struct {
	names  bool            // any name may have changed
	list   bool            // the set of names (z42)
	labels map[string]bool // these names (z42)
}

func (t *writtenPart) add(o *writtenPart) {
	t.names, t.list = t.names || o.names, t.list || o.list
	if len(o.labels) > 0 && t.labels == nil {
		t.labels = map[string]bool{}
	}
	maps.Copy(t.labels, o.labels)
	if len(t.labels) > maxTouched {
		t.names, t.labels = true, nil
	}
}

// maxTouched bounds the written names that are noted; with more, the whole zone is compared.
const maxTouched = 10_000

// plainLabel reports whether a label is the only spelling of its name: labels with escapes,
// capitals or letters beyond ASCII have others.
func plainLabel(label string) bool {
	return !strings.ContainsFunc(label, func(r rune) bool { return r == '\\' || 'A' <= r && r <= 'Z' || r >= utf8.RuneSelf })
}

// remember notes the checksums of a zone that is served now. Zones with several spellings of
// one name, or with cname_flattening, are not remembered and so read as a whole each time.
func (k *zoneState) remember(r *raw, b *builder) {
	k.names, k.apex, k.config, k.keys, k.settings = nil, nil, r.config, r.keys, b.config
	if b.follows {
		return
	}
	n := r.names
	for i := range n.all {
		n.all[i].sum = present
	}
	for _, v := range r.values {
		i := n.find([]byte(v.label))
		if i < 0 || !plainLabel(v.label) {
			return
		}
		n.all[i].sum += v.sum()
		if v.label == "@" {
			k.apex = append(k.apex, v)
		}
	}
	n.all, n.text = slices.Clip(n.all), slices.Clip(n.text)
	k.names = n
}

// present is the checksum of a name that exists without values.
const present = 1

// sum returns a checksum of a value. Those of a name are added.
func (v value) sum() uint64 {
	if v.json == nil {
		return 0
	}
	return xxh3.HashSeed(v.json, xxh3.HashString(v.typ))
}

// update reads the written parts of a zone and changes the names that differ. It
// returns zone.ErrWhole when the zone has to be read as a whole.
func (s *Source) update(ctx context.Context, store *Store, in *redis.Session, name string, k *zoneState, t *writtenPart) error {
	began := time.Now()
	r, err := store.settings(in, name)
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
	e := &edits{k: k, values: map[string][]value{}}
	e.apply = func(changed map[string][]value) error { return s.apply(k, r, changed) }
	e.key = func(label, typ string) string { return store.key(name, label, typ) }
	if store.Schema == Redins {
		if t.names {
			err = compareHash(store, in, name, e)
		}
	} else {
		err = compareKeys(ctx, store, in, name, e, t)
	}
	if err == nil {
		err = e.flush()
	}
	if err != nil {
		return err
	}
	changes += e.done
	s.mu.Lock()
	k.failed, k.took, k.ended = false, time.Since(began), time.Now()
	k.kept, k.unkept = false, k.unkept || changes > 0
	s.slowest = max(s.slowest, k.took)
	s.mu.Unlock()
	if changes > 0 {
		s.loads.Add(1)
		s.log.Info("zone changed in Redis", "zone", k.origin, "names", changes, "took", k.took)
		collectGarbage()
	}
	return nil
}

const (
	// maxEdits and maxEditBytes bound the differences gathered before they are changed in the
	// name server together.
	maxEdits     = 5000
	maxEditBytes = 1 << 20
)

// edits are the names of a zone that differ. The first is changed in the name server at once,
// as it usually is the only one. Later ones are gathered, because each change copies the table
// of names.
type edits struct {
	k      *zoneState
	apply  func(map[string][]value) error
	key    func(label, typ string) string // returns the key of a value
	values map[string][]value
	size   int
	done   int
}

// compare compares the values of a name with the remembered ones. The values have no key
// and label, and are copied if needed.
func (e *edits) compare(place int32, values []value) error {
	n := e.k.names
	sum := uint64(present)
	for _, v := range values {
		sum += v.sum()
	}
	if n.all[place].sum == sum {
		return nil
	}
	label := string(n.label(place))
	kept := make([]value, len(values))
	for i, v := range values {
		e.size += len(v.json)
		kept[i] = value{e.key(label, v.typ), label, v.typ, bytes.Clone(v.json)}
	}
	return e.put(label, kept)
}

func (e *edits) put(label string, values []value) error {
	e.values[label] = values
	if e.done > 0 && len(e.values) < maxEdits && e.size < maxEditBytes {
		return nil
	}
	return e.flush()
}

func (e *edits) flush() error {
	if len(e.values) == 0 {
		return nil
	}
	if e.done > 0 {
		collectGarbage()
	}
	e.done += len(e.values)
	err := e.apply(e.values)
	e.size = 0
	clear(e.values)
	return err
}

// unseen removes the names that this read did not see.
func (e *edits) unseen() error {
	n := e.k.names
	gone := n.missingIndexes()
	for _, place := range gone {
		if err := e.put(string(n.label(place)), nil); err != nil {
			return err
		}
	}
	if err := e.flush(); err != nil {
		return err
	}
	for _, place := range gone {
		n.remove(place)
	}
	return nil
}

// noteName notes that a name exists, and returns its index.
func (e *edits) noteName(label []byte) (place int32, fresh bool, err error) {
	n := e.k.names
	if place, fresh, err = n.add(label); err == nil {
		n.all[place].round = n.round
	}
	return place, fresh, err
}

// compareHash compares the names of a zone stored in a hash. Added and removed names come
// first, because listing names takes less time than reading their values.
func compareHash(store *Store, in *redis.Session, name string, e *edits) error {
	n, key := e.k.names, store.hash(name)
	failed := func(err error) error { return fmt.Errorf("read zone %q from Redis: %w", name, err) }
	missing := false
	read := func(from int) error {
		values := make([]value, 1)
		err := in.Values(key, len(n.all)-from, func(i int, b []byte) []byte {
			return append(b, n.label(int32(from+i))...)
		}, func(i int, text []byte) error {
			if text == nil {
				missing = true
				return nil
			}
			values[0].json = text
			return e.compare(int32(from+i), values)
		})
		if err != nil {
			return failed(err)
		}
		return e.flush()
	}
	list := func() error {
		n.beginRead()
		known := len(n.all)
		if err := in.Fields(key, func(field []byte) error {
			_, _, err := e.noteName(field)
			return err
		}); err != nil {
			return failed(err)
		}
		if err := read(known); err != nil {
			return err
		}
		return e.unseen()
	}
	size, err := in.Length(key)
	if err != nil {
		return failed(err)
	}
	if size != len(n.all) {
		if err := list(); err != nil {
			return err
		}
	}
	if err := read(0); err != nil || !missing {
		return err
	}
	return list() // equal numbers of names were added and removed
}

// compareKeys compares the names of a zone stored in keys, written names first, because
// reading the list may take long.
func compareKeys(ctx context.Context, store *Store, in *redis.Session, name string, e *edits, t *writtenPart) error {
	n := e.k.names
	read := func(places []int32) error {
		if err := store.keyed(in, name, n, places, e.compare); err != nil {
			return fmt.Errorf("read zone %q from Redis: %w", name, err)
		}
		return e.flush()
	}
	var places []int32
	var others []string
	for label := range t.labels {
		if place := n.find([]byte(label)); place >= 0 {
			places = append(places, place)
		} else {
			others = append(others, label)
		}
	}
	others, err := store.listedLabels(ctx, name, others)
	if err != nil {
		return err
	}
	for _, label := range others {
		place, _, err := n.add([]byte(label))
		if err != nil {
			return err
		}
		places = append(places, place)
	}
	slices.Sort(places)
	for _, place := range places {
		n.all[place].types = allTypes
	}
	if err := read(places); err != nil {
		return err
	}
	if !t.list && !t.names {
		return nil
	}
	n.beginRead()
	places = places[:0]
	if err := in.Members(store.labels(name), func(label []byte) error {
		place, fresh, err := e.noteName(label)
		if err == nil && fresh {
			n.all[place].types = allTypes
			places = append(places, place)
		}
		return err
	}); err != nil {
		return fmt.Errorf("list the names of zone %q: %w", name, err)
	}
	if t.names {
		places = places[:0]
		for i := range n.all {
			if n.all[i].round == n.round {
				places = append(places, int32(i))
			}
			if !e.k.looked {
				n.all[i].types = allTypes
			}
		}
		e.k.looked = false
	}
	if err := read(places); err != nil {
		return err
	}
	return e.unseen()
}

// apply gives names their new records, and the zone its SOA.
func (s *Source) apply(k *zoneState, r *raw, changed map[string][]value) error {
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
		if values != nil && len(values) == 0 {
			next.values = append(next.values, value{key: r.key, label: label})
		}
		next.values = append(next.values, values...)
	}
	b, parts := s.builderOf(k), map[string]part{}
	b.each = collect(parts)
	z := b.build(&next)
	c.Records, c.Choices, c.Aliases, c.Empty, c.Unknown = z.Records, z.Choices, z.Aliases, z.Empty, z.Unknown
	err := zone.ErrWhole // flattening needs all names
	if !b.follows {
		err = s.to.Change(c)
	}
	if err != nil {
		for _, st := range b.watched {
			s.checker.Drop(st)
		}
		return zone.ErrWhole // which finds the mistake
	}
	k.apex = apex
	var old []*health.Status
	s.mu.Lock()
	k.problems, k.sum = b.general, xxh3.Uint128{}
	put := func(label string) {
		old = append(old, b.release(label, k.parts, parts)...)
		if p, ok := parts[label]; ok {
			k.parts[label] = p
		} else {
			delete(k.parts, label)
		}
	}
	put("@")
	for label, values := range changed {
		put(label)
		if i := k.names.find([]byte(label)); i >= 0 {
			h := &k.names.all[i]
			h.sum = 0
			if values != nil {
				h.sum = present
			}
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

// collectGarbage collects garbage from changes, each of which copies the table of names, before it
// reaches an eighth of the memory in use. The runtime would let the memory double.
func collectGarbage() {
	heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	if used := heap[0].Value.Uint64(); heap[1].Value.Uint64() > used+used/8 {
		runtime.GC()
	}
}

// builderOf returns a builder with the last good values of a zone.
func (s *Source) builderOf(k *zoneState) *builder {
	b := s.builder()
	if k.served {
		b.served = s.to.Served(k.origin, "")
		if k.config != nil {
			b.before = &k.settings
		}
	}
	return b
}

// release returns the health checks of a label that are no longer needed. Those of a last good
// value stay.
func (b *builder) release(label string, before, now map[string]part) []*health.Status {
	watched := before[label].watched
	if len(watched) == 0 || !slices.Contains(b.kept, label) {
		return watched
	}
	p := now[label]
	p.watched = append(p.watched, watched...)
	now[label] = p
	return nil
}

// collect returns a function that stores a builder's remarks about each name.
func collect(parts map[string]part) func(string, []Problem, []*health.Status) {
	return func(label string, problems []Problem, watched []*health.Status) {
		if len(problems)+len(watched) > 0 {
			parts[label] = part{problems, watched}
		}
	}
}

// readWhole reads one zone as a whole and serves it.
func (s *Source) readWhole(ctx context.Context, store *Store, in *redis.Session, name string, k *zoneState) error {
	began := time.Now()
	types := k.types
	k.types = nil
	r, err := store.read(in, name, types)
	if err != nil {
		return err
	}
	sum := r.sum()
	if k.served && k.sum == sum {
		s.mu.Lock()
		k.kept = false
		k.failed, k.took, k.ended = false, time.Since(began), time.Now()
		s.mu.Unlock()
		return nil
	}
	if b, err := s.serve(k, r, sum, began); err != nil {
		s.refuse(store, name, k, b, err)
	}
	return nil
}

// serve puts a zone into service. sum is the checksum of r, whose read began at began.
func (s *Source) serve(k *zoneState, r *raw, sum xxh3.Uint128, began time.Time) (*builder, error) {
	b, parts := s.builderOf(k), map[string]part{}
	b.each = collect(parts)
	z := b.build(r)
	b.flatten()
	err := s.signed(b, &z, k)
	if err == nil {
		err = s.to.Replace(z)
	}
	if err != nil {
		return b, err
	}
	k.remember(r, b)
	s.mu.Lock()
	var old []*health.Status
	for label := range k.parts {
		old = append(old, b.release(label, k.parts, parts)...)
	}
	k.sum, k.served, k.away, k.problems, k.parts = sum, true, false, b.general, parts
	k.failed, k.took, k.ended = false, time.Since(began), time.Now()
	k.kept, k.unkept = false, true
	s.slowest = max(s.slowest, k.took)
	s.mu.Unlock()
	for _, st := range old {
		s.checker.Drop(st)
	}
	s.loads.Add(1)
	s.logProblems(r.origin, z, b.problems, k.took)
	return b, nil
}

// load reads the written parts of one zone, or all of it.
func (s *Source) load(ctx context.Context, store *Store, name string, t *writtenPart) {
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	in := store.session(ctx)
	defer in.Close()
	s.mu.Lock()
	k := s.known[name]
	s.mu.Unlock()
	err := zone.ErrWhole
	if k.names != nil {
		err = s.update(ctx, store, in, name, k, t)
	}
	if errors.Is(err, zone.ErrWhole) {
		err = s.readWhole(ctx, store, in, name, k)
	}
	if err != nil {
		s.fail(ctx, name, t, err)
	}
}
