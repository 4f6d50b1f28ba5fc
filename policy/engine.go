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

// Parts are what an engine works with besides settings and checks. All may be
// left out.
type Parts struct {
	// Key signs warn tokens. Without one a random key is made, and what users
	// have clicked through is forgotten with the engine.
	Key []byte
	// Memory holds learned verdicts. Without one nothing is learned.
	Memory Memory
	// Counter counts for limits, quotas and the clicks on warn pages. Without
	// one there are no limits, and a click may be used again.
	Counter Counter
	// Revision stands for the settings and lists that the checks work with:
	// engines with the same revision share learned verdicts. Without one they
	// are the engine's own.
	Revision string
	Pauses   *Pauses // nil: there are none
	// Decisions are what people have decided about votes; nil: there are none.
	Decisions *Decisions
	// Watch are rules that stand in front of those of each policy, and only
	// monitor.
	Watch   []Rule
	Metrics *Metrics     // nil: nothing is counted
	Log     *slog.Logger // slog.Default unless given
}

// An Engine is a [filter.Decider]. It never changes and is used by many
// goroutines at once; new settings make a new one.
type Engine struct {
	policies []*policy
	checks   []filter.Check
	heavy    uint64 // which of them are
	metrics  *Metrics
	failures []*metric.Counter // by check; nil counts nothing
	engines  map[string]*engine
	forced   *policy // of [Engine.As]

	// Which policies could cover an address: a bit for each. base are those
	// that do not ask for one; every set in nets holds them too.
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
	metered  bool // a policy counts queries
}

// A policy is a Policy made ready.
type policy struct {
	name     string
	users    map[string]struct{}
	groups   map[string]struct{}
	when     []hours
	rules    []*rule
	refs     map[category][]ref
	checks   []int               // that count, cheap ones first
	always   ruleSet             // rules that name no category
	monitors ruleSet             // rules that only monitor
	hosts    map[string]*ruleSet // rules by the hosts they ask for
	any      ruleSet             // rules that ask for none
	presets
	names   filter.Names
	learn   time.Duration
	decrypt bool
	store   bool
	hide    bool
	reading
	// warnClosed refuses a click when it is not known whether it is the first.
	warnClosed bool

	limits  []limit // of requests
	queries []limit // of queries
	quotas  []limit
	rations []ration
	uploads *uploads // what rules look for in the bodies of requests; nil for nothing
	varies  []int    // rules on which two requests for one URL may differ
}

// A reading is how bodies are read.
type reading struct {
	patience  time.Duration
	disguised bool
	watched
}

// A category as a check reports it.
type category struct{ check, name string }

