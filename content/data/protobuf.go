package data

import (
	"encoding/binary"

	"shuultuur/content/media"
)

// WalkProtobuf visits the strings of a protobuf message with an unknown schema: fields that
// are text, and those in fields that are messages. It reports whether p is such a message.
func WalkProtobuf(p []byte, place uint64, deep int, visit func(place uint64, s []byte)) bool {
	if deep > 8 || !isProtobuf(p) {
		return false
	}
	for len(p) > 0 {
		tag, n := binary.Uvarint(p)
		p = p[n:]
		switch tag & 7 {
		case 0:
			_, n = binary.Uvarint(p)
		case 1:
			n = 8
		case 5:
			n = 4
		case 2:
			size, k := binary.Uvarint(p)
			field := p[k : k+int(size)]
			n = k + int(size)
			if at := place*31 + tag>>3; IsText(field) {
				if start := media.JSONStart(field); start != 0 || !WalkJSON(field, visit) {
					visit(at, field)
				}
			} else if !WalkProtobuf(field, at, deep+1, visit) {
				VisitRuns(field, at, visit)
			}
		}
		p = p[n:]
	}
	return true
}

// isProtobuf reports whether all of p consists of fields.
func isProtobuf(p []byte) bool {
	if len(p) == 0 {
		return false
	}
	for len(p) > 0 {
		tag, n := binary.Uvarint(p)
		if n <= 0 || tag>>3 == 0 || tag>>3 >= 1<<29 {
			return false
		}
		p = p[n:]
		switch tag & 7 {
		case 0:
			_, n = binary.Uvarint(p)
		case 1:
			n = 8
		case 5:
			n = 4
		case 2:
			size, k := binary.Uvarint(p)
			if k <= 0 || size > uint64(len(p)-k) {
				return false
			}
			n = k + int(size)
		default:
			return false
		}
		if n <= 0 || n > len(p) {
			return false
		}
		p = p[n:]
	}
	return true
}
