package match

import "golang.org/x/sys/cpu"

// vectors reports whether this processor has the instructions in vector_amd64.s.
var vectors = cpu.X86.HasAVX2

// sieveAVX2 searches blocks of 32 bytes for positions where both runs of a pattern may be, and
// appends to out an entry for each block with such a position. The upper 32 bits are the
// position of the block, and each of the lowest 16 marks a second position, from 2 bytes before
// the block on. It reads 2 bytes after the last block. values begins with the value in groups for
// the run 2 bytes before the first block; those of the blocks, 16 each, are stored after it. It
// returns the number of entries. mask has the bits of the index of a slot.
//
//go:noescape
func sieveAVX2(data *byte, blocks int, groups *uint16, mask int, values *uint16, out *uint64) (n int)

// indexTwoAVX2 returns the first position at which first has x and second has y, both letters
// in lower case, or the number of bytes in all blocks of 32 bytes.
//
//go:noescape
func indexTwoAVX2(first, second *byte, blocks int, x, y uint8) int
