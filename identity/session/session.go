// Package session holds the users of addresses, as reported by a Wi-Fi controller, a VPN
// or a sign-in page.
//
// [Table.Change] turns reports into instructions, which a store writes to disk before it
// returns and sends to all nodes of a fleet. [Table.Receive] receives the reports of other
// nodes. [Table.Lookup] runs for every request and reads only memory.
package session

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"shuultuur/lib/clock"
	"shuultuur/lib/ingest"
	"shuultuur/lib/metric"
	"shuultuur/state"
)

// Topic is the topic of instructions about sessions; their key is the address.
const Topic = "session"

// outTopic is the topic of instructions about sign-ins that were ended; their key is the
// identifier.
const outTopic = "sign-out"

// Limits of sessions.
const (
	MaxSessions = 50_000
	MaxTime     = state.MaxBrief
	DefaultTime = 12 * time.Hour
	maxName     = 256
	maxGroups   = 512
	groupBytes  = 6 << 10 // of their names, in the JSON of an instruction
	minPrefix   = 40      // length of the widest IPv6 prefix that may be one user's
	renewAfter  = 4       // a renewal is passed on if it adds a quarter of the session's time
)

// A Session assigns an address to a user until a time.
type Session struct {
	Addr   netip.Addr `json:"address"`
	Bits   int        `json:"bits,omitempty"` // length of a prefix that is the user's as a whole; 0 for an address
	User   string     `json:"user"`
	Groups []string   `json:"groups"`       // sorted
	Source string     `json:"source"`       // the kind of reporter: session, radius, oidc
	ID     string     `json:"id,omitempty"` // the reporter's identifier for this session of the address
	By     string     `json:"by,omitempty"` // the reporter
	Until  time.Time  `json:"until"`
	At     time.Time  `json:"at,omitzero"` // when the latest report of it was true

	// Lease and Near are the device that had the address when the session began, by a lease and
	// as a neighbour of this machine; "" while that is not known.
	Lease string `json:"lease,omitempty"`
	Near  string `json:"near,omitempty"`

	used *int64 // when a request used it, in seconds that the table has run; atomic
}

// Net returns the address or prefix of the session.
func (n *Session) Net() netip.Prefix {
	if n.Bits > 0 {
		return netip.PrefixFrom(n.Addr, n.Bits)
	}
	return single(n.Addr)
}

func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// A Store keeps instructions.
type Store interface {
	Issue(all ...state.Instruction) error
	InForce(topic string) []state.Instruction
}

// A shard is a part of the table with its own lock.
type shard struct {
	mu sync.RWMutex
	at map[netip.Addr]*Session
}

// An index finds the sessions that are found otherwise than by an address.
type index struct {
	mu   sync.RWMutex
	nets map[netip.Prefix]*Session        // those of prefixes
	bits []int                            // their lengths, longest first
	ids  map[string]map[netip.Prefix]bool // addresses and prefixes by identifier
}

// A Table holds sessions. It outlives engines, and is safe for concurrent use.
type Table struct {
	made    time.Time
	store   Store
	log     *slog.Logger
	shards  [64]shard
	n       atomic.Int64
	changes ingest.Group[*Change] // of callers
	giving  sync.Mutex            // held while sessions change
	index   index
	some    atomic.Bool             // there are sessions of prefixes
	devices atomic.Pointer[Devices] // as last seen; nil if nobody looks

	last      map[string]latest          // latest events of the sessions of access points; guarded by giving
	restarted map[string]time.Time       // when access points began anew; guarded by giving
	left      map[netip.Prefix]time.Time // until when addresses were somebody's who has left; guarded by giving

	sweeping sync.Mutex
	over     map[*Session]time.Time // when sessions were first seen over, by the time that runs; guarded by sweeping

	started, ended, refused atomic.Uint64
}

// New returns a table of the sessions in a store.
func New(store Store, log *slog.Logger) *Table {
	t := &Table{made: time.Now(), store: store, log: log, last: map[string]latest{}, restarted: map[string]time.Time{}, left: map[netip.Prefix]time.Time{}, over: map[*Session]time.Time{}}
	t.index.nets, t.index.ids = map[netip.Prefix]*Session{}, map[string]map[netip.Prefix]bool{}
	t.Refresh()
	return t
}

