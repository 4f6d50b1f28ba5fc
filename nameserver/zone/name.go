package zone

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/miekg/dns"
)

// wireName is a name in wire form and lower case.
func wireName(s string) ([]byte, error) {
	var buf [256]byte
	n, err := dns.PackDomainName(dns.CanonicalName(s), buf[:], 0, nil, false)
	if err != nil {
		return nil, fmt.Errorf("name %q: %w", s, err)
	}
	return bytes.Clone(buf[:n]), nil
}

// printName is a name of wire form as people write it.
func printName(wire []byte) string {
	s, _, err := dns.UnpackDomainName(wire, 0)
	if err != nil {
		return fmt.Sprintf("%q", wire)
	}
	return s
}

// lower puts ASCII letters of a name in wire form in lower case. Lengths are
// below 'A', so they stay what they are.
func lower(name []byte) {
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			name[i] = c + 'a' - 'A'
		}
	}
}

// equalFold compares names of wire form, b being in lower case.
func equalFold(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i, c := range a {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != b[i] {
			return false
		}
	}
	return true
}

// starts finds where the labels of a name start, the root's left out. The
// name may lack its end (a prefix of whole labels).
func starts(name []byte, dst []uint8) []uint8 {
	for i := 0; i < len(name) && name[i] != 0; i += 1 + int(name[i]) {
		dst = append(dst, uint8(i))
	}
	return dst
}

// sortKey turns a name around so that keys compared as strings come in the
// canonical order of RFC 4034 6.1: an ancestor's key is the front of its
// descendants'. The name ends before the root's zero or has it.
func sortKey(name []byte) string {
	var at [128]uint8
	labels := starts(name, at[:0])
	key := make([]byte, 0, len(name)+8)
	for i := len(labels) - 1; i >= 0; i-- {
		s := int(labels[i])
		for _, c := range name[s+1 : s+1+int(name[s])] {
			if c <= 1 { // 0 ends a label, so it is spelt with a 1 before it
				key = append(key, 1)
				c++
			}
			key = append(key, c)
		}
		key = append(key, 0)
	}
	return string(key)
}

// compare orders two names of wire form and lower case as sortKey does. Both
// may end before the origin they share.
func compare(a, b []byte) int {
	var as, bs [128]uint8
	la, lb := starts(a, as[:0]), starts(b, bs[:0])
	for i, j := len(la)-1, len(lb)-1; i >= 0 && j >= 0; i, j = i-1, j-1 {
		x, y := int(la[i]), int(lb[j])
		if c := bytes.Compare(a[x+1:x+1+int(a[x])], b[y+1:y+1+int(b[y])]); c != 0 {
			return c
		}
	}
	return len(la) - len(lb)
}

// Names are hashed label by label from the root's end, so that one walk over
// a name passes by the hashes of all its ancestors.
const (
	hashA = 0xa0761d6478bd642f
	hashB = 0xe7037ed1a0b428db
)

// mix is the hash of a name whose parent has the hash h. label is whole, with
// its length before it.
func mix(h uint64, label []byte) uint64 {
	for len(label) >= 8 {
		h = fold(h^binary.LittleEndian.Uint64(label), hashA)
		label = label[8:]
	}
	var tail uint64
	for i, c := range label {
		tail |= uint64(c) << (8 * i)
	}
	return fold(h^tail^hashB, hashA)
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
