package pattern

import (
	"bytes"
	"fmt"

	"shuultuur/lib/ascii"
	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
)

// Hosts holds hosts, each including its subdomains; "*" is any host.
type Hosts map[string]struct{}

// HasURL reports whether the set has the host of a URL in the form of Referer.
func (s Hosts) HasURL(u []byte) bool {
	_, u, ok := bytes.Cut(u, []byte("://"))
	if !ok {
		return false
	}
	if i := bytes.IndexAny(u, "/?#"); i >= 0 {
		u = u[:i]
	}
	u = u[bytes.LastIndexByte(u, '@')+1:]
	if len(u) > 0 && u[0] == '[' {
		u, _, _ = bytes.Cut(u[1:], []byte("]"))
	} else if i := bytes.IndexByte(u, ':'); i >= 0 {
		u = u[:i]
	}
	var buf [255]byte
	if len(u) > len(buf) {
		return false
	}
	host := ascii.AppendLower(buf[:0], bytes.TrimSuffix(u, []byte(".")))
	return s.Has(host)
}

func (s Hosts) Has(host []byte) bool {
	if _, any := s["*"]; any && len(host) > 0 {
		return true
	}
	for {
		if _, ok := s[string(host)]; ok {
			return true
		}
		i := bytes.IndexByte(host, '.')
		if i < 0 {
			return false
		}
		host = host[i+1:]
	}
}

func CompileHosts(list []string, key string) (Hosts, error) {
	if len(list) == 0 {
		return nil, nil
	}
	set := Hosts{}
	for i, s := range list {
		if s == "*" {
			set[s] = struct{}{}
			continue
		}
		host, reason := dns.Host(nil, []byte(s))
		if reason != "" {
			return nil, setting.At(fmt.Sprintf("%s[%d]", key, i),
				fmt.Errorf(`%q is not a host; write "example.com", which covers subdomains too, or "*"`, s))
		}
		set[string(host)] = struct{}{}
	}
	return set, nil
}
