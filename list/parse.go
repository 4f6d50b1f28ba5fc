package list

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"shuultuur/content/charset"
	"shuultuur/dns"
	"shuultuur/list/adblock"
)

// maxLine is the longest line read, in bytes. A longer one is skipped and
// reported.
const maxLine = 64 << 10

// A parser reads the lines of one file into a builder.
type parser struct {
	b          *builder
	src        Source
	cat        uint16
	format     string
	exact      bool // entries match only the host
	first      uint32
	kept       int    // problems of this file kept in the report
	host       []byte // buffers
	path       []byte
	zone       zone
	columns    columns           // of csv
	categories map[string]uint16 // categories of json and csv entries
	rule       adblock.Rule
	err        error // error of the builder
}

// file reads the file called path in a line format; every entry is in category cat.
func (b *builder) file(r io.Reader, path, format, category string) error {
	br := bufio.NewReaderSize(r, maxLine)
	if enc := charsetOf(b.cfg.Charset, path, br); enc != nil {
		br = bufio.NewReaderSize(transform.NewReader(br, enc.NewDecoder()), maxLine)
	}
	if bom, _ := br.Peek(3); string(bom) == "\ufeff" {
		br.Discard(3)
	}
	if format == Auto {
		head, _ := br.Peek(maxLine)
		format = guess(head)
	}
	p := &parser{b: b, src: Source{Path: path, Format: format}, format: format, first: uint32(b.lines), path: make([]byte, 0, maxKey+1)}
	p.exact = format == Hosts
	if b.cfg.Subdomains != nil {
		p.exact = !*b.cfg.Subdomains
	}
	var err error
	if p.cat, err = b.categories.id(category); err != nil {
		return err
	}
	b.files = append(b.files, origin{path, p.first, b.when})
	if format == JSON {
		err = p.json(br)
	} else {
		err = p.lines(br)
	}
	p.end()
	return err
}

// charsetOf returns the encoding of a file that is not in UTF-8: of the charset
// it is said to have, of its byte order mark, or of the part of its name that
// is one. Nil is UTF-8.
func charsetOf(declared, name string, r *bufio.Reader) encoding.Encoding {
	if mark, _ := r.Peek(2); string(mark) == "\xff\xfe" || string(mark) == "\xfe\xff" {
		if mark[0] == 0xfe {
			return charset.UTF16BE
		}
		return charset.UTF16LE
	}
	if declared == "" {
		name = strings.ToLower(name)
		for _, x := range [...][2]string{
			{"koi8-r", "koi8-r"}, {"koi8-u", "koi8-u"}, {"-1251", "windows-1251"}, {"gb2312", "gb18030"}, {"big5", "big5"},
			{"euc-jp", "euc-jp"}, {"euc-kr", "euc-kr"}, {"shift_jis", "shift_jis"}, {"iso-8859-1", "windows-1252"}, {"iso-8859-2", "iso-8859-2"},
		} {
			if strings.Contains(path.Base(name), x[0]) {
				declared = x[1]
			}
		}
	}
	if e := charset.Get(declared); e != unicode.UTF8 {
		return e
	}
	return nil
}

// end adds the counts to the report.
func (p *parser) end() {
	b := p.b
	if p.src.Ignored > 0 {
		switch p.format {
		case Adblock:
			for _, what := range slices.Sorted(maps.Keys(b.rules.unused)) {
				p.note(0, fmt.Sprintf("%d rules for %s are not used", b.rules.unused[what], what))
			}
			b.rules.unused = nil
		case Expressions:
			p.note(0, fmt.Sprintf("%d expressions are marked very restrictive and are not used", p.src.Ignored))
		}
	}
	b.lines += uint64(p.src.Lines)
	b.report.Lines += p.src.Lines
	b.report.Bad += p.src.Bad
	b.report.Ignored += p.src.Ignored
	b.report.Sources = append(b.report.Sources, p.src)
}

func (p *parser) lines(r *bufio.Reader) error {
	line := p.lineReader()
	for {
		s, err := r.ReadSlice('\n')
		if err == io.EOF && len(s) == 0 {
			return nil
		}
		if p.src.Lines++; p.b.lines+uint64(p.src.Lines) > maxInFile {
			return errors.New("more than 4 billion lines")
		}
		if p.src.Lines&0xfff == 0 && p.b.ctx.Err() != nil {
			return p.b.ctx.Err()
		}
		switch {
		case err == bufio.ErrBufferFull:
			p.refuse(s[:80], fmt.Sprintf("is the beginning of a line longer than %d bytes", maxLine))
			for err == bufio.ErrBufferFull {
				_, err = r.ReadSlice('\n')
			}
		case err == nil || err == io.EOF:
			line(bytes.TrimSpace(s))
		}
		if p.err != nil {
			return p.err
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", p.src.Path, p.src.Lines, err)
		}
	}
}

