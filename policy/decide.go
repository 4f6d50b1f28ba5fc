package policy

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
)

// Decide runs the relevant checks at stage s and lets the rules decide. See the package
// comment for the order.
func (e *Engine) Decide(ctx context.Context, t *filter.Transaction, s filter.Stage) {
	e.judge(ctx, t, s)
	if t.Proto == filter.DNS {
		t.Verdict.Holds = e.holds(t, timeOf(t))
		holdUnloaded(&t.Verdict)
	}
}

func (e *Engine) judge(ctx context.Context, t *filter.Transaction, s filter.Stage) {
	if t.Verdict.Final() {
		return
	}
	now := timeOf(t)
	p := e.policyFor(&t.Client, now)
	counts := e.counter != nil && p != nil && len(p.limits)+len(p.quotas) > 0
	if counts && begins(t, s) && e.limited(ctx, p, t, now) {
		return
	}
	if t.Verdict.Action == filter.Allow {
		if p != nil {
			t.Verdict.Edits = p.presets.Edits(t)
		}
		return
	}
	if p == nil {
		f := filter.Finding{Check: "policy", Category: "uncovered"}
		if !t.Terse {
			f.Evidence = "no policy covers client " + describe(&t.Client)
		}
		t.Findings = append(t.Findings, f)
		t.Verdict = filter.Verdict{Action: filter.Block, Reason: filter.Reason{Finding: f}}
		return
	}
	var before quotaSet // quotas that were tested
	if counts && s > filter.Request {
		before = p.quotasFor(t, allChecks)
	}
	w := e.walk(p, t, s, now)
	if w.blocked {
		w.release()
		e.blockDecided(p, t)
		return
	}
	w.decide(ctx)
	w.release()
	if counts && spends(t, s) {
		set := p.quotasFor(t, allChecks)
		e.spend(ctx, p, t, set.less(before), now)
	}
}

func describe(c *filter.Client) string {
	s := c.Addr.String()
	if c.User != "" {
		s += fmt.Sprintf(" (user %q)", c.User)
	}
	return s
}

// decide sets the transaction's verdict.
func (w *walk) decide(ctx context.Context) {
	w.t.Verdict = filter.Verdict{Reason: filter.Reason{Policy: w.p.name}, Edits: w.p.presets.Edits(w.t), Names: w.p.names, Patience: w.p.patience, Trickle: w.p.trickle, Disguised: w.p.disguised, Packages: w.p.packages}
	w.count()
	scanUpload(ctx, w)
	noteEnded(ctx, w)
	r, undecided := w.first()
	if r == nil && !undecided {
		known, end := w.joinVerdict(ctx)
		defer end()
		if known {
			return
		}
	}
	for _, i := range w.p.checks {
		if r != nil {
			watch(ctx, w, i)
			continue
		}
		if w.run(ctx, i) || w.waiting {
			w.count()
			r, undecided = w.first()
		}
	}
	if r == nil && noteEnded(ctx, w) {
		r, undecided = w.first()
	}
	w.monitor(r)
	if r != nil {
		if w.fit(r); r.action == filter.Allow {
			w.noteLifted()
		}
		w.remember(ctx)
		return
	}
	w.noteLifted()
	w.recall(ctx, undecided)
	w.dropParams()
	w.remember(ctx)
}

// dropParams makes edits that remove the query parameters found on lists. It copies the
// policy's edits first, because they are shared.
func (w *walk) dropParams() {
	v := &w.t.Verdict
	if v.Final() {
		return
	}
	for i := range w.t.Findings {
		names, ok := strings.CutPrefix(w.t.Findings[i].Modifier, "removeparam=")
		if !ok {
			continue
		}
		v.Edits = slices.Clone(v.Edits)
		for name := range strings.SplitSeq(names, "&") {
			v.Edits = append(v.Edits, filter.Edit{Kind: filter.DropQuery, Name: name})
		}
	}
}

