package adblock

import (
	"bytes"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

// Marks among a rule's types, for expressions of Pi-hole.
const (
	hostOnly Type = 1 << 12 // matched against the host alone, also of a tunnel
	inverted Type = 1 << 13 // it does not match the expression
)

// invertedMark begins the text of an inverted rule.
const invertedMark = "!"

// comment matches a comment in an expression of Pi-hole.
var comment = regexp.MustCompile(`\(\?#[^)]*\)`)

// ParsePihole reads a line of Pi-hole's regular expressions (its documentation, "Pi-hole regex
// extensions"): an expression to search for in the name, and conditions after ";". It makes
// equivalent rules for name servers, and calls yield with each in r. remark describes the
// differences.
func (r *Rule) ParsePihole(line []byte, yield func()) (remark string) {
	if len(line) == 0 || line[0] == '#' {
		r.Kind = Comment
		return ""
	}
	parts := strings.Split(string(line), ";")
	expression := comment.ReplaceAllString(parts[0], "")
	if expression == "" || len(line) > maxRule {
		r.bad("is no expression")
		return ""
	}
	marks := hostOnly
	types := ""
	var answers []string
	for _, opt := range parts[1:] {
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(opt)), "=")
		switch name {
		case "":
		case "invert":
			marks |= inverted
		case "querytype":
			not := ""
			if rest, ok := strings.CutPrefix(value, "!"); ok {
				not, value = "~", rest
			}
			types = "dnstype=" + not + strings.ReplaceAll(strings.ToUpper(value), ",", "|"+not)
		case "reply":
			switch a, err := netip.ParseAddr(value); {
			case value == "nodata":
				answers = append(answers, "dnsrewrite=NOERROR;;")
			case value == "nxdomain", value == "refused":
				answers = append(answers, "dnsrewrite="+strings.ToUpper(value))
			case value == "none":
				remark = "is answered like other refused names, not dropped"
			case value == "ip":
			case err == nil:
				answers = append(answers, "dnsrewrite="+a.WithZone("").String())
			default:
				r.bad(fmt.Sprintf("has an unknown reply: %.30q", value))
				return ""
			}
		default:
			r.bad(fmt.Sprintf("has an unknown condition: %.30q", name))
			return ""
		}
	}
	for _, answer := range append([]string{""}, answers...) {
		text := "/" + expression + "/"
		if options := strings.Trim(types+","+answer, ","); options != "" {
			text += "$" + options
		}
		if marks&inverted != 0 {
			text = invertedMark + text
		}
		r.parseExpression([]byte(text), len(expression), marks)
		if r.Kind == Bad {
			return ""
		}
		yield()
	}
	return remark
}

// parseExpression reads a rule that ParsePihole has written.
func (r *Rule) parseExpression(text []byte, size int, marks Type) {
	*r = Rule{text: text, Kind: Network, domains: r.domains[:0], deny: r.deny[:0], flags: flagRegexp}
	at := bytes.IndexByte(text, '/') + 1
	r.pattern = text[at : at+size]
	r.options = bytes.TrimPrefix(text[at+size+1:], []byte("$"))
	if _, ok := r.readOptions(); !ok {
		return
	}
	r.types = allTypes | marks
}

// SetHost makes r a tunnel to a host.
func (r *Request) SetHost(host string) {
	r.SetName(host, 0, Client{})
	r.tunnel = true
}
