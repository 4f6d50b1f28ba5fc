//go:build !small

package tap

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	dnstap "github.com/dnstap/golang-dnstap"
	framestream "github.com/farsightsec/golang-framestream"
	"google.golang.org/protobuf/proto"

	"shuultuur/lib/dns"
)

const (
	queued  = 4096 // messages that wait for the receiver; more are dropped
	retry   = time.Second
	timeout = 5 * time.Second // of a connection attempt and of a write
)

// A Tap sends messages to a receiver, to which it connects again whenever it is away.
type Tap struct {
	network, address string
	identity         []byte
	queue            chan *message
	sent, dropped    atomic.Uint64

	mu   sync.Mutex
	away error // why there is no connection
}

// A message is one to be sent.
type message struct {
	typ          dnstap.Message_Type
	response     bool
	msg          []byte
	at, answered time.Time // at of a response of an upstream is not known
	asker        netip.AddrPort
	asked        netip.AddrPort // without a port where that is not known
	transport    dns.Transport
}

// New makes a tap to a place, see [Place]. identity says who sends; "" for nobody.
func New(place, identity string) (*Tap, error) {
	t := &Tap{identity: []byte(identity), queue: make(chan *message, queued)}
	var err error
	t.network, t.address, err = Place(place)
	return t, err
}

// Query passes on a query that was read. It never waits.
func (t *Tap) Query(q *dns.Query) { t.put(&message{typ: typeOf(q), at: q.At}, q, q.Msg) }

// Response passes on the reply to a query. It never waits.
func (t *Tap) Response(q *dns.Query, reply []byte) {
	t.put(&message{typ: typeOf(q) + 1, at: q.At, answered: time.Now(), response: true}, q, reply)
}

// Upstream passes on what the forwarder sends and gets. It never waits.
func (t *Tap) Upstream(response bool, over dns.Transport, from, to netip.AddrPort, msg []byte) {
	m := &message{typ: dnstap.Message_FORWARDER_QUERY, response: response, asker: from, asked: to, transport: over}
	if response {
		m.typ, m.answered = dnstap.Message_FORWARDER_RESPONSE, time.Now()
	} else {
		m.at = time.Now()
	}
	t.queueUp(m, msg)
}

// typeOf returns the type of a query that we get. That of its reply is the next one. We are the
// authority for who may not recurse, or does not want to.
func typeOf(q *dns.Query) dnstap.Message_Type {
	switch {
	case q.Opcode() == dns.OpcodeUpdate:
		return dnstap.Message_UPDATE_QUERY
	case !q.Recursion || !q.RD():
		return dnstap.Message_AUTH_QUERY
	}
	return dnstap.Message_CLIENT_QUERY
}

func (t *Tap) put(m *message, q *dns.Query, msg []byte) {
	m.asker, m.asked, m.transport = q.Client, netip.AddrPortFrom(q.Local, 0), q.Transport
	t.queueUp(m, msg)
}

func (t *Tap) queueUp(m *message, msg []byte) {
	if len(t.queue) == cap(t.queue) { // without a copy
		t.dropped.Add(1)
		return
	}
	m.msg = append([]byte(nil), msg...)
	select {
	case t.queue <- m:
	default:
		t.dropped.Add(1)
	}
}

// Counts returns how many messages were sent, and how many were dropped.
func (t *Tap) Counts() (sent, dropped uint64) { return t.sent.Load(), t.dropped.Load() }

// Problem says why the receiver gets nothing, "" if it does.
func (t *Tap) Problem() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.away == nil {
		return ""
	}
	return fmt.Sprintf("dns.dnstap: there is no connection to %s: %v; %d messages were dropped since the start", t.address, t.away, t.dropped.Load())
}

func (t *Tap) note(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.away = err
}

// Run sends messages until ctx ends.
func (t *Tap) Run(ctx context.Context) {
	var next *message // that could not be sent
	for ctx.Err() == nil {
		err := t.connection(ctx, &next)
		if ctx.Err() != nil {
			return
		}
		t.note(err)
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
	}
}

// connection sends messages over one connection until it fails or ctx ends. next is sent first.
func (t *Tap) connection(ctx context.Context, next **message) error {
	c, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, t.network, t.address)
	if err != nil {
		return err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now().Add(retry)) }) // what waits may still leave
	defer stop()
	w, err := framestream.NewWriter(c, &framestream.WriterOptions{ContentTypes: [][]byte{[]byte("protobuf:dnstap.Dnstap")}, Bidirectional: true, Timeout: timeout})
	if err != nil {
		return fmt.Errorf("greeting the receiver: %w", err)
	}
	t.note(nil)
	for {
		if *next == nil {
			select {
			case *next = <-t.queue:
			case <-ctx.Done():
				return w.Close()
			}
		}
		frame, err := t.frame(*next)
		if err == nil {
			_, err = w.WriteFrame(frame)
		}
		if err == nil && len(t.queue) == 0 {
			err = w.Flush()
		}
		if err != nil {
			return err
		}
		*next = nil
		t.sent.Add(1)
	}
}

// frame encodes a message.
func (t *Tap) frame(m *message) ([]byte, error) {
	kind, protocol := dnstap.Dnstap_MESSAGE, protocols[m.transport%5]
	x := &dnstap.Message{Type: &m.typ, SocketProtocol: &protocol}
	if m.asker.IsValid() {
		family := dnstap.SocketFamily_INET
		if m.asker.Addr().Is6() {
			family = dnstap.SocketFamily_INET6
		}
		x.SocketFamily, x.QueryAddress, x.QueryPort = &family, m.asker.Addr().AsSlice(), proto.Uint32(uint32(m.asker.Port()))
	}
	if !m.at.IsZero() {
		x.QueryTimeSec, x.QueryTimeNsec = proto.Uint64(uint64(m.at.Unix())), proto.Uint32(uint32(m.at.Nanosecond()))
	}
	if m.asked.Addr().IsValid() {
		x.ResponseAddress = m.asked.Addr().AsSlice()
	}
	if m.asked.Port() != 0 {
		x.ResponsePort = proto.Uint32(uint32(m.asked.Port()))
	}
	if m.response {
		x.ResponseMessage, x.ResponseTimeSec, x.ResponseTimeNsec = m.msg, proto.Uint64(uint64(m.answered.Unix())), proto.Uint32(uint32(m.answered.Nanosecond()))
	} else {
		x.QueryMessage = m.msg
	}
	d := &dnstap.Dnstap{Type: &kind, Message: x, Version: []byte("shuultuur")}
	if len(t.identity) > 0 {
		d.Identity = t.identity
	}
	return proto.Marshal(d)
}

// protocols are those of the transports. The library has no name for the last, DNS over QUIC.
var protocols = [5]dnstap.SocketProtocol{dnstap.SocketProtocol_UDP, dnstap.SocketProtocol_TCP, dnstap.SocketProtocol_DOT, dnstap.SocketProtocol_DOH, 7}
