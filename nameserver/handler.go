package nameserver

import (
	"context"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/dns"
)

const (
	maxMessage = 65535
	padBlock   = 468 // RFC 8467 section 4.1
)

// A handler turns one query at a time into a reply, bytes to bytes. It holds all
// the memory that this takes, and belongs to one goroutine.
type handler struct {
	s *Server
	t *counters
	// batch is true when t is locked for a whole batch already, by the
	// goroutine that reads a socket.
	batch bool

	q      dns.Query
	r      dns.Reply
	judged filter.Transaction // of r
	opt    dns.Options
	cookie [cookieLen]byte
	proven bool // the query had a valid cookie of this server
	slips  uint32

	g    *rules
	rs   *responders
	next int // index of the responder to ask

	streamID uint32 // of an HTTP/2 connection
	domain   uint16 // index of the queue of a query that has to wait
	memo     memo

	// send sends a message immediately, if a query may have many replies; nil if it
	// may not. Afterwards sent is true.
	send func(msg []byte) error
	sent bool
}

// drop counts a query that was dropped or limited.
func (l *handler) drop(why reason) {
	if !l.batch {
		l.t.mu.Lock()
		defer l.t.mu.Unlock()
	}
	l.t.drops[why]++
}

// answer makes a reply to msg in buf. The outcome is Answered with the reply,
// Dropped, or Later: then the caller gives the query to a worker (queue.put). The
// caller has set Client, Local, Transport and At of the query.
func (l *handler) answer(msg, buf []byte) ([]byte, dns.Outcome) {
	q := &l.q
	status := q.Parse(msg)
	if status == dns.Drop {
		l.drop(notDNS)
		return nil, dns.Dropped
	}
	l.g, l.rs, l.next = l.s.rules.Load(), l.s.responders.Load(), 0
	l.countQuery()
	q.Recursion = l.g.recursion.contain(q.Client.Addr())
	if l.s.tap != nil {
		l.s.tap.Query(q)
	}
	client := q.Client.Addr()
	if l.g.deny.contain(client) {
		l.drop(denied)
		return nil, dns.Dropped
	}
	if q.Transport == dns.UDP && answersItself(q.Client.Port()) {
		l.drop(notDNS)
		return nil, dns.Dropped
	}
	over := l.g.rate > 0 && !l.s.clients.take(l.s.clients.client(client), l.s.micros(q.At), l.g.rate)
	if over {
		l.drop(overRate)
		if q.Transport == dns.UDP {
			return nil, dns.Dropped
		}
	}
	l.begin(buf)
	switch o := l.decide(status, over); o {
	case dns.Answered:
		if l.sent {
			l.sent = false
			return nil, o
		}
		return l.finish()
	case dns.Dropped:
		l.drop(dropped)
		return nil, o
	default:
		return nil, o
	}
}

// answersItself reports whether a service at a port answers whatever it gets, so that it and we
// could go on for ever with a query that a third party has sent in its name: echo, daytime, quote
// of the day, character generator, time, and the name service of NetBIOS, whose messages look like
// DNS. No resolver sends from there.
func answersItself(port uint16) bool {
	switch port {
	case 0, 7, 13, 17, 19, 37, 137:
		return true
	}
	return false
}

func (l *handler) countQuery() {
	if !l.batch {
		l.t.mu.Lock()
		defer l.t.mu.Unlock()
	}
	l.t.query(&l.q)
}

// begin starts the reply and determines its limit and OPT record.
func (l *handler) begin(buf []byte) {
	q, g := &l.q, l.g
	l.proven = false
	l.opt = dns.Options{Size: uint16(g.udpSize), NSID: g.nsid, Max: maxMessage}
	if q.Transport == dns.UDP {
		l.opt.Max = min(int(q.Size), g.udpSize)
	}
	if q.HasEDNS {
		l.options()
	}
	limit := l.opt.Max - l.opt.Room(q)
	if q.TSIG != 0 {
		limit -= min(tsigRoom, limit/2)
	}
	l.r.Start(q, buf, limit)
	if l.judged.Host != "" || l.judged.ID != "" { // most replies leave it as it is, and it is large
		l.judged.Reset()
	}
}

