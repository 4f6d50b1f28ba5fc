package rule

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

// maxLine limits the bytes of a rule; longer ones are mistakes. Suricata accepts 64 KiB.
const maxLine = 64 << 10

// A Parser parses rules. Make one with NewParser.
type Parser struct {
	keywords map[string]keyword
	// Features are the features that "requires: feature" finds.
	Features map[string]bool
	// Options makes the parser keep the options of rules as written.
	Options bool
	// Beside are the other files in tarballs and folders, by the names that [Files] gives
	// them: scripts and lists that rules may name.
	Beside map[string][]byte
	// Source is that of the rules that are read next.
	Source string

	kept     map[string]string // words that rules share
	rules    Slab[Rule]
	groups   Slab[Group]
	contents Slab[Content]
	// Memory for the lists in rules.
	lists      Slab[*Group]
	matches    Slab[Match]
	conditions Slab[Condition]
	words      Slab[string]
	bytes      Slab[byte]
	flows      map[Flow]*Flow
	heads      map[string]*Header // by their text
}

// NewParser makes a parser.
func NewParser() *Parser {
	return &Parser{keywords: table(), kept: map[string]string{}, flows: map[Flow]*Flow{}, heads: map[string]*Header{}, Beside: map[string][]byte{}, Features: map[string]bool{"ja3": true, "ja4": true, "lua": true, "magic": true, "output::file-store": true, "output::eve-log": true}}
}

// intern returns a copy of a word that rules share. It does not keep the whole line in memory.
func (p *Parser) intern(word string) string {
	k, ok := p.kept[word]
	if !ok {
		k = p.clone(word)
		p.kept[k] = k
	}
	return k
}

// clone copies a string to memory shared with other rules.
func (p *Parser) clone(s string) string {
	if s == "" {
		return ""
	}
	b := p.bytes.Slice(len(s))
	copy(b, s)
	return unsafe.String(&b[0], len(b))
}

// A parser parses one rule.
type parser struct {
	*Parser
	rule *Rule
	cur  *Group   // the open sticky buffer, nil if none
	text *Content // the last content, which modifiers change
	in   *Group   // the group of text
	sets map[string]int
	b64  *Base64
	// opened is a sticky buffer without a match so far.
	opened Option
}

// Read parses every rule in r, which errors call name. It skips rules that are commented out.
// It returns the rules without mistakes, and the mistakes.
func (p *Parser) Read(name string, r io.Reader) (rules []*Rule, mistakes []*Error, err error) {
	in := bufio.NewReaderSize(r, 4*maxLine)
	line, from := 0, 0
	var pending strings.Builder
	for ended := false; !ended; {
		text, size, err := readLine(in)
		if ended = err == io.EOF; err != nil && !ended {
			return rules, mistakes, fmt.Errorf("reading rules %s: %w", name, err)
		}
		if line++; line == 1 {
			text = strings.TrimPrefix(text, "\ufeff")
		}
		if text = strings.TrimSpace(text); size > in.Size() {
			if !strings.HasPrefix(text, "#") {
				mistakes = append(mistakes, &Error{File: name, Line: line, Err: tooLong(size)})
			}
			pending.Reset()
			continue
		}
		if pending.Len() == 0 {
			from = line
			if text == "" || text[0] == '#' {
				continue
			}
		}
		if cont, ok := strings.CutSuffix(text, "\\"); ok && !ended && pending.Len() < maxLine {
			pending.WriteString(cont)
			continue
		}
		if pending.Len() > 0 {
			pending.WriteString(text)
			text = pending.String()
			pending.Reset()
		}
		q, e := p.Parse(text)
		if e != nil {
			e.File, e.Line = name, from
			mistakes = append(mistakes, e)
			continue
		}
		q.File, q.Line, q.Source = name, from, p.Source
		rules = append(rules, q)
	}
	return rules, mistakes, nil
}

func tooLong(size int) error {
	return fmt.Errorf("the rule has %d bytes; at most %d are possible", size, maxLine)
}