// run runs a check at this stage and reports whether it found anything. It runs a heavy check
// only if that could still change the verdict.
func (w *walk) run(ctx context.Context, i int) (found bool) {
	bit := uint64(1) << i
	costly := w.e.checks[i].Cost() == filter.Heavy || w.stage == filter.RequestBody || w.stage == filter.ResponseBody
	if w.e.wants(i, w.t, w.stage) && (!costly || w.matters(bit) || w.mayCount(bit)) {
		found = w.e.find(ctx, w.t, w.stage, i)
	}
	w.ran |= bit
	return found
}

// count determines the meaning of the findings for the rules.
func (w *walk) count() {
	w.found, w.unless = ruleSet{}, ruleSet{}
	for i := range w.t.Findings {
		f := &w.t.Findings[i]
		for _, ref := range w.p.refsOf(f) {
			w.mark(ref, f)
		}
	}
	countFailures(w)
	countUnloaded(w)
}

func (w *walk) mark(r ref, f *filter.Finding) {
	switch {
	case !r.means(f, w.p.rules[r.rule]):
	case r.unless:
		w.unless.add(r.rule)
	default:
		w.found.add(r.rule)
	}
}

func (p *policy) refsOf(f *filter.Finding) []ref {
	if refs, ok := p.refs[category{f.Check, f.Category}]; ok {
		return refs
	}
	return p.refs[category{f.Check, strings.ToLower(f.Category)}]
}

// first returns the first rule that certainly matches, or nil. undecided says that a rule
// waiting for something might match.
func (w *walk) first() (r *rule, undecided bool) {
	w.waiting, w.lifted = false, nil
	for word := range w.found {
		b := (w.p.always[word] | w.found[word]) &^ w.unless[word] & w.host[word] &^ w.p.monitors[word]
		for ; b != 0; b &= b - 1 {
			i := word<<6 + bits.TrailingZeros64(b)
			switch w.ruleMatches(i) {
			case yes:
				if w.mayYield(i) {
					return nil, true
				}
				return w.p.rules[i], false
			case maybe:
				undecided = true
			}
		}
	}
	return nil, undecided
}

// mayYield reports whether an earlier undecided rule could change the answer to the
// client, compared with rule i, which matches. A request that cannot be taken back is not sent to
// find out: what only its response would tell does not keep rule i from refusing it.
func (w *walk) mayYield(i int) bool {
	refuses := w.p.rules[i].action >= filter.Warn
	if refuses && cannotBeTakenBack(w) {
		defer func(last filter.Stage, asked, wanted uint64) {
			w.last, w.asked, w.wanted = last, asked, wanted
		}(w.last, w.asked, w.wanted)
		w.last, w.asked, w.wanted = filter.RequestBody, 0, 0
	}
	for j := range i {
		if w.p.rules[j].monitors && (refuses || !awaits(w, j)) || refuses && w.p.rules[j].action == filter.Block && w.p.rules[j].show == filter.Nothing {
			continue
		}
		if w.ruleMatches(j) == maybe {
			return true
		}
	}
	return false
}

// cannotBeTakenBack reports whether the request is still here, and has an effect at the origin once it
// has left: it has a body, or a method that changes something.
func cannotBeTakenBack(w *walk) bool {
	q := w.t.Request
	switch {
	case w.t.Proto != filter.HTTP || w.last <= filter.RequestBody:
		return false
	case w.stage == filter.RequestBody:
		return true
	}
	return w.stage < filter.RequestBody && q != nil && (q.Length != message.None || q.Method != "" && !message.Safe(q.Method))
}

// ruleMatches returns whether rule i matches, as far as is known.
func (w *walk) ruleMatches(i int) answer {
	r := w.p.rules[i]
	if w.unless.has(i) || !w.host.has(i) || r.implied && w.warned {
		return no
	}
	a := yes
	if r.found && !w.found.has(i) {
		if !w.mayStillReport(r.finds) {
			return no
		}
		a = maybe
	}
	if r.unless != 0 && a == yes && w.mayStillReport(r.unless) {
		a = maybe
	}
	a = min(a, r.holds(w))
	if a == yes && w.lifts(r) && (r.action != filter.Warn || !w.accepted(r)) {
		w.lifted = cmp.Or(w.lifted, r)
		return no
	}
	if a != yes || r.action != filter.Warn {
		return a
	}
	if w.stage < filter.Request && w.last >= filter.Request {
		return maybe // the cookie comes with the request head
	}
	if w.accepted(r) {
		w.noteAccepted(r)
		w.warned = w.warned || r.certificate && w.found.has(i)
		return no
	}
	return yes
}

