package neural

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// errWire reports bytes that are not in the wire format of protocol buffers.
var errWire = errors.New("not a protocol buffer")

// A wire is a message in the wire format of protocol buffers. Methods read it from the
// beginning and return slices of it.
type wire []byte

// A field is one field of a message: a number or bytes.
type field struct {
	number uint64
	kind   uint8 // 0: varint, 1: 64 bits, 2: bytes, 5: 32 bits
	value  uint64
	bytes  wire
}

func (w *wire) varint() (uint64, error) {
	v, n := binary.Uvarint(*w)
	if n <= 0 {
		return 0, errWire
	}
	*w = (*w)[n:]
	return v, nil
}

func (w *wire) next() (f field, err error) {
	tag, err := w.varint()
	if err != nil {
		return f, err
	}
	f.number, f.kind = tag>>3, uint8(tag&7)
	switch f.kind {
	case 0:
		f.value, err = w.varint()
		return f, err
	case 1:
		if len(*w) < 8 {
			return f, errWire
		}
		f.value = binary.LittleEndian.Uint64(*w)
		*w = (*w)[8:]
	case 2:
		n, err := w.varint()
		if err != nil || n > uint64(len(*w)) {
			return f, errWire
		}
		f.bytes = (*w)[:n]
		*w = (*w)[n:]
	case 5:
		if len(*w) < 4 {
			return f, errWire
		}
		f.value = uint64(binary.LittleEndian.Uint32(*w))
		*w = (*w)[4:]
	default:
		return f, errWire
	}
	return f, nil
}

// eachField calls do for every field of a message.
func (w wire) eachField(do func(f field) error) error {
	for len(w) > 0 {
		f, err := w.next()
		if err != nil {
			return err
		}
		if err := do(f); err != nil {
			return err
		}
	}
	return nil
}

// ints appends the numbers of a repeated field, packed or not.
func (f field) ints(dst []int64, most int) ([]int64, error) {
	if f.kind != 2 {
		dst = append(dst, int64(f.value))
	}
	for b := f.bytes; len(b) > 0; {
		v, err := b.varint()
		if err != nil {
			return nil, err
		}
		if len(dst) >= most {
			return nil, fmt.Errorf("more than %d numbers", most)
		}
		dst = append(dst, int64(v))
	}
	return dst, nil
}

// floats appends the numbers of a repeated field, packed or not.
func (f field) floats(dst []float32, most int) ([]float32, error) {
	if f.kind == 5 {
		return append(dst, math.Float32frombits(uint32(f.value))), nil
	}
	if f.kind != 2 || len(f.bytes)%4 != 0 {
		return nil, errWire
	}
	if len(dst)+len(f.bytes)/4 > most {
		return nil, fmt.Errorf("more than %d numbers", most)
	}
	for b := f.bytes; len(b) > 0; b = b[4:] {
		dst = append(dst, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return dst, nil
}
