// Package capture tries signature rules on captured packets.
//
// [Run] reads packets from files. decode.go decodes them down to TCP, UDP and ICMP, through
// tunnels and fragments. flow.go finds the connection and reassembles TCP. http.go, http2.go,
// tls.go and dns.go parse the messages, and fill in the forms that package engine inspects.
// Alerts and records of messages go to eve.json and fast.log (eve.go). Captures contain data
// of attackers: everything is read as tolerantly as a browser or server would, within fixed
// limits.
package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"shuultuur/lib/suricata/engine"
	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/traffic"
	"shuultuur/tool/capture/pcap"
	"shuultuur/tool/capture/quic"
)

// Config configures the reading of captures.
type Config struct {
	Midstream bool // follow connections whose beginning is missing
	Async     bool // follow connections with one side missing
	Inline    bool // inspect segments when they arrive, not when they are acknowledged
	Prevent   bool // drop and pass apply to the whole connection
	Layers    int  // content codings that are decoded; 0 means 2
	Request   int  // bytes of a request body that rules inspect; 0 means 100 KiB
	Response  int  // bytes of a response body that rules inspect; 0 means 100 KiB
	DNSPorts  []uint16
	NoVLAN    bool // VLAN tags do not distinguish connections
	// Urgent is the treatment of urgent bytes: "oob" removes them from the stream, "inline"
	// and "" leave them.
	Urgent    string
	Checksums bool // ignore segments with a wrong checksum
	Cores     int  // goroutines that parse connections, in addition to the one that reads packets; 0 and 1 mean only that one
}

func (c *Config) limit(dir rule.Direction) int {
	n := c.Request
	if dir == rule.ToClient {
		n = c.Response
	}
	if n == 0 {
		return 100 << 10
	}
	return n
}

// wholeFile is the number of bytes of a body that are kept if rules test its digest.
const wholeFile = 16 << 20

// Stats are statistics of a capture.
type Stats struct {
	packets, bytes, payload, broken int64
	alerts, flows, wrong            int64
}

// A Run tries the rules on captures. It belongs to one goroutine, and with Cores starts more.
// [Run.Close] ends them.
type Run struct {
	config    Config
	engine    *engine.Engine
	out       *Output
	flows     map[flowKey]*flow
	maxFlows  int
	lastFlow  int64
	sequence  int64 // of the current packet: number of packets decoded before it
	shared    *shared
	transfers *transfers
	kept      *[]entry // destination of records in a part of a shared Run
	decoder   decoder
	now       time.Time
	stats     Stats
	read      atomic.Int64 // bytes of the files, for a progress bar

	// of the current packet
	current  *packet
	flow     *flow
	dir      rule.Direction
	scratch  []engine.Alert
	packetTx engine.Tx
	hold     bool
	held     []heldAlert
	settled  bool   // an earlier packet of the connection was dropped with the rest of it
	pseudo   bool   // the connection is over: there is no current packet
	verdict  string // of the packet whose alerts are written
}

// An inspection waits until the whole packet was decoded.
type inspection struct {
	message any
	tx      *engine.Tx
	dir     rule.Direction
	at      rule.Progress
	frame   *frameSource // not nil for a frame, which is no message
}

// inspect schedules trying the rules on a message, after the packet was decoded.
func (r *Run) inspect(message any, tx *engine.Tx, dir rule.Direction, at rule.Progress) {
	w := &r.flow.waiting
	for i := len(*w) - 1; i >= 0; i-- {
		x := &(*w)[i]
		if x.tx == tx && x.dir == dir {
			x.at = max(x.at, at)
			return
		}
		if x.dir == dir {
			break
		}
	}
	*w = append(*w, inspection{message: message, tx: tx, dir: dir, at: at})
}

// inspectMessages tries the rules on the waiting messages of a direction. Suricata inspects
// data when the other side has acknowledged it and this side sends again; inline it does so at
// once.
func (r *Run) inspectMessages(dir rule.Direction) {
	var later []inspection
	waiting := r.flow.waiting
	for _, x := range waiting {
		if r.settled || r.flow.rules.Dropped && r.config.Prevent {
			later = nil
			break
		}
		if x.dir&dir == 0 {
			later = append(later, x)
			continue
		}
		if x.frame != nil {
			r.alerts(nil, x.dir, r.engine.TryFrame(r.makeTx(r.flow, x.frame), x.dir, r.scratch[:0]))
			continue
		}
		x.tx.Now = r.now
		if x.tx.L4 == rule.TCP {
			x.tx.Packet.Established = true
		}
		r.alerts(x.message, x.dir, r.engine.Inspect(x.tx, x.dir, x.at, r.scratch[:0]))
	}
	clear(waiting)
	r.flow.waiting = append(waiting[:0], later...)
}