// mayStillReport reports whether one of the checks may still report something, at this stage or a later
// one of the transaction.
func (w *walk) mayStillReport(checks uint64) bool {
	for b := checks; b != 0; b &= b - 1 {
		i := bits.TrailingZeros64(b)
		if w.ran>>i&1 == 0 && w.e.wants(i, w.t, w.stage) {
			w.waiting = true
			return true
		}
		if w.wantsLater(i) || w.e.tunnel>>i&1 != 0 && w.t.Opening.Awaited {
			return true
		}
	}
	return false
}

// wantsLater reports whether a check wants a stage after this one.
func (w *walk) wantsLater(i int) bool {
	bit := uint64(1) << i
	if w.asked&bit == 0 {
		w.asked |= bit
		for s := w.stage + 1; s <= w.last; s++ {
			if s == filter.RequestBody && w.t.Request != nil && w.t.Request.Length == message.None && w.t.Request.Upgrade == nil {
				continue
			}
			if w.e.wants(i, w.t, s) {
				w.wanted |= bit
				break
			}
		}
	}
	return w.wanted&bit != 0
}

// matters reports whether later findings of these checks might change the verdict.
func (w *walk) matters(checks uint64) bool {
	for i, r := range w.p.rules {
		if w.unless.has(i) || !w.host.has(i) || w.lifts(r) && len(r.locked) == 0 || r.monitors && w.p.monitored(w.t, r) {
			continue
		}
		missing := r.found && !w.found.has(i)
		if missing && !w.mayStillReport(r.finds) {
			continue
		}
		if (missing && r.finds&checks != 0 || r.unless&checks != 0) && r.holds(w) != no {
			return true
		}
		if !missing && r.unless == 0 && r.action != filter.Warn && !r.monitors && r.holds(w) == yes {
			return false // it matches, so later rules are not consulted
		}
	}
	return false
}

// SeeRefused implements [filter.Witness].
func (e *Engine) SeeRefused(t *filter.Transaction, head []byte) {
	for _, c := range e.checks {
		if w, ok := c.(filter.Witness); ok {
			w.SeeRefused(t, head)
		}
	}
}

// Wants reports whether a check of the policy wants stage s and could still change the
// verdict, or the amount that a quota counts. It may be called before or after Decide
// for the stage before s.
func (e *Engine) Wants(t *filter.Transaction, s filter.Stage) bool {
	if t.Verdict.Action != filter.Pass {
		return false
	}
	now := timeOf(t)
	p := e.policyFor(&t.Client, now)
	if p == nil {
		return false
	}
	w := e.walk(p, t, max(s, 1)-1, now)
	w.last = max(w.last, s)
	defer w.release()
	w.count()
	if s == filter.ResponseBody && w.confirmed(filter.Pass) {
		if _, undecided := w.first(); !undecided {
			return false
		}
	}
	var checks uint64
	for _, i := range p.checks {
		if e.wants(i, t, s) {
			checks |= 1 << i
		}
	}
	return w.matters(checks) || w.mayCount(checks) || s == filter.ResponseBody && (w.needsType() || needsPicture(&w)) || s == filter.RequestBody && needsUpload(&w)
}

// needsType reports whether a rule waits for the detected type of a body, because the origin
// declares none.
func (w *walk) needsType() bool {
	if w.t.Response == nil || !isGeneric(w.t.Content().Type()) {
		return false
	}
	unknown := w.t.Content().Type() == ""
	for i, r := range w.p.rules {
		if ((r.types != nil || slices.Contains(r.exts, dotCom[0])) && unknown || r.extTypes != nil) && w.ruleMatches(i) == maybe {
			return true
		}
	}
	return false
}

