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
	tableJIS0208 // by pointers of Shift_JIS, without private use
	tableJIS0212
	tableGB18030
	tableGB18030Four // by pointers of four bytes, within the first plane
	tableCount
)

// lengths are the numbers of pointers in the tables: lead bytes times trail bytes.
var lengths = [tableCount]int{126 * 157, 126 * 190, 60 * 188, 94 * 94, 126 * 190, 39420}

// Pack compresses tables of code points, in which 0 means undefined. It stores the difference
// from the previous one plus one, in zigzag encoding, as a varint. Nothing separates the
// tables, whose lengths are fixed.
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

// mustUnpack reverses Pack. It cannot fail, because its input is part of the program, and a
// test unpacks all of it.
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

// tables are unpacked when a text first needs one: they take 500 KB, and most networks never
// see some of these charsets.
var tables = sync.OnceValue(func() *[tableCount][]rune {
	return (*[tableCount][]rune)(mustUnpack(packedMultibyte, lengths[:]...))
})
