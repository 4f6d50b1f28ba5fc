package capture

import (
	"encoding/binary"
	"errors"

	"shuultuur/check/signature/engine"
	"shuultuur/check/signature/rule"
	"shuultuur/dns"
)

// maxRecords bounds the records of a message that are read.
const maxRecords = 1024

// A dnsParser reads DNS over TCP.
type dnsParser struct {
	r   *Run
	f   *flow
	buf [2][]byte
}

func (d *dnsParser) name() string { return "dns" }

// data implements parser.
func (d *dnsParser) data(dir rule.Direction, b []byte, gap int64) {
	i := index(dir)
	if gap > 0 {
		d.buf[i] = nil
		return
	}
	d.buf[i] = append(d.buf[i], b...)
	for len(d.buf[i]) >= 2 {
		n := int(binary.BigEndian.Uint16(d.buf[i]))
		if len(d.buf[i]) < 2+n {
			return
		}
		d.r.dns(d.f, dir, d.buf[i][2:2+n])
		d.buf[i] = d.buf[i][2+n:]
	}
}

// end implements parser.
func (d *dnsParser) end(rule.Direction) {}

// A dnsTx is a DNS message.
type dnsTx struct {
	engine.DNSMessage
	id      int
	number  uint16
	flags   uint16
	records [3][]dns.Record
	msg     []byte
}

var errDNS = errors.New("malformed DNS message")

// parseDNS reads a message as far as it can be read.
func parseDNS(msg []byte) (*dnsTx, error) {
	if len(msg) < 12 {
		return nil, errDNS
	}
	t := &dnsTx{msg: msg, number: binary.BigEndian.Uint16(msg), flags: binary.BigEndian.Uint16(msg[2:])}
	t.Flags(t.flags)
	off := 12
	for range min(int(binary.BigEndian.Uint16(msg[4:])), maxRecords) {
		name, next, err := rawName(msg, off)
		if err != nil || next+4 > len(msg) {
			return t, errDNS
		}
		t.long(name)
		t.Queries = append(t.Queries, engine.DNSName{Name: name, Type: binary.BigEndian.Uint16(msg[next:])})
		off = next + 4
	}
	for s, list := range []*[]engine.DNSName{&t.Answers, &t.Authorities, &t.Additionals} {
		for range min(int(binary.BigEndian.Uint16(msg[6+2*s:])), maxRecords) {
			name, _, err := rawName(msg, off)
			if err != nil {
				return t, errDNS
			}
			t.long(name)
			x, err := dns.ReadRecord(msg, off)
			if err != nil {
				return t, errDNS
			}
			*list = append(*list, engine.DNSName{Name: name, Type: x.Type})
			t.records[s] = append(t.records[s], x)
			off = x.End
		}
	}
	return t, nil
}

// long notes a name that was cut.
func (t *dnsTx) long(name []byte) {
	if len(name) == maxName {
		t.Odd("dns.name_too_long")
	}
}

// Limits of names.
const (
	maxName   = 1025 // bytes of a name that are kept
	maxLabels = 255  // labels and pointers that are followed
)

// errLoop says that a name goes round in circles or has no end.
var errLoop = errors.New("too many labels")

// rawName reads a name in the case it was sent in, which rules may ask for. One
// that is too long is cut to maxName bytes.
func rawName(msg []byte, off int) (name []byte, next int, err error) {
	next = -1
	for range maxLabels {
		if off >= len(msg) {
			return nil, 0, errDNS
		}
		n := int(msg[off])
		switch {
		case n == 0:
			if next < 0 {
				next = off + 1
			}
			return name, next, nil
		case n&0xc0 == 0xc0:
			if off+2 > len(msg) {
				return nil, 0, errDNS
			}
			if next < 0 {
				next = off + 2
			}
			off = int(binary.BigEndian.Uint16(msg[off:]) & 0x3fff)
			continue
		case n > 63 || off+1+n > len(msg):
			return nil, 0, errDNS
		}
		if room := maxName - len(name); room > 0 {
			if len(name) > 0 {
				name = append(name, '.')
			}
			name = append(name, msg[off+1:off+1+n]...)
			name = name[:min(len(name), maxName)]
		}
		off += 1 + n
	}
	if len(name) == maxName && next >= 0 {
		return name, next, nil
	}
	return nil, 0, errLoop
}

// dns handles one DNS message.
func (r *Run) dns(f *flow, dir rule.Direction, msg []byte) {
	t, err := parseDNS(msg)
	if t == nil {
		return
	}
	if err != nil {
		t.Odd("dns.malformed_data")
	}
	if t.Response && dir == rule.ToServer && f.packets[1] == 0 {
		dir = rule.ToClient
	}
	t.id = f.txs
	f.txs++
	f.appName = "dns"
	tx := r.tx(f, &messageSource{Source: &t.DNSMessage, run: r, f: f})
	tx.App = engine.DNS
	r.inspect(t, tx, dir, rule.Complete)
	r.out.dnsRecord(r, f, t)
}
