package redins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"
	"github.com/redis/rueidis"
	"github.com/zeebo/xxh3"

	"shuultuur/state/keyspace"
)

// A Store is zones in Redis, in one of the layouts.
type Store struct {
	Client         rueidis.Client
	Schema         Schema
	Prefix, Suffix string // of every key
}

const (
	// maxZones and maxBytes bound what is read, of names and of one zone.
	maxZones = 1_000_000
	maxBytes = 1 << 30
	// chunk is how many fields or keys are asked for at once: the server works
	// on that for about 2 ms.
	chunk = 5000
)

var errTooMuch = errors.New("it has more than is read of one zone")

func (s *Store) root() string            { return string(s.Schema) + ":zones" }
func (s *Store) wrap(key string) string  { return s.Prefix + key + s.Suffix }
func (s *Store) list() string            { return s.wrap(s.root()) }
func (s *Store) of(origin string) string { return s.root() + ":" + origin }

func (s *Store) config(origin string) string   { return s.wrap(s.of(origin) + ":config") }
func (s *Store) labels(origin string) string   { return s.wrap(s.of(origin) + ":labels") }
func (s *Store) hash(origin string) string     { return s.wrap(s.of(origin)) }
func (s *Store) set(o, label, t string) string { return s.wrap(s.of(o) + ":labels:" + label + ":" + t) }

// keyParts are what a zone's keys are called, in the order of Keys.
var keyParts = []string{":zsk:pub", ":zsk:priv", ":ksk:pub", ":ksk:priv"}

// pattern fits every key of zones.
func (s *Store) pattern() string {
	return keyspace.Escape(s.Prefix+s.root()) + "*" + keyspace.Escape(s.Suffix)
}

// touched says what a written key is part of: a zone and what of it, or the
// list of zones (origin is ""). ok is false for a key that is none of ours.
func (s *Store) touched(key string) (origin string, what *touched, ok bool) {
	key, ok = strings.CutPrefix(key, s.Prefix+s.root())
	if !ok {
		return "", nil, false
	}
	if key, ok = strings.CutSuffix(key, s.Suffix); !ok {
		return "", nil, false
	}
	if key == "" {
		return "", nil, true
	}
	if key, ok = strings.CutPrefix(key, ":"); !ok {
		return "", nil, false
	}
	origin, key, _ = strings.Cut(key, ":")
	what = &touched{}
	labels, typ := strings.CutPrefix(key, "labels:")
	switch {
	case s.Schema == Redins:
		what.names = key == ""
	case key == "labels":
		what.list = true
	case typ:
		if i := strings.LastIndexByte(labels, ':'); i >= 0 {
			what.labels = map[string]bool{labels[:i]: true}
		}
	}
	return origin, what, true
}

// Zones returns the names of the zones as Redis lists them, sorted.
func (s *Store) Zones(ctx context.Context) ([]string, error) {
	names, err := s.members(ctx, s.list(), maxZones)
	if err != nil {
		return nil, fmt.Errorf("list the zones in %q: %w", s.list(), err)
	}
	return names, nil
}