func (t *Table) shard(a netip.Addr) *shard {
	b := a.As16()
	return &t.shards[(b[15]^b[13]^b[7])&63]
}

// Lookup returns the session of an address, nil when it has none.
func (t *Table) Lookup(a netip.Addr) *Session {
	if t == nil || t.n.Load() == 0 {
		return nil
	}
	s := t.shard(a)
	s.mu.RLock()
	found := s.at[a]
	s.mu.RUnlock()
	if found == nil && t.some.Load() && a.Is6() {
		found = t.index.find(a)
	}
	if found == nil || !found.counts(time.Now()) {
		return nil
	}
	return found
}

// counts reports whether a session has not ended. One that seems to last longer than any may is a fault
// of the clock.
func (n *Session) counts(now time.Time) bool { return clock.InForce(n.Until, now, MaxTime) }

// SignOut ends the sessions with the identifier of a sign-in, and keeps it from beginning others,
// on all nodes of a fleet.
func (t *Table) SignOut(id string, until time.Time) error {
	if err := t.store.Issue(state.Instruction{Topic: outTopic, Key: id, Value: "ended", Until: until, Brief: true}); err != nil {
		return fmt.Errorf("keep the sign-out: %w", err)
	}
	var ends []EndRequest
	for _, n := range t.netsOf(id) {
		ends = append(ends, EndRequest{ID: id, Addr: n.Addr()})
	}
	_, err := t.End(ends...)
	return err
}

// SignedOut reports whether a sign-in has been ended.
func (t *Table) SignedOut(id string) bool {
	return slices.ContainsFunc(t.store.InForce(outTopic), func(i state.Instruction) bool { return i.Key == id })
}

// OwnTopic is the topic of instructions about who has a name; their key is the name in lower
// case, their value the issuer and subject.
const OwnTopic = "person"

// ownedFor is how long a name is somebody's after the last sign-in.
const ownedFor = 30 * 24 * time.Hour

// Own returns the name here of a person whom an issuer knows as a subject and calls name. A name
// is that of the first subject who has signed in with it: another one gets the name with a mark.
// Names that another issuer has given are taken over.
func (t *Table) Own(name, issuer, subject string) (string, error) {
	t.giving.Lock()
	defer t.giving.Unlock()
	key, value := strings.ToLower(name), issuer+" "+subject
	all := t.store.InForce(OwnTopic)
	i := slices.IndexFunc(all, func(i state.Instruction) bool { return i.Key == key })
	if i >= 0 && all[i].Value != value && strings.HasPrefix(all[i].Value, issuer+" ") {
		sum := sha256.Sum256([]byte(value))
		return fmt.Sprintf("%s#%x", name, sum[:4]), nil
	}
	now := time.Now()
	if i >= 0 && all[i].Value == value && all[i].Until.Sub(now) > ownedFor/2 {
		return name, nil
	}
	if err := t.store.Issue(state.Instruction{Topic: OwnTopic, Key: key, Value: value, Until: now.Add(ownedFor)}); err != nil {
		return "", fmt.Errorf("keep whose name %q is: %w", name, err)
	}
	return name, nil
}

// Active is Lookup for a request: a session without one for longer than idle does not count any
// more. 0 is for ever.
func (t *Table) Active(a netip.Addr, idle time.Duration) *Session {
	n := t.Lookup(a)
	if n == nil || idle == 0 || n.used == nil {
		return n
	}
	now, last := t.running(), atomic.LoadInt64(n.used)
	if now-last > int64(idle/time.Second) {
		return nil
	}
	if last != now {
		atomic.StoreInt64(n.used, now)
	}
	return n
}

// running returns for how many seconds the table has run. A clock that is set makes nobody idle, and
// keeps nobody from it.
func (t *Table) running() int64 { return int64(time.Since(t.made) / time.Second) }

// find returns the session of the longest prefix that contains an address.
func (x *index) find(a netip.Addr) *Session {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, bits := range x.bits {
		if p, err := a.Prefix(bits); err == nil {
			if s := x.nets[p]; s != nil {
				return s
			}
		}
	}
	return nil
}

