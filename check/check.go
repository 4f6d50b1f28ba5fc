// Package check has the table of checks, and builds those that have settings. Each check has its
// own folder and depends neither on the servers nor on other checks.
package check

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"

	"shuultuur/check/around"
	"shuultuur/check/build"
	"shuultuur/check/category"
	"shuultuur/check/certificate"
	"shuultuur/check/icap"
	"shuultuur/check/phrase"
	"shuultuur/check/picture"
	"shuultuur/check/service"
	"shuultuur/check/signature"
	"shuultuur/check/tunnel"
	"shuultuur/check/virus"
	"shuultuur/filter"
	"shuultuur/lib/metric"
	"shuultuur/lib/release"
	"shuultuur/lib/setting"
	"shuultuur/lib/suricata/engine"
	"shuultuur/lib/suricata/rule"
	"shuultuur/list/source"
)

// Config is the table of checks in the order in which they run, cheap ones first. A row is the
// settings of a check, whose key is its name: a [build.Setting]. One without settings does not
// run. The small build lacks those with a tag that says so.
type Config struct {
	Category  *category.Config  `yaml:"category"`
	Phrase    *phrase.Config    `yaml:"phrase"`
	Signature *signature.Config `yaml:"signature" lacks:"signature rules"`
	Virus     *virus.Config     `yaml:"virus" lacks:"the check by virus scanners"`
	ICAP      *icap.Config      `yaml:"icap" lacks:"the check by ICAP servers"`
	Picture   *picture.Config   `yaml:"picture" lacks:"the check of pictures"`
}

// A row is a row of the table.
type row struct {
	name, lacks string
	settings    any
	missing     bool // there are no settings
}

// rows returns the table with the settings of c.
func (c *Config) rows() (all []row) {
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		all = append(all, row{tag.Get("yaml"), tag.Get("lacks"), v.Field(i).Interface(), v.Field(i).IsNil()})
	}
	return all
}

// ReportAll makes every check report everything it found, to explain one page.
func (c *Config) ReportAll() {
	for _, r := range c.rows() {
		if s, ok := r.settings.(interface{ ReportAll() }); ok && !r.missing {
			s.ReportAll()
		}
	}
}

// Fetches returns what the checks want fetched, by name.
func (c *Config) Fetches() (source.Items, error) {
	all := source.Items{}
	for _, r := range c.rows() {
		if s, ok := r.settings.(interface{ Fetches() (source.Items, error) }); ok && !r.missing {
			items, err := s.Fetches()
			if err != nil {
				return nil, setting.At(r.name, err)
			}
			maps.Copy(all, items)
		}
	}
	return all, nil
}

// Parts are the parts that checks are built from.
type Parts = build.Parts

// A Set is all checks in the order in which they run, cheap ones first.
type Set struct {
	Checks []filter.Check
	Files  []string // all files they were read from, except lists
	// Remarks are lines of phrase lists that probably do not do what their
	// author meant.
	Remarks []phrase.Remark
	// Signature is the check of signature rules, nil without them.
	Signature Signatures
	phrases   *phrase.Check
	rows      map[string]*built // by the names of their rows
}

// A built check may be in several sets: in that in use, in the one that takes its place, and in those
// that only answer questions.
type built struct {
	check filter.Check
	basis string       // digest of everything it was built from
	sets  atomic.Int32 // that have it; the last closes it
}

// basisOf returns the digest of what a check is built from, which read files.
func basisOf(settings any, p *Parts, files []string, stamp func(file string) string) string {
	all := []any{settings, slices.Sorted(maps.Keys(p.Lists))} // names of lists alone: see usesLists
	for _, file := range append(setting.Files(settings), files...) {
		all = append(all, file, stamp(file))
	}
	return setting.Digest(all)
}

// usesLists reports whether a check looks into lists, so that it is built anew with each of them. That
// costs little.
func usesLists(settings any) bool {
	_, uses := settings.(*category.Config)
	return uses
}

func filesOf(k filter.Check) []string {
	if f, ok := k.(interface{ Files() []string }); ok {
		return f.Files()
	}
	return nil
}

// Signatures is the check of signature rules, which the small build lacks.
type Signatures interface {
	filter.Check
	metric.Collector
	Files() []string
	Fetched() source.Items
	Mistakes() []*Mistake
	Refused() []string
	Problems() []string
	Profiles() ([]Profile, []BufferProfile)
	HasRule(sid uint32) bool
	AsksTLS() bool
	Keep() error
	Close()
}

// What signature rules say of themselves.
type (
	Mistake       = rule.Error
	Profile       = engine.Profile
	BufferProfile = engine.BufferProfile
)

