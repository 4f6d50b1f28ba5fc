package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"shuultuur/atomicfile"
	"shuultuur/setting"
)

// A part is one row of the table of [parts]: something that is built from its
// settings, from the files that these name, and from parts in rows above it.
type part struct {
	name  string
	key   string              // of its settings; mistakes are named below it
	above []string            // names of the parts it is built from
	from  func(*Settings) any // its settings; nil when they leave the part out
	// fixed returns those of its settings that only a restart changes; nil when
	// a reload changes all of them.
	fixed func(*Settings) any
	// keeps says that the part itself keeps last good copies of its files. For
	// the others the gateway does: at a start, a part whose files cannot be used
	// is built from the copies.
	keeps bool
	// without builds the part without its files. At a start, one whose files are
	// there and were never valid serves so and reports it; nil where the filter would be open.
	without func(*builder) error
	slot
}

// A slot is where an engine holds a part.
type slot struct {
	build func(context.Context, *builder) error
	keep  func(to, from *Engine)
	value func(*Engine) any // nil when the settings leave the part out
}

// in makes the slot of a part out of its field and its constructor. The
// constructor finds the parts above in the builder, and the previous engine in
// its field old.
func in[T any](at func(*Engine) *T, build func(context.Context, *builder) (T, error)) slot {
	return slot{
		build: func(ctx context.Context, b *builder) error {
			v, err := build(ctx, b)
			if err == nil {
				*at(b.Engine) = v
			}
			return err
		},
		keep: func(to, from *Engine) { *at(to) = *at(from) },
		value: func(e *Engine) any {
			if v := any(*at(e)); !isNil(v) {
				return v
			}
			return nil
		},
	}
}

func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return (r.Kind() == reflect.Pointer || r.Kind() == reflect.Map || r.Kind() == reflect.Slice) && r.IsNil()
}

// made is what a part was built from.
type made struct {
	settings string   // digest of its settings and of those of the parts above
	sum      string   // digest of settings, files and parts above
	files    []string // that were read
	fault    error    // why it is not what settings and files say
}

// A builder builds an engine. What the parts need of each other they find in
// its Engine.
type builder struct {
	*Engine
	old  *Engine  // nil at a start
	g    *Gateway // nil on trial
	log  *slog.Logger
	late time.Time // files that are found from here on may have changed since this time
	now  part
	read []string // what now's constructor says it has read
}

// trial says that the engine is built to look for mistakes or to explain: it
// listens nowhere, writes nothing that a running gateway reads, and what it
// remembers is nothing.
func (b *builder) trial() bool { return b.g == nil }

// reads is called by constructors with files that their settings do not name,
// such as those that other files include. They need not exist.
func (b *builder) reads(files ...string) { b.read = append(b.read, files...) }

// build makes an engine of s. Parts whose settings and files are those of old
// are taken over from it. On an error, what was built is closed.
func build(ctx context.Context, s *Settings, old *Engine, g *Gateway, log *slog.Logger) (*Engine, error) {
	b := &builder{Engine: &Engine{settings: s, reading: reading{made: map[string]made{}, seen: map[string]string{}, built: time.Now()}}, old: old, g: g, log: log}
	b.seen[s.text.File] = s.stamp
	if err := s.distinct(); err != nil {
		return b.Engine, s.text.Mistakes(err)
	}
	for _, b.now = range parts() {
		if err := b.part(ctx, b.now); err != nil {
			b.drop(old, log)
			return b.Engine, s.text.Mistakes(err)
		}
	}
	sum := sha256.New()
	for _, p := range parts() {
		fmt.Fprintln(sum, b.made[p.name].sum)
	}
	b.revision = hex.EncodeToString(sum.Sum(nil)[:8])
	return b.Engine, nil
}

