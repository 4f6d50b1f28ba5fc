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

	"github.com/miekg/dns"
	"github.com/redis/rueidis"

	"shuultuur/nameserver/zone"
)

// Write puts a zone into Redis in the place of what is there under its name:
// names that are not in z go. Of the config only the SOA is replaced; keys
// stay. What is the same is not written, and the list of zones comes last, so
// that a new zone is whole when it is read. It returns how many values were
// written and deleted.
func (s *Store) Write(ctx context.Context, z *zone.Zone) (written, deleted int, err error) {
	e, err := encode(z)
	if err != nil {
		return 0, 0, fmt.Errorf("write zone %q: %w", z.Origin, err)
	}
	origin := dns.CanonicalName(z.Origin)
	in := s.session(ctx)
	defer in.Close()
	old, err := s.read(in, origin, nil)
	if err != nil {
		return 0, 0, err
	}
	have := map[[2]string][]byte{}
	for _, v := range old.values {
		have[[2]string{v.label, v.typ}] = v.json
	}
	var cmds []rueidis.Completed
	b := s.Client.B()
	want := s.wanted(e)
	labels := map[string]bool{}
	for _, at := range slices.SortedFunc(maps.Keys(want), compareAt) {
		labels[at[0]] = true
		if bytes.Equal(have[at], want[at]) {
			continue
		}
		written++
		if s.Schema == Z42 {
			cmds = append(cmds, b.Set().Key(s.set(origin, at[0], at[1])).Value(string(want[at])).Build())
		} else {
			cmds = append(cmds, b.Hset().Key(s.hash(origin)).FieldValue().FieldValue(at[0], string(want[at])).Build())
		}
	}
	if s.Schema == Z42 {
		labels["@"] = true // z42 does not serve a zone without it
		cmds = append(cmds, b.Sadd().Key(s.labels(origin)).Member(slices.Sorted(maps.Keys(labels))...).Build())
	}
	for _, at := range slices.SortedFunc(maps.Keys(have), compareAt) {
		if _, stays := want[at]; stays {
			continue
		}
		deleted++
		if s.Schema == Z42 {
			cmds = append(cmds, b.Del().Key(s.set(origin, at[0], at[1])).Build())
			if !labels[at[0]] {
				cmds = append(cmds, b.Srem().Key(s.labels(origin)).Member(at[0]).Build())
			}
		} else {
			cmds = append(cmds, b.Hdel().Key(s.hash(origin)).Field(at[0]).Build())
		}
	}
	config, err := mergeConfig(old.config, e.soa)
	if err != nil {
		return 0, 0, fmt.Errorf("write zone %q: %s: %w", origin, old.key, err)
	}
	if !bytes.Equal(config, old.config) {
		written++
		cmds = append(cmds, b.Set().Key(old.key).Value(string(config)).Build())
	}
	cmds = append(cmds, b.Sadd().Key(s.list()).Member(origin).Build())
	for part := range slices.Chunk(cmds, chunk) {
		for _, r := range s.Client.DoMulti(ctx, part...) {
			if err := r.Error(); err != nil {
				return 0, 0, fmt.Errorf("write zone %q to Redis: %w; it may be there in part", origin, err)
			}
		}
	}
	return written, deleted, nil
}

func compareAt(a, b [2]string) int { return slices.Compare(a[:], b[:]) }

// wanted is the values of a zone by label and type; in redins' layout the type
// is empty and the value has all of them.
func (s *Store) wanted(e *encoded) map[[2]string][]byte {
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

// Read reads a zone as it is written in Redis: TTLs as they are (ttl where
// there is none), and all records of which a server would choose. The problems
// are what a server leaves out.
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

// ErrNoZone says that Redis has no such zone.
var ErrNoZone = errors.New("there is nothing under this name in Redis")
