package session

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// RADIUS is the source of sessions that access points report.
const RADIUS = "radius"

const (
	endedFor = 10 * time.Minute // how long a packet without a time of its own may be late after an end
	datedFor = 24 * time.Hour   // how long events are remembered for packets that have one
	maxLast  = 100_000
)

// A Kind is what an access point reports.
type Kind uint8

const (
	Begins Kind = iota
	Continues
	Ends
	Restarts // the access point has no sessions that are older
)

// A Reporter is an access point, a switch or a VPN, and who sends its reports: itself, or a
// RADIUS server for many.
type Reporter struct {
	Sender netip.Addr
	Addr   netip.Addr // of the access point, if it says so
	Name   string     // of the access point, if it says so
}

// String returns the reporter in one line, which parseReporter reads.
func (r Reporter) String() string {
	if !r.Addr.IsValid() && r.Name == "" {
		return r.Sender.String()
	}
	addr := "-"
	if r.Addr.IsValid() {
		addr = r.Addr.String()
	}
	return strings.TrimRight(r.Sender.String()+" "+addr+" "+r.Name, " ")
}

func parseReporter(s string) (r Reporter) {
	sender, rest, _ := strings.Cut(s, " ")
	addr, name, _ := strings.Cut(rest, " ")
	r.Sender, _ = netip.ParseAddr(sender)
	r.Addr, _ = netip.ParseAddr(addr)
	r.Name = name
	return r
}

// same reports whether two reports are of the same access point, by what both of them say. A
// report that says nothing is of the sender.
func (r Reporter) same(q Reporter) bool {
	if r.Sender != q.Sender {
		return false
	}
	if !r.Addr.IsValid() && r.Name == "" || !q.Addr.IsValid() && q.Name == "" {
		return true
	}
	addrs, names := r.Addr.IsValid() && q.Addr.IsValid(), r.Name != "" && q.Name != ""
	return (addrs || names) && (!addrs || r.Addr == q.Addr) && (!names || r.Name == q.Name)
}

// An Event is one report of an access point. Events count by when they happened, in whatever
// order they come: an older one never takes an address from a newer one.
type Event struct {
	Kind   Kind
	By     Reporter
	ID     string         // of the session, among those of the access point
	At     time.Time      // when it happened
	Dated  bool           // the access point has said so; otherwise At is when it came
	Nets   []netip.Prefix // addresses and prefixes; empty while they are not known
	User   string         // "" for that of the session so far
	Groups []string
	Until  time.Time

	Unused string // why it changes nothing and never will; set by [Table.Change]
}

// A latest is the latest event of a session.
type latest struct {
	at, heard time.Time
	over      bool
}

// key names a session among those of all access points.
func (e *Event) key() string { return e.By.String() + "\x00" + e.ID }

// after reports whether a is later than b. The clocks of access points tell seconds.
func after(a, b time.Time) bool { return a.Unix() > b.Unix() }

// event applies an event.
func (w *pending) event(e *Event, c *Change) error {
	if e.At.After(w.now) {
		e.At = w.now
	}
	switch e.Kind {
	case Restarts:
		w.restart(e, c)
		return nil
	case Ends:
		w.finish(e, c)
		return nil
	}
	if why := w.table.isOver(e, w.now); why != "" {
		e.Unused = why
		w.displace(e, c)
		return nil
	}
	own := w.ownedBy(e)
	user, groups := e.User, e.Groups
	if user == "" {
		if len(own) == 0 {
			if len(e.Nets) > 0 {
				e.Unused = "it has no User-Name, and its session is not known"
			}
			return nil
		}
		user, groups = own[0].User, own[0].Groups
	}
	if late := func(s *Session) bool { return after(s.At, e.At) }; after(w.table.last[e.key()].at, e.At) || slices.ContainsFunc(own, late) {
		e.Unused = "a later packet of its session has come before"
		w.displace(e, c)
		return nil
	}
	w.table.remember(e, w.now)
	for _, s := range own { // the device has another address now
		if n := s.Net(); !slices.Contains(e.Nets, n) && slices.ContainsFunc(e.Nets, func(p netip.Prefix) bool { return p.Addr().Is4() == n.Addr().Is4() }) {
			w.remove(n, c)
		}
	}
	var start []Session
	for _, n := range e.Nets {
		s := Session{Addr: n.Addr(), User: user, Groups: groups, Source: RADIUS, ID: e.ID, By: e.By.String(), Until: e.Until, At: e.At}
		if !n.IsSingleIP() {
			s.Bits = n.Bits()
		}
		if now := w.lookup(n); now != nil && after(now.At, e.At) || after(w.table.left[n], e.At) {
			e.Unused = "somebody else has had its address since"
			continue
		}
		if _, err := Check(s, w.now); err != nil {
			e.Unused = err.Error()
			return nil
		}
		start = append(start, s)
	}
	return w.start(start)
}

