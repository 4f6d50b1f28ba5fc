package rule

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

func readForeign(p *parser, o Option) error {
	switch {
	case !o.Has && (strings.Contains(o.Name, ".") || strings.Contains(o.Name, "_")):
		// Most of these open a buffer, to which the following matches belong.
		p.cur = &Group{Buffer: OtherBuffer}
		p.rule.Groups = append(p.rule.Groups, p.cur)
		p.text, p.in = nil, nil
	}
	return nil
}

func readAbout(p *parser, o Option) error {
	v, _ := unquote(o.Value)
	if v == "" {
		return errors.New("the value is missing")
	}
	num := func(dst *uint32) error {
		n, err := strconv.ParseUint(v, 10, 32)
		if err != nil {
			return fmt.Errorf("%q is not a number from 0 to 4294967295", v)
		}
		*dst = uint32(n)
		return nil
	}
	r := p.rule
	switch o.Name {
	case "msg":
		if len(v)+2 != len(o.Value) {
			return errors.New("it needs quotes around the text, and a backslash before a semicolon in it")
		}
		r.Msg = unescape(v)
	case "sid":
		if r.SID != 0 {
			return errors.New("appears twice")
		}
		if err := num(&r.SID); err != nil {
			return err
		}
		if r.SID == 0 {
			return errors.New("0 is not allowed")
		}
	case "gid":
		return num(&r.GID)
	case "rev":
		return num(&r.Rev)
	case "classtype":
		r.Class = v
	case "priority":
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > 255 {
			return fmt.Errorf("%q is not a number from 1 to 255", v)
		}
		r.Priority = n
	case "reference":
		r.References = append(r.References, v)
	case "metadata":
		for m := range strings.SplitSeq(v, ",") {
			if m = strings.TrimSpace(m); m != "" {
				r.Metadata = append(r.Metadata, p.intern(m))
			}
		}
	case "target":
		if v != "src_ip" && v != "dest_ip" {
			return fmt.Errorf("%q is neither src_ip nor dest_ip", v)
		}
		r.Target = v
	}
	return nil
}

// unescape removes the backslashes from a msg.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte(`;:"\`, s[i+1]) >= 0 {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// ours is the version of Suricata whose language the package implements.
var ours = [3]int{9, 0, 0}

func readRequires(p *parser, o Option) error {
	v, _ := unquote(o.Value)
	for part := range strings.SplitSeq(v, ",") {
		word, rest, _ := strings.Cut(strings.TrimSpace(part), " ")
		rest = strings.TrimSpace(rest)
		switch word {
		case "version":
			ok, err := versions(rest)
			if err != nil {
				return err
			}
			if !ok {
				p.rule.Skip = "requires Suricata " + rest
			}
		case "feature":
			if !p.Features[rest] {
				p.rule.Skip = "requires the feature " + rest
			}
		case "keyword":
			if _, ok := p.keywords[rest]; !ok {
				p.rule.Skip = "requires the keyword " + rest
			}
		default:
			p.rule.Skip = "requires " + part
		}
	}
	return nil
}

// versions reports whether our version satisfies alternatives such as ">= 7.0.3 < 8
//
// >= 9".
func versions(s string) (bool, error) {
	for alt := range strings.SplitSeq(s, "|") {
		words := strings.Fields(spaced(alt))
		all := len(words) > 0
		for i := 0; i+1 < len(words); i += 2 {
			var v [3]int
			num, _, _ := strings.Cut(words[i+1], "-")
			for j, part := range strings.SplitN(num, ".", 3) {
				n, err := strconv.Atoi(part)
				if err != nil {
					return false, fmt.Errorf("%q is not a version such as 7.0.3", words[i+1])
				}
				v[j] = n
			}
			cmp := 0
			for j := range v {
				if cmp == 0 && ours[j] != v[j] {
					cmp = -1
					if ours[j] > v[j] {
						cmp = 1
					}
				}
			}
			switch words[i] {
			case ">=":
				all = all && cmp >= 0
			case ">":
				all = all && cmp > 0
			case "<":
				all = all && cmp < 0
			case "<=":
				all = all && cmp <= 0
			case "==", "=":
				all = all && cmp == 0
			default:
				return false, fmt.Errorf("%q is not a comparison; use >=, >, <, <=", words[i])
			}
		}
		if all {
			return true, nil
		}
	}
	return false, nil
}

