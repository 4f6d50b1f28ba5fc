package capture

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/traffic"
)

// A packetSource is the source of a packet.
type packetSource struct {
	p   *packet
	f   *flow
	run *Run
}

// Buffer implements the Source of package engine.
func (s *packetSource) Buffer(_ rule.Direction, b rule.Buffer, i int) ([]byte, bool) {
	p := s.p
	if i > 0 || p.ip == nil {
		return nil, false
	}
	switch b {
	case rule.Payload:
		return p.payload, len(p.payload) > 0
	case rule.IPv4Header, rule.IPv6Header:
		n := len(p.ip) - len(p.transport)
		return p.ip[:max(0, n)], p.v6 == (b == rule.IPv6Header)
	case rule.TCPHeader:
		return p.transport[:len(p.transport)-len(p.payload)], p.proto == 6
	case rule.UDPHeader:
		return p.transport[:min(8, len(p.transport))], p.proto == 17
	case rule.ICMPv4Header:
		return p.transport, p.proto == 1
	case rule.ICMPv6Header:
		return p.transport, p.proto == 58
	}
	return nil, false
}

// Numbers implements the Source of package engine.
func (s *packetSource) Numbers(_ rule.Direction, keyword string) ([]uint64, bool) {
	p, f := s.p, s.f
	one := func(n uint64, ok bool) ([]uint64, bool) { return []uint64{n}, ok }
	tcp, icmp := p.proto == 6, p.proto == 1 || p.proto == 58
	switch keyword {
	case "dsize":
		return one(uint64(len(p.payload)), true)
	case "ttl":
		return one(uint64(p.ttl), true)
	case "tos":
		return one(uint64(p.tos), !p.v6)
	case "id":
		return one(uint64(p.id), !p.v6)
	case "seq", "tcp.seq":
		return one(uint64(p.tcp.Seq), tcp)
	case "ack", "tcp.ack":
		return one(uint64(p.tcp.Ack), tcp)
	case "window", "tcp.window":
		return one(uint64(p.tcp.Window), tcp)
	case "itype":
		return one(uint64(p.icmp[0]), icmp)
	case "icode":
		return one(uint64(p.icmp[1]), icmp)
	case "icmp_id", "icmp_seq":
		if !icmp || len(p.transport) < 8 {
			return nil, false
		}
		at := 4
		if keyword == "icmp_seq" {
			at = 6
		}
		return one(uint64(binary.BigEndian.Uint16(p.transport[at:])), true)
	case "tcp.mss":
		b, ok := p.option(2)
		if !tcp || !ok || len(b) != 2 {
			return nil, false
		}
		return one(uint64(binary.BigEndian.Uint16(b)), true)
	case "tcp.wscale":
		b, ok := p.option(3)
		if !tcp || !ok || len(b) != 1 {
			return nil, false
		}
		return one(uint64(b[0]), true)
	case "icmpv6.mtu":
		if p.proto != 58 || p.icmp[0] != 2 || len(p.transport) < 8 {
			return nil, false
		}
		return one(uint64(binary.BigEndian.Uint32(p.transport[4:])), true)
	case "vxlan_vni":
		return p.vxlan, len(p.vxlan) > 0
	case "vlan.id":
		var ids []uint64
		for _, v := range p.vlans {
			ids = append(ids, uint64(v))
		}
		return ids, len(ids) > 0
	case "vlan.layers":
		return one(uint64(len(p.vlans)), true)
	case "flow.age":
		return one(uint64(f.last.Sub(f.first).Seconds()), true)
	case "flow.pkts_toserver":
		return one(uint64(f.packets[0]), true)
	case "flow.pkts_toclient":
		return one(uint64(f.packets[1]), true)
	case "flow.pkts":
		return one(uint64(f.packets[0]+f.packets[1]), true)
	case "flow.bytes_toserver":
		return one(uint64(f.bytes[0]), true)
	case "flow.bytes_toclient":
		return one(uint64(f.bytes[1]), true)
	case "flow.bytes":
		return one(uint64(f.bytes[0]+f.bytes[1]), true)
	}
	return nil, false
}

// Word implements the Source of package engine.
func (s *packetSource) Word(_ rule.Direction, keyword, value string) bool {
	p := s.p
	switch keyword {
	case "app-layer-protocol":
		name, _, _ := strings.Cut(value, ",")
		app := s.f.appName
		return app == name || (name == "http" || name == "http2") && (app == "http2" || app == "doh2") || name == "dns" && app == "doh2" || name == "http1" && app == "http" || name == "failed" && app == "" && s.f.gaveUp || name == "unknown" && app == ""
	case "flags", "tcp.flags":
		return p.proto == 6 && flagsFit(p.tcp.Flags, value)
	case "ip_proto":
		return protoFits(p.proto, value)
	case "l3_proto":
		version, not := strings.CutPrefix(value, "!")
		return (p.v6 == strings.HasSuffix(version, "6")) != not
	case "sameip":
		return p.src.Addr() == p.dst.Addr()
	case "stream_size":
		return s.streamSize(value)
	case "ipopts":
		return !p.v6 && hasOption(p.ip, strings.ToLower(value))
	case "fragbits":
		return !p.v6 && len(p.ip) >= 8 && fragmentBitsFit(p.ip[6]>>5, value)
	case "fragoffset":
		if p.v6 || len(p.ip) < 8 {
			return false
		}
		c, err := rule.ParseCompare(value)
		return err == nil && c.Match(uint64(binary.BigEndian.Uint16(p.ip[6:])&0x1fff))
	case "ipv4-csum", "tcpv4-csum", "udpv4-csum", "icmpv4-csum", "tcpv6-csum", "udpv6-csum", "icmpv6-csum":
		valid, ok := p.sumOf(keyword)
		return ok && valid == (strings.ToLower(value) == "valid")
	}
	return false
}

