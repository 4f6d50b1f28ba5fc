package transfer

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
)

// Transfer sends a zone, or its changes, as [wire.Transferrer] requires. It answers every AXFR
// and IXFR, if only with a refusal.
func (s *Server) Transfer(ctx context.Context, q *dns.Query, send func(msg []byte) error) (dns.Outcome, error) {
	if q.Type != miekg.TypeAXFR && q.Type != miekg.TypeIXFR || q.Transport != dns.TCP && q.Transport != dns.TLS {
		return dns.Declined, nil
	}
	head := make([]byte, 0, 512)
	head = append(head, q.Msg[:q.End]...)
	head[2] = head[2]&0x01 | 0x84 // QR, AA, opcode 0, RD as in the query
	head[3] = 0
	binary.BigEndian.PutUint16(head[4:], 1)
	copy(head[6:12], make([]byte, 6))

	var sign func([]byte) []byte
	if q.TSIG != 0 {
		key, r, code, err := s.keys.authenticate(q.Msg, q.TSIG, q.At)
		if err != nil {
			return s.refuse(head, miekg.RcodeFormatError, nil, send)
		}
		if code != 0 {
			s.Verify(q) // it counts refusals
			return s.refuse(head, miekg.RcodeNotAuth, func(msg []byte) []byte { return r.answer(key, code, msg, q.At) }, send)
		}
		stream := &session{key: key, prior: bytes.Clone(r.mac)}
		sign = func(msg []byte) []byte { return stream.sign(msg, q.At, 0, 0) }
	}
	v, j, rcode := s.find(q)
	if rcode != miekg.RcodeSuccess {
		return s.refuse(head, rcode, sign, send)
	}
	select {
	case s.out <- struct{}{}:
		defer func() { <-s.out }()
	default:
		return s.refuse(head, miekg.RcodeServerFailure, sign, send)
	}
	p := newPacker(head, options(q, expire(v, s.followed.find(dns.Text(q.Name)), q)), sign, func(msg []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return send(msg)
	})
	if q.Type == miekg.TypeAXFR {
		s.Stats.Out.Add(1)
		return dns.Answered, p.writeZone(v)
	}
	serial, err := serialAsked(q.Msg)
	if err != nil {
		return s.refuse(head, miekg.RcodeFormatError, sign, send)
	}
	s.Stats.OutIncremental.Add(1)
	if !newer(v.serial, serial) { // the client has this version or a later one
		if err := p.add(v.soa); err != nil {
			return dns.Answered, err
		}
		return dns.Answered, p.flush()
	}
	if j = j.since(serial); j == nil {
		return dns.Answered, p.writeZone(v)
	}
	return dns.Answered, p.changes(v, j)
}

// expire returns how long the zone of q is valid without its primary; sec is nil for one of
// our own.
func expire(c *content, sec *secondary, q *dns.Query) uint32 {
	if sec != nil {
		return uint32(max(0, sec.expires.Load()-q.At.Unix()))
	}
	return binary.BigEndian.Uint32(c.soa[len(c.soa)-8:])
}

// options returns the OPT record of the first message of a transfer, nil for a query without
// one (RFC 6891 section 7).
func options(q *dns.Query, expire uint32) []byte {
	if !q.HasEDNS {
		return nil
	}
	opt := []byte{0, 0, byte(miekg.TypeOPT), ourSize >> 8, ourSize & 0xff, 0, 0, 0, 0, 0, 0}
	if q.Expire {
		opt = append(opt, 0, miekg.EDNS0EXPIRE, 0, 4)
		opt = binary.BigEndian.AppendUint32(opt, expire)
		opt[10] = 8
	}
	return opt
}

// ourSize is the largest UDP payload we accept.
const ourSize = 1232

// refuse answers with only a code.
func (s *Server) refuse(head []byte, rcode int, sign func([]byte) []byte, send func([]byte) error) (dns.Outcome, error) {
	s.Stats.OutRefused.Add(1)
	head[2] &^= 0x04
	head[3] = byte(rcode)
	if sign != nil {
		head = sign(head)
	}
	return dns.Answered, send(head)
}

// serialAsked returns the serial in an IXFR query.
func serialAsked(msg []byte) (uint32, error) {
	var m miekg.Msg
	if err := m.Unpack(msg); err != nil {
		return 0, err
	}
	if len(m.Ns) != 1 {
		return 0, fmt.Errorf("an IXFR query with %d SOA records instead of one", len(m.Ns))
	}
	soa, ok := m.Ns[0].(*miekg.SOA)
	if !ok {
		return 0, fmt.Errorf("an IXFR query without an SOA record")
	}
	return soa.Serial, nil
}

// writeZone sends a whole zone: the SOA record first and last.
func (p *packer) writeZone(v *content) error {
	if err := p.add(v.soa); err != nil {
		return err
	}
	for wire := range v.records() {
		if err := p.add(wire); err != nil {
			return err
		}
	}
	if err := p.add(v.soa); err != nil {
		return err
	}
	return p.flush()
}

// changes sends differences (RFC 1995 section 4).
func (p *packer) changes(v *content, j journal) error {
	if err := p.add(v.soa); err != nil {
		return err
	}
	for _, d := range j {
		for _, part := range [][][]byte{{d.oldSOA}, d.gone, {d.newSOA}, d.come} {
			for _, wire := range part {
				if err := p.add(wire); err != nil {
					return err
				}
			}
		}
	}
	if err := p.add(v.soa); err != nil {
		return err
	}
	return p.flush()
}
