package redins

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"shuultuur/lib/dns"
	"shuultuur/lib/redis"
	"shuultuur/lib/redis/keyspace"
	"shuultuur/zone"
)

// A Store is the zones in Redis, in one of the layouts.
type Store struct {
	Client         *redis.Client
	Schema         Schema
	Prefix, Suffix string // of every key
}

// Open connects to Redis. The prefix in cfg precedes every key, suffix follows it. The caller
// closes the Client.
func Open(ctx context.Context, cfg redis.Config, schema Schema, suffix string) (*Store, error) {
	client, err := redis.Connect(ctx, cfg, redis.Options{})
	if err != nil {
		return nil, err
	}
	return &Store{client, schema, cfg.Prefix, suffix}, nil
}

const (
	// maxZones bounds the names of zones, maxBytes the size of one zone.
	maxZones = 1_000_000
	maxBytes = 1 << 30
	// chunk is how many values are written at once.
	chunk = 5000
)

var errTooMuch = errors.New("it has too much data for one zone")

func (s *Store) root() string            { return string(s.Schema) + ":zones" }
func (s *Store) wrap(key string) string  { return s.Prefix + key + s.Suffix }
func (s *Store) list() string            { return s.wrap(s.root()) }
func (s *Store) of(origin string) string { return s.root() + ":" + origin }

func (s *Store) config(origin string) string   { return s.wrap(s.of(origin) + ":config") }
func (s *Store) labels(origin string) string   { return s.wrap(s.of(origin) + ":labels") }
func (s *Store) hash(origin string) string     { return s.wrap(s.of(origin)) }
func (s *Store) set(o, label, t string) string { return s.wrap(s.of(o) + ":labels:" + label + ":" + t) }

// key returns the key of a name and type.
func (s *Store) key(origin, label, typ string) string {
	if s.Schema == Redins {
		return s.hash(origin)
	}
	return s.set(origin, label, typ)
}

// keyParts are the parts of a zone's keys, in the order of Keys.
var keyParts = []string{":zsk:pub", ":zsk:priv", ":ksk:pub", ":ksk:priv"}

// pattern matches every key of zones.
func (s *Store) pattern() string {
	return keyspace.Escape(s.Prefix+s.root()) + "*" + keyspace.Escape(s.Suffix)
}

