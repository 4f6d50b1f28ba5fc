package capture

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"shuultuur/lib/suricata/engine"
	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/state"
	"shuultuur/tool/capture/tcp"
)

// flowTime is how long a connection without packets is kept.
const flowTime = 600 * time.Second

// maxFlows limits the connections that are followed at a time.
const maxFlows = 1 << 18

// A flowKey identifies a connection; the lower end comes first.
type flowKey struct {
	a, b  netip.AddrPort
	proto uint8
	vlan  uint32
}

func (r *Run) keyOf(p *packet) flowKey {
	k := flowKey{a: p.src, b: p.dst, proto: p.proto}
	if k.a.Compare(k.b) > 0 {
		k.a, k.b = k.b, k.a
	}
	for _, v := range p.vlans {
		if r.config.NoVLAN {
			break
		}
		k.vlan = k.vlan<<12 | uint32(v)
	}
	return k
}

// A flow is a connection.
type flow struct {
	id             int64
	key            flowKey
	client, server netip.AddrPort
	proto          uint8
	vlans          []uint16
	first, last    time.Time
	packets, bytes [2]int64
	rules          state.Flow
	quic           *quicConn
	framing        [2]frameReader
	app            parser // nil while the protocol is unknown
	appName        string
	before         string    // the protocol that it was before a change
	tried          [2][]byte // bytes received before the protocol was known
	gaveUp         bool
	txs            int // number of transactions made
	firstPacket    int

	tcpFlow
	waiting []inspection
	closed  bool
	alerted bool
	entropy map[string]float64 // measured for the last alert with one
}

// A tcpFlow is the state of a TCP connection.
type tcpFlow struct {
	state   tcpState
	track   tcp.Track
	streams [2]stream
	raw     [2]rawStream
	flags   [2]uint8
	ignored bool // not followed: its beginning is missing
	midway  bool // followed although its beginning is missing
	lastDir int  // the side that sent last, plus 1
}

type tcpState uint8

const (
	tcpNone tcpState = iota
	tcpSYN
	tcpSYNACK
	tcpEstablished
	tcpClosed
)

// A rawStream is the stream that is searched for content outside any buffer.
type rawStream struct {
	data   []byte
	end    int64 // offset up to which it was searched
	window engine.Window
}

// A parser reads one protocol of a connection.
type parser interface {
	name() string
	// data gets the next bytes of one side; gap is the number of missing bytes before them.
	data(dir rule.Direction, b []byte, gap int64)
	// end says that one side sends no more.
	end(dir rule.Direction)
}

// direction returns which side sent a packet.
func (f *flow) direction(p *packet) rule.Direction {
	if p.src == f.client {
		if f.client == f.server && p.proto == 6 {
			return rule.ToServer
		}
		return rule.ToServer
	}
	return rule.ToClient
}

func other(d rule.Direction) rule.Direction { return rule.Both &^ d }

func index(d rule.Direction) int { return int(d >> 1) }

// lookup finds or makes the connection of a packet.
func (r *Run) lookup(p *packet) *flow {
	k := r.keyOf(p)
	if f := r.flows[k]; f != nil {
		again := p.proto == 6 && p.tcp.Flags&(syn|ackFlag) == syn && f.state >= tcpClosed
		if p.time.Sub(f.last) < flowTime && !again {
			return f
		}
		r.finish(f)
	}
	if len(r.flows) >= r.maxFlows {
		for _, old := range r.flows {
			r.finish(old)
			break
		}
	}
	r.lastFlow++
	f := &flow{id: r.sequence, key: k, client: p.src, server: p.dst, proto: p.proto, vlans: p.vlans, first: p.time, firstPacket: p.number}
	if p.proto == 6 && p.tcp.Flags&(syn|ackFlag) == syn|ackFlag { // the first packet seen is an answer
		f.client, f.server = p.dst, p.src
	}
	if p.proto == 6 && p.tcp.Flags&syn == 0 && p.src.Port() < 1024 && p.dst.Port() >= 1024 { // in the middle of the connection
		f.client, f.server = p.dst, p.src
	}
	if p.proto == 6 && p.tcp.Flags&syn == 0 && bytes.HasPrefix(p.payload, []byte("HTTP/1.")) { // in the middle of a response
		f.client, f.server = p.dst, p.src
	}
	if p.proto == 17 && p.src.Port() == 53 && p.dst.Port() != 53 && len(p.payload) > 2 && p.payload[2]&0x80 != 0 {
		f.client, f.server = p.dst, p.src
	}
	r.flows[k] = f
	return f
}