// New returns a Run that writes to out.
func New(c Config, e *engine.Engine, out *Output) *Run {
	if c.Layers == 0 {
		c.Layers = 2
	}
	if e.NeedsFiles() { // a digest requires the whole file
		c.Request, c.Response = max(c.Request, wholeFile), max(c.Response, wholeFile)
	}
	r := &Run{config: c, engine: e, out: out, flows: map[flowKey]*flow{}, maxFlows: maxFlows, transfers: &transfers{}}
	r.decoder = decoder{fragments: map[fragmentKey]*fragments{}, out: r.packet}
	if c.Cores > 1 && !e.Serial() {
		r.startWorkers(min(c.Cores, maxCores))
	}
	return r
}

// Read returns the number of bytes of the files that were read. It is safe for concurrent use.
func (r *Run) Read() int64 { return r.read.Load() }

// Packets, Broken, Alerts, Flows and Payload return the counts so far. Broken packets cannot
// be decoded, or have a wrong checksum.
func (s *Stats) Packets() int64 { return s.packets }
func (s *Stats) Broken() int64  { return s.broken + s.wrong }
func (s *Stats) Alerts() int64  { return s.alerts }
func (s *Stats) Flows() int64   { return s.flows }
func (s *Stats) Payload() int64 { return s.payload }

// Stats returns the statistics.
func (r *Run) Stats() *Stats {
	r.stats.broken, r.stats.flows = r.decoder.broken, r.lastFlow
	if r.shared != nil {
		r.shared.sum(&r.stats)
	}
	return &r.stats
}

// A countingReader counts the bytes that are read.
type countingReader struct {
	io.Reader
	n *atomic.Int64
}

func (c countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// File reads a capture.
func (r *Run) File(ctx context.Context, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	packets, err := pcap.Open(countingReader{f, &r.read})
	if err != nil {
		return fmt.Errorf("read capture %s: %w", name, err)
	}
	number := 0
	for ctx.Err() == nil {
		rec, err := packets.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				r.decoder.broken++ // the file is truncated
			}
			break
		}
		number++
		p := &packet{number: number, time: rec.At, link: rec.Link}
		r.decoder.decode(p, rec.Data)
		if number%4096 == 0 {
			r.expire(flowTime)
		}
	}
	if err := ctx.Err(); err != nil {
		r.stop()
		return err
	}
	return nil
}

// expire ends connections without packets for longer than this time, oldest first.
func (r *Run) expire(than time.Duration) {
	if r.shared != nil {
		r.shared.end(r, than)
		return
	}
	var left []*flow
	for _, f := range r.flows {
		if r.now.Sub(f.last) > than {
			left = append(left, f)
		}
	}
	sortFlows(left)
	last := r.sequence
	for _, f := range left {
		r.sequence = f.id
		r.finish(f)
	}
	r.sequence = last
}

// Close ends all connections.
func (r *Run) Close() error {
	r.expire(-1 << 63)
	r.stop()
	r.out.statsRecord(r)
	return r.out.Flush()
}

// alerts writes alerts of the current packet, or of a message.
func (r *Run) alerts(message any, dir rule.Direction, as []engine.Alert) {
	r.scratch = as[:0]
	for i := range as {
		switch a := &as[i]; {
		case r.hold:
			r.held = append(r.held, heldAlert{message, dir, *a})
		case !a.Silent:
			r.out.alertRecord(r, message, dir, a)
		}
	}
}

// An entry is a packet's output for eve.json and fast.log.
type entry struct {
	sequence int64
	record   map[string]any // nil for none
	line     []byte         // the encoded record, if it is already encoded
	fast     string
	alert    *engine.Alert // nil if it is not an alert
	flow     *flow         // for alerts and ended connections
}

// emit writes an entry, or keeps it until those of earlier packets are written.
func (r *Run) emit(x entry) {
	if r.kept == nil {
		r.write(&x)
		return
	}
	x.sequence = r.sequence
	switch {
	case x.alert != nil:
		a := *x.alert
		x.alert = &a
	case x.flow == nil && r.out.Seen == nil:
		var line bytes.Buffer
		if encode(&line, x.record) == nil {
			x.line, x.record = line.Bytes(), nil
		}
	}
	*r.kept = append(*r.kept, x)
}

// write writes an entry. Thresholds count alerts in the order in which they are written.
func (r *Run) write(x *entry) {
	switch {
	case x.alert != nil:
		if r.engine.Settle(x.alert); x.alert.Silent {
			return
		}
		r.stats.alerts++
		x.flow.alerted = true
	case x.flow != nil:
		x.record["flow"].(map[string]any)["alerted"] = x.flow.alerted
	}
	r.out.write(x)
}

// A heldAlert is an alert that waits until all rules were tried on a packet.
type heldAlert struct {
	message any
	dir     rule.Direction
	alert   engine.Alert
}