// touched returns the zone and name that a written key belongs to: a zone and a part of it, or
// the list of zones (origin is ""). ok is false for other keys.
func (s *Store) touched(key string) (origin string, what *writtenPart, ok bool) {
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
	what = &writtenPart{}
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

// session begins to read.
func (s *Store) session(ctx context.Context) *redis.Session {
	return s.Client.Session(ctx, maxValue+1)
}

// Zones returns the sorted names of the zones that Redis lists.
func (s *Store) Zones(ctx context.Context) ([]string, error) {
	in := s.session(ctx)
	defer in.Close()
	return s.zones(in)
}

func (s *Store) zones(in *redis.Session) ([]string, error) {
	seen := map[string]bool{}
	if err := in.Members(s.list(), func(member []byte) error {
		if seen[string(member)] = true; len(seen) > maxZones {
			return errTooMuch
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("list the zones in %q: %w", s.list(), err)
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// settings reads the config and keys of a zone.
func (s *Store) settings(in *redis.Session, origin string) (*raw, error) {
	r := &raw{origin: zone.Canonical(origin), key: s.config(origin)}
	if _, err := dns.Name(origin); err != nil || origin == "" {
		return nil, fmt.Errorf("read zone: %q is not a domain name", origin)
	}
	keys := []string{r.key}
	for _, part := range keyParts {
		keys = append(keys, s.wrap(s.of(origin)+part))
	}
	texts := make([][]byte, len(keys))
	err := in.Strings(len(keys), func(i int, b []byte) []byte { return append(b, keys[i]...) }, func(i int, text []byte) error {
		texts[i] = bytes.Clone(text)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read zone %q from Redis: %w", origin, err)
	}
	r.config = texts[0]
	r.keys = Keys{string(texts[1]), string(texts[2]), string(texts[3]), string(texts[4])}
	return r, nil
}

// read reads one zone. known says which keys its names have, if that is known (z42).
func (s *Store) read(in *redis.Session, origin string, known *names) (*raw, error) {
	r, err := s.settings(in, origin)
	if err != nil {
		return nil, err
	}
	r.names = &names{}
	size := 0
	err = s.eachName(in, origin, r.names, known, func(place int32, values []value) error {
		label := string(r.names.label(place))
		if len(values) == 0 { // a name that is listed without values
			r.values = append(r.values, value{key: s.key(origin, label, typeNames[0]), label: label})
		}
		for _, v := range values {
			v.label, v.key, v.json = label, s.key(origin, label, v.typ), bytes.Clone(v.json)
			if size += len(v.key) + len(v.label) + len(v.json); size > maxBytes {
				return errTooMuch
			}
			if s.Schema == Redins && int(place) < len(r.values) { // a hash that changes may return a field twice
				r.values[place] = v
				continue
			}
			r.values = append(r.values, v)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read zone %q from Redis: %w", origin, err)
	}
	return r, nil
}

// eachName reads all names of a zone, adds them to n, and passes their values on as keyed does. A
// large hash may return one twice.
func (s *Store) eachName(in *redis.Session, origin string, n, known *names, take func(place int32, values []value) error) error {
	if s.Schema == Redins {
		values := make([]value, 1)
		return in.Hash(s.hash(origin), func(field, text []byte) error {
			place, _, err := n.add(field)
			if err != nil {
				return err
			}
			values[0].json = text
			return take(place, values)
		})
	}
	if err := in.Members(s.labels(origin), func(label []byte) error {
		i, fresh, err := n.add(label)
		if !fresh {
			return err
		}
		if n.all[i].types = allTypes; known != nil {
			n.all[i].types = 0
			if j := known.find(label); j >= 0 {
				n.all[i].types = known.all[j].types
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return s.keyed(in, origin, n, indexes(len(n.all)), take)
}

// indexes returns the numbers from 0 to n-1.
func indexes(n int) []int32 {
	places := make([]int32, n)
	for i := range places {
		places[i] = int32(i)
	}
	return places
}

// keyed reads the values of names that have a key for each type, and passes them on name by
// name, without key and label. Their JSON is valid until take returns.
func (s *Store) keyed(in *redis.Session, origin string, n *names, places []int32, take func(place int32, values []value) error) error {
	type key struct {
		name int32
		typ  uint8 // of typeNames
	}
	const together = 50_000 // names per batch, so that keys take less memory than their values
	front := s.Prefix + s.of(origin) + ":labels:"
	var keys []key
	var values []value
	var texts []byte // of values
	for part := range slices.Chunk(places, together) {
		keys = keys[:0]
		for i, place := range part {
			for typ := range typeNames {
				if n.all[place].types>>typ&1 != 0 {
					keys = append(keys, key{int32(i), uint8(typ)})
				}
			}
		}
		next := int32(0) // the name whose values are passed on next
		hand := func(upTo int32) error {
			for ; next < upTo; next++ {
				if err := take(part[next], values); err != nil {
					return err
				}
				values, texts = values[:0], texts[:0]
			}
			return nil
		}
		err := in.Strings(len(keys), func(i int, b []byte) []byte {
			b = append(append(b, front...), n.label(part[keys[i].name])...)
			return append(append(append(b, ':'), typeNames[keys[i].typ]...), s.Suffix...)
		}, func(i int, text []byte) error {
			if err := hand(keys[i].name); err != nil || text == nil {
				return err
			}
			from := len(texts)
			texts = append(texts, text...)
			values = append(values, value{typ: typeNames[keys[i].typ], json: texts[from:len(texts):len(texts)]})
			return nil
		})
		if err == nil {
			err = hand(int32(len(part)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// types scans all keys for those of names and types (z42).
func (s *Store) types(in *redis.Session, found func(origin, label []byte, types uint16) error) error {
	front, middle := []byte(s.Prefix+s.root()+":"), []byte(":labels:")
	pattern := keyspace.Escape(string(front)) + "*" + string(middle) + "*" + keyspace.Escape(s.Suffix)
	err := in.Keys(pattern, func(key []byte) error {
		key = key[len(front) : len(key)-len(s.Suffix)]
		origin, key, ok := bytes.Cut(key, middle)
		i := bytes.LastIndexByte(key, ':')
		if !ok || i < 0 {
			return nil
		}
		for t, name := range typeNames {
			if string(key[i+1:]) == name {
				return found(origin, key[:i], 1<<t)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for the keys of zones: %w", err)
	}
	return nil
}

// listedLabels returns those labels that a zone lists.
func (s *Store) listedLabels(ctx context.Context, origin string, labels []string) (listed []string, err error) {
	var b redis.Batch
	for _, label := range labels {
		b.Add("SISMEMBER", s.labels(origin), label)
	}
	err = s.Client.Do(ctx, &b)
	for i := range labels {
		if err != nil {
			break
		}
		var is int64
		if is, err = b.Reply(i).Int(); is == 1 {
			listed = append(listed, labels[i])
		}
	}
	if err != nil {
		return nil, fmt.Errorf("look for names of zone %q: %w", origin, err)
	}
	return listed, nil
}

// sum returns a checksum of a version of a zone. It sorts the values.
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
	slices.SortStableFunc(r.values, func(x, y value) int {
		return cmp.Or(strings.Compare(x.label, y.label), strings.Compare(x.typ, y.typ))
	})
}

// measureRead returns how many keys the database has, and how many requests it would take to ask
// for every type of each name.
func (s *Store) measureRead(ctx context.Context, zones map[string]*zoneState) (keys, asked int64, err error) {
	for _, node := range s.Client.Nodes() {
		var b redis.Batch
		b.Add("DBSIZE")
		if err := s.Client.DoAt(ctx, node, &b); err != nil {
			return 0, 0, err
		}
		n, err := b.Reply(0).Int()
		if err != nil {
			return 0, 0, err
		}
		keys += n
	}
	var b redis.Batch
	for origin := range zones {
		b.Add("SCARD", s.labels(origin))
	}
	if err := s.Client.Do(ctx, &b); err != nil {
		return 0, 0, err
	}
	for i := range b.Len() {
		n, err := b.Reply(i).Int()
		if err != nil {
			return 0, 0, err
		}
		asked += n * int64(len(typeNames))
	}
	return keys, asked, nil
}
