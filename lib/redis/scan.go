package redis

import (
	"bytes"
	"fmt"
	"math"
)

// A scanner finds the end of a reply (RESP3, the Redis serialization protocol version 3) and
// verifies its form. It processes bytes as they arrive, and keeps none.
type scanner struct {
	depth int
	left  [maxDepth]int // values still expected, by level
	body  int           // bytes of a string still expected, including the line end
	size  int           // bytes of this reply so far
	kind  byte          // type of this reply; 0 before its first byte
}

// malformed makes a ProtocolError.
func malformed(format string, args ...any) error {
	return &ProtocolError{fmt.Sprintf(format, args...)}
}

// scan processes the bytes that follow those used before. It returns how many it has used and
// whether they complete a reply. If they do not and some are left, these are part of a line:
// pass them again, with more.
func (s *scanner) scan(b []byte) (used int, whole bool, err error) {
	for {
		if s.body > 0 {
			n := min(s.body, len(b)-used)
			if err := s.ends(b[used : used+n]); err != nil {
				return used, false, err
			}
			s.body, used, s.size = s.body-n, used+n, s.size+n
			if s.body > 0 {
				return used, false, nil
			}
			if s.closes() {
				return used, true, nil
			}
		}
		if used == len(b) {
			return used, false, nil
		}
		end := bytes.IndexByte(b[used:], '\n')
		if end < 0 {
			if len(b)-used > maxLine {
				return used, false, malformed("a line of more than %d bytes", maxLine)
			}
			return used, false, nil
		}
		line := b[used : used+end+1]
		if err := s.line(line); err != nil {
			return used, false, err
		}
		used += len(line)
		if s.size += len(line); s.size+s.body > maxReply {
			return used, false, malformed("more than %d bytes", maxReply)
		}
		if s.body == 0 && s.closes() {
			return used, true, nil
		}
	}
}

// ends verifies the line end after a string, as far as it is in the next piece.
func (s *scanner) ends(piece []byte) error {
	r, n := s.body-2, s.body-1
	if r >= 0 && r < len(piece) && piece[r] != '\r' || n < len(piece) && piece[n] != '\n' {
		return malformed("a string without its end")
	}
	return nil
}

// line handles the line that begins a value. The elements that follow are in s.body
// or on a new level.
func (s *scanner) line(line []byte) error {
	n := len(line)
	if n < 3 || line[n-2] != '\r' || n > maxLine || bytes.IndexByte(line[:n-2], '\r') >= 0 {
		return malformed("the line %.40q", line)
	}
	kind, text := line[0], line[1:n-2]
	if s.kind == 0 {
		s.kind = kind
	} else if kind == '>' {
		return malformed("a push inside another reply")
	}
	switch kind {
	case '+', '-', ',', '(':
		return nil
	case ':':
		if _, ok := number(text); !ok {
			return malformed("the number %.40q", text)
		}
		return nil
	case '_':
		if len(text) > 0 {
			return malformed("the null %.40q", text)
		}
		return nil
	case '#':
		if len(text) != 1 || text[0] != 't' && text[0] != 'f' {
			return malformed("the boolean %.40q", text)
		}
		return nil
	}
	length, ok := number(text)
	null := length == -1 && (kind == '$' || kind == '*')
	if !ok || length < 0 && !null || length > maxReply {
		return malformed("the length %.40q", line[:n-2])
	}
	switch kind {
	case '$', '!', '=':
		if !null {
			s.body = int(length) + 2
		}
		return nil
	case '*', '~', '>', '%':
		if kind == '%' {
			length *= 2
		}
		if length*3 > maxReply { // a value has at least three bytes
			return malformed("%d values", length)
		}
		if length <= 0 {
			return nil
		}
		if s.depth == maxDepth {
			return malformed("nesting of more than %d levels", maxDepth)
		}
		s.left[s.depth] = int(length) + 1 // including this value, which closes subtracts
		s.depth++
		return nil
	}
	return malformed("a value of type %q", kind)
}

// closes subtracts a value that has ended, or begun a level, and reports whether the reply has
// ended with it.
func (s *scanner) closes() bool {
	for s.depth > 0 {
		if s.left[s.depth-1]--; s.left[s.depth-1] > 0 {
			return false
		}
		s.depth--
	}
	return true
}

// number reads a decimal number, without allocating.
func number(b []byte) (n int64, ok bool) {
	digits := b
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		digits = b[1:]
	}
	if len(digits) == 0 || len(digits) > 19 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' || n > (math.MaxInt64-int64(c-'0'))/10 {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if b[0] == '-' {
		n = -n
	}
	return n, true
}
