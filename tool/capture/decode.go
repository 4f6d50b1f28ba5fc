package capture

import (
	"encoding/binary"
	"net/netip"
	"time"

	"shuultuur/tool/capture/tcp"
)

// Limits of decoding.
const (
	maxLayers    = 16 // nested tunnels
	maxFragments = 4096
	fragmentTime = 60 * time.Second
)

// Link types of captures (tcpdump.org/linktypes.html).
const (
	linkNull     = 0
	linkEthernet = 1
	linkPPP      = 9
	linkRaw12    = 12
	linkRaw14    = 14
	linkPPPoE    = 51
	linkRaw      = 101
	linkCHDLC    = 104
	linkLoop     = 108
	linkSLL      = 113
	linkIPv4     = 228
	linkIPv6     = 229
	linkSLL2     = 276
)

// linkNames are the names of link types in records.
var linkNames = map[int]string{
	linkNull: "NULL", linkEthernet: "EN10MB", linkPPP: "PPP", linkRaw12: "RAW", linkRaw14: "RAW", linkRaw: "RAW", linkCHDLC: "C_HDLC",
	linkLoop: "LOOP", linkSLL: "LINUX_SLL", linkIPv4: "IPV4", linkIPv6: "IPV6", linkSLL2: "LINUX_SLL2",
}

// A packet is one packet of a capture, or one in a tunnel.
type packet struct {
	number  int // in the capture, from 1
	time    time.Time
	link    int
	vlans   []uint16
	tunnels int
	vxlan   []uint64

	ip       []byte // from the IP header on
	v6       bool
	proto    uint8
	ttl, tos uint8
	id       uint16
	fragment bool // reassembled from fragments
	src, dst netip.AddrPort

	transport []byte // header and payload of TCP, UDP or ICMP
	payload   []byte

	tcp    tcp.Segment
	icmp   [2]uint8
	wire   int      // bytes of the packet as captured
	events []string // of the stream and of decoding, by their names in rules
}

const (
	fin     = tcp.FIN
	syn     = tcp.SYN
	rst     = tcp.RST
	ackFlag = tcp.ACK
	urg     = tcp.URG
)

// A decoder decodes packets.
type decoder struct {
	fragments map[fragmentKey]*fragments
	broken    int64
	out       func(*packet)
}

type fragmentKey struct {
	src, dst netip.Addr
	id       uint32
	proto    uint8
}

type fragments struct {
	parts []fragmentPart
	last  int // length of the whole, -1 while unknown
	at    time.Time
}

type fragmentPart struct {
	off  int
	data []byte
}

// decode decodes one captured packet and passes on the packets in it.
func (d *decoder) decode(p *packet, data []byte) {
	p.wire = len(data)
	ok := false
	switch p.link {
	case linkEthernet:
		ok = d.ethernet(p, data)
	case linkNull, linkLoop:
		ok = len(data) > 4 && d.network(p, data[4:])
	case linkRaw, linkRaw12, linkRaw14, linkIPv4, linkIPv6:
		ok = d.network(p, data)
	case linkSLL:
		ok = len(data) > 16 && d.ether(p, binary.BigEndian.Uint16(data[14:]), data[16:], 0)
	case linkSLL2:
		ok = len(data) > 20 && d.ether(p, binary.BigEndian.Uint16(data), data[20:], 0)
	case linkPPP:
		ok = d.ppp(p, data, 0)
	case linkCHDLC:
		ok = len(data) > 4 && d.ether(p, binary.BigEndian.Uint16(data[2:]), data[4:], 0)
	}
	if !ok {
		d.broken++
	}
}

func (d *decoder) ethernet(p *packet, data []byte) bool {
	return len(data) >= 14 && d.ether(p, binary.BigEndian.Uint16(data[12:]), data[14:], 0)
}

// ether decodes the payload of an EtherType.
func (d *decoder) ether(p *packet, kind uint16, data []byte, depth int) bool {
	if depth > maxLayers {
		return false
	}
	switch kind {
	case 0x0800, 0x86dd:
		return d.network(p, data)
	case 0x8100, 0x88a8, 0x9100:
		if len(data) < 4 {
			return false
		}
		p.vlans = append(p.vlans, binary.BigEndian.Uint16(data)&0xfff)
		return d.ether(p, binary.BigEndian.Uint16(data[2:]), data[4:], depth+1)
	case 0x8847, 0x8848:
		for len(data) >= 4 {
			bottom := data[2]&1 != 0
			data = data[4:]
			if bottom {
				break
			}
		}
		if len(data) == 0 {
			return false
		}
		if v := data[0] >> 4; v == 4 || v == 6 {
			return d.network(p, data)
		}
		if len(data) > 18 && binary.BigEndian.Uint32(data)&0xf0000000 == 0 {
			return d.ethernet(p, data[4:]) || d.ethernet(p, data)
		}
		return d.ethernet(p, data)
	case 0x8864:
		return len(data) > 8 && d.ppp(p, data[6:], depth+1)
	case 0x6558:
		return d.ethernet(p, data)
	case 0x8926: // VN-Tag
		return len(data) > 6 && d.ether(p, binary.BigEndian.Uint16(data[4:]), data[6:], depth+1)
	}
	return true // ARP and others, which no rule inspects
}

