// Package width says what is too wide for a list from outside: what covers any name, a public
// suffix, or a large part of the Internet. It judges by what an entry matches, not by its spelling.
package width

import (
	"bytes"
	"net/netip"

	"golang.org/x/net/publicsuffix"
)

// TooWide is the reason to refuse an entry.
const TooWide = "is too wide for a list from outside: it covers nearly any name or address; write a rule of the policy if you mean that"

// widestNetwork is the shortest prefix of a network that is not too wide.
const widestNetwork = 8

// Network reports whether a network is too wide.
func Network(n netip.Prefix) bool { return n.Bits() < widestNetwork }

// Suffix reports whether a name is a suffix under which anybody can register names, and whether it
// is one of a single owner, such as github.io, whose names have many. Suffixes of offices and schools
// are neither: true lists name them.
func Suffix(name []byte) (public, shared bool) {
	if !maySuffix(name) {
		return false, false
	}
	suffix, icann := publicsuffix.PublicSuffix(string(name))
	if len(suffix) != len(name) {
		return false, false
	}
	first, _, several := bytes.Cut(name, []byte("."))
	if !icann || !several {
		return icann, several
	}
	switch string(first) {
	case "gov", "gouv", "gob", "govt", "gc", "mil", "ac", "edu":
		return false, true
	}
	return true, false
}

// maySuffix is cheap, since it is asked of each of millions of names: suffixes with several labels
// are those of countries.
func maySuffix(name []byte) bool {
	if bytes.IndexByte(name, ':') >= 0 {
		return false
	}
	i := bytes.LastIndexByte(name, '.')
	return i < 0 || (len(name)-i == 3 || bytes.HasPrefix(name[i+1:], []byte("xn--"))) && bytes.Count(name, []byte(".")) < 4
}

// samples are ordinary hosts with paths, which have little in common.
var samples = []string{
	"www.wikipedia.org/wiki/Main_Page", "duckduckgo.com/?q=weather", "bbc.co.uk/news", "kernel.org/pub/linux/", "www.mozilla.org/en-US/firefox/new/", "xyz.example.net/a",
	"museum-berlin.de/oeffnungszeiten", "lemonde.fr/une.html", "gov.pl/web", "a1.example.io/v2/items/17", "yandex.ru/", "mit.edu/about/index.php", "8kun.top/x", "q.uz/",
}

// Matches reports whether an expression for hosts and paths, or for hosts alone, matches nearly all
// ordinary ones.
func Matches(match func(string) bool) bool {
	hosts, urls := 0, 0
	for _, s := range samples {
		host := s[:bytes.IndexByte([]byte(s), '/')]
		if match(host) {
			hosts++
		}
		if match(s) {
			urls++
		}
	}
	return max(hosts, urls)*10 >= len(samples)*8
}

// shortestPattern is the length of a pattern that says something: shorter ones occur in ordinary
// addresses by chance.
const shortestPattern = 3

// Pattern reports whether a pattern of an ad blocker, without its anchors, is shorter than three
// characters, or occurs in nearly all addresses. A pattern with stars is judged by its longest part.
func Pattern(pattern []byte) bool {
	longest := []byte(nil)
	for part := range bytes.SplitSeq(bytes.ToLower(pattern), []byte("*")) {
		part = bytes.Trim(part, "^|")
		if len(part) > len(longest) {
			longest = part
		}
	}
	switch {
	case len(longest) > len("https://www."):
		return false
	case len(longest) < shortestPattern:
		return true
	}
	n := 0
	for _, s := range samples {
		if bytes.Contains([]byte("https://"+s), longest) || bytes.Contains([]byte("http://"+s), longest) {
			n++
		}
	}
	return n*10 >= len(samples)*8
}
