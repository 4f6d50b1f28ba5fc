package adblock

import (
	"bytes"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"shuultuur/dns"
)

// Rules of name servers, as AdGuard's users write them: dnstype, client, ctag
// and dnsrewrite stand in rules that mean nothing to a request for a page, and of
// the other rules those count that say nothing about pages and types.

// A Client is who asks for a name, for rules with client= and ctag=.
type Client struct {
	Addr   netip.Addr
	Name   string
	Groups []string
}

// SetName makes r a question for the records of a type that a host has.
func (r *Request) SetName(host string, qtype uint16, c Client) {
	r.Set("", Document, "")
	host = dns.Canonical(host)
	name := r.buf[:0]
	for i := range min(len(host), 255) {
		name = append(name, lower(host[i]))
	}
	r.url, r.original, r.host, r.hostAt = name, name, asString(name), 0
	r.tokens = urlTokens(r.tokenBuf[:0], r.url)
	r.hosts = suffixes(r.hostBuf[:0], r.host)
	r.name, r.tunnel, r.qtype, r.client = true, false, qtype, c
}

// coversName says whether a rule is one for name servers that matches r.
func (e *Engine) coversName(at uint32, x rule, r *Request) bool {
	flags := x.flags()
	if r.tunnel && (flags&flagNames != 0 || x.types()&hostOnly == 0) {
		return false
	}
	if flags&(flagThird|flagFirst|flagParams|flagMatchCase|flagStandIn) != 0 || x.domains() > 0 || !forNames(x.types()) || !e.matches(at, x, r) {
		return false
	}
	if n := x.denied(); n > 0 {
		if in, _ := e.among(x, 0, n, r.hosts); in {
			return false
		}
	}
	return flags&flagNames == 0 || r.fits(x.text())
}

// HasHosts says whether any rule is one for tunnels too, of which only the host
// is known.
func (e *Engine) HasHosts() bool { return e.hosts }

// forNames says whether a rule for requests of these types is one for names: a
// name is asked for as a document is, and of a rule that names no type, or
// types it is not for, many are left.
func forNames(t Type) bool { return t&Document != 0 || bits.OnesCount16(uint16(t)) >= 8 }

// fits says whether the options dnstype, client and ctag of a rule hold.
func (r *Request) fits(text []byte) bool {
	_, options := cutOptions(text)
	for len(options) > 0 {
		var opt []byte
		opt, options = cutOption(options)
		name, value, _ := bytes.Cut(opt, []byte("="))
		switch string(name) {
		case "dnstype":
			if !r.ofType(value) {
				return false
			}
		case "client":
			if !r.fromClient(value, r.client.is) {
				return false
			}
		case "ctag":
			if !r.fromClient(value, r.client.in) {
				return false
			}
		}
	}
	return true
}

// cutOption cuts the first option off. A comma after a backslash belongs to
// the option.
func cutOption(s []byte) (opt, rest []byte) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case ',':
			return bytes.TrimSpace(s[:i]), s[i+1:]
		}
	}
	return bytes.TrimSpace(s), nil
}

// cutItem cuts the first of "a|~b|c" off: not says that it is excluded.
func cutItem(s []byte) (item, rest []byte, not bool) {
	item, rest, _ = bytes.Cut(s, []byte("|"))
	item, not = bytes.CutPrefix(bytes.TrimSpace(item), []byte("~"))
	return item, rest, not
}

// ofType: one of the types named, or none of those excluded.
func (r *Request) ofType(value []byte) bool {
	named, in := false, false
	for len(value) > 0 {
		item, rest, not := cutItem(value)
		value = rest
		t, err := dns.Type(asString(item))
		is := err == nil && t == r.qtype
		if not && is {
			return false
		}
		named, in = named || !not, in || is && !not
	}
	return in || !named
}

// fromClient: one of the clients or groups named, or none of those excluded.
func (r *Request) fromClient(value []byte, is func(string) bool) bool {
	named, in := false, false
	for len(value) > 0 {
		item, rest, not := cutItem(value)
		value = rest
		it := is(asString(unquote(item)))
		if not && it {
			return false
		}
		named, in = named || !not, in || it && !not
	}
	return in || !named
}

func unquote(s []byte) []byte {
	if n := len(s); n >= 2 && (s[0] == '\'' || s[0] == '"') && s[n-1] == s[0] {
		s = s[1 : n-1]
	}
	if bytes.IndexByte(s, '\\') < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		out = append(out, s[i])
	}
	return out
}

// is says whether s is the client's name, address, network or group.
func (c *Client) is(s string) bool {
	if s == "" {
		return false
	}
	if s == c.Name {
		return true
	}
	if c.in(s) {
		return true
	}
	if strings.IndexByte(s, '/') >= 0 {
		p, err := netip.ParsePrefix(s)
		return err == nil && p.Contains(c.Addr)
	}
	a, err := netip.ParseAddr(s)
	return err == nil && a.Unmap() == c.Addr
}

