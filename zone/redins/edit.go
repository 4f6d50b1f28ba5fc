package redins

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/lib/redis"
	"shuultuur/zone"
)

// A zone as text for a person to edit: one line for each value, with all that Redis has
// (weights, places, health checks), for which a zone file has no syntax.

const (
	configLine = "config" // begins the line of the config; no label ends with a colon
	maxEdit    = 4 << 20  // bytes of a text
)

// ErrLarge reports that a zone is too large to edit as one text.
var ErrLarge = fmt.Errorf("the zone has more than %d bytes: change its values in Redis", maxEdit)

// Text returns the values of a zone, one line each: the config as "config: JSON", then "LABEL
// JSON", or in z42's layout "LABEL TYPE JSON".
func (s *Store) Text(ctx context.Context, origin string) ([]byte, error) {
	in := s.session(ctx)
	defer in.Close()
	r, err := s.read(in, origin, nil)
	if err != nil {
		return nil, err
	}
	sortValues(r.values)
	var b bytes.Buffer
	line := func(begin string, text []byte) {
		b.WriteString(begin + " ")
		if json.Compact(&b, text) != nil { // unchanged, to be repaired by hand
			b.Write(bytes.ReplaceAll(text, []byte("\n"), []byte(" ")))
		}
		b.WriteByte('\n')
	}
	if r.config != nil {
		line(configLine+":", r.config)
	}
	for _, v := range r.values {
		if v.json != nil {
			line(strings.TrimSuffix(v.label+" "+v.typ, " "), v.json)
		}
		if b.Len() > maxEdit {
			return nil, fmt.Errorf("zone %q: %w", origin, ErrLarge)
		}
	}
	return b.Bytes(), nil
}

// SetText replaces the values of a zone by those of a text. If something could not be served,
// it returns an error with the line.
func (s *Store) SetText(ctx context.Context, origin string, text []byte) (written, deleted int, err error) {
	in := s.session(ctx)
	defer in.Close()
	old, err := s.read(in, origin, nil)
	if err != nil {
		return 0, 0, err
	}
	fresh, err := s.parse(old, text)
	if err != nil {
		return 0, 0, fmt.Errorf("zone %s: %w", origin, err)
	}
	want := map[[2]string][]byte{}
	for _, v := range fresh.values {
		want[[2]string{v.label, v.typ}] = v.json
	}
	return s.replace(ctx, origin, old, want, fresh.config)
}

// parse reads the text of a zone whose origin and keys are those of old. If something could not
// be served, it returns an error with the line.
func (s *Store) parse(old *raw, text []byte) (*raw, error) {
	fail := func(n int, err error) (*raw, error) { return nil, fmt.Errorf("line %d: %w", n, err) }
	fresh := &raw{origin: old.origin, key: old.key, keys: old.keys}
	lines := map[[2]string]int{}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		at, data, err := s.split(line)
		switch {
		case err != nil:
			return fail(n, err)
		case at == [2]string{}:
			continue
		case at[0] == configLine+":":
			if fresh.config != nil {
				return fail(n, errors.New("a zone has one config"))
			}
			fresh.config = data
			if problem := s.wrong(fresh); problem != "" {
				return fail(n, errors.New(problem))
			}
			continue
		case lines[at] > 0:
			return fail(n, fmt.Errorf("%s is also in line %d", strings.TrimSpace(at[0]+" "+at[1]), lines[at]))
		}
		lines[at] = n
		v := value{key: s.key(old.origin, at[0], at[1]), label: at[0], typ: at[1], json: data}
		if problem := s.wrong(&raw{origin: old.origin, key: old.key, values: []value{v}}); problem != "" {
			return fail(n, errors.New(problem))
		}
		fresh.values = append(fresh.values, v)
	}
	if problem := s.wrong(fresh); problem != "" { // for lines in combination
		return nil, errors.New(problem)
	}
	return fresh, nil
}