// exact returns the session of just this address or prefix.
func (t *Table) exact(n netip.Prefix) *Session {
	var found *Session
	if n.IsSingleIP() {
		s := t.shard(n.Addr())
		s.mu.RLock()
		found = s.at[n.Addr()]
		s.mu.RUnlock()
	} else {
		t.index.mu.RLock()
		found = t.index.nets[n]
		t.index.mu.RUnlock()
	}
	if found == nil || !found.counts(time.Now()) {
		return nil
	}
	return found
}

// netsOf returns the addresses and prefixes whose sessions have an identifier.
func (t *Table) netsOf(id string) []netip.Prefix {
	t.index.mu.RLock()
	defer t.index.mu.RUnlock()
	return slices.Collect(maps.Keys(t.index.ids[id]))
}

// put stores a session in place of that of its address.
func (t *Table) put(n *Session) {
	net, old := n.Net(), (*Session)(nil)
	if n.used == nil {
		n.used = new(int64)
		*n.used = t.running()
	}
	if n.Bits == 0 {
		s := t.shard(n.Addr)
		s.mu.Lock()
		if s.at == nil {
			s.at = map[netip.Addr]*Session{}
		}
		old = s.at[n.Addr]
		s.at[n.Addr] = n
		s.mu.Unlock()
	}
	x := &t.index
	x.mu.Lock()
	defer x.mu.Unlock()
	if n.Bits > 0 {
		old = x.nets[net]
		x.nets[net] = n
		t.countPrefixes()
	}
	if old == nil {
		t.n.Add(1)
	} else {
		x.forget(old)
	}
	if n.ID != "" {
		if x.ids[n.ID] == nil {
			x.ids[n.ID] = map[netip.Prefix]bool{}
		}
		x.ids[n.ID][net] = true
	}
}

// forget removes a session from the index of identifiers. The caller holds the lock.
func (x *index) forget(n *Session) {
	delete(x.ids[n.ID], n.Net())
	if len(x.ids[n.ID]) == 0 {
		delete(x.ids, n.ID)
	}
}

// countPrefixes lists the lengths of the prefixes. The caller holds the lock.
func (t *Table) countPrefixes() {
	x := &t.index
	x.bits = x.bits[:0:0]
	for n := range x.nets {
		if !slices.Contains(x.bits, n.Bits()) {
			x.bits = append(x.bits, n.Bits())
		}
	}
	slices.SortFunc(x.bits, func(a, b int) int { return b - a })
	t.some.Store(len(x.nets) > 0)
}

// remove removes the session of an address or prefix; if only is not nil, only this one.
func (t *Table) remove(net netip.Prefix, only *Session) {
	var old *Session
	if net.IsSingleIP() {
		s := t.shard(net.Addr())
		s.mu.Lock()
		if old = s.at[net.Addr()]; only == nil || old == only {
			delete(s.at, net.Addr())
		} else {
			old = nil
		}
		s.mu.Unlock()
	}
	x := &t.index
	x.mu.Lock()
	defer x.mu.Unlock()
	if !net.IsSingleIP() {
		if old = x.nets[net]; only == nil || old == only {
			delete(x.nets, net)
			t.countPrefixes()
		} else {
			old = nil
		}
	}
	if old != nil {
		t.n.Add(-1)
		x.forget(old)
	}
}

// FitGroups returns as many of the groups as a session can have, and sorts them if these are not
// all: first those that wanted reports, because policies name them. wanted may be nil.
func FitGroups(groups []string, wanted func(group string) bool) []string {
	fit := fitFirst(groups)
	if len(fit) == len(groups) || wanted == nil {
		return fit
	}
	first := slices.Clone(groups)
	slices.SortStableFunc(first, func(a, b string) int {
		switch x, y := wanted(a), wanted(b); {
		case x == y:
			return 0
		case x:
			return -1
		}
		return 1
	})
	fit = fitFirst(first)
	slices.Sort(fit)
	return fit
}

// fitFirst returns the first of the groups, as many as a session can have.
func fitFirst(groups []string) []string {
	size := 0
	for i, g := range groups {
		if size += len(g) + len(`"",`); i == maxGroups || size > groupBytes {
			return groups[:i]
		}
	}
	return groups
}

