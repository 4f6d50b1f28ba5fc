package list

import (
	"bytes"
	"net/netip"
	"strconv"
	"strings"

	"shuultuur/list/addresses"
	"shuultuur/list/files"
)

// unboundLine reads local-zone and local-data of unbound.conf(5). A zone that refuses,
// redirects or denies is an entry with its subdomains; data that points to a sink is one for
// the name alone.
func (p *parser) unboundLine(s []byte) {
	if s = files.CutComment(s); len(s) == 0 || string(s) == "server:" {
		return
	}
	key, value, ok := bytes.Cut(s, []byte(":"))
	value = bytes.TrimSpace(value)
	switch {
	case ok && string(key) == "local-zone":
		p.unboundZone(s, value)
	case ok && string(key) == "local-data":
		p.unboundData(s, value)
	case ok && (string(key) == "include" || string(key) == "include-toplevel"):
		p.refuse(s, notIncluded)
	default:
		p.src.Ignored++
	}
}

func (p *parser) unboundZone(s, value []byte) {
	name, rest := quoted(value)
	kind, _ := field(rest)
	switch string(kind) {
	case "":
		p.refuse(s, `has no type: write local-zone: "host" always_nxdomain`)
	case "transparent", "always_transparent", "typetransparent", "nodefault", "inform", "block_a":
		p.src.Ignored++ // the name is answered as if the zone did not exist
	default:
		p.name(name, 0)
	}
}

func (p *parser) unboundData(s, value []byte) {
	data, _ := quoted(value)
	name, rest := field(data)
	for word, rest := field(rest); len(word) > 0; word, rest = field(rest) {
		switch strings.ToUpper(string(word)) {
		case "A", "AAAA":
			to, _ := field(rest)
			if !isSink(to) {
				p.src.Ignored++ // a name that the administrator has defined
				return
			}
			p.name(name, flagExact)
			return
		}
	}
	p.src.Ignored++
}

// quoted cuts off a word, with or without quotes.
func quoted(s []byte) (word, rest []byte) {
	if len(s) > 0 && (s[0] == '"' || s[0] == '\'') {
		if i := bytes.IndexByte(s[1:], s[0]); i >= 0 {
			return s[1 : 1+i], s[2+i:]
		}
	}
	return field(s)
}

// isSink reports whether s is the address of a sink.
func isSink(s []byte) bool {
	a, err := netip.ParseAddr(string(s))
	return err == nil && (a.IsUnspecified() || a.IsLoopback())
}

// A zone is the state of the parser of a response policy zone.
type zone struct {
	origin string // with a leading dot and no final one
	last   []byte // owner of the previous line
	depth  int    // nesting of parentheses
}

// rpzLine reads a response policy zone (draft-vixie-dnsop-dns-rpz). "name CNAME ." is an entry
// for the name alone, "*.name" one for everything below it, rpz-passthru an exception, and a
// name below rpz-ip a network of addresses in answers.
func (p *parser) rpzLine(raw []byte) {
	s := raw
	if i := bytes.IndexByte(s, ';'); i >= 0 {
		s = bytes.TrimSpace(s[:i])
	}
	z := &p.zone
	if inside := z.depth > 0; inside || bytes.IndexByte(s, '(') >= 0 {
		z.depth = max(0, z.depth+bytes.Count(s, []byte("("))-bytes.Count(s, []byte(")")))
		if !inside {
			p.rpzRecord(s)
		}
		return
	}
	p.rpzRecord(s)
}

func (p *parser) rpzRecord(s []byte) {
	z := &p.zone
	owner, rest := field(s)
	if len(owner) == 0 {
		return
	}
	if owner[0] == '$' {
		switch name, _ := field(rest); strings.ToUpper(string(owner)) {
		case "$ORIGIN":
			z.setOrigin(name)
		case "$INCLUDE":
			p.refuse(s, notIncluded)
		}
		return
	}
	if isRecord(owner) { // no owner: that of the previous line
		owner, rest = z.last, s
	}
	z.last = append(z.last[:0], owner...)
	kind, rest := field(rest)
	for isTTL(kind) || strings.EqualFold(string(kind), "IN") {
		kind, rest = field(rest)
	}
	to, _ := field(rest)
	switch strings.ToUpper(string(kind)) {
	case "SOA":
		if string(owner) != "@" {
			z.setOrigin(owner)
		}
	case "CNAME", "A", "AAAA", "TXT":
		p.rpzTrigger(s, owner, strings.ToLower(string(to)))
	case "NS":
	case "":
		p.refuse(s, "is not a record: write host CNAME .")
	default:
		p.src.Ignored++
	}
}