func (p *parser) lineReader() func([]byte) {
	switch p.format {
	case Hosts:
		return p.hostsLine
	case Adblock:
		return p.adblockLine
	case Dnsmasq:
		return p.dnsmasqLine
	case Pihole:
		return p.piholeLine
	case Unbound:
		return p.unboundLine
	case RPZ:
		return p.rpzLine
	case Networks:
		return p.networkLine
	case E2guardian:
		return p.itemLine
	case Expressions:
		if strings.HasPrefix(path.Base(p.src.Path), "very_restrictive") {
			return func(s []byte) {
				if len(s) > 0 && s[0] != '#' {
					p.src.Ignored++
				}
			}
		}
		return p.expressionLine
	case E2guardianRegexp:
		return p.expressionLine
	case CSV:
		return p.csvLine
	}
	return p.domainLine // domains, wildcard
}

// refuse counts the input s as refused.
func (p *parser) refuse(s []byte, reason string) {
	p.src.Bad++
	p.keep(Problem{File: p.src.Path, Line: p.src.Lines}, func() string { return quote(s) + " " + reason })
}

// remark reports a line that is odd but used.
func (p *parser) remark(s []byte, reason string) {
	p.keep(Problem{File: p.src.Path, Line: p.src.Lines, Kept: true}, func() string { return quote(s) + " " + reason })
}

func (p *parser) note(line int, reason string) {
	p.keep(Problem{File: p.src.Path, Line: line, Kept: true}, func() string { return reason })
}

func (p *parser) keep(x Problem, reason func() string) {
	if p.kept < keptPerFile && len(p.b.report.Problems) < keptInAll {
		x.Reason = reason()
		p.b.report.Problems = append(p.b.report.Problems, x)
		p.kept++
	}
}

// cutComment cuts off a comment: "#" at the beginning or after white space, so that "#" inside
// a URL is kept.
func cutComment(s []byte) []byte {
	for i := 0; i < len(s); {
		j := bytes.IndexByte(s[i:], '#')
		if j < 0 {
			break
		}
		if i += j; i == 0 || s[i-1] == ' ' || s[i-1] == '\t' {
			return bytes.TrimSpace(s[:i])
		}
		i++
	}
	return s
}

// domainLine reads a host or URL. "*.host" and ".host" equal "host".
func (p *parser) domainLine(s []byte) {
	if s = cutComment(s); len(s) > 0 {
		p.item(s)
	}
}

// item adds a host or URL as people write them.
func (p *parser) item(s []byte) {
	if dns.IsHost(s) {
		p.add(s, nil, 0)
		return
	}
	raw := s
	if isNetwork(s) {
		p.refuse(raw, "is a network: lists contain hosts and URLs")
		return
	}
	if rest, ok := cutScheme(s); ok {
		p.remark(raw, "has a scheme, which is ignored")
		s = rest
	}
	host, path := s, []byte(nil)
	if i := bytes.IndexAny(s, "/?"); i >= 0 {
		host, path = s[:i], s[i:]
	}
	if rest, ok := cutPort(host); ok {
		p.remark(raw, "has a port, which is ignored: entries cover all ports")
		host = rest
	}
	tree := false // explicit: a whole top-level domain is meant
	if rest, ok := bytes.CutPrefix(host, []byte("*.")); ok {
		host, tree = rest, true
	} else if rest, ok := bytes.CutPrefix(host, []byte(".")); ok {
		host, tree = rest, true
	}
	name, reason := dns.Host(p.host[:0], host)
	p.host = name
	switch {
	case reason != "":
		p.refuse(raw, reason)
		return
	case !tree && !p.exact && bytes.IndexByte(name, '.') < 0 && bytes.IndexByte(name, ':') < 0 && len(path) <= 1:
		p.refuse(raw, fmt.Sprintf("is a top-level domain; write %q if you mean all of it", "."+string(name)))
		return
	}
	clean, ok := p.cleanEntry(path)
	if !ok || len(name)+len(clean) > maxKey {
		p.refuse(raw, fmt.Sprintf("is longer than %d bytes", maxKey))
		return
	}
	p.add(name, clean, 0)
}

