package markup

import (
	"encoding/binary"
	"math/bits"

	"shuultuur/lib/ascii"
)

// This file tells bytes apart that end a name or are blanks, where possible eight at once. Of the
// bytes of a number, the lowest comes first.

const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// nameLen returns the number of bytes of a tag before the first that may end a name: all that
// do, and a few others.
func nameLen(x uint64) int {
	slash := x ^ '/'*ones
	angle := x&(0xFC*ones) ^ '<'*ones // < = > ?
	ends := (x-0x21*ones)&^x | (slash-ones)&^slash | (angle-ones)&^angle
	return bits.TrailingZeros64(ends&highs) / 8
}

// blankLen returns the number of blanks and control characters at the beginning of p.
func blankLen(p []byte) int {
	i := 0
	for ; len(p)-i >= 8; i += 8 {
		x := binary.LittleEndian.Uint64(p[i:])
		other := (x&(0x7F*ones) + (0x7F-' ')*ones) | x | (x-ones)&^x
		if other &= highs; other != 0 {
			return i + bits.TrailingZeros64(other)/8
		}
	}
	for i < len(p) && p[i] <= ' ' && p[i] != 0 {
		i++
	}
	return i
}

// nameByte returns a letter of a tag's name in lower case, 0 for bytes that end it.
var nameByte = func() (t [256]byte) {
	for c := range t {
		t[c] = ascii.Lower(byte(c))
	}
	t[0] = 1
	for _, c := range " \t\n\f\r/>" {
		t[c] = 0
	}
	return t
}()

// attrByte is 0 for bytes that end an attribute's name.
var attrByte = func() (t [256]byte) {
	t = nameByte
	t['='] = 0
	return t
}()

var spaceByte = [256]bool{' ': true, '\n': true, '\t': true, '\r': true, '\f': true}
