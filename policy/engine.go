package policy

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/bits"
	"net/netip"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gaissmai/bart"

	"shuultuur/dns"
	"shuultuur/filter"
	"shuultuur/message"
	"shuultuur/metric"
)

// Parts are the parts that an engine works with besides settings and checks. All
// are optional.
type Parts struct {
	// Key signs warn tokens. Without one, a random key is generated, and clicks on warn
	// pages are forgotten with the engine.
	Key []byte
	// Memory holds learned verdicts. Without one, nothing is learned.
	Memory Memory
	// Counter counts for limits, quotas and clicks on warn pages. Without one, there are no
	// limits, and a click may be used again.
	Counter Counter
	// Revision identifies the settings and lists of the checks: engines with the same revision
	// share learned verdicts. Without one, an engine keeps them to itself.
	Revision string
	Pauses   *Pauses // nil: there are none
	// Decisions are those made about votes; nil: there are none.
	Decisions *Decisions
	// Watch are rules that precede those of each policy, and only monitor.
	Watch   []Rule
	Metrics *Metrics     // nil: nothing is counted
	Log     *slog.Logger // default: slog.Default
}

// An Engine is a [filter.Decider]. It never changes and is safe for concurrent use; new
// settings make a new one.
type Engine struct {
	policies []*policy
	checks   []filter.Check
	heavy    uint64 // the set of heavy checks
	metrics  *Metrics
	failures []*metric.Counter // by check; nil: nothing is counted
	engines  map[string]*engine
	forced   *policy // of [Engine.As]

	// The policies that could cover an address, one bit each. base are those without networks;
	// every set in nets includes them.
	base []uint64
	nets *bart.Table[*[]uint64]

	key      []byte
	memory   Memory
	counter  Counter
	flights  *flights
	revision string
	pauses   *Pauses
	decided  *Decisions
	log      *slog.Logger
	panicked []atomic.Bool // by check: its stack has been logged
	pool     *sync.Pool
	today    *atomic.Pointer[day]
	metered  bool // some policy counts queries
	past     bool // for recorded transactions: nobody waits for a fleet's counts
}

// A policy is a compiled Policy.
type policy struct {
	name     string
	users    map[string]struct{}
	groups   map[string]struct{}
	when     []hours
	rules    []*rule
	refs     map[category][]ref
	checks   []int               // the checks to ask, cheap ones first
	always   ruleSet             // rules that name no category
	monitors ruleSet             // rules that only monitor
	hosts    map[string]*ruleSet // rules by the hosts they name
	any      ruleSet             // rules that name no host
	presets
	names   filter.Names
	learn   time.Duration
	decrypt bool
	store   bool
	hide    bool
	readingMode
	// warnClosed refuses a click when it is unknown whether its token was used before.
	warnClosed bool

	limits  []limit // on requests
	queries []limit // on queries
	quotas  []limit
	rations []ration
	uploads *uploads // texts that rules look for in bodies of requests; nil for nothing
	varies  []int    // rules that may treat two requests for one URL differently
}

// A readingMode is how bodies are read.
type readingMode struct {
	patience  time.Duration
	disguised bool
	watchedThemes
}

// A category as a check reports it.
type category struct{ check, name string }

// A ref is the meaning of a finding for a rule.
type ref struct {
	rule   int
	scored bool // only with a score above the rule's limit
	unless bool
}

const ruleWords = 8

type ruleSet [ruleWords]uint64

func (s *ruleSet) add(i int)      { s[i>>6] |= 1 << (i & 63) }
func (s *ruleSet) has(i int) bool { return s[i>>6]>>(i&63)&1 != 0 }

