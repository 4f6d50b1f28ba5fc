package parquet

import "encoding/binary"

// Types of elements in the compact protocol of Thrift.
const (
	isTrue   = 1
	i32s     = 5
	i64s     = 6
	binaries = 8
	lists    = 9
	structs  = 12
)

// A thrift writes structs in the compact protocol (github.com/apache/thrift,
// doc/specs/thrift-compact-protocol.md). Fields are written in rising order of their numbers.
// stop ends the outermost struct, end the inner ones.
type thrift struct {
	buf  []byte
	last int   // number of the previous field
	up   []int // the same for the enclosing structs
}

func (t *thrift) field(id int, typ byte) {
	if d := id - t.last; d <= 15 {
		t.buf = append(t.buf, byte(d)<<4|typ)
	} else {
		t.buf = append(t.buf, typ)
		t.zigzag(int64(id))
	}
	t.last = id
}

func (t *thrift) zigzag(v int64) { t.buf = binary.AppendVarint(t.buf, v) }

func (t *thrift) i32(id int, v int64) { t.field(id, i32s); t.zigzag(v) }
func (t *thrift) i64(id int, v int64) { t.field(id, i64s); t.zigzag(v) }

func (t *thrift) text(id int, s string) { t.field(id, binaries); t.bytes(s) }

func (t *thrift) bytes(s string) {
	t.buf = append(binary.AppendUvarint(t.buf, uint64(len(s))), s...)
}

// list begins a list of n elements.
func (t *thrift) list(id int, of byte, n int) {
	t.field(id, lists)
	if n < 15 {
		t.buf = append(t.buf, byte(n)<<4|of)
		return
	}
	t.buf = binary.AppendUvarint(append(t.buf, 0xf0|of), uint64(n))
}

// begin begins a struct that is a field.
func (t *thrift) begin(id int) { t.field(id, structs); t.element() }

// element begins a struct that is an element of a list.
func (t *thrift) element() { t.up, t.last = append(t.up, t.last), 0 }

func (t *thrift) end() {
	t.stop()
	t.last, t.up = t.up[len(t.up)-1], t.up[:len(t.up)-1]
}

func (t *thrift) stop() { t.buf = append(t.buf, 0) }