// release writes the alerts of a packet, and that it was dropped. With first, a rule that passes
// the packet takes precedence over all others.
func (r *Run) release(first bool) {
	var dropped *engine.Alert
	passed := false
	for i := range r.held {
		a := &r.held[i].alert
		passed = passed || a.Action == rule.Pass
		if dropped == nil && a.Action > rule.Pass && a.Action < rule.Alert {
			dropped = a
		}
	}
	switch r.verdict = "alert"; {
	case passed:
		r.verdict = "pass"
	case dropped != nil && r.config.Prevent:
		r.verdict = "drop"
	}
	for i := range r.held {
		if h := &r.held[i]; !h.alert.Silent && (!passed || !first || h.alert.Action == rule.Pass) {
			r.out.alertRecord(r, h.message, h.dir, &h.alert)
		}
	}
	if r.verdict == "drop" {
		reason := "rules"
		if dropped.Action != dropped.Rule.Action { // by rate_filter
			reason = "threshold detection_filter"
		}
		r.out.dropRecord(r, reason, dropped)
	}
	r.verdict = ""
	clear(r.held)
	r.held, r.hold = r.held[:0], false
}

// datagram handles UDP.
func (r *Run) datagram(f *flow, p *packet, dir rule.Direction) {
	if f.quic != nil || f.appName == "" && dir == rule.ToServer && quic.Is(p.payload) {
		if len(p.payload) > 0 {
			r.stats.payload += int64(len(p.payload))
			r.quic(f, dir, p.payload)
		}
		return
	}
	if len(p.payload) < 12 {
		return
	}
	if f.appName == "dns" || r.dnsPort(f.server.Port()) || looksLikeDNS(p.payload) {
		if port := f.server.Port(); slices.Contains(likeDNS, port) && !r.dnsPort(port) {
			return
		}
		r.stats.payload += int64(len(p.payload))
		r.dns(f, dir, p.payload)
	}
}

// likeDNS are the ports of protocols whose messages have the form of DNS's: names of NetBIOS (RFC 1002),
// multicast DNS (RFC 6762), LLMNR (RFC 4795).
var likeDNS = []uint16{137, 5353, 5355}

func (r *Run) dnsPort(port uint16) bool {
	if port == 53 {
		return true
	}
	for _, p := range r.config.DNSPorts {
		if p == port {
			return true
		}
	}
	return false
}

// looksLikeDNS reports whether a datagram on another port is a DNS message.
func looksLikeDNS(b []byte) bool {
	t := parseDNS(b)
	return t != nil && !t.Malformed && len(t.Queries) == 1 && len(t.Queries[0].Name) > 0 && t.Opcode <= 5 && t.flags&0x40 == 0
}

// methods are the beginnings of requests by which the protocol is detected.
var methods = strings.Fields("GET POST HEAD PUT DELETE OPTIONS TRACE CONNECT PATCH PROPFIND PROPPATCH MKCOL COPY MOVE LOCK UNLOCK CHECKOUT UNCHECKOUT CHECKIN UPDATE LABEL REPORT MKWORKSPACE MKACTIVITY MERGE INVALID VERSION-CONTROL BASELINE-CONTROL SEARCH SUBSCRIBE NOTIFY M-SEARCH")

// Captured returns the current packet for scripts.
func (r *Run) Captured() engine.CapturedPacket {
	p := r.current
	return engine.CapturedPacket{Number: p.number, Time: p.time, Src: p.src, Dst: p.dst, Proto: p.proto, Payload: p.payload, Packet: p.ip}
}

// packet handles one packet.
func (r *Run) packet(p *packet) {
	r.sequence++
	if r.shared != nil {
		r.shared.add(r, p)
		return
	}
	r.handle(p)
}

// finish ends a connection and drops it.
func (r *Run) finish(f *flow) {
	r.flow, r.dir = f, rule.ToServer
	if r.current == nil {
		r.current = &packet{}
	}
	r.pseudo = !f.closed && f.proto == 6
	if !f.rules.Dropped {
		r.end(f)
	}
	r.pseudo = len(f.waiting) > 0
	r.inspectMessages(rule.Both)
	r.pseudo = false
	delete(r.flows, f.key)
	r.out.flowRecord(r, f)
}

// A tlsParser parses TLS records up to the encrypted ones.
type tlsParser struct {
	r          *Run
	f          *flow
	buf        [2][]byte // incomplete records
	hand       [2][]byte // incomplete handshake messages
	tls        traffic.TLSHandshake
	tx         *engine.Tx
	at         [2]rule.Progress
	ended      [2]bool // the rest is encrypted
	shown      bool
	id         int
	extensions [2][]uint16 // of the hellos, in their order
}
