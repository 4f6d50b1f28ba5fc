package rule

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Choice is the content of enable.conf, disable.conf, modify.conf and drop.conf of
// suricata-update: which rules are enabled, which are changed, and which drop.
type Choice struct {
	Files                 []string
	enable, disable, drop []selector
	modify                []change
}

// A selector selects rules: all, or by number, by an expression on the rule, by rule file, or
// by metadata.
type selector struct {
	all  bool
	ids  [][2]uint64 // gid and sid
	re   *regexp.Regexp
	file *regexp.Regexp // matches a name or the end of a path
	bare bool           // the name may lack its extension
	meta [2]string
}

// A change replaces the matches of an expression in a rule, or adds metadata to it.
type change struct {
	selector
	from *regexp.Regexp
	to   string
	meta string // "key value" to add, "" for a replacement
}

// ReadChoice reads the files; an empty name means no file.
func ReadChoice(enable, disable, modify, drop string) (*Choice, error) {
	c := &Choice{}
	for _, f := range []struct {
		name string
		to   *[]selector
	}{{enable, &c.enable}, {disable, &c.disable}, {drop, &c.drop}} {
		err := c.lines(f.name, func(line string) error {
			line, _, _ = strings.Cut(line, " #")
			s, err := parseSelector(strings.TrimSpace(line))
			*f.to = append(*f.to, s)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	err := c.lines(modify, func(line string) error {
		m, err := parseChange(line)
		c.modify = append(c.modify, m)
		return err
	})
	return c, err
}

// lines reads a file line by line.
func (c *Choice) lines(name string, read func(string) error) error {
	if name == "" {
		return nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	c.Files = append(c.Files, name)
	s := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; s.Scan(); n++ {
		line := strings.TrimSpace(s.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if err := read(line); err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	return s.Err()
}

func parseSelector(s string) (selector, error) {
	kind, value, _ := strings.Cut(s, ":")
	value = strings.TrimSpace(value)
	switch {
	case s == "*":
		return selector{all: true}, nil
	case kind == "re":
		re, err := regexp.Compile("(?i)" + value)
		if err != nil {
			return selector{}, fmt.Errorf("%q: %w", s, err)
		}
		return selector{re: re}, nil
	case kind == "group":
		return selector{file: glob(value), bare: true}, nil
	case kind == "filename":
		return selector{file: glob(value)}, nil
	case kind == "metadata":
		key, word, ok := strings.Cut(value, " ")
		if !ok {
			return selector{}, fmt.Errorf("%q is not metadata: KEY VALUE", s)
		}
		return selector{meta: [2]string{key, strings.TrimSpace(word)}}, nil
	case strings.HasSuffix(s, ".rules"):
		return selector{file: glob(s), bare: true}, nil
	}
	x := selector{}
	for part := range strings.SplitSeq(s, ",") {
		gid, sid, ok := strings.Cut(strings.TrimSpace(part), ":")
		if !ok {
			gid, sid = "1", gid
		}
		g, e1 := strconv.ParseUint(strings.TrimSpace(gid), 10, 32)
		n, e2 := strconv.ParseUint(strings.TrimSpace(sid), 10, 32)
		if e1 != nil || e2 != nil {
			return selector{}, fmt.Errorf("%q is not SID, GID:SID, re:EXPRESSION, group:FILE, filename:FILE, metadata: KEY VALUE or *", s)
		}
		x.ids = append(x.ids, [2]uint64{g, n})
	}
	return x, nil
}

// glob compiles a pattern of file names, in which * stands for any characters including
// slashes, ? for one, and [ab] for one of several. It matches a name or the end of a path.
func glob(pattern string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString("(?s)(^|/)")
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*':
			b.WriteString(".*")
		case '?':
			b.WriteByte('.')
		case '[':
			end := strings.IndexByte(pattern[i:], ']')
			if end < 2 {
				b.WriteString(`\[`)
				continue
			}
			set := pattern[i+1 : i+end]
			b.WriteByte('[')
			if set[0] == '!' {
				b.WriteByte('^')
				set = set[1:]
			}
			b.WriteString(strings.NewReplacer(`\`, `\\`, "^", `\^`, "[", `\[`).Replace(set) + "]")
			i += end
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	re, err := regexp.Compile(b.String() + "$")
	if err != nil { // an invalid set, such as [z-a]
		return regexp.MustCompile("(^|/)" + regexp.QuoteMeta(pattern) + "$")
	}
	return re
}

// parseChange parses SELECTOR "FROM" "TO", Oinkmaster's modifysid SELECTOR "FROM"
//
// "TO", or metadata-add SELECTOR "KEY" "VALUE".
func parseChange(line string) (change, error) {
	words, err := shellWords(line)
	if err != nil {
		return change{}, fmt.Errorf("%q: %w", line, err)
	}
	if len(words) > 0 && words[0] == "modifysid" {
		words = slices.DeleteFunc(words[1:], func(w string) bool { return w == "|" })
	}
	add := len(words) > 0 && words[0] == "metadata-add"
	if add {
		words = words[1:]
	}
	if len(words) != 3 {
		return change{}, fmt.Errorf(`%q is not SELECTOR "FROM" "TO" or metadata-add SELECTOR "KEY" "VALUE"`, line)
	}
	m := change{}
	if m.selector, err = parseSelector(words[0]); err != nil {
		return change{}, err
	}
	if add {
		m.meta = words[1] + " " + words[2]
		return m, nil
	}
	if m.from, err = regexp.Compile(words[1]); err != nil {
		return change{}, err
	}
	m.to = references.ReplaceAllStringFunc(strings.ReplaceAll(words[2], "$", "$$"), func(r string) string {
		return "${" + strings.Trim(r, `\g<>{}$`) + "}"
	})
	return m, nil
}

// references matches references to a group in a replacement: \1, \g<1>, \g<name>, and
// Oinkmaster's ${1} with its dollar doubled.
var references = regexp.MustCompile(`\\\d+|\\g<\w+>|\$\$\{\d+\}`)

var errQuote = errors.New("a quote is missing")

// shellWords splits a line as a shell does: words, or parts of them, may be in single or
// double quotes. In double quotes a backslash escapes only a quote and itself. A # at the
// beginning of a word begins a comment.
func shellWords(line string) (words []string, err error) {
	var word []byte
	in := false // a word has begun
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ', '\t':
			if in {
				words, word, in = append(words, string(word)), word[:0], false
			}
		case '\'':
			end := strings.IndexByte(line[i+1:], '\'')
			if end < 0 {
				return nil, errQuote
			}
			word, in = append(word, line[i+1:i+1+end]...), true
			i += 1 + end
		case '"':
			in = true
			for i++; i < len(line) && line[i] != '"'; i++ {
				if line[i] == '\\' && i+1 < len(line) && (line[i+1] == '"' || line[i+1] == '\\') {
					i++
				}
				word = append(word, line[i])
			}
			if i >= len(line) {
				return nil, errQuote
			}
		default:
			if c == '#' && !in {
				return words, nil
			}
			if c == '\\' && i+1 < len(line) {
				i++
			}
			word, in = append(word, line[i]), true
		}
	}
	if in {
		words = append(words, string(word))
	}
	return words, nil
}

var (
	sidOf    = regexp.MustCompile(`[;(]\s*sid\s*:\s*(\d+)`)
	gidOf    = regexp.MustCompile(`[;(]\s*gid\s*:\s*(\d+)`)
	quietOf  = regexp.MustCompile(`[;(:]\s*noalert\s*;`)
	actionOf = regexp.MustCompile(`^\w+`)
)

// selects reports whether a selector selects the rule in a line.
func (s *selector) selects(file, line string, gid, sid uint64) bool {
	switch {
	case s.all:
		return true
	case s.re != nil:
		return s.re.MatchString(line)
	case s.file != nil:
		name := strings.ReplaceAll(file, ":", "/")
		return s.file.MatchString(name) || s.bare && s.file.MatchString(strings.TrimSuffix(name, path.Ext(name)))
	case s.meta[0] != "":
		i := strings.Index(line, "metadata:")
		if i < 0 {
			return false
		}
		v, _, _ := strings.Cut(line[i+9:], ";")
		for m := range strings.SplitSeq(v, ",") {
			if key, word, _ := strings.Cut(strings.TrimSpace(m), " "); key == s.meta[0] && strings.TrimSpace(word) == s.meta[1] {
				return true
			}
		}
		return false
	}
	return slices.Contains(s.ids, [2]uint64{gid, sid})
}

// apply returns the changed rule.
func (m *change) apply(body string) string {
	if m.meta == "" {
		return m.from.ReplaceAllString(body, m.to)
	}
	return strings.TrimSpace(strings.TrimSuffix(body, ")")) + " metadata:" + m.meta + ";)"
}

// Apply applies the choices to a rule file: disable, then enable, then modify, then drop, as
// suricata-update does. It keeps the numbers of lines.
func (c *Choice) Apply(file string, data []byte) []byte {
	if len(c.enable)+len(c.disable)+len(c.modify)+len(c.drop) == 0 {
		return data
	}
	var out bytes.Buffer
	whole, more := "", 0 // lines of a rule so far
	for raw := range strings.Lines(string(data)) {
		line := strings.TrimSpace(raw)
		if part, goesOn := strings.CutSuffix(line, `\`); goesOn && len(whole) < maxLine {
			whole, more = whole+part, more+1
			continue
		}
		out.WriteString(c.choose(file, whole+line))
		out.WriteString(strings.Repeat("\n", more+1))
		whole, more = "", 0
	}
	out.WriteString(whole)
	return out.Bytes()
}

// choose applies the choices to a line. It returns lines that are not rules unchanged.
func (c *Choice) choose(file, line string) string {
	body := strings.TrimSpace(strings.TrimLeft(line, "#"))
	m := sidOf.FindStringSubmatch(body)
	if m == nil || !strings.HasSuffix(body, ")") {
		return line
	}
	off := strings.HasPrefix(line, "#")
	sid, _ := strconv.ParseUint(m[1], 10, 32)
	gid := uint64(1)
	if g := gidOf.FindStringSubmatch(body); g != nil {
		gid, _ = strconv.ParseUint(g[1], 10, 32)
	}
	any := func(ss []selector) bool {
		return slices.ContainsFunc(ss, func(s selector) bool { return s.selects(file, body, gid, sid) })
	}
	off = (off || any(c.disable)) && !any(c.enable)
	for i := range c.modify {
		if c.modify[i].selects(file, body, gid, sid) {
			body = c.modify[i].apply(body)
		}
	}
	if any(c.drop) && !quietOf.MatchString(body) {
		body = actionOf.ReplaceAllString(body, "drop")
	}
	if off {
		return "#" + body
	}
	return body
}