// cleanEntry brings the path of an entry into the form for comparison. "" means no path.
func (p *parser) cleanEntry(path []byte) (clean []byte, ok bool) {
	if len(path) == 0 {
		return nil, true
	}
	if path[0] == '?' {
		path = append([]byte("/"), path...)
	}
	clean = cleanPath(p.path[:0], path)
	if len(clean) > maxKey {
		return nil, false
	}
	if p.b.cfg.Match == Boundary {
		clean = bytes.TrimSuffix(clean, []byte("/"))
	}
	return clean, true
}

func (p *parser) add(host, path []byte, flags uint8) {
	if p.exact && len(path) == 0 {
		flags |= flagExact
	}
	if err := p.b.entries.add(host, path, p.cat, flags, p.line()); err != nil {
		p.err = err
	}
}

// line returns the number of the current line, counted over all files.
func (p *parser) line() uint32 { return p.first + uint32(p.src.Lines) - 1 }

// name adds a text that must be a host.
func (p *parser) name(s []byte, flags uint8) {
	if dns.IsHost(s) {
		p.add(s, nil, flags)
		return
	}
	name, reason := dns.Host(p.host[:0], s)
	p.host = name
	if reason != "" {
		p.refuse(s, reason)
		return
	}
	p.add(name, nil, flags)
}

// isNetwork distinguishes 10.0.0.0/8 from 10.1.2.3/8, which may be a URL.
func isNetwork(s []byte) bool {
	i := bytes.IndexByte(s, '/')
	if i < 0 || len(s) > 50 || len(s)-i > 4 || len(s)-i < 2 || s[len(s)-1] < '0' || s[len(s)-1] > '9' {
		return false
	}
	n, err := netip.ParsePrefix(string(s))
	return err == nil && n == n.Masked()
}

func cutScheme(s []byte) ([]byte, bool) {
	i := bytes.Index(s, []byte("://"))
	if i < 0 {
		return s, false
	}
	switch strings.ToLower(string(s[:i])) {
	case "http", "https", "ftp":
		return s[i+3:], true
	}
	return s, false
}

// cutPort cuts ":80" from a host that is not a bare IPv6 address.
func cutPort(host []byte) ([]byte, bool) {
	i := bytes.LastIndexByte(host, ':')
	if i < 0 || bytes.IndexByte(host[:i], ':') >= 0 && host[i-1] != ']' {
		return host, false
	}
	if i+1 == len(host) || len(host)-i > 6 {
		return host, false
	}
	for _, c := range host[i+1:] {
		if c < '0' || c > '9' {
			return host, false
		}
	}
	return host[:i], true
}

// hostsLine reads an address and names, as in hosts(5).
func (p *parser) hostsLine(s []byte) {
	if i := bytes.IndexByte(s, '#'); i >= 0 {
		s = s[:i]
	}
	addr, rest := field(s)
	if len(addr) == 0 {
		return
	}
	if !isAddr(addr) {
		p.refuse(addr, "is not an address: a line of a hosts file is an address and names")
		return
	}
	name, rest := field(rest)
	if len(name) == 0 {
		p.refuse(addr, "has no name")
		return
	}
	for ; len(name) > 0; name, rest = field(rest) {
		if isLocal(name) {
			p.src.Ignored++
			continue
		}
		p.name(name, 0)
	}
}

// isAddr reports whether s is an IP address. The two addresses of nearly all lines need no
// parsing.
func isAddr(s []byte) bool {
	if string(s) == "0.0.0.0" || string(s) == "127.0.0.1" {
		return true
	}
	if len(s) > 64 {
		return false
	}
	_, err := netip.ParseAddr(string(s))
	return err == nil
}

// isLocal reports whether a name is one of those every hosts file has for the
// machine itself, which are not part of the list.
func isLocal(name []byte) bool {
	switch string(name) {
	case "localhost", "localhost.localdomain", "local", "broadcasthost", "0.0.0.0",
		"ip6-localhost", "ip6-loopback", "ip6-localnet", "ip6-mcastprefix",
		"ip6-allnodes", "ip6-allrouters", "ip6-allhosts":
		return true
	}
	return false
}

