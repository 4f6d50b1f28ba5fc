package proxy

import (
	"slices"

	"shuultuur/filter"
)

// A judgement is the findings and the verdict for one host. A request may name several hosts:
// that of CONNECT, that of the TLS hello, and that of its own head.
type judgement struct {
	host, url string
	verdict   filter.Verdict
	findings  []filter.Finding
	edits     []filter.Edit
}

// judged returns the current judgement of x.
func judged(x *request) judgement {
	t := x.t
	return judgement{t.Host, t.URL, t.Verdict, slices.Clone(t.Findings), x.ex.Edits}
}

// restore makes j the current judgement of x.
func (j *judgement) restore(x *request) {
	t := x.t
	t.Host, t.URL, t.Verdict, x.ex.Edits = j.host, j.url, j.verdict, j.edits
	t.Findings = append(t.Findings[:0], j.findings...)
}

// judgeFor prepares x to be judged for another host. Findings and verdict for the previous
// host do not apply, but the policy stays: limits have already counted the request.
func (x *request) judgeFor(host string) {
	t := x.t
	t.Host, t.Findings, x.ex.Edits = host, t.Findings[:0], nil
	t.Verdict = filter.Verdict{Reason: filter.Reason{Policy: t.Verdict.Reason.Policy}}
}
