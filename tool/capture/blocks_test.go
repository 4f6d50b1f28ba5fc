package capture

import "encoding/binary"

// blocks writes numbers of 16 and 32 bits, and bytes, one after the other.
func blocks(order binary.AppendByteOrder, parts ...any) (b []byte) {
	for _, p := range parts {
		switch v := p.(type) {
		case uint16:
			b = order.AppendUint16(b, v)
		case uint32:
			b = order.AppendUint32(b, v)
		case string:
			b = append(b, v...)
		case []byte:
			b = append(b, v...)
		}
	}
	return b
}
