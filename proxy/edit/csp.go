package edit

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
)

// A need is something that a page's Content-Security-Policy (CSP Level 3) must allow: an
// inserted element, inline or by URL.
type need struct {
	directives []string // that may govern it, in order of precedence
	hash       string   // of an inline element: 'sha256-…'
	url        string   // of a style sheet
}

// Fallbacks of directives (CSP section 6.8.4).
var (
	styleDirectives  = []string{"style-src-elem", "style-src", "default-src"}
	scriptDirectives = []string{"script-src-elem", "script-src", "default-src"}
)

func inlineNeed(directives []string, text []byte) need {
	sum := sha256.Sum256(text)
	return need{directives: directives, hash: "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"}
}

// A directive is one directive of a policy: its name in lower case, and its sources.
type directive struct {
	name    string
	sources []string
}

// parsePolicy parses a serialized policy.
func parsePolicy(s string) (all []directive) {
	for part := range strings.SplitSeq(s, ";") {
		if words := strings.Fields(part); len(words) > 0 {
			all = append(all, directive{strings.ToLower(words[0]), words[1:]})
		}
	}
	return all
}

func writePolicy(all []directive) string {
	var parts []string
	for _, d := range all {
		parts = append(parts, strings.Join(append([]string{d.name}, d.sources...), " "))
	}
	return strings.Join(parts, "; ")
}

// allow returns the policies in a header field, which are separated by commas, changed so that
// every one of them allows an element with a nonce.
func allow(field string, needs []need, nonces map[string]string, host, scheme string) string {
	policies := strings.Split(field, ",")
	for i, s := range policies {
		policy, changed := parsePolicy(s), false
		for _, n := range needs {
			changed = grant(&policy, n, nonces[n.directives[0]], host, scheme) || changed
		}
		if changed {
			policies[i] = writePolicy(policy)
		}
	}
	return strings.Join(policies, ",")
}

// grant adds to a policy the permission that an element needs, and reports whether
// it changed anything.
func grant(policy *[]directive, n need, nonce, host, scheme string) bool {
	i := -1
	for _, name := range n.directives {
		if i = slices.IndexFunc(*policy, func(d directive) bool { return d.name == name }); i >= 0 {
			break
		}
	}
	if i < 0 {
		return false // without a directive everything is allowed
	}
	d := (*policy)[i]
	if nonce != "" && slices.Contains(d.sources, "'nonce-"+nonce+"'") {
		return false
	}
	source := n.hash
	if n.url != "" {
		if fromHere(d.sources, host, scheme) {
			return false
		}
		source = n.url
	} else if inline(d.sources) {
		return false
	}
	sources := slices.DeleteFunc(slices.Clone(d.sources), func(s string) bool { return strings.EqualFold(s, "'none'") })
	sources = append(sources, source)
	if d.name == "default-src" { // only for our element, not for all kinds
		*policy = append(*policy, directive{n.directives[1], sources})
	} else {
		(*policy)[i].sources = sources
	}
	return true
}

// scriptless reports whether policies sandbox the page so that no script runs in it: it would find
// nothing, and a browser would complain.
func scriptless(fields []string) bool {
	for _, field := range fields {
		for s := range strings.SplitSeq(field, ",") {
			for _, d := range parsePolicy(s) {
				if d.name == "sandbox" && !slices.ContainsFunc(d.sources, func(s string) bool { return strings.EqualFold(s, "allow-scripts") }) {
					return true
				}
			}
		}
	}
	return false
}

// inline reports whether sources allow every inline element: 'unsafe-inline' applies only if
// there is nothing stricter.
func inline(sources []string) bool {
	unsafe := false
	for _, s := range sources {
		s = strings.ToLower(s)
		switch {
		case s == "'unsafe-inline'":
			unsafe = true
		case strings.HasPrefix(s, "'nonce-"), strings.HasPrefix(s, "'sha256-"), strings.HasPrefix(s, "'sha384-"), strings.HasPrefix(s, "'sha512-"), s == "'strict-dynamic'":
			return false
		}
	}
	return unsafe
}

// fromHere reports whether sources allow the page's own host at any path.
func fromHere(sources []string, host, scheme string) bool {
	for _, s := range sources {
		s = strings.ToLower(s)
		if s == "'self'" || s == "*" || s == scheme+":" || s == "http:" {
			return true
		}
		if of, rest, ok := strings.Cut(s, "://"); ok {
			if of != scheme && of != "http" {
				continue
			}
			s = rest
		}
		s = strings.TrimSuffix(s, "/")
		if wild, ok := strings.CutPrefix(s, "*."); s == host || ok && strings.HasSuffix(host, "."+wild) {
			return true
		}
	}
	return false
}

// nonceOf returns the nonce for elements in the first policy of the fields, "" for none.
func nonceOf(fields []string, directives []string) string {
	for _, field := range fields {
		for s := range strings.SplitSeq(field, ",") {
			policy := parsePolicy(s)
			for _, name := range directives {
				i := slices.IndexFunc(policy, func(d directive) bool { return d.name == name })
				if i < 0 {
					continue
				}
				for _, source := range policy[i].sources {
					if nonce, ok := strings.CutPrefix(source, "'nonce-"); ok && isNonce(strings.TrimSuffix(nonce, "'")) {
						return strings.TrimSuffix(nonce, "'")
					}
				}
				break
			}
		}
	}
	return ""
}

// isNonce reports whether s is a base64-value of the grammar, which needs no quoting in an
// attribute.
func isNonce(s string) bool {
	return s != "" && len(s) <= 256 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=") == ""
}
