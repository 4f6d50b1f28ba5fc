// Package adblock matches requests against the network rules of ad blockers: EasyList, uBlock
// Origin, AdGuard.
//
// [Rule.Parse] reads a line. Rules about a whole host are left to the caller ([Host]); a
// [Builder] makes one table from the others. [Open] uses that table in place, in a mapped
// file, without copying. A [Request] is split into tokens once. Each rule is indexed by the
// rarest token it requires, so that an [Engine] compares only the few rules that may match.
package adblock

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"shuultuur/lib/literal"
	"shuultuur/list/width"
)

// A Kind is the kind of a line.
type Kind uint8

const (
	Comment     Kind = iota // or empty, or a header
	Host                    // ||host^: the host and its subdomains, for every request
	Network                 // another rule about requests
	Page                    // changes pages, or keeps them unchanged; see Effects
	Cosmetic                // hides elements of pages, or runs a scriptlet
	Unsupported             // only a browser or name server can apply it; Reason says why
	Bad                     // not a rule; Reason says why
)

// A Type is the purpose of a request, as a bit.
type Type uint16

const (
	Other Type = 1 << iota
	Script
	Image
	Stylesheet
	Object
	XMLHTTPRequest
	Subdocument
	Ping
	WebSocket
	Media
	Font
	Document

	allTypes = 1<<12 - 1 // without Popup

	// Popup is a document requested by a page of another site; a proxy does not see windows. It
	// is set in addition to Document.
	Popup Type = 1 << 14
)

// types are the names of types in rules. Zero means a type that never occurs in a proxy.
var types = map[string]Type{
	"other": Other, "script": Script, "image": Image, "background": Image, "stylesheet": Stylesheet, "css": Stylesheet,
	"object": Object, "object-subrequest": Object, "xmlhttprequest": XMLHTTPRequest, "xhr": XMLHTTPRequest,
	"subdocument": Subdocument, "frame": Subdocument, "ping": Ping, "beacon": Ping, "websocket": WebSocket,
	"media": Media, "font": Font, "document": Document, "doc": Document,
	"popup": Popup, "popunder": Popup, "webrtc": 0, "inline-script": 0, "inline-font": 0,
}

const (
	flagException = 1 << iota
	flagImportant
	flagMatchCase
	flagRegexp
	flagHost  // ||
	flagLeft  // |…
	flagRight // …|
	flagThird
	flagFirst
	flagOnly    // only on certain pages: domain= without ~
	flagOwn     // the pattern in lower case follows the text
	flagAny     // some domain is name.*, with any public suffix
	flagParams  // removes query parameters and blocks nothing
	flagNames   // for name servers only
	flagRewrite // dnsrewrite
	flagStandIn // redirect: a resource replaces the response
)

// A Rule is a parsed line. Its slices point into the line, or are reused by the next Parse.
type Rule struct {
	Kind      Kind
	Reason    string
	Host      []byte // for a Host
	Exception bool
	Important bool
	BadFilter bool   // removes the same rule without badfilter
	Redirect  string // name of the replacement resource
	Rewrite   string // the answer of a name server: "NOERROR;A;192.0.2.1"
	// Params is the value of removeparam: the name of a query parameter to remove, "~" and the
	// name of the one to keep, a /regular expression/, or empty for all.
	Params []byte
	// Effects are the effects of the rule on pages; a rule about requests may have
	// some too.
	Effects Effect
	Value   []byte // value of csp or permissions
	// Selector is the CSS selector of a Cosmetic rule, or the arguments of a scriptlet.
	Selector  []byte
	Scriptlet bool

	text    []byte
	flags   uint16
	types   Type
	pattern []byte
	options []byte
	domains [][]byte // excluded ones begin with "~"
	deny    [][]byte
}

// maxRule bounds the length of a rule, in bytes.
const maxRule = 16 << 10

// Parse reads a line that has no white space around it.
func (r *Rule) Parse(line []byte) {
	*r = Rule{text: line, domains: r.domains[:0], deny: r.deny[:0]}
	s := line
	switch {
	case len(s) == 0 || s[0] == '!' || s[0] == '[' || s[0] == '#' && (len(s) == 1 || s[1] == ' '):
		return
	case len(s) > maxRule:
		r.bad("is too long for a rule")
		return
	case bytes.IndexByte(s, 0) >= 0:
		r.bad("contains a NUL")
		return
	}
	if domains, mark, body := cutMark(s); mark != "" {
		r.cosmetic(domains, mark, body)
		return
	}
	if rest, ok := bytes.CutPrefix(s, []byte("@@")); ok {
		s, r.Exception, r.flags = rest, true, flagException
	}
	s, r.options = cutOptions(s)
	positive, ok := r.readOptions()
	if !ok {
		return
	}
	if n := len(s); n > 2 && s[0] == '/' && s[n-1] == '/' {
		r.pattern = s[1 : n-1]
		if bytes.ContainsAny(r.pattern, `\()[]{}+?^$.|*`) { // otherwise it is plain text
			r.flags |= flagRegexp
		}
		r.defaultTypes(positive, false)
		return
	}
	r.readPattern(s, positive)
}