func (l *handler) options() {
	q, g := &l.q, l.g
	if q.Cookie != nil && g.cookies != cookiesOff {
		now, young := uint32(q.At.Unix()), false
		if l.proven, young = checkCookie(&l.s.secret, q.Cookie, q.Client.Addr(), now); young {
			copy(l.cookie[:], q.Cookie)
		} else {
			makeCookie(&l.s.secret, &l.cookie, q.Cookie, q.Client.Addr(), now)
		}
		l.opt.Cookie = l.cookie[:]
	}
	switch {
	case q.Transport.Encrypted():
		l.opt.Block = padBlock
		if q.Transport == dns.TLS && q.Keepalive {
			l.opt.Keepalive = keepalive(g.idle)
		}
	case q.Transport == dns.TCP && q.Keepalive:
		l.opt.Keepalive = keepalive(g.idle)
	}
}

// keepalive returns a duration in the unit of RFC 7828.
func keepalive(d time.Duration) uint16 { return uint16(min(d/(100*time.Millisecond), 0xffff)) }

// decide answers queries that need no responder, and passes others to the
// responders.
func (l *handler) decide(status dns.Status, over bool) dns.Outcome {
	q, r := &l.q, &l.r
	udp := q.Transport == dns.UDP
	switch {
	case status == dns.Unknown:
		l.examine(over)
		r.Rcode = dns.RcodeNotImp
	case status == dns.Malformed:
		l.examine(over)
		r.Rcode = dns.RcodeFormErr
	case over:
		r.Rcode = dns.RcodeRefused
	case l.g.allow != nil && !l.g.allow.contain(q.Client.Addr()):
		r.Rcode, r.HasEDE, r.EDE = dns.RcodeRefused, true, dns.EDEProhibited
	case q.HasEDNS && q.Version > 0:
		l.examine(false)
		r.Rcode = dns.RcodeBadVers
	case status == dns.Bare: // the cookie is the answer
	case udp && l.g.cookies == cookiesRequired && q.Cookie != nil && !l.proven:
		l.drop(badCookie)
		r.Rcode = dns.RcodeBadCookie
	case q.Opcode() == dns.OpcodeUpdate:
		if q.TSIG != 0 && l.rs.auth != nil {
			l.domain = 0
			return dns.Later
		}
		l.examine(false)
		r.Rcode = dns.RcodeRefused // nobody updates without a key
		if l.rs.update == nil {
			r.Rcode = dns.RcodeNotImp
		}
	case q.Type == dns.TypeOPT, udp && q.Type == dns.TypeAXFR:
		l.examine(false)
		r.Rcode = dns.RcodeFormErr
	case udp && q.Type == dns.TypeIXFR:
		r.TC = true // the client comes by TCP
	case l.send != nil && (q.Type == dns.TypeAXFR || q.Type == dns.TypeIXFR) && q.Opcode() == dns.OpcodeQuery && l.transferred():
	case q.TSIG != 0:
		if l.rs.auth == nil {
			r.Rcode = dns.RcodeNotAuth
			break
		}
		l.domain = 0     // of the query before
		return dns.Later // verifying takes too long for this goroutine
	case q.Opcode() == dns.OpcodeNotify:
		return l.notify()
	case l.itself():
	default:
		if o := l.ask(); o != dns.Later {
			return o
		}
		return l.deferOrServeStale()
	}
	return dns.Answered
}

// examine passes a message that the server answers by itself to the witnesses,
// unless its client sends too many.
func (l *handler) examine(over bool) {
	if over {
		return
	}
	for _, w := range l.rs.witness {
		w.SeeRefused(&l.q, &l.judged)
	}
}

// transferred reports whether a responder answered with a transfer of a zone.
func (l *handler) transferred() bool {
	for _, t := range l.rs.transfer {
		o, err := t.Transfer(l.s.ctx, &l.q, l.send)
		if err != nil {
			l.s.logger.Warn("zone transfer", "zone", dns.Text(l.q.Name), "to", l.q.Client, "error", err)
		}
		if o != dns.Declined {
			l.sent = true
			return true
		}
	}
	return false
}

func (l *handler) notify() dns.Outcome {
	l.examine(false)
	for _, n := range l.rs.notify {
		if o := n.Notify(&l.q, &l.r); o != dns.Declined {
			return o
		}
	}
	l.r.Rcode = dns.RcodeNotAuth
	return dns.Answered
}

// ask asks the responders in order, beginning with the next.
func (l *handler) ask() dns.Outcome {
	for ; l.next < len(l.rs.all); l.next++ {
		if o := l.rs.all[l.next].Answer(&l.q, &l.r, &l.judged); o != dns.Declined {
			return o
		}
	}
	l.declined()
	return dns.Answered
}

