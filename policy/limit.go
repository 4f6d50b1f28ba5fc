package policy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/clock"
	"shuultuur/lib/setting"
	"shuultuur/state"
)

// A Counter counts requests, time and bytes of clients, for one node or a fleet.
type Counter interface {
	Count(ctx context.Context, counts []state.Count)
	// CountHere uses the counts that this node knows, and neither waits nor
	// allocates.
	CountHere(counts []state.Count)
}

// A Limit bounds how many requests, or DNS queries, a client may make in a sliding window.
// Every one counts, whatever its verdict, except those over the limit.
type Limit struct {
	Requests Rate   `yaml:"requests"` // "100/1m"; either this or queries
	Queries  Rate   `yaml:"queries"`
	By       string `yaml:"by"`     // client (default), user, policy or host
	Prefix   int    `yaml:"prefix"` // bits of an IPv6 address that count as one client, 1 to 128; default 64, of which a machine may use any
	OnLoss   OnLoss `yaml:"on-loss"`
}

// A Quota bounds use of the web, or of some categories, per day. The day ends at midnight in
// the gateway's time zone. Requests that an allow rule lets through are not counted.
type Quota struct {
	Category Names    `yaml:"category"` // one or more; default: everything
	Service  Names    `yaml:"service"`  // well-known services, one or more
	Over     *int     `yaml:"over"`     // the limit for scored categories, as in a Rule
	Time     Duration `yaml:"time"`     // in whole minutes, as [filter.Minutes] counts them
	Bytes    Size     `yaml:"bytes"`    // in both directions, bodies only
	// Queries says that minutes with a DNS query count, too. Default: for clients that have sent no
	// request today, of which only names are known.
	Queries *bool  `yaml:"queries"`
	By      string `yaml:"by"` // user (default), client or policy
	OnLoss  OnLoss `yaml:"on-loss"`
}

// OnLoss sets the behaviour while the fleet's counts are unknown: open continues with the
// counts that this node knows, closed refuses.
type OnLoss string

// A Rate is a number of requests or queries per time: "100/1m", "5000/1d".
type Rate struct {
	Most int64
	In   time.Duration
}

func (r *Rate) UnmarshalText(text []byte) error {
	n, in, ok := strings.Cut(string(text), "/")
	most, err := strconv.ParseInt(n, 10, 64)
	var d Duration
	if !ok || err != nil || most < 1 || most > 1<<40 || d.UnmarshalText([]byte(in)) != nil || d.Or(0) < time.Second || d.Or(0) > 31*24*time.Hour {
		return fmt.Errorf(`%q is not a rate; write a number and a time from a second to 31 days, like "100/1m"`, text)
	}
	*r = Rate{most, time.Duration(d)}
	return nil
}

// MarshalText writes a rate in the form of the settings.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

func (r Rate) String() string { return fmt.Sprintf("%d/%s", r.Most, formatDuration(r.In)) }

// A Size is a number of bytes: "500MB", "2GiB", "1000000".
type Size int64

var units = []struct {
	name  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1}}

func (s *Size) UnmarshalText(text []byte) error {
	for _, u := range units {
		if n, ok := strings.CutSuffix(string(text), u.name); ok {
			if v, err := strconv.ParseInt(strings.TrimSpace(n), 10, 64); err == nil && v >= 0 && v < 1<<62/u.bytes {
				*s = Size(v * u.bytes)
				return nil
			}
		}
	}
	return fmt.Errorf(`%q is not a number of bytes; write it like "500MB" or "2GiB"`, text)
}