func (d *decoder) ppp(p *packet, data []byte, depth int) bool {
	if len(data) > 4 && data[0] == 0xff && data[1] == 3 { // address and control, RFC 1662
		data = data[2:]
	}
	if len(data) < 2 {
		return false
	}
	kind, n := binary.BigEndian.Uint16(data), 2
	if data[0]&1 != 0 {
		kind, n = uint16(data[0]), 1
	}
	switch kind {
	case 0x21, 0x57:
		return d.network(p, data[n:])
	case 0x281:
		return d.ether(p, 0x8847, data[n:], depth+1)
	}
	return true
}

// network decodes an IP packet.
func (d *decoder) network(p *packet, data []byte) bool {
	if p.tunnels > maxLayers || len(data) < 20 {
		return false
	}
	switch data[0] >> 4 {
	case 4:
		return d.ipv4(p, data)
	case 6:
		return d.ipv6(p, data)
	}
	return false
}

func (d *decoder) ipv4(p *packet, data []byte) bool {
	head, total := int(data[0]&15)*4, int(binary.BigEndian.Uint16(data[2:]))
	if head < 20 || total < head || len(data) < head {
		return false
	}
	if total < len(data) {
		data = data[:total]
	}
	src, _ := netip.AddrFromSlice(data[12:16])
	dst, _ := netip.AddrFromSlice(data[16:20])
	p.ip, p.v6, p.proto, p.ttl, p.tos = data, false, data[9], data[8], data[1]
	p.id = binary.BigEndian.Uint16(data[4:])
	p.src, p.dst = netip.AddrPortFrom(src, 0), netip.AddrPortFrom(dst, 0)
	off := binary.BigEndian.Uint16(data[6:])
	if off&0x3fff == 0 {
		return d.transportOf(p, p.proto, data[head:])
	}
	key := fragmentKey{src, dst, uint32(p.id), p.proto}
	whole := d.reassemble(p, key, int(off&0x1fff)*8, off&0x2000 != 0, data[head:])
	if whole == nil {
		return true
	}
	p.fragment = true
	return d.transportOf(p, p.proto, whole)
}

func (d *decoder) ipv6(p *packet, data []byte) bool {
	if len(data) < 40 {
		return false
	}
	if n := 40 + int(binary.BigEndian.Uint16(data[4:])); n < len(data) && n > 40 {
		data = data[:n]
	}
	src, _ := netip.AddrFromSlice(data[8:24])
	dst, _ := netip.AddrFromSlice(data[24:40])
	p.ip, p.v6, p.ttl = data, true, data[7]
	p.src, p.dst = netip.AddrPortFrom(src, 0), netip.AddrPortFrom(dst, 0)
	next, rest := data[6], data[40:]
	for range maxLayers {
		switch next {
		case 0, 43, 60: // options, routing
			if len(rest) < 8 {
				return false
			}
			n := 8 + int(rest[1])*8
			if n > len(rest) {
				return false
			}
			next, rest = rest[0], rest[n:]
			continue
		case 44:
			if len(rest) < 8 {
				return false
			}
			off := binary.BigEndian.Uint16(rest[2:])
			key := fragmentKey{src, dst, binary.BigEndian.Uint32(rest[4:]), rest[0]}
			whole := d.reassemble(p, key, int(off&0xfff8), off&1 != 0, rest[8:])
			if whole == nil {
				return true
			}
			next, rest, p.fragment = rest[0], whole, true
			continue
		}
		break
	}
	p.proto = next
	return d.transportOf(p, next, rest)
}

// reassemble keeps a fragment and returns the whole packet once it is complete. Of overlapping
// fragments, the first one applies.
func (d *decoder) reassemble(p *packet, key fragmentKey, off int, more bool, data []byte) []byte {
	f := d.fragments[key]
	if f == nil || p.time.Sub(f.at) > fragmentTime {
		if len(d.fragments) >= maxFragments {
			for old := range d.fragments {
				delete(d.fragments, old)
				break
			}
		}
		f = &fragments{last: -1, at: p.time}
		d.fragments[key] = f
	}
	if !more {
		f.last = off + len(data)
	}
	if len(f.parts) < maxFragments && off+len(data) <= 1<<16 {
		f.parts = append(f.parts, fragmentPart{off, append([]byte(nil), data...)})
	}
	if f.last < 0 {
		return nil
	}
	whole, have := make([]byte, f.last), make([]bool, f.last)
	left := f.last
	for _, part := range f.parts {
		for i, c := range part.data {
			if at := part.off + i; at < f.last && !have[at] {
				whole[at], have[at] = c, true
				left--
			}
		}
	}
	if left > 0 {
		return nil
	}
	delete(d.fragments, key)
	return whole
}

