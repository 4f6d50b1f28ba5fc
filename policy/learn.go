package policy

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/message"
)

// A Memory holds learned verdicts, for one node or a fleet. It may forget any of them, and its
// results are verified. The caller of Get neither keeps nor changes value, nor does Put after
// it returns.
type Memory interface {
	Get(ctx context.Context, key [16]byte) (value []byte, ok bool)
	Put(ctx context.Context, key [16]byte, value []byte, ttl time.Duration)
}

// Learned verdicts. The verdict on a body is remembered for the policy's time, so that the
// next request for the same URL is blocked before anything is fetched, or passes without its
// body being held.
//
// These verdicts are learned: a block by a rule that the body decided, and a pass of a whole
// body. Only for GET answered with 200, and never where the response is personal: Set-Cookie,
// Cache-Control with private or no-store, Vary over more than the encoding and the fields in
// the key, a click on a warning, a check that failed, a body not read to its end, a pause.
//
// For whom: the key holds the engine's revision, the policy, the URL, the request's
// Authorization and Cookie, and which of the rules with conditions beyond the URL (header,
// agent, referer, schedule) would apply. So a verdict on a page for one user is never
// shared with another.
//
// A page may change under its URL. So a pass is valid only for a response with the same
// Content-Type, ETag, Last-Modified and Content-Length. A response without the last three is
// trusted until the time is up, unless it says no-cache. A block needs no validators: it
// stands until the time is up.
type learnedVerdict struct {
	action     filter.Action // Pass or Block
	validators uint64
	until      int64 // Unix time, in seconds; 0: as long as its key is the same
	rule       string
	finding    filter.Finding
}

// The stored form of a verdict: version, action, validators (8 bytes, big endian), until and
// score (varints), then rule, check, category, evidence and modifier, each preceded by its
// length (uvarint).
const learnedVersion = 3

// maxEvidence bounds the evidence kept of a finding, in bytes.
const maxEvidence = 1024

func (l *learnedVerdict) append(b []byte) []byte {
	b = append(b, learnedVersion, byte(l.action))
	b = binary.BigEndian.AppendUint64(b, l.validators)
	b = binary.AppendVarint(binary.AppendVarint(b, l.until), int64(l.finding.Score))
	evidence := strings.ToValidUTF8(l.finding.Evidence[:min(len(l.finding.Evidence), maxEvidence)], "")
	for _, s := range [...]string{l.rule, l.finding.Check, l.finding.Category, evidence, l.finding.Modifier} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return b
}

var errNotLearned = errors.New("not a learned verdict")

func parseLearned(b []byte) (l learnedVerdict, err error) {
	if len(b) < 10 || b[0] != learnedVersion {
		return l, errNotLearned
	}
	l.action = filter.Action(b[1])
	l.validators = binary.BigEndian.Uint64(b[2:])
	b = b[10:]
	until, m := binary.Varint(b)
	score, n := binary.Varint(b[max(m, 0):])
	if m <= 0 || n <= 0 || l.action != filter.Pass && l.action != filter.Block {
		return l, errNotLearned
	}
	l.until, l.finding.Score = until, int(score)
	b = b[m+n:]
	for _, s := range [...]*string{&l.rule, &l.finding.Check, &l.finding.Category, &l.finding.Evidence, &l.finding.Modifier} {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return l, errNotLearned
		}
		*s, b = string(b[n:n+int(size)]), b[n+int(size):]
	}
	return l, nil
}

// learns reports whether this transaction uses and makes learned verdicts.
func (w *walk) learns() bool {
	return w.p.learn > 0 && w.t.Conversation == "" && w.paused <= 0 && w.e.memory != nil && w.t.Proto == filter.HTTP &&
		w.t.Request != nil && w.t.Request.Method == "GET" && w.t.URL != ""
}

