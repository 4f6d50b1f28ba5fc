package transfer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/miekg/dns"
)

// A version is all records of a zone at one serial, in wire form without
// compression, in the order of their bytes. It never changes.
type version struct {
	serial uint32
	soa    []byte // the SOA record, which is not among the others
	arena  []byte
	starts []uint32 // of each record in arena, and its end
}

// maxRecord is more than any record takes.
const maxRecord = 65535 + 255 + 10

// pack writes a record in wire form into *buf, which grows as needed.
func pack(rr dns.RR, buf *[]byte) ([]byte, error) {
	n, err := dns.PackRR(rr, *buf, 0, nil, false)
	for err != nil && len(*buf) < maxRecord {
		*buf = make([]byte, min(max(512, 8*len(*buf)), maxRecord))
		n, err = dns.PackRR(rr, *buf, 0, nil, false)
	}
	if err != nil {
		return nil, fmt.Errorf("write record %q: %w", rr.String(), err)
	}
	wire := (*buf)[:n]
	for i := 0; i < len(wire) && wire[i] != 0; {
		next := i + 1 + int(wire[i])
		for i++; i < next; i++ {
			if 'A' <= wire[i] && wire[i] <= 'Z' {
				wire[i] += 'a' - 'A'
			}
		}
	}
	return wire, nil
}

// newVersion packs and sorts the records of a zone.
func newVersion(origin string, records []dns.RR) (*version, error) {
	v := &version{}
	var arena, buf []byte
	type part struct{ from, to uint32 }
	parts := make([]part, 0, len(records))
	for _, rr := range records {
		wire, err := pack(rr, &buf)
		if err != nil {
			return nil, err
		}
		if soa, ok := rr.(*dns.SOA); ok && dns.CanonicalName(soa.Hdr.Name) == origin {
			v.serial, v.soa = soa.Serial, bytes.Clone(wire)
			continue
		}
		if len(arena)+len(wire) > maxZone {
			return nil, fmt.Errorf("zone %q has more than %d bytes: it is not kept for transfers", origin, maxZone)
		}
		parts = append(parts, part{uint32(len(arena)), uint32(len(arena) + len(wire))})
		arena = append(arena, wire...)
	}
	if v.soa == nil {
		return nil, fmt.Errorf("zone %q has no SOA record", origin)
	}
	text := func(p part) []byte { return arena[p.from:p.to] }
	slices.SortFunc(parts, func(a, b part) int { return bytes.Compare(text(a), text(b)) })
	parts = slices.CompactFunc(parts, func(a, b part) bool { return bytes.Equal(text(a), text(b)) })
	v.arena = make([]byte, 0, len(arena))
	v.starts = make([]uint32, 0, len(parts)+1)
	for _, p := range parts {
		v.starts = append(v.starts, uint32(len(v.arena)))
		v.arena = append(v.arena, text(p)...)
	}
	v.starts = append(v.starts, uint32(len(v.arena)))
	return v, nil
}

// maxZone is the most a zone may have to be kept, so that offsets fit.
const maxZone = 2 << 30

func (v *version) len() int { return len(v.starts) - 1 }

func (v *version) record(i int) []byte { return v.arena[v.starts[i]:v.starts[i+1]] }

// A difference leads from one version to the next.
type difference struct {
	from, to       uint32
	oldSOA, newSOA []byte
	gone, come     [][]byte
	size           int
}

// diff finds what leads from a to b. It keeps no part of a.
func diff(a, b *version) *difference {
	d := &difference{from: a.serial, to: b.serial, oldSOA: a.soa, newSOA: b.soa, size: len(a.soa) + len(b.soa)}
	i, j := 0, 0
	for i < a.len() || j < b.len() {
		order := 0
		switch {
		case i == a.len():
			order = 1
		case j == b.len():
			order = -1
		default:
			order = bytes.Compare(a.record(i), b.record(j))
		}
		switch {
		case order < 0:
			d.gone = append(d.gone, bytes.Clone(a.record(i)))
			d.size += len(a.record(i))
			i++
		case order > 0:
			d.come = append(d.come, bytes.Clone(b.record(j)))
			d.size += len(b.record(j))
			j++
		default:
			i++
			j++
		}
	}
	return d
}

// maxJournal is how many differences are kept for a zone; together they have
// no more bytes than the zone, since all of it would be sent instead.
const maxJournal = 200

// A journal is the differences that lead to the current version, the oldest
// first.
type journal []*difference

// add appends d and lets go of the oldest while there is too much.
func (j journal) add(d *difference, size int) journal {
	j = append(slices.Clone(j), d)
	total := 0
	for i := len(j) - 1; i >= 0; i-- {
		if total += j[i].size; total > size || len(j)-i > maxJournal {
			return j[i+1:]
		}
	}
	return j
}

// since gives the differences that lead from serial to the current version.
func (j journal) since(serial uint32) journal {
	for i, d := range j {
		if d.from == serial {
			return j[i:]
		}
	}
	return nil
}

// newer says whether serial a comes after b (RFC 1982).
func newer(a, b uint32) bool { return a != b && int32(a-b) > 0 }

// A packer fills messages of a transfer with records and sends them.
type packer struct {
	head   []byte // header and question, as the first message has them
	sign   func([]byte) []byte
	send   func([]byte) error
	buf    []byte
	count  uint16
	names  map[string]uint16
	last   []byte // the owner of the record before, and where it stands
	lastAt uint16
}

// target is how long a message of a transfer gets unless one record needs
// more. Pointers reach no further than 16 KiB, so that larger messages would
// not be much shorter on the whole.
const target = 24 << 10

func newPacker(head []byte, sign func([]byte) []byte, send func([]byte) error) *packer {
	p := &packer{head: head, sign: sign, send: send, buf: make([]byte, 0, target+2048)}
	p.begin()
	return p
}

func (p *packer) begin() {
	p.buf, p.count, p.last = append(p.buf[:0], p.head...), 0, nil
	p.names = map[string]uint16{}
}

// add appends one record.
func (p *packer) add(wire []byte) error {
	if p.count > 0 && len(p.buf)+len(wire) > target {
		if err := p.flush(); err != nil {
			return err
		}
	}
	owner := 0
	for wire[owner] != 0 {
		owner += 1 + int(wire[owner])
	}
	owner++
	p.owner(wire[:owner])
	p.buf = append(p.buf, wire[owner:]...)
	p.count++
	return nil
}

// owner appends a name, what was there before as a pointer.
func (p *packer) owner(name []byte) {
	if p.last != nil && bytes.Equal(p.last, name) {
		p.buf = binary.BigEndian.AppendUint16(p.buf, 0xc000|p.lastAt)
		return
	}
	if len(p.buf) < 0x4000 {
		p.last, p.lastAt = name, uint16(len(p.buf))
	}
	for i := 0; name[i] != 0; i += 1 + int(name[i]) {
		if at, ok := p.names[string(name[i:])]; ok {
			p.buf = binary.BigEndian.AppendUint16(p.buf, 0xc000|at)
			return
		}
		if at := len(p.buf); at < 0x4000 {
			p.names[string(name[i:])] = uint16(at)
		}
		p.buf = append(p.buf, name[i:i+1+int(name[i])]...)
	}
	p.buf = append(p.buf, 0)
}

// flush sends what there is.
func (p *packer) flush() error {
	binary.BigEndian.PutUint16(p.buf[6:], p.count)
	if p.sign != nil {
		p.buf = p.sign(p.buf)
	}
	if err := p.send(p.buf); err != nil {
		return err
	}
	p.begin()
	return nil
}
