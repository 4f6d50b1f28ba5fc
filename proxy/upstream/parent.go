package upstream

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"shuultuur/lib/setting"
)

// A parent is a proxy between us and the origins.
type parent struct {
	addr string // host:port
	auth string // value of Proxy-Authorization, "" for none
}

func parseParent(s string) (*parent, error) {
	if s == "" {
		return nil, nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" || u.Path != "" && u.Path != "/" {
		return nil, errors.New("must look like http://user:password@host:port")
	}
	port := u.Port()
	if port == "" {
		port = "3128"
	}
	par := &parent{addr: net.JoinHostPort(u.Hostname(), port)}
	if u.User != nil {
		pass, _ := u.User.Password()
		par.auth = basic(u.User.Username(), pass)
	}
	return par, nil
}

// viaParent reports whether host is reached through the parent.
func (t *Transport) viaParent(host string) bool { return t.parent != nil && !hostIn(t.noParent, host) }

// hostList parses the hosts of a settings key for hostIn.
func hostList(key string, hosts []string) (list []string, err error) {
	for i, h := range hosts {
		name := strings.ToLower(strings.TrimPrefix(h, "."))
		if name == "" || strings.ContainsAny(name, " \t*@") || strings.Contains(name, "://") {
			return nil, setting.At(fmt.Sprintf("%s[%d]", key, i), fmt.Errorf("%.100q is not a domain, an address or a network; a domain covers the hosts below it", h))
		}
		list = append(list, name)
	}
	return list, nil
}

// hostIn reports whether a list contains host: itself, a domain above it, its address or its
// network.
func hostIn(list []string, host string) bool {
	if len(list) == 0 {
		return false
	}
	addr, addrErr := netip.ParseAddr(host)
	return slices.ContainsFunc(list, func(h string) bool {
		if addrErr == nil {
			if pre, err := netip.ParsePrefix(h); err == nil {
				return pre.Contains(addr.Unmap())
			}
			return h == host
		}
		return h == host || strings.HasSuffix(host, h) && host[len(host)-len(h)-1] == '.'
	})
}

// basic returns credentials as in RFC 7617.
func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// isLocalhost reports whether a host in normal form is a name of this machine.
func isLocalhost(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