func (z *zone) setOrigin(name []byte) {
	if rest, ok := bytes.CutSuffix(name, []byte(".")); ok && len(rest) > 0 {
		z.origin = "." + strings.ToLower(string(rest))
	}
}

// rpzTrigger handles the owner of a record, whose value is the action.
func (p *parser) rpzTrigger(s, owner []byte, to string) {
	name := strings.ToLower(string(owner))
	if rest, ok := strings.CutSuffix(name, "."); ok { // absolute
		if rest, ok = strings.CutSuffix(rest, p.zone.origin); !ok || p.zone.origin == "" {
			p.refuse(owner, "is not in the zone")
			return
		}
		name = rest
	}
	flags := uint8(flagExact)
	switch to {
	case "rpz-passthru.":
		flags |= flagException
	case "rpz-tcp-only.":
		p.src.Ignored++
		return
	}
	if rest, ok := strings.CutSuffix(name, ".rpz-ip"); ok && flags&flagException == 0 {
		if n, ok := rpzNetwork(rest); ok {
			p.addNetwork(n)
			return
		}
		p.refuse(owner, "is not a network: write 24.0.2.0.192.rpz-ip for 192.0.2.0/24")
		return
	}
	if i := strings.LastIndexByte(name, '.'); strings.HasPrefix(name[i+1:], "rpz-") {
		p.src.Ignored++ // by the address or name of the client or the name server
		return
	}
	if rest, ok := strings.CutPrefix(name, "*."); ok {
		name, flags = rest, flags&^flagExact|flagBelow
	}
	if name == "@" || name == "*" {
		p.refuse(owner, "is no host")
		return
	}
	p.name([]byte(name), flags)
}

// rpzNetwork reads 24.0.2.0.192 as 192.0.2.0/24, and 48.zz.1.db8.2001 as
// 2001:db8:1::/48.
func rpzNetwork(s string) (netip.Prefix, bool) {
	parts := strings.Split(s, ".")
	if len(parts) < 3 || len(parts) > 9 {
		return netip.Prefix{}, false
	}
	bits, err := strconv.Atoi(parts[0])
	if err != nil {
		return netip.Prefix{}, false
	}
	words := parts[1:]
	for i, j := 0, len(words)-1; i < j; i, j = i+1, j-1 {
		words[i], words[j] = words[j], words[i]
	}
	text := strings.Join(words, ".")
	if six := strings.Join(words, ":"); len(words) != 4 || strings.Contains(six, "zz") {
		text = strings.Replace(six, "zz", "", 1)
		if strings.HasPrefix(text, ":") {
			text = ":" + text
		}
		if strings.HasSuffix(text, ":") {
			text += ":"
		}
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, false
	}
	n, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}, false
	}
	return addresses.Unmap(n)
}

// isRecord reports whether a word begins a record without an owner.
func isRecord(s []byte) bool {
	switch strings.ToUpper(string(s)) {
	case "IN", "CNAME", "NS", "SOA", "A", "AAAA", "TXT":
		return true
	}
	return false
}

func isTTL(s []byte) bool {
	if len(s) == 0 || s[0] < '0' || s[0] > '9' {
		return false
	}
	for _, c := range s {
		if (c < '0' || c > '9') && !strings.ContainsRune("smhdwSMHDW", rune(c)) {
			return false
		}
	}
	return true
}

// isUnboundLine reports whether a line looks like one of Unbound's settings.
func isUnboundLine(s []byte) bool {
	return bytes.HasPrefix(s, []byte("local-zone:")) || bytes.HasPrefix(s, []byte("local-data:"))
}

// isRPZLine reports whether a line looks like one of a zone.
func isRPZLine(s []byte) bool {
	return bytes.HasPrefix(s, []byte("$TTL")) || bytes.HasPrefix(s, []byte("$ORIGIN")) ||
		bytes.Contains(s, []byte(" CNAME ")) || bytes.Contains(s, []byte("\tCNAME\t")) || bytes.Contains(s, []byte(" SOA "))
}
