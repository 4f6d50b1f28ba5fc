// Package session holds the users of addresses, as reported by a Wi-Fi controller, a VPN
// or a sign-in page.
//
// [Table.Change] turns reports into instructions, which a store writes to disk before it
// returns and sends to all nodes of a fleet. [Table.Receive] receives the reports of other
// nodes. [Table.Lookup] runs for every request and reads only memory.
package session

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"shuultuur/lib/ingest"
	"shuultuur/lib/metric"
	"shuultuur/state"
)

// Topic is the topic of instructions about sessions; their key is the address.
const Topic = "session"

// Limits of sessions.
const (
	MaxSessions = 50_000
	MaxTime     = state.MaxBrief
	DefaultTime = 12 * time.Hour
	maxName     = 256
	maxGroups   = 512
	groupBytes  = 6 << 10 // of their names, in the JSON of an instruction
	renewAfter  = 4       // a renewal is passed on if it adds a quarter of the session's time
)

// A Session assigns an address to a user until a time.
type Session struct {
	Addr   netip.Addr `json:"address"`
	User   string     `json:"user"`
	Groups []string   `json:"groups"`       // sorted
	Source string     `json:"source"`       // the kind of reporter: session, radius, oidc
	ID     string     `json:"id,omitempty"` // the reporter's identifier for this session of the address
	By     string     `json:"by,omitempty"` // the reporter
	Until  time.Time  `json:"until"`
}

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

// A Table holds sessions. It outlives engines, and is safe for concurrent use.
type Table struct {
	store   Store
	log     *slog.Logger
	shards  [64]shard
	n       atomic.Int64
	changes ingest.Group[*Change] // of callers
	giving  sync.Mutex            // held while sessions change

	started, ended, refused atomic.Uint64
}

// New returns a table of the sessions in a store.
func New(store Store, log *slog.Logger) *Table {
	t := &Table{store: store, log: log}
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
	if found == nil || !time.Now().Before(found.Until) {
		return nil
	}
	return found
}

func (t *Table) put(n *Session) {
	s := t.shard(n.Addr)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = map[netip.Addr]*Session{}
	}
	if s.at[n.Addr] == nil {
		t.n.Add(1)
	}
	s.at[n.Addr] = n
}

func (t *Table) remove(a netip.Addr) {
	s := t.shard(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at[a] != nil {
		t.n.Add(-1)
		delete(s.at, a)
	}
}

// FitGroups returns the first of the groups, as many as a session can have.
func FitGroups(groups []string) []string {
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
	n.Source = cmp.Or(n.Source, "session")
	switch {
	case !n.Addr.IsValid() || n.Addr.IsUnspecified() || n.Addr.IsMulticast():
		return n, errors.New("a session needs the address of a client, such as 10.1.2.3")
	case !name(n.User):
		return n, fmt.Errorf("%.40q is not the name of a user: write 1 to %d bytes of text in UTF-8", n.User, maxName)
	case len(FitGroups(n.Groups)) < len(n.Groups):
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
	w := pending{table: t, now: time.Now(), at: map[netip.Addr]*Session{}, open: t.n.Load()}
	var given []int
	for n, c := range all {
		before := len(w.give)
		if errs[n] = w.add(c); errs[n] != nil {
			t.refused.Add(uint64(max(1, len(c.Start))))
		} else if len(w.give) > before {
			given = append(given, n)
		}
	}
	if len(given) == 0 {
		return
	}
	if err := t.store.Issue(w.give...); err != nil {
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
			t.remove(a)
		} else {
			t.put(n)
		}
	}
	t.ended.Add(uint64(ended))
	t.started.Add(uint64(len(w.give) - ended))
}

// pending holds changes that are written to disk together.
type pending struct {
	table *Table
	now   time.Time
	give  []state.Instruction
	at    map[netip.Addr]*Session // sessions of addresses after the write; nil if they ended
	open  int64                   // open sessions after the write
}

// lookup returns the session of an address after the write.
func (w *pending) lookup(a netip.Addr) *Session {
	if n, ok := w.at[a]; ok {
		return n
	}
	return w.table.Lookup(a)
}

// add adds a change completely or not at all.
func (w *pending) add(c *Change) error {
	for _, e := range c.End {
		w.end(e, c)
	}
	var fresh int64
	var give []state.Instruction
	var take []*Session
	for _, n := range c.Start {
		n, err := Check(n, w.now)
		if err != nil {
			return err
		}
		old := w.lookup(n.Addr)
		if old == nil {
			fresh++
		} else if old.equalExceptTime(&n) && n.Until.Sub(old.Until) < n.Until.Sub(w.now)/renewAfter && !n.Until.Before(old.Until) {
			continue // it already ends at about the same time
		}
		value, err := json.Marshal(n)
		if err != nil {
			return err
		}
		i := state.Instruction{Topic: Topic, Key: n.Addr.String(), Value: string(value), Until: n.Until, By: n.By, Brief: true}
		if err := i.Check(); err != nil {
			return fmt.Errorf("the session of %s cannot be kept: %w", n.Addr, err)
		}
		give, take = append(give, i), append(take, &n)
	}
	if w.open+fresh > MaxSessions {
		before := w.table.n.Load()
		w.table.sweep(w.now)
		w.open -= before - w.table.n.Load()
	}
	if w.open+fresh > MaxSessions {
		return fmt.Errorf("%d sessions are open, no more than %d are kept: end some, or make them shorter", w.open, MaxSessions)
	}
	w.open += fresh
	w.give = append(w.give, give...)
	for _, n := range take {
		w.at[n.Addr] = n
	}
	return nil
}

// end ends the sessions that e names.
func (w *pending) end(e EndRequest, c *Change) {
	addrs := []netip.Addr{e.Addr.Unmap().WithZone("")}
	if e.By != "" {
		addrs = w.begunBy(e)
	}
	for _, a := range addrs {
		old := w.lookup(a)
		if old == nil || e.ID != "" && old.ID != "" && old.ID != e.ID {
			continue
		}
		w.give = append(w.give, state.Instruction{Topic: Topic, Key: a.String(), Until: w.now.Add(time.Second), Brief: true})
		w.at[a] = nil
		w.open--
		c.Ended++
	}
}

// begunBy returns the addresses of a reporter's sessions.
func (w *pending) begunBy(e EndRequest) (all []netip.Addr) {
	is := func(n *Session) bool { return n != nil && n.By == e.By && n.Source == e.Source }
	for _, n := range w.table.All() {
		if _, changed := w.at[n.Addr]; !changed && is(&n) {
			all = append(all, n.Addr)
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
			if a, err := netip.ParseAddr(i.Key); err == nil {
				t.remove(a)
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
		t.put(&n)
	}
}

// sweep removes expired sessions.
func (t *Table) sweep(now time.Time) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for a, n := range s.at {
			if !now.Before(n.Until) {
				delete(s.at, a)
				t.n.Add(-1)
			}
		}
		s.mu.Unlock()
	}
}

// All returns the valid sessions, by address.
func (t *Table) All() []Session {
	all, now := []Session{}, time.Now()
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.RLock()
		for _, n := range s.at {
			if now.Before(n.Until) {
				all = append(all, *n)
			}
		}
		s.mu.RUnlock()
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
	t.sweep(time.Now())
	ch <- metric.New(openDesc, metric.Gauge, float64(t.n.Load()))
	for what, n := range map[string]*atomic.Uint64{"started": &t.started, "ended": &t.ended, "refused": &t.refused} {
		ch <- metric.New(changesDesc, metric.Count, float64(n.Load()), what)
	}
}
