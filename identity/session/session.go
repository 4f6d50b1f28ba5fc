// Package session keeps which user is at which address, as reported by what let them in: a
// Wi-Fi controller, a VPN, a sign-in page.
//
// [Table.Start] and [Table.End] turn reports into instructions, which a store writes to disk
// and sends to all nodes of a fleet before they return. [Table.Take] receives what was
// reported to other nodes. [Table.Lookup] runs for every request and reads only memory.
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

	"shuultuur/arrange"
	"shuultuur/ingest"
	"shuultuur/metric"
	"shuultuur/state"
)

// Topic is that of instructions about sessions: the key is the address.
const Topic = "session"

// Limits of sessions.
const (
	MaxSessions = 50_000
	MaxTime     = state.MaxBrief
	DefaultTime = 12 * time.Hour
	maxName     = 256
	maxGroups   = 64
	renewAfter  = 4 // a renewal is passed on when it adds a quarter of the session's time
)

// A Session says that an address is a user's until a time.
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
	Give(all ...state.Instruction) error
	InForce(topic string) []state.Instruction
}

// A shard is a part of the table with a lock of its own.
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
	changes ingest.Group[change] // of callers
	giving  sync.Mutex           // held while sessions change

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

// Check returns n with normalised address and names, or what is wrong with it.
func Check(n Session, now time.Time) (Session, error) {
	n.Addr = n.Addr.Unmap().WithZone("")
	n.Source = cmp.Or(n.Source, "session")
	switch {
	case !n.Addr.IsValid() || n.Addr.IsUnspecified() || n.Addr.IsMulticast():
		return n, errors.New("a session needs the address of a client, such as 10.1.2.3")
	case !name(n.User):
		return n, fmt.Errorf("%.40q is not the name of a user: write 1 to %d bytes of text in UTF-8", n.User, maxName)
	case len(n.Groups) > maxGroups:
		return n, fmt.Errorf("%d groups, at most %d are taken", len(n.Groups), maxGroups)
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

// A change is what one caller wants: sessions begun or renewed, or ended.
type change struct {
	start []Session
	end   []Ended
	ended *int // how many there were; nil where none are to end
}

// Start begins or renews sessions, all or none: each replaces the one that its
// address had. They are on the disk when it returns. Callers that come at the
// same time share a write.
func (t *Table) Start(all ...Session) error {
	return t.changes.Do(change{start: all}, t.apply)
}

// apply makes changes in their order. Neighbours that begin sessions go to the
// disk together, and so do neighbours that end some.
func (t *Table) apply(all []change, errs []error) {
	t.giving.Lock()
	defer t.giving.Unlock()
	for len(all) > 0 {
		begins, n := all[0].ended == nil, 1
		for n < len(all) && (all[n].ended == nil) == begins {
			n++
		}
		if begins {
			t.start(all[:n], errs[:n])
		} else {
			t.end(all[:n], errs[:n])
		}
		all, errs = all[n:], errs[n:]
	}
}

// start begins or renews sessions. The caller holds giving.
func (t *Table) start(all []change, errs []error) {
	now := time.Now()
	b := begun{table: t, now: now, at: map[netip.Addr]*Session{}, fresh: t.n.Load()}
	var given []int
	for n := range all {
		before := len(b.give)
		if errs[n] = b.add(all[n].start); errs[n] != nil {
			t.refused.Add(uint64(max(1, len(b.give)-before)))
			b.give = b.give[:before]
		} else if len(b.give) > before {
			given = append(given, n)
		}
	}
	if len(given) == 0 {
		return
	}
	if err := t.store.Give(b.give...); err != nil {
		t.refused.Add(uint64(len(b.give)))
		for _, n := range given {
			errs[n] = fmt.Errorf("keep the session: %w", err)
		}
		return
	}
	for _, n := range b.at {
		t.put(n)
	}
	t.started.Add(uint64(len(b.give)))
}

// begun are sessions that are to begin with one write.
type begun struct {
	table *Table
	now   time.Time
	give  []state.Instruction
	at    map[netip.Addr]*Session // the last one for each address
	fresh int64                   // sessions that are open then
}

// add adds the sessions of one caller, all or none.
func (b *begun) add(all []Session) error {
	t, fresh := b.table, int64(0)
	var take []*Session
	for _, n := range all {
		n, err := Check(n, b.now)
		if err != nil {
			return err
		}
		old := b.at[n.Addr]
		if old == nil {
			old = t.Lookup(n.Addr)
		}
		if old == nil {
			fresh++
		} else if old.same(&n) && n.Until.Sub(old.Until) < n.Until.Sub(b.now)/renewAfter && !n.Until.Before(old.Until) {
			continue // it ends at about the same time already
		}
		value, err := json.Marshal(n)
		if err != nil {
			return err
		}
		b.give = append(b.give, state.Instruction{Topic: Topic, Key: n.Addr.String(), Value: string(value), Until: n.Until, By: n.By, Brief: true})
		take = append(take, &n)
	}
	if b.fresh+fresh > MaxSessions {
		before := t.n.Load()
		t.sweep(b.now)
		b.fresh -= before - t.n.Load()
	}
	if b.fresh+fresh > MaxSessions {
		return fmt.Errorf("%d sessions are open, no more than %d are kept: end some, or make them shorter", b.fresh, MaxSessions)
	}
	b.fresh += fresh
	for _, n := range take {
		b.at[n.Addr] = n
	}
	return nil
}

// same reports whether two sessions differ only in their time.
func (n *Session) same(m *Session) bool {
	return n.User == m.User && n.ID == m.ID && n.Source == m.Source && slices.Equal(n.Groups, m.Groups)
}

// An Ended says that the session of an address has ended. With an ID only the session with it
// ends: a late end of an earlier session must not end that of the next user.
type Ended struct {
	ID   string
	Addr netip.Addr
}

// End ends sessions with one write to the disk, and says how many there were.
// Callers that come at the same time share it.
func (t *Table) End(all ...Ended) (n int, err error) {
	err = t.changes.Do(change{end: all, ended: &n}, t.apply)
	return n, err
}

// end ends sessions. The caller holds giving.
func (t *Table) end(all []change, errs []error) {
	var give []state.Instruction
	gone := map[netip.Addr]bool{}
	for n := range all {
		for _, e := range all[n].end {
			a := e.Addr.Unmap().WithZone("")
			old := t.Lookup(a)
			if old == nil || gone[a] || e.ID != "" && old.ID != "" && old.ID != e.ID {
				continue
			}
			give = append(give, state.Instruction{Topic: Topic, Key: a.String(), Until: time.Now().Add(time.Second), Brief: true})
			gone[a] = true
			*all[n].ended++
		}
	}
	if len(give) == 0 {
		return
	}
	if err := t.store.Give(give...); err != nil {
		for n := range all {
			*all[n].ended, errs[n] = 0, fmt.Errorf("end the session: %w", err)
		}
		return
	}
	for a := range gone {
		t.remove(a)
	}
	t.ended.Add(uint64(len(gone)))
}

// Refresh loads the sessions in the store.
func (t *Table) Refresh() { t.Take(t.store.InForce(Topic)) }

// Take receives what was reported to another node.
func (t *Table) Take(all []state.Instruction) {
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
	arrange.By(all, func(a, b Session) int { return a.Addr.Compare(b.Addr) })
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
