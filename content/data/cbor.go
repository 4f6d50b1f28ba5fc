package data

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/zeebo/xxh3"

	"shuultuur/content/coding"
	"shuultuur/content/limit"
	"shuultuur/content/media"
	"shuultuur/content/prose"
)

// This file reads CBOR (RFC 8949): strings, also those in chunks, with the names of maps, and
// what byte strings hold: text, JSON, CBOR, protobuf, any of them compressed.

const (
	MostCBORDeep     = 512 // items around an item; a byte string counts as sixteen
	MostCBORUnpacked = 64  // byte strings that are decompressed
)

// A CBORWork is the work done for a message or body.
type CBORWork struct {
	Bound    *limit.Work
	unpacked int
	Lost     bool // a limit was exceeded
}

// WalkCBOR visits the strings in a series of CBOR items with their places, and reports whether p
// is that.
func WalkCBOR(p []byte, place uint64, deep int, work *CBORWork, visit func(place uint64, s []byte)) bool {
	for _, visit := range []func(uint64, []byte){nil, visit} { // the first time, to know that all is CBOR
		c := cborWalker{p: p, visit: visit, work: work}
		for len(c.p) > 0 {
			if !c.item(place, deep) {
				return false
			}
		}
	}
	return len(p) > 0
}

type cborWalker struct {
	p     []byte                       // the rest
	visit func(place uint64, s []byte) // nil for none
	work  *CBORWork
}

// head reads the head of an item: its major type and its argument. Indefinite says that the item
// ends at a break.
func (c *cborWalker) head() (major byte, n uint64, indefinite, ok bool) {
	if len(c.p) == 0 {
		return 0, 0, false, false
	}
	first := c.p[0]
	major, c.p = first>>5, c.p[1:]
	switch size := first & 31; {
	case size < 24:
		return major, uint64(size), false, true
	case size < 28:
		width := 1 << (size - 24)
		if len(c.p) < width {
			return 0, 0, false, false
		}
		var wide [8]byte
		copy(wide[8-width:], c.p[:width])
		c.p = c.p[width:]
		return major, binary.BigEndian.Uint64(wide[:]), false, true
	case size == 31:
		return major, 0, true, major >= 2 && major != 6
	}
	return 0, 0, false, false
}

// item reads one item, and returns false if there is none.
func (c *cborWalker) item(place uint64, deep int) bool {
	if deep > MostCBORDeep || c.work.Bound.Spend(1) {
		c.work.Lost = true
		return false
	}
	whole := c.p
	major, n, indefinite, ok := c.head()
	switch {
	case !ok:
		return false
	case major == 2, major == 3:
		s, ok := c.string(major, n, indefinite)
		c.work.Bound.Spend(len(s))
		if ok && c.visit != nil && len(s) > 0 {
			c.visitString(major, place, deep, s)
		}
		return ok
	case major == 4, major == 5:
		return c.items(major, n, indefinite, place*31, deep+1)
	case major == 6:
		return c.item(place, deep+1)
	case major == 7 && indefinite: // a break that ends nothing
		c.p = whole
		return false
	}
	return true
}

// string reads a string, of which the head has been read.
func (c *cborWalker) string(major byte, n uint64, indefinite bool) (s []byte, ok bool) {
	if !indefinite {
		if n > uint64(len(c.p)) {
			return nil, false
		}
		s, c.p = c.p[:n], c.p[n:]
		return s, true
	}
	for !c.ended() {
		kind, n, indefinite, ok := c.head()
		if !ok || kind != major || indefinite || n > uint64(len(c.p)) {
			return nil, false
		}
		s, c.p = append(s, c.p[:n]...), c.p[n:]
	}
	return s, true
}

// ended reads the break that ends an item, if it comes next.
func (c *cborWalker) ended() bool {
	if len(c.p) == 0 || c.p[0] != 0xFF {
		return false
	}
	c.p = c.p[1:]
	return true
}

// items reads the items of an array or map.
func (c *cborWalker) items(major byte, n uint64, indefinite bool, place uint64, deep int) bool {
	if indefinite {
		n = math.MaxUint64
	}
	for ; n > 0 && !(indefinite && c.ended()); n-- {
		at := place
		if major == 5 {
			name := c.p
			if !c.item(Names, deep) {
				return false
			}
			at += xxh3.Hash(name[:min(len(name)-len(c.p), prose.LongestWord)])
		}
		if !c.item(at, deep) {
			return false
		}
	}
	return true
}

// visitString visits a string.
func (c *cborWalker) visitString(major byte, place uint64, deep int, s []byte) {
	if how := coding.ByMagic(s); major == 2 && how != coding.None {
		if c.work.unpacked++; c.work.unpacked <= MostCBORUnpacked {
			s, _ = Unpack(s)
		} else if how != coding.Deflate { // two bytes do not prove that it is zlib
			c.work.Lost = true
		}
	}
	switch {
	case media.JSONStart(s) == 0 && WalkJSON(s, VisitWithin(place, c.visit)):
	case major == 3, IsText(s):
		c.visit(place, bytes.ToValidUTF8(s, []byte{' '}))
	case WalkCBOR(s, place, deep+16, c.work, c.visit), WalkProtobuf(s, place, 0, c.visit):
	default:
		VisitRuns(s, place, c.visit)
	}
}
