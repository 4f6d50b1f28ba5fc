package nameserver

import (
	"context"
	"time"

	"shuultuur/filter"
	"shuultuur/nameserver/wire"
)

const (
	formErr  = 1
	servFail = 2
	notImp   = 4
	refused  = 5
	notAuth  = 9
	badVers  = 16
	badCook  = 23

	typeOPT  = 41
	typeIXFR = 251
	typeAXFR = 252

	edeOther            = 0 // RFC 8914
	edeProhibited       = 18
	edeNotAuthoritative = 20

	maxMessage = 65535
	padBlock   = 468 // RFC 8467 section 4.1
)

// A lane takes one query at a time from its bytes to those of its reply. What
// it needs for that it has; it belongs to one goroutine.
type lane struct {
	s *Server
	t *tally
	// batch says that t is locked already: by the goroutine that reads a
	// socket, for a whole batch.
	batch bool

	q      wire.Query
	r      wire.Reply
	opt    wire.Options
	cookie [cookieLen]byte
	known  bool // the query had a good cookie of ours
	slips  uint32

	g    *rules
	rs   *responders
	next int // which responder to ask

	crowd uint16 // of a query that is left for later: its domain's, 0 for none
	memo  memo

	// send sends a message at once, where one query may have many in reply;
	// sent says that it has been used. Nil where that cannot be.
	send func(msg []byte) error
	sent bool
}

// lose counts.
func (l *lane) lose(why reason) {
	if !l.batch {
		l.t.mu.Lock()
		defer l.t.mu.Unlock()
	}
	l.t.lost[why]++
}

// answer makes a reply to msg in buf. The outcome is Answered with the reply,
// Dropped, or Later: then somebody else has to go on with it, who may wait
// (queue.put). Client, Local, Transport and At of the query are set
// before.
func (l *lane) answer(msg, buf []byte) ([]byte, wire.Outcome) {
	q := &l.q
	status := q.Parse(msg)
	if status == wire.Drop {
		l.lose(notDNS)
		return nil, wire.Dropped
	}
	l.g, l.rs, l.next = l.s.rules.Load(), l.s.responders.Load(), 0
	l.asked()
	client := q.Client.Addr()
	if l.g.deny.contain(client) {
		l.lose(denied)
		return nil, wire.Dropped
	}
	over := l.g.rate > 0 && !l.s.clients.take(l.s.clients.client(client), l.s.micros(q.At), l.g.rate)
	if over {
		l.lose(overRate)
		if q.Transport == wire.UDP {
			return nil, wire.Dropped
		}
	}
	q.Recursion = l.g.recursion.contain(client)
	l.begin(buf)
	switch o := l.decide(status, over); o {
	case wire.Answered:
		if l.sent {
			l.sent = false
			return nil, o
		}
		return l.finish()
	case wire.Dropped:
		l.lose(dropped)
		return nil, o
	default:
		return nil, o
	}
}

func (l *lane) asked() {
	if !l.batch {
		l.t.mu.Lock()
		defer l.t.mu.Unlock()
	}
	l.t.asked(&l.q)
}

// begin starts the reply: how long it may be, and what its OPT record says.
func (l *lane) begin(buf []byte) {
	q, g := &l.q, l.g
	l.known = false
	l.opt = wire.Options{Size: uint16(g.udpSize), NSID: g.nsid, Max: maxMessage}
	if q.Transport == wire.UDP {
		l.opt.Max = min(int(q.Size), g.udpSize)
	}
	if q.EDNS {
		l.options()
	}
	limit := l.opt.Max - l.opt.Room(q)
	if q.TSIG != 0 {
		limit -= min(tsigRoom, limit/2)
	}
	l.r.Start(q, buf, limit)
}