// bad and unsupported set the reason why the rule cannot be used, and return false.
func (r *Rule) bad(reason string) bool {
	r.Kind, r.Reason = Bad, reason
	return false
}

func (r *Rule) unsupported(reason string) bool {
	r.Kind, r.Reason = Unsupported, reason
	return false
}

// cutOptions cuts "$option,option" off a rule. A "$" without an option after it belongs to the
// pattern.
func cutOptions(s []byte) (pattern, options []byte) {
	for end := len(s); ; {
		i := bytes.LastIndexByte(s[:end], '$')
		if i < 0 {
			return s, nil
		}
		rest := s[i+1:]
		if len(rest) > 0 && (rest[0] == '~' || 'a' <= rest[0]|0x20 && rest[0]|0x20 <= 'z' || '0' <= rest[0] && rest[0] <= '9' || rest[0] == '_') &&
			(i == 0 || s[i-1] != '\\') && isOption(rest) {
			return s[:i], rest
		}
		end = i
	}
}

// isOption reports whether s begins with the name of an option, followed by nothing, "=" or
// ",". A "/" in it suggests a pattern with a "$".
func isOption(s []byte) bool {
	for i, c := range s {
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9', c == '-', c == '_', c == '~' && i == 0:
		case c == '=', c == ',':
			return i > 0
		default:
			return false
		}
	}
	return true
}

// defaultTypes: a rule that names no type does not apply to whole pages, unless it is about a
// whole host.
func (r *Rule) defaultTypes(positive, host bool) {
	if r.options == nil {
		r.types = allTypes
	}
	if !positive && !host {
		r.types &^= Document
	}
}

// readPattern reads the anchors and the pattern.
func (r *Rule) readPattern(s []byte, positive bool) {
	host := false
	if rest, ok := bytes.CutPrefix(s, []byte("||")); ok {
		s, host = rest, true
	} else if rest, ok := bytes.CutPrefix(s, []byte("|")); ok {
		s = rest
		r.flags |= flagLeft
	}
	if n := len(s); n > 0 && s[n-1] == '|' {
		s = s[:n-1]
		r.flags |= flagRight
	}
	if t := bytes.TrimRight(s, "*"); len(t) < len(s) {
		s = t
		r.flags &^= flagRight
	}
	if t := bytes.TrimLeft(s, "*"); len(t) < len(s) {
		s, host = t, false
		r.flags &^= flagLeft
	}
	if host {
		r.flags |= flagHost
	}
	r.pattern = s
	whole, bare := isHost(bytes.TrimSuffix(s, []byte("^"))), len(s) > 0 && s[len(s)-1] == '^'
	switch {
	case len(s) == 0 && len(r.options) == 0:
		r.bad("matches everything and is not a rule")
		return
	case whole && !host && !bare && r.flags&(flagLeft|flagRight) == 0 && len(r.options) == 0 && isName(s):
		r.Kind, r.Host = Host, s // a bare name is a host, as in lists for name servers
		return
	}
	r.defaultTypes(positive, host && whole && bare)
	if host && whole && bare && plain(r.options) {
		r.Kind, r.Host = Host, s[:len(s)-1]
		return
	}
	switch {
	case len(s) > 1024:
		r.bad("has a pattern longer than 1024 bytes")
	case bytes.ContainsAny(s, " \t<>\""):
		r.bad("has a blank, a quote or a bracket, which no URL contains")
	}
}

// plain reports whether a rule with these options is still about a whole host.
func plain(options []byte) bool {
	for opt := range bytes.SplitSeq(options, []byte(",")) {
		switch string(opt) {
		case "", "important", "all", "badfilter":
		default:
			return false
		}
	}
	return true
}

// isHost reports whether s has the form of a host name.
func isHost(s []byte) bool {
	for _, c := range s {
		if c != '.' && c != '-' && c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && c < 0x80 {
			return false
		}
	}
	return len(s) > 0
}

