package squid

import (
	"strings"
)

// An import never opens what was closed. Where something of a line cannot be carried over, a line
// that allows allows nothing, and a line that refuses refuses whatever the rest of it selects.

// namesACLs returns the index of the first word of an option that may be the name of an acl, 0 if
// none is.
func namesACLs(f []string) int {
	switch o := f[0]; {
	case o == "acl" && len(f) > 2 && (f[2] == "any-of" || f[2] == "all-of"):
		return 3
	case o == "deny_info", o == "cache_peer_access", strings.HasPrefix(o, "tcp_outgoing"), o == "adaptation_access", o == "icap_access":
		return 2
	case o == "request_header_add", o == "reply_header_add":
		return 3
	case strings.HasSuffix(o, "_access"), strings.HasSuffix(o, "_direct"), o == "ssl_bump", o == "sslproxy_cert_error", o == "cache", o == "no_cache", o == "store_miss", o == "send_hit":
		return 1
	}
	return 0
}

// spell replaces names of acls, which Squid compares without regard to case, by their first
// spelling.
func spell(c *config, f []string) {
	at := namesACLs(f)
	if f[0] == "acl" && len(f) > 1 {
		f[1] = spelled(c, f[1])
	}
	for i := at; at > 0 && i < len(f); i++ {
		name, not := strings.CutPrefix(f[i], "!")
		if f[i] = spelled(c, name); not {
			f[i] = "!" + f[i]
		}
	}
}

// spelled returns the first spelling of the name of an acl.
func spelled(c *config, name string) string {
	low := strings.ToLower(name)
	for _, own := range []string{"all", "manager", "localhost", "to_localhost", "to_linklocal", "CONNECT"} {
		if strings.EqualFold(own, name) {
			return own
		}
	}
	if c.spellings == nil {
		c.spellings = map[string]string{}
	}
	if first, known := c.spellings[low]; known {
		return first
	}
	for first := range c.acls {
		if strings.EqualFold(first, name) {
			c.spellings[low] = first
			return first
		}
	}
	return name
}