func (s Size) String() string {
	for _, u := range []int{6, 5, 4, 3} {
		if u := units[u]; int64(s) >= u.bytes {
			return strings.TrimSuffix(strconv.FormatFloat(float64(s)/float64(u.bytes), 'f', 1, 64), ".0") + " " + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + " bytes"
}

// Names are one name or a list of them.
type Names []string

// UnmarshalYAML reads one name or a list.
func (n *Names) UnmarshalYAML(read func(any) error) error {
	var one string
	if read(&one) == nil {
		*n = Names{one}
		return nil
	}
	return read((*[]string)(n))
}

// maxLimits bounds the limits of a policy, and its quotas.
const maxLimits = 64

// A limit is a compiled Limit or Quota.
type limit struct {
	name   string // for events: "limit 100/1m by client"
	words  string // for the block page
	of, by string // for a Quota: "games, video" or "everything"; client, user, host or policy

	policy, kind, counts string     // of its counters: whose; limit, quota or requests; of what
	renamed              *Decisions // for a Quota: have the name under which its policy counts

	prefix  int // of an IPv6 address that counts as one client; 0 for all of it
	most    int64
	window  time.Duration // for a Limit
	minutes bool          // for a Quota: counts minutes, not bytes
	every   bool          // for a Quota: names no category
	queries bool          // for a Quota: a query marks its minute
	unsaid  bool          // the same for clients that send no requests
	closed  bool
}

func (l *limit) subject(by string, allowed ...string) error {
	l.by = by
	for _, a := range allowed {
		if by == a {
			return nil
		}
	}
	return setting.At("by", fmt.Errorf("%q is not one of %s", by, strings.Join(allowed, ", ")))
}

// closed reports whether o, the value of key, is closed.
func (o OnLoss) closed(key string) (bool, error) {
	switch o {
	case "", "open", "closed":
		return o == "closed", nil
	}
	return false, setting.At(key, fmt.Errorf("%q is neither open nor closed", o))
}

// compileLimits compiles the limits and quotas of a policy.
func (p *policy) compileLimits(s *Policy, v *vocabulary) error {
	if len(s.Limits) > maxLimits || len(s.Quotas) > maxLimits {
		return setting.At("limits", fmt.Errorf("a policy has at most %d limits and %d quotas", maxLimits, maxLimits))
	}
	for i := range s.Limits {
		l, err := compileLimit(&s.Limits[i], s.Name)
		switch {
		case err != nil:
			return setting.At(fmt.Sprintf("limits[%d]", i), err)
		case s.Limits[i].Queries.Most > 0:
			p.queries = append(p.queries, l)
		default:
			p.limits = append(p.limits, l)
		}
	}
	for i := range s.Quotas {
		if err := p.quota(&s.Quotas[i], s.Name, v); err != nil {
			return setting.At(fmt.Sprintf("quotas[%d]", i), err)
		}
	}
	return nil
}

func compileLimit(s *Limit, policy string) (l limit, err error) {
	rate, what, name := s.Requests, "requests", "limit "
	switch {
	case s.Queries.Most > 0 && rate.Most > 0:
		return l, setting.At("queries", errors.New("a limit counts requests or queries; write two limits"))
	case s.Queries.Most > 0:
		rate, what, name = s.Queries, "queries", "limit of queries "
	case rate.Most == 0:
		return l, setting.At("requests", errors.New(`give a number of requests or queries and a time, like "100/1m"`))
	}
	by := s.By
	if by == "" {
		by = "client"
	}
	if s.Prefix < 0 || s.Prefix > 128 || s.Prefix > 0 && by != "client" && by != "user" {
		return l, setting.At("prefix", fmt.Errorf("%d is not a number of bits of an IPv6 address, 1 to 128, for a limit by client or user", s.Prefix))
	}
	l = limit{most: rate.Most, window: rate.In, prefix: cmp.Or(s.Prefix, 64)}
	if err = l.subject(by, "client", "user", "policy", "host"); err != nil {
		return l, err
	}
	l.name = name + rate.String() + " by " + by
	l.words = fmt.Sprintf("more than %d %s in %s were made", l.most, what, formatDuration(l.window))
	l.policy, l.kind, l.counts = policy, "limit", l.name
	l.closed, err = s.OnLoss.closed("on-loss")
	return l, err
}

// quota compiles a quota: one limit for its time, and one for its bytes.
func (p *policy) quota(s *Quota, policy string, v *vocabulary) error {
	by := s.By
	if by == "" {
		by = "user"
	}
	of := "everything"
	services, err := v.services(s.Service)
	if err != nil {
		return err
	}
	categories := slices.Concat(s.Category, services)
	if len(categories) > 0 {
		of = strings.Join(slices.Concat(s.Category, s.Service), ", ")
	}
	proto := limit{every: len(categories) == 0, queries: s.Queries != nil && *s.Queries, unsaid: s.Queries == nil, of: of, renamed: v.renamed}
	if err := proto.subject(by, "user", "client", "policy"); err != nil {
		return err
	}
	if proto.closed, err = s.OnLoss.closed("on-loss"); err != nil {
		return err
	}
	if s.Time == 0 && s.Bytes == 0 {
		return setting.At("time", errors.New("a quota needs time or bytes, or both"))
	}
	if d := s.Time.Or(0); d%time.Minute != 0 || d > 24*time.Hour {
		return setting.At("time", fmt.Errorf("%v is not a whole number of minutes of a day", d))
	}
	if proto.queries && s.Time == 0 {
		return setting.At("queries", errors.New("a query counts as minutes, not bytes; add time"))
	}
	add := func(most int64, unit string) {
		l := proto
		l.most, l.minutes = most, unit == "minutes"
		amount := l.amount(most)
		l.name = "quota " + amount + " of " + of + " by " + by
		l.words = "the " + amount + " a day for " + of + " are used up"
		l.policy, l.kind, l.counts = policy, "quota", p.quotaCounts(unit+" of "+of+" by "+by)
		p.quotas = append(p.quotas, l)
	}
	first := len(p.quotas)
	if s.Time > 0 {
		add(int64(s.Time.Or(0)/time.Minute), "minutes")
		if proto.unsaid {
			p.requests = &limit{policy: policy, kind: "requests", by: "client", minutes: true, renamed: v.renamed}
		}
	}
	if s.Bytes > 0 {
		add(int64(s.Bytes), "bytes")
	}
	scored := false
	over, err := threshold(s.Over)
	if err != nil {
		return err
	}
	for i, name := range categories {
		es, err := v.categoriesNamed(name, s.Over != nil)
		if err != nil {
			return setting.At(fmt.Sprintf("category[%d]", i), err)
		}
		for _, e := range es {
			if e.check < 0 {
				continue
			}
			scored = scored || e.scored
			for q := first; q < len(p.quotas); q++ {
				p.rations = append(p.rations, ration{category{e.checkName, strings.ToLower(e.name)}, q, e.check, e.scored, over})
			}
		}
	}
	if s.Over != nil && !scored {
		return setting.At("over", errors.New("none of the quota's categories is scored, so the limit has no effect; remove it"))
	}
	return nil
}

// quotaCounts returns what a quota's counters count. The amount is no part of it, so that what was used
// counts on when somebody changes the amount. Of two quotas of the same use, the later has a counter of its
// own.
func (p *policy) quotaCounts(what string) string {
	for i := range p.quotas {
		if p.quotas[i].counts == what {
			what += "\x00again"
		}
	}
	return what
}

// A ration says that a category counts for a quota.
type ration struct {
	category category
	quota    int
	check    int
	scored   bool // only with a score above over
	over     int
}

func (r *ration) counts(f *filter.Finding) bool {
	return !f.Wrapped && r.category.check == f.Check && strings.EqualFold(f.Category, r.category.name) && (!r.scored || f.Score > r.over)
}

// A quotaSet holds quotas of a policy, one bit each.
type quotaSet [2 * maxLimits / 64]uint64

func (s *quotaSet) add(i int)      { s[i>>6] |= 1 << (i & 63) }
func (s *quotaSet) has(i int) bool { return s[i>>6]>>(i&63)&1 != 0 }
func (s *quotaSet) less(other quotaSet) (d quotaSet) {
	for i := range s {
		d[i] = s[i] &^ other[i]
	}
	return d
}

// formatDuration formats a duration without trailing zeros: "25m", "1h", "0m".
func formatDuration(d time.Duration) string {
	if d == 0 {
		return "0m"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// client returns the address that a client is counted by. Link-local addresses are those of different
// machines.
func (l *limit) client(a netip.Addr) netip.Addr {
	if l.prefix == 0 || !a.Is6() || a.IsLinkLocalUnicast() {
		return a
	}
	p, _ := a.Prefix(l.prefix) // it fits
	return p.Addr()
}

// counter returns the key of the counter for the subject of a transaction.
func (l *limit) counter(t *filter.Transaction, day string) (key [16]byte) {
	b := append(append(make([]byte, 0, 256), l.kind...), 0)
	b = append(append(b, l.renamed.countedAs(l.policy, day)...), 0)
	if l.counts != "" {
		b = append(append(b, l.counts...), 0)
	}
	b = append(append(b, day...), 0)
	switch {
	case l.by == "user" && t.Client.User != "":
		b = append(append(b, 'u'), strings.ToLower(t.Client.User)...)
	case l.by == "host":
		b = append(append(b, 'h'), t.Host...)
	case l.by == "policy":
	default:
		b = l.client(t.Client.Addr).AppendTo(append(b, 'a'))
	}
	sum := sha256.Sum256(b)
	return [16]byte(sum[:16])
}

// countOne returns the count of one more request, for a Limit.
func (l *limit) countOne(t *filter.Transaction) state.Count {
	return state.Count{Key: l.counter(t, ""), Window: l.window, Add: 1, Most: l.most}
}

// readCount returns a count that adds nothing, for a Quota.
func (l *limit) readCount(t *filter.Transaction, d *day) state.Count {
	return state.Count{Key: l.counter(t, d.name), Until: d.end, Set: l.minutes, Member: -1}
}

// A day is the day of a transaction.
type day struct {
	name       string
	begin, end time.Time
}

func newDay(now time.Time) *day {
	return &day{now.Format(time.DateOnly), clock.Day(now, 0), clock.Day(now, 1)}
}

// dayOf returns the day of now, computed once a day.
func (e *Engine) dayOf(now time.Time) *day {
	d := e.today.Load()
	if d == nil || now.Before(d.begin) || !now.Before(d.end) || now.Location() != d.begin.Location() {
		d = newDay(now)
		e.today.Store(d)
	}
	return d
}

// minute returns the number of a minute in the day. A day with 25 hours has 1500.
func (d *day) minute(at time.Time) int {
	return int(min(at.Sub(d.begin), d.end.Sub(d.begin)-1) / time.Minute)
}

// begins reports whether a request counts at this stage: when its host is judged for the first
// time. A tunnel counts if it is not decrypted.
func begins(t *filter.Transaction, s filter.Stage) bool {
	return s == filter.Name && t.Verdict.Reason.Policy == "" && (t.Proto == filter.HTTP || t.Proto == filter.TLS && t.Last == filter.Name)
}

// spends reports whether quotas are tested at this stage: when all is known that can be before
// anything is fetched, and when more has been found since.
func spends(t *filter.Transaction, s filter.Stage) bool {
	return t.Verdict.Action == filter.Pass &&
		(t.Proto == filter.HTTP && s >= filter.Request || t.Proto == filter.TLS && s == filter.Name && t.Last == filter.Name)
}

// limited counts a request against the limits of its policy and refuses it if one is exceeded.
// It reads the quotas at the same time, so that a request waits for the fleet's counts once.
func (e *Engine) limited(ctx context.Context, p *policy, t *filter.Transaction, now time.Time) bool {
	if e.past && len(p.limits) == 0 {
		return false
	}
	counts := make([]state.Count, 0, len(p.limits)+len(p.quotas))
	for i := range p.limits {
		l := &p.limits[i]
		counts = append(counts, l.countOne(t))
	}
	if len(p.quotas) > 0 && !e.past {
		d := e.dayOf(now)
		for i := range p.quotas {
			l := &p.quotas[i]
			counts = append(counts, l.readCount(t, d))
		}
	}
	e.counter.Count(ctx, counts)
	for i := range p.limits {
		if n, l := &counts[i], &p.limits[i]; n.Over || l.closed && !n.Known {
			p.refuse(t, l, "limit", n, n.After)
			return true
		}
	}
	return false
}

// lossRetry is when a client may retry that was refused because its use is unknown.
const lossRetry = 5 * time.Second

// refuse makes the verdict of an exceeded limit.
func (p *policy) refuse(t *filter.Transaction, l *limit, kind string, n *state.Count, after time.Duration) {
	f := filter.Finding{Check: "policy", Category: kind, Evidence: l.words}
	if !n.Over && l.closed && !n.Known {
		f.Evidence, after = "the use of limits cannot be counted at the moment", lossRetry
	}
	t.Findings = append(t.Findings, f)
	t.Verdict = filter.Verdict{Action: filter.Block, After: max(after, time.Second), Reason: filter.Reason{Policy: p.name, Rule: l.name, Finding: f}, Names: p.names}
}

// quotasFor returns the quotas that count for the findings of some checks.
func (p *policy) quotasFor(t *filter.Transaction, checks uint64) (set quotaSet) {
	for i := range p.quotas {
		if p.quotas[i].every {
			set.add(i)
		}
	}
	if len(p.rations) == 0 {
		return set
	}
	for i := range t.Findings {
		for j := range p.rations {
			if r := &p.rations[j]; checks>>r.check&1 != 0 && r.counts(&t.Findings[i]) {
				set.add(r.quota)
			}
		}
	}
	return set
}

const allChecks = ^uint64(0)

// mayCount reports whether findings still to come from these checks could count for another
// quota.
func (w *walk) mayCount(checks uint64) bool {
	if w.e.counter == nil || len(w.p.rations) == 0 {
		return false
	}
	set := w.p.quotasFor(w.t, allChecks)
	for i := range w.p.rations {
		if r := &w.p.rations[i]; checks>>r.check&1 != 0 && !set.has(r.quota) {
			return true
		}
	}
	return false
}

// rationedBody reports whether the page itself, rather than its address, counts for a quota.
func (w *walk) rationedBody() bool {
	if w.e.counter == nil || len(w.p.rations) == 0 {
		return false
	}
	var checks uint64
	for _, i := range w.p.checks {
		if w.e.wants(i, w.t, filter.ResponseBody) {
			checks |= 1 << i
		}
	}
	return w.p.quotasFor(w.t, checks) != w.p.quotasFor(w.t, 0)
}

// spend refuses a request for which one of the quotas of set is used up.
func (e *Engine) spend(ctx context.Context, p *policy, t *filter.Transaction, set quotaSet, now time.Time) {
	if set == (quotaSet{}) {
		return
	}
	d, extra := e.dayOf(now), e.decided.minutes(&t.Client, now)
	counts := make([]state.Count, 0, len(p.quotas))
	for i := range p.quotas {
		l := &p.quotas[i]
		n := l.readCount(t, d)
		if set.has(i) {
			if n.Most = l.most; l.minutes {
				n.Most, n.Member = l.most+extra, d.minute(now)
			}
		}
		counts = append(counts, n)
	}
	e.counter.Count(ctx, counts)
	for i := range counts {
		n, l := &counts[i], &p.quotas[i]
		if n.Most == 0 {
			continue
		}
		// Earlier requests may have used more than was left.
		n.Over = n.Over || n.Sum > n.Most || !l.minutes && n.Sum == n.Most
		if n.Over || l.closed && !n.Known {
			p.refuse(t, l, "quota", n, d.end.Sub(now))
			return
		}
	}
}

// Query counts a DNS query that has been judged, and refuses it when a limit of queries or a
// quota is used up. It uses the counts that this node knows, and neither waits nor allocates.
// Judging the names and addresses in an answer is not counted.
func (e *Engine) Query(t *filter.Transaction) {
	if !e.metered {
		return
	}
	now := timeOf(t)
	p := e.policyFor(&t.Client, now)
	if p == nil || len(p.queries)+len(p.quotas) == 0 {
		return
	}
	s := e.pool.Get().(*scratch)
	defer e.pool.Put(s)
	if !e.limitedQuery(p, t, s) && t.Verdict.Action == filter.Pass {
		e.spendQuery(p, t, s, now)
	}
}

func (e *Engine) limitedQuery(p *policy, t *filter.Transaction, s *scratch) bool {
	if len(p.queries) == 0 {
		return false
	}
	s.counts = s.counts[:0]
	for i := range p.queries {
		l := &p.queries[i]
		s.counts = append(s.counts, l.countOne(t))
	}
	e.counter.CountHere(s.counts)
	for i := range s.counts {
		if n, l := &s.counts[i], &p.queries[i]; n.Over || l.closed && !n.Known {
			p.refuse(t, l, "limit", n, n.After)
			t.Verdict.Names.Answer = filter.Refused
			return true
		}
	}
	return false
}

// spendQuery refuses a name for which a quota is used up.
func (e *Engine) spendQuery(p *policy, t *filter.Transaction, s *scratch, now time.Time) {
	set := p.quotasFor(t, allChecks)
	if set == (quotaSet{}) {
		return
	}
	d, extra := e.dayOf(now), e.decided.minutes(&t.Client, now)
	silent := e.silent(p, t, d, s)
	s.counts = s.counts[:0]
	for i := range p.quotas {
		l := &p.quotas[i]
		if !set.has(i) {
			continue
		}
		n := l.readCount(t, d)
		if n.Most = l.most; l.minutes {
			n.Most += extra
		}
		if l.minutes && (l.queries || l.unsaid && silent) {
			n.Member = d.minute(now)
		}
		s.counts = append(s.counts, n)
	}
	e.counter.CountHere(s.counts)
	at := 0
	for i := range p.quotas {
		if !set.has(i) {
			continue
		}
		n, l := &s.counts[at], &p.quotas[i]
		at++
		// Where queries count, a minute that was begun may be finished.
		n.Over = n.Over || n.Sum > n.Most || n.Sum == n.Most && n.Member < 0
		if n.Over || l.closed && !n.Known {
			p.refuse(t, l, "quota", n, d.end.Sub(now))
			return
		}
		if l.minutes {
			t.Verdict.Holds = min(cmp.Or(t.Verdict.Holds, 24*time.Hour), askedAgain(n))
		}
	}
}

// askedAgain returns how long the answer to a query may be kept by the client: no longer than what is left
// of its quota, and where the names that it asks for are counted, it has to ask each minute.
func askedAgain(n *state.Count) time.Duration {
	if n.Member >= 0 {
		return time.Minute
	}
	return time.Duration(max(n.Most-n.Sum, 1)) * time.Minute
}

// silent reports whether the client has sent no request today, if a quota wants to know that.
func (e *Engine) silent(p *policy, t *filter.Transaction, d *day, s *scratch) bool {
	if p.requests == nil {
		return false
	}
	s.counts = append(s.counts[:0], p.requests.readCount(t, d))
	e.counter.CountHere(s.counts)
	return s.counts[0].Sum == 0
}

// amount writes minutes or bytes for a person.
func (l *limit) amount(n int64) string {
	if l.minutes {
		return formatDuration(time.Duration(n) * time.Minute)
	}
	return Size(n).String()
}