// split splits a line into label, type (z42) and JSON. The label of the config ends with a
// colon. An empty line has neither.
func (s *Store) split(line []byte) (at [2]string, json []byte, err error) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return at, nil, nil
	}
	label, rest, _ := bytes.Cut(line, []byte(" "))
	at[0] = string(label)
	if s.Schema == Z42 && at[0] != configLine+":" {
		var typ []byte
		typ, rest, _ = bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
		if at[1] = strings.ToUpper(string(typ)); !slices.Contains(typeNames, at[1]) {
			return at, nil, fmt.Errorf("%q is none of the types %s", at[1], strings.Join(typeNames, ", "))
		}
	}
	if rest = bytes.TrimSpace(rest); len(rest) == 0 {
		return at, nil, errNoJSON
	}
	return at, rest, nil
}

var errNoJSON = errors.New(`there is no JSON, as in: www {"a":{"ttl":300,"records":[{"ip":"192.0.2.1"}]}}`)

// wrong returns the mistake in a zone that could not be served, "" for none.
func (s *Store) wrong(r *raw) string {
	b := &builder{schema: s.Schema, ttl: defaultTTL}
	b.build(r)
	if len(b.problems) == 0 {
		return ""
	}
	p := b.problems[0]
	return strings.TrimPrefix(p.Field+": "+p.Err.Error(), ": ")
}

// Text returns the values of a zone that s serves; see [Store.Text].
func Text(ctx context.Context, s *Source, origin string) (text []byte, err error) {
	err = with(ctx, s, origin, func(st *Store, name string) error {
		text, err = st.Text(ctx, name)
		return err
	})
	return text, err
}

// SetText replaces the values of a zone that s serves; see [Store.SetText]. If the zone does not
// have the text that was read, or another node writes it, it returns [zone.ErrChanged]. The event
// from Redis then puts the change into service.
func SetText(ctx context.Context, s *Source, origin string, was, text []byte) error {
	return with(ctx, s, origin, func(st *Store, name string) error {
		return st.leased(ctx, name, func(ctx context.Context) error {
			if err := st.unchanged(ctx, name, was); err != nil {
				return err
			}
			_, _, err := st.SetText(ctx, name, text)
			return err
		})
	})
}

