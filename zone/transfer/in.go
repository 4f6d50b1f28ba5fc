package transfer

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/zone"
)

// A primaryAnswer is the answer of a primary: a whole zone, differences, or nothing when
// there is nothing newer.
type primaryAnswer struct {
	serial  uint32
	records []miekg.RR // all records, one SOA among them
	steps   []step     // otherwise the differences
	expire  *uint32    // the EXPIRE option (RFC 7314), nil without one
	outside outside
}

// outside counts records that a primary sent although they are not in the zone. They are left out.
type outside struct {
	count int
	first string
}

// A step is one difference.
type step struct {
	from, to   uint32
	soa        *miekg.SOA
	gone, come []miekg.RR
}

const (
	dialTime = 10 * time.Second
	idleTime = 30 * time.Second // between two messages of a transfer
	allTime  = 30 * time.Minute // for a whole transfer

	defaultMaxBytes = 512 << 20
)

// errRcode is an answer with only a code.
type errRcode int

func (e errRcode) Error() string {
	return "it answers " + miekg.RcodeToString[int(e)]
}

// An unreachableError says that a primary could not be asked at all.
type unreachableError struct{ error }

func (e *unreachableError) Unwrap() error { return e.error }

// fetch requests a zone from one primary: changes since have, or all of it when have is nil.
func fetch(ctx context.Context, origin string, from upstream, have *miekg.SOA, maxBytes int64) (*primaryAnswer, error) {
	f, err := fetchWith(ctx, origin, from, have, maxBytes, true)
	var rcode errRcode
	if errors.As(err, &rcode) && rcode == miekg.RcodeFormatError { // the primary may not support EDNS
		return fetchWith(ctx, origin, from, have, maxBytes, false)
	}
	return f, err
}

// fetchWith does so with or without EDNS.
func fetchWith(ctx context.Context, origin string, from upstream, have *miekg.SOA, maxBytes int64, edns bool) (*primaryAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, allTime)
	defer cancel()
	m := new(miekg.Msg)
	if have == nil {
		m.SetAxfr(origin)
	} else {
		m.SetIxfr(origin, have.Serial, have.Ns, have.Mbox)
	}
	if edns {
		m.SetEdns0(ourSize, false)
		m.IsEdns0().Option = []miekg.EDNS0{&miekg.EDNS0_EXPIRE{Code: miekg.EDNS0EXPIRE, Empty: true}}
	}
	msg, err := m.Pack()
	if err != nil {
		return nil, err
	}
	var s *session
	if from.key != nil {
		s = &session{key: from.key}
		msg = s.sign(msg, time.Now(), 0, 0)
		s.later = false
	}
	conn, err := from.dial(ctx)
	if err != nil {
		return nil, &unreachableError{err}
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(idleTime))
	if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(msg))), msg...)); err != nil {
		return nil, err
	}
	r := newReceiver(origin, m.Id, have, maxBytes)
	buf := make([]byte, 65537)
	for !r.done {
		if ctx.Err() == nil {
			_ = conn.SetReadDeadline(time.Now().Add(idleTime))
		}
		answer, err := readMessage(conn, buf)
		if err != nil {
			return nil, fmt.Errorf("after %d records: %w", r.count, err)
		}
		whole := true
		if s != nil {
			if answer, whole, err = s.verify(answer, time.Now()); err != nil {
				return nil, err
			}
		}
		if err := r.message(answer); err != nil {
			return nil, err
		}
		if r.done && !whole {
			return nil, errors.New("the last message of the transfer is not signed")
		}
	}
	return r.result()
}

// dial connects to a primary, over TLS if configured.
func (u upstream) dial(ctx context.Context) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: dialTime}
	if u.tls == nil {
		return dialer.DialContext(ctx, "tcp", u.address.String())
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := (&tls.Dialer{NetDialer: dialer, Config: u.tls}).DialContext(ctx, "tcp", u.address.String())
	if err != nil {
		return nil, fmt.Errorf("over TLS: %w", err)
	}
	return conn, nil
}

