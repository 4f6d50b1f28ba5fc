package policy

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/bits"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gaissmai/bart"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/lib/metric"
	"shuultuur/policy/schedule"
	"shuultuur/policy/search"
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
	// Samples is the folder in which, for the report, the bodies are kept on which checks panicked.
	// "": none are.
	Samples string
}

// An Engine is a [filter.Decider]. It never changes and is safe for concurrent use; new
// settings make a new one.
type Engine struct {
	policies []*policy
	checks   []filter.Check
	heavy    uint64 // the set of heavy checks
	tunnel   uint64 // that of the check of tunnels
	metrics  *Metrics
	failures []metric.Counter // by check; nil: nothing is counted
	engines  search.Engines
	forced   *policy // of [Engine.As]

	// The policies that could cover an address, one bit each. base are those without networks;
	// every set in nets includes them.
	base []uint64
	nets *bart.Table[*[]uint64]
	// Likewise those that could cover a client by its names, in lower case. Those for whoever has the address
	// have no name.
	users, groups map[string][]uint64

	key        []byte
	memory     Memory
	counter    Counter
	flights    *flights
	revision   string
	pauses     *Pauses
	decided    *Decisions
	log        *slog.Logger
	samples    string      // folder for what checks panicked on; "": none is kept
	conditions []condition // of checks
	pool       *sync.Pool
	today      *atomic.Pointer[day]
	schedules  *schedule.Set // of policies and rules
	metered    bool          // some policy counts queries
	past       bool          // for recorded transactions: nobody waits for a fleet's counts
}

// holds returns how long an answer about a name may be kept by a client, 0 for as long as it likes: until a
// schedule changes, or a pause or a decision about the site ends.
func (e *Engine) holds(t *filter.Transaction, now time.Time) (left time.Duration) {
	left = e.schedules.Left(now)
	decided, _ := e.decided.find(&t.Client, t.Host, now)
	for _, d := range [...]time.Duration{e.pauses.remaining(&t.Client, now), decided} {
		if d > 0 && d < forGood {
			left = min(cmp.Or(left, d), d)
		}
	}
	return left
}

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
	if c.Unknown {
		return e.policyForUnknown(set, c, now)
	}
	named := append(make([][]uint64, 0, 8), e.users[""], e.users[strings.ToLower(c.User)]) // does not copy a name in lower case
	for _, g := range c.Groups {
		named = append(named, e.groups[strings.ToLower(g)])
	}
	for word, b := range set {
		may := uint64(0)
		for _, n := range named {
			if n != nil {
				may |= n[word]
			}
		}
		for b &= may; b != 0; b &= b - 1 {
			if p := e.policies[word<<6+bits.TrailingZeros64(b)]; p.covers(c, now) {
				return p
			}
		}
	}
	return nil
}

// covers tests everything but the network. A policy that is only for clients with unknown
// groups covers no other.
func (p *policy) covers(c *filter.Client, now time.Time) bool {
	if p.groups == nil && p.unknown || p.groups != nil && !anyIn(p.groups, c.Groups) {
		return false
	}
	return p.mayCover(c, now)
}

// anyIn reports whether a folded set has one of the names, in whatever case: directories do not
// distinguish it, and nobody shall escape a policy by another spelling.
func anyIn(set map[string]struct{}, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { _, ok := set[strings.ToLower(n)]; return ok }) // does not copy a name in lower case
}

// foldedSet returns the set of names in lower case, nil for none.
func foldedSet(names []string) map[string]struct{} {
	if len(names) == 0 {
		return nil
	}
	m := map[string]struct{}{}
	for _, n := range names {
		m[strings.ToLower(n)] = struct{}{}
	}
	return m
}

// Decrypts reports whether the policy that covers t's client wants TLS connections decrypted.
func (e *Engine) Decrypts(t *filter.Transaction) bool {
	p := e.policyFor(&t.Client, timeOf(t))
	return p != nil && p.decrypt
}

// Stores reports whether the policy that covers t's client lets a cache store responses
// that arrived encrypted.
func (e *Engine) Stores(t *filter.Transaction) bool {
	p := e.policyFor(&t.Client, timeOf(t))
	return p != nil && p.store
}

// AsksJA4 reports whether a rule needs the fingerprint of the client's hello.
func (e *Engine) AsksJA4() bool {
	return slices.ContainsFunc(e.policies, func(p *policy) bool {
		return slices.ContainsFunc(p.rules, func(r *rule) bool { return r.ja4 != nil })
	})
}

// AsksTunnels reports whether a policy needs what is said first in a tunnel.
func (e *Engine) AsksTunnels() bool {
	return slices.ContainsFunc(e.policies, func(p *policy) bool {
		return slices.ContainsFunc(p.checks, func(i int) bool { return e.tunnel>>i&1 != 0 })
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

func (e *Engine) walk(p *policy, t *filter.Transaction, s filter.Stage, now time.Time) walk {
	w := walk{e: e, p: p, t: t, stage: s, last: max(s, t.Last), now: now, host: p.any, paused: e.pauses.remaining(&t.Client, now)}
	if left, block := e.decided.find(&t.Client, t.Host, now); block {
		w.blocked = w.paused == 0
	} else if left > w.paused {
		w.paused, w.opened = left, true
	}
	if len(p.hosts)+len(p.excepts) == 0 {
		return w
	}
	host := dns.Canonical(t.Host)
	w.host.addAll(p.hosts, host)
	if len(p.excepts) > 0 {
		var excepted ruleSet
		excepted.addAll(p.excepts, host)
		for i := range w.host {
			w.host[i] &^= excepted[i]
		}
	}
	return w
}

// timeOf returns the time by which a transaction is judged. It is that of its beginning at all
// stages, so a schedule that closes in between does not split it.
func timeOf(t *filter.Transaction) time.Time {
	if t.Start.IsZero() {
		return time.Now()
	}
	return t.Start
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

// coverNames notes which policies could cover a client by its names. One with users and groups is for
// clients that have both.
func (e *Engine) coverNames() {
	e.users, e.groups = map[string][]uint64{}, map[string][]uint64{}
	for i, p := range e.policies {
		names, to := p.users, e.users
		if p.groups != nil {
			names, to = p.groups, e.groups
		} else if names == nil {
			names = map[string]struct{}{"": {}}
		}
		for n := range names {
			if to[n] == nil {
				to[n] = make([]uint64, len(e.base))
			}
			to[n][i>>6] |= 1 << (i & 63)
		}
	}
}

// Covers returns the name of the policy that covers a client, "" for none.
func (e *Engine) Covers(c *filter.Client, now time.Time) string {
	if p := e.policyFor(c, now); p != nil {
		return p.name
	}
	return ""
}

// Metrics returns the counters of the engine, nil for none.
func (e *Engine) Metrics() *Metrics { return e.metrics }

// Collect implements [metric.Collector].
func (e *Engine) Collect(ch chan<- metric.Metric) {
	if e.metrics != nil {
		e.metrics.Collect(ch)
	}
}
