package adblock

import (
	"bytes"
	"strings"

	"shuultuur/lib/dns"
)

// Cosmetic rules are about the elements of pages:
//
//	##.banner                       hide them everywhere
//	example.com,~x.example.com##.ad on the pages of a site, except a part of it
//	example.*#@#.ad                 do not hide them there
//	example.com##+js(noeval)        run a scriptlet there
//
// Only selectors of plain CSS, and scriptlets of our own, are used.

// cutMark cuts a cosmetic rule at its mark: "##", "#@#", "#?#", "#$#", "#%#"
// and these with "@", or "$$" of AdGuard. Mark is "" when there is none.
func cutMark(s []byte) (domains []byte, mark string, body []byte) {
	for i := 0; ; {
		j := bytes.IndexByte(s[i:], '#')
		if j < 0 {
			break
		}
		from := i + j
		i = from + 1
		for i < len(s) && strings.IndexByte("@?$%", s[i]) >= 0 {
			i++
		}
		if i+1 < len(s) && s[i] == '#' {
			return s[:from], string(s[from : i+1]), s[i+1:]
		}
		i = from + 1
	}
	i := bytes.Index(s, []byte("$$"))
	if i >= 0 && len(s) > i+2 && 'a' <= s[i+2]|0x20 && s[i+2]|0x20 <= 'z' {
		return s[:i], "$$", s[i+2:]
	}
	return nil, "", nil
}

// cosmetic reads a rule that was cut at its mark.
func (r *Rule) cosmetic(domains []byte, mark string, body []byte) {
	r.Kind = Cosmetic
	r.Exception = strings.Contains(mark, "@")
	body = bytes.TrimSpace(body)
	if inner, ok := bytes.CutPrefix(body, []byte("+js(")); ok && bytes.HasSuffix(inner, []byte(")")) {
		r.Scriptlet, body = true, inner[:len(inner)-1]
	}
	r.Selector = body
	r.domains = splitDomains(r.domains, domains, ',')
	named := false
	for i, d := range r.domains {
		plain, not := bytes.CutPrefix(d, []byte("~"))
		named = named || !not
		switch {
		case bytes.IndexByte(d, '/') >= 0:
			r.unsupported("a regular expression of domains")
			return
		case not && r.Exception:
			r.unsupported("exceptions from hiding that exclude a domain")
			return
		}
		name, any := bytes.CutSuffix(plain, []byte(".*"))
		host, reason := dns.Host(nil, name)
		if reason != "" {
			r.bad("names an invalid domain: " + reason)
			return
		}
		if any {
			host = append(host, ".*"...)
		}
		if not {
			host = append([]byte("~"), host...)
		}
		r.domains[i] = host
	}
	switch {
	case r.Scriptlet && len(body) == 0 && r.Exception: // an exception from all of them
	case r.Scriptlet && !r.Exception && !named:
		r.unsupported("scriptlets on every page")
	case r.Scriptlet:
		if reason := checkScriptlet(body); reason != "" {
			r.unsupported(reason)
		}
	case mark != "##" && mark != "#@#" && mark != "#?#" && mark != "#@?#":
		r.unsupported("styles and scripts of AdGuard (" + mark + ")")
	default:
		if reason := checkSelector(body); reason != "" {
			r.unsupported(reason)
		}
	}
}

// pseudos are the pseudo-classes and pseudo-elements that a selector may have. The others are
// extensions of ad blockers, which find elements by scripts.
var pseudos = map[string]bool{
	"active": true, "after": true, "any-link": true, "before": true, "checked": true, "disabled": true, "empty": true, "enabled": true,
	"first-child": true, "first-letter": true, "first-line": true, "first-of-type": true, "focus": true, "focus-within": true, "has": true,
	"host": true, "hover": true, "is": true, "lang": true, "last-child": true, "last-of-type": true, "link": true, "not": true,
	"nth-child": true, "nth-last-child": true, "nth-last-of-type": true, "nth-of-type": true, "only-child": true, "only-of-type": true,
	"placeholder": true, "root": true, "scope": true, "target": true, "visited": true, "where": true,
}

// maxSelector bounds the length of a selector, in bytes.
const maxSelector = 2048

// checkSelector returns why a selector cannot stand in a style sheet, "" when it can. It must
// not change the meaning of the text after it: brackets and quotes are balanced, and it
// begins no block, comment or tag.
func checkSelector(s []byte) (reason string) {
	const other = "selectors that are not plain CSS"
	if len(s) == 0 || len(s) > maxSelector || s[0] == '^' {
		return other
	}
	var open []byte // closing brackets still expected
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"', '\'':
			end := closingQuote(s[i+1:], c)
			if end < 0 {
				return other
			}
			i += end + 1
		case '\\':
			if i++; i == len(s) || s[i] < ' ' || s[i] == '<' {
				return other
			}
		case '(':
			open = append(open, ')')
		case '[':
			open = append(open, ']')
		case ')', ']':
			if len(open) == 0 || open[len(open)-1] != c {
				return other
			}
			open = open[:len(open)-1]
		case ':':
			name := pseudo(s[i+1:])
			if !pseudos[strings.ToLower(string(name))] {
				return other
			}
		case '{', '}', ';', '@', '<', '!', '/', '`', '%', '?':
			return other
		default:
			if c < ' ' || c == 0x7f {
				return other
			}
		}
	}
	if len(open) > 0 {
		return other
	}
	return ""
}

// closingQuote returns where a string ends that began before s, -1 if it does not end or
// contains a character that must not occur in a style element.
func closingQuote(s []byte, quote byte) int {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == quote:
			return i
		case c == '\\':
			i++
		case c == '<' || c < ' ':
			return -1
		}
	}
	return -1
}

// pseudo returns the name of a pseudo-class or -element after its first colon.
func pseudo(s []byte) []byte {
	s = bytes.TrimPrefix(s, []byte(":"))
	n := 0
	for n < len(s) && (s[n] == '-' || 'a' <= s[n]|0x20 && s[n]|0x20 <= 'z') {
		n++
	}
	return s[:n]
}

// IsName reports whether a selector is a single class or id. Only those share blocks: a
// mistake in any other selector invalidates its whole block.
func IsName(selector string) bool {
	if len(selector) < 2 || selector[0] != '.' && selector[0] != '#' {
		return false
	}
	name := strings.TrimPrefix(selector[1:], "-")
	for i := range len(name) {
		c := name[i]
		if !('a' <= c|0x20 && c|0x20 <= 'z' || c == '_' || i > 0 && (c == '-' || '0' <= c && c <= '9')) {
			return false
		}
	}
	return name != ""
}
