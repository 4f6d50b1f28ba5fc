// Package ascii reads and folds the characters of ASCII, which protocols and formats are made
// of. Bytes of other characters pass unchanged.
package ascii

import "strings"

// Lower returns a letter in lower case, and any other byte as it is.
func Lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// AppendLower appends b in lower case to dst.
func AppendLower(dst, b []byte) []byte {
	for _, c := range b {
		dst = append(dst, Lower(c))
	}
	return dst
}

// ToLower returns s in lower case.
func ToLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		b[i] = Lower(c)
	}
	return string(b)
}

// Unhex returns the value of a hexadecimal digit, or -1 if c is none.
func Unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// IsToken reports whether s is a token of HTTP (RFC 9110 section 5.6.2), such as the name of a
// field.
func IsToken[T string | []byte](s T) bool {
	for i := range len(s) {
		if !token[s[i]] {
			return false
		}
	}
	return len(s) > 0
}

// token has the characters of tokens.
var token = func() (t [256]bool) {
	for c := '!'; c < 0x7f; c++ {
		t[c] = !strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	}
	return t
}()

// OneLine returns s with a single blank in place of all white space between words.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// IsLetter reports whether c is a letter.
func IsLetter(c byte) bool { c |= 0x20; return c >= 'a' && c <= 'z' }

// IsAlnum reports whether c is a letter or digit.
func IsAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// IsSpace reports whether c is white space in HTML.
func IsSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f'
}

// EqualLower reports whether b equals the lower case s, ignoring the case of b.
func EqualLower(b []byte, s string) bool {
	if len(b) != len(s) {
		return false
	}
	for i, c := range b {
		if Lower(c) != s[i] {
			return false
		}
	}
	return true
}

// HasPrefixLower reports whether b begins with the lower case s, ignoring the case of b.
func HasPrefixLower(b []byte, s string) bool { return len(b) >= len(s) && EqualLower(b[:len(s)], s) }