// learnKey is the key of the transaction's URL, the same before and after its body was read.
// With personal, it includes the fields that identify the recipient of the page.
func (w *walk) learnKey(personal bool) [16]byte {
	s := w.scratch()
	b := s.fold[:0]
	part := func(p []byte) {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	part([]byte(w.e.revision))
	part([]byte(w.p.name))
	part([]byte(w.t.URL))
	for i := range w.t.Request.Fields {
		f := &w.t.Request.Fields[i]
		if personal && (equalFold(f.Name, "cookie") || equalFold(f.Name, "authorization")) {
			part(f.Value)
		}
	}
	s.fold = b // the conditions use the buffer in between
	var sum [32]byte
	sum = sha256.Sum256(b)
	if len(w.p.varies) > 0 {
		before := *w
		w.stage, w.last = filter.Request, filter.ResponseBody
		b = sum[:]
		for _, i := range w.p.varies {
			b = append(b, byte(w.p.rules[i].holds(w)))
		}
		w.stage, w.last = before.stage, before.last
		sum = sha256.Sum256(b)
	}
	return [16]byte(sum[:16])
}

// recall applies a learned verdict when nothing else has decided.
func (w *walk) recall(ctx context.Context, undecided bool) {
	switch w.stage {
	case filter.Request:
	case filter.Response:
		if l, ok := storedVerdict(w); ok && !undecided && l.action == filter.Block {
			useBlock(w, l)
			return
		}
		switch {
		case w.confirmed(filter.Block) && w.learns():
			w.sameBody(ctx, w.learnKey(true)) // it may have expired in the meantime: then the body is judged
		case !undecided:
			w.t.Verdict.Reason.Learned = w.confirmed(filter.Pass)
		}
		return
	default:
		return
	}
	if !w.learns() {
		return
	}
	value, ok := w.e.memory.Get(ctx, w.learnKey(true))
	if !ok {
		return
	}
	l, err := parseLearned(value)
	switch {
	case err != nil:
	case l.action == filter.Block, l.action == filter.Pass && !undecided:
		w.t.Findings = append(w.t.Findings, filter.Finding{Check: "policy", Category: "learned", Evidence: learnedEvidence(l.action, l.validators)})
	}
}

// useBlock applies a learned block.
func useBlock(w *walk, l learnedVerdict) {
	w.t.Findings = append(w.t.Findings, l.finding)
	w.t.Verdict = filter.Verdict{Action: filter.Block, Reason: filter.Reason{
		Policy: w.p.name, Rule: l.rule, Finding: l.finding, Learned: true,
	}}
	for _, r := range w.p.rules {
		if r.name == l.rule {
			w.t.Verdict.Text = r.text
		}
	}
}

// storedBody returns the store of verdicts on the body if that comes from a cache: such a body
// cannot have changed, so only the engine's revision, the policy and its rules decide whether
// verdicts are still valid. It returns nil for a body from an origin, and where a check looks at
// more than the body.
func storedBody(w *walk) filter.Stored {
	t := w.t
	if w.e.forced != nil || w.paused > 0 || t.Proto != filter.HTTP || t.Request == nil || t.Request.Method != "GET" || t.Response == nil || t.Response.Status != 200 {
		return nil
	}
	s := filter.StoredOf(t.Response.Body)
	if s == nil {
		return nil
	}
	for _, i := range w.p.checks {
		if _, ok := w.e.checks[i].(filter.Contextual); ok {
			return nil
		}
	}
	return s
}

// storedVerdict returns the verdict stored with a cached body.
func storedVerdict(w *walk) (l learnedVerdict, ok bool) {
	s := storedBody(w)
	if s == nil || !s.HasVerdicts() {
		return l, false
	}
	value, ok := s.Verdict(w.learnKey(false))
	if !ok {
		return l, false
	}
	l, err := parseLearned(value)
	return l, err == nil && (l.until == 0 || time.Now().Unix() < l.until)
}

// verdictLifetime is for how long a verdict of the policy may be kept; limited is false where that is as
// long as its key is the same.
func (p *policy) verdictLifetime(checks []filter.Check) (d time.Duration, limited bool) {
	for _, i := range p.checks {
		c, ok := checks[i].(filter.Changing)
		if !ok {
			continue
		}
		if of, some := c.Lifetime(); some && (!limited || of < d) {
			d, limited = of, true
		}
	}
	return d, limited
}

// learnedEvidence is how the transaction carries a learned verdict from request to response,
// and how events show it.
func learnedEvidence(a filter.Action, validators uint64) string {
	word := "passed"
	if a == filter.Block {
		word = "blocked"
	}
	return fmt.Sprintf("%s before, if the answer is still %016x", word, validators)
}

// confirmed reports whether a learned verdict a is valid for the response. A page that has
// changed is judged again.
func (w *walk) confirmed(a filter.Action) bool {
	if w.t.Response == nil || w.t.Response.Status != 200 {
		return false
	}
	if l, ok := storedVerdict(w); ok {
		return l.action == a
	}
	for i := range w.t.Findings {
		f := &w.t.Findings[i]
		if f.Check == "policy" && f.Category == "learned" {
			v, ok := validators(w.t.Response)
			return ok && f.Evidence == learnedEvidence(a, v)
		}
	}
	return false
}

// validators hashes the fields that distinguish versions of a page. ok is false when nothing
// does and the origin requires revalidation.
func validators(s *message.Response) (v uint64, ok bool) {
	h := sha256.New()
	some := false
	for i, name := range [...]string{"Content-Type", "Content-Encoding", "ETag", "Last-Modified", "Content-Length"} {
		value := s.Get(name)
		some = some || i > 1 && value != nil
		h.Write(binary.AppendUvarint(nil, uint64(len(value))))
		h.Write(value)
	}
	var sum [32]byte
	v = binary.BigEndian.Uint64(h.Sum(sum[:0]))
	return v, some || !s.HasToken("Cache-Control", "no-cache")
}

// flights are the bodies being judged. When many clients request one page at once, only the
// first has it judged.
type flights struct {
	mu    sync.Mutex
	under map[[16]byte]chan struct{} // closed when it is judged
}

// longestFlight bounds how long a body waits for the judgement of another.
const longestFlight = time.Second

// joinVerdict applies the verdict on the same body if there is one by now, or waits if it is
// being judged. known is false when the body is to be judged here; then end wakes those who
// wait.
func (w *walk) joinVerdict(ctx context.Context) (known bool, end func()) {
	end = func() {}
	if w.stage != filter.ResponseBody || !w.learns() || w.t.Response == nil || w.t.Body == nil || !w.t.Body.Complete() || !w.shareable() {
		return false, end
	}
	key, f := w.learnKey(true), w.e.flights
	if w.sameBody(ctx, key) {
		return true, end
	}
	f.mu.Lock()
	judged := f.under[key]
	if judged == nil {
		judged = make(chan struct{})
		f.under[key] = judged
		f.mu.Unlock()
		return false, func() {
			f.mu.Lock()
			delete(f.under, key)
			f.mu.Unlock()
			close(judged)
		}
	}
	f.mu.Unlock()
	wait := time.NewTimer(longestFlight)
	defer wait.Stop()
	select {
	case <-judged:
	case <-wait.C:
	case <-ctx.Done():
	}
	return w.sameBody(ctx, key), end
}

// sameBody applies the verdict learned from a body with the same validators.
func (w *walk) sameBody(ctx context.Context, key [16]byte) bool {
	value, ok := w.e.memory.Get(ctx, key)
	if !ok {
		return false
	}
	l, err := parseLearned(value)
	if v, ok := validators(w.t.Response); err != nil || !ok || v != l.validators {
		return false
	}
	w.t.Verdict.Reason.Learned = true
	if l.action == filter.Block {
		w.t.Findings = append(w.t.Findings, l.finding)
		v := &w.t.Verdict
		v.Action, v.Edits, v.Patience, v.Trickle, v.Reason.Rule, v.Reason.Finding = filter.Block, nil, 0, 0, l.rule, l.finding
	}
	return true
}

// remember learns the verdict that a body has led to.
func (w *walk) remember(ctx context.Context) {
	t := w.t
	if w.stage != filter.ResponseBody || t.Response == nil || t.Body == nil || w.p.monitoredContent(t, w.e.heavy) {
		return
	}
	kept := storedBody(w)
	shared := w.learns() && w.shareable()
	if kept == nil && !shared || !certain(w.t) {
		return
	}
	v, ok := validators(t.Response)
	l := learnedVerdict{action: t.Verdict.Action, validators: v, rule: t.Verdict.Reason.Rule, finding: t.Verdict.Reason.Finding}
	switch l.action {
	case filter.Pass:
		if !t.Body.Complete() || t.Body.Unread() != content.AllRead || w.rationedBody() {
			return
		}
	case filter.Block:
		if t.Verdict.Show != filter.Nothing {
			return // the next one has to be fetched, too
		}
		ok = true
	default:
		return
	}
	ttl := w.p.learn
	if d, limited := w.p.verdictLifetime(w.e.checks); limited {
		if d < time.Second {
			return
		}
		ttl, l.until = min(ttl, d), time.Now().Add(d).Unix()
	}
	value := l.append(nil)
	if kept != nil {
		kept.KeepVerdict(w.learnKey(false), value)
	}
	if shared && ok {
		w.e.memory.Put(ctx, w.learnKey(true), value, ttl)
	}
}

// shareable reports whether the verdict may be used for other requests.
func (w *walk) shareable() bool {
	s := w.t.Response
	if s.Status != 200 || s.Has("Set-Cookie") ||
		s.HasToken("Cache-Control", "no-store") || s.HasToken("Cache-Control", "private") {
		return false
	}
	for i := range s.Fields {
		if equalFold(s.Fields[i].Name, "vary") && !harmlessVary(string(s.Fields[i].Value)) {
			return false
		}
	}
	return certain(w.t)
}

// certain reports whether the verdict follows from the body alone: no click on a warning, no
// check that failed or read only a part, and no other body involved.
func certain(t *filter.Transaction) bool {
	for i := range t.Findings {
		f := &t.Findings[i]
		if f.Check == "policy" && f.Category == "accepted" || f.Category == f.Check+"-error" || filter.IsUnread(f.Category) ||
			f.Category == f.Check+"-unread" || f.Category == f.Check+"/page" {
			return false
		}
	}
	return true
}

// harmlessVary reports whether a Vary names only fields that do not change the page or are
// part of the key.
func harmlessVary(v string) bool {
	for name := range strings.SplitSeq(v, ",") {
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "", "accept-encoding", "origin", "cookie", "authorization":
		default:
			return false
		}
	}
	return true
}
