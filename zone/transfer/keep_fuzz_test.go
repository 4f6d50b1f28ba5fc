package transfer

import (
	"bytes"
	"testing"

	"github.com/zeebo/xxh3"
)

// FuzzJournal reads damaged journals with correct checksums: nothing may panic,
// and accepted contents are written unchanged.
func FuzzJournal(f *testing.F) {
	soa := append([]byte("\x01a\x00\x00\x06\x00\x01\x00\x00\x00\x05\x00\x02"), 0, 0)
	rr := []byte("\x01b\x00\x00\x01\x00\x01\x00\x00\x00\x05\x00\x04\x01\x02\x03\x04")
	k := &storedZone{
		id: id{"a.", "inside"}, stamp: stamp{true, 7, [2]uint64{1, 2}},
		current: &content{serial: 7, soa: soa, kept: &version{serial: 7, soa: soa, arena: rr, starts: []uint32{0, uint32(len(rr))}}},
		journal: journal{{from: 6, to: 7, oldSOA: soa, newSOA: soa, gone: [][]byte{rr, rr}}},
	}
	var b bytes.Buffer
	if err := k.writeTo(&b); err != nil {
		f.Fatal(err)
	}
	body := b.Bytes()[len(magic) : b.Len()-checksum]
	f.Add(body)
	f.Add(body[:len(body)-3])
	f.Fuzz(func(t *testing.T, body []byte) {
		b := append([]byte(magic), body...)
		sum := xxh3.Hash128(b).Bytes()
		k, err := readKept(append(b, sum[:]...))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := k.writeTo(&out); err != nil {
			t.Fatal(err)
		}
		again, err := readKept(out.Bytes())
		if err != nil || again.id != k.id || again.stamp != k.stamp || len(again.journal) != len(k.journal) {
			t.Fatalf("the file differs after writing and reading it again: %v", err)
		}
	})
}
