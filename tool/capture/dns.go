package capture

import (
	"encoding/binary"

	"shuultuur/lib/dns"
	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/traffic"
)

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

// parseDNS parses a message as far as possible: nil if it has no header.
func parseDNS(msg []byte) *dnsTx {
	if len(msg) < traffic.DNSHeader {
		return nil
	}
	t := &dnsTx{msg: msg, number: binary.BigEndian.Uint16(msg), flags: binary.BigEndian.Uint16(msg[2:])}
	t.Read(msg, func(section int, x dns.Record) { t.records[section] = append(t.records[section], x) })
	return t
}

// dns handles one DNS message.
func (r *Run) dns(f *flow, dir rule.Direction, msg []byte) {
	t := parseDNS(msg)
	if t == nil {
		return
	}
	if t.Response && dir == rule.ToServer && f.packets[1] == 0 {
		dir = rule.ToClient
	}
	t.id = f.txs
	f.txs++
	if f.appName = "dns"; f.app != nil && f.app.name() == "http2" {
		f.appName = "doh2"
	}
	if f.proto == 17 {
		r.frame(f, dir, rule.DNSFrame, msg)
	}
	tx := r.tx(f, &messageSource{Source: &t.DNSMessage, run: r, f: f})
	if tx.App = rule.DNS; f.appName == "doh2" {
		tx.App |= rule.DOH
	}
	r.inspect(t, tx, dir, rule.Complete)
	r.out.dnsRecord(r, f, t)
}