// A ref is what a finding means to a rule.
type ref struct {
	rule   int
	scored bool // only with a score over the rule's limit
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

// covers asks for everything but the network.
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

// PolicyFor returns the name of the policy that covers a client at a time, ""
// when none does.
func (e *Engine) PolicyFor(c filter.Client, now time.Time) string {
	if p := e.policyFor(&c, now); p != nil {
		return p.name
	}
	return ""
}

// Decrypts says whether the policy that covers t's client wants TLS connections
// to be looked into.
func (e *Engine) Decrypts(t *filter.Transaction) bool {
	p := e.policyFor(&t.Client, (*clock)(t).now())
	return p != nil && p.decrypt
}

// Stores says whether the policy that covers t's client lets a cache keep what
// was encrypted on its way to the proxy.
func (e *Engine) Stores(t *filter.Transaction) bool {
	p := e.policyFor(&t.Client, (*clock)(t).now())
	return p != nil && p.store
}

// AsksJA4 says whether a rule asks for the fingerprint of the client's hello.
func (e *Engine) AsksJA4() bool {
	return slices.ContainsFunc(e.policies, func(p *policy) bool {
		return slices.ContainsFunc(p.rules, func(r *rule) bool { return r.ja4 != nil })
	})
}

// As returns a decider that judges every client by the policy with this name.
// It neither learns nor uses what was learned, so that all is worked out.
func (e *Engine) As(name string) (filter.Decider, error) {
	p := e.named(name)
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

// named is the policy called name, nil when there is none.
func (e *Engine) named(name string) *policy {
	for _, p := range e.policies {
		if p.name == name {
			return p
		}
	}
	return nil
}

// A walk is one decision under way.
type walk struct {
	e           *Engine
	p           *policy
	t           *filter.Transaction
	stage, last filter.Stage
	now         time.Time

	host          ruleSet       // rules that the host does not rule out
	found, unless ruleSet       // by findings: one of its categories, one that bars it
	ran           uint64        // checks that have had their turn at this stage
	warned        bool          // the client has clicked through a warning about the certificate
	soon          bool          // first came to a rule that waits for a check of this stage
	paused        time.Duration // how much longer filtering is paused for the client, 0: it is not
	opened        bool          // because of a decision about the site
	blocked       bool          // a decision blocks the site
	lifted        *rule         // the first rule that would refuse but for that
	asked, wanted uint64        // checks asked whether they want a later stage, and the answer
	upload        *uploadScan   // of the request's body, at that stage
	s             *scratch
}

func (e *Engine) walk(p *policy, t *filter.Transaction, s filter.Stage, now time.Time) walk {
	w := walk{e: e, p: p, t: t, stage: s, last: max(s, t.Last), now: now, host: p.any, paused: e.pauses.left(&t.Client, now)}
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

// addAll adds the rules that ask for the host or one above it.
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

// clock is a transaction asked for the time: all its stages are judged by the
// time it began, so that a window that closes in between does not tear it.
type clock filter.Transaction

// Decide asks the checks that count at stage s and lets the rules decide. See
// the package comment for the order.
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
	var before quotaSet // quotas that were looked at
	if counts && s > filter.Request {
		before = p.rationed(t, allChecks)
	}
	w := e.walk(p, t, s, now)
	if w.blocked {
		w.release()
		return e.blockDecided(p, t)
	}
	w.decide(ctx)
	w.release()
	if counts && spends(t, s) {
		set := p.rationed(t, allChecks)
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
		if w.run(ctx, i) || w.soon {
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

// dropParams makes edits of the parameters that lists take out of the query.
// Edits of the policy are shared: they are copied first.
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

// run gives a check its turn at this stage and reports whether it found
// anything. What costs much is only done if it could still change the verdict.
func (w *walk) run(ctx context.Context, i int) (found bool) {
	bit := uint64(1) << i
	costly := w.e.checks[i].Cost() == filter.Heavy || w.stage == filter.RequestBody || w.stage == filter.ResponseBody
	if w.e.wants(i, w.t, w.stage) && (!costly || w.matters(bit) || w.rations(bit)) {
		found = w.e.find(ctx, w.t, w.stage, i)
	}
	w.ran |= bit
	return found
}

// count works out what the findings mean to the rules.
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

// first returns the first rule that fits if that is certain, else nil and
// whether a rule might fit that waits for something.
func (w *walk) first() (r *rule, undecided bool) {
	w.soon, w.lifted = false, nil
	for word := range w.found {
		b := (w.p.always[word] | w.found[word]) &^ w.unless[word] & w.host[word] &^ w.p.monitors[word]
		for ; b != 0; b &= b - 1 {
			i := word<<6 + bits.TrailingZeros64(b)
			switch w.fits(i) {
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

// mayYield says whether an earlier rule is open that could change what happens
// to the client, compared with the rule i, which fits.
func (w *walk) mayYield(i int) bool {
	refuses := w.p.rules[i].action >= filter.Warn
	for j := range i {
		if w.p.rules[j].monitors && (refuses || !awaits(w, j)) || refuses && w.p.rules[j].action == filter.Block && w.p.rules[j].show == filter.Nothing {
			continue
		}
		if w.fits(j) == maybe {
			return true
		}
	}
	return false
}

// fits says whether rule i fits, as far as is known.
func (w *walk) fits(i int) answer {
	r := w.p.rules[i]
	if w.unless.has(i) || !w.host.has(i) || r.implied && w.warned {
		return no
	}
	a := yes
	if r.found && !w.found.has(i) {
		if !w.could(r.finds) {
			return no
		}
		a = maybe
	}
	if r.unless != 0 && a == yes && w.could(r.unless) {
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
		return maybe // the cookie comes with the request
	}
	if w.accepted(r) {
		w.noteAccepted(r)
		w.warned = w.warned || r.certificate && w.found.has(i)
		return no
	}
	return yes
}

// could says whether one of the checks may report something yet, at this
// stage or at a later one that the transaction comes to.
func (w *walk) could(checks uint64) bool {
	for b := checks; b != 0; b &= b - 1 {
		i := bits.TrailingZeros64(b)
		if w.ran>>i&1 == 0 && w.e.wants(i, w.t, w.stage) {
			w.soon = true
			return true
		}
		if w.later(i) {
			return true
		}
	}
	return false
}

// later says whether a check wants a stage after this one.
func (w *walk) later(i int) bool {
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

// matters says whether what these checks could still report might change the
// verdict.
func (w *walk) matters(checks uint64) bool {
	for i, r := range w.p.rules {
		if w.unless.has(i) || !w.host.has(i) || w.lifts(r) && len(r.locked) == 0 || r.monitors && w.p.monitored(w.t, r) {
			continue
		}
		missing := r.found && !w.found.has(i)
		if missing && !w.could(r.finds) {
			continue
		}
		if (missing && r.finds&checks != 0 || r.unless&checks != 0) && r.holds(w) != no {
			return true
		}
		if !missing && r.unless == 0 && r.action != filter.Warn && !r.monitors && r.holds(w) == yes {
			return false // it fits; what comes after it is not asked
		}
	}
	return false
}

// Refused implements [filter.Witness].
func (e *Engine) Refused(t *filter.Transaction, head []byte) {
	for _, c := range e.checks {
		if w, ok := c.(filter.Witness); ok {
			w.Refused(t, head)
		}
	}
}

// Wants says whether the policy's checks want stage s and could still change
// the verdict, or what counts for a quota, by what they find there. It may be asked before or after Decide
// has been called for the stage before s.
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
	return w.matters(checks) || w.rations(checks) || s == filter.ResponseBody && (w.needsType() || needsPicture(&w)) || s == filter.RequestBody && needsUpload(&w)
}

// needsType says whether a rule waits to see what type a body is, because the
// origin does not say.
func (w *walk) needsType() bool {
	if w.t.Response == nil || !vague(w.t.Content().Type()) {
		return false
	}
	unknown := w.t.Content().Type() == ""
	for i, r := range w.p.rules {
		if (r.types != nil && unknown || r.extTypes != nil) && w.fits(i) == maybe {
			return true
		}
	}
	return false
}

// needsPicture says whether a rule waits for the bytes of a picture, to show
// something else in its place.
func needsPicture(w *walk) bool {
	if w.t.Response == nil || w.t.Content().Type() == "" || !mayBePicture(w.t) {
		return false
	}
	for i, r := range w.p.rules {
		if r.show != filter.Nothing && (!r.found || w.found.has(i)) && w.fits(i) == maybe {
			return true
		}
	}
	return false
}

// fit makes the verdict of a rule that fits.
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
		v.To = r.to.host // an answer has no room for more
	case r.action == filter.Warn:
		v.To = w.token(forClick, r)
	case r.action == filter.Redirect:
		v.To = r.to.url(w.t)
	}
	if v.Final() {
		v.Edits, v.Patience = nil, 0
	}
}

// reason returns the finding the rule fitted, the first of them.
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

// wants asks a check. One that panics is taken to want the stage: its Find
// then says what is wrong.
func (e *Engine) wants(i int, t *filter.Transaction, s filter.Stage) (wants bool) {
	defer func() {
		if p := recover(); p != nil {
			e.logPanic(i, p)
			wants = true
		}
	}()
	return e.checks[i].Wants(t, s)
}

// find lets a check append its findings and says whether there are any. An
// error or a panic becomes the finding "<check>-error".
func (e *Engine) find(ctx context.Context, t *filter.Transaction, s filter.Stage, i int) bool {
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

// merge drops those of fs[n:] that say what an earlier one says. At a body
// stage, which may be judged more than once as more of the body comes, a
// finding with a greater score takes the place of the one before.
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

// coverNetworks builds the table of which policies could cover an address.
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
		for wider := range e.nets.Supernets(p) { // p among them
			for _, i := range own[wider] {
				set[i>>6] |= 1 << (i & 63)
			}
		}
		e.nets.Insert(p, &set)
	}
}
