package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/atomicfile"
	"shuultuur/lib/setting"
)

// A check that failed has not found nothing. Its failure is the finding "CHECK-error", which
// rules may name. Where none does, it counts for the rules that would have asked the check
// (OnError): those that refuse match as if one of their categories had been found, and those
// that allow unless something is found do not match.
//
// A check that asks other servers ([filter.Changing]) also fails while they are away. That is
// expected, and left to rules that name it; only a panic of such a check counts.
//
// A judgement that is ended because it took too long is no failure of a check: what it did not
// read is unread.

// failedFor is how long the operator is told of a failure.
const failedFor = 10 * time.Minute

// panicked begins the evidence of a check that panicked.
const panicked = "the check panicked: "

// OnError says what the failure of a check means for a rule: "refuse" (default) counts it as a
// finding of one of the rule's categories, "pass" as none.
type OnError string

// passes reports whether a failure counts as nothing. otherwise applies where o is not given.
func (o OnError) passes(otherwise bool) (bool, error) {
	switch o {
	case "":
		return otherwise, nil
	case "refuse", "pass":
		return o == "pass", nil
	}
	return false, setting.At("on-error", fmt.Errorf("%q is neither refuse nor pass", string(o)))
}

// A failureRef is the meaning of the failure of a check for a rule that does not name it.
type failureRef struct {
	rule   int
	unless bool // the rule does not match
	away   bool // the check also fails when others are away, which does not count
}

// counts reports whether a failure counts.
func (r failureRef) counts(f *filter.Finding) bool {
	return !r.away || strings.HasPrefix(f.Evidence, panicked)
}

// countFailures determines the meaning of failures for the rules, after that of all other
// findings.
func countFailures(w *walk) {
	for i := range w.t.Findings {
		f := &w.t.Findings[i]
		refs := failuresOf(w, f)
		if len(refs) == 0 || named(w, f) {
			continue
		}
		for _, ref := range refs {
			switch {
			case !ref.counts(f):
			case ref.unless:
				w.unless.add(ref.rule)
			default:
				w.found.add(ref.rule)
			}
		}
	}
}

// failuresOf returns the meaning of a finding that is a failure.
func failuresOf(w *walk, f *filter.Finding) []failureRef {
	if len(w.p.failures) == 0 || !strings.HasSuffix(f.Category, "-error") {
		return nil
	}
	return w.p.failures[category{f.Check, f.Category}]
}

// named reports whether a rule names a failure and may match: then such rules decide.
func named(w *walk, f *filter.Finding) bool {
	for _, ref := range w.p.refsOf(f) {
		r := w.p.rules[ref.rule]
		if !ref.unless && !r.monitors && w.host.has(ref.rule) && !w.unless.has(ref.rule) && r.holds(w) != no {
			return true
		}
	}
	return false
}

// failed reports whether rule i matches because of a failure.
func failed(w *walk, f *filter.Finding, r *rule) bool {
	for _, ref := range failuresOf(w, f) {
		if w.p.rules[ref.rule] == r && !ref.unless && ref.counts(f) {
			return true
		}
	}
	return false
}

// A condition is how a check has worked lately.
type condition struct {
	times   atomic.Int64 // failures in a row that is not interrupted for failedFor
	last    atomic.Int64 // Unix time of the last failure; 0: none, or it works again
	logged  atomic.Bool  // an error was logged
	crashed atomic.Bool  // a panic was logged
	away    bool         // it asks other servers

	sample atomic.Pointer[string] // the file with what it panicked on, nil for none
}

// failure notes that check i failed on what t has at a stage, and returns the finding.
func (e *Engine) failure(i int, err error, t *filter.Transaction, s filter.Stage) filter.Finding {
	name, c := e.checks[i].Name(), &e.conditions[i]
	if e.failures != nil {
		e.failures[i].Inc()
	}
	now := time.Now().Unix()
	if now-c.last.Swap(now) > int64(failedFor/time.Second) {
		c.times.Store(0)
	}
	c.times.Add(1)
	e.logFailure(i, err, t, s)
	evidence := err.Error()
	if crash, ok := errors.AsType[*filter.Crash](err); ok {
		evidence = panicked + fmt.Sprint(crash.Value)
	}
	return filter.Finding{Check: name, Category: name + "-error", Evidence: evidence}
}

