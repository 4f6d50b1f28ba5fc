package pattern

import (
	"bytes"

	"shuultuur/lib/ascii"
)

// AppendURL appends host, path and query in a canonical form: percent-decoded once, in lower
// case, with slashes and dot segments of the path resolved, without the port. It returns where
// the query begins.
func AppendURL(dst []byte, host string, path []byte) ([]byte, int) {
	dst = append(dst, host...)
	start := len(dst)
	path, query, asked := bytes.Cut(path, []byte("?"))
	dst = AppendDecoded(dst, path, false)
	dst = cleanPath(dst, start)
	q := len(dst)
	if asked {
		dst = append(dst, '?')
		dst = AppendDecoded(dst, query, false)
	}
	for i := start; i < len(dst); i++ {
		dst[i] = ascii.Lower(dst[i])
	}
	return dst, q
}

// cleanPath resolves "//", "/./" and "/../" in b[start:].
func cleanPath(b []byte, start int) []byte {
	if len(b) == start || b[start] != '/' {
		return b
	}
	out := start
	for i := start; i < len(b); {
		// b[i] is a slash; the segment ends before the next one.
		end := i + 1
		for end < len(b) && b[end] != '/' {
			end++
		}
		switch seg, last := b[i+1:end], end == len(b); {
		case !last && (len(seg) == 0 || len(seg) == 1 && seg[0] == '.'):
		case len(seg) == 1 && seg[0] == '.':
			b[out] = '/'
			out++
		case len(seg) == 2 && seg[0] == '.' && seg[1] == '.':
			for out > start {
				out--
				if b[out] == '/' {
					break
				}
			}
			if last {
				b[out] = '/'
				out++
			}
		default:
			out += copy(b[out:], b[i:end])
		}
		i = end
	}
	return b[:out]
}

// AppendDecoded decodes percent encoding, and in a query "+" as a blank.
func AppendDecoded(dst, b []byte, plus bool) []byte {
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch {
		case c == '%' && i+2 < len(b):
			if hi, lo := ascii.Unhex(b[i+1]), ascii.Unhex(b[i+2]); hi >= 0 && lo >= 0 {
				c = byte(hi<<4 | lo)
				i += 2
			}
		case c == '+' && plus:
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst
}
