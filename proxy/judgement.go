package proxy

import (
	"slices"

	"shuultuur/filter"
)

// A judgement is what was found and decided for one host. A request may name
// several: that of CONNECT, that of the TLS hello, that of its own head.
type judgement struct {
	host, url string
	verdict   filter.Verdict
	findings  []filter.Finding
	edits     []filter.Edit
}

// judged returns what has been decided for x so far.
func judged(x *request) judgement {
	t := &x.T
	return judgement{t.Host, t.URL, t.Verdict, slices.Clone(t.Findings), x.Edits}
}

// restore makes j what has been decided for x.
func (j *judgement) restore(x *request) {
	t := &x.T
	t.Host, t.URL, t.Verdict, x.Edits = j.host, j.url, j.verdict, j.edits
	t.Findings = append(t.Findings[:0], j.findings...)
}

// judgeFor makes x ready to be judged for another host. Nothing found or decided
// for the host before counts, but the policy stays: limits have counted the
// request already.
func (x *request) judgeFor(host string) {
	t := &x.T
	t.Host, t.Findings, x.Edits = host, t.Findings[:0], nil
	t.Verdict = filter.Verdict{Reason: filter.Reason{Policy: t.Verdict.Reason.Policy}}
}