// field cuts off the first word of s.
func field(s []byte) (word, rest []byte) {
	i := 0
	for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
		i++
	}
	j := i
	for j < len(s) && s[j] != ' ' && s[j] != '\t' {
		j++
	}
	return s[i:j], s[j:]
}

// adblockLine reads a rule of an ad blocker. A rule about a whole host is an entry; one that
// depends on more of a request goes into the table of rules; one that only a browser can apply
// is counted.
func (p *parser) adblockLine(s []byte) {
	if i := bytes.IndexAny(s, " \t"); i > 0 && isAddr(s[:i]) {
		p.hostsRule(s[:i], s)
		return
	}
	if !p.exact {
		p.rule.Parse(s)
		p.adblockRule(s)
		return
	}
	// Where names match only the host, a rule still states its own scope.
	if isBareName(s) {
		p.name(s, 0)
		return
	}
	p.exact = false
	p.rule.Parse(s)
	p.adblockRule(s)
	p.exact = true
}

// isBareName reports whether s is a name and not a rule.
func isBareName(s []byte) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' && c < 0x80 {
			return false
		}
	}
	return bytes.IndexByte(s, '.') > 0
}

// piholeLine reads a regular expression of Pi-hole.
func (p *parser) piholeLine(s []byte) {
	remark := p.rule.ParsePihole(s, func() { p.adblockRule(s) })
	switch {
	case p.rule.Kind == adblock.Bad:
		p.refuse(s, p.rule.Reason)
	case remark != "":
		p.remark(s, remark)
	}
}

// adblockRule adds the parsed line s.
func (p *parser) adblockRule(s []byte) {
	switch r := &p.rule; r.Kind {
	case adblock.Host:
		p.adblockHost(r)
	case adblock.Network, adblock.Page, adblock.Cosmetic:
		if err := p.b.rules.add(r, p.cat, p.line()); err != nil {
			p.refuse(s, err.Error())
		} else if r.BadFilter {
			p.b.bad = append(p.b.bad, r.Canonical())
		}
	case adblock.Unsupported:
		p.countUnused(r.Reason)
	case adblock.Bad:
		p.refuse(s, r.Reason)
	}
}

// add adds a rule.
func (b *ruleBuilder) add(r *adblock.Rule, category uint16, line uint32) error {
	if r.Kind == adblock.Cosmetic {
		return b.cosmetics.Add(r, line)
	}
	if r.Effects != 0 {
		if err := b.pages.Add(r, category, line); err != nil {
			return err
		}
	}
	if r.Kind == adblock.Page {
		return nil
	}
	return b.requests.Add(r, category, line)
}

// hostsRule reads a line of a hosts file among rules, which matches only the host. An address
// that is not a sink is the answer of a name server.
func (p *parser) hostsRule(addr, s []byte) {
	a, err := netip.ParseAddr(string(addr))
	if err != nil || a.IsUnspecified() || a.IsLoopback() {
		exact := p.exact
		p.exact = p.b.cfg.Subdomains == nil || !*p.b.cfg.Subdomains
		p.hostsLine(s)
		p.exact = exact
		return
	}
	s, _, _ = bytes.Cut(s, []byte("#"))
	_, rest := field(s)
	for name, rest := field(rest); len(name) > 0; name, rest = field(rest) {
		if _, reason := dns.Host(p.host[:0], name); reason != "" {
			p.refuse(name, reason)
			continue
		}
		p.rule.Parse(fmt.Appendf(nil, "|%s|$dnsrewrite=%v", name, a.WithZone("")))
		p.adblockRule(s)
	}
}

func (p *parser) adblockHost(r *adblock.Rule) {
	var flags uint8
	if r.Exception {
		flags |= flagException
	}
	if r.Important {
		flags |= flagImportant
	}
	if !r.BadFilter {
		p.name(r.Host, flags)
		return
	}
	if name, reason := dns.Host(nil, r.Host); reason == "" {
		if p.b.dropped == nil {
			p.b.dropped = map[string]bool{}
		}
		key := string(append([]byte{flags}, name...))
		p.b.dropped[key] = true
		p.b.bad = append(p.b.bad, key)
	}
}

// countUnused counts an unused rule.
func (p *parser) countUnused(what string) {
	p.src.Ignored++
	if p.b.rules.unused == nil {
		p.b.rules.unused = map[string]int{}
	}
	if _, ok := p.b.rules.unused[what]; ok || len(p.b.rules.unused) < keptPerFile {
		p.b.rules.unused[what]++
	}
}

