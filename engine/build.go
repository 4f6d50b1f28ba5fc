// Package engine builds everything that decides from the settings: lists, checks, policies,
// identity, servers. It has the table of parts.
//
// [Build] works through the table and makes an [Engine], which never changes. Parts whose
// settings and files are unchanged are taken over from the previous engine. A [Host] uses one
// engine at a time and connects its parts to the servers with [Engine.Connect]. An engine
// without a host only answers questions: for `shuultuur check` and `why`, and for the pages
// that show the effect of a change.
package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"time"

	"shuultuur/engine/configuration"
	"shuultuur/lib/atomicfile"
	"shuultuur/lib/problem"
	"shuultuur/lib/setting"
	"shuultuur/list/collection"
	"shuultuur/list/source"
)

// A part is one row of the table of [parts]: something built from its settings, from the files
// that these name, and from parts in earlier rows.
type part struct {
	name  string
	key   string                            // of its settings; mistakes are reported below it
	kind  problem.Kind                      // of its problems, unless it says their kinds
	above []string                          // names of the parts it is built from
	from  func(*configuration.Settings) any // its settings; nil when the settings file omits the part
	// fixed returns the settings of the part that only a restart changes; nil if a reload
	// changes all of them.
	fixed func(*configuration.Settings) any
	// listens returns the addresses of a part whose fixed settings a reload changes, too, unless a new
	// address overlaps one that is in use, such as 0.0.0.0:53 and 127.0.0.1:53; nil for none.
	listens func(*configuration.Settings) []netip.AddrPort
	// rereads checks the files of a part that itself notices changes to them, such as the
	// certificates of a server that it sends to. Changed files do not rebuild such a part.
	rereads func(context.Context, *builder) error
	// keeps says that the part keeps last good copies of its files itself. For other parts the
	// gateway does: at start, a part whose files are unusable is built from the copies.
	keeps bool
	// others says that other programs write the files of a part, which are right however they are.
	others bool
	// without builds the part without its files. At start, a part with existing but never valid
	// files serves that way and reports it; nil if the filter would be open.
	without func(*builder) error
	slot
}

// A slot is the place of a part in an engine.
type slot struct {
	build func(context.Context, *builder) error
	keep  func(to, from *Engine)
	value func(*Engine) any // nil if the settings do not configure the part
}