// Check returns n with normalised address and names, or an error.
func Check(n Session, now time.Time) (Session, error) {
	n.Addr = n.Addr.Unmap().WithZone("")
	if n.At.IsZero() || n.At.After(now) {
		n.At = now
	}
	n.Source = cmp.Or(n.Source, "session")
	switch {
	case !n.Addr.IsValid() || n.Addr.IsUnspecified() || n.Addr.IsMulticast():
		return n, errors.New("a session needs the address of a client, such as 10.1.2.3")
	case n.Bits != 0 && (!n.Addr.Is6() || n.Bits < minPrefix || n.Bits >= 128 || n.Net() != n.Net().Masked()):
		return n, fmt.Errorf("%s/%d is not the IPv6 prefix of one client: write /%d to /127", n.Addr, n.Bits, minPrefix)
	case !name(n.User):
		return n, fmt.Errorf("%.40q is not the name of a user: write 1 to %d bytes of text in UTF-8", n.User, maxName)
	case len(fitFirst(n.Groups)) < len(n.Groups):
		return n, fmt.Errorf("%d groups: at most %d, with %d bytes of names, fit in a session", len(n.Groups), maxGroups, groupBytes)
	case len(n.ID) > maxName || !utf8.ValidString(n.ID):
		return n, fmt.Errorf("an identifier has at most %d bytes of text in UTF-8", maxName)
	case !n.Until.After(now):
		return n, errors.New("the session is over before it begins")
	case n.Until.After(now.Add(MaxTime)):
		return n, fmt.Errorf("a session of %v: write at most %v, and start it again before it ends", n.Until.Sub(now).Round(time.Second), MaxTime)
	}
	for _, g := range n.Groups {
		if !name(g) {
			return n, fmt.Errorf("%.40q is not the name of a group", g)
		}
	}
	n.Groups = slices.Clone(n.Groups)
	slices.Sort(n.Groups)
	n.Groups = slices.Compact(n.Groups)
	return n, nil
}

