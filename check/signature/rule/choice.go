package rule

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// A Choice is what enable.conf, disable.conf, modify.conf and drop.conf of
// suricata-update say: which rules are on, which are changed, and which drop.
type Choice struct {
	Files                 []string
	enable, disable, drop []selector
	modify                []change
}

// A selector names rules: by number, by an expression on the rule, by the group
// (the rule file) or by metadata.
type selector struct {
	gid, sid uint64
	re       *regexp.Regexp
	group    string
	meta     [2]string
}

type change struct {
	selector
	from *regexp.Regexp
	to   string
}

// ReadChoice reads the files; an empty name stands for none.
func ReadChoice(enable, disable, modify, drop string) (*Choice, error) {
	c := &Choice{}
	for _, f := range []struct {
		name string
		to   *[]selector
	}{{enable, &c.enable}, {disable, &c.disable}, {drop, &c.drop}} {
		err := c.lines(f.name, func(line string) error {
			for part := range strings.SplitSeq(line, ",") {
				s, err := parseSelector(strings.TrimSpace(part))
				if err != nil {
					return err
				}
				*f.to = append(*f.to, s)
			}
			return nil
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

// lines reads a file of choices.
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
		if i := strings.Index(line, " #"); i >= 0 && !strings.Contains(line, `"`) {
			line = strings.TrimSpace(line[:i])
		}
		if err := read(line); err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	return s.Err()
}

func parseSelector(s string) (selector, error) {
	switch {
	case strings.HasPrefix(s, "re:"):
		re, err := regexp.Compile("(?i)" + strings.TrimSpace(s[3:]))
		if err != nil {
			return selector{}, fmt.Errorf("%q: %w", s, err)
		}
		return selector{re: re}, nil
	case strings.HasPrefix(s, "group:"):
		return selector{group: strings.TrimSpace(s[6:])}, nil
	case strings.HasPrefix(s, "filename:"):
		return selector{group: strings.TrimSpace(s[9:])}, nil
	case strings.HasPrefix(s, "metadata:"):
		f := strings.Fields(s[9:])
		if len(f) != 2 {
			return selector{}, fmt.Errorf("%q is not metadata: KEY VALUE", s)
		}
		return selector{meta: [2]string{f[0], f[1]}}, nil
	}
	gid, sid, ok := strings.Cut(s, ":")
	if !ok {
		gid, sid = "1", s
	}
	g, e1 := strconv.ParseUint(gid, 10, 32)
	n, e2 := strconv.ParseUint(sid, 10, 32)
	if e1 != nil || e2 != nil {
		if strings.HasSuffix(s, ".rules") {
			return selector{group: s}, nil
		}
		return selector{}, fmt.Errorf("%q is not SID, GID:SID, re:EXPRESSION, group:FILE or metadata: KEY VALUE", s)
	}
	return selector{gid: g, sid: n}, nil
}

// parseChange reads: SELECTOR "FROM" "TO", with modifysid as an optional first
// word.
func parseChange(line string) (change, error) {
	line = strings.TrimPrefix(line, "modifysid ")
	first := strings.IndexByte(line, '"')
	if first < 0 {
		return change{}, fmt.Errorf("%q is not SELECTOR \"FROM\" \"TO\"", line)
	}
	var parts []string
	for rest := line[first:]; len(parts) < 2; {
		rest = strings.TrimLeft(strings.TrimLeft(rest, " \t"), "|")
		rest = strings.TrimLeft(rest, " \t")
		if !strings.HasPrefix(rest, `"`) {
			return change{}, fmt.Errorf("%q is not SELECTOR \"FROM\" \"TO\"", line)
		}
		end := 1
		for end < len(rest) && (rest[end] != '"' || rest[end-1] == '\\') {
			end++
		}
		if end == len(rest) {
			return change{}, fmt.Errorf("%q: a quote is missing", line)
		}
		parts = append(parts, strings.ReplaceAll(rest[1:end], `\"`, `"`))
		rest = rest[end+1:]
	}
	who := strings.TrimSpace(line[:first])
	m := change{}
	var err error
	if who != "*" {
		if m.selector, err = parseSelector(who); err != nil {
			return change{}, err
		}
	} else {
		m.re = regexp.MustCompile("")
	}
	if m.from, err = regexp.Compile(parts[0]); err != nil {
		return change{}, err
	}
	m.to = regexp.MustCompile(`\\(\d+)`).ReplaceAllString(strings.ReplaceAll(parts[1], "$", "$$"), "$${$1}")
	return m, nil
}

var sidOf = regexp.MustCompile(`[;(]\s*sid\s*:\s*(\d+)`)
var gidOf = regexp.MustCompile(`[;(]\s*gid\s*:\s*(\d+)`)

// fits says whether a selector names the rule of a line.
func (s *selector) fits(file, line string, gid, sid uint64) bool {
	switch {
	case s.re != nil:
		return s.re.MatchString(line)
	case s.group != "":
		base := path.Base(strings.ReplaceAll(file, ":", "/"))
		ok, _ := path.Match(s.group, base)
		return ok || s.group == base || s.group == strings.TrimSuffix(base, ".rules")
	case s.meta[0] != "":
		i := strings.Index(line, "metadata:")
		if i < 0 {
			return false
		}
		v, _, _ := strings.Cut(line[i+9:], ";")
		for m := range strings.SplitSeq(v, ",") {
			if f := strings.Fields(m); len(f) == 2 && f[0] == s.meta[0] && f[1] == s.meta[1] {
				return true
			}
		}
		return false
	}
	return s.sid == sid && s.gid == gid
}

// Apply returns a rule file with the choices applied: disable, then enable, then
// modify, then drop, as suricata-update does.
func (c *Choice) Apply(file string, data []byte) []byte {
	if len(c.enable)+len(c.disable)+len(c.modify)+len(c.drop) == 0 {
		return data
	}
	var out bytes.Buffer
	for raw := range strings.Lines(string(data)) {
		line := strings.TrimSpace(raw)
		body := strings.TrimSpace(strings.TrimLeft(line, "#"))
		m := sidOf.FindStringSubmatch(body)
		if m == nil || !strings.HasSuffix(body, ")") {
			out.WriteString(line + "\n")
			continue
		}
		off := strings.HasPrefix(line, "#")
		sid, _ := strconv.ParseUint(m[1], 10, 32)
		gid := uint64(1)
		if g := gidOf.FindStringSubmatch(body); g != nil {
			gid, _ = strconv.ParseUint(g[1], 10, 32)
		}
		any := func(ss []selector) bool {
			for i := range ss {
				if ss[i].fits(file, body, gid, sid) {
					return true
				}
			}
			return false
		}
		off = (off || any(c.disable)) && !any(c.enable)
		for i := range c.modify {
			if c.modify[i].fits(file, body, gid, sid) {
				body = c.modify[i].from.ReplaceAllString(body, c.modify[i].to)
			}
		}
		if any(c.drop) && !strings.Contains(body, "noalert;") {
			if rest, ok := strings.CutPrefix(body, "alert"); ok {
				body = "drop" + rest
			}
		}
		if off {
			out.WriteByte('#')
		}
		out.WriteString(body + "\n")
	}
	return out.Bytes()
}
