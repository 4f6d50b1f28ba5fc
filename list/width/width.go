// Package width says what is too wide for a list from outside: what covers any name, a public
// suffix, or a large part of the Internet. It judges by what an entry matches, not by its spelling.
package width

import (
	"bytes"
	_ "embed" // for the suffixes
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/publicsuffix"
)

// TooWide is the reason to refuse an entry of a list from outside, and Wide the remark on one of a list
// of our own.
const (
	TooWide = "is too wide for a list from outside: it covers nearly any name or address; write a rule of the policy if you mean that"
	Wide    = "covers nearly any name or address"
)

// Shared is the remark on an entry that covers a suffix such as github.io.
const Shared = "covers the names of many owners"

// widestNetwork is the shortest prefix of a network that is not too wide.
const widestNetwork = 8

// Network reports whether a network is too wide.
func Network(n netip.Prefix) bool { return n.Bits() < widestNetwork }

// suffixes are those of up to three labels, from the public suffix list: [Suffix] knows them by
// itself, and is too slow for each of millions of names.
//
//go:embed suffixes.txt
var suffixes string

// Suffixes finds suffixes among millions of names.
type Suffixes [1 << digestBits / 64]uint64 // bits, by the digest of each

// digestBits is so large that few other names have the digest of a suffix.
const digestBits = 20

// shortest is the length of the shortest name that has a digest.
const shortest = 4

// NewSuffixes returns what finds suffixes.
func NewSuffixes() *Suffixes {
	f := new(Suffixes)
	for name := range strings.Lines(suffixes) {
		d := digest([]byte(strings.TrimSuffix(name, "\n")))
		f[d>>6] |= 1 << (d & 63)
	}
	return f
}

// digest returns a digest of the ends and the length of a name.
func digest(name []byte) uint32 {
	n := len(name)
	return (binary.LittleEndian.Uint32(name)*0x9e3779b1 + binary.LittleEndian.Uint32(name[n-4:])*0x85ebca6b + uint32(n)*0xc2b2ae35) >> (32 - digestBits)
}

// Find is [Suffix] for one name of many.
func (f *Suffixes) Find(name []byte) (public, shared bool) {
	if len(name) >= shortest {
		d := digest(name)
		if f[d>>6]>>(d&63)&1 == 0 && !anyIsSuffix(name[len(name)-3:]) {
			return false, false
		}
	}
	return Suffix(name)
}

// anyIsSuffix reports whether all names of two labels are suffixes in a domain, given with its dot.
func anyIsSuffix(domain []byte) bool {
	switch string(domain) {
	case ".ck", ".er", ".fk", ".jm", ".kh", ".mm", ".np", ".pg":
		return true
	}
	return false
}

// Suffix reports whether a name is a suffix under which anybody can register names, such as com and
// co.uk, or one whose names have many owners: of a hoster, such as github.io, of offices and schools, or
// of a trade, such as bet.br. True lists name these.
func Suffix(name []byte) (public, shared bool) {
	if c := name[bytes.LastIndexByte(name, '.')+1:]; len(c) == 0 || '0' <= c[0] && c[0] <= '9' || bytes.IndexByte(c, ':') >= 0 {
		return false, false // an address
	}
	suffix, icann := publicsuffix.PublicSuffix(string(name))
	if len(suffix) != len(name) {
		return false, false
	}
	first, _, several := bytes.Cut(name, []byte("."))
	if !several {
		return icann, false
	}
	switch string(first) {
	case "com", "co", "org", "or", "ne", "info", "biz", "web", "nom", "me", "ltd", "in":
		return icann, !icann
	}
	return false, true
}

// samples are ordinary hosts with paths, which have little in common.
var samples = []string{
	"www.wikipedia.org/wiki/Main_Page", "duckduckgo.com/?q=weather", "bbc.co.uk/news", "kernel.org/pub/linux/", "www.mozilla.org/en-US/firefox/new/", "xyz.example.net/a",
	"museum-berlin.de/oeffnungszeiten", "lemonde.fr/une.html", "gov.pl/web", "a1.example.io/v2/items/17", "yandex.ru/", "mit.edu/about/index.php", "8kun.top/x", "q.uz/",
}

