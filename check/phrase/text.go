package phrase

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// normalise appends src to dst as content normalises visible text: letters and
// digits in lower case, everything else a single blank, one at either end.
func normalise(dst, src []byte) []byte {
	dst = append(dst, ' ')
	for len(src) > 0 {
		r, n := utf8.DecodeRune(src)
		src = src[n:]
		if r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			dst = utf8.AppendRune(dst, unicode.ToLower(r))
		} else if dst[len(dst)-1] != ' ' {
			dst = append(dst, ' ')
		}
	}
	if dst[len(dst)-1] != ' ' {
		dst = append(dst, ' ')
	}
	return dst
}

// modernPhrase returns p in the form visible text is in. A blank at its begin
// or end, or a character that becomes one, stays: "< sex >" is a word.
func modernPhrase(p []byte) []byte {
	// Between two letters the blanks at its ends are not those that
	// normalise puts there itself.
	q := append(append([]byte{'x'}, p...), 'x')
	q = bytes.TrimSpace(normalise(nil, q))
	q = bytes.TrimPrefix(q, []byte{'x'})
	return bytes.TrimSuffix(q, []byte{'x'})
}