// in says whether the client is of the group s, as AdGuard's clients have tags.
func (c *Client) in(s string) bool { return slices.Contains(c.Groups, s) }

// nameOption reads one of the options that are for name servers only.
func (r *Rule) nameOption(name, value []byte) error {
	r.flags |= flagNames
	switch string(name) {
	case "client", "ctag":
		if len(value) == 0 {
			return fmt.Errorf("names no client")
		}
	case "dnstype":
		for rest := value; ; {
			item, more, _ := cutItem(rest)
			if _, err := dns.Type(string(item)); err != nil {
				return fmt.Errorf("names a type of record there is not: %.30q", item)
			}
			if rest = more; len(rest) == 0 {
				return nil
			}
		}
	case "dnsrewrite":
		r.flags |= flagRewrite
		if len(value) == 0 && r.Exception {
			return nil
		}
		var err error
		r.Rewrite, err = rewrite(string(unquote(value)))
		return err
	}
	return nil
}

// rewrite reads the value of dnsrewrite, and returns it in full:
// "NOERROR;A;192.0.2.1".
func rewrite(value string) (string, error) {
	bad := fmt.Errorf("rewrites to %.60q, which is neither an address, a name, nor like NOERROR;A;192.0.2.1", value)
	parts := strings.SplitN(value, ";", 3)
	if len(parts) == 1 {
		up := strings.ToUpper(value)
		if up == "NXDOMAIN" || up == "REFUSED" || up == "SERVFAIL" || up == "NOERROR" {
			return up + ";;", nil
		}
		if a, err := netip.ParseAddr(value); err == nil {
			if a.Is4() {
				return "NOERROR;A;" + a.String(), nil
			}
			return "NOERROR;AAAA;" + a.String(), nil
		}
		if !isTarget(value) || value == up {
			return "", bad // of words in capitals only these are known
		}
		return "NOERROR;CNAME;" + value, nil
	}
	if len(parts) == 2 {
		return "", bad
	}
	rcode := strings.ToUpper(parts[0])
	switch rcode {
	case "NOERROR":
	case "NXDOMAIN", "REFUSED", "SERVFAIL", "FORMERR", "NOTIMP":
		return rcode + ";;", nil
	default:
		return "", bad
	}
	if parts[1] == "" && parts[2] == "" {
		return rcode + ";;", nil
	}
	t, err := dns.Type(parts[1])
	if err != nil || strings.ContainsAny(parts[2], "|\n") {
		return "", bad
	}
	typ := strings.ToUpper(parts[1])
	a, err := netip.ParseAddr(parts[2])
	switch t {
	case 1: // A
		if err != nil || !a.Is4() {
			return "", bad
		}
	case 28: // AAAA
		if err != nil || !a.Is6() {
			return "", bad
		}
	case 5, 12: // CNAME, PTR
		if !isTarget(strings.TrimSuffix(parts[2], ".")) {
			return "", bad
		}
	case 15: // MX
		if !isData(parts[2], 1, 2) {
			return "", bad
		}
	case 33: // SRV
		if !isData(parts[2], 3, 4) {
			return "", bad
		}
	case 64, 65: // SVCB, HTTPS
		if !isData(parts[2], 1, 100) {
			return "", bad
		}
	}
	return rcode + ";" + typ + ";" + parts[2], nil
}

// isTarget says whether s is a name that a rewrite can lead to.
func isTarget(s string) bool {
	return isHost([]byte(s)) && s[0] != '.' && !strings.Contains(s, "..")
}

// isData says whether s is some numbers of 16 bits, a name or ".", and other
// words, most in all.
func isData(s string, numbers, most int) bool {
	words := strings.Fields(s)
	if len(words) <= numbers || len(words) > most {
		return false
	}
	for _, w := range words[:numbers] {
		if _, err := strconv.ParseUint(w, 10, 16); err != nil {
			return false
		}
	}
	name := words[numbers]
	return name == "." || isTarget(strings.TrimSuffix(name, "."))
}

// Length is that of a rule's pattern: of two that rewrite, the longer decides.
func (e *Engine) Length(ref uint32) int {
	x := e.rule(ref &^ 3)
	if x == nil {
		return 0
	}
	return len(x.pattern())
}

// Rewrite says whether a rule that Match or Except has found rewrites answers,
// and to what: "" in an exception is all.
func (e *Engine) Rewrite(ref uint32) (value string, ok bool) {
	x := e.rule(ref &^ 3)
	if x == nil || x.flags()&flagRewrite == 0 {
		return "", false
	}
	var p Rule
	p.Parse(bytes.TrimPrefix(x.text(), []byte(invertedMark)))
	return p.Rewrite, true
}
