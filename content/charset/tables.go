package charset

import (
	"bytes"
	"compress/flate"
	_ "embed"
	"encoding/binary"
	"io"
	"sync"
)

//go:generate sh -c "go run ./index"

//go:embed multibyte.bin
var packedMultibyte []byte

//go:embed single.bin
var packedSingle []byte

const (
	tableBig5 = iota
	tableEUCKR
	tableJIS0208 // by the pointers of Shift_JIS, without those of private use
	tableJIS0212
	tableGB18030
	tableGB18030Four // by the pointers of four bytes, as far as they are in the first plane
	tableCount
)

// lengths are the numbers of pointers of the tables: leads times trails.
var lengths = [tableCount]int{126 * 157, 126 * 190, 60 * 188, 94 * 94, 126 * 190, 39420}

// Pack writes tables of code points, 0 where there is none, as differences from
// the one before plus one, in zigzag order and as varints, and compresses them.
// The tables follow each other without a mark: their lengths are fixed.
func Pack(tables [][]rune) ([]byte, error) {
	var plain []byte
	for _, t := range tables {
		next := rune(0)
		for _, r := range t {
			if r == 0 {
				plain = append(plain, 0)
				continue
			}
			d := int64(r - next)
			plain = binary.AppendUvarint(plain, uint64(d<<1^d>>63)+1)
			next = r + 1
		}
	}
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// mustUnpack undoes Pack. What it reads is part of the program, and a test reads
// all of it, so it does not fail.
func mustUnpack(packed []byte, lengths ...int) (tables [][]rune) {
	plain, err := io.ReadAll(flate.NewReader(bytes.NewReader(packed)))
	if err != nil {
		panic("charset: decompressing the tables in the program: " + err.Error())
	}
	for _, length := range lengths {
		t := make([]rune, length)
		next := rune(0)
		for k := range t {
			v, n := binary.Uvarint(plain)
			if n <= 0 {
				panic("charset: the tables in the program end early")
			}
			plain = plain[n:]
			if v == 0 {
				continue
			}
			d := int64(v-1)>>1 ^ -int64((v-1)&1)
			t[k] = next + rune(d)
			next = t[k] + 1
		}
		tables = append(tables, t)
	}
	return tables
}

// tables are unpacked when the first text needs one: most networks never see
// some of these charsets, and the tables take 500 KB.
var tables = sync.OnceValue(func() *[tableCount][]rune {
	return (*[tableCount][]rune)(mustUnpack(packedMultibyte, lengths[:]...))
})
