package filter

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"

	"golang.org/x/net/publicsuffix"

	"shuultuur/lib/ascii"
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
	if !ascii.IsToken(major) || minor != "*" && !ascii.IsToken(minor) || strings.Contains(major, "*") || strings.Contains(minor, "*") && minor != "*" {
		return "", fmt.Errorf(`%.80q is not a media type; write it like "text/html" or "image/*"`, s)
	}
	return strings.ToLower(s), nil
}

// Site returns the domain that the owner of a host has registered, below which browsers count all
// hosts as one site. An address, and a host that is no part of such a domain, is a site of its own:
// then shared is false.
func Site(host string) (site string, shared bool) {
	if _, err := netip.ParseAddr(host); err == nil {
		return host, false
	}
	site, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil {
		return host, false
	}
	return site, true
}

func blank(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
