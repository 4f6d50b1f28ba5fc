package list

import (
	"cmp"
	"runtime"
	"slices"

	"shuultuur/list/adblock"
)

// ruleTables returns the adblock rules in the form of the file: about requests, about pages,
// about the elements of pages.
func (b *builder) ruleTables() (requests, pages, cosmetics []byte) {
	requests, pages, cosmetics = b.rules.requests.Build(), b.rules.pages.Build(), b.rules.cosmetics.Build()
	for _, t := range [][]byte{requests, pages} {
		if e, err := adblock.Open(t); err == nil {
			b.report.Rules += e.Len()
			for i, n := range e.Categories(len(b.categories.names)) {
				if n > 0 {
					b.report.Categories[b.categories.names[i]] += n
				}
			}
		}
	}
	b.report.Cosmetics = b.rules.cosmetics.Len()
	return requests, pages, cosmetics
}

// Rules are the adblock rules of a File that are more than a host.
type Rules struct {
	file      *File
	requests  *adblock.Engine // nil if there are none
	pages     *adblock.Engine
	cosmetics *adblock.Cosmetics
}

// Rules returns the adblock rules of f that are more than a host.
func (f *File) Rules() *Rules { return &f.rules }

func (r *Rules) open(f *File) (err error) {
	r.file = f
	if data := f.bytes(secRules); len(data) > 0 {
		if r.requests, err = adblock.Open(data); err != nil {
			return err
		}
	}
	if data := f.bytes(secPages); len(data) > 0 {
		if r.pages, err = adblock.Open(data); err != nil {
			return err
		}
	}
	if data := f.bytes(secCosmetics); len(data) > 0 {
		r.cosmetics, err = adblock.OpenCosmetics(data)
	}
	return err
}

// Requests reports whether there are rules about requests, for Match.
func (r *Rules) Requests() bool { return r.requests != nil }

// Hosts reports whether there are rules that apply to the host of a tunnel.
func (r *Rules) Hosts() bool { return r.requests != nil && r.requests.HasHosts() }

// Exceptions reports whether there are exceptions that depend on more of a request than its
// host, so that the list's entries for a host are not final.
func (r *Rules) Exceptions() bool { return r.requests != nil && r.requests.Exceptions() }

// Params reports whether there are rules about query parameters, for MatchParams.
func (r *Rules) Params() bool { return r.requests != nil && r.requests.Params() }

// Judge appends to dst every rule that blocks q, and, if dst has any entry or rule, the
// exceptions. dst is the result of [File.Lookup]. It allocates only a larger dst.
func (r *Rules) Judge(q *adblock.Request, dst []Match) ([]Match, error) {
	dst, err := r.Match(q, dst)
	if err != nil || len(dst) == 0 {
		return dst, err
	}
	return r.Except(q, dst)
}

// Match appends to dst every rule that blocks q.
func (r *Rules) Match(q *adblock.Request, dst []Match) ([]Match, error) {
	if r.requests == nil {
		return dst, nil
	}
	defer runtime.KeepAlive(r.file)
	var buf [16]uint32
	return r.matches(r.requests.Match(q, buf[:0]), false, dst)
}

// Except appends to dst every rule that is an exception for q.
func (r *Rules) Except(q *adblock.Request, dst []Match) ([]Match, error) {
	if r.requests == nil {
		return dst, nil
	}
	defer runtime.KeepAlive(r.file)
	var buf [16]uint32
	return r.matches(r.requests.Except(q, buf[:0]), true, dst)
}

// mostParams bounds the rules about parameters of a list that apply to a request.
const mostParams = 64

// MatchParams appends to dst the rules that remove query parameters from requests like q.
func (r *Rules) MatchParams(q *adblock.Request, dst []Match) ([]Match, error) {
	if !r.Params() {
		return dst, nil
	}
	defer runtime.KeepAlive(r.file)
	var buf [mostParams]uint32
	refs := r.requests.MatchParams(q, buf[:0])
	return r.matches(refs[:min(len(refs), mostParams)], false, dst)
}

// ExceptParams appends the exceptions to such rules.
func (r *Rules) ExceptParams(q *adblock.Request, dst []Match) ([]Match, error) {
	if !r.Params() {
		return dst, nil
	}
	defer runtime.KeepAlive(r.file)
	var buf [mostParams]uint32
	refs := r.requests.ExceptParams(q, buf[:0])
	return r.matches(refs[:min(len(refs), mostParams)], true, dst)
}

func (r *Rules) matches(refs []uint32, exception bool, dst []Match) ([]Match, error) {
	f := r.file
	for _, ref := range refs {
		category, important, ok := r.requests.Verdict(ref)
		if !ok || int(category) >= len(f.names) {
			return dst, f.damaged
		}
		size := 0
		_, rewrites := r.requests.Rewrite(ref)
		if rewrites {
			size = r.requests.Length(ref)
		}
		for _, name := range f.names[category] {
			dst = append(dst, Match{List: f, Category: name, Exception: exception, Important: important, URL: true, record: ref, kind: ruleKind, rewrites: rewrites, size: uint16(size)})
		}
	}
	return dst, nil
}

func (r *Rules) written(m Match) (text string, line uint64, ok bool) {
	if r.requests == nil {
		return "", 0, false
	}
	x, ok := r.requests.Rule(m.record)
	return x.Text, uint64(x.Line), ok
}

// texts calls yield with each rule as written.
func (r *Rules) texts(yield func(string) bool) {
	for _, e := range []*adblock.Engine{r.requests, r.pages} {
		if e != nil {
			e.Texts(yield)
		}
	}
}

// RemoveParams returns the names of the parameters to remove from r's query, as written there,
// and the first rule that removes one. found is the result of MatchParams and ExceptParams for
// all lists.
func RemoveParams(r *adblock.Request, found []Match) (names []string, first *Match) {
	params := make([]adblock.Param, len(found))
	for i, m := range found {
		params[i] = m.List.rules.requests.Param(m.record)
	}
	var rules, exceptions []*Match // those about the current parameter
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

// Redirect returns the name of the resource with which a rule replaces a blocked one, "" if
// it names none.
func (m *Match) Redirect() string {
	if m.kind != ruleKind || m.List.rules.requests == nil {
		return ""
	}
	defer runtime.KeepAlive(m.List)
	return m.List.rules.requests.Redirect(m.record)
}

// Rewrite returns how a rule rewrites the answer for a name, such as "NOERROR;A;192.0.2.1", or
// "".
func (m *Match) Rewrite() string {
	if !m.rewrites || m.List.rules.requests == nil {
		return ""
	}
	defer runtime.KeepAlive(m.List)
	value, _ := m.List.rules.requests.Rewrite(m.record)
	return value
}

// LongestFirst sorts rules that rewrite answers, the longest pattern first, because it matches
// the fewest names.
func LongestFirst(found []Match) {
	for i := range found {
		if found[i].rewrites {
			slices.SortStableFunc(found, func(a, b Match) int { return int(b.size) - int(a.size) })
			return
		}
	}
}
