//go:build amd64 || arm64

package prose

// foldSixteen folds text as [Flow.fast] does: n bytes of src up to the first of stops, the first
// byte that is not ASCII, or fewer than 16 remaining bytes. dst must have room for n bytes;
// last is the byte before it. squeeze has the positions of the bits that are set in a byte. It
// returns the number of bytes read and written.
//
//go:noescape
func foldSixteen(dst, src *byte, n int, stops *[4][16]byte, squeeze *[256]uint64, last byte) (used, made int)

// squeeze has the positions of the bits that are set in a byte, one in each byte.
var squeeze = func() (t [256]uint64) {
	for b := range t {
		n := 0
		for bit := range 8 {
			if b>>bit&1 != 0 {
				t[b] |= uint64(bit) << (8 * n)
				n++
			}
		}
	}
	return t
}()

func foldRun(dst, src []byte, t *Table, last byte) (used, made int) {
	return foldSixteen(&dst[0], &src[0], len(src), &t.stops, &squeeze, last)
}