func readMessage(r io.Reader, buf []byte) ([]byte, error) {
	if _, err := io.ReadFull(r, buf[:2]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(buf))
	if _, err := io.ReadFull(r, buf[2:2+n]); err != nil {
		return nil, err
	}
	return buf[2 : 2+n], nil
}

// A receiver assembles the messages of a transfer (RFC 5936 section 2.2, RFC 1995 section 4).
type receiver struct {
	origin   string
	id       uint16
	have     *miekg.SOA // nil for AXFR
	maxBytes int64

	count int
	bytes int64
	done  bool

	expire  *uint32
	outside outside

	first       *miekg.SOA
	incremental bool
	records     []miekg.RR
	steps       []step
	coming      bool // in the last step: records are added, not removed
}

func newReceiver(origin string, id uint16, have *miekg.SOA, maxBytes int64) *receiver {
	return &receiver{origin: origin, id: id, have: have, maxBytes: maxBytes}
}

// message processes the next message, without a TSIG record.
func (r *receiver) message(msg []byte) error {
	if len(msg) < 12 {
		return errShort
	}
	if id := binary.BigEndian.Uint16(msg); id != r.id {
		return fmt.Errorf("an answer to question %d, not to %d", id, r.id)
	}
	flags := binary.BigEndian.Uint16(msg[2:])
	if flags>>15 == 0 || flags>>11&15 != miekg.OpcodeQuery {
		return errors.New("a message that is not a reply")
	}
	if rcode := int(flags & 15); rcode != miekg.RcodeSuccess {
		return errRcode(rcode)
	}
	if flags&(1<<9) != 0 {
		return errors.New("a truncated message in a transfer")
	}
	off, err := dns.SkipQuestions(msg)
	if err != nil {
		return errShort
	}
	answers := int(binary.BigEndian.Uint16(msg[6:]))
	if answers == 0 && r.count == 0 {
		return errors.New("it answers without records: does it serve the zone?")
	}
	// The length of a message bounds its records, but not their uncompressed size, so that is
	// counted.
	for range answers {
		rr, next, err := miekg.UnpackRR(msg, off)
		if err != nil {
			return fmt.Errorf("after %d records: %w", r.count, err)
		}
		off = next
		r.count++
		if r.bytes += int64(miekg.Len(rr)); r.maxBytes > 0 && r.bytes > r.maxBytes {
			return fmt.Errorf("the zone has more than %d bytes (settings: max-bytes)", r.maxBytes)
		}
		if r.done {
			return errors.New("records after the end of the transfer")
		}
		if err := r.record(rr); err != nil {
			return err
		}
	}
	if r.expire == nil {
		r.expire = expireIn(msg, off)
	}
	// An IXFR whose first message has only an SOA record is complete if that says there is
	// nothing newer; otherwise the zone follows.
	if r.count == 1 && r.have != nil && r.first != nil && !newer(r.first.Serial, r.have.Serial) {
		r.done = true
	}
	return nil
}

// expireIn returns the EXPIRE option of a message whose answers end at off, nil without one.
func expireIn(msg []byte, off int) *uint32 {
	for range int(binary.BigEndian.Uint16(msg[8:])) + int(binary.BigEndian.Uint16(msg[10:])) {
		x, err := dns.ReadRecord(msg, off)
		if err != nil {
			return nil
		}
		off = x.End
		if x.Type != miekg.TypeOPT {
			continue
		}
		for data := msg[x.Data:x.End]; len(data) >= 4; {
			n := int(binary.BigEndian.Uint16(data[2:]))
			if 4+n > len(data) {
				return nil
			}
			if binary.BigEndian.Uint16(data) == miekg.EDNS0EXPIRE && n == 4 {
				left := binary.BigEndian.Uint32(data[4:])
				return &left
			}
			data = data[4+n:]
		}
	}
	return nil
}