// newSlot makes the slot of a part from its field and its constructor. The constructor finds
// earlier parts in the builder, and the previous engine in its field old.
func newSlot[T any](at func(*Engine) *T, build func(context.Context, *builder) (T, error)) slot {
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

// A basis is everything that a part was built from.
type basis struct {
	settings string   // digest of its settings and of those of the parts above
	stamp    string   // digest of settings, files and earlier parts
	sum      string   // the value that dependent parts compare: the stamp, unless they go on with a changed part
	files    []string // files that were read
	fault    error    // how it differs from its settings and files
}

// A builder builds an engine. Parts find one another in its Engine.
type builder struct {
	*Engine
	old   *Engine  // nil at a start, and in a trial
	base  *Engine  // an engine of a trial, from which unchanged parts are taken over; nil for none
	fresh []string // names of parts that are built even so, with those that are built from them
	host  *Host    // nil in a trial
	log   *slog.Logger
	late  time.Time // files found from here on may have changed since this time
	now   part
	alter func(*collection.Collection) // changes of lists in a trial; nil for none
	read  []string                     // files that the current constructor has read
}

// trial reports whether the engine is built to find mistakes or to explain: it does not
// listen, writes nothing that a running gateway reads, and remembers nothing.
func (b *builder) trial() bool { return b.host == nil }

// reads is called by constructors for files that their settings do not name, such as included
// files. They need not exist.
func (b *builder) reads(files ...string) { b.read = append(b.read, files...) }

// Build makes an engine of s for host. host is nil for an engine that only answers questions:
// it does not listen and remembers nothing. Parts with unchanged settings and files are taken
// over from old. After an error, the parts built so far are closed; the returned engine then
// only knows which files were read.
func Build(ctx context.Context, s *configuration.Settings, old *Engine, host *Host, log *slog.Logger) (*Engine, error) {
	return build(ctx, &builder{old: old, host: host, log: log}, s)
}

// mistakes returns the mistakes of an error with their lines. If a file is missing, those of others are
// there, too: who copies settings wants to know of all.
func mistakes(s *configuration.Settings, err error) error {
	placed := s.Text.Mistakes(err)
	if all := setting.Mistakes(nil); errors.Is(err, fs.ErrNotExist) && errors.As(placed, &all) {
		return append(all, s.Text.Absent(s, all)...)
	}
	return placed
}

func build(ctx context.Context, b *builder, s *configuration.Settings) (*Engine, error) {
	b.Engine = &Engine{Settings: s, settingsReading: settingsReading{basis: map[string]basis{}, Seen: map[string]string{}, Built: time.Now()}}
	maps.Copy(b.Seen, s.Text.SecretFiles())
	b.Seen[s.Text.File] = s.Stamp
	if err := errors.Join(s.Distinct(), s.Apart()); err != nil {
		return b.Engine, s.Text.Mistakes(err)
	}
	for _, b.now = range parts() {
		if err := b.part(ctx, b.now); err != nil {
			b.Drop(cmp.Or(b.old, b.base), b.log)
			return b.Engine, mistakes(s, err)
		}
	}
	sum := sha256.New()
	for _, p := range parts() {
		fmt.Fprintln(sum, b.basis[p.name].stamp, b.basis[p.name].fault != nil)
	}
	b.Revision = hex.EncodeToString(sum.Sum(nil)[:8])
	return b.Engine, nil
}

// part builds one part, or takes it over from the previous engine.
func (b *builder) part(ctx context.Context, p part) error {
	settings := p.from(b.Settings)
	if isNil(settings) {
		return nil
	}
	m := basis{settings: b.digest(p, settings), files: setting.Files(settings)}
	var was basis
	had, fresh := false, slices.Contains(b.fresh, p.name)
	from := cmp.Or(b.old, b.base)
	if from != nil {
		was, had = from.basis[p.name]
	}
	if had && !fresh && was.fault == nil && was.stamp == b.sum(p, m.settings, union(m.files, was.files)) && faults(p.value(from)) == nil {
		p.keep(b.Engine, from)
		b.basis[p.name] = was
		return nil
	}
	had = had && b.old != nil
	b.sum(p, m.settings, m.files) // stamps the files before they are read
	b.read, b.late = nil, time.Now().Add(-clockStep)
	if had && p.rereads != nil && was.settings == m.settings {
		b.reread(ctx, p, m, was)
		return nil
	}
	err := p.build(ctx, b)
	m.files = union(m.files, b.read)
	if err == nil && !p.keeps && !p.others {
		if err = damaged(b.Settings, p, m.files); err != nil && (b.old == nil || p.value(b.Engine) != p.value(b.old)) {
			ClosePart(p.value(b.Engine), b.log)
		}
	}
	switch {
	case err != nil && had && was.settings == m.settings && !errors.Is(err, context.Canceled):
		m.fault = setting.At(p.key, err)
		p.keep(b.Engine, b.old)
	case err != nil && b.old == nil && (b.fromCopies(ctx, p) || b.bare(p, err)):
		m.fault = setting.At(p.key, err)
	case err != nil:
		b.sum(p, m.settings, m.files)
		return setting.At(p.key, err)
	case had && p.needsRestart(b.old.Settings, b.Settings):
		if p.value(b.Engine) != p.value(b.old) {
			ClosePart(p.value(b.Engine), b.log)
		}
		p.keep(b.Engine, b.old)
		b.Restart = append(b.Restart, p.key)
		m = was
	}
	m.stamp = b.sum(p, m.settings, m.files)
	m.sum = m.stamp
	if m.fault != nil || fresh {
		m.sum += "!" // parts built from this one are rebuilt, or are once it is valid
	}
	b.basis[p.name] = m
	b.late = time.Time{}
	return nil
}

// needsRestart reports whether only a restart makes a part follow a change of its settings.
func (p *part) needsRestart(was, is *configuration.Settings) bool {
	if p.fixed == nil || setting.Digest(p.fixed(is)) == setting.Digest(p.fixed(was)) {
		return false
	}
	return p.listens == nil || overlap(p.listens(was), p.listens(is))
}

// overlap reports whether the system refuses one of the new addresses as long as the old ones are in
// use. The same address is handed on.
func overlap(was, is []netip.AddrPort) bool {
	for _, a := range is {
		if a.Port() == 0 || slices.Contains(was, a) {
			continue
		}
		if slices.ContainsFunc(was, func(b netip.AddrPort) bool {
			return a.Port() == b.Port() && (a.Addr().IsUnspecified() || b.Addr().IsUnspecified())
		}) {
			return true
		}
	}
	return false
}

// reread keeps a part whose files have changed, and reports a fault in them.
func (b *builder) reread(ctx context.Context, p part, m, was basis) {
	p.keep(b.Engine, b.old)
	if err := p.rereads(ctx, b); err != nil {
		m.fault = setting.At(p.key, err)
	}
	m.stamp, m.sum = b.sum(p, m.settings, m.files), was.sum
	b.basis[p.name] = m
	b.late = time.Time{}
}

// copies returns the copies of a part's files.
func copies(s *configuration.Settings, p part) atomicfile.Copies {
	return atomicfile.Copies{Dir: filepath.Join(string(s.Data), "last-good", p.name)}
}

// damaged returns why files that a part was built from look damaged beside their last good copies. A
// file that was emptied, cut or overwritten may well be read, and then filter nothing.
func damaged(s *configuration.Settings, p part, files []string) error {
	c := copies(s, p)
	for _, f := range files {
		if err := c.Damaged(f); err != nil {
			return err
		}
	}
	return nil
}

// bare builds a part without its files after err, and reports whether that was possible.
// Missing files, and folders in place of files or the reverse, are mistakes in the settings:
// err stands.
func (b *builder) bare(p part, err error) bool {
	for _, mistake := range []error{fs.ErrNotExist, syscall.ENOTDIR, syscall.EISDIR} {
		if errors.Is(err, mistake) {
			return false
		}
	}
	return !b.trial() && p.without != nil && p.without(b) == nil
}

// fromCopies builds a part from the copies of its files, and reports whether that was
// possible.
func (b *builder) fromCopies(ctx context.Context, p part) bool {
	c := copies(b.Settings, p)
	if p.keeps || b.trial() || !c.Any() {
		return false
	}
	s, err := b.Settings.WithPaths(c.Path)
	if err != nil {
		return false
	}
	own := b.Settings
	b.Settings = s
	defer func() { b.Settings = own }()
	return p.build(ctx, b) == nil
}

// KeepCopies copies the files of parts that differ from old, for the next start.
func (e *Engine) KeepCopies(old *Engine) error {
	var errs []error
	for _, p := range parts() {
		m, built := e.basis[p.name]
		if built && !p.keeps && m.fault == nil && (old == nil || old.basis[p.name].stamp != m.stamp) {
			errs = append(errs, copies(e.Settings, p).Keep(m.files))
		}
	}
	return errors.Join(errs...)
}

// clockStep is how far a file's modification time may be behind the clock.
const clockStep = 20 * time.Millisecond

// digest returns a digest of a part's settings and those of earlier parts.
func (b *builder) digest(p part, settings any) string {
	all := []string{setting.Digest(settings)}
	for _, name := range p.above {
		all = append(all, b.basis[name].settings)
	}
	return setting.Digest(all)
}

// sum returns the digest that decides whether to rebuild a part.
func (b *builder) sum(p part, settings string, files []string) string {
	all := []string{settings}
	for _, f := range files {
		all = append(all, f, b.stamp(f))
	}
	for _, name := range p.above {
		all = append(all, b.basis[name].sum)
	}
	return setting.Digest(all)
}

// Drop closes the parts of e that are not in old and not running.
func (e *Engine) Drop(old *Engine, log *slog.Logger) {
	for _, p := range slices.Backward(parts()) {
		if v := p.value(e); v != nil && (old == nil || v != p.value(old)) {
			ClosePart(v, log)
		}
	}
}

// ClosePart closes a part that is not running.
func ClosePart(v any, log *slog.Logger) {
	switch v := v.(type) {
	case io.Closer:
		if err := v.Close(); err != nil {
			log.Error("not closed", "error", err)
		}
	case interface{ Close() }:
		v.Close()
	}
}

// faults returns how a part differs from its files.
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

// stamp stamps a file once per engine, when anything is first built from it. A file found only
// while it is read may have changed since; then it is stamped again.
func (b *builder) stamp(file string) string {
	st, ok := b.Seen[file]
	if !ok {
		st = setting.Stamp(file, b.late)
		b.Seen[file] = st
	}
	return st
}

// A Part is one part of an engine; its value is nil if the settings do not configure it.
type Part struct {
	Name, Key string // of the part, and of its settings
	Value     any
}

// Parts returns all parts in the order of the table, also those without values.
func (e *Engine) Parts() (all []Part) {
	for _, p := range parts() {
		part := Part{Name: p.name, Key: p.key}
		if e != nil {
			part.Value = p.value(e)
		}
		all = append(all, part)
	}
	return all
}

// Fetched returns the items that the gateway fetches: lists and signature rules.
func (e *Engine) Fetched() source.Items {
	all := maps.Clone(e.Lists.Fetched())
	if s := e.Checks.Signature; s != nil {
		maps.Copy(all, s.Fetched())
	}
	return all
}

// Faults returns which parts differ from settings and files, and why.
func (e *Engine) Faults() (all []error) {
	for _, p := range parts() {
		if err := e.basis[p.name].fault; err != nil {
			all = append(all, err)
		}
		for _, err := range faults(p.value(e)) {
			all = append(all, setting.At(p.key, err))
		}
	}
	return all
}

// Problems returns the problems that the operator should look at, for all parts.
func (e *Engine) Problems() (all []problem.Problem) {
	fault := func(err error) {
		all = append(all, problem.Problem{Kind: problem.Because(problem.Settings, err), Text: fmt.Sprintf("%s; the previous one stays in use", err)})
	}
	for _, p := range parts() {
		if err := e.basis[p.name].fault; err != nil {
			fault(err)
		}
		switch v := p.value(e).(type) { // its problems include its faults
		case interface{ Problems() []problem.Problem }:
			all = append(all, v.Problems()...)
		case interface{ Problems() []string }:
			all = append(all, problem.Of(p.kind, v.Problems()...)...)
		default:
			for _, err := range faults(v) {
				fault(setting.At(p.key, err))
			}
		}
	}
	return slices.Concat(all, problem.Of(problem.Directory, e.ambiguousProblems()...), ending(e.Settings, e.Certificate, e.Intercept, time.Now()))
}

// ambiguousProblems reports policies that cover nobody, because several groups of the directory
// have the name of theirs.
func (e *Engine) ambiguousProblems() (all []string) {
	for _, p := range e.Settings.Policies {
		found, _ := e.Identity.AmbiguousGroups(context.Background(), p.Groups, false) // only asking fails
		for _, a := range found {
			all = append(all, fmt.Sprintf("policy %q: %v", p.Name, a))
		}
	}
	return all
}

// FilesOf returns the files from which the parts of keys were built, those that other files include
// among them.
func (e *Engine) FilesOf(keys ...string) (all []string) {
	for _, p := range parts() {
		if slices.Contains(keys, p.key) {
			all = append(all, e.basis[p.name].files...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Failing reports whether a part differs from settings and files, so that rebuilding may help.
func (e *Engine) Failing() bool {
	for _, m := range e.basis {
		if m.fault != nil {
			return true
		}
	}
	return len(faults(e.Lists)) > 0
}