// needsPicture reports whether a rule waits for the bytes of a picture, to replace it.
func needsPicture(w *walk) bool {
	if w.t.Response == nil || w.t.Content().Type() == "" || !mayBePicture(w.t) {
		return false
	}
	for i, r := range w.p.rules {
		if r.show != filter.Nothing && (!r.found || w.found.has(i)) && w.ruleMatches(i) == maybe {
			return true
		}
	}
	return false
}

// fit makes the verdict of a matching rule.
func (w *walk) fit(r *rule) {
	v := &w.t.Verdict
	v.Action = r.action
	v.Reason.Rule, v.Reason.Hours = r.name, len(r.when) > 0
	if v.Text = ""; v.Final() {
		v.Text = r.text
	}
	v.Reason.Learned = false
	v.Reason.Finding = w.reason(r)
	v.Replace = r.replace
	v.Show = r.show
	if r.answer != filter.Usual {
		v.Names.Answer = r.answer
	}
	switch {
	case w.t.Proto == filter.DNS:
		v.To = r.to.host // a DNS reply has no room for more
	case r.action == filter.Warn:
		v.To = w.token(forClick, r)
	case r.action == filter.Redirect:
		v.To = r.to.url(w.t)
	}
	if v.Final() {
		v.Edits, v.Patience, v.Trickle = nil, 0, 0
	}
}

// reason returns the first finding that the rule matched.
func (w *walk) reason(r *rule) filter.Finding {
	for i := range w.t.Findings {
		f := &w.t.Findings[i]
		for _, ref := range w.p.refsOf(f) {
			if w.p.rules[ref.rule] == r && !ref.unless && ref.means(f, r) {
				return *f
			}
		}
		if failed(w, f, r) {
			return *f
		}
	}
	for i := range w.t.Findings {
		if f := &w.t.Findings[i]; isUnloaded(*f) && w.p.unloaded.matches(w.p, r) {
			return *f
		}
		if f := &w.t.Findings[i]; r.sent != nil && f.Check == "policy" && f.Category == sentCategory && strings.HasPrefix(f.Evidence, strconv.Quote(r.name)) {
			return *f
		}
	}
	return filter.Finding{}
}

// blockDecided blocks a site that a decision blocks.
func (e *Engine) blockDecided(p *policy, t *filter.Transaction) {
	f := filter.Finding{Check: "policy", Category: decidedBlock}
	if !t.Terse {
		f.Evidence = "a person blocked the site, by hand or in answer to votes"
	}
	t.Findings = append(t.Findings, f)
	t.Verdict = filter.Verdict{Action: filter.Block, Reason: filter.Reason{Policy: p.name, Finding: f}}
}

// needsUpload reports whether a rule waits for the request's body.
func needsUpload(w *walk) bool {
	for i, r := range w.p.rules {
		if (r.sent != nil || r.search != nil || r.forms != nil) && w.ruleMatches(i) == maybe {
			return true
		}
	}
	return false
}

// noteLifted adds to the verdict which rule a pause has kept from matching, and for how long.
func (w *walk) noteLifted() {
	if w.lifted == nil {
		return
	}
	v := &w.t.Verdict
	v.After = w.paused
	why := w.reason(w.lifted)
	f := filter.Finding{Check: "policy", Category: "paused"}
	if w.opened {
		f.Category = "opened"
	}
	if !w.t.Terse {
		f.Evidence = fmt.Sprintf("rule %q would %v until %s", w.lifted.name, w.lifted.action, w.now.Add(w.paused).Format(time.DateTime))
		if why.Evidence != "" {
			f.Evidence += "; " + why.Evidence
		}
	}
	if !slices.ContainsFunc(w.t.Findings, func(g filter.Finding) bool { return g.Check == f.Check && g.Category == f.Category }) {
		w.t.Findings = append(w.t.Findings, f)
	}
	if v.Action == filter.Pass {
		v.Reason.Rule, v.Reason.Finding = w.lifted.name, f
	}
}