// record processes the next record.
func (r *receiver) record(rr miekg.RR) error {
	h := rr.Header()
	if h.Class != miekg.ClassINET {
		return fmt.Errorf("the record %q is not of class IN", rr.String())
	}
	h.Name = zone.Canonical(h.Name)
	if r.count > 1 && !miekg.IsSubDomain(r.origin, h.Name) {
		if r.count--; r.outside.count == 0 { // as if it had not been sent
			r.outside.first = h.Name
		}
		r.outside.count++
		return nil
	}
	soa, _ := rr.(*miekg.SOA)
	if soa != nil && h.Name != r.origin {
		return fmt.Errorf("the SOA record of %q in zone %q", h.Name, r.origin)
	}
	switch {
	case r.count == 1:
		if soa == nil || h.Name != r.origin {
			return fmt.Errorf("the transfer begins with %q, not with the SOA record", rr.String())
		}
		r.first = soa
	case r.count == 2 && r.have != nil && soa != nil && soa.Serial != r.first.Serial:
		r.incremental = true
		r.steps = append(r.steps, step{from: soa.Serial})
	case r.incremental:
		r.change(rr, soa)
	case soa != nil:
		if soa.Serial != r.first.Serial {
			return fmt.Errorf("the transfer began with serial %d and ends with %d", r.first.Serial, soa.Serial)
		}
		r.done = true
	default:
		r.records = append(r.records, rr)
	}
	return nil
}

// change processes a record of a difference.
func (r *receiver) change(rr miekg.RR, soa *miekg.SOA) {
	last := &r.steps[len(r.steps)-1]
	switch {
	case soa != nil && !r.coming:
		last.to, last.soa, r.coming = soa.Serial, soa, true
	case soa != nil && last.to == r.first.Serial && soa.Serial == r.first.Serial:
		r.done = true
	case soa != nil:
		r.steps = append(r.steps, step{from: soa.Serial})
		r.coming = false
	case r.coming:
		last.come = append(last.come, rr)
	default:
		last.gone = append(last.gone, rr)
	}
}

func (r *receiver) result() (*primaryAnswer, error) {
	f := &primaryAnswer{serial: r.first.Serial, expire: r.expire, outside: r.outside}
	switch {
	case r.incremental:
		serial := r.have.Serial
		for _, s := range r.steps {
			if s.from != serial {
				return nil, fmt.Errorf("the differences lead from serial %d, not from %d", s.from, serial)
			}
			serial = s.to
		}
		f.steps = r.steps
	case r.count == 1: // nothing newer
	default:
		f.records = append([]miekg.RR{r.first}, r.records...)
	}
	return f, nil
}

// apply applies steps to the records of a zone. To remove a missing record, or to add an
// existing one, means that the two sides differ: then the whole zone has to be fetched.
func apply(records []miekg.RR, steps []step) ([]miekg.RR, error) {
	var buf []byte
	key := func(rr miekg.RR) (string, error) {
		wire, err := zone.Pack(rr, &buf)
		return string(wire), err
	}
	at := make(map[string]int, len(records))
	out := make([]miekg.RR, len(records))
	copy(out, records)
	for i, rr := range out {
		k, err := key(rr)
		if err != nil {
			return nil, err
		}
		at[k] = i
	}
	for _, s := range steps {
		for _, rr := range s.gone {
			k, err := key(rr)
			if err != nil {
				return nil, err
			}
			i, ok := at[k]
			if !ok {
				return nil, fmt.Errorf("the difference removes %q, which does not exist", rr.String())
			}
			out[i] = nil
			delete(at, k)
		}
		for _, rr := range s.come {
			k, err := key(rr)
			if err != nil {
				return nil, err
			}
			if _, ok := at[k]; ok {
				return nil, fmt.Errorf("the difference adds %q, which already exists", rr.String())
			}
			at[k] = len(out)
			out = append(out, rr)
		}
	}
	kept := make([]miekg.RR, 0, len(out))
	for _, rr := range out {
		if _, soa := rr.(*miekg.SOA); rr != nil && !soa {
			kept = append(kept, rr)
		}
	}
	return append([]miekg.RR{steps[len(steps)-1].soa}, kept...), nil
}