// readLine returns a line without its end, and its size. Of a line that is larger than the buffer it
// returns the beginning.
func readLine(in *bufio.Reader) (text string, size int, err error) {
	b, err := in.ReadSlice('\n')
	text, size = string(b), len(b)
	for err == bufio.ErrBufferFull {
		b, err = in.ReadSlice('\n')
		size += len(b)
	}
	return text, size, err
}

// Parse parses one rule.
func (p *Parser) Parse(text string) (*Rule, *Error) {
	if len(text) > maxLine {
		return nil, &Error{Err: tooLong(len(text))}
	}
	r := p.rules.New()
	r.GID, r.Rare, r.Header = 1, &Rare{}, &Header{}
	q := &parser{Parser: p, rule: r, sets: map[string]int{}}
	open := strings.IndexByte(text, '(')
	if open < 0 {
		return nil, &Error{Err: errors.New(`there is no "("; write the options as (msg:"..."; sid:1;)`)}
	}
	body := strings.TrimSpace(text[open+1:])
	body, ok := strings.CutSuffix(body, ")")
	if !ok {
		return nil, &Error{Err: errors.New(`the rule does not end with ")"`)}
	}
	if q.unmet(body) {
		return r, nil
	}
	head := p.intern(text[:open])
	if r.Header = p.heads[head]; r.Header == nil {
		r.Header = &Header{}
		if err := r.Header.parse(head); err != nil {
			return nil, &Error{Err: err}
		}
		p.heads[head] = r.Header
	}
	for body = strings.TrimSpace(body); body != ""; body = strings.TrimSpace(body) {
		o, rest, err := option(body)
		if err != nil {
			return nil, &Error{Err: err}
		}
		body = rest
		if err := q.take(o); err != nil {
			return nil, &Error{Keyword: o.Name, Err: err}
		}
	}
	if err := q.finish(); err != nil {
		return nil, &Error{Err: err}
	}
	if x := r.Rare; len(x.Vars)+len(x.Packet)+len(x.Foreign)+len(x.Options) == 0 && x.Skip == "" {
		r.Rare = &noRare
	}
	return r, nil
}

// unmet reports whether the rule requires something that this engine lacks. Its other options
// may then be unknown, too.
func (p *parser) unmet(body string) bool {
	if !strings.Contains(body, "requires") {
		return false
	}
	for rest := body; rest != ""; rest = strings.TrimSpace(rest) {
		o, next, err := option(rest)
		if err != nil {
			return false
		}
		if rest = next; o.Name == "requires" && readRequires(p, o) != nil {
			return false
		}
		if o.Name == "sid" {
			_ = readAbout(p, o)
		}
	}
	if p.rule.Skip == "" {
		p.rule.SID = 0
	}
	return p.rule.Skip != ""
}

// take parses one option.
func (p *parser) take(o Option) error {
	k, ok := p.keywords[o.Name]
	if !ok {
		return errors.New("the keyword is unknown; \"shuultuur rules keywords\" lists them")
	}
	if p.Options {
		p.rule.Options = append(p.rule.Options, o)
	}
	o.Name = p.intern(o.Name)
	switch o.Name {
	case "metadata", "content", "uricontent": // parts of these are kept
	case "msg", "pcre":
		o.Value = p.clone(o.Value)
	default:
		o.Value = p.intern(o.Value)
	}
	switch k.class {
	case Packets:
		p.rule.Packet = append(p.rule.Packet, o.Name)
	case Foreign:
		p.rule.Foreign = append(p.rule.Foreign, o.Name)
	}
	return k.read(p, o)
}

