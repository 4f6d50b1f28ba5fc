// Package forward queries other name servers.
//
// [Forwarder.Exchange] finds the route with the longest suffix of the name, sorts its
// upstreams, and queries one or several of them. It queries the next one when an answer is
// late, missing or unusable. Each upstream has a transport (UDP with TCP, TCP, TLS, HTTPS,
// HTTP/3, QUIC) that keeps connections, a limit of waiting queries, a smoothed response time,
// and its health. After several failures it gets only probes, at growing intervals, until one
// is answered.
//
// Answers are parsed completely before they are used, see query.check. With validation they
// then go through package validate.
package forward

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/lib/dns"
	"shuultuur/lib/metric"
	"shuultuur/resolver/validate"
)

// An Option modifies a question.
type Option struct {
	DO     bool         // DNSSEC records are wanted
	CD     bool         // answers that do not validate are wanted too
	Subnet netip.Prefix // the client's network (RFC 7871), if upstreams may know it
	Set    uint8        // the number of the upstreams for names without a route, see [Config.Sets]; 0 for those of everybody
}

// An Error says why there is no answer.
type Error struct {
	EDE uint16 // an Extended DNS Error, RFC 8914, for the client
	Err error
	// Aliases is the valid beginning of an answer that is bogus after it, a message that ends in an
	// alias; nil if it has none.
	Aliases []byte
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// A Forwarder queries upstreams. It is safe for concurrent use.
type Forwarder struct {
	cfg       Config
	limits    limits
	upstreams []*upstream
	routes    map[string]*group   // by domain in wire form; "\x00" is everything
	sets      []*group            // of policies, instead of everything
	boot      *group              // looks up the names of upstreams; nil: none
	roots     *x509.CertPool      // nil: the system's
	validator *validate.Validator // nil: nothing is validated
	seconds   *metric.HistogramVec
	broken    atomic.Int64 // queries when every upstream was down
	refused   atomic.Int64 // queries when every upstream was full
	wake      chan struct{}
	watch     atomic.Pointer[Watch]

	life context.Context
	stop context.CancelFunc
	once sync.Once
	mu   sync.RWMutex   // held to begin an attempt, and to close
	wg   sync.WaitGroup // attempts in progress
}

// A group is the upstreams of a route.
type group struct {
	upstreams []*upstream
	order     Order
	race      int
	missing   bool // neither settings nor system name an upstream
}

const (
	mostAttempts = 12
	exploreOneIn = 50 // one in so many questions also goes to another upstream, to measure its speed
)

// Exchange queries the upstreams responsible for name, which is in wire form. It returns a
// whole answer message and the upstream that gave it. The message belongs to the caller. Its
// ID is meaningless, its question is name as given, and it has the upstream's OPT record; it
// is well formed. It may end in an alias ([dns.OpenAlias]), which the caller follows: upstreams
// are not asked about names that have others. A name of a route without upstreams does not exist; upstream is then empty.
//
// With validation, AD says that the answer is secure, and a bogus one is an error, unless
// opt.CD is set or the name has a route to which no chain of trust leads. Without validation,
// AD comes from the upstream. SERVFAIL or REFUSED from one
// upstream leads to the next. Config.Total and ctx bound the time. An error is an [*Error].
func (f *Forwarder) Exchange(ctx context.Context, name []byte, qtype, class uint16, opt Option) (msg []byte, upstream string, err error) {
	if dns.NameLen(name) != len(name) || len(name) == 0 {
		return nil, "", &Error{EDE: dns.EDENetwork, Err: fmt.Errorf("%q is not a name in wire form", name)}
	}
	q := &query{name: slices.Clone(name), qtype: qtype, class: class, opt: opt, watch: f.watching()}
	dns.ToLower(q.name)
	g, domain := f.route(q.name, qtype, opt.Set)
	if f.validator == nil || opt.CD || class != dns.ClassIN || len(g.upstreams) == 0 {
		return f.relay(ctx, q)
	}
	return f.validated(ctx, q, g, domain)
}

// Ask is Exchange for a caller that passes an Extended DNS Error (RFC 8914) to clients: ede is
// that of the error, or of an upstream's SERVFAIL or REFUSED, 0 if there was none. Of an answer that
// begins with valid aliases and is bogus after them it returns these: the caller, who follows them,
// may know the target, or hears that it is bogus.
func (f *Forwarder) Ask(ctx context.Context, name []byte, qtype, class uint16, do, cd bool) (msg []byte, ede uint16, err error) {
	return f.AskFor(0)(ctx, name, qtype, class, do, cd)
}

// AskFor is Ask with the upstreams of a number, see [Config.Sets].
func (f *Forwarder) AskFor(set uint8) func(ctx context.Context, name []byte, qtype, class uint16, do, cd bool) (msg []byte, ede uint16, err error) {
	return func(ctx context.Context, name []byte, qtype, class uint16, do, cd bool) ([]byte, uint16, error) {
		msg, _, err := f.Exchange(ctx, name, qtype, class, Option{DO: do, CD: cd, Set: set})
		var e *Error
		if errors.As(err, &e) {
			if e.Aliases != nil {
				return e.Aliases, 0, nil
			}
			return nil, e.EDE, err
		}
		return msg, extendedError(msg), err
	}
}

// Asked returns the servers that are asked for a name, in wire form.
func (f *Forwarder) Asked(name []byte, qtype uint16, set uint8) (all []string) {
	g, _ := f.route(name, qtype, set)
	for _, u := range g.upstreams {
		all = append(all, u.to)
	}
	return all
}

// relay queries the upstreams of the route of q.
func (f *Forwarder) relay(ctx context.Context, q *query) ([]byte, string, error) {
	g, _ := f.route(q.name, q.qtype, q.opt.Set)
	if len(g.upstreams) == 0 && !g.missing {
		return q.denial(), "", nil
	}
	msg, to, err := f.exchange(ctx, g, q)
	if err == nil {
		msg = f.within(q, g, msg)
	}
	return msg, to, err
}

// exchange queries a group within the time of a whole exchange.
func (f *Forwarder) exchange(ctx context.Context, g *group, q *query) ([]byte, string, error) {
	if len(g.upstreams) == 0 {
		return nil, "", &Error{EDE: dns.EDENoReachable, Err: fmt.Errorf("asking for %s: %w", dns.Text(q.name), errNone)}
	}
	a, to, err := f.ask(ctx, g, q)
	if err != nil {
		ede := uint16(dns.EDENetwork)
		if isTimeout(err) {
			ede = dns.EDENoReachable
		}
		return nil, to, &Error{EDE: ede, Err: fmt.Errorf("asking for %s: %w", dns.Text(q.name), err)}
	}
	return a.msg, to, nil
}

// route returns the group of the longest suffix, and that suffix, which is empty for names
// without a route of their own. DS records at a delegation belong to the parent, so its group
// answers them.
func (f *Forwarder) route(name []byte, qtype uint16, set uint8) (g *group, domain []byte) {
	const typeDS = 43
	if qtype == typeDS && len(name) > 1 {
		name = name[1+int(name[0]):]
	}
	for ; len(name) > 1; name = name[1+int(name[0]):] {
		if g := f.routes[string(name)]; g != nil {
			return g, name
		}
	}
	if set > 0 && int(set) <= len(f.sets) {
		return f.sets[set-1], nil
	}
	return f.routes["\x00"], nil
}

type result struct {
	u   *upstream
	a   answer
	err error
}

// ask works through the plan of a group: it queries the first ones at once, and each other one
// when those before it are late or have failed. An upstream is queried a second time only
// after a pause, because an immediate failure would repeat. The first good answer wins; of bad
// ones the first is kept as a fallback. Late attempts continue in the background, to measure
// the server.
func (f *Forwarder) ask(ctx context.Context, g *group, q *query) (answer, string, error) {
	plan, at, explored := f.plan(g, q.avoid)
	results := make(chan result, len(plan))
	end := time.Now().Add(f.limits.total)
	timer := time.NewTimer(f.limits.total)
	defer timer.Stop()

	var kept result
	lastErr := error(nil)
	next, pending := 0, 0
	once := len(g.upstreams) // so many come before the first repetition, which waits for the timer
	start := func() {
		u := plan[next]
		next++
		pending++
		f.attempt(u, q, u == explored, results)
		explored = nil
		timer.Reset(min(f.patience(g, u), time.Until(end)))
	}
	for range at {
		start()
	}
	for on := true; on && (pending > 0 || next < len(plan)); {
		select {
		case r := <-results:
			pending--
			if r.err == nil && !r.a.mayImprove() {
				return r.a, r.u.to, nil
			}
			if r.err != nil {
				lastErr = fmt.Errorf("upstream %s: %w", r.u.to, r.err)
			} else if kept.u == nil {
				kept = r
			}
			if r.err == nil || errors.Is(r.err, errFull) {
				plan = planWithout(plan, next, r.u) // it would answer the same again
			}
			switch {
			case errors.Is(r.err, errClosed):
				on = false
			case next < len(plan) && next != once:
				start()
			}
		case <-timer.C:
			switch left := time.Until(end); {
			case left <= 0:
				if lastErr == nil {
					lastErr = context.DeadlineExceeded
				}
				on = false
			case next < len(plan):
				start()
			default:
				timer.Reset(left)
			}
		case <-ctx.Done():
			if lastErr == nil {
				lastErr = ctx.Err()
			}
			on = false
		}
	}
	if kept.u != nil {
		return kept.a, kept.u.to, nil
	}
	if errors.Is(lastErr, errFull) {
		f.refused.Add(1)
	}
	return answer{}, "", lastErr
}

// attempt queries one upstream. The result goes to results, which has room for it.
func (f *Forwarder) attempt(u *upstream, q *query, exploring bool, results chan<- result) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.life.Err() != nil {
		results <- result{u, answer{}, errClosed}
		return
	}
	if !u.enter() {
		if exploring {
			u.exploring.Store(false)
		}
		results <- result{u, answer{}, errFull}
		return
	}
	began := time.Now()
	done := func(a answer, err error) {
		u.leave(a, err, time.Since(began), f.life.Err() != nil, f.alarm)
		if exploring {
			u.exploring.Store(false)
		}
		results <- result{u, a, err}
	}
	if over, ok := u.transport.(*udp); ok { // without a waiting goroutine
		over.begin(q, began.Add(f.limits.timeout), done)
		return
	}
	f.wg.Go(func() {
		ctx, cancel := context.WithTimeout(f.life, f.limits.timeout)
		defer cancel()
		done(u.exchange(ctx, q))
	})
}

