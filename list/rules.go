package list

import (
	"cmp"
	"runtime"
	"slices"

	"shuultuur/list/adblock"
)

// ruleTable returns the adblock rules as they are in the file.
func (o *output) ruleTable() []byte {
	b := o.b
	t := b.rules.Build()
	if t == nil {
		return nil
	}
	if e, err := adblock.Open(t); err == nil {
		b.report.Rules = e.Len()
		for i, n := range e.Categories(len(b.names)) {
			if n > 0 {
				b.report.Categories[b.names[i]] += n
			}
		}
	}
	return t
}

// HasRules says whether f has adblock rules that are more than a host, which
// [File.Judge] tries.
func (f *File) HasRules() bool { return f.rules != nil }

// HasHostRules says whether f has rules that are tried on the host of a tunnel.
func (f *File) HasHostRules() bool { return f.rules != nil && f.rules.HasHosts() }

// Undecided says whether f has exceptions that depend on more of a request
// than its host, so that its entries for a host are not the last word.
func (f *File) Undecided() bool { return f.rules != nil && f.rules.Exceptions() }

// Judge appends to dst every adblock rule of f that asks for r to be blocked,
// and, where dst has any entry or rule of f, those that make an exception. dst
// is what Lookup has found. It allocates nothing but a larger dst.
func (f *File) Judge(r *adblock.Request, dst []Match) ([]Match, error) {
	dst, err := f.Match(r, dst)
	if err != nil || len(dst) == 0 {
		return dst, err
	}
	return f.Except(r, dst)
}

// Match appends to dst every adblock rule of f that asks for r to be blocked.
func (f *File) Match(r *adblock.Request, dst []Match) ([]Match, error) {
	if f.rules == nil {
		return dst, nil
	}
	defer runtime.KeepAlive(f)
	var buf [16]uint32
	return f.ruleMatches(f.rules.Match(r, buf[:0]), false, dst)
}

// Except appends to dst every adblock rule of f that is an exception for r.
func (f *File) Except(r *adblock.Request, dst []Match) ([]Match, error) {
	if f.rules == nil {
		return dst, nil
	}
	defer runtime.KeepAlive(f)
	var buf [16]uint32
	return f.ruleMatches(f.rules.Except(r, buf[:0]), true, dst)
}

func (f *File) ruleMatches(refs []uint32, exception bool, dst []Match) ([]Match, error) {
	for _, ref := range refs {
		category, important, ok := f.rules.Verdict(ref)
		if !ok || int(category) >= len(f.names) {
			return dst, f.damaged
		}
		size := 0
		_, rewrites := f.rules.Rewrite(ref)
		if rewrites {
			size = f.rules.Length(ref)
		}
		for _, name := range f.names[category] {
			dst = append(dst, Match{List: f, Category: name, Exception: exception, Important: important, URL: true, record: ref, kind: ruleKind, rewrites: rewrites, size: uint16(size)})
		}
	}
	return dst, nil
}

func (f *File) writtenRule(m Match) (text string, line uint64, ok bool) {
	if f.rules == nil {
		return "", 0, false
	}
	r, ok := f.rules.Rule(m.record)
	return r.Text, uint64(r.Line), ok
}

// HasParams says whether f has adblock rules about the parameters of a query,
// which [File.MatchParams] tries.
func (f *File) HasParams() bool { return f.rules != nil && f.rules.Params() }

// mostParams is how many rules about parameters of a list are looked at for a
// request.
const mostParams = 64

// MatchParams appends to dst the adblock rules of f that take parameters out of
// the query of requests like r.
func (f *File) MatchParams(r *adblock.Request, dst []Match) ([]Match, error) {
	if !f.HasParams() {
		return dst, nil
	}
	defer runtime.KeepAlive(f)
	var buf [mostParams]uint32
	refs := f.rules.MatchParams(r, buf[:0])
	return f.ruleMatches(refs[:min(len(refs), mostParams)], false, dst)
}

// ExceptParams appends the exceptions from such rules.
func (f *File) ExceptParams(r *adblock.Request, dst []Match) ([]Match, error) {
	if !f.HasParams() {
		return dst, nil
	}
	defer runtime.KeepAlive(f)
	var buf [mostParams]uint32
	refs := f.rules.ExceptParams(r, buf[:0])
	return f.ruleMatches(refs[:min(len(refs), mostParams)], true, dst)
}

// RemoveParams returns the names of the parameters that are taken out of r's
// query, as they stand there, by the rules in found, which is what MatchParams
// and ExceptParams of the lists asked have said; and the first of these rules
// that counts.
func RemoveParams(r *adblock.Request, found []Match) (names []string, first *Match) {
	params := make([]adblock.Param, len(found))
	for i, m := range found {
		params[i] = m.List.rules.Param(m.record)
	}
	var rules, exceptions []*Match // that are about one parameter
	for name := range r.Parameters {
		if slices.Contains(names, string(name)) {
			continue
		}
		rules, exceptions = rules[:0], exceptions[:0]
		for i := range found {
			switch m := &found[i]; {
			case !params[i].Is(name):
			case m.Exception:
				exceptions = append(exceptions, m)
			default:
				rules = append(rules, m)
			}
		}
		stays := func(m *Match) bool {
			return !slices.ContainsFunc(exceptions, func(x *Match) bool { return lifts(x, m) })
		}
		if i := slices.IndexFunc(rules, stays); i >= 0 {
			names, first = append(names, string(name)), cmp.Or(first, rules[i])
		}
	}
	return names, first
}

// Redirect returns the name of the resource that a rule wants to be answered
// with in place of what it blocks, "" when it names none.
func (f *File) Redirect(m Match) string {
	if m.kind != ruleKind || f.rules == nil {
		return ""
	}
	defer runtime.KeepAlive(f)
	return f.rules.Redirect(m.record)
}

// Rewrite returns how a rule wants a name to be answered, such as
// "NOERROR;A;192.0.2.1", "" when it does not.
func (f *File) Rewrite(m Match) string {
	if !m.rewrites || f.rules == nil {
		return ""
	}
	defer runtime.KeepAlive(f)
	value, _ := f.rules.Rewrite(m.record)
	return value
}

// LongestFirst puts rules that rewrite answers in order, that with the longest
// pattern first: it is about the fewest names.
func LongestFirst(found []Match) {
	for i := range found {
		if found[i].rewrites {
			slices.SortStableFunc(found, func(a, b Match) int { return int(b.size) - int(a.size) })
			return
		}
	}
}
