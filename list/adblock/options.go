package adblock

import (
	"bytes"
	"regexp"
	"slices"
)

// An Effect is the effect of a rule on a page besides blocking its requests.
type Effect uint8

const (
	NoHiding       Effect = 1 << iota // elemhide: no element is hidden
	NoGeneric                         // generichide: no generic rule hides elements
	NoSpecific                        // specifichide: no rule for this site hides elements
	NoScripts                         // jsinject: no scriptlet runs
	AddPolicy                         // csp: an additional Content-Security-Policy
	AddPermissions                    // permissions: an additional Permissions-Policy
)

// effects maps options to effects.
var effects = map[string]Effect{
	"elemhide": NoHiding, "ehide": NoHiding, "generichide": NoGeneric, "ghide": NoGeneric, "specifichide": NoSpecific, "shide": NoSpecific,
	"jsinject": NoScripts, "csp": AddPolicy, "permissions": AddPermissions,
}

// options is the combined meaning of a rule's options.
type options struct {
	types   Type // types that are named
	without Type // types that are excluded
	named   bool // a type is named, possibly one that never occurs in a proxy
}

// readOptions reads the options and sets Kind; positive reports that they name types.
func (r *Rule) readOptions() (positive, ok bool) {
	r.Kind = Network
	if len(r.options) == 0 {
		return false, true
	}
	var o options
	for rest := r.options; len(rest) > 0; {
		var opt []byte
		opt, rest = cutOption(rest)
		name, value, _ := bytes.Cut(opt, []byte("="))
		name, not := bytes.CutPrefix(name, []byte("~"))
		switch t, known := types[string(name)]; {
		case known && not:
			o.without |= t
		case known:
			o.types |= t
			o.named = true
		case !r.option(&o, name, value, not):
			return false, false
		}
	}
	return r.settle(&o)
}

// option reads an option that is not a type. It returns false when the rule cannot be used.
func (r *Rule) option(o *options, name, value []byte, not bool) bool {
	switch string(name) {
	case "", "_", "noop":
	case "third-party", "3p":
		r.flags |= partyFlag(!not)
	case "first-party", "1p":
		r.flags |= partyFlag(not)
	case "strict1p", "strict3p":
		r.flags |= partyFlag(string(name) == "strict3p")
	case "domain", "from":
		r.domains = splitDomains(r.domains, value, '|')
		if len(r.domains) == 0 {
			return r.bad("names no domain")
		}
	case "denyallow":
		r.deny = splitDomains(r.deny, value, '|')
		if len(r.deny) == 0 || slices.ContainsFunc(r.deny, func(d []byte) bool { return d[0] == '~' }) {
			return r.bad("has a denyallow without a domain, or with an excluded one")
		}
	case "important":
		r.Important = true
		r.flags |= flagImportant
	case "badfilter":
		r.BadFilter = true
	case "match-case":
		r.flags |= flagMatchCase
	case "all":
		o.types, o.named = allTypes|Popup, true
	case "redirect", "rewrite":
		r.Redirect = string(value)
		r.flags |= flagStandIn
	case "removeparam", "queryprune":
		if not || !isParams(value) {
			return r.unsupported("$removeparam with a value that is neither a name nor an expression")
		}
		r.flags |= flagParams
		r.Params = value
	case "dnstype", "client", "ctag", "dnsrewrite":
		if err := r.nameOption(name, value); err != nil {
			return r.bad(err.Error())
		}
	default:
		effect, known := effects[string(name)]
		if !known || not {
			return r.unsupported("$" + string(name[:min(len(name), 30)]))
		}
		return r.effect(effect, value)
	}
	return true
}

// effect reads an option about pages.
func (r *Rule) effect(e Effect, value []byte) bool {
	r.Effects |= e
	if e != AddPolicy && e != AddPermissions {
		return r.Exception || r.unsupported("hiding that is no exception")
	}
	if r.Value = value; len(value) == 0 {
		return r.Exception || r.bad("adds nothing to the page's headers")
	}
	switch {
	case bytes.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' }):
		return r.bad("has a header with characters outside ASCII")
	case bytes.Contains(bytes.ToLower(value), []byte("report-")):
		return r.unsupported("$csp with a report address")
	}
	return true
}

// settle determines the types of the rule.
func (r *Rule) settle(o *options) (positive, ok bool) {
	if r.Exception && o.types&Document != 0 {
		r.Effects |= NoHiding | NoScripts // the whole page is excepted
	}
	switch {
	case o.named:
		if r.types = o.types &^ o.without; r.types == 0 {
			return false, r.unsupported("requests that a proxy does not see")
		}
	case r.Effects != 0:
		r.Kind = Page
		r.types = Document | Subdocument
	case r.flags&flagParams != 0:
		r.types = (Document | Subdocument | XMLHTTPRequest) &^ o.without
	default:
		r.types = allTypes &^ o.without // Document goes later
	}
	if r.flags&(flagThird|flagFirst) == flagThird|flagFirst {
		r.flags &^= flagThird | flagFirst
	}
	for _, d := range r.domains {
		if d[0] != '~' {
			r.flags |= flagOnly
		}
		if bytes.HasSuffix(d, []byte(".*")) {
			r.flags |= flagAny
		}
		if bytes.IndexByte(d, '/') >= 0 {
			return false, r.unsupported("a regular expression of domains")
		}
	}
	return o.named || r.Kind == Page || r.flags&flagParams != 0, true
}

// maxParam bounds the length of a parameter's name, in bytes.
const maxParam = 128

// isParams reports whether s is a valid value of removeparam.
func isParams(s []byte) bool {
	if len(s) == 0 || s[0] != '/' {
		return len(s) <= maxParam
	}
	re, _ := paramsExpression(s)
	_, err := regexp.Compile(re)
	return re != "" && err == nil
}

// paramsExpression returns the expression in /…/ or /…/i in RE2's syntax.
func paramsExpression(s []byte) (re string, ok bool) {
	t, fold := bytes.CutSuffix(s, []byte("i"))
	if len(t) < 3 || t[0] != '/' || t[len(t)-1] != '/' {
		return "", false
	}
	re = string(t[1 : len(t)-1])
	if fold {
		re = "(?i)" + re
	}
	return re, true
}

func partyFlag(third bool) uint16 {
	if third {
		return flagThird
	}
	return flagFirst
}

// splitDomains appends the domains between separators to dst.
func splitDomains(dst [][]byte, value []byte, separator byte) [][]byte {
	for d := range bytes.SplitSeq(value, []byte{separator}) {
		if d = bytes.TrimSpace(d); len(d) > 0 && !bytes.Equal(d, []byte("~")) && len(d) < 256 {
			dst = append(dst, d)
		}
	}
	return dst
}