// declined sets the answer after all responders have declined.
func (l *handler) declined() {
	l.r.Rcode, l.r.HasEDE, l.r.EDE = dns.RcodeRefused, true, dns.EDENotAuthoritative
}

// wait continues a query that answer left for Later, on a worker.
func (l *handler) wait(ctx context.Context, buf []byte) ([]byte, dns.Outcome) {
	l.begin(buf)
	q := &l.q
	if q.TSIG != 0 {
		return l.answerSigned(ctx)
	}
	o := l.rs.all[l.next].Wait(ctx, q, &l.r, &l.judged)
	if o == dns.Declined {
		l.next++
		o = l.askWaiting(ctx)
	}
	return l.afterWait(o)
}

// askWaiting asks the remaining responders, and waits where one has to.
func (l *handler) askWaiting(ctx context.Context) dns.Outcome {
	for {
		o := l.ask()
		if o == dns.Later {
			o = l.rs.all[l.next].Wait(ctx, &l.q, &l.r, &l.judged)
		}
		if o != dns.Declined {
			return o
		}
		l.next++
	}
}

func (l *handler) afterWait(o dns.Outcome) ([]byte, dns.Outcome) {
	switch o {
	case dns.Answered:
		return l.finish()
	case dns.Dropped:
		l.drop(dropped)
		return nil, o
	}
	l.r.Reset()
	l.r.Rcode = dns.RcodeServFail
	return l.finish()
}

// answerSigned answers a query with a TSIG record. The reply is signed if the key is
// ours.
func (l *handler) answerSigned(ctx context.Context) ([]byte, dns.Outcome) {
	o := dns.Answered
	switch {
	case !l.rs.auth.Verify(&l.q):
		l.r.Rcode = dns.RcodeNotAuth
	case l.q.Opcode() == dns.OpcodeNotify:
		o = l.notify()
	case l.q.Opcode() == dns.OpcodeUpdate && l.rs.update == nil:
		l.r.Rcode = dns.RcodeNotImp
	case l.q.Opcode() == dns.OpcodeUpdate:
		l.examine(false)
		l.rs.update.Update(ctx, &l.q, &l.r)
	default:
		o = l.askWaiting(ctx)
	}
	msg, o := l.afterWait(o)
	if o == dns.Answered {
		msg = l.rs.auth.Sign(&l.q, msg)
	}
	return msg, o
}

// finish applies response rate limiting, writes the reply and counts it.
func (l *handler) finish() ([]byte, dns.Outcome) {
	q, r := &l.q, &l.r
	if l.g.rrl > 0 && q.Transport == dns.UDP && !q.Recursion && !l.proven && !l.allowed() {
		l.slips++
		if l.g.slip == 0 || l.slips%l.g.slip != 0 {
			l.drop(rrlDropped)
			return nil, dns.Dropped
		}
		l.drop(rrlSlipped)
		r.Reset()
		if r.TC = len(l.opt.Cookie) == 0; !r.TC { // a real client sends the query again with our cookie
			r.Rcode = dns.RcodeBadCookie
		}
	}
	msg := r.Finish(&l.opt)
	l.count(len(msg))
	if l.s.tap != nil {
		l.s.tap.Response(q, msg)
	}
	return msg, dns.Answered
}

func (l *handler) count(size int) {
	if !l.batch {
		l.t.mu.Lock()
		defer l.t.mu.Unlock()
		l.t.addTime(time.Since(l.q.At), 1)
	}
	l.t.reply(l.q.Transport, l.r.Rcode, size)
	log := l.s.log
	if log == nil {
		return
	}
	// A quarter is reserved for refusals.
	keep := l.g.log / 4
	if a := l.judged.Verdict.Action; a == filter.Block || a == filter.Redirect {
		keep = 0
	}
	if l.s.logLeft.Load() <= keep || l.s.logLeft.Add(-1) < keep {
		l.t.drops[unlogged]++
		return
	}
	log(&l.q, &l.r, &l.judged, time.Since(l.q.At))
}

// allowed reports whether this client's network may have one more reply of this
// kind. Positive answers are counted by name, those of a wildcard together;
// negative answers and referrals by zone, because random names all differ; and
// all errors together.
func (l *handler) allowed() bool {
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

// zone returns the owner of the first authority record, if it is a suffix of
// the question's name.
func (l *handler) zone() []byte {
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

// newHandler returns a handler for a goroutine that does not read a socket.
func (s *Server) newHandler() handler { return handler{s: s, t: s.shard(int(s.turn.Add(1)))} }
