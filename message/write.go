package message

import (
	"strconv"
)

// AppendHead appends the head as it goes on the wire: request line from
// Method, Target and HTTP/1.1, then Fields in order, then the empty line.
//
// Whatever a message made by hand holds, one head comes out: bytes that would
// end a line or a word are replaced (in the method and in names by "-", in
// values by a space) or percent-encoded (in the target), and a field without
// name is left out.
func (q *Request) AppendHead(dst []byte) []byte {
	dst = appendToken(dst, q.Method)
	dst = append(dst, ' ')
	dst = appendTarget(dst, q.Target)
	dst = append(dst, " HTTP/1.1\r\n"...)
	dst = appendFields(dst, q.Fields)
	return append(dst, "\r\n"...)
}

// AppendHead appends status line, fields and the empty line. What is invalid
// in a response made by hand is replaced as in a request; a status that has
// not three digits becomes 500.
func (s *Response) AppendHead(dst []byte) []byte {
	status := s.Status
	if status < 100 || status > 999 {
		status = 500
	}
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, ' ')
	dst = appendValue(dst, s.Reason)
	dst = append(dst, "\r\n"...)
	dst = appendFields(dst, s.Fields)
	return append(dst, "\r\n"...)
}

func appendFields(dst []byte, fs Fields) []byte {
	for i := range fs {
		if len(fs[i].Name) == 0 {
			continue
		}
		dst = appendToken(dst, fs[i].Name)
		dst = append(dst, ": "...)
		dst = appendValue(dst, fs[i].Value)
		dst = append(dst, "\r\n"...)
	}
	return dst
}

func appendToken[T string | []byte](dst []byte, s T) []byte {
	if len(s) == 0 {
		return append(dst, '-')
	}
	n := len(dst)
	dst = append(dst, s...)
	for i := n; i < len(dst); i++ {
		if class[dst[i]]&tokenByte == 0 {
			dst[i] = '-'
		}
	}
	return dst
}

func appendValue(dst, v []byte) []byte {
	n := len(dst)
	dst = append(dst, v...)
	for n += control(dst[n:]); n < len(dst); n += control(dst[n:]) {
		if dst[n] != '\t' {
			dst[n] = ' '
		}
		n++
	}
	return dst
}

func appendTarget(dst, t []byte) []byte {
	if len(t) == 0 {
		return append(dst, '/')
	}
	if all(t, targetByte) {
		return append(dst, t...)
	}
	for _, c := range t {
		if class[c]&targetByte == 0 {
			dst = append(dst, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
			continue
		}
		dst = append(dst, c)
	}
	return dst
}
