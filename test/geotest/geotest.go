// Package geotest writes small MaxMind DB files for tests.
//
// A test gives networks with their data. The file holds a search tree over 128-bit addresses
// (IPv4 in ::/96), the records and the metadata, in the MaxMind DB format, version 2.0.
package geotest

import (
	"encoding/binary"
	"math"
	"net/netip"
	"slices"
)

// A Network is one record of the file. Of overlapping networks the longest wins if it comes
// after the shorter ones.
type Network struct {
	Prefix    string // such as "192.0.2.0/24"
	Country   string // as country.iso_code
	ASN       uint32 // as autonomous_system_number
	Lat, Lon  float64
	HasPlace  bool
	Unrelated bool // a record without any value that we read
}

type node struct {
	next [2]*node
	data int // index of the record + 1, in leaves
	id   uint32
}

// File returns the bytes of a file. It panics on an invalid prefix.
func File(networks []Network) []byte {
	root := &node{}
	var data []byte
	var offsets []uint32
	for i, n := range networks {
		offsets = append(offsets, uint32(len(data)))
		data = appendRecord(data, n)
		insert(root, netip.MustParsePrefix(n.Prefix), i+1)
	}
	var inner []*node
	number(root, &inner)
	count := uint32(len(inner))
	var out []byte
	for _, n := range inner {
		for _, next := range n.next {
			v := count // nothing known
			switch {
			case next == nil:
			case next.data > 0:
				v = count + 16 + offsets[next.data-1]
			default:
				v = next.id
			}
			out = binary.BigEndian.AppendUint32(out, v)
		}
	}
	out = append(out, make([]byte, 16)...)
	out = append(out, data...)
	out = append(out, "\xab\xcd\xefMaxMind.com"...)
	out = appendMap(out, 9)
	out = appendUint(appendString(out, "node_count"), uint64(count))
	out = appendUint(appendString(out, "record_size"), 32)
	out = appendUint(appendString(out, "ip_version"), 6)
	out = appendString(appendString(out, "database_type"), "Test")
	out = append(appendString(out, "languages"), 0, 11-7) // an empty array
	out = appendUint(appendString(out, "binary_format_major_version"), 2)
	out = appendUint(appendString(out, "binary_format_minor_version"), 0)
	out = appendUint(appendString(out, "build_epoch"), 1)
	return appendMap(appendString(out, "description"), 0)
}

func insert(root *node, p netip.Prefix, data int) {
	a, bits := p.Masked().Addr().As16(), p.Bits()
	if p.Addr().Is4() {
		clear(a[:12])
		bits += 96
	}
	n := root
	for i := range bits {
		b := a[i/8] >> (7 - i%8) & 1
		if n.data > 0 { // the leaf of a shorter network is split
			n.next = [2]*node{{data: n.data}, {data: n.data}}
			n.data = 0
		}
		if n.next[b] == nil {
			n.next[b] = &node{}
		}
		n = n.next[b]
	}
	n.next = [2]*node{}
	n.data = data
}

func number(n *node, inner *[]*node) {
	if n == nil || n.data > 0 {
		return
	}
	n.id = uint32(len(*inner))
	*inner = append(*inner, n)
	number(n.next[0], inner)
	number(n.next[1], inner)
}

func appendRecord(b []byte, n Network) []byte {
	if n.Unrelated {
		b = appendMap(b, 1)
		return appendString(appendString(b, "isp"), "none")
	}
	fields := 0
	for _, there := range []bool{n.Country != "", n.ASN != 0, n.HasPlace} {
		if there {
			fields++
		}
	}
	b = appendMap(b, fields)
	if n.Country != "" {
		b = appendMap(appendString(b, "country"), 1)
		b = appendString(appendString(b, "iso_code"), n.Country)
	}
	if n.ASN != 0 {
		b = appendUint(appendString(b, "autonomous_system_number"), uint64(n.ASN))
	}
	if n.HasPlace {
		b = appendMap(appendString(b, "location"), 2)
		b = appendFloat(appendString(b, "latitude"), n.Lat)
		b = appendFloat(appendString(b, "longitude"), n.Lon)
	}
	return b
}

func appendMap(b []byte, size int) []byte { return append(b, 7<<5|byte(size)) }

func appendString(b []byte, s string) []byte {
	if len(s) < 29 {
		return append(append(b, 2<<5|byte(len(s))), s...)
	}
	return append(append(b, 2<<5|29, byte(len(s)-29)), s...)
}

func appendUint(b []byte, v uint64) []byte {
	digits := binary.BigEndian.AppendUint64(nil, v)
	digits = digits[slices.IndexFunc(append(digits, 1), func(d byte) bool { return d != 0 }):]
	if len(digits) <= 4 {
		return append(append(b, 6<<5|byte(len(digits))), digits...)
	}
	return append(append(b, byte(len(digits)), 9-7), digits...)
}

func appendFloat(b []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 3<<5|8), math.Float64bits(f))
}