// members reads a set.
func (s *Store) members(ctx context.Context, key string, most int) ([]string, error) {
	seen := map[string]bool{}
	if err := s.walk(ctx, key, func(member string) error {
		if seen[member] = true; len(seen) > most {
			return errTooMuch
		}
		return nil
	}); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// walk reads a set piece by piece, so that a large one does not stop the
// server. A member may come twice.
func (s *Store) walk(ctx context.Context, key string, take func(string) error) error {
	for cursor := uint64(0); ; {
		e, err := s.Client.Do(ctx, s.once("SSCAN", key, cursor)).AsScanEntry()
		if err != nil {
			return err
		}
		for _, m := range e.Elements {
			if err := take(m); err != nil {
				return err
			}
		}
		if cursor = e.Cursor; cursor == 0 {
			return nil
		}
	}
}

// once is a command of a walk through a set or hash. It is written in a way
// that the library does not send it again by itself: after an interruption the
// cursor may be another server's, and part of the walk would be missing.
func (s *Store) once(command, key string, cursor uint64) rueidis.Completed {
	return s.Client.B().Arbitrary(command).Keys(key).Args(strconv.FormatUint(cursor, 10), "COUNT", strconv.Itoa(chunk)).Build()
}

// settings reads what is beside the names of a zone.
func (s *Store) settings(ctx context.Context, origin string) (*raw, error) {
	r := &raw{origin: dns.CanonicalName(origin), key: s.config(origin)}
	if _, ok := dns.IsDomainName(r.origin); !ok || origin == "" {
		return nil, fmt.Errorf("read zone %q: this is not a domain name", origin)
	}
	keys := []string{r.key}
	for _, part := range keyParts {
		keys = append(keys, s.wrap(s.of(origin)+part))
	}
	texts, err := s.get(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("read zone %q from Redis: %w", origin, err)
	}
	r.config = texts[0]
	r.keys = Keys{string(texts[1]), string(texts[2]), string(texts[3]), string(texts[4])}
	return r, nil
}

// read reads one zone.
func (s *Store) read(ctx context.Context, origin string) (*raw, error) {
	r, err := s.settings(ctx, origin)
	if err != nil {
		return nil, err
	}
	at := map[string]int{} // a name may come twice while the hash changes
	size := 0
	err = s.names(ctx, origin, nil, func(found []named) error {
		for _, f := range found {
			if s.Schema == Z42 {
				r.labels = append(r.labels, f.label)
			}
			for _, v := range f.all(s.hash(origin)) {
				if size += len(v.key) + len(v.label) + len(v.json); size > maxBytes {
					return errTooMuch
				}
				if n, ok := at[f.label]; ok && v.typ == "" {
					r.values[n] = v
					continue
				}
				at[f.label] = len(r.values)
				r.values = append(r.values, v)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// named is one name as it was read.
type named struct {
	label  string
	json   string // of all types, in the one layout
	values []value
}

// sum is that of its values.
func (e named) sum() (sum uint64) {
	if e.values == nil {
		return xxh3.HashStringSeed(e.json, xxh3.HashString(""))
	}
	for _, v := range e.values {
		sum += v.sum()
	}
	return sum
}

// all are its values. key is that of the hash it is from, if it is.
func (e named) all(key string) []value {
	if e.values == nil {
		return []value{{key: key, label: e.label, json: []byte(e.json)}}
	}
	return e.values
}

// names reads the names of a zone, or where each has its keys some of them, and
// hands them on as they come. One may come twice.
func (s *Store) names(ctx context.Context, origin string, some []string, take func([]named) error) error {
	var err error
	if s.Schema == Z42 {
		if some == nil {
			some, err = s.members(ctx, s.labels(origin), maxBytes/64)
		}
		if err == nil {
			err = s.readSets(ctx, origin, some, take)
		}
	} else {
		err = s.readHash(ctx, origin, take)
	}
	if err != nil {
		return fmt.Errorf("read zone %q from Redis: %w", origin, err)
	}
	return nil
}

// listed calls take with the names of a zone, where they are a set. One may
// come twice.
func (s *Store) listed(ctx context.Context, origin string, take func(label string)) error {
	n := 0
	if err := s.walk(ctx, s.labels(origin), func(label string) error {
		if n++; n > maxBytes/64 {
			return errTooMuch
		}
		take(label)
		return nil
	}); err != nil {
		return fmt.Errorf("list the names of zone %q: %w", origin, err)
	}
	return nil
}

// among returns those labels that a zone lists.
func (s *Store) among(ctx context.Context, origin string, labels []string) (listed []string, err error) {
	cmds := make(rueidis.Commands, len(labels))
	for i, label := range labels {
		cmds[i] = s.Client.B().Sismember().Key(s.labels(origin)).Member(label).Build()
	}
	if len(cmds) == 0 {
		return nil, nil
	}
	for i, r := range s.Client.DoMulti(ctx, cmds...) {
		is, err := r.AsBool()
		if err != nil {
			return nil, fmt.Errorf("look for names of zone %q: %w", origin, err)
		}
		if is {
			listed = append(listed, labels[i])
		}
	}
	return listed, nil
}

// length is how many fields the hash of a zone has.
func (s *Store) length(ctx context.Context, origin string) (int, error) {
	n, err := s.Client.Do(ctx, s.Client.B().Hlen().Key(s.hash(origin)).Build()).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("read zone %q from Redis: %w", origin, err)
	}
	return int(n), nil
}

// fields are the names in the hash of a zone.
func (s *Store) fields(ctx context.Context, origin string) ([]string, error) {
	all, err := s.Client.Do(ctx, s.Client.B().Hkeys().Key(s.hash(origin)).Build()).AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("read zone %q from Redis: %w", origin, err)
	}
	return all, nil
}

// values reads names in the hash of a zone and hands them on as they come,
// those that are not there as none. While one part is looked at the server works
// on the next.
func (s *Store) values(ctx context.Context, origin string, labels []string, take func(found []named, none []string) error) error {
	const together = 4 // parts
	var found []named
	for some := range slices.Chunk(labels, chunk) {
		var cmds rueidis.Commands
		for part := range slices.Chunk(some, chunk/together) {
			cmds = append(cmds, s.Client.B().Hmget().Key(s.hash(origin)).Field(part...).Build())
		}
		found = found[:0]
		var none []string
		for i, r := range s.Client.DoMulti(ctx, cmds...) {
			texts, err := r.ToArray()
			part := some[i*(chunk/together):]
			if err != nil || len(texts) > len(part) {
				return fmt.Errorf("read zone %q from Redis: %w", origin, err)
			}
			for j := range texts {
				text, err := texts[j].ToString()
				switch {
				case rueidis.IsRedisNil(err):
					none = append(none, part[j])
				case err != nil:
					return fmt.Errorf("read zone %q from Redis: %w", origin, err)
				default:
					found = append(found, named{label: part[j], json: text})
				}
			}
		}
		if err := take(found, none); err != nil {
			return err
		}
	}
	return nil
}

// get reads strings; nil for a key that is not there, or is of another type.
func (s *Store) get(ctx context.Context, keys []string) ([][]byte, error) {
	all := make([][]byte, 0, len(keys))
	if s.Client.Mode() != rueidis.ClientModeCluster {
		got, err := s.Client.Do(ctx, s.Client.B().Arbitrary("MGET").Keys(keys...).Build()).ToArray()
		if err != nil {
			return nil, err
		}
		for i := range got {
			b, err := got[i].AsBytes()
			if err != nil && !rueidis.IsRedisNil(err) {
				return nil, err
			}
			all = append(all, b)
		}
		return all, nil
	}
	cmds := make(rueidis.Commands, len(keys))
	for i, k := range keys {
		cmds[i] = s.Client.B().Arbitrary("GET").Keys(k).Build()
	}
	for _, r := range s.Client.DoMulti(ctx, cmds...) {
		b, err := r.AsBytes()
		if _, refused := rueidis.IsRedisErr(err); err != nil && !refused && !rueidis.IsRedisNil(err) {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

func (s *Store) readHash(ctx context.Context, origin string, take func([]named) error) error {
	key := s.hash(origin)
	var found []named
	for cursor := uint64(0); ; {
		e, err := s.Client.Do(ctx, s.once("HSCAN", key, cursor)).AsScanEntry()
		if err != nil {
			return err
		}
		found = found[:0]
		for i := 0; i+1 < len(e.Elements); i += 2 {
			found = append(found, named{label: e.Elements[i], json: e.Elements[i+1]})
		}
		if err := take(found); err != nil {
			return err
		}
		if cursor = e.Cursor; cursor == 0 {
			return nil
		}
	}
}

func (s *Store) readSets(ctx context.Context, origin string, labels []string, take func([]named) error) error {
	for part := range slices.Chunk(labels, chunk/len(typeNames)) {
		var keys []string
		for _, label := range part {
			for _, t := range typeNames {
				keys = append(keys, s.set(origin, label, t))
			}
		}
		texts, err := s.get(ctx, keys)
		if err != nil {
			return err
		}
		found := make([]named, len(part))
		for i, label := range part {
			found[i] = named{label: label, values: []value{}}
			for j, t := range typeNames {
				at := i*len(typeNames) + j
				if texts[at] != nil {
					found[i].values = append(found[i].values, value{key: keys[at], label: label, typ: t, json: texts[at]})
				}
			}
		}
		if err := take(found); err != nil {
			return err
		}
	}
	return nil
}

// sum tells versions of a zone apart. It puts the values in order.
func (r *raw) sum() xxh3.Uint128 {
	r.sort()
	h := xxh3.New()
	part := func(texts ...string) {
		for _, t := range texts {
			var n [4]byte
			for i := range n {
				n[i] = byte(len(t) >> (8 * i))
			}
			_, _ = h.Write(n[:])
			_, _ = h.WriteString(t)
		}
	}
	part(string(r.config), r.keys.ZSKPublic, r.keys.ZSKPrivate, r.keys.KSKPublic, r.keys.KSKPrivate)
	for _, v := range r.values {
		part(v.label, v.typ)
		part(string(v.json))
	}
	return h.Sum128()
}

func (r *raw) sort() {
	slices.SortFunc(r.values, func(x, y value) int {
		return cmp.Or(strings.Compare(x.label, y.label), strings.Compare(x.typ, y.typ))
	})
}
