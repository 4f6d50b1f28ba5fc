// Package adblock matches requests against the network rules of ad blockers:
// EasyList, uBlock Origin, AdGuard.
//
// Data moves so: [Rule.Parse] reads a line; rules that are about a whole host
// are the caller's ([Host]), the others go into a [Builder], which makes one
// table of them. [Open] reads that table where it lies, in a mapped file, and
// copies nothing. A [Request] is taken apart once into its tokens; each rule
// stands in the table under the rarest token it needs, so that an
// [Engine] looks at the few rules that could match, and compares them byte by
// byte.
package adblock

import (
	"bytes"
	"slices"

	"golang.org/x/net/publicsuffix"
)

// A Kind says what a line is.
type Kind uint8

const (
	Comment     Kind = iota // or empty, or a header
	Host                    // ||host^: the host and all below it, whatever is asked for
	Network                 // another rule about requests
	Page                    // changes pages, or keeps them as they are; see Effects
	Cosmetic                // hides elements of pages, or runs a scriptlet in them
	Unsupported             // a rule that only a browser or name server can carry out; Reason says why
	Bad                     // no rule; Reason says why
)

// A Type is what a request is for, as a bit.
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

	// Popup is a document that a page of another site asks for: a proxy sees no
	// windows. It comes besides Document.
	Popup Type = 1 << 14
)

// types are the names of types in rules. Zero is one that no request of a
// proxy has.
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
	flagOnly    // on certain pages only: domain= without ~
	flagOwn     // the pattern in lower case follows the text
	flagAny     // some domain is name.*, whatever public suffix
	flagParams  // takes parameters out of the query and blocks nothing
	flagNames   // for name servers only
	flagRewrite // dnsrewrite
	flagStandIn // redirect: the answer is a resource
)

// A Rule is a line taken apart. Its slices point into the line, or are used
// again by the next Parse.
type Rule struct {
	Kind      Kind
	Reason    string
	Host      []byte // of a Host
	Exception bool
	Important bool
	BadFilter bool   // takes the same rule without badfilter out of the list
	Redirect  string // name of the resource to answer with
	Rewrite   string // how a name server is to answer: "NOERROR;A;192.0.2.1"
	// Params is the value of removeparam: the name of a parameter that is
	// taken out of the query, "~" and the name of the one that stays, a
	// /regular expression/, or nothing for all.
	Params []byte
	// Effects are what the rule does to pages; a rule for requests may have some
	// too.
	Effects Effect
	Value   []byte // of csp or permissions
	// Selector is the CSS selector of a Cosmetic rule, or what is between the
	// parentheses of a scriptlet.
	Selector  []byte
	Scriptlet bool

	text    []byte
	flags   uint16
	types   Type
	pattern []byte
	options []byte
	domains [][]byte // with "~" where not
	deny    [][]byte
}

// maxRule is the length of the longest rule, in bytes.
const maxRule = 16 << 10

// Parse reads a line without white space around it.
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
		r.bad("has a NUL in it")
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
		if bytes.ContainsAny(r.pattern, `\()[]{}+?^$.|*`) { // or else it is a text like any
			r.flags |= flagRegexp
		}
		r.defaultTypes(positive, false)
		return
	}
	r.readPattern(s, positive)
}

// bad and unsupported say why the rule cannot be used, and return false.
func (r *Rule) bad(reason string) bool {
	r.Kind, r.Reason = Bad, reason
	return false
}

func (r *Rule) unsupported(reason string) bool {
	r.Kind, r.Reason = Unsupported, reason
	return false
}

// cutOptions cuts "$option,option" off a rule. A "$" that no option follows
// belongs to the pattern.
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

// isOption says whether s begins with the name of an option, which is followed
// by nothing, "=" or ",". A "/" in it is a sign of a pattern with a "$".
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

// defaultTypes: a rule that names no type is not for whole pages, unless it is
// about a whole host.
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
		r.bad("is for everything at once and no rule")
		return
	case whole && !host && !bare && r.flags&(flagLeft|flagRight) == 0 && len(r.options) == 0 && isName(s):
		r.Kind, r.Host = Host, s // a bare name is one, as in lists for name servers
		return
	}
	r.defaultTypes(positive, host && whole && bare)
	if host && whole && bare && plain(r.options) {
		r.Kind, r.Host = Host, s[:len(s)-1]
		return
	}
	if len(s) > 1024 {
		r.bad("has a pattern longer than 1024 bytes")
	}
}

// plain says whether options leave a rule one about a whole host.
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

// isHost says whether s is written like a host name.
func isHost(s []byte) bool {
	for _, c := range s {
		if c != '.' && c != '-' && c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && c < 0x80 {
			return false
		}
	}
	return len(s) > 0
}

// isName says whether a pattern alone on a line is a host name, and not a part
// of a URL such as "-ads.js": whether it ends in a top-level domain there is.
func isName(s []byte) bool {
	if bytes.IndexByte(s, '.') <= 0 || s[0] == '-' || s[0] == '_' {
		return false
	}
	_, known := publicsuffix.PublicSuffix(string(bytes.ToLower(s)))
	return known
}

// Canonical is the rule's text with its options in order and without badfilter,
// by which a badfilter rule and the one it is about are the same.
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