// handle processes one packet.
func (r *Run) handle(p *packet) {
	r.stats.packets++
	r.stats.bytes += int64(p.wire)
	r.now = p.time
	f := r.lookup(p)
	dir := f.direction(p)
	f.last = p.time
	f.packets[index(dir)]++
	f.bytes[index(dir)] += int64(p.wire)
	r.current, r.flow, r.dir = p, f, dir
	if r.settled = f.rules.Dropped; r.settled && r.config.Prevent {
		r.out.dropRecord(r, "flow drop", nil)
		return
	}
	inStream := false
	kind := p.proto
	if r.config.Checksums && p.proto == 6 && !p.checksum() {
		r.stats.wrong++
		kind = 0
	}
	r.hold = true
	switch kind {
	case 6:
		inStream = r.segment(f, p, dir)
	case 17:
		r.datagram(f, p, dir)
	}
	if p.proto == 6 && !r.config.Inline && !r.config.Prevent {
		r.inspectPacket(f, p, dir, inStream)
		r.inspectMessages(dir)
		r.release(true)
		return
	}
	r.inspectMessages(rule.Both)
	if !f.rules.Dropped || !r.config.Prevent {
		r.inspectPacket(f, p, dir, inStream)
	}
	r.release(false)
}

// tx makes the Tx of a packet or a message of f.
func (r *Run) tx(f *flow, src engine.Source) *engine.Tx {
	t := &engine.Tx{}
	r.fill(t, f, src)
	return t
}

// makeTx makes a Tx for a packet or a piece of a stream. The next call reuses it.
func (r *Run) makeTx(f *flow, src engine.Source) *engine.Tx {
	r.packetTx.Forget()
	r.fill(&r.packetTx, f, src)
	return &r.packetTx
}

func (r *Run) fill(t *engine.Tx, f *flow, src engine.Source) {
	t.Flow, t.Source, t.Client, t.Server, t.Now, t.Info, t.Unsettled = &f.rules, src, f.client, f.server, r.now, r, r.kept != nil
	switch f.proto {
	case 6:
		t.L4 = rule.TCP
		t.Packet.Established = f.state == tcpEstablished || f.state == tcpClosed
	case 17:
		t.L4 = rule.UDP
		t.Packet.Established = f.packets[0] > 0 && f.packets[1] > 0
	case 1, 58:
		t.L4 = rule.ICMP
		t.Packet.Established = f.packets[0] > 0 && f.packets[1] > 0
	default:
		t.L4 = rule.OtherIP
	}
	t.App = appBits[f.appName]
}

var appBits = map[string]rule.Proto{"http": rule.HTTP1, "http2": rule.HTTP2, "tls": rule.TLS, "dns": rule.DNS,
	"smtp": rule.SMTP, "ftp": rule.FTP, "ftp-data": rule.FTPData, "doh2": rule.HTTP2 | rule.DNS | rule.DOH, "quic": rule.QUIC, "ssh": rule.SSH}

// inspectPacket tries the rules on the packet itself.
func (r *Run) inspectPacket(f *flow, p *packet, dir rule.Direction, inStream bool) {
	if r.settled {
		return
	}
	s := &packetSource{p: p, f: f, run: r}
	t := r.makeTx(f, s)
	t.Packet.Fragment, t.Packet.InStream = p.fragment, inStream
	r.alerts(nil, dir, r.engine.Try(t, dir, false, r.scratch[:0]))
}

