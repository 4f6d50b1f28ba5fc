package redins

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"shuultuur/zone"
)

// A zone as text for a person to edit: one line for each value, with all that Redis has
// (weights, places, health checks), for which a zone file has no syntax.

const (
	configLine = "config" // begins the line of the config; no label ends with a colon
	maxEdit    = 4 << 20  // bytes of a text
)

// ErrLarge says that a zone is too large to edit as one text.
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
		if json.Compact(&b, text) != nil { // unchanged, for somebody to repair
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
	fail := func(n int, err error) (int, int, error) {
		return 0, 0, fmt.Errorf("zone %s, line %d: %w", origin, n, err)
	}
	in := s.session(ctx)
	defer in.Close()
	old, err := s.read(in, origin, nil)
	if err != nil {
		return 0, 0, err
	}
	fresh := &raw{origin: old.origin, key: old.key, keys: old.keys}
	want, lines := map[[2]string][]byte{}, map[[2]string]int{}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		label, rest, _ := bytes.Cut(line, []byte(" "))
		if string(label) == configLine+":" {
			if fresh.config != nil {
				return fail(n, errors.New("a zone has one config"))
			}
			if fresh.config = bytes.TrimSpace(rest); len(fresh.config) == 0 {
				return fail(n, errNoJSON)
			}
			if problem := s.wrong(fresh); problem != "" {
				return fail(n, errors.New(problem))
			}
			continue
		}
		at := [2]string{string(label), ""}
		if s.Schema == Z42 {
			var typ []byte
			typ, rest, _ = bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
			at[1] = strings.ToUpper(string(typ))
		}
		rest = bytes.TrimSpace(rest)
		switch {
		case s.Schema == Z42 && !slices.Contains(typeNames, at[1]):
			return fail(n, fmt.Errorf("%q is none of the types %s", at[1], strings.Join(typeNames, ", ")))
		case len(rest) == 0:
			return fail(n, errNoJSON)
		case lines[at] > 0:
			return fail(n, fmt.Errorf("%s is also in line %d", strings.TrimSpace(at[0]+" "+at[1]), lines[at]))
		}
		want[at], lines[at] = rest, n
		v := value{key: s.key(origin, at[0], at[1]), label: at[0], typ: at[1], json: rest}
		if problem := s.wrong(&raw{origin: old.origin, key: old.key, values: []value{v}}); problem != "" {
			return fail(n, errors.New(problem))
		}
		fresh.values = append(fresh.values, v)
	}
	if problem := s.wrong(fresh); problem != "" { // for lines in combination
		return 0, 0, fmt.Errorf("zone %s: %s", origin, problem)
	}
	return s.replace(ctx, origin, old, want, fresh.config)
}

var errNoJSON = errors.New(`there is no JSON, as in: www {"a":{"ttl":300,"records":[{"ip":"192.0.2.1"}]}}`)

// wrong returns what could not be served of a zone, "" for nothing.
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

// SetText replaces the values of a zone that s serves; see [Store.SetText]. The event from
// Redis then puts the change into service.
func SetText(ctx context.Context, s *Source, origin string, text []byte) error {
	return with(ctx, s, origin, func(st *Store, name string) error {
		_, _, err := st.SetText(ctx, name, text)
		return err
	})
}

// ErrTaken says that a zone exists already.
var ErrTaken = errors.New("there is a zone of that name already")

// Create writes a zone that Redis does not have. The event from Redis then puts it into
// service.
func Create(ctx context.Context, s *Source, z *zone.Zone) error {
	st, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer st.Client.Close()
	listed, err := st.Zones(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(listed, func(name string) bool { return zone.Canonical(name) == zone.Canonical(z.Origin) }) {
		return ErrTaken
	}
	left, err := st.Text(ctx, zone.Canonical(z.Origin))
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("Redis has values of the zone %s, which is not in its list of zones: add it to the list, or delete them", z.Origin)
	}
	if err != nil {
		return err
	}
	_, _, err = st.Write(ctx, z)
	return err
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