// logFailure logs the first panic of a check with its stack, and its first error unless others may
// be away: such a check logs that itself.
func (e *Engine) logFailure(i int, err error, t *filter.Transaction, s filter.Stage) {
	name, c := e.checks[i].Name(), &e.conditions[i]
	crash, ok := errors.AsType[*filter.Crash](err)
	switch {
	case ok && c.crashed.CompareAndSwap(false, true):
		sample := e.keepSample(i, crash, t, s)
		if sample != "" {
			c.sample.Store(&sample)
		}
		e.log.Error("check panicked; further panics of it are not logged", "check", name, "panic", fmt.Sprint(crash.Value), "stack", string(crash.Stack), "sample", sample)
	case !ok && !c.away && c.logged.CompareAndSwap(false, true):
		e.log.Error("check failed; further failures of it are not logged", "check", name, "error", err)
	}
}

// works notes that check i has worked. A check that fails by itself may do so again with the next
// page.
func (e *Engine) works(i int) {
	if c := &e.conditions[i]; c.away && c.last.Load() != 0 {
		c.last.Store(0)
	}
}

// Problems returns the checks that failed lately, and what checks say of themselves.
func (e *Engine) Problems() (all []string) {
	for i, k := range e.checks {
		if k, ok := k.(interface{ Problems() []string }); ok {
			all = append(all, k.Problems()...)
		}
		c := &e.conditions[i]
		last := c.last.Load()
		ago := time.Since(time.Unix(last, 0))
		if last == 0 || ago > failedFor {
			continue
		}
		what := "what its rules would refuse is refused (policies.on-error); the log has the reason, or the stack to report"
		if name := c.sample.Load(); name != nil {
			what += "; what it failed on is in " + *name + ", which may be private: read it before you send it"
		}
		if c.away {
			what = "rules that name " + k.Name() + "-error decide"
		}
		all = append(all, fmt.Sprintf("check %s has failed %d times lately, the last time %s ago; %s", k.Name(), c.times.Load(), ago.Truncate(time.Second), what))
	}
	return all
}

// spareFindings is the room for findings of a check: if it panics, they are still there.
const spareFindings = 4

// safeFind lets a check append its findings. A panic becomes an error; the findings before it stay.
func (e *Engine) safeFind(ctx context.Context, t *filter.Transaction, s filter.Stage, i int) (err error) {
	before := room(t.Findings)
	if e.conditions[i].away {
		filter.Waiting(ctx, true)
		defer filter.Waiting(ctx, false)
	}
	defer func() {
		if crash, ok := errors.AsType[*filter.Crash](err); ok && crash != nil {
			t.Findings = found(before)
		}
	}()
	defer filter.Catch(&err)
	after, err := e.checks[i].Find(ctx, t, s, before)
	if len(after) >= len(before) {
		t.Findings = after
	}
	return err
}

// room returns fs with empty room behind it.
func room(fs []filter.Finding) []filter.Finding {
	if cap(fs)-len(fs) < spareFindings {
		fs = append(make([]filter.Finding, 0, 2*len(fs)+spareFindings), fs...)
	}
	clear(fs[len(fs):cap(fs)])
	return fs
}

// found returns fs with the findings that were appended in its room.
func found(fs []filter.Finding) []filter.Finding {
	for len(fs) < cap(fs) && fs[:len(fs)+1][len(fs)] != (filter.Finding{}) {
		fs = fs[:len(fs)+1]
	}
	return fs
}

// bodyAt returns the body that is judged at a stage, nil for none.
func bodyAt(t *filter.Transaction, s filter.Stage) *content.Body {
	switch s {
	case filter.RequestBody:
		return t.Upload
	case filter.ResponseBody:
		return t.Body
	}
	return nil
}

// unreadBy returns the finding that a body is unread for a check, because its judgement was ended.
func unreadBy(check string, b *content.Body) filter.Finding {
	b.Stop(content.TookTooLong)
	f := filter.Finding{Check: check, Category: filter.Unread, Evidence: content.TookTooLong.String() + ": the judgement was ended"}
	if b.Archive() {
		f.Category = filter.UnreadArchive
	}
	return f
}