// policyFor returns the first policy that covers c, or nil.
func (e *Engine) policyFor(c *filter.Client, now time.Time) *policy {
	if e.forced != nil {
		return e.forced
	}
	set := e.base
	if e.nets != nil && c.Addr.IsValid() {
		if s, ok := e.nets.Lookup(c.Addr.Unmap()); ok {
			set = *s
		}
	}
	for word, b := range set {
		for ; b != 0; b &= b - 1 {
			if p := e.policies[word<<6+bits.TrailingZeros64(b)]; p.covers(c, now) {
				return p
			}
		}
	}
	return nil
}

// covers tests everything but the network.
func (p *policy) covers(c *filter.Client, now time.Time) bool {
	if p.users != nil {
		if _, ok := p.users[c.User]; !ok || c.User == "" {
			return false
		}
	}
	if p.groups != nil && !anyIn(p.groups, c.Groups) {
		return false
	}
	return p.when == nil || open(p.when, now)
}

func anyIn(set map[string]struct{}, names []string) bool {
	for _, n := range names {
		if _, ok := set[n]; ok {
			return true
		}
	}
	return false
}

// Decrypts reports whether the policy that covers t's client wants TLS connections decrypted.
func (e *Engine) Decrypts(t *filter.Transaction) bool {
	p := e.policyFor(&t.Client, (*clock)(t).now())
	return p != nil && p.decrypt
}

// Stores reports whether the policy that covers t's client lets a cache store responses
// that arrived encrypted.
func (e *Engine) Stores(t *filter.Transaction) bool {
	p := e.policyFor(&t.Client, (*clock)(t).now())
	return p != nil && p.store
}

// AsksJA4 reports whether a rule needs the fingerprint of the client's hello.
func (e *Engine) AsksJA4() bool {
	return slices.ContainsFunc(e.policies, func(p *policy) bool {
		return slices.ContainsFunc(p.rules, func(r *rule) bool { return r.ja4 != nil })
	})
}

// As returns a decider that judges every client by the policy with this name. It neither
// learns nor uses learned verdicts.
func (e *Engine) As(name string) (filter.Decider, error) {
	p := e.policyNamed(name)
	if p == nil {
		names := make([]string, 0, len(e.policies))
		for _, p := range e.policies {
			names = append(names, p.name)
		}
		return nil, fmt.Errorf("there is no policy %q; did you mean %q?", name, nearest(name, names))
	}
	as := *e
	as.forced, as.memory, as.counter, as.metered = p, nil, nil, false
	return &as, nil
}

// Counting returns an engine that counts the use of quotas with c, nil if no policy has limits
// or quotas.
func (e *Engine) Counting(c Counter) *Engine {
	some, queries := false, false
	for _, p := range e.policies {
		some = some || len(p.limits)+len(p.quotas)+len(p.queries) > 0
		queries = queries || len(p.queries)+len(p.quotas) > 0
	}
	if !some {
		return nil
	}
	as := *e
	as.counter, as.metered, as.past = c, queries, true
	return &as
}

// policyNamed returns the policy called name, nil when there is none.
func (e *Engine) policyNamed(name string) *policy {
	for _, p := range e.policies {
		if p.name == name {
			return p
		}
	}
	return nil
}

// A walk is one decision in progress.
type walk struct {
	e           *Engine
	p           *policy
	t           *filter.Transaction
	stage, last filter.Stage
	now         time.Time

	host          ruleSet       // rules that the host does not exclude
	found, unless ruleSet       // by findings: rules with a category that was found, rules with an unless that was
	ran           uint64        // checks that have run at this stage
	warned        bool          // the client has clicked through a warning about the certificate
	waiting       bool          // first met a rule that waits for a check of this stage
	paused        time.Duration // how much longer filtering is paused for the client; 0: it is not
	opened        bool          // because of a decision about the site
	blocked       bool          // a decision blocks the site
	lifted        *rule         // the first rule that would refuse without the pause
	asked, wanted uint64        // checks asked whether they want a later stage, and their answers
	upload        *uploadScan   // of the request's body, at its stage
	s             *scratch
}