// part builds one part, or takes it over from the previous engine.
func (b *builder) part(ctx context.Context, p part) error {
	settings := p.from(b.settings)
	if isNil(settings) {
		return nil
	}
	m := made{settings: b.digest(p, settings), files: setting.Files(settings)}
	var was made
	had := false
	if b.old != nil {
		was, had = b.old.made[p.name]
	}
	if had && was.fault == nil && was.sum == b.sum(p, m.settings, union(m.files, was.files)) && faults(p.value(b.old)) == nil {
		p.keep(b.Engine, b.old)
		b.made[p.name] = was
		return nil
	}
	b.sum(p, m.settings, m.files) // look at the files before they are read
	b.read, b.late = nil, time.Now().Add(-clockStep)
	err := p.build(ctx, b)
	m.files = union(m.files, b.read)
	switch {
	case err != nil && had && was.settings == m.settings && !errors.Is(err, context.Canceled):
		m.fault = setting.At(p.key, err)
		p.keep(b.Engine, b.old)
	case err != nil && b.old == nil && (b.fromCopies(ctx, p) || b.bare(p, err)):
		m.fault = setting.At(p.key, err)
	case err != nil:
		b.sum(p, m.settings, m.files)
		return setting.At(p.key, err)
	case had && p.fixed != nil && setting.Digest(p.fixed(b.settings)) != setting.Digest(p.fixed(b.old.settings)):
		if p.value(b.Engine) != p.value(b.old) {
			closePart(p.value(b.Engine), b.log)
		}
		p.keep(b.Engine, b.old)
		b.restart = append(b.restart, p.key)
		m = was
	}
	m.sum = b.sum(p, m.settings, m.files)
	if m.fault != nil {
		m.sum += "!" // what is built from this part is rebuilt when it is whole again
	}
	b.made[p.name] = m
	b.late = time.Time{}
	return nil
}

// copies are those of a part's files.
func (s *Settings) copies(p part) atomicfile.Copies {
	return atomicfile.Copies{Dir: filepath.Join(string(s.Data), "last-good", p.name)}
}

// bare builds a part without its files after err, and says whether that was
// possible. Settings that name files which are not there are mistaken: err
// stands.
func (b *builder) bare(p part, err error) bool {
	return !b.trial() && p.without != nil && !errors.Is(err, fs.ErrNotExist) && p.without(b) == nil
}

// fromCopies builds a part from the copies of its files, and says whether that
// was possible.
func (b *builder) fromCopies(ctx context.Context, p part) bool {
	c := b.settings.copies(p)
	if p.keeps || b.trial() || !c.Any() {
		return false
	}
	s, err := b.settings.moved(c.Path)
	if err != nil {
		return false
	}
	own := b.settings
	b.settings = s
	defer func() { b.settings = own }()
	return p.build(ctx, b) == nil
}

// keepCopies makes copies of the files of the parts that are not the same as in
// old, for the next start.
func (e *Engine) keepCopies(old *Engine) error {
	var errs []error
	for _, p := range parts() {
		m, made := e.made[p.name]
		if made && !p.keeps && m.fault == nil && (old == nil || old.made[p.name].sum != m.sum) {
			errs = append(errs, e.settings.copies(p).Keep(m.files))
		}
	}
	return errors.Join(errs...)
}

// clockStep is how far the time of a change of a file may be behind the clock.
const clockStep = 20 * time.Millisecond

// digest is that of a part's settings and of those of the parts above.
func (b *builder) digest(p part, settings any) string {
	all := []string{setting.Digest(settings)}
	for _, name := range p.above {
		all = append(all, b.made[name].settings)
	}
	return setting.Digest(all)
}

// sum is the digest that decides whether a part is rebuilt.
func (b *builder) sum(p part, settings string, files []string) string {
	all := []string{settings}
	for _, f := range files {
		all = append(all, f, b.look(f))
	}
	for _, name := range p.above {
		all = append(all, b.made[name].sum)
	}
	return setting.Digest(all)
}

// drop closes what is in e and not in old, and does not run.
func (e *Engine) drop(old *Engine, log *slog.Logger) {
	for _, p := range slices.Backward(parts()) {
		if v := p.value(e); v != nil && (old == nil || v != p.value(old)) {
			closePart(v, log)
		}
	}
}

// closePart lets go of a part that does not run.
func closePart(v any, log *slog.Logger) {
	switch v := v.(type) {
	case io.Closer:
		if err := v.Close(); err != nil {
			log.Error("not closed", "error", err)
		}
	case interface{ Close() }:
		v.Close()
	}
}

// faults are what keeps a part from being what its files say.
func faults(v any) []error {
	if f, ok := v.(interface{ Faults() []error }); ok {
		return f.Faults()
	}
	return nil
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// look takes the stamp of a file once for each engine: the first time that
// anything is built from it. A file that is found only while it is read may
// have changed since; then it is looked at again.
func (b *builder) look(file string) string {
	st, ok := b.seen[file]
	if !ok {
		st = setting.Stamp(file, b.late)
		b.seen[file] = st
	}
	return st
}