// Await waits until a zone that s serves has been read again since a time, at most as long as ctx.
func Await(ctx context.Context, s *Source, origin string, since time.Time) {
	for {
		s.mu.Lock()
		read := false
		for _, k := range s.known {
			read = read || k.origin == origin && k.ended.Add(-k.took).After(since)
		}
		s.mu.Unlock()
		if read {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// unchanged returns [zone.ErrChanged] if the text of a zone is not the one that was read.
func (s *Store) unchanged(ctx context.Context, origin string, was []byte) error {
	now, err := s.Text(ctx, origin)
	if err == nil && !bytes.Equal(now, was) {
		return fmt.Errorf("zone %s: %w", origin, zone.ErrChanged)
	}
	return err
}

// leaseTime is how long a node may write a zone. One that loses Redis meanwhile stops sooner.
const leaseTime = 30 * time.Second

// leased calls do while no other node of a fleet changes the zone.
func (s *Store) leased(ctx context.Context, origin string, do func(ctx context.Context) error) error {
	key, holder := s.wrap(string(s.Schema)+":zone-lease:"+origin), rand.Text()
	ask := func(ctx context.Context, words ...string) (bool, error) {
		var b redis.Batch
		b.Add(words...)
		if err := s.Client.Do(ctx, &b); err != nil {
			return false, err
		}
		_, err := b.Failed()
		return !b.Reply(0).Null(), err
	}
	short, cancel := context.WithTimeout(ctx, leaseTime/2)
	defer cancel()
	mine, err := ask(short, "SET", key, holder, "NX", "PX", strconv.FormatInt(leaseTime.Milliseconds(), 10))
	if err != nil {
		return fmt.Errorf("keeping others from zone %s with the key %q in Redis: %w", origin, key, err)
	}
	if !mine {
		return fmt.Errorf("zone %s, which another node writes at this moment: %w", origin, zone.ErrChanged)
	}
	defer func() {
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = ask(after, "EVAL", "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0", "1", key, holder) // it expires
	}()
	return do(short)
}

// CheckText returns the mistake in a text that could not be served, with its line.
func CheckText(ctx context.Context, s *Source, origin string, text []byte) error {
	return with(ctx, s, origin, func(st *Store, name string) error {
		in := st.session(ctx)
		defer in.Close()
		old, err := st.read(in, name, nil)
		if err == nil {
			_, err = st.parse(old, text)
		}
		return err
	})
}

// ErrTaken reports that a zone exists already.
var ErrTaken = errors.New("there is a zone of that name already")

// Create writes a zone that Redis does not have. The event from Redis then puts it into
// service.
func Create(ctx context.Context, s *Source, z *zone.Zone) error {
	st, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer st.Client.Close()
	origin := zone.Canonical(z.Origin)
	return st.leased(ctx, origin, func(ctx context.Context) error {
		if err := st.free(ctx, origin); err != nil {
			return err
		}
		left, err := st.Text(ctx, origin)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("Redis has values of the zone %s, which is not in its list of zones: add it to the list, or delete them", z.Origin)
		}
		if err == nil {
			_, _, err = st.Write(ctx, z)
		}
		return err
	})
}

// free returns [ErrTaken] if Redis lists a zone.
func (s *Store) free(ctx context.Context, origin string) error {
	listed, err := s.Zones(ctx)
	if err == nil && slices.ContainsFunc(listed, func(name string) bool { return zone.Canonical(name) == origin }) {
		return ErrTaken
	}
	return err
}

// Restore writes a zone that was deleted, as text.
func Restore(ctx context.Context, s *Source, origin string, text []byte) error {
	st, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer st.Client.Close()
	origin = zone.Canonical(origin)
	return st.leased(ctx, origin, func(ctx context.Context) error {
		if err := st.free(ctx, origin); err != nil {
			return err
		}
		_, _, err := st.SetText(ctx, origin, text)
		return err
	})
}

// Delete deletes a zone that has the text that was read: it is taken out of the list first, so that none is served in part. Keys
// that sign it stay, so that a restored zone keeps its DS record.
func Delete(ctx context.Context, s *Source, origin string, was []byte) error {
	return with(ctx, s, origin, func(st *Store, name string) error {
		return st.leased(ctx, name, func(ctx context.Context) error {
			if err := st.unchanged(ctx, name, was); err != nil {
				return err
			}
			return st.remove(ctx, name)
		})
	})
}

func (s *Store) remove(ctx context.Context, name string) error {
	in := s.session(ctx)
	defer in.Close()
	old, err := s.read(in, name, nil)
	if err != nil {
		return err
	}
	out := writer{ctx: ctx, client: s.Client}
	out.add("SREM", s.list(), name)
	out.add("DEL", s.hash(name), s.labels(name), s.config(name))
	if s.Schema == Z42 {
		for _, v := range old.values {
			out.add("DEL", v.key)
		}
	}
	if out.flush(); out.err != nil {
		return fmt.Errorf("delete zone %q from Redis: %w; part of it may be there", name, out.err)
	}
	return nil
}

// with calls do for a zone, with its name as Redis lists it.
func with(ctx context.Context, s *Source, origin string, do func(st *Store, name string) error) error {
	s.mu.Lock()
	name := ""
	for listed, k := range s.known {
		if k.origin == origin {
			name = listed
		}
	}
	s.mu.Unlock()
	if name == "" {
		return fmt.Errorf("zone %q: %w", origin, ErrNoZone)
	}
	st, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer st.Client.Close()
	return do(st, name)
}
