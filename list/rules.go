package list

import (
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

// Undecided says whether f has exceptions that depend on more of a request
// than its host, so that its entries for a host are not the last word.
func (f *File) Undecided() bool { return f.rules != nil && f.rules.Exceptions() }

// Judge appends to dst every adblock rule of f that asks for r to be blocked,
// and, where dst has any entry or rule of f, those that make an exception. dst
// is what Lookup has found. It allocates nothing but a larger dst.
func (f *File) Judge(r *adblock.Request, dst []Match) ([]Match, error) {
	if f.rules == nil {
		return dst, nil
	}
	defer runtime.KeepAlive(f)
	var buf [16]uint32
	dst, err := f.ruleMatches(f.rules.Match(r, buf[:0]), false, dst)
	if err != nil || len(dst) == 0 {
		return dst, err
	}
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
			dst = append(dst, Match{Category: name, Exception: exception, Important: important, URL: true, record: ref, kind: ruleKind, rewrites: rewrites, size: uint16(size)})
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

// HasParams says whether f has adblock rules that take parameters out of a
// query, which [File.RemoveParams] tries.
func (f *File) HasParams() bool { return f.rules != nil && f.rules.Params() }

// RemoveParams returns the names of the parameters that rules of f take out of
// r's query, as they stand there, and a match of the first rule for its
// evidence. It allocates only when there are any.
func (f *File) RemoveParams(r *adblock.Request) (names []string, first Match) {
	if !f.HasParams() {
		return nil, Match{}
	}
	defer runtime.KeepAlive(f)
	var buf [8]adblock.Param
	for i, p := range f.rules.RemoveParams(r, buf[:0]) {
		if i == 0 {
			first = Match{URL: true, record: p.Ref, kind: ruleKind}
		}
		names = append(names, p.Name)
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

// lifts says whether the exception x is about what m does: rules that rewrite
// answers are lifted by exceptions that say so, all of them or those to one
// value, and others by those that do not.
func (f *File) lifts(x, m *Match) bool {
	if !x.rewrites && !m.rewrites {
		return true
	}
	if x.rewrites != m.rewrites {
		return false
	}
	value := f.Rewrite(*x)
	return value == "" || value == f.Rewrite(*m)
}
