package redins

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"shuultuur/lib/redis"
	"shuultuur/zone"
)

// Write replaces a zone in Redis: names that are not in z are deleted. Of the config only the
// SOA is replaced; keys stay. Equal values are not written, and the list of zones is written
// last, so that a new zone is complete when it is read. It returns how many values were
// written and deleted.
func (s *Store) Write(ctx context.Context, z *zone.Zone) (written, deleted int, err error) {
	e, err := encode(z)
	if err != nil {
		return 0, 0, fmt.Errorf("write zone %q: %w", z.Origin, err)
	}
	origin := zone.Canonical(z.Origin)
	in := s.session(ctx)
	defer in.Close()
	old, err := s.read(in, origin, nil)
	if err != nil {
		return 0, 0, err
	}
	config, err := mergeConfig(old.config, e.soa)
	if err != nil {
		return 0, 0, fmt.Errorf("write zone %q: %s: %w", origin, old.key, err)
	}
	return s.replace(ctx, origin, old, s.wanted(e), config)
}

// replace replaces the values and config of a zone.
func (s *Store) replace(ctx context.Context, origin string, old *raw, want map[[2]string][]byte, config []byte) (written, deleted int, err error) {
	have := map[[2]string][]byte{}
	for _, v := range old.values {
		have[[2]string{v.label, v.typ}] = v.json
	}
	out := writer{ctx: ctx, client: s.Client}
	labels := map[string]bool{}
	for _, at := range places(want) {
		labels[at[0]] = true
		if bytes.Equal(have[at], want[at]) {
			continue
		}
		written++
		if s.Schema == Z42 {
			out.add("SET", s.set(origin, at[0], at[1]), string(want[at]))
		} else {
			out.add("HSET", s.hash(origin), at[0], string(want[at]))
		}
	}
	if s.Schema == Z42 {
		labels["@"] = true // z42 does not serve a zone without it
		for part := range slices.Chunk(slices.Sorted(maps.Keys(labels)), chunk) {
			out.add(append([]string{"SADD", s.labels(origin)}, part...)...)
		}
	}
	for _, at := range places(have) {
		if _, stays := want[at]; stays {
			continue
		}
		deleted++
		if s.Schema == Z42 {
			out.add("DEL", s.set(origin, at[0], at[1]))
			if !labels[at[0]] {
				out.add("SREM", s.labels(origin), at[0])
			}
		} else {
			out.add("HDEL", s.hash(origin), at[0])
		}
	}
	switch {
	case bytes.Equal(config, old.config):
	case config == nil:
		deleted++
		out.add("DEL", old.key)
	default:
		written++
		out.add("SET", old.key, string(config))
	}
	out.add("SADD", s.list(), origin)
	if out.flush(); out.err != nil {
		return 0, 0, fmt.Errorf("write zone %q to Redis: %w; part of it may be there", origin, out.err)
	}
	return written, deleted, nil
}

// A writer executes commands in batches, until one fails.
type writer struct {
	ctx    context.Context
	client *redis.Client
	batch  redis.Batch
	size   int
	err    error
}

func (w *writer) add(words ...string) {
	for _, word := range words {
		w.size += len(word)
	}
	if w.batch.Add(words...); w.batch.Len() >= chunk || w.size > maxValue {
		w.flush()
	}
}

func (w *writer) flush() {
	if w.err == nil {
		w.err = w.client.Do(w.ctx, &w.batch)
	}
	w.batch, w.size = redis.Batch{}, 0
}

// places returns the labels and types of values in order.
func places(values map[[2]string][]byte) [][2]string {
	all := slices.Collect(maps.Keys(values))
	slices.SortStableFunc(all, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	return all
}

// wanted returns the values of a zone by label and type; in redins' layout the type is empty
// and the value has all types.
func (s *Store) wanted(e *encodedZone) map[[2]string][]byte {
	want := map[[2]string][]byte{}
	for label, types := range e.labels {
		if s.Schema == Z42 {
			for typ, text := range types {
				want[[2]string{label, typ}] = text
			}
			continue
		}
		all := map[string]json.RawMessage{}
		for typ, text := range types {
			all[strings.ToLower(typ)] = text
		}
		want[[2]string{label, ""}] = marshal(all)
	}
	return want
}

// mergeConfig puts an SOA into a zone's config and keeps the rest.
func mergeConfig(old []byte, soa *soaJSON) ([]byte, error) {
	config := map[string]json.RawMessage{}
	if old != nil {
		if err := json.Unmarshal(old, &config); err != nil {
			return nil, jsonError(err)
		}
		if config == nil {
			config = map[string]json.RawMessage{}
		}
	}
	for name := range config {
		if strings.EqualFold(name, "soa") {
			delete(config, name)
		}
	}
	if soa != nil {
		config["soa"] = marshal(soa)
	}
	return marshal(config), nil
}

// Read reads a zone as stored in Redis: with unlimited TTLs (ttl where there is none), and all
// records of which a server would select. problems are the parts that a server leaves out.
func (s *Store) Read(ctx context.Context, origin string, ttl uint32) (*zone.Zone, []Problem, error) {
	in := s.session(ctx)
	defer in.Close()
	r, err := s.read(in, origin, nil)
	if err != nil {
		return nil, nil, err
	}
	if r.config == nil && len(r.values) == 0 {
		return nil, nil, fmt.Errorf("zone %q: %w", origin, ErrNoZone)
	}
	b := &builder{schema: s.Schema, ttl: ttl}
	return b.build(r), b.problems, nil
}

// ErrNoZone reports that Redis has no such zone.
var ErrNoZone = errors.New("Redis has nothing under this name")
