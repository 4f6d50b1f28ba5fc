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

	"shuultuur/lib/dns"
)

// Names are hashed label by label from the root, so that hashing a name also gives the hashes
// of all its ancestors.
const (
	hashA = 0xa0761d6478bd642f
	hashB = 0xe7037ed1a0b428db
)

// mix returns the hash of a name whose parent has the hash h. label includes its length byte.
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

// FileName returns a file name for a subject with a textual name, such as a zone. Different
// texts give different names.
func FileName(text string) string {
	name := url.PathEscape(text)
	switch {
	case name == "":
		name = "%00"
	case name[0] == '.':
		name = "%2E" + name[1:] // not a hidden file, and not the folder itself
	case len(name) > 200: // a file name has at most 255 bytes, including the ending
		sum := sha256.Sum256([]byte(name))
		name = hex.EncodeToString(sum[:])
	}
	return name
}

// Canonical returns the one spelling in which names are compared as text: lower case and
// punycode, with the final dot. A text that is not a name stays unchanged.
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

// maxRecord bounds the size of a record: 64 KiB of data, the longest name and the fixed part.
const maxRecord = 65535 + 255 + 10

// Pack writes a record in wire form, uncompressed and with its owner in lower case, into *buf,
// which grows as needed.
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
