package engine

import "golang.org/x/sys/cpu"

// vectors says that this processor has the instructions of vector_amd64.s.
var vectors = cpu.X86.HasAVX2

// sieveAVX2 looks at blocks of 32 bytes for places where both runs of a pattern may
// be, and appends an entry to out for each block that has one: where the block begins
// in the upper 48 bits, and 16 bits for places: the lower eight for those four apart
// from 2 bytes before the block on, the upper eight for those from its beginning on.
// It reads 2 bytes behind the last block. before is what groups says of the run 2
// bytes before the first block. It returns the number of entries.
//
//go:noescape
func sieveAVX2(data *byte, blocks int, groups *uint16, before uint32, out *uint64) (n int)

// indexTwoAVX2 returns the first place at which first has x and second has y, both
// letters in lower case, or the number of bytes in all blocks of 32 bytes.
//
//go:noescape
func indexTwoAVX2(first, second *byte, blocks int, x, y uint8) int