// transportOf decodes the payload of an IP packet.
func (d *decoder) transportOf(p *packet, proto uint8, data []byte) bool {
	p.transport = data
	port := func() {
		p.src = netip.AddrPortFrom(p.src.Addr(), binary.BigEndian.Uint16(data))
		p.dst = netip.AddrPortFrom(p.dst.Addr(), binary.BigEndian.Uint16(data[2:]))
	}
	switch proto {
	case 6:
		if len(data) < 20 {
			return false
		}
		head := int(data[12]>>4) * 4
		if head < 20 || head > len(data) {
			return false
		}
		port()
		p.tcp = tcp.Segment{Seq: binary.BigEndian.Uint32(data[4:]), Ack: binary.BigEndian.Uint32(data[8:]), Flags: data[13],
			Window: binary.BigEndian.Uint16(data[14:]), Urgent: binary.BigEndian.Uint16(data[18:]), Options: data[20:head], Size: len(data) - head}
		p.payload = data[head:]
	case 17:
		if len(data) < 8 {
			return false
		}
		port()
		n := int(binary.BigEndian.Uint16(data[4:]))
		if n < 8 || n > len(data) {
			n = len(data)
		}
		p.payload = data[8:n]
		if ok, is := d.tunnel(p); is {
			return ok
		}
	case 1, 58:
		if len(data) < 4 {
			return false
		}
		p.icmp = [2]uint8{data[0], data[1]}
		p.payload = data[min(8, len(data)):]
	case 47:
		return d.gre(p, data)
	case 51: // the authentication header of IPsec, RFC 4302
		if len(data) < 12 || len(data) < (int(data[1])+2)*4 || data[0] == 51 {
			return false
		}
		p.proto = data[0]
		return d.transportOf(p, p.proto, data[(int(data[1])+2)*4:])
	case 4, 41:
		d.out(p)
		return d.network(p.innerPacket(), data)
	default:
		p.payload = data
	}
	d.out(p)
	return true
}

// Ports of tunnels in UDP.
const (
	teredoPort = 3544 // RFC 4380
	vxlanPort  = 4789 // RFC 7348
	genevePort = 6081 // RFC 8926
)

// tunnel decodes the packet in a datagram of a tunnel. is reports whether it is one.
func (d *decoder) tunnel(p *packet) (ok, is bool) {
	b := p.payload
	switch {
	case p.dst.Port() == vxlanPort && len(b) > 22 && b[0]&8 != 0:
		inner := p.innerPacket()
		inner.vxlan = append(inner.vxlan, uint64(binary.BigEndian.Uint32(b[4:])>>8))
		d.out(p)
		return d.ethernet(inner, b[8:]), true
	case p.dst.Port() == genevePort && len(b) > 8 && b[0]>>6 == 0 && len(b) > 8+int(b[0]&0x3f)*4:
		d.out(p)
		return d.ether(p.innerPacket(), binary.BigEndian.Uint16(b[2:]), b[8+int(b[0]&0x3f)*4:], 0), true
	case p.dst.Port() == teredoPort || p.src.Port() == teredoPort:
		if len(b) > 4 && b[0] == 0 && b[1] == 1 { // authentication
			b = b[min(13+int(b[2])+int(b[3]), len(b)):]
		}
		if len(b) > 8 && b[0] == 0 && b[1] == 0 { // origin indication
			b = b[8:]
		}
		if len(b) >= 40 && b[0]>>4 == 6 && 40+int(binary.BigEndian.Uint16(b[4:])) == len(b) {
			d.out(p)
			return d.network(p.innerPacket(), b), true
		}
	}
	return false, false
}

// innerPacket returns a copy of p for the packet in it.
func (p *packet) innerPacket() *packet {
	return &packet{number: p.number, time: p.time, link: p.link, vlans: p.vlans, tunnels: p.tunnels + 1, vxlan: p.vxlan, wire: p.wire}
}

func (d *decoder) gre(p *packet, data []byte) bool {
	if len(data) < 4 {
		return false
	}
	flags, kind := binary.BigEndian.Uint16(data), binary.BigEndian.Uint16(data[2:])
	n := 4
	for _, bit := range []uint16{0x8000, 0x2000, 0x1000} {
		if flags&bit != 0 {
			n += 4
		}
	}
	if flags&7 == 1 && flags&0x80 != 0 { // PPTP's acknowledgement
		n += 4
	}
	if flags&0x4000 != 0 || n > len(data) {
		return false
	}
	p.payload = data[n:]
	d.out(p)
	switch kind {
	case 0x880b:
		return d.ppp(p.innerPacket(), data[n:], 0)
	case 0x88be: // ERSPAN
		if len(data) < n+8 {
			return false
		}
		return d.ethernet(p.innerPacket(), data[n+8:])
	}
	return d.ether(p.innerPacket(), kind, data[n:], 0)
}
