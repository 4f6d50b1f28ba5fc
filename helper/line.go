package helper

import (
	"bytes"
	"net/netip"
	"strings"
)

// channelOf splits the channel ID from a question. Squid sends one if the helper
// is configured with concurrency. Because names of users may consist of digits,
// the number of fields decides.
func channelOf(kind, line string) (channel, rest string) {
	channel, rest = number(line)
	if channel == "" {
		return "", line
	}
	switch all := strings.Split(strings.TrimRight(rest, " "), " "); kind {
	case "auth": // user, password, address
		if user, after, ok := strings.Cut(rest, " "); !ok || user != "" && isAddress(after) {
			return "", line
		}
	case "group": // user, address, groups
		if len(all) == 1 || isAddress(all[0]) {
			return "", line
		}
	}
	return channel, rest
}

// number splits a number off a line.
func number(line string) (number, rest string) {
	word, rest, _ := strings.Cut(line, " ")
	if word == "" || strings.Trim(word, "0123456789") != "" {
		return "", line
	}
	return word, rest
}

func isAddress(s string) bool {
	_, err := netip.ParseAddr(strings.Trim(unescape(s), `"`))
	return err == nil
}

// words returns the fields of a line, with Squid's escapes (RFC 1738) decoded.
// Invalid escapes stay unchanged.
func words(line string) []string {
	all := strings.Fields(line)
	for i, w := range all {
		all[i] = unescape(w)
	}
	return all
}

func unescape(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			high, low := digit(s[i+1]), digit(s[i+2])
			if high >= 0 && low >= 0 {
				b = append(b, byte(high<<4|low))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

// urlOfWord returns the URL in a word. Squid escapes it with %#URI and not with %URI. If it has
// an escape that Squid does not make, all escapes are the client's.
func urlOfWord(w string) string {
	for i := 0; i+2 < len(w) && strings.Contains(w, "://"); i++ {
		if w[i] != '%' {
			continue
		}
		high, low := digit(w[i+1]), digit(w[i+2])
		if high < 0 || low < 0 || strings.IndexByte("<>\"#%{}|\\^~[]`'", byte(high<<4|low)) < 0 {
			return w
		}
	}
	return unescape(w)
}

func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// fieldOrEmpty returns a field, or "" if it is "-" (unknown).
func fieldOrEmpty(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

const hexDigits = "0123456789ABCDEF"

// appendPair appends a named value in quotes. Quotation marks in it are
// percent-encoded in a URL, and get a backslash in other texts.
func appendPair(dst []byte, name, value string, url bool) []byte {
	dst = append(append(append(dst, ' '), name...), '=', '"')
	for i := range len(value) {
		c := value[i]
		switch {
		case url && (c <= ' ' || c >= 0x7f || c == '"' || c == '\\'):
			dst = append(dst, '%', hexDigits[c>>4], hexDigits[c&15])
		case c < ' ' || c == 0x7f:
			dst = append(dst, ' ')
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// answered returns the line of an answer.
func answered(channel string, answer []byte) []byte {
	if channel != "" {
		return bytes.Join([][]byte{[]byte(channel), []byte(" "), answer, []byte("\n")}, nil)
	}
	return append(answer, '\n')
}