// option splits the first option from body.
func option(body string) (Option, string, error) {
	i := strings.IndexAny(body, ":;")
	if i < 0 {
		return Option{}, "", fmt.Errorf("%.40q does not end with \";\"", body)
	}
	name := strings.TrimSpace(body[:i])
	if body[i] == ';' {
		return Option{Name: name}, body[i+1:], nil
	}
	quoted, escaped := false, false
	for j := i + 1; j < len(body); j++ {
		switch c := body[j]; {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case c == ';':
			// As in Suricata, a semicolon ends the option even within quotes.
			return Option{Name: name, Value: strings.TrimSpace(body[i+1 : j]), Has: true}, body[j+1:], nil
		}
	}
	return Option{}, "", fmt.Errorf("%s: %.40q does not end with \";\"", name, body[i+1:])
}

// parse parses the words before the parenthesis.
func (h *Header) parse(text string) error {
	words := fields(text)
	if len(words) != 7 {
		return fmt.Errorf("%q has %d words, want action, protocol, source, port, direction, destination, port", strings.TrimSpace(text), len(words))
	}
	actions := map[string]Action{"alert": Alert, "pass": Pass, "drop": Drop, "reject": Reject, "rejectsrc": Reject, "rejectdst": RejectDst, "rejectboth": RejectBoth, "config": Config}
	a, ok := actions[words[0]]
	if !ok {
		// accept means pass in firewall rules of Suricata 8.
		return fmt.Errorf("%q is not an action; use alert, pass, drop, reject, rejectsrc, rejectdst or rejectboth", words[0])
	}
	h.Action = a
	h.Proto, h.Hook, _ = strings.Cut(strings.ToLower(words[1]), ":")
	if !protocols[h.Proto] {
		return fmt.Errorf("%q is not a protocol; use ip, tcp, udp, icmp, http, http1, http2, tls, dns or one of Suricata's others", words[1])
	}
	h.Src, h.SrcPort, h.Dst, h.DstPort = words[2], words[3], words[5], words[6]
	switch words[4] {
	case "->":
	case "<>":
		h.Twoway = true
	case "=>":
		h.Exchange = true
	default:
		return fmt.Errorf("%q is not a direction; use ->, <> or =>", words[4])
	}
	for _, a := range []string{h.Src, h.Dst} {
		if err := balanced(a); err != nil {
			return err
		}
	}
	for _, port := range []string{h.SrcPort, h.DstPort} {
		if err := balanced(port); err != nil {
			return err
		}
	}
	return nil
}

var protocols = func() map[string]bool {
	m := map[string]bool{}
	for _, p := range strings.Fields(`ip ip4 ip6 ipv4 ipv6 tcp tcp-pkt tcp-stream udp icmp icmpv4 icmpv6 sctp pkthdr igmp arp ether
		http http1 http2 tls ssl dns doh2 ftp ftp-data smtp ssh smb dcerpc nfs tftp ikev2 ike krb5 ntp dhcp rfb rdp snmp sip
		modbus dnp3 enip template websocket mqtt pgsql telnet ldap quic bittorrent-dht imap pop3 jabber irc msn sdp mdns llmnr
		socks vxlan ftpdata tcp4 tcp6 gre esp ah 41 47 50`) {
		m[p] = true
	}
	return m
}()

// fields splits at white space outside brackets.
func fields(s string) (words []string) {
	depth, from := 0, -1
	for i := range len(s) {
		c := s[i]
		switch {
		case c == '[':
			depth++
		case c == ']':
			depth--
		}
		if space := c == ' ' || c == '\t'; space && depth <= 0 {
			if from >= 0 {
				words = append(words, s[from:i])
				from = -1
			}
		} else if from < 0 {
			from = i
		}
	}
	if from >= 0 {
		words = append(words, s[from:])
	}
	return words
}

func balanced(s string) error {
	depth := 0
	for _, c := range s {
		switch c {
		case '[':
			depth++
		case ']':
			depth--
		}
		if depth < 0 {
			break
		}
	}
	if depth != 0 {
		return fmt.Errorf("%q: a bracket is missing", s)
	}
	return nil
}

// unquote removes quotes and the negation from a value.
func unquote(v string) (s string, negated bool) {
	if rest, ok := strings.CutPrefix(v, "!"); ok {
		v, negated = strings.TrimSpace(rest), true
	}
	if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' {
		v = v[1 : len(v)-1]
	}
	return v, negated
}

