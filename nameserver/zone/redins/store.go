package redins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	// chunk is how many fields or keys are asked for at once.
	chunk = 2000
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

// touched says what a written key is part of: a zone, or the list of zones
// (origin is ""). ok is false for a key that is none of ours.
func (s *Store) touched(key string) (origin string, ok bool) {
	key, ok = strings.CutPrefix(key, s.Prefix+s.root())
	if !ok {
		return "", false
	}
	if key, ok = strings.CutSuffix(key, s.Suffix); !ok {
		return "", false
	}
	if key == "" {
		return "", true
	}
	if key, ok = strings.CutPrefix(key, ":"); !ok {
		return "", false
	}
	origin, _, _ = strings.Cut(key, ":")
	return origin, true
}

// Zones returns the names of the zones as Redis lists them, sorted.
func (s *Store) Zones(ctx context.Context) ([]string, error) {
	names, err := s.members(ctx, s.list(), maxZones)
	if err != nil {
		return nil, fmt.Errorf("list the zones in %q: %w", s.list(), err)
	}
	return names, nil
}

// members reads a set piece by piece, so that a large one does not stop the
// server.
func (s *Store) members(ctx context.Context, key string, most int) ([]string, error) {
	seen := map[string]bool{}
	for cursor := uint64(0); ; {
		e, err := s.Client.Do(ctx, s.once("SSCAN", key, cursor)).AsScanEntry()
		if err != nil {
			return nil, err
		}
		for _, m := range e.Elements {
			seen[m] = true
		}
		if len(seen) > most {
			return nil, errTooMuch
		}
		if cursor = e.Cursor; cursor == 0 {
			break
		}
	}
	all := make([]string, 0, len(seen))
	for m := range seen {
		all = append(all, m)
	}
	slices.Sort(all)
	return all, nil
}

// once is a command of a walk through a set or hash. It is written in a way
// that the library does not send it again by itself: after an interruption the
// cursor may be another server's, and part of the walk would be missing.
func (s *Store) once(command, key string, cursor uint64) rueidis.Completed {
	return s.Client.B().Arbitrary(command).Keys(key).Args(strconv.FormatUint(cursor, 10), "COUNT", strconv.Itoa(chunk)).Build()
}

// read reads one zone.
func (s *Store) read(ctx context.Context, origin string) (*raw, error) {
	r := &raw{origin: dns.CanonicalName(origin), key: s.config(origin)}
	if _, ok := dns.IsDomainName(r.origin); !ok || origin == "" {
		return nil, fmt.Errorf("read zone %q: this is not a domain name", origin)
	}
	keys := []string{r.key}
	for _, part := range keyParts {
		keys = append(keys, s.wrap(s.of(origin)+part))
	}
	texts, err := s.get(ctx, keys)
	if err == nil {
		r.config = texts[0]
		r.keys = Keys{string(texts[1]), string(texts[2]), string(texts[3]), string(texts[4])}
		if s.Schema == Z42 {
			err = s.readSets(ctx, origin, r)
		} else {
			err = s.readHash(ctx, origin, r)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read zone %q from Redis: %w", origin, err)
	}
	return r, nil
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

func (s *Store) readHash(ctx context.Context, origin string, r *raw) error {
	key := s.hash(origin)
	at := map[string]int{} // a field may come twice while the hash changes
	size := 0
	for cursor := uint64(0); ; {
		e, err := s.Client.Do(ctx, s.once("HSCAN", key, cursor)).AsScanEntry()
		if err != nil {
			return err
		}
		for i := 0; i+1 < len(e.Elements); i += 2 {
			label, text := e.Elements[i], e.Elements[i+1]
			if size += len(label) + len(text); size > maxBytes {
				return errTooMuch
			}
			if n, ok := at[label]; ok {
				r.values[n].json = []byte(text)
				continue
			}
			at[label] = len(r.values)
			r.values = append(r.values, value{key: key, label: label, json: []byte(text)})
		}
		if cursor = e.Cursor; cursor == 0 {
			return nil
		}
	}
}

func (s *Store) readSets(ctx context.Context, origin string, r *raw) error {
	labels, err := s.members(ctx, s.labels(origin), maxBytes/64)
	if err != nil {
		return err
	}
	size := 0
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
		for i, text := range texts {
			if text == nil {
				continue
			}
			if size += len(keys[i]) + len(text); size > maxBytes {
				return errTooMuch
			}
			r.values = append(r.values, value{key: keys[i], label: part[i/len(typeNames)], typ: typeNames[i%len(typeNames)], json: text})
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