// segment handles a TCP segment. It reports whether its bytes became part of the stream.
func (r *Run) segment(f *flow, p *packet, dir rule.Direction) bool {
	d := index(dir)
	f.flags[d] |= p.tcp.Flags
	s, o := &f.streams[d], &f.streams[1-d]
	events, belongs := f.track.See(&p.tcp, d, r.config.Async || f.midway)
	p.events = append(p.events, events...)
	if !belongs {
		return false
	}
	if slices.Contains(events, "suspected_rst_inject") {
		f.closed, f.state = false, tcpEstablished
	}
	if f.ignored || !r.handshake(f, p, dir) {
		return false
	}
	seq := p.tcp.Seq
	if p.tcp.Flags&syn != 0 {
		seq++ // data in a SYN (TCP fast open) comes after it
	}
	if !s.started {
		s.started, s.base, s.next = true, seq, 0
	}
	if p.tcp.Flags&ackFlag != 0 && o.started {
		o.acked = max(o.acked, min(o.offset(p.tcp.Ack), o.next+maxPending))
	}
	added := false
	if len(p.payload) > 0 {
		off := s.offset(seq)
		if off > s.next-1<<20 && off < s.next+maxPending {
			if u := int(p.tcp.Urgent); r.config.Urgent == "oob" && p.tcp.Flags&urg != 0 && u > 0 && u <= len(p.payload) {
				s.add(off, p.payload[:u-1], true)
				s.omit(off + int64(u) - 1)
				s.add(off+int64(u), p.payload[u:], true)
			} else {
				if s.differs(off, p.payload) {
					p.events = append(p.events, "reassembly_overlap_different_data")
				}
				s.add(off, p.payload, true)
			}
			added = true
		}
	}
	if p.tcp.Flags&fin != 0 {
		s.fin = s.offset(seq) + int64(len(p.payload))
	}
	if p.tcp.Flags&rst != 0 {
		f.state = tcpClosed
		r.deliver(f, rule.ToServer, true)
		r.deliver(f, rule.ToClient, true)
		r.end(f)
		return added
	}
	// Acknowledged bytes of the other side cannot be replaced any more.
	gaps := o.gaps
	r.deliver(f, other(dir), false)
	if o.gaps > gaps {
		p.events = append(p.events, "reassembly_seq_gap")
	}
	if r.config.Inline || f.midway || r.config.Async && f.packets[1-d] == 0 {
		r.deliver(f, dir, false)
	}
	if f.streams[0].done && f.streams[1].done {
		f.state = tcpClosed
		r.end(f)
	}
	return added
}

// handshake tracks the state of a connection. It returns false if the connection is not
// followed.
func (r *Run) handshake(f *flow, p *packet, dir rule.Direction) bool {
	flags := p.tcp.Flags
	switch {
	case flags&(syn|ackFlag) == syn:
		if f.state == tcpNone {
			f.state = tcpSYN
		}
		if len(p.payload) == 0 {
			s := &f.streams[index(dir)]
			s.started, s.base, s.next = true, p.tcp.Seq+1, 0
			return false
		}
	case flags&(syn|ackFlag) == syn|ackFlag:
		if f.state == tcpNone && !r.config.Midstream && !r.config.Async {
			f.ignored = true
			return false
		}
		f.state = max(f.state, tcpSYNACK)
		s := &f.streams[index(dir)]
		if !s.started {
			s.started, s.base = true, p.tcp.Seq+1
		}
	case f.state == tcpNone:
		if !r.config.Midstream {
			if !r.config.Async {
				f.ignored = true
				return false
			}
		}
		f.state, f.midway = tcpEstablished, true
	case f.state == tcpSYN && flags&ackFlag != 0:
		if r.config.Async || r.config.Midstream {
			f.state, f.midway = tcpEstablished, true
		}
	case f.state == tcpSYNACK && flags&ackFlag != 0:
		f.state = tcpEstablished
	}
	return true
}