// number parses a constant or the name of a variable.
func (p *parser) number(s string) (Number, error) {
	o, err := p.operand(s)
	if o.N != int64(int32(o.N)) {
		return Number{}, fmt.Errorf("%q is too large", s)
	}
	return Number{N: int32(o.N), Var: o.Var}, err
}

// operand parses a number to compare or calculate with.
func (p *parser) operand(s string) (Operand, error) {
	s = strings.TrimSpace(s)
	n, err := strconv.ParseInt(s, 0, 64)
	if err == nil {
		return Operand{N: n}, nil
	}
	if u, err := strconv.ParseUint(s, 0, 64); err == nil {
		return Operand{N: int64(u)}, nil
	}
	if i, ok := p.sets[s]; ok {
		return Operand{Var: int32(i)}, nil
	}
	return Operand{}, fmt.Errorf("%q is neither a number nor a variable that byte_extract or byte_math has set", s)
}

// define declares a variable.
func (p *parser) define(name string) (int, error) {
	if name == "" {
		return 0, errors.New("the variable has no name")
	}
	if i, ok := p.sets[name]; ok {
		return i, nil
	}
	p.rule.Vars = append(p.rule.Vars, name)
	p.sets[name] = len(p.rule.Vars)
	return len(p.rule.Vars), nil
}

// group returns the group of buffer b, and makes one if needed.
func (p *parser) group(b Buffer) *Group {
	for _, g := range p.rule.Groups {
		if g.Buffer == b && len(g.Transforms) == 0 {
			return g
		}
	}
	g := &Group{Buffer: b}
	p.rule.Groups = append(p.rule.Groups, g)
	return g
}

// open makes b the buffer of the following matches.
func (p *parser) open(b Buffer, o Option) error {
	if err := p.unused(); err != nil {
		return err
	}
	p.text, p.in = nil, nil
	if o.Name == "pkt_data" {
		p.cur = nil
		return nil
	}
	if b != OtherBuffer {
		p.opened = o
	}
	if b == Base64Data {
		if p.b64 == nil {
			return errors.New("there is no previous base64_decode")
		}
		p.cur = &Group{Buffer: Base64Data}
		return nil
	}
	for _, g := range p.rule.Groups {
		// A buffer with one element is continued; so is one with several if it has no matches
		// yet.
		if g.Buffer == b && len(g.Transforms) == 0 && (!b.Info().Multi || len(g.Matches) == 0 && !g.Absent) {
			p.cur = g
			return nil
		}
	}
	p.cur = p.groups.New()
	p.cur.Buffer = b
	p.rule.Groups = append(p.rule.Groups, p.cur)
	return nil
}

// unused returns an error if the last sticky buffer has no matches.
func (p *parser) unused() error {
	if p.opened.Name != "" {
		return fmt.Errorf("%s has no matches; add a content, or remove it", p.opened.Name)
	}
	return nil
}

// add appends a match to the open buffer.
func (p *parser) add(m Match) {
	p.opened = Option{}
	c, isContent := m.(*Content)
	if isContent {
		p.text = c
	}
	if p.cur != nil && p.cur.Buffer == Base64Data {
		p.b64.Inner = append(p.b64.Inner, m)
		p.cur.Matches = append(p.cur.Matches, m)
		return
	}
	g := p.cur
	if g == nil {
		g = p.group(Payload)
		// Matches relative to a content follow it when a modifier moves it.
		if !isContent && Relative(m) && p.in != nil {
			g = p.in
		}
	}
	g.Matches = append(g.Matches, m)
	if isContent {
		p.in = g
	}
}