// spaced inserts spaces between comparisons and versions.
func spaced(s string) string {
	var b strings.Builder
	for i := range len(s) {
		op := strings.IndexByte("<>=", s[i]) >= 0
		if i > 0 && op != (strings.IndexByte("<>=", s[i-1]) >= 0) {
			b.WriteByte(' ')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func readNoAlert(p *parser, o Option) error { p.rule.NoAlert = true; return nil }
func readBypass(p *parser, o Option) error  { p.rule.Bypass = true; return nil }
func readAlert(p *parser, o Option) error   { p.rule.Alerts = true; return nil }

// ParsePattern parses the text of a content: bytes, hexadecimal between bars, and a backslash
// before special characters.
func ParsePattern(s string) ([]byte, error) {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '|':
			end := strings.IndexByte(s[i+1:], '|')
			if end < 0 {
				return nil, errors.New("the second \"|\" of the hexadecimal bytes is missing")
			}
			digits := strings.Map(func(r rune) rune {
				if r == ' ' || r == '\t' || r == ',' {
					return -1
				}
				return r
			}, s[i+1:i+1+end])
			if len(digits)%2 != 0 {
				return nil, fmt.Errorf("|%s| has an odd number of hexadecimal digits", s[i+1:i+1+end])
			}
			for j := 0; j < len(digits); j += 2 {
				n, err := strconv.ParseUint(digits[j:j+2], 16, 8)
				if err != nil {
					return nil, fmt.Errorf("%q is not a hexadecimal byte", digits[j:j+2])
				}
				out = append(out, byte(n))
			}
			i += end + 1
		case '\\':
			if i+1 == len(s) {
				return nil, errors.New("it ends with a backslash")
			}
			i++
			if strings.IndexByte(`\;:"|`, s[i]) < 0 {
				return nil, fmt.Errorf("\"\\%c\": only \\ ; : \" follow a backslash", s[i])
			}
			out = append(out, s[i])
		default:
			out = append(out, c)
		}
	}
	return out, nil
}

func readContent(p *parser, o Option) error {
	v, neg := unquote(o.Value)
	if v == "" {
		return errors.New("is empty")
	}
	pat, err := ParsePattern(v)
	if err != nil {
		return err
	}
	if len(pat) == 0 {
		return errors.New("is empty")
	}
	c := p.contents.New()
	c.Pattern, c.Negated = p.bytes.Copy(pat), neg
	p.add(c)
	return nil
}

func readURIContent(p *parser, o Option) error {
	cur := p.cur
	p.cur = p.group(URI)
	err := readContent(p, o)
	p.cur = cur
	return err
}

func (p *parser) content() (*Content, error) {
	if p.text != nil {
		return p.text, nil
	}
	return nil, errors.New("there is no previous content to modify")
}

func readFlag(p *parser, o Option) error {
	c, err := p.content()
	if err != nil {
		if o.Name == "rawbytes" {
			return nil
		}
		return err
	}
	switch o.Name {
	case "nocase":
		c.NoCase = true
	case "startswith":
		if c.HasOffset || c.HasDepth || c.HasDistance || c.HasWith {
			return errors.New("it cannot be used with offset, depth, distance or within of the same content")
		}
		c.Starts, c.HasDepth, c.HasOffset = true, true, true
		c.Depth, c.Offset = Number{N: int32(len(c.Pattern))}, Number{}
	case "endswith":
		c.Ends = true
	}
	return nil
}

func readFast(p *parser, o Option) error {
	c, err := p.content()
	if err != nil {
		return err
	}
	c.Fast = true
	switch {
	case !o.Has:
	case o.Value == "only":
		c.FastOnly = true
	default:
		a, b, ok := strings.Cut(o.Value, ",")
		off, e1 := strconv.Atoi(strings.TrimSpace(a))
		n, e2 := strconv.Atoi(strings.TrimSpace(b))
		if !ok || e1 != nil || e2 != nil || off < 0 || n <= 0 || off+n > len(c.Pattern) {
			return fmt.Errorf("%q is not an offset and a length within the content", o.Value)
		}
		c.FastOff, c.FastLen = uint16(off), uint16(n)
	}
	return nil
}

func readPrefilter(p *parser, o Option) error {
	if c := p.text; c != nil {
		c.Fast = true
	}
	return nil
}

func readPlace(p *parser, o Option) error {
	c, err := p.content()
	if err != nil {
		return err
	}
	if c.Starts {
		return errors.New("it cannot be used with startswith of the same content")
	}
	v, _ := unquote(o.Value)
	n, err := p.number(v)
	if err != nil {
		return err
	}
	if o.Name != "distance" && n.N < 0 {
		return fmt.Errorf("%d is negative", n.N)
	}
	if has := map[string]bool{"offset": c.HasOffset, "depth": c.HasDepth, "distance": c.HasDistance, "within": c.HasWith}; has[o.Name] {
		return errors.New("the content has one already; remove one of them")
	}
	switch o.Name {
	case "offset":
		c.HasOffset, c.Offset = true, n
	case "depth":
		c.HasDepth, c.Depth = true, n
	case "distance":
		c.HasDistance, c.Distance = true, n
	case "within":
		if n.Var == 0 && int(n.N) < len(c.Pattern) {
			return fmt.Errorf("%d is less than the %d bytes of the content, so that it never matches", n.N, len(c.Pattern))
		}
		c.HasWith, c.Within = true, n
	}
	return nil
}

// selectors are the flags of pcre that select a buffer.
var selectors = map[byte]Buffer{
	'U': URI, 'I': URIRaw, 'H': HeaderAll, 'D': HeaderRaw, 'M': Method, 'C': Cookie, 'P': RequestBody,
	'Q': FileData, 'V': UserAgent, 'W': Host, 'Z': HostRaw, 'S': StatCode, 'Y': StatMsg,
}

// readCaptures parses ", flow:NAME, pkt:NAME".
func readCaptures(v string) (cs []Capture, err error) {
	for name := range strings.SplitSeq(v, ",") {
		if name = strings.TrimSpace(name); name != "" {
			scope, what, ok := strings.Cut(name, ":")
			if !ok {
				return nil, fmt.Errorf("%q: a capture goes to flow:NAME, pkt:NAME or alert:NAME", name)
			}
			cs = append(cs, Capture{scope, what})
		}
	}
	return cs, nil
}

// capturesBegin finds the flags of an expression before the names of its groups, which may contain
// slashes.
var capturesBegin = regexp.MustCompile(`/[A-Za-z]*\s*,\s*(flow|pkt|alert):[^/]*(/[^/]*)*$`)

func readPCRE(p *parser, o Option) error {
	v, neg := o.Value, false
	if rest, ok := strings.CutPrefix(v, "!"); ok {
		v, neg = strings.TrimSpace(rest), true
	}
	var captures []Capture
	if end := strings.LastIndexByte(v, '"'); end > 0 && v[0] == '"' {
		cs, err := readCaptures(v[end+1:])
		if err != nil {
			return err
		}
		captures = cs
		v = v[1:end]
	}
	var at []int
	if strings.Contains(v, "flow:") || strings.Contains(v, "pkt:") || strings.Contains(v, "alert:") {
		at = capturesBegin.FindStringIndex(v)
	}
	if at != nil { // captures may also be inside the quotes
		flags := at[0] + strings.IndexByte(v[at[0]:], ',')
		cs, err := readCaptures(v[flags:])
		if err != nil {
			return err
		}
		captures, v = append(captures, cs...), strings.TrimRight(v[:flags], " \t")
	}
	if strings.HasPrefix(v, "^/") { // a mistake in published rules that Suricata accepts
		v = v[1:]
	}
	end := strings.LastIndexByte(v, '/')
	if len(v) < 2 || v[0] != '/' || end == 0 {
		return fmt.Errorf("%.40q is not /EXPRESSION/FLAGS", v)
	}
	m := &PCRE{Expr: v[1:end], Negated: neg, Captures: captures}
	buf, selected := Payload, false
	for _, f := range []byte(v[end+1:]) {
		switch {
		case strings.IndexByte("ismxAEGOB", f) >= 0:
			m.Flags += string(f)
		case f == 'R':
			m.Relative = true
		case selectors[f] != 0:
			buf, selected = selectors[f], true
		default:
			return fmt.Errorf("there is no flag %q", f)
		}
	}
	if _, err := Compile(m); err != nil {
		return err
	}
	if selected {
		cur := p.cur
		// Published rules have /Q on http.response_body, which Suricata accepts.
		if cur != nil && cur.Buffer != buf && cur.Buffer != Payload && (cur.Buffer != ResponseBody || buf != FileData) {
			return fmt.Errorf("a flag selects %s, but %s is open; write %s before it and omit the flag", buf, cur.Buffer, buf)
		}
		p.cur = p.group(buf)
		p.add(m)
		p.cur = cur
		return nil
	}
	p.add(m)
	return nil
}

func readDataAt(p *parser, o Option) error {
	parts := strings.Split(o.Value, ",")
	v, neg := unquote(strings.TrimSpace(parts[0]))
	n, err := p.number(v)
	if err != nil {
		return err
	}
	if n.Var == 0 && n.N < 0 {
		return fmt.Errorf("%d is negative", n.N)
	}
	m := &DataAt{At: n, Negated: neg}
	for _, w := range parts[1:] {
		switch w = strings.TrimSpace(w); w {
		case "relative":
			m.Relative = true
		case "rawbytes":
		default:
			return fmt.Errorf("%q is neither relative nor rawbytes", w)
		}
	}
	p.add(m)
	return nil
}

func readSize(p *parser, o Option) error {
	if p.cur == nil {
		return errors.New("it needs a sticky buffer before it, such as http.uri")
	}
	c, err := ParseCompare(o.Value)
	if err != nil {
		return err
	}
	p.add(&Size{c})
	return nil
}

func readAbsent(p *parser, o Option) error {
	if p.cur == nil {
		return errors.New("it needs a sticky buffer before it, such as http.referer")
	}
	p.cur.Absent, p.opened = true, Option{}
	switch o.Value {
	case "":
	case "or_else":
		p.cur.OrElse = true
	default:
		return fmt.Errorf("%q is not or_else", o.Value)
	}
	return nil
}

func readTransform(p *parser, o Option) error {
	if p.cur == nil {
		return errors.New("it needs a sticky buffer before it, such as http.uri")
	}
	v, _ := unquote(o.Value)
	t := Transform{o.Name, v}
	if err := checkTransform(t); err != nil {
		return err
	}
	// The buffer with transforms is a separate one.
	chain := append(append([]Transform(nil), p.cur.Transforms...), t)
	for _, g := range p.rule.Groups {
		if g != p.cur && g.Buffer == p.cur.Buffer && equal(g.Transforms, chain) && !g.Buffer.Info().Multi {
			p.cur = g
			return nil
		}
	}
	g := &Group{Buffer: p.cur.Buffer, Transforms: chain}
	p.cur = g
	p.rule.Groups = append(p.rule.Groups, g)
	return nil
}

func equal(a, b []Transform) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func checkTransform(t Transform) error {
	switch t.Name {
	case "xor", "pcrexform", "luaxform", "subslice":
		if t.Arg == "" {
			return errors.New("the value is missing")
		}
	}
	if t.Name == "luaxform" {
		script, _, _ := strings.Cut(t.Arg, ",")
		return CheckName(strings.TrimSpace(script))
	}
	if t.Name == "pcrexform" {
		_, err := Compile(&PCRE{Expr: t.Arg})
		return err
	}
	return nil
}

// ParseCompare parses a condition on an integer: 5, >5, <5, >=5, <=5, !5, 5<>9, 5-9,
// &0x80=0x80.
func ParseCompare(s string) (Compare, error) {
	s = strings.ReplaceAll(strings.TrimSpace(s), " ", "")
	bad := func() (Compare, error) {
		return Compare{}, fmt.Errorf("%q is not a number or a comparison such as >5, <5, >=5, <=5, !5, 5<>9", s)
	}
	parse := func(x string) (uint64, bool) {
		unit := uint64(1)
		for suffix, f := range map[string]uint64{"kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "kib": 1 << 10, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
			if y, ok := strings.CutSuffix(x, suffix); ok && !strings.HasPrefix(x, "0x") {
				x, unit = y, f
				break
			}
		}
		n, err := strconv.ParseUint(x, 0, 64)
		if err != nil {
			n, err = strconv.ParseUint(strings.TrimLeft(x, "0"), 10, 64)
		}
		return n * unit, err == nil
	}
	if rest, ok := strings.CutPrefix(s, "!"); ok && strings.Contains(rest, "-") {
		a, b, _ := strings.Cut(rest, "-")
		x, k1 := parse(a)
		y, k2 := parse(b)
		if !k1 || !k2 {
			return bad()
		}
		return Compare{Op: "!<>", A: x, B: y}, nil
	}
	if i := strings.Index(s, "<>"); i > 0 || strings.Contains(s, "-") && i < 0 {
		a, b, ok := strings.Cut(s, "<>")
		if !ok {
			a, b, _ = strings.Cut(s, "-")
		}
		x, k1 := parse(a)
		y, k2 := parse(b)
		if !k1 || !k2 || x >= y {
			return bad()
		}
		return Compare{Op: "<>", A: x, B: y}, nil
	}
	if strings.Contains(s, "&") {
		neg := strings.HasPrefix(s, "!")
		mask, val, ok := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(s, "!"), "&"), "=")
		if m, found := strings.CutSuffix(mask, "!"); found {
			mask, neg = m, true
		}
		x, k1 := parse(mask)
		y, k2 := x, true
		op := "&"
		if ok {
			y, k2 = parse(val)
		} else {
			op = "bits"
		}
		if !k1 || !k2 {
			return bad()
		}
		if neg {
			op = "!&"
		}
		return Compare{Op: op, A: x, B: y}, nil
	}
	for _, op := range []string{">=", "<=", "!=", ">", "<", "!", "="} {
		if rest, ok := strings.CutPrefix(s, op); ok {
			n, k := parse(rest)
			if !k {
				return bad()
			}
			if op == "!" {
				op = "!="
			}
			return Compare{Op: op, A: n}, nil
		}
	}
	n, ok := parse(s)
	if !ok {
		return bad()
	}
	return Compare{Op: "=", A: n}, nil
}
