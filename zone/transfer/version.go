package transfer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"

	miekg "github.com/miekg/dns"

	"shuultuur/zone"
)

// A version is all records of a zone at one serial, in wire form, uncompressed and sorted. It
// is immutable.
type version struct {
	serial uint32
	soa    []byte // the SOA record, which is not in arena
	arena  []byte
	starts []uint32 // offset of each record in arena, and the end
}

// A content is a version of a zone that may be fetched: the served one, or a version if
// that lacks a chain (see AllRecords of sign.Signer) or was read after a restart.
type content struct {
	serial uint32
	soa    []byte
	served *zone.Served // nil if there is a version
	kept   *version
}

// contentOf returns the content of a served zone.
func contentOf(z *zone.Served) *content {
	return &content{serial: z.Info().Serial, soa: z.SOA(), served: z}
}

// wholeContent returns the content of records that are not served as they are.
func wholeContent(origin string, records []miekg.RR) (*content, error) {
	c := &content{}
	var buf []byte
	var failed error
	c.kept = newVersion(0, nil, func(yield func([]byte) bool) {
		for _, rr := range records {
			wire, err := zone.Pack(rr, &buf)
			if err != nil {
				failed = err
				return
			}
			if soa, ok := rr.(*miekg.SOA); ok && zone.Canonical(soa.Hdr.Name) == origin {
				c.serial, c.soa = soa.Serial, bytes.Clone(wire)
			} else if !yield(wire) {
				return
			}
		}
	})
	if failed == nil && c.soa == nil {
		failed = fmt.Errorf("zone %q has no SOA record", origin)
	}
	c.kept.serial, c.kept.soa = c.serial, c.soa
	return c, failed
}

// records yields all records except the SOA; the slice is reused for the next.
func (c *content) records() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if c.kept != nil {
			for i := range c.kept.len() {
				if !yield(c.kept.record(i)) {
					return
				}
			}
			return
		}
		first := true // is the SOA record
		for wire := range c.served.Records() {
			if !first && !yield(wire) {
				return
			}
			first = false
		}
	}
}

// size returns the approximate bytes of a transfer.
func (c *content) size() int {
	if c.kept != nil {
		return len(c.kept.arena)
	}
	return c.served.Info().Bytes
}

// version returns the sorted records.
func (c *content) version() *version {
	if c.kept != nil {
		return c.kept
	}
	return newVersion(c.serial, c.soa, c.records())
}

// since returns the difference to an earlier content.
func (c *content) since(before *content) *difference {
	if c.served == nil {
		return diff(before.version(), c.version())
	}
	gone, come, ok := c.served.Since(before.served)
	if !ok {
		return diff(before.version(), c.version())
	}
	d := &difference{from: before.serial, to: c.serial, oldSOA: before.soa, newSOA: c.soa, size: len(before.soa) + len(c.soa)}
	for _, wire := range gone {
		if !bytes.Equal(wire, before.soa) {
			d.gone = append(d.gone, wire)
			d.size += len(wire)
		}
	}
	for _, wire := range come {
		if !bytes.Equal(wire, c.soa) {
			d.come = append(d.come, wire)
			d.size += len(wire)
		}
	}
	return d
}

// newVersion sorts the records of a zone at a serial, without the SOA record at the origin.
// Each record is used only until the next one is requested.
func newVersion(serial uint32, soa []byte, records iter.Seq[[]byte]) *version {
	v := &version{serial: serial, soa: soa, starts: []uint32{0}}
	for wire := range records {
		v.arena = append(v.arena, wire...)
		v.starts = append(v.starts, uint32(len(v.arena)))
	}
	v.sort()
	return v
}

// sort sorts the records and removes duplicates.
func (v *version) sort() {
	parts := make([][]byte, v.len())
	for i := range parts {
		parts[i] = v.record(i)
	}
	if slices.IsSortedFunc(parts, bytes.Compare) {
		return
	}
	slices.SortFunc(parts, bytes.Compare)
	arena, starts := make([]byte, 0, len(v.arena)), make([]uint32, 0, len(v.starts))
	for _, p := range slices.CompactFunc(parts, bytes.Equal) {
		starts = append(starts, uint32(len(arena)))
		arena = append(arena, p...)
	}
	v.arena, v.starts = arena, append(starts, uint32(len(arena)))
}

// maxZone bounds the zones that are kept, in bytes, so that offsets fit.
const maxZone int64 = 2 << 30

func (v *version) len() int { return len(v.starts) - 1 }

func (v *version) record(i int) []byte { return v.arena[v.starts[i]:v.starts[i+1]] }

// A difference leads from one version to the next.
type difference struct {
	from, to       uint32
	oldSOA, newSOA []byte
	gone, come     [][]byte
	size           int
}

// diff returns the difference from a to b. It keeps no part of a.
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

// maxJournal bounds the differences kept for a zone. Together they are no larger than the
// zone, since otherwise the whole zone is sent instead.
const maxJournal = 200

// A journal is the differences that lead to the current version, oldest first.
type journal []*difference

// add appends d and drops the oldest differences while there are too many.
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

// since returns the differences that lead from serial to the current version.
func (j journal) since(serial uint32) journal {
	for i, d := range j {
		if d.from == serial {
			return j[i:]
		}
	}
	return nil
}

// newer reports whether serial a comes after b (RFC 1982).
func newer(a, b uint32) bool { return a != b && int32(a-b) > 0 }

// A packer packs records into messages of a transfer and sends them.
type packer struct {
	head   []byte // header and question of the first message
	opt    []byte // OPT record of the first message
	sign   func([]byte) []byte
	send   func([]byte) error
	buf    []byte
	count  uint16
	names  map[string]uint16
	last   []byte // the previous owner, and its place
	lastAt uint16
}

// target is the length of a message of a transfer, unless one record needs more. Pointers
// reach only 16 KiB, so larger messages would save little.
const target = 24 << 10

func newPacker(head, opt []byte, sign func([]byte) []byte, send func([]byte) error) *packer {
	p := &packer{head: head, opt: opt, sign: sign, send: send, buf: make([]byte, 0, target+2048)}
	p.begin()
	return p
}

func (p *packer) begin() {
	p.buf, p.count, p.last = append(p.buf[:0], p.head...), 0, p.last[:0]
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

// owner appends a name, with a pointer where possible.
func (p *packer) owner(name []byte) {
	if len(p.last) > 0 && bytes.Equal(p.last, name) {
		p.buf = binary.BigEndian.AppendUint16(p.buf, 0xc000|p.lastAt)
		return
	}
	if len(p.buf) < 0x4000 {
		p.last, p.lastAt = append(p.last[:0], name...), uint16(len(p.buf))
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

// flush sends the message.
func (p *packer) flush() error {
	binary.BigEndian.PutUint16(p.buf[6:], p.count)
	if p.opt != nil {
		binary.BigEndian.PutUint16(p.buf[10:], 1)
		p.buf, p.opt = append(p.buf, p.opt...), nil
	}
	if p.sign != nil {
		p.buf = p.sign(p.buf)
	}
	if err := p.send(p.buf); err != nil {
		return err
	}
	p.begin()
	return nil
}