// noteEnded adds the finding that the body is unread if its judgement was ended, whichever check
// would have read it, and reports whether it was.
func noteEnded(ctx context.Context, w *walk) bool {
	b := bodyAt(w.t, w.stage)
	if b == nil || ctx.Err() == nil {
		return false
	}
	n := len(w.t.Findings)
	w.t.Findings = merge(append(w.t.Findings, unreadBy(filter.Content, b)), n, w.stage)
	w.count()
	return true
}

// find lets a check append its findings and reports whether there are any. An error or a panic
// becomes the finding "<check>-error".
func (e *Engine) find(ctx context.Context, t *filter.Transaction, s filter.Stage, i int) bool {
	if found, ok := t.Recall(e.checks[i], s); ok {
		t.Findings = append(t.Findings, found...)
		return len(found) > 0
	}
	n := len(t.Findings)
	body := bodyAt(t, s)
	err := ctx.Err()
	if body == nil || err == nil {
		err = e.safeFind(ctx, t, s, i)
	}
	switch {
	case err != nil && body != nil && ctx.Err() != nil: // the check was ended
		if e.heavy>>i&1 != 0 {
			t.Findings = append(t.Findings, unreadBy(e.checks[i].Name(), body))
		}
	case err != nil:
		t.Findings = append(t.Findings, e.failure(i, err, t, s))
	default:
		e.works(i)
	}
	found := len(t.Findings) > n
	if n > 0 && found {
		t.Findings = merge(t.Findings, n, s)
	}
	if err == nil {
		t.Memorise(e.checks[i], s, n)
	}
	return found
}

// wants asks a check. One that panics counts as wanting the stage: its Find then fails, too.
func (e *Engine) wants(i int, t *filter.Transaction, s filter.Stage) (wants bool) {
	defer func() {
		if p := recover(); p != nil {
			e.logFailure(i, &filter.Crash{Value: p, Stack: debug.Stack()}, nil, filter.Name)
			wants = true
		}
	}()
	return e.checks[i].Wants(t, s)
}

// merge drops those of fs[n:] that repeat an earlier one. A body stage may be judged more than
// once as the body arrives; there, a check and a category have one score, the greatest.
func merge(fs []filter.Finding, n int, s filter.Stage) []filter.Finding {
	out := fs[:n]
next:
	for _, f := range fs[n:] {
		for j := range fs[:n] {
			g := &fs[j]
			if *g == f {
				continue next
			}
			if (s == filter.RequestBody || s == filter.ResponseBody) && g.Check == f.Check && g.Category == f.Category && g.Score != 0 && f.Score != 0 {
				if f.Score > g.Score {
					*g = f
				}
				continue next
			}
		}
		out = append(out, f)
	}
	clear(fs[len(out):])
	return out
}

// mostSample is the number of bytes that are kept of a body on which a check failed.
const mostSample = 1 << 20

// keepSample keeps, for the report, what check i panicked on: the panic, its stack, and the body, as
// it was received. It is the only copy of what somebody loads, so there is one for each check, which
// the first panic after a start replaces, and only the owner of the data folder may read it. It
// returns its name, "" for none.
func (e *Engine) keepSample(i int, crash *filter.Crash, t *filter.Transaction, s filter.Stage) string {
	b := bodyAt(t, s)
	if e.samples == "" || b == nil {
		return ""
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "check %s panicked: %v\n%s\n", e.checks[i].Name(), crash.Value, crash.Stack)
	if h := b.Head(); h != nil {
		fmt.Fprintf(&text, "type %s, %d bytes so far, complete: %v\n", h.Type(), b.Len(), b.Complete())
	}
	text.WriteString("--- body, as received ---\n")
	for _, p := range b.Pieces() {
		text.Write(p[:min(len(p), max(0, mostSample-text.Len()))])
	}
	if err := os.Mkdir(e.samples, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		e.log.Warn("no sample of the body is kept", "error", err)
		return ""
	}
	name := filepath.Join(e.samples, e.checks[i].Name())
	if err := atomicfile.WriteBytes(name, 0o600, text.Bytes()); err != nil {
		e.log.Warn("no sample of the body is kept", "error", err)
		return ""
	}
	return name
}