// move moves the last content to buffer b.
func (p *parser) move(b Buffer, o Option) error {
	c := p.text
	if c == nil || p.in == nil {
		return errors.New("there is no previous content")
	}
	if p.in.Buffer != Payload {
		return fmt.Errorf("the previous content is already in %s", p.in.Buffer)
	}
	if o.Has {
		return fmt.Errorf("it takes no value, but has %q", o.Value)
	}
	p.in.Matches = slices.DeleteFunc(p.in.Matches, func(m Match) bool { return m == Match(c) })
	g := p.group(b)
	g.Matches = append(g.Matches, c)
	p.in = g
	return nil
}

// finish validates the rule as a whole.
func (p *parser) finish() error {
	r := p.rule
	if r.SID == 0 {
		return errors.New("there is no sid; every rule needs its own number, such as sid:1000001;")
	}
	if err := p.unused(); err != nil {
		return err
	}
	kept := r.Groups[:0]
	for _, g := range r.Groups {
		if len(g.Matches) > 0 || g.Absent {
			kept = append(kept, g)
		}
	}
	r.Groups = kept
	fast := 0
	for _, g := range r.Groups {
		if err := g.check(&fast); err != nil {
			return err
		}
	}
	if fast > 1 {
		return errors.New("more than one content has fast_pattern")
	}
	if err := r.conflicts(); err != nil {
		return err
	}
	p.settle()
	return nil
}

// settle copies the lists of a rule to shared memory, without spare capacity.
func (p *parser) settle() {
	r := p.rule
	for _, g := range r.Groups {
		g.Matches = p.matches.Copy(g.Matches)
	}
	r.Groups, r.Conditions = p.lists.Copy(r.Groups), p.conditions.Copy(r.Conditions)
	r.Metadata, r.References = p.words.Copy(r.Metadata), p.words.Copy(r.References)
}

// check validates the matches on a buffer and records which match depends on the previous one.
func (g *Group) check(fast *int) error {
	chain(g.Matches)
	for _, m := range g.Matches {
		c, ok := m.(*Content)
		if !ok {
			if b, ok := m.(*Base64); ok {
				chain(b.Inner)
			}
			continue
		}
		if c.Fast {
			*fast++
		}
		if g.Buffer.Info().Lower && len(g.Transforms) == 0 && !c.NoCase && g.Buffer == Host {
			for _, x := range c.Pattern {
				if x >= 'A' && x <= 'Z' {
					return fmt.Errorf("content %q in %s has capitals, which never match: write it in lower case", c.Pattern, g.Buffer)
				}
			}
		}
		if c.HasDepth && c.Depth.Var == 0 && !c.Starts && int(c.Depth.N) < len(c.Pattern) {
			return fmt.Errorf("content %q is longer than its depth %d", c.Pattern, c.Depth.N)
		}
	}
	return nil
}

// chain records which match depends on the cursor of the previous one.
func chain(ms []Match) {
	for i := 1; i < len(ms); i++ {
		if !Relative(ms[i]) {
			continue
		}
		for j := i - 1; j >= 0; j-- {
			switch m := ms[j].(type) {
			case *Content:
				if m.Negated {
					continue
				}
				m.RelativeNext = true
			case *PCRE:
				if m.Negated {
					continue
				}
				m.RelativeNext = true
			case *Base64, *Size, *Entropy, *Lua, *Dataset:
				continue
			}
			if !movesNot(ms[j]) {
				break
			}
		}
	}
}

// movesNot reports whether a match leaves the cursor unchanged, so that a following relative
// match also depends on the one before.
func movesNot(m Match) bool {
	switch m.(type) {
	case *DataAt, *ByteTest, *ByteMath, *ByteExtract:
		return true
	case *ByteJump:
		return true // it moves the cursor relative to the previous match
	}
	return false
}

// Relative reports whether m depends on the cursor.
func Relative(m Match) bool {
	switch m := m.(type) {
	case *Content:
		return m.Relative()
	case *PCRE:
		return m.Relative
	case *DataAt:
		return m.Relative
	case *ByteTest:
		return m.Relative
	case *ByteJump:
		return m.Relative
	case *ByteExtract:
		return m.Relative
	case *ByteMath:
		return m.Relative
	case *Base64:
		return m.Relative
	}
	return false
}