func (e *Engine) walk(p *policy, t *filter.Transaction, s filter.Stage, now time.Time) walk {
	w := walk{e: e, p: p, t: t, stage: s, last: max(s, t.Last), now: now, host: p.any, paused: e.pauses.remaining(&t.Client, now)}
	if left, block := e.decided.find(&t.Client, t.Host, now); block {
		w.blocked = w.paused == 0
	} else if left > w.paused {
		w.paused, w.opened = left, true
	}
	if len(p.hosts) > 0 {
		w.host.addAll(p.hosts, dns.Canonical(t.Host))
	}
	return w
}

// addAll adds the rules that name the host or a parent domain.
func (s *ruleSet) addAll(hosts map[string]*ruleSet, host string) {
	for {
		if rules := hosts[host]; rules != nil {
			for i := range s {
				s[i] |= rules[i]
			}
		}
		i := strings.IndexByte(host, '.')
		if i < 0 {
			return
		}
		host = host[i+1:]
	}
}

func (t *clock) now() time.Time {
	if t.Start.IsZero() {
		return time.Now()
	}
	return t.Start
}

// A clock is a transaction as a source of time. All its stages are judged by the time it
// began, so a schedule that closes in between does not split it.
type clock filter.Transaction

// Decide runs the relevant checks at stage s and lets the rules decide. See the package
// comment for the order.
func (e *Engine) Decide(ctx context.Context, t *filter.Transaction, s filter.Stage) filter.Verdict {
	if t.Verdict.Final() {
		return t.Verdict
	}
	now := (*clock)(t).now()
	p := e.policyFor(&t.Client, now)
	counts := e.counter != nil && p != nil && len(p.limits)+len(p.quotas) > 0
	if counts && begins(t, s) && e.limited(ctx, p, t, now) {
		return t.Verdict
	}
	if t.Verdict.Action == filter.Allow {
		if p != nil {
			t.Verdict.Edits = p.edits(t)
		}
		return t.Verdict
	}
	if p == nil {
		f := filter.Finding{Check: "policy", Category: "uncovered"}
		if !t.Terse {
			f.Evidence = "no policy covers client " + describe(&t.Client)
		}
		t.Findings = append(t.Findings, f)
		t.Verdict = filter.Verdict{Action: filter.Block, Reason: filter.Reason{Finding: f}}
		return t.Verdict
	}
	var before quotaSet // quotas that were tested
	if counts && s > filter.Request {
		before = p.quotasFor(t, allChecks)
	}
	w := e.walk(p, t, s, now)
	if w.blocked {
		w.release()
		return e.blockDecided(p, t)
	}
	w.decide(ctx)
	w.release()
	if counts && spends(t, s) {
		set := p.quotasFor(t, allChecks)
		e.spend(ctx, p, t, set.less(before), now)
	}
	return t.Verdict
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
	w.t.Verdict = filter.Verdict{Reason: filter.Reason{Policy: w.p.name}, Edits: w.p.edits(w.t), Names: w.p.names, Patience: w.p.patience, Disguised: w.p.disguised}
	w.count()
	scanUpload(ctx, w)
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
}

