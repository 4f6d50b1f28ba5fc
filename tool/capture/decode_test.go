package capture

import (
	"encoding/binary"
	"testing"
	"time"
)

// TestPacketsInsideOthersAreFound wraps a datagram in the protocols in which
// networks wrap packets.
func TestPacketsInsideOthersAreFound(t *testing.T) {
	be := binary.BigEndian
	join := func(parts ...any) []byte { return blocks(be, parts...) }
	ip4 := func(proto uint16, p []byte) []byte {
		return join(uint16(0x4500), uint16(20+len(p)), uint32(0), 64<<8|proto, uint16(0), "\x0a\x00\x00\x01", "\x0a\x00\x00\x02", p)
	}
	ip6 := func(next uint16, p []byte) []byte {
		return join(uint32(6<<28), uint16(len(p)), next<<8|64, "\x20\x01aaaabbbbccccdd", "\x20\x01aaaabbbbccccde", p)
	}
	udp := func(port uint16, p []byte) []byte { return join(uint16(9), port, uint16(8+len(p)), uint16(0), p) }
	eth := func(kind uint16, p []byte) []byte {
		return join("\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02", kind, p)
	}
	inner := udp(7, []byte("found"))
	v4, v6 := ip4(17, inner), ip6(17, inner)
	in := func(port uint16, p ...any) []byte { return eth(0x0800, ip4(17, udp(port, join(p...)))) }
	for name, x := range map[string]struct {
		link int
		data []byte
	}{
		"nothing":             {linkEthernet, eth(0x0800, v4)},
		"QinQ":                {linkEthernet, eth(0x88a8, join(uint16(5), uint16(0x8100), uint16(6), uint16(0x86dd), v6))},
		"MPLS, two labels":    {linkEthernet, eth(0x8847, join(uint32(16<<12|64), uint32(17<<12|0x140), v6))},
		"MPLS with Ethernet":  {linkEthernet, eth(0x8847, join(uint32(16<<12|0x140), uint32(0), eth(0x0800, v4)))},
		"PPPoE":               {linkEthernet, eth(0x8864, join(uint16(0x1100), uint16(7), uint16(2+len(v6)), uint16(0x57), v6))},
		"PPP":                 {linkPPP, join(uint16(0xff03), uint16(0x21), v4)},
		"GRE with a key":      {linkEthernet, eth(0x0800, ip4(47, join(uint16(0x2000), uint16(0x86dd), uint32(1), v6)))},
		"PPTP":                {linkEthernet, eth(0x0800, ip4(47, join(uint16(0x3001), uint16(0x880b), uint32(9), uint32(1), uint16(0xff03), uint16(0x21), v4)))},
		"VXLAN":               {linkEthernet, in(4789, uint32(8<<24), uint32(77<<8), eth(0x8100, join(uint16(3), uint16(0x0800), v4)))},
		"Geneve":              {linkEthernet, in(6081, uint32(0x6558), uint32(77<<8), eth(0x0800, v4))},
		"Geneve with options": {linkEthernet, in(6081, uint32(2<<24|0x86dd), uint32(77<<8), "options!", v6)},
		"Teredo":              {linkEthernet, in(3544, v6)},
		"Teredo, where from":  {linkEthernet, in(3544, uint16(0), "portaddr"[:6], v6)},
		"Teredo, signed":      {linkEthernet, in(3544, uint16(1), uint16(0), "nonceeee\x00", uint16(0), "portaddr"[:6], v6)},
		"IPv4 in IPv6":        {linkRaw, ip6(4, v4)},
		"authenticated":       {linkRaw, ip4(51, join(uint16(17<<8|4), uint16(0), uint32(1), uint32(1), "checksum", uint32(0), inner))},
		"authenticated, IPv6": {linkRaw, ip6(51, join(uint16(17<<8|4), uint16(0), uint32(1), uint32(1), "checksum", uint32(0), inner))},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			d := &decoder{fragments: map[fragmentKey]*fragments{}, out: func(p *packet) {
				if p.dst.Port() == 7 {
					got += string(p.payload)
				}
			}}
			d.decode(&packet{number: 1, time: time.Unix(0, 0), link: x.link}, x.data)
			if got != "found" || d.broken != 0 {
				t.Errorf("decoding gave the payload %q and counted %d broken packets, want \"found\" and none", got, d.broken)
			}
			for n := range x.data { // a truncated packet does no harm
				d.decode(&packet{number: 1, time: time.Unix(0, 0), link: x.link}, x.data[:n])
			}
		})
	}
}
