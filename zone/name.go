package zone

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
	"net/url"
	"strings"
	"unicode/utf8"

	miekg "github.com/miekg/dns"

	"shuultuur/dns"
)

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

// FileName is a name for a file about something that has a text for a name, such
// as a zone: no two texts share one.
func FileName(text string) string {
	name := url.PathEscape(text)
	switch {
	case name == "":
		name = "%00"
	case name[0] == '.':
		name = "%2E" + name[1:] // no hidden file, and not the folder itself
	case len(name) > 200: // a file name has 255 bytes at most, with an ending
		sum := sha256.Sum256([]byte(name))
		name = hex.EncodeToString(sum[:])
	}
	return name
}

// Canonical spells a name in the one way in which names are compared as texts:
// in lower case and punycode, with the final dot. What is not a name stays as it
// is.
func Canonical(name string) string {
	if isASCII := !strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }); isASCII && !strings.ContainsAny(name, `\\'"();@$ `) {
		return miekg.CanonicalName(name)
	}
	wire, err := dns.Name(name)
	if err != nil {
		return name
	}
	return dns.Text(wire)
}

// maxRecord is more than any record takes: 64 KiB of data, the longest name and
// the fixed part.
const maxRecord = 65535 + 255 + 10

// Pack writes a record in wire form without compression, its owner in lower
// case, into *buf, which grows as needed.
func Pack(rr miekg.RR, buf *[]byte) ([]byte, error) {
	n, err := miekg.PackRR(rr, *buf, 0, nil, false)
	for err != nil && len(*buf) < maxRecord {
		*buf = make([]byte, min(max(512, 8*len(*buf)), maxRecord))
		n, err = miekg.PackRR(rr, *buf, 0, nil, false)
	}
	if err != nil {
		return nil, fmt.Errorf("write record %q %s: %w", rr.Header().Name, typeName(rr.Header().Rrtype), err)
	}
	wire := (*buf)[:n]
	dns.ToLower(wire[:dns.NameLen(wire)])
	return wire, nil
}