// planWithout returns plan with u removed from i on.
func planWithout(plan []*upstream, i int, u *upstream) []*upstream {
	kept := plan[:i:i]
	for _, x := range plan[i:] {
		if x != u {
			kept = append(kept, x)
		}
	}
	return kept
}

func (f *Forwarder) patience(g *group, u *upstream) time.Duration {
	p := u.patience()
	if g.order == Strict {
		p *= strictFactor
	}
	return min(p, f.limits.timeout)
}

// alarm wakes Run to look for upstreams to probe.
func (f *Forwarder) alarm() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Run probes upstreams that are down and closes unused connections, until ctx ends; then it
// closes everything.
func (f *Forwarder) Run(ctx context.Context) error {
	defer f.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.life.Done():
			return nil
		case <-f.wake:
		case <-timer.C:
		}
		now := time.Now()
		for _, u := range f.upstreams {
			u.idle(now)
		}
		timer.Reset(f.probe(now))
	}
}

// probe queries the upstreams whose probe is due, and returns how long to wait for the next.
func (f *Forwarder) probe(now time.Time) time.Duration {
	next := streamIdle
	var wg sync.WaitGroup
	for _, u := range f.upstreams {
		down, at := u.health()
		if !down {
			continue
		}
		if at.After(now) {
			next = min(next, at.Sub(now))
			continue
		}
		wg.Go(func() { u.check(f.life, f.limits.timeout, f.watching()) })
		next = 0
	}
	wg.Wait()
	return max(next, 10*time.Millisecond)
}

// check queries an upstream for the root's name servers, which every server answers.
func (u *upstream) check(ctx context.Context, timeout time.Duration, w Watch) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	u.probes.Add(1)
	start := time.Now()
	_, err := u.exchange(ctx, &query{name: []byte{0}, qtype: 2, class: 1, watch: w})
	u.probed(err, time.Since(start))
}

// Close aborts queries in progress and closes all connections. It may be called more than
// once.
func (f *Forwarder) Close() error {
	f.once.Do(func() {
		f.mu.Lock()
		f.stop()
		f.mu.Unlock()
		for _, u := range f.upstreams {
			u.close()
		}
		f.wg.Wait()
	})
	return nil
}
