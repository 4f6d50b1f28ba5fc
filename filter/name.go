package filter

import (
	"fmt"
	"strings"
	"unicode"
)

// Extension parses a file extension of a list or rule, ".EXE" or "tar.gz", and returns it in
// lower case without the leading dot.
func Extension(s string) (string, error) {
	x := strings.ToLower(strings.TrimPrefix(s, "."))
	if strings.Trim(x, ".") == "" || strings.ContainsAny(x, "/*?") || strings.ContainsFunc(x, blank) {
		return "", fmt.Errorf(`%.80q is not an extension; write it like "exe" or "tar.gz"`, s)
	}
	return x, nil
}

// MediaType parses a media type without parameters (RFC 9110 section 8.3.1), or all subtypes
// of a type, "image/*", and returns it in lower case.
func MediaType(s string) (string, error) {
	major, minor, _ := strings.Cut(s, "/")
	if !isToken(major) || minor != "*" && !isToken(minor) {
		return "", fmt.Errorf(`%.80q is not a media type; write it like "text/html" or "image/*"`, s)
	}
	return strings.ToLower(s), nil
}

func blank(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

// isToken reports whether s is a token (RFC 9110 section 5.6.2) without an asterisk, which would
// look like a pattern.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'+-.^_`|~", r)
	})
}