// dnsmasqLine reads address=/host/…, server=/host/ and local=/host/, each with one or more
// hosts.
func (p *parser) dnsmasqLine(s []byte) {
	if len(s) == 0 || s[0] == '#' {
		return
	}
	s = cutComment(s)
	key, value, ok := bytes.Cut(s, []byte("="))
	key = bytes.TrimSpace(key)
	switch string(key) {
	case "address", "server", "local":
	default:
		p.src.Ignored++
		return
	}
	value = bytes.TrimSpace(value)
	last := bytes.LastIndexByte(value, '/')
	if !ok || last <= 0 || value[0] != '/' {
		p.refuse(s, fmt.Sprintf("names no host: write %s=/host/", key))
		return
	}
	if string(key) != "address" && last+1 < len(value) { // an upstream for the host, not a rule
		p.src.Ignored++
		return
	}
	for host := range bytes.SplitSeq(value[1:last], []byte("/")) {
		p.name(host, 0)
	}
}

// guess detects the format of a file by its first lines: the one most of them have, or the one
// it declares.
func guess(head []byte) string {
	var votes [len(guesses)]int
	seen := 0
	if isJSON(bytes.TrimSpace(head)) {
		return JSON
	}
	for line := range bytes.Lines(head) {
		line = bytes.TrimSpace(line)
		if bytes.HasPrefix(line, []byte("[Adblock")) || bytes.HasPrefix(line, []byte("[uBlock")) {
			return Adblock
		}
		if bytes.HasPrefix(line, []byte("#listcategory:")) || bytes.HasPrefix(line, []byte(".Include<")) {
			return E2guardian
		}
		if i := vote(line); i >= 0 {
			votes[i]++
			if seen++; seen == 500 {
				break
			}
		}
	}
	best := 0
	for i, n := range votes {
		if n > votes[best] {
			best = i
		}
	}
	return guesses[best]
}

// isJSON distinguishes an array of strings or objects, or an object, from "[Adblock".
func isJSON(s []byte) bool {
	if len(s) == 0 || s[0] != '[' && s[0] != '{' {
		return false
	}
	rest := bytes.TrimSpace(s[1:])
	return len(rest) > 0 && (rest[0] == '"' || s[0] == '[' && (rest[0] == '{' || rest[0] == ']'))
}

// guesses are the formats that lines reveal; if none does, it is the first.
var guesses = [...]string{Domains, Hosts, Adblock, Wildcard, Dnsmasq, Unbound, RPZ, Networks}

// vote returns the index in guesses of the format that a line suggests, -1 if it fits any.
func vote(s []byte) int {
	begins := func(with string) bool { return bytes.HasPrefix(s, []byte(with)) }
	switch {
	case len(s) == 0, s[0] == ';':
		return -1
	case begins("$TTL"), begins("$ORIGIN"), bytes.Contains(s, []byte(" CNAME ")), bytes.Contains(s, []byte("\tCNAME\t")),
		bytes.Contains(s, []byte(" SOA ")):
		return 6
	case begins("local-zone:"), begins("local-data:"):
		return 5
	case s[0] == '!', begins("||"), begins("@@"), s[0] != '#' && (bytes.Contains(s, []byte("##")) || bytes.IndexByte(s, '$') >= 0):
		return 2
	case begins("##") && len(s) > 2 && s[2] != '#' && s[2] != ' ':
		return 2
	case s[0] == '#':
		return -1
	case begins("*."):
		return 3
	case begins("address=/"), begins("server=/"), begins("local=/"):
		return 4
	}
	word, rest := field(s)
	if len(rest) > 0 && isAddr(word) {
		if rest, _ = field(rest); rest == nil || rest[0] == '#' || rest[0] == ';' {
			return -1
		}
		return 1
	}
	if c := s[0]; c >= '0' && c <= '9' || bytes.IndexByte(word, ':') >= 0 {
		if n, ok := parseNetwork(string(word[:min(len(word), 100)])); ok {
			if n.IsSingleIP() && len(rest) == 0 {
				return -1 // a host, or a network of one address
			}
			return 7
		}
		if _, _, ok := cutRange(string(s[:min(len(s), 100)])); ok {
			return 7
		}
	}
	if bytes.IndexByte(word, '.') > 0 {
		return 0
	}
	return -1
}
