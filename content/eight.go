package content

import (
	"encoding/binary"
	"math/bits"
)

// This file handles eight bytes at once. Of the bytes of a number, the lowest comes first.

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

// lowerEight returns x with letters of ASCII in lower case.
func lowerEight(x uint64) uint64 {
	low := x & (0x7F * ones)
	upper := (low + (0x80-'A')*ones) &^ (low + (0x7F-'Z')*ones) &^ x & highs
	return x | upper>>2
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
