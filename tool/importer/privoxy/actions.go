package privoxy

import (
	"bytes"
	"cmp"
	"regexp"
	"strings"

	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// A section has patterns that share actions. Of the sections with a pattern for a
// request, the last one in all files decides whether it is blocked.
type section struct {
	report.Place
	actions  string // the text between the braces, with aliases replaced
	patterns []report.Place
}

// actionText matches one action of a section: "+name{text}" or "-name".
var actionText = regexp.MustCompile(`([+-])([a-z][a-z0-9-]*)(\{[^}]*\})?`)

// blocks reports whether a section blocks or allows; says is false if it does
// neither.
func (s *section) blocks() (block, says bool) { return s.switches("block") }

// switches reports whether a section switches an action on or off; says is false if it does neither.
func (s *section) switches(action string) (on, switches bool) {
	for _, m := range actionText.FindAllStringSubmatch(s.actions, -1) {
		if m[2] == action {
			on, switches = m[1] == "+", true
		}
	}
	return on, switches
}

// readActions reads a file of actions.
func readActions(file string) (all []*section, err error) {
	aliases, special, long := map[string]string{}, "", ""
	err = input.Lines(file, func(n int, b []byte) error {
		if b = cutComment(b); len(b) == 0 {
			return nil
		}
		line := long + string(b)
		if rest, more := strings.CutSuffix(line, `\`); more && len(line) < input.MaxLine {
			long = rest
			return nil
		}
		long = ""
		at := report.Place{File: file, Line: n, Text: line}
		if name, ok := strings.CutPrefix(line, "{{"); ok {
			special, _, _ = strings.Cut(name, "}}")
			return nil
		}
		if strings.HasPrefix(line, "{") && strings.HasSuffix(line, "}") {
			special = ""
			all = append(all, &section{Place: at, actions: replaceAliases(line[1:len(line)-1], aliases)})
			return nil
		}
		switch name, value, ok := strings.Cut(line, "="); {
		case special == "alias" && ok:
			aliases[strings.TrimSpace(name)] = replaceAliases(strings.TrimSpace(value), aliases)
		case special == "" && len(all) > 0:
			last := all[len(all)-1]
			last.patterns = append(last.patterns, at)
		}
		return nil
	})
	return all, err
}

// cutComment cuts a comment off; "\#" does not begin one.
func cutComment(b []byte) []byte {
	for i := range b {
		if b[i] == '#' && (i == 0 || b[i-1] != '\\') {
			return bytes.TrimSpace(b[:i])
		}
	}
	return bytes.ReplaceAll(b, []byte(`\#`), []byte("#"))
}

// replaceAliases replaces aliases.
func replaceAliases(text string, aliases map[string]string) string {
	f := strings.Fields(text)
	for i, word := range f {
		if of, ok := aliases[word]; ok {
			f[i] = of
		}
	}
	text = strings.Join(f, " ")
	return text[:min(len(text), input.MaxLine)]
}

// A pattern is a pattern for URLs. Either part may be "".
type pattern struct {
	host, port, path string
	expr             bool // host is an expression
}

// parsePattern splits a pattern. Patterns of tags are not about URLs.
func parsePattern(text string) (p pattern, ok bool) {
	for _, tag := range []string{"TAG:", "CLIENT-TAG:", "NO-REQUEST-TAG:", "NO-RESPONSE-TAG:"} {
		if strings.HasPrefix(text, tag) {
			return p, false
		}
	}
	p.host, p.expr = strings.CutPrefix(text, "PCRE-HOST-PATTERN:")
	if i := strings.IndexByte(text, '/'); i >= 0 {
		p.host, p.path = text[:i], text[i:]
	}
	if strings.HasPrefix(p.host, "<") {
		return p, false // an IPv6 address
	}
	p.host, p.port, _ = strings.Cut(p.host, ":")
	if p.path == "/" {
		p.path = ""
	}
	return p, true
}

// expression returns the pattern for host and path as one expression.
func (p pattern) expression() string {
	if p.expr {
		rest, ends := strings.CutSuffix(build.HostExpression(p.host), "(?:/|$)")
		if p.path == "" && !ends {
			return rest
		}
		return rest + cmp.Or(p.path, "(/|$)")
	}
	var b strings.Builder
	b.WriteByte('^')
	body := strings.Trim(p.host, ".")
	switch {
	case body == "":
		b.WriteString("[^/]*")
	case strings.HasPrefix(p.host, "."):
		b.WriteString(`([^/.]+\.)*`)
		fallthrough
	default:
		for i := 0; i < len(body); i++ {
			switch c := body[i]; c {
			case '*':
				b.WriteString("[^/.]*")
			case '?':
				b.WriteString("[^/.]")
			case '[', ']', '-':
				b.WriteByte(c)
			default:
				b.WriteString(regexp.QuoteMeta(string(c)))
			}
		}
		if strings.HasSuffix(p.host, ".") {
			b.WriteString(`(\.[^/.]+)*`)
		}
	}
	if p.path == "" {
		b.WriteString("(/|$)")
	} else {
		b.WriteString(p.path)
	}
	return b.String()
}

// name returns the host if the pattern is only about a host, with or without its subdomains.
func (p pattern) name() (name string, below, ok bool) {
	name, below = strings.CutPrefix(p.host, ".")
	return name, below, p.path == "" && !p.expr && name != "" && !strings.ContainsAny(name, "*?[]") && !strings.HasSuffix(name, ".")
}