// New builds the checks that c has settings of. Each takes over the state of the same check of
// the set that this one replaces, which is nil for the first. A check whose settings and files are
// those of the same check of the set same, which may be nil, is taken from there: an entry of a list
// compiles no rules. stamp describes a file, so that a changed one is known.
func New(c Config, p Parts, previous, same *Set, stamp func(file string) string) (*Set, error) {
	s := &Set{Checks: []filter.Check{certificate.Check{}, around.New(previous.named(around.Name)), tunnel.Check{}, service.Check{}}, rows: map[string]*built{}}
	for _, r := range c.rows() {
		if r.missing {
			continue
		}
		from, ok := r.settings.(build.Setting)
		if !ok {
			s.letGo(same)
			return nil, setting.At(r.name, release.Lacks(r.lacks))
		}
		if b := same.row(r.name); b != nil && !usesLists(r.settings) && b.basis == basisOf(r.settings, &p, filesOf(b.check), stamp) {
			b.sets.Add(1)
			s.rows[r.name] = b
			s.add(b.check)
			continue
		}
		p.Previous = previous.named(r.name)
		k, err := from.Build(p)
		if err != nil {
			s.letGo(same)
			return nil, setting.At(r.name, err)
		}
		b := &built{check: k, basis: basisOf(r.settings, &p, filesOf(k), stamp)}
		b.sets.Store(1)
		s.rows[r.name] = b
		s.add(k)
	}
	return s, nil
}

// letGo gives up the checks that a set that could not be built shares with another.
func (s *Set) letGo(same *Set) {
	for name, b := range s.rows {
		if same.row(name) == b {
			b.sets.Add(-1)
		}
	}
}

// row returns the check of a row, nil if there is none.
func (s *Set) row(name string) *built {
	if s == nil {
		return nil
	}
	return s.rows[name]
}

// named returns the check of a name, nil if there is none.
func (s *Set) named(name string) filter.Check {
	if s == nil {
		return nil
	}
	for _, k := range s.Checks {
		if k.Name() == name {
			return k
		}
	}
	return nil
}

// Named returns the categories that a rule may name: those of lists by their bare names, of other checks
// with the name of the check, and of checks with numbers or services none.
func (s *Set) Named() (all []string) {
	for _, k := range s.Checks {
		switch k.Name() {
		case "signature", filter.Service:
			continue
		}
		for _, c := range k.Categories() {
			name := c.Name
			if k.Name() != "category" && name != k.Name() {
				name = k.Name() + "/" + name
			}
			all = append(all, name)
		}
	}
	return all
}

func (s *Set) add(k filter.Check) {
	s.Checks = append(s.Checks, k)
	s.Files = append(s.Files, filesOf(k)...)
	if k, ok := k.(Signatures); ok {
		s.Signature = k
	}
	if k, ok := k.(*phrase.Check); ok {
		s.phrases, s.Remarks = k, k.Remarks()
	}
}

// Phrases returns the number of lines in phrase lists.
func (s *Set) Phrases() int {
	if s.phrases == nil {
		return 0
	}
	return s.phrases.Len()
}

// An explainer describes what it finds in a picture. Settings of checks are one too, which
// explain without lists and model.
type explainer interface {
	Explain(ctx context.Context, b []byte) []string
}

// Explain describes the findings in a picture, in lines for people.
func (s *Set) Explain(ctx context.Context, b []byte) []string {
	for _, k := range s.Checks {
		if e, ok := k.(explainer); ok {
			return e.Explain(ctx, b)
		}
	}
	for _, r := range new(Config).rows() {
		if e, ok := r.settings.(explainer); ok {
			return e.Explain(ctx, b)
		}
	}
	return []string{"the small build does not inspect pictures"}
}

// Problems returns the problems that the operator should look at.
func (s *Set) Problems() (all []string) {
	if n := len(s.Remarks); n > 0 {
		all = append(all, fmt.Sprintf("phrase lists: %d odd lines; \"shuultuur check\" names them", n))
	}
	for _, k := range s.Checks {
		if k, ok := k.(interface{ Problems() []string }); ok {
			all = append(all, k.Problems()...)
		}
	}
	return all
}

// Locked returns the SHA-256 of the content of locked picture lists, by list name. Their files
// are encrypted.
func (s *Set) Locked() map[string][32]byte {
	for _, k := range s.Checks {
		if k, ok := k.(interface{ Locked() map[string][32]byte }); ok {
			return k.Locked()
		}
	}
	return nil
}

// Close closes connections to scanners, waits for pictures that are being judged, and saves the
// state of signature rules.
//
// A check that another set has, too, stays open.
func (s *Set) Close() {
	shared := map[filter.Check]bool{}
	for _, b := range s.rows {
		shared[b.check] = b.sets.Add(-1) > 0
	}
	for _, k := range s.Checks {
		if shared[k] {
			continue
		}
		if c, ok := k.(interface{ Close() }); ok {
			c.Close()
		}
	}
}

// AsksTLS reports whether a check examines TLS handshakes.
func (s *Set) AsksTLS() bool { return s != nil && s.Signature != nil && s.Signature.AsksTLS() }

// Collect implements [metric.Collector].
func (s *Set) Collect(ch chan<- metric.Metric) {
	if s == nil {
		return
	}
	for _, k := range s.Checks {
		if c, ok := k.(metric.Collector); ok {
			c.Collect(ch)
		}
	}
}