// name reports whether s is a valid name.
func name(s string) bool {
	return s != "" && len(s) <= maxName && utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

// A Change is the effect of one report: sessions that begin or are renewed, all
// or none of them, or sessions that end.
type Change struct {
	Start []Session // each replaces the session of its address
	End   []EndRequest
	Event *Event // of an access point

	Ended int // number of ended sessions; set by [Table.Change]
}

// Change makes changes in order. Concurrent callers share one write to disk. The
// changes are on disk when it returns. It returns an error for each change; a
// refused change does not affect the others.
func (t *Table) Change(all ...*Change) []error { return t.changes.DoAll(all, t.apply) }

// Start begins or renews sessions, all or none.
func (t *Table) Start(all ...Session) error { return t.Change(&Change{Start: all})[0] }

// An EndRequest names sessions to end. With an ID, only the session with this ID ends: a late end
// of an earlier session must not end the session of the next user.
type EndRequest struct {
	ID   string
	Addr netip.Addr
	// By and Source, without an address, end all sessions of a reporter.
	By, Source string

	only *Session // this one, and none that has replaced it; nil for any
}

// End ends sessions and returns their number.
func (t *Table) End(all ...EndRequest) (n int, err error) {
	c := Change{End: all}
	err = t.Change(&c)[0]
	return c.Ended, err
}

// apply makes changes. Only apply calls the store.
func (t *Table) apply(all []*Change, errs []error) {
	t.giving.Lock()
	defer t.giving.Unlock()
	w := pending{table: t, now: time.Now(), at: map[netip.Prefix]*Session{}, open: t.n.Load()}
	var given []int
	for n, c := range all {
		before := len(w.give)
		if errs[n] = w.add(c); errs[n] != nil {
			t.refused.Add(uint64(max(1, len(c.Start))))
		} else if len(w.give) > before {
			given = append(given, n)
		}
	}
	if len(w.at) == 0 {
		return
	}
	if err := w.issue(); err != nil {
		t.refused.Add(uint64(len(w.give)))
		for _, n := range given {
			all[n].Ended, errs[n] = 0, fmt.Errorf("keep the sessions: %w", err)
		}
		return
	}
	ended := 0
	for _, c := range all {
		ended += c.Ended
	}
	for a, n := range w.at {
		if n == nil {
			t.remove(a, nil)
		} else {
			t.put(n)
		}
	}
	t.ended.Add(uint64(ended))
	t.started.Add(uint64(len(w.give) - ended))
}

// issue writes the changes to disk.
func (w *pending) issue() error {
	if len(w.give) == 0 {
		return nil // only times have changed
	}
	return w.table.store.Issue(w.give...)
}

// pending holds changes that are written to disk together.
type pending struct {
	table *Table
	now   time.Time
	give  []state.Instruction
	at    map[netip.Prefix]*Session // sessions of addresses after the write; nil if they ended
	open  int64                     // open sessions after the write
}

// lookup returns the session of an address or prefix after the write.
func (w *pending) lookup(n netip.Prefix) *Session {
	if s, ok := w.at[n]; ok {
		return s
	}
	return w.table.exact(n)
}

// add adds a change completely or not at all.
func (w *pending) add(c *Change) error {
	for _, e := range c.End {
		w.end(e, c)
	}
	if c.Event != nil {
		return w.event(c.Event, c)
	}
	return w.start(c.Start)
}

// start begins or renews sessions, all or none.
func (w *pending) start(all []Session) error {
	var fresh int64
	var give []state.Instruction
	var take []*Session
	for _, n := range all {
		n, err := Check(n, w.now)
		if err != nil {
			return err
		}
		n.sees(w.table.devices.Load())
		old := w.lookup(n.Net())
		if old == nil {
			fresh++
		} else if old.equalExceptTime(&n) && n.Until.Sub(old.Until) < n.Until.Sub(w.now)/renewAfter && !n.Until.Before(old.Until) {
			same := *old // it already ends at about the same time
			same.At, same.used = n.At, nil
			w.at[n.Net()] = &same
			continue
		}
		value, err := json.Marshal(n)
		if err != nil {
			return err
		}
		i := state.Instruction{Topic: Topic, Key: keyOf(n.Net()), Value: string(value), Until: n.Until, By: n.By, Brief: true}
		if err := i.Check(); err != nil {
			return fmt.Errorf("the session of %s cannot be kept: %w", n.Addr, err)
		}
		give, take = append(give, i), append(take, &n)
	}
	if w.open+fresh > MaxSessions {
		before := w.table.n.Load()
		w.table.sweep(w.now, true)
		w.open -= before - w.table.n.Load()
	}
	if w.open+fresh > MaxSessions {
		return fmt.Errorf("%d sessions are open, no more than %d are kept: end some, or make them shorter", w.open, MaxSessions)
	}
	w.open += fresh
	w.give = append(w.give, give...)
	for _, n := range take {
		w.at[n.Net()] = n
	}
	return nil
}

// keyOf returns the key of instructions about an address or prefix.
func keyOf(n netip.Prefix) string {
	if n.IsSingleIP() {
		return n.Addr().String()
	}
	return n.String()
}

// netOf returns the address or prefix of a key.
func netOf(key string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(key); err == nil {
		return single(a), nil
	}
	return netip.ParsePrefix(key)
}

// endOf returns the instruction that ends the session of an address or prefix.
func endOf(n netip.Prefix, now time.Time) state.Instruction {
	return state.Instruction{Topic: Topic, Key: keyOf(n), Until: now.Add(time.Second), Brief: true}
}

// end ends the sessions that e names.
func (w *pending) end(e EndRequest, c *Change) {
	nets := []netip.Prefix{single(e.Addr.Unmap().WithZone(""))}
	if e.By != "" {
		nets = w.begunBy(func(n *Session) bool { return n != nil && n.By == e.By && n.Source == e.Source })
	}
	for _, a := range nets {
		if old := w.lookup(a); old != nil && (e.only == nil || old == e.only) && (e.ID == "" || old.ID == "" || old.ID == e.ID) {
			w.remove(a, c)
		}
	}
}

// begunBy returns the addresses and prefixes of the sessions for which is reports true.
func (w *pending) begunBy(is func(*Session) bool) (all []netip.Prefix) {
	for _, n := range w.table.All() {
		if _, changed := w.at[n.Net()]; !changed && is(&n) {
			all = append(all, n.Net())
		}
	}
	for a, n := range w.at {
		if is(n) {
			all = append(all, a)
		}
	}
	return all
}

// equalExceptTime reports whether two sessions differ only in time.
func (n *Session) equalExceptTime(m *Session) bool {
	return n.User == m.User && n.ID == m.ID && n.Source == m.Source && slices.Equal(n.Groups, m.Groups)
}

// Refresh loads the sessions in the store.
func (t *Table) Refresh() { t.Receive(t.store.InForce(Topic)) }

// Receive receives a session that was reported to another node.
func (t *Table) Receive(all []state.Instruction) {
	t.giving.Lock()
	defer t.giving.Unlock()
	now := time.Now()
	for _, i := range all {
		if i.Value == "" || !i.Until.After(now) {
			if n, err := netOf(i.Key); err == nil {
				t.remove(n, nil)
			}
			continue
		}
		var n Session
		err := json.Unmarshal([]byte(i.Value), &n)
		if err == nil {
			n, err = Check(n, now)
		}
		if err == nil && t.n.Load() >= MaxSessions {
			err = fmt.Errorf("%d sessions are open, no more are kept", MaxSessions)
		}
		if err != nil {
			t.refused.Add(1)
			t.log.Warn("a session of another node is ignored", "address", i.Key, "error", err)
			continue
		}
		if old := t.exact(n.Net()); old != nil && old.Until.Equal(n.Until) && old.equalExceptTime(&n) {
			n.used = old.used // nothing new is told of it
		}
		t.put(&n)
	}
}

// overFor is how long a session stays after its end, in which it does not count. A clock that is wrong for
// less ends no session for good.
const overFor = time.Hour

// sweep removes sessions that have been over for a while by the time that runs, or all that are over if
// room is needed.
func (t *Table) sweep(now time.Time, room bool) {
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	was, running := t.over, time.Now()
	t.over = map[*Session]time.Time{}
	for _, n := range t.each(func(n *Session) bool { return !now.Before(n.Until) }) {
		since, known := was[n]
		if !known {
			since = running
		}
		if room || running.Sub(since) >= overFor {
			t.remove(n.Net(), n)
		} else {
			t.over[n] = since
		}
	}
}

// Problems returns that sessions do not count, for the operator.
func (t *Table) Problems() []string {
	now := time.Now()
	far := t.each(func(n *Session) bool { return n.Until.After(now) && !n.counts(now) })
	if len(far) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d sessions do not count, such as that of %s until %s: none may last so long, so the clock is wrong, or was when they began; set the clock", len(far), far[0].Addr, far[0].Until.Format(time.DateTime))}
}

// each returns the sessions for which is reports true.
func (t *Table) each(is func(*Session) bool) (all []*Session) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.RLock()
		for _, n := range s.at {
			if is(n) {
				all = append(all, n)
			}
		}
		s.mu.RUnlock()
	}
	t.index.mu.RLock()
	defer t.index.mu.RUnlock()
	for _, n := range t.index.nets {
		if is(n) {
			all = append(all, n)
		}
	}
	return all
}

// All returns the valid sessions, by address.
func (t *Table) All() []Session {
	all, now := []Session{}, time.Now()
	for _, n := range t.each(func(n *Session) bool { return n.counts(now) }) {
		all = append(all, *n)
	}
	slices.SortStableFunc(all, func(a, b Session) int { return a.Addr.Compare(b.Addr) })
	return all
}

var (
	openDesc    = metric.NewDesc("shuultuur_sessions", "Addresses that are a user's for now.")
	changesDesc = metric.NewDesc("shuultuur_sessions_total", "Sessions of addresses that were started or renewed, ended, and refused.", "what")
)

// Collect implements [metric.Collector].
func (t *Table) Collect(ch chan<- metric.Metric) {
	now := time.Now()
	t.sweep(now, false)
	ch <- metric.New(openDesc, metric.Gauge, float64(len(t.each(func(n *Session) bool { return n.counts(now) }))))
	for what, n := range map[string]*atomic.Uint64{"started": &t.started, "ended": &t.ended, "refused": &t.refused} {
		ch <- metric.New(changesDesc, metric.Count, float64(n.Load()), what)
	}
}