func (l *lane) options() {
	q, g := &l.q, l.g
	if q.Cookie != nil && g.cookies != cookiesOff {
		now, young := uint32(q.At.Unix()), false
		if l.known, young = checkCookie(&l.s.secret, q.Cookie, q.Client.Addr(), now); young {
			copy(l.cookie[:], q.Cookie)
		} else {
			makeCookie(&l.s.secret, &l.cookie, q.Cookie, q.Client.Addr(), now)
		}
		l.opt.Cookie = l.cookie[:]
	}
	switch {
	case q.Transport.Encrypted():
		l.opt.Block = padBlock
		if q.Transport == wire.TLS && q.Keepalive {
			l.opt.Keepalive = keepalive(g.idle)
		}
	case q.Transport == wire.TCP && q.Keepalive:
		l.opt.Keepalive = keepalive(g.idle)
	}
}

// keepalive is a time as RFC 7828 says it.
func keepalive(d time.Duration) uint16 { return uint16(min(d/(100*time.Millisecond), 0xffff)) }

// decide answers what is not for responders, and asks them for the rest.
func (l *lane) decide(status wire.Status, over bool) wire.Outcome {
	q, r := &l.q, &l.r
	udp := q.Transport == wire.UDP
	switch {
	case status == wire.Unknown:
		r.Rcode = notImp
	case status == wire.Malformed:
		r.Rcode = formErr
	case over:
		r.Rcode = refused
	case l.g.allow != nil && !l.g.allow.contain(q.Client.Addr()):
		r.Rcode, r.HasEDE, r.EDE = refused, true, edeProhibited
	case q.EDNS && q.Version > 0:
		r.Rcode = badVers
	case status == wire.Bare: // the cookie is the answer
	case udp && l.g.cookies == cookiesRequired && q.Cookie != nil && !l.known:
		l.lose(badCookie)
		r.Rcode = badCook
	case q.Type == typeOPT, udp && q.Type == typeAXFR:
		r.Rcode = formErr
	case udp && q.Type == typeIXFR:
		r.TC = true // come by TCP
	case l.send != nil && (q.Type == typeAXFR || q.Type == typeIXFR) && q.Opcode() == wire.OpcodeQuery && l.transferred():
	case q.TSIG != 0:
		if l.rs.auth == nil {
			r.Rcode = notAuth
			break
		}
		return wire.Later // keys and hashes are not for this goroutine
	case q.Opcode() == wire.OpcodeNotify:
		return l.notify()
	default:
		if o := l.ask(); o != wire.Later {
			return o
		}
		return l.later()
	}
	return wire.Answered
}

// transferred says whether a responder made the reply a transfer of a zone.
func (l *lane) transferred() bool {
	for _, t := range l.rs.transfer {
		o, err := t.Transfer(l.s.ctx, &l.q, l.send)
		if err != nil {
			l.s.logger.Warn("zone transfer", "zone", wire.Text(l.q.Name), "to", l.q.Client, "err", err)
		}
		if o != wire.Declined {
			l.sent = true
			return true
		}
	}
	return false
}

func (l *lane) notify() wire.Outcome {
	for _, n := range l.rs.notify {
		if o := n.Notify(&l.q, &l.r); o != wire.Declined {
			return o
		}
	}
	l.r.Rcode = notAuth
	return wire.Answered
}

// ask asks the responders in order, from the next on.
func (l *lane) ask() wire.Outcome {
	for ; l.next < len(l.rs.all); l.next++ {
		if o := l.rs.all[l.next].Answer(&l.q, &l.r); o != wire.Declined {
			return o
		}
	}
	l.declined()
	return wire.Answered
}

// declined is the answer when nobody has one.
func (l *lane) declined() {
	l.r.Rcode, l.r.HasEDE, l.r.EDE = refused, true, edeNotAuthoritative
}

// wait is answer for what answer left for Later, in a goroutine that may
// wait.
func (l *lane) wait(ctx context.Context, buf []byte) ([]byte, wire.Outcome) {
	l.begin(buf)
	q := &l.q
	if q.TSIG != 0 {
		return l.signed(ctx)
	}
	o := l.rs.all[l.next].Wait(ctx, q, &l.r)
	if o == wire.Declined {
		l.next++
		o = l.askWaiting(ctx)
	}
	return l.waited(o)
}

// askWaiting asks the responders left, waiting where one has to.
func (l *lane) askWaiting(ctx context.Context) wire.Outcome {
	for {
		o := l.ask()
		if o == wire.Later {
			o = l.rs.all[l.next].Wait(ctx, &l.q, &l.r)
		}
		if o != wire.Declined {
			return o
		}
		l.next++
	}
}

