package picture

import (
	"bytes"
	"encoding/binary"
)

// orientation reads the rotation of a picture from an Exif segment: 1 to 8 as in Exif 2.32
// (tag 274), 1 by default.
func orientation(seg []byte) uint8 {
	t, ok := bytes.CutPrefix(seg, []byte("Exif\x00\x00"))
	if !ok || len(t) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.BigEndian
	if t[0] == 'I' {
		order = binary.LittleEndian
	}
	at := uint64(order.Uint32(t[4:]))
	if at+2 > uint64(len(t)) {
		return 1
	}
	entries := t[at+2:]
	for range order.Uint16(t[at:]) {
		if len(entries) < 12 {
			break
		}
		if order.Uint16(entries) == 274 && order.Uint16(entries[2:]) == 3 {
			if o := order.Uint16(entries[8:]); o >= 1 && o <= 8 {
				return uint8(o)
			}
		}
		entries = entries[12:]
	}
	return 1
}

// withOrientation inserts an Exif segment at the beginning of a JPEG without one.
func withOrientation(b []byte, turn uint8) []byte {
	if turn <= 1 {
		return b
	}
	exif := []byte("\xff\xe1\x00\x22Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00")
	exif[28] = turn
	return append(append(append(make([]byte, 0, len(b)+len(exif)), b[:2]...), exif...), b[2:]...)
}

// DisplaySize returns the size in which browsers show a picture.
func (h Head) DisplaySize() (width, height int) {
	if h.Turn >= 5 {
		return h.Height, h.Width
	}
	return h.Width, h.Height
}

// rotated returns m as browsers show it.
func (m *RGB) rotated(turn uint8) *RGB {
	if turn <= 1 {
		return m
	}
	out := &RGB{W: m.W, H: m.H, Pix: make([]byte, 0, len(m.Pix))}
	if turn >= 5 {
		out.W, out.H = m.H, m.W
	}
	for y := range out.H {
		for x := range out.W {
			u, v := x, y
			if turn >= 5 {
				u, v = y, x
			}
			if turn == 2 || turn == 3 || turn == 7 || turn == 8 {
				u = m.W - 1 - u
			}
			if turn == 3 || turn == 4 || turn == 6 || turn == 7 {
				v = m.H - 1 - v
			}
			i := 3 * (v*m.W + u)
			out.Pix = append(out.Pix, m.Pix[i:i+3]...)
		}
	}
	return out
}