func (w *walk) mark(r ref, f *filter.Finding) {
	switch {
	case r.scored && f.Score <= w.p.rules[r.rule].over:
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
// client, compared with rule i, which matches.
func (w *walk) mayYield(i int) bool {
	refuses := w.p.rules[i].action >= filter.Warn
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
		if w.wantsLater(i) {
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
	now := (*clock)(t).now()
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
		if (r.types != nil && unknown || r.extTypes != nil) && w.ruleMatches(i) == maybe {
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
	v.Reason.Rule = r.name
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
		v.Edits, v.Patience = nil, 0
	}
}

// reason returns the first finding that the rule matched.
func (w *walk) reason(r *rule) filter.Finding {
	for i := range w.t.Findings {
		f := &w.t.Findings[i]
		for _, ref := range w.p.refsOf(f) {
			if w.p.rules[ref.rule] == r && !ref.unless && !(ref.scored && f.Score <= r.over) {
				return *f
			}
		}
	}
	for i := range w.t.Findings {
		if f := &w.t.Findings[i]; r.sent != nil && f.Check == "policy" && f.Category == sentCategory && strings.HasPrefix(f.Evidence, strconv.Quote(r.name)) {
			return *f
		}
	}
	return filter.Finding{}
}

// wants asks a check. One that panics counts as wanting the stage: its Find then reports the
// fault.
func (e *Engine) wants(i int, t *filter.Transaction, s filter.Stage) (wants bool) {
	defer func() {
		if p := recover(); p != nil {
			e.logPanic(i, p)
			wants = true
		}
	}()
	return e.checks[i].Wants(t, s)
}

// find lets a check append its findings and reports whether there are any. An error or a panic
// becomes the finding "<check>-error".
func (e *Engine) find(ctx context.Context, t *filter.Transaction, s filter.Stage, i int) bool {
	if found, ok := t.Recall(e.checks[i], s); ok {
		t.Findings = append(t.Findings, found...)
		return len(found) > 0
	}
	n := len(t.Findings)
	err := e.safeFind(ctx, t, s, i)
	if err != nil {
		name := e.checks[i].Name()
		if e.failures != nil {
			e.failures[i].Inc()
		}
		t.Findings = append(t.Findings, filter.Finding{Check: name, Category: name + "-error", Evidence: err.Error()})
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

func (e *Engine) safeFind(ctx context.Context, t *filter.Transaction, s filter.Stage, i int) (err error) {
	before := t.Findings
	defer func() {
		if p := recover(); p != nil {
			e.logPanic(i, p)
			t.Findings = before
			err = fmt.Errorf("the check panicked: %v", p)
		}
	}()
	after, err := e.checks[i].Find(ctx, t, s, before)
	if len(after) >= len(before) {
		t.Findings = after
	}
	return err
}

func (e *Engine) logPanic(i int, p any) {
	if e.panicked[i].CompareAndSwap(false, true) {
		e.log.Error("check panicked; further panics of it are not logged", "check", e.checks[i].Name(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	}
}

// merge drops those of fs[n:] that repeat an earlier one. A body stage may be judged more than
// once as the body arrives; there, a finding with a greater score replaces the earlier one.
func merge(fs []filter.Finding, n int, s filter.Stage) []filter.Finding {
	out := fs[:n]
next:
	for _, f := range fs[n:] {
		for j := range fs[:n] {
			g := &fs[j]
			if *g == f {
				continue next
			}
			if (s == filter.RequestBody || s == filter.ResponseBody) && g.Check == f.Check && g.Category == f.Category && g.Score != 0 && f.Score > g.Score {
				*g = f
				continue next
			}
		}
		out = append(out, f)
	}
	clear(fs[len(out):])
	return out
}

// coverNetworks builds the table of policies that could cover an address.
func (e *Engine) coverNetworks(cfg Config) {
	e.base = make([]uint64, (len(cfg)+63)/64)
	own := map[netip.Prefix][]int{}
	for i := range cfg {
		if len(cfg[i].Networks) == 0 {
			e.base[i>>6] |= 1 << (i & 63)
		}
		for _, n := range cfg[i].Networks {
			own[n.Prefix] = append(own[n.Prefix], i)
		}
	}
	if len(own) == 0 {
		return
	}
	e.nets = new(bart.Table[*[]uint64])
	for p := range own {
		e.nets.Insert(p, nil)
	}
	for p := range own {
		set := append([]uint64(nil), e.base...)
		for wider := range e.nets.Supernets(p) { // including p
			for _, i := range own[wider] {
				set[i>>6] |= 1 << (i & 63)
			}
		}
		e.nets.Insert(p, &set)
	}
}