func (l *lane) waited(o wire.Outcome) ([]byte, wire.Outcome) {
	switch o {
	case wire.Answered:
		return l.finish()
	case wire.Dropped:
		l.lose(dropped)
		return nil, o
	}
	l.r.Reset()
	l.r.Rcode = servFail
	return l.finish()
}

// signed answers a query with a TSIG record, signed if its key is ours.
func (l *lane) signed(ctx context.Context) ([]byte, wire.Outcome) {
	o := wire.Answered
	switch {
	case !l.rs.auth.Verify(&l.q):
		l.r.Rcode = notAuth
	case l.q.Opcode() == wire.OpcodeNotify:
		o = l.notify()
	default:
		o = l.askWaiting(ctx)
	}
	msg, o := l.waited(o)
	if o == wire.Answered {
		msg = l.rs.auth.Sign(&l.q, msg)
	}
	return msg, o
}

// finish limits the rate of what goes out, writes the reply and counts it.
func (l *lane) finish() ([]byte, wire.Outcome) {
	q, r := &l.q, &l.r
	if l.g.rrl > 0 && q.Transport == wire.UDP && !q.Recursion && !l.known && !l.allowed() {
		l.slips++
		if l.g.slip == 0 || l.slips%l.g.slip != 0 {
			l.lose(rrlDropped)
			return nil, wire.Dropped
		}
		l.lose(rrlSlipped)
		r.Reset()
		if r.TC = len(l.opt.Cookie) == 0; !r.TC { // a real client comes again with our cookie
			r.Rcode = badCook
		}
	}
	msg := r.Finish(&l.opt)
	l.count(len(msg))
	return msg, wire.Answered
}

func (l *lane) count(size int) {
	if !l.batch {
		l.t.mu.Lock()
		defer l.t.mu.Unlock()
		l.t.lasted(time.Since(l.q.At), 1)
	}
	l.t.answered(l.q.Transport, l.r.Rcode, size)
	log := l.s.log
	if log == nil {
		return
	}
	// A quarter is kept for what was blocked.
	keep := l.g.log / 4
	if a := l.r.T.Verdict.Action; a == filter.Block || a == filter.Redirect {
		keep = 0
	}
	if l.s.logLeft.Load() <= keep || l.s.logLeft.Add(-1) < keep {
		l.t.lost[unlogged]++
		return
	}
	log(&l.q, &l.r, time.Since(l.q.At))
}

// allowed says whether this client's network may have one more reply of this
// kind. Positive answers are told apart by name, those of a wildcard are one;
// negative ones and referrals
// by the zone they are from, as random names are all different; errors not at
// all.
func (l *lane) allowed() bool {
	q, r, lim := &l.q, &l.r, l.s.replies
	kind, name := byte(r.Rcode), []byte(nil)
	switch {
	case r.Rcode == 0 && r.Answers > 0:
		kind, name = 0xff, q.Name
		if r.Wildcard > 0 && r.Wildcard < len(name) {
			kind, name = 0xfe, name[r.Wildcard:]
		}
	case r.Rcode == 0 || r.Rcode == 3:
		name = l.zone()
	}
	return lim.take(lim.hash(q.Client.Addr(), kind, name), l.s.micros(q.At), l.g.rrl)
}

// zone is the owner of the first authority record, as far as that is part of
// the name asked for.
func (l *lane) zone() []byte {
	q, b := &l.q, l.r.Buf
	if l.r.Authorities == 0 || q.End+2 > len(b) {
		return nil
	}
	owner := b[q.End:]
	if owner[0]&0xc0 == 0xc0 {
		if at := (int(owner[0]&0x3f)<<8 | int(owner[1])) - 12; at >= 0 && at < len(q.Name) {
			return q.Name[at:]
		}
		return nil
	}
	// Not compressed: its own bytes up to the root's zero.
	for i := 0; i < len(owner); i += 1 + int(owner[i]) {
		if owner[i] == 0 || owner[i] > 63 {
			return owner[:i]
		}
	}
	return nil
}