// isName reports whether a pattern alone on a line is a host name, not a part of a URL such as
// "-ads.js": whether it ends in an existing top-level domain.
func isName(s []byte) bool {
	if bytes.IndexByte(s, '.') <= 0 || s[0] == '-' || s[0] == '_' {
		return false
	}
	_, known := publicsuffix.PublicSuffix(string(bytes.ToLower(s)))
	return known
}

// IsLikely reports whether a rule is like one that people write, and not like a line of a
// program or a word: nearly every text is a pattern.
func IsLikely(s []byte) bool {
	if len(s) > 2 && s[0] == '/' && bytes.LastIndexByte(s, '/') > 1 {
		return true // perhaps an expression
	}
	pattern, options, _ := bytes.Cut(s, []byte("$"))
	signs, letters, code := 0, 0, 0
	for _, c := range pattern {
		switch {
		case c == ';' || c == '{' || c == '}' || c == '(' || c == ')' || c == '\\' || c == '`' || c == '\'' || c == ',':
			code++
		case '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c >= 0x80:
			letters++
		default:
			signs++
		}
	}
	return code == 0 && (letters > 1 && signs > 0 || len(options) > 0)
}

// IsWide reports whether a rule about requests applies to nearly all of them, or to a public suffix.
// One for the pages of some sites does not; nor does one that changes pages, unless it adds a policy.
func (r *Rule) IsWide() bool {
	if r.BadFilter || r.flags&flagParams != 0 || r.forSomeSites() {
		return false
	}
	if r.Kind != Network && (r.Kind != Page || r.Exception || r.Effects&(AddPolicy|AddPermissions) == 0) {
		return false
	}
	if r.flags&flagRegexp != 0 {
		text := "(?i)" + string(r.pattern)
		re, err := regexp.Compile(text)
		if err != nil {
			return false
		}
		var required []string
		if r.types&inverted == 0 {
			required = literal.Required(text)
		}
		return width.Matches(r.pattern, required, func(s string) bool {
			page := strings.IndexByte(s, '/') > 0
			switch {
			case r.types&hostOnly != 0:
				return !page && re.MatchString(s) != (r.types&inverted != 0)
			case page:
				s = "https://" + s
			}
			return re.MatchString(s)
		})
	}
	pattern := bytes.ToLower(r.pattern)
	var url []byte
	match := func(s string) bool {
		host, _, page := strings.Cut(s, "/")
		if !page {
			url = append(url[:0], s...)
			return matchPattern(pattern, r.flags, url, 0, len(url), true)
		}
		for _, scheme := range [...]string{"https://", "http://"} {
			url = append(append(url[:0], scheme...), s...)
			if matchPattern(pattern, r.flags, url, len(scheme), len(scheme)+len(host), false) {
				return true
			}
		}
		return false
	}
	if host := bytes.TrimSuffix(pattern, []byte("^")); r.flags&flagHost != 0 && isHost(host) {
		public, _ := width.Suffix(host)
		return public || len(host) == len(pattern) && width.Matches(host, nil, match)
	}
	// Rules for all requests of a kind that pages can do without are usual.
	return r.types&(Document|Subdocument|Script|XMLHTTPRequest|Image|Stylesheet) != 0 && width.Pattern(pattern, match)
}

// forSomeSites reports whether a rule names the sites of its pages, and no public suffix among them.
func (r *Rule) forSomeSites() bool {
	return r.flags&flagOnly != 0 && !slices.ContainsFunc(r.domains, func(d []byte) bool {
		public, _ := width.Suffix(bytes.ToLower(bytes.TrimSuffix(d, []byte("."))))
		return public
	})
}

// Canonical returns the rule's text with sorted options and without badfilter. A badfilter
// rule and the rule it removes have the same.
func (r *Rule) Canonical() string { return canonical(r.text) }

func canonical(text []byte) string {
	exception := ""
	s := text
	if rest, ok := bytes.CutPrefix(s, []byte("@@")); ok {
		exception, s = "@@", rest
	}
	pattern, options := cutOptions(s)
	var all [][]byte
	for opt := range bytes.SplitSeq(options, []byte(",")) {
		if opt = bytes.TrimSpace(opt); len(opt) > 0 && string(opt) != "badfilter" {
			all = append(all, opt)
		}
	}
	slices.SortFunc(all, bytes.Compare)
	return exception + string(pattern) + "$" + string(bytes.Join(all, []byte(",")))
}