// deliver passes on the available bytes of a direction. With all, at the end of a connection,
// it skips gaps.
func (r *Run) deliver(f *flow, dir rule.Direction, all bool) {
	s := &f.streams[index(dir)]
	limit := s.acked
	if all || r.config.Inline || f.midway || r.config.Async {
		limit = 1 << 62
	}
	for {
		b, gap := s.take(limit, all || s.acked > s.next && limit != 1<<62 || s.pending > maxPending/2)
		if b == nil {
			break
		}
		r.bytes(f, dir, b, gap)
	}
	if s.fin > 0 && s.next >= s.fin && !s.done {
		s.done = true
		r.flushRaw(f, dir)
		if f.app != nil {
			f.app.end(dir)
		}
	}
}

// bytes handles the next bytes of one side of a connection.
func (r *Run) bytes(f *flow, dir rule.Direction, b []byte, gap int64) {
	r.stats.payload += int64(len(b))
	if gap > 0 {
		r.flushRaw(f, dir)
	}
	if r.engine.HasStream(dir) && !f.rules.Passed {
		raw := &f.raw[index(dir)]
		raw.data = append(raw.data, b...)
	}
	if f.lastDir != index(dir)+1 {
		r.flushRaw(f, other(dir))
		f.lastDir = index(dir) + 1
	}
	r.application(f, dir, b, gap)
	if raw := &f.raw[index(dir)]; len(raw.data)-raw.window.Kept >= rawChunk {
		r.flushRaw(f, dir)
	}
}

// Sizes of the window that is searched for content outside any buffer.
const (
	rawChunk = 2560
	rawKept  = 2560
)

// flushRaw searches new bytes for content outside any buffer.
func (r *Run) flushRaw(f *flow, dir rule.Direction) {
	raw := &f.raw[index(dir)]
	if len(raw.data) == raw.window.Kept {
		return
	}
	raw.end += int64(len(raw.data) - raw.window.Kept)
	raw.window.SetSearched(raw.end)
	if r.settled {
		raw.data, raw.window.Kept = raw.data[:0], 0
		return
	}
	s := &streamSource{data: raw.data, inner: &packetSource{p: r.current, f: f, run: r}}
	r.alerts(nil, dir, r.engine.TryStream(r.makeTx(f, s), dir, &raw.window, r.scratch[:0]))
	if cut := len(raw.data) - rawKept; cut > 0 {
		raw.data = append(raw.data[:0], raw.data[cut:]...)
	}
	raw.window.Kept = len(raw.data)
}

// application detects the protocol and passes on the bytes.
func (r *Run) application(f *flow, dir rule.Direction, b []byte, gap int64) {
	if f.app != nil {
		r.frames(f, dir, b, gap)
		f.app.data(dir, b, gap)
		return
	}
	if f.gaveUp {
		return
	}
	t := &f.tried[index(dir)]
	*t = append(*t, b...)
	f.app = r.detect(f, dir)
	if f.app == nil {
		if len(*t) > maxTried {
			f.gaveUp = true
		}
		return
	}
	f.appName = f.app.name()
	first, second := rule.ToServer, rule.ToClient
	if dir == rule.ToClient {
		first, second = second, first
	}
	for _, d := range []rule.Direction{first, second} {
		if held := f.tried[index(d)]; len(held) > 0 {
			f.tried[index(d)] = nil
			r.frames(f, d, held, 0)
			f.app.data(d, held, 0)
		}
	}
}

// maxTried is the number of bytes by which the protocol of a connection is detected.
const maxTried = 16 << 10

// end ends the messages of a connection.
func (r *Run) end(f *flow) {
	if f.closed {
		return
	}
	f.closed = true
	for _, d := range []rule.Direction{rule.ToServer, rule.ToClient} {
		r.deliver(f, d, true)
		r.flushRaw(f, d)
	}
	if f.app != nil {
		f.app.end(rule.ToServer)
		f.app.end(rule.ToClient)
	}
}