// fragmentBitsFit evaluates fragbits.
func fragmentBitsFit(bits byte, value string) bool {
	want := byte(0)
	for _, c := range strings.ToUpper(value) {
		switch c {
		case 'D':
			want |= 2
		case 'M':
			want |= 1
		case 'R':
			want |= 4
		}
	}
	return bitsFit(bits, want, value)
}

// bitsFit compares bits as the sign in a value says: + with others beside them, * any of them, ! not all
// of them; without one, they alone.
func bitsFit(have, want byte, value string) bool {
	switch {
	case strings.Contains(value, "+"):
		return have&want == want
	case strings.Contains(value, "*"):
		return have&want != 0
	case strings.Contains(value, "!"):
		return have&want != want
	}
	return have == want
}

// ipOptions are the numbers of IPv4 options by their names in ipopts.
var ipOptions = map[string]byte{"eol": 0, "nop": 1, "rr": 7, "ts": 68, "qs": 25, "sec": 130, "lsrr": 131, "lsrre": 131, "esec": 133, "cipso": 134, "satid": 136, "ssrr": 137, "rtralt": 148}

// hasOption reports whether the head of an IPv4 packet has an option, or any.
func hasOption(ip []byte, name string) bool {
	if len(ip) < 20 {
		return false
	}
	o := ip[20:min(len(ip), max(20, int(ip[0]&15)*4))]
	if name == "any" {
		return len(o) > 0
	}
	want, ok := ipOptions[name]
	for ok && len(o) > 0 {
		if o[0] == want {
			return true
		}
		switch {
		case o[0] == 0:
			return false
		case o[0] == 1:
			o = o[1:]
		case len(o) < 2 || o[1] < 2 || int(o[1]) > len(o):
			return false
		default:
			o = o[o[1]:]
		}
	}
	return false
}

// option returns the data of an option of TCP.
func (p *packet) option(kind byte) ([]byte, bool) {
	for o := p.tcp.Options; len(o) > 0 && o[0] != 0; {
		switch {
		case o[0] == 1:
			o = o[1:]
			continue
		case len(o) < 2 || o[1] < 2 || int(o[1]) > len(o):
			return nil, false
		case o[0] == kind:
			return o[2:o[1]], true
		}
		o = o[o[1]:]
	}
	return nil, false
}

// streamSize evaluates stream_size: server,>,1000.
func (s *packetSource) streamSize(value string) bool {
	part := strings.Split(value, ",")
	if len(part) < 3 || s.p.proto != 6 {
		return false
	}
	c, err := rule.ParseCompare(strings.TrimSpace(part[1]) + strings.TrimSpace(part[2]))
	if err != nil {
		return false
	}
	size := func(i int) uint64 { return uint64(max(0, s.f.streams[i].next+int64(s.f.streams[i].pending))) }
	switch strings.TrimSpace(part[0]) {
	case "client":
		return c.Match(size(0))
	case "server":
		return c.Match(size(1))
	case "both":
		return c.Match(size(0)) && c.Match(size(1))
	case "either":
		return c.Match(size(0)) || c.Match(size(1))
	}
	return false
}

// flagsFit evaluates flags: [modifier]FLAGS[,ignored].
func flagsFit(have uint8, value string) bool {
	want, mask, hasMask := strings.Cut(value, ",")
	bits := func(s string) (b uint8) {
		for _, c := range strings.ToUpper(s) {
			if i := strings.IndexRune("FSRPAUEC", c); i >= 0 {
				b |= 1 << i
			}
			switch c {
			case '2':
				b |= 0x40
			case '1':
				b |= 0x80
			}
		}
		return b
	}
	if hasMask {
		have &^= bits(mask)
	}
	return bitsFit(have, bits(want), want)
}

func protoFits(have uint8, value string) bool {
	value, not := strings.CutPrefix(value, "!")
	names := map[string]uint8{"icmp": 1, "tcp": 6, "udp": 17, "ipv6-icmp": 58, "gre": 47, "ipv6": 41, "esp": 50, "ah": 51, "sctp": 132}
	n, ok := names[strings.ToLower(value)]
	if !ok {
		v, err := strconv.Atoi(strings.TrimLeft(value, "<>"))
		if err != nil {
			return false
		}
		n = uint8(v)
		if strings.HasPrefix(value, ">") {
			return have > n
		}
		if strings.HasPrefix(value, "<") {
			return have < n
		}
	}
	return (have == n) != not
}

// Event implements the Source of package engine.
func (s *packetSource) Event(kind, name string) bool {
	return kind != "app-layer-event" && slices.Contains(s.p.events, strings.ToLower(name))
}

// Files implements the Source of package engine.
func (s *packetSource) Files(rule.Direction) []*traffic.File { return nil }

// A streamSource is the source of a piece of a stream.
type streamSource struct {
	data  []byte
	inner *packetSource
}

// Buffer implements the Source of package engine.
func (s *streamSource) Buffer(dir rule.Direction, b rule.Buffer, i int) ([]byte, bool) {
	if b == rule.Payload {
		return s.data, i == 0
	}
	return s.inner.Buffer(dir, b, i)
}

// Numbers implements the Source of package engine.
func (s *streamSource) Numbers(dir rule.Direction, k string) ([]uint64, bool) {
	return s.inner.Numbers(dir, k)
}

// Word implements the Source of package engine.
func (s *streamSource) Word(dir rule.Direction, k, v string) bool { return s.inner.Word(dir, k, v) }

// Event implements the Source of package engine.
func (s *streamSource) Event(k, n string) bool { return s.inner.Event(k, n) }

// Files implements the Source of package engine.
func (s *streamSource) Files(rule.Direction) []*traffic.File { return nil }
