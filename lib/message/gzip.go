package message

import "bytes"

// AcceptsGzip reports whether a value of Accept-Encoding names gzip with a weight above zero
// (RFC 9110 section 12.5.3).
func AcceptsGzip(value []byte) bool {
	for part := range bytes.SplitSeq(value, []byte(",")) {
		name, weight, _ := bytes.Cut(part, []byte(";"))
		if name = bytes.TrimSpace(name); EqualName(name, "gzip") || EqualName(name, "x-gzip") {
			q, ok := bytes.CutPrefix(bytes.TrimSpace(weight), []byte("q="))
			return !ok || len(bytes.Trim(q, "0.")) > 0
		}
	}
	return false
}
