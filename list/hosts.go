package list

import (
	"bytes"
	"net/netip"
)

// hostsLine reads an address and names, as in hosts(5).
func (p *parser) hostsLine(s []byte) {
	if i := bytes.IndexByte(s, '#'); i >= 0 {
		s = s[:i]
	}
	addr, rest := field(s)
	if len(addr) == 0 {
		return
	}
	if !isAddr(addr) {
		p.refuse(addr, "is not an address: a line of a hosts file is an address and names")
		return
	}
	name, rest := field(rest)
	if len(name) == 0 {
		p.refuse(addr, "has no name")
		return
	}
	for ; len(name) > 0; name, rest = field(rest) {
		if isLocal(name) {
			p.src.Ignored++
			continue
		}
		p.name(name, 0)
	}
}

// isAddr reports whether s is an IP address. The two addresses of nearly all lines need no
// parsing.
func isAddr(s []byte) bool {
	if string(s) == "0.0.0.0" || string(s) == "127.0.0.1" {
		return true
	}
	if len(s) > 64 {
		return false
	}
	_, err := netip.ParseAddr(string(s))
	return err == nil
}

// isLocal reports whether a name is one of those every hosts file has for the
// machine itself, which are not part of the list.
func isLocal(name []byte) bool {
	switch string(name) {
	case "localhost", "localhost.localdomain", "local", "broadcasthost", "0.0.0.0",
		"ip6-localhost", "ip6-loopback", "ip6-localnet", "ip6-mcastprefix",
		"ip6-allnodes", "ip6-allrouters", "ip6-allhosts":
		return true
	}
	return false
}

// field cuts off the first word of s.
func field(s []byte) (word, rest []byte) {
	i := 0
	for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
		i++
	}
	j := i
	for j < len(s) && s[j] != ' ' && s[j] != '\t' {
		j++
	}
	return s[i:j], s[j:]
}

// isHostsLine reports whether a line looks like one of this format.
func isHostsLine(s []byte) bool {
	word, rest := field(s)
	name, _ := field(rest)
	return isAddr(word) && len(name) > 0 && name[0] != '#' && name[0] != ';'
}