// displace ends the sessions of those who had the addresses of e before: the session of e, which
// is over by now, has shown that they have them no more.
func (w *pending) displace(e *Event, c *Change) {
	for _, n := range e.Nets {
		if !e.Dated {
			break
		}
		if s := w.lookup(n); s != nil && after(e.At, s.At) {
			w.remove(n, c)
		}
		w.table.rememberLeft(n, e.At)
	}
}

// rememberLeft notes until when an address was somebody's who has left it.
func (t *Table) rememberLeft(n netip.Prefix, at time.Time) {
	if len(t.left) >= maxLast {
		for k, old := range t.left {
			if time.Since(old) > datedFor {
				delete(t.left, k)
			}
		}
	}
	if len(t.left) < maxLast && after(at, t.left[n]) {
		t.left[n] = at
	}
}

// ownedBy returns the sessions of addresses that belong to the session of e.
func (w *pending) ownedBy(e *Event) (all []*Session) {
	if e.ID == "" {
		for _, n := range e.Nets {
			if s := w.lookup(n); s != nil && s.Source == RADIUS && s.ID == "" && (e.User == "" || s.User == e.User) && e.By.same(parseReporter(s.By)) {
				all = append(all, s)
			}
		}
		return all
	}
	is := func(s *Session) bool {
		return s != nil && s.Source == RADIUS && s.ID == e.ID && e.By.same(parseReporter(s.By))
	}
	for _, n := range w.table.netsOf(e.ID) {
		if _, changed := w.at[n]; !changed {
			if s := w.lookup(n); is(s) {
				all = append(all, s)
			}
		}
	}
	for _, s := range w.at {
		if is(s) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *Session) int { return a.Addr.Compare(b.Addr) })
	return all
}

// finish ends a session. An identifier may have been used again since.
func (w *pending) finish(e *Event, c *Change) {
	for _, s := range w.ownedBy(e) {
		if !after(s.At, e.At) {
			w.remove(s.Net(), c)
		}
	}
	w.table.remember(e, w.now)
}

// restart ends the sessions of an access point. Its identifiers begin anew.
func (w *pending) restart(e *Event, c *Change) {
	is := func(s *Session) bool {
		return s != nil && s.Source == RADIUS && e.By.same(parseReporter(s.By)) && !after(s.At, e.At)
	}
	for _, n := range w.begunBy(is) {
		w.remove(n, c)
	}
	w.table.rememberRestart(e)
}

// remove ends the session of an address or prefix.
func (w *pending) remove(n netip.Prefix, c *Change) {
	if s := w.lookup(n); s != nil && s.Source == RADIUS {
		w.table.rememberLeft(n, s.At)
	}
	w.give = append(w.give, endOf(n, w.now))
	w.at[n] = nil
	w.open--
	c.Ended++
}

// isOver says why an event is of a session that is over, "" if it is not.
func (t *Table) isOver(e *Event, now time.Time) string {
	if at, ok := t.restarted[e.By.String()]; ok && e.Dated && after(at, e.At) {
		return "its access point has restarted since"
	}
	end := t.last[e.key()]
	switch {
	case !end.over || e.ID == "":
		return ""
	case e.Dated && !after(e.At, end.at), !e.Dated && now.Sub(end.heard) < endedFor:
		return fmt.Sprintf("its session has ended at %s", end.at.Format("15:04:05"))
	}
	return ""
}

// remember notes the latest event of a session, because older packets may come later.
func (t *Table) remember(e *Event, now time.Time) {
	if e.ID == "" || after(t.last[e.key()].at, e.At) {
		return
	}
	for _, d := range []time.Duration{datedFor, endedFor} {
		if len(t.last) < maxLast {
			break
		}
		for k, l := range t.last {
			if now.Sub(l.heard) > d {
				delete(t.last, k)
			}
		}
	}
	if len(t.last) < maxLast {
		t.last[e.key()] = latest{e.At, now, e.Kind == Ends}
	}
}

// rememberRestart notes that an access point begins anew.
func (t *Table) rememberRestart(e *Event) {
	by := e.By.String()
	if at, ok := t.restarted[by]; ok && after(at, e.At) {
		return
	}
	for k, l := range t.last {
		name, _, _ := strings.Cut(k, "\x00")
		if e.By.same(parseReporter(name)) && !after(l.at, e.At) {
			delete(t.last, k)
		}
	}
	if len(t.restarted) < maxLast {
		t.restarted[by] = e.At
	}
}