// owners are ordinary names below a suffix, with paths after it.
var owners = [][2]string{{"kernel", "/pub/linux/"}, {"duckduckgo", "/?q=weather"}, {"q", "/"}, {"museum-berlin", "/oeffnungszeiten"}, {"mit", "/about/index.php"}}

// common are the suffixes of most names, which an expression may match however it is written.
var common = strings.Fields("com net org de co.uk ru fr io info xyz")

// rows are hosts with paths that have one thing in common: that they begin with www, or a suffix.
var rows = sync.OnceValue(func() [][]string {
	www := make([]string, len(owners))
	for i, o := range owners {
		www[i] = "www." + o[0] + "." + common[i] + o[1]
	}
	all := [][]string{www}
	for _, suffix := range common {
		all = append(all, below(suffix))
	}
	return all
})

// below returns ordinary hosts with paths below a suffix.
func below(suffix string) []string {
	row := make([]string, len(owners))
	for i, o := range owners {
		row[i] = o[0] + "." + suffix + o[1]
	}
	return row
}

// elsewhere returns a host with a path that have a word, and not as a suffix.
func elsewhere(word string) string { return "my-" + word + "-1." + word + ".example/" + word }

// Matches reports whether an expression for hosts and paths, or for hosts alone, matches nearly all
// ordinary ones, nearly all of a public suffix, or nearly all that begin with www. The suffixes are the
// common ones and those in its text, unless it means the word, such as casino, wherever that is. An
// expression that requires one of some texts is not tried where none of them is.
func Matches(text []byte, required []string, match func(string) bool) bool {
	if mayMatch(samples, required) && most(samples, match) {
		return true
	}
	for _, row := range rows() {
		if mayMatch(row, required) && likeRow(row, match) {
			return true
		}
	}
	for word := range bytes.FieldsFuncSeq(bytes.ToLower(text), func(c rune) bool { return c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') }) {
		if public, _ := Suffix(word); public && likeRow(below(string(word)), match) && !match(elsewhere(string(word))) {
			return true
		}
	}
	return false
}

// mayMatch reports whether a text that an expression requires occurs in a host or path, or before them.
func mayMatch(row, required []string) bool {
	return len(required) == 0 || slices.ContainsFunc(required, func(text string) bool {
		return slices.ContainsFunc(row, func(s string) bool { return strings.Contains("https://"+strings.ToLower(s), text) })
	})
}

// likeRow is most for an expression that probably matches none.
func likeRow(row []string, match func(string) bool) bool {
	first := row[0]
	return (match(first) || match(first[:strings.IndexByte(first, '/')])) && most(row, match)
}

// most reports whether an expression matches nearly all hosts of a row, or nearly all with their paths.
func most(row []string, match func(string) bool) bool {
	hosts, urls := 0, 0
	for i, s := range row {
		if (i-max(hosts, urls))*5 > len(row) {
			return false
		}
		if match(s[:strings.IndexByte(s, '/')]) {
			hosts++
		}
		if match(s) {
			urls++
		}
	}
	return max(hosts, urls)*5 >= len(row)*4
}

// shortestPattern is the length of a pattern that says something: shorter ones occur in ordinary
// addresses by chance.
const shortestPattern = 3

// Pattern reports whether a pattern of an ad blocker, without its anchors, is shorter than three
// characters, or matches as [Matches] says. A pattern with stars is judged by its longest part.
func Pattern(pattern []byte, match func(string) bool) bool {
	longest := 0
	for part := range bytes.SplitSeq(pattern, []byte("*")) {
		longest = max(longest, len(bytes.Trim(part, "^|")))
	}
	switch {
	case longest > len("https://www."):
		return false
	case longest < shortestPattern:
		return true
	}
	return Matches(pattern, nil, match)
}
