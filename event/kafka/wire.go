package kafka

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Requests, with the versions that we use. Brokers since 1.0 support these.
const (
	produceKey       = 0
	metadataKey      = 3
	handshakeKey     = 17
	versionsKey      = 18
	authenticateKey  = 36
	metadataVersion  = 4
	leastProduce     = 3
	mostProduce      = 7
	handshakeVersion = 1

	maxAnswer = 16 << 20 // bytes
)

// A conn is a connection to one broker. Only one goroutine may use it at a
// time.
type conn struct {
	net.Conn
	produceVersion int16
	id             int32
}

// dial connects to a broker and authenticates if sign is set.
func dial(ctx context.Context, at string, secure *tls.Config, sign *sasl) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	d := net.Dialer{Timeout: dialWait}
	nc, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	if secure != nil {
		secure = secure.Clone()
		secure.ServerName, _, _ = net.SplitHostPort(at)
		t := tls.Client(nc, secure)
		if err := t.HandshakeContext(ctx); err != nil {
			nc.Close()
			return nil, fmt.Errorf("TLS: %w", err)
		}
		nc = t
	}
	c := &conn{Conn: nc}
	if err := c.begin(ctx, sign); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// begin checks that the broker supports our versions, and authenticates.
func (c *conn) begin(ctx context.Context, sign *sasl) error {
	res, err := c.call(ctx, versionsKey, 0, func(*writer) {})
	if err != nil {
		return fmt.Errorf("no answer of a Kafka broker (does it require TLS, or is it another service?): %w", err)
	}
	if code := res.i16(); code != errorNone {
		return errorOf(code)
	}
	type span struct{ least, most int16 }
	spoken := map[int16]span{}
	for range res.count() {
		key := res.i16()
		spoken[key] = span{res.i16(), res.i16()}
	}
	if res.err != nil {
		return res.err
	}
	p, m := spoken[produceKey], spoken[metadataKey]
	if p.most < leastProduce || p.least > mostProduce || m.most < metadataVersion || m.least > metadataVersion {
		return fmt.Errorf("the broker supports versions %d to %d of Produce and %d to %d of Metadata; Kafka 1.0 or later is needed", p.least, p.most, m.least, m.most)
	}
	c.produceVersion = min(p.most, mostProduce)
	if sign == nil {
		return nil
	}
	if err := sign.signIn(ctx, c); err != nil {
		return fmt.Errorf("sign in as %q by %s: %w", sign.user, sign.mechanism, err)
	}
	return nil
}

// call sends a request and waits for its answer.
func (c *conn) call(ctx context.Context, key, version int16, fill func(*writer)) (*reader, error) {
	c.id++
	m := writer{buf: make([]byte, 4, 1<<10)}
	m.i16(key)
	m.i16(version)
	m.i32(c.id)
	m.string("shuultuur")
	fill(&m)
	binary.BigEndian.PutUint32(m.buf, uint32(len(m.buf)-4))
	until := time.Now().Add(wait + time.Second) // the broker's own time-out comes first
	if d, ok := ctx.Deadline(); ok && d.Before(until) {
		until = d
	}
	_ = c.SetDeadline(until)
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := c.Write(m.buf); err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[:4])) - 4
	switch id := int32(binary.BigEndian.Uint32(head[4:])); {
	case n < 0 || n > maxAnswer:
		return nil, fmt.Errorf("an answer of %d bytes", n+4)
	case id != c.id:
		return nil, fmt.Errorf("an answer to request %d, not to %d", id, c.id)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		return nil, err
	}
	return &reader{b: b}, nil
}

// A writer writes the types of requests.
type writer struct{ buf []byte }

func (w *writer) i16(v int16) { w.buf = binary.BigEndian.AppendUint16(w.buf, uint16(v)) }
func (w *writer) i32(v int32) { w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(v)) }

func (w *writer) bool(v bool) {
	b := byte(0)
	if v {
		b = 1
	}
	w.buf = append(w.buf, b)
}

func (w *writer) nullString() { w.i16(-1) }

func (w *writer) string(s string) {
	w.i16(int16(len(s))) // all names and IDs are short
	w.buf = append(w.buf, s...)
}

func (w *writer) bytes(b []byte) {
	w.i32(int32(len(b)))
	w.buf = append(w.buf, b...)
}

var errShort = errors.New("an answer ends too early")

// A reader reads the types of answers. After an error, which is in err, it
// returns zero values.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		r.err, r.b = errShort, nil
		return make([]byte, min(max(n, 0), 8))
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) skip(n int) { r.take(n) }
func (r *reader) i16() int16 { return int16(binary.BigEndian.Uint16(r.take(2))) }
func (r *reader) i32() int32 { return int32(binary.BigEndian.Uint32(r.take(4))) }

// count reads the number of elements of an array. Each element has at least one
// byte.
func (r *reader) count() int {
	n := int(r.i32())
	if n < 0 {
		n = 0 // null
	}
	if n > len(r.b) {
		r.err, r.b = errShort, nil
		return 0
	}
	return n
}

// string reads a string; null becomes "".
func (r *reader) string() string {
	n := int(r.i16())
	if n < 0 || r.err != nil {
		return ""
	}
	b := r.take(n)
	if r.err != nil {
		return ""
	}
	return string(b)
}

func (r *reader) bytes() []byte {
	n := int(r.i32())
	if n < 0 || r.err != nil {
		return nil
	}
	b := r.take(n)
	if r.err != nil {
		return nil
	}
	return b
}

// A code is an error code of a broker.
type code int16

var codes = map[code]string{
	1: "offset out of range", 2: "the record batch arrived damaged", 3: "the topic or partition does not exist: create it", 5: "there is no leader at the moment",
	6: "another broker now leads the partition", 7: "the replicas did not answer in time", 10: "an event is larger than the broker accepts (max.message.bytes)", 17: "not a name of a topic",
	18: "a batch is larger than a segment of the broker", 19: "fewer replicas are in sync than the topic requires", 20: "fewer replicas were in sync than the topic requires",
	29: "the user may not write to the topic", 31: "the user may not do this in the cluster", 33: "the broker does not know the SASL mechanism", 34: "the broker requires a user to sign in",
	35: "the broker does not know this version of the protocol", 41: "not the controller", 56: "the broker's disk has failed", 58: "user or password is wrong", 87: "the broker refuses the record",
}

func (c code) Error() string {
	if text := codes[c]; text != "" {
		return fmt.Sprintf("%s (error %d)", text, int16(c))
	}
	return fmt.Sprintf("error %d", int16(c))
}

func errorOf(c int16) error { return code(c) }
