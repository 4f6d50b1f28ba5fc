package list

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"sort"

	"shuultuur/list/addresses"
	"shuultuur/list/width"
)

// maxNetworks bounds the networks of a list. The largest public lists of addresses have half a
// million.
const maxNetworks = 8 << 20

// A network is a prefix in one category. The address has 16 bytes; IPv4 networks are in
// ::ffff:0:0/96, so that one order holds both.
type network struct {
	addr [16]byte
	bits uint8
	cat  uint16
	line uint32
}

// The networks of a file are sorted by address, wider ones first, and each refers to the one
// that contains it. Networks are nested or disjoint. So the last one that begins at or before
// an address is inside every one that contains the address, and following the references
// outwards finds them all.
const (
	networkSize = 32 // addr 16, parent 4, line 4, category 2, bits 1, nothing 5
	noParent    = 1<<32 - 1
)

// networkLine reads an address, a network as 10.0.0.0/8 or 10.0.0.0/255.0.0.0, or a range a-b,
// of IPv4 or IPv6. A comment begins with "#" or ";".
func (p *parser) networkLine(s []byte) {
	if i := bytes.IndexAny(s, "#;"); i >= 0 {
		s = bytes.TrimSpace(s[:i])
	}
	if len(s) > 0 && !p.network(s) {
		p.refuse(s, "is neither an address nor a network nor a range of addresses")
	}
}

// network adds s as networks, if it has that form.
func (p *parser) network(s []byte) bool {
	if len(s) > 100 {
		return false
	}
	if from, to, ok := addresses.CutRange(string(s)); ok {
		for from.IsValid() && p.err == nil {
			var n netip.Prefix
			n, from = addresses.First(from, to)
			p.addNetwork(n)
		}
		return true
	}
	n, ok := addresses.Parse(string(s))
	if !ok {
		return false
	}
	if n != n.Masked() {
		p.remark(s, "has bits set beyond its length; read as "+n.Masked().String())
	}
	p.addNetwork(n.Masked())
	return true
}

func (p *parser) addNetwork(n netip.Prefix) {
	b := p.b
	if width.Network(n) && p.refuseWide([]byte(n.String())) {
		return
	}
	if len(b.networks) >= maxNetworks {
		p.err = fmt.Errorf("more than %d networks", maxNetworks)
		return
	}
	bits := n.Bits() + 128 - n.Addr().BitLen()
	b.networks = append(b.networks, network{n.Addr().As16(), uint8(bits), p.cat, p.line()})
}

// networkTable returns the networks in the form of the file, without duplicates.
func (b *builder) networkTable() []byte {
	sort.Slice(b.networks, func(i, j int) bool { // slices.SortFunc would be compiled for this type
		x, y := &b.networks[i], &b.networks[j]
		return cmp.Or(bytes.Compare(x.addr[:], y.addr[:]), cmp.Compare(x.bits, y.bits), cmp.Compare(x.cat, y.cat), cmp.Compare(x.line, y.line)) < 0
	})
	n := len(b.networks)
	b.networks = slices.CompactFunc(b.networks, func(x, y network) bool {
		return x.addr == y.addr && x.bits == y.bits && x.cat == y.cat
	})
	b.report.Duplicates += n - len(b.networks)
	b.report.Networks = len(b.networks)
	t := make([]byte, 0, len(b.networks)*networkSize)
	var around []uint32 // those that contain the current one
	for i, x := range b.networks {
		for len(around) > 0 && !b.networks[around[len(around)-1]].has(x.addr) {
			around = around[:len(around)-1]
		}
		parent := uint32(noParent)
		if len(around) > 0 {
			parent = around[len(around)-1]
		}
		around = append(around, uint32(i))
		t = append(t, x.addr[:]...)
		t = binary.LittleEndian.AppendUint32(t, parent)
		t = binary.LittleEndian.AppendUint32(t, x.line)
		t = binary.LittleEndian.AppendUint16(t, x.cat)
		t = append(t, x.bits, 0, 0, 0, 0, 0)
		b.report.Categories[b.categories.names[x.cat]]++
	}
	return t
}

// has reports whether the network contains an address.
func (n *network) has(addr [16]byte) bool {
	whole := n.bits / 8
	if !bytes.Equal(n.addr[:whole], addr[:whole]) {
		return false
	}
	rest := n.bits % 8
	return rest == 0 || (n.addr[whole]^addr[whole])>>(8-rest) == 0
}

// isNetworkLine reports whether a line looks like one of this format: a network or a range. One
// address may as well be a host.
func isNetworkLine(s []byte) bool {
	word, rest := field(s)
	if isRule(s) || isRPZLine(s) || len(rest) > 0 && isAddr(word) || (s[0] < '0' || s[0] > '9') && bytes.IndexByte(word, ':') < 0 {
		return false
	}
	if n, ok := addresses.Parse(string(word[:min(len(word), 100)])); ok {
		return !n.IsSingleIP() || len(rest) > 0
	}
	_, _, ok := addresses.CutRange(string(s[:min(len(s), 100)]))
	return ok
}
