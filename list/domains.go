package list

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"

	"shuultuur/lib/dns"
	"shuultuur/list/addresses"
	"shuultuur/list/files"
)

// domainLine reads a host or URL. "*.host" and ".host" equal "host".
func (p *parser) domainLine(s []byte) {
	if s = files.CutComment(s); len(s) > 0 {
		p.item(s)
	}
}

// item adds a host or URL as people write them.
func (p *parser) item(s []byte) {
	if dns.IsHost(s) {
		p.add(s, nil, 0)
		return
	}
	raw := s
	if isNetwork(s) {
		p.refuse(raw, "is a network: lists contain hosts and URLs")
		return
	}
	if rest, ok := cutScheme(s); ok {
		p.remark(raw, "has a scheme, which is ignored")
		s = rest
	}
	host, path := s, []byte(nil)
	if i := bytes.IndexAny(s, "/?"); i >= 0 {
		host, path = s[:i], s[i:]
	}
	if rest, ok := cutPort(host); ok {
		p.remark(raw, "has a port, which is ignored: entries cover all ports")
		host = rest
	}
	tree := false // explicit: a whole top-level domain is meant
	if rest, ok := bytes.CutPrefix(host, []byte("*.")); ok {
		host, tree = rest, true
	} else if rest, ok := bytes.CutPrefix(host, []byte(".")); ok {
		host, tree = rest, true
	}
	name, reason := files.Host(p.host[:0], host)
	p.host = name
	switch {
	case reason != "":
		p.refuse(raw, reason)
		return
	case !tree && !p.exact && bytes.IndexByte(name, '.') < 0 && bytes.IndexByte(name, ':') < 0 && len(path) <= 1:
		p.refuse(raw, fmt.Sprintf("is a top-level domain; write %q if you mean all of it", "."+string(name)))
		return
	}
	clean, ok := p.cleanEntry(path)
	if !ok || len(name)+len(clean) > maxKey {
		p.refuse(raw, fmt.Sprintf("is longer than %d bytes", maxKey))
		return
	}
	p.add(name, clean, 0)
}

// cleanEntry brings the path of an entry into the form for comparison. "" means no path.
func (p *parser) cleanEntry(path []byte) (clean []byte, ok bool) {
	if len(path) == 0 {
		return nil, true
	}
	if path[0] == '?' {
		path = append([]byte("/"), path...)
	}
	clean = cleanPath(p.path[:0], path)
	if len(clean) > maxKey {
		return nil, false
	}
	if p.b.cfg.Match == Boundary {
		clean = bytes.TrimSuffix(clean, []byte("/"))
	}
	return clean, true
}

// isNetwork distinguishes 10.0.0.0/8 from 10.1.2.3/8, which may be a URL.
func isNetwork(s []byte) bool {
	i := bytes.IndexByte(s, '/')
	if i < 0 || len(s) > 50 || len(s)-i > 4 || len(s)-i < 2 || s[len(s)-1] < '0' || s[len(s)-1] > '9' {
		return false
	}
	n, err := netip.ParsePrefix(string(s))
	return err == nil && n == n.Masked()
}

func cutScheme(s []byte) ([]byte, bool) {
	i := bytes.Index(s, []byte("://"))
	if i < 0 {
		return s, false
	}
	switch strings.ToLower(string(s[:i])) {
	case "http", "https", "ftp":
		return s[i+3:], true
	}
	return s, false
}

// cutPort cuts ":80" from a host that is not a bare IPv6 address.
func cutPort(host []byte) ([]byte, bool) {
	i := bytes.LastIndexByte(host, ':')
	if i < 0 || bytes.IndexByte(host[:i], ':') >= 0 && host[i-1] != ']' {
		return host, false
	}
	if i+1 == len(host) || len(host)-i > 6 {
		return host, false
	}
	for _, c := range host[i+1:] {
		if c < '0' || c > '9' {
			return host, false
		}
	}
	return host[:i], true
}

// isDomainLine reports whether a line looks like one of this format.
func isDomainLine(s []byte) bool {
	word, _ := field(s)
	_, network := addresses.Parse(string(word[:min(len(word), 100)]))
	return s[0] != '#' && bytes.IndexByte(word, '.') > 0 && !network && !isAddr(word)
}

// isWildcardLine does so for names that begin with "*.".
func isWildcardLine(s []byte) bool { return bytes.HasPrefix(s, []byte("*.")) && !isRule(s) }
