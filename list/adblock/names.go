package adblock

import (
	"bytes"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"shuultuur/lib/ascii"
	"shuultuur/lib/dns"
)

// Rules of name servers, in AdGuard's syntax. Rules with dnstype, client, ctag or dnsrewrite
// do not apply to requests for pages. Of the other rules, those apply to names that have no
// condition on pages and types.

// A Client is the client of a DNS query, for rules with client= and ctag=.
type Client struct {
	Addr   netip.Addr
	Name   string
	Groups []string
}

// SetName makes r a DNS query for records of a type.
func (r *Request) SetName(host string, qtype uint16, c Client) {
	r.Set("", Document, "")
	host = dns.Canonical(host)
	name := r.buf[:0]
	for i := range min(len(host), 255) {
		name = append(name, ascii.Lower(host[i]))
	}
	r.url, r.original, r.host, r.hostAt = name, name, asString(name), 0
	r.tokens = urlTokens(r.tokenBuf[:0], r.url)
	r.hosts = suffixes(r.hostBuf[:0], r.host)
	r.name, r.tunnel, r.qtype, r.client = true, false, qtype, c
}

// coversName reports whether a rule applies to names and matches r.
func (e *Engine) coversName(at uint32, x rule, r *Request) bool {
	flags := x.flags()
	if r.tunnel && (flags&flagNames != 0 || x.types()&hostOnly == 0) {
		return false
	}
	if flags&(flagThird|flagFirst|flagParams|flagMatchCase|flagStandIn) != 0 || x.domains() > 0 || !forNames(x.types()) || !e.matches(at, x, r) {
		return false
	}
	if n := x.denied(); n > 0 {
		if in, _ := e.matchDomains(x, 0, n, r.hosts); in {
			return false
		}
	}
	return flags&flagNames == 0 || r.matchesOptions(x.text())
}

// HasHosts reports whether any rule also applies to tunnels, of which only the host is known.
func (e *Engine) HasHosts() bool { return e.hosts }

// forNames reports whether a rule for requests of these types applies to names. A name counts
// as a document. A rule that names no type, or only excludes some, still has many types.
func forNames(t Type) bool { return t&Document != 0 || bits.OnesCount16(uint16(t)) >= 8 }

// matchesOptions reports whether the options dnstype, client and ctag of a rule match.
func (r *Request) matchesOptions(text []byte) bool {
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
			if !r.fromClient(value, r.client.inGroup) {
				return false
			}
		}
	}
	return true
}

// cutOption cuts off the first option. A comma after a backslash belongs to the option.
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

// cutItem cuts off the first item of "a|~b|c"; not reports that it is excluded.
func cutItem(s []byte) (item, rest []byte, not bool) {
	item, rest, _ = bytes.Cut(s, []byte("|"))
	item, not = bytes.CutPrefix(bytes.TrimSpace(item), []byte("~"))
	return item, rest, not
}

// ofType reports whether the type is one of those named, or none of those excluded.
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

// fromClient reports whether the client is one of those named, or none of those excluded.
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

// is reports whether s is the client's name, address, network or group.
func (c *Client) is(s string) bool {
	if s == "" {
		return false
	}
	if s == c.Name {
		return true
	}
	if c.inGroup(s) {
		return true
	}
	if strings.IndexByte(s, '/') >= 0 {
		p, err := netip.ParsePrefix(s)
		return err == nil && p.Contains(c.Addr)
	}
	a, err := netip.ParseAddr(s)
	return err == nil && a.Unmap() == c.Addr
}

// inGroup reports whether the client is in the group s; AdGuard calls groups tags.
func (c *Client) inGroup(s string) bool { return slices.Contains(c.Groups, s) }

// nameOption reads an option that only name servers use.
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
				return fmt.Errorf("names an unknown record type: %.30q", item)
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

// rewrite reads the value of dnsrewrite, and returns it in full: "NOERROR;A;192.0.2.1".
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
			return "", bad // the only known words in capitals
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

// AnswersWithData reports whether the rule answers a name with data: with more than an error, no
// records, or the address that means none.
func (r *Rule) AnswersWithData() bool {
	_, data, _ := strings.Cut(r.Rewrite, ";")
	_, data, _ = strings.Cut(data, ";")
	return !r.Exception && data != "" && data != "0.0.0.0" && data != "::"
}

// isTarget reports whether s is a name that a rewrite may point to.
func isTarget(s string) bool {
	return isHost([]byte(s)) && s[0] != '.' && !strings.Contains(s, "..")
}

// isData reports whether s consists of numbers of 16 bits, a name or ".", and up to most words
// in all.
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

// Length returns the length of a rule's pattern: of two rewriting rules, the longer wins.
func (e *Engine) Length(ref uint32) int {
	x := e.rule(ref &^ 3)
	if x == nil {
		return 0
	}
	return len(x.pattern())
}

// Rewrite reports whether a rule found by Match or Except rewrites answers, and the value; ""
// in an exception means all.
func (e *Engine) Rewrite(ref uint32) (value string, ok bool) {
	x := e.rule(ref &^ 3)
	if x == nil || x.flags()&flagRewrite == 0 {
		return "", false
	}
	var p Rule
	p.Parse(bytes.TrimPrefix(x.text(), []byte(invertedMark)))
	return p.Rewrite, true
}
