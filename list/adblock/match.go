package adblock

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"slices"
	"sort"
	"strings"
	"unsafe"

	"golang.org/x/net/publicsuffix"

	"shuultuur/lib/ascii"
	"shuultuur/lib/dns"
)

// maxURL bounds the part of a URL that is examined, in bytes.
const maxURL = 4096

// A Request is a parsed request, to be matched against any number of Engines. It is not safe
// for concurrent use, and large (20 KB): reuse it.
type Request struct {
	typ      Type
	third    party
	url      []byte // in lower case
	original []byte
	host     string // of url
	hostAt   int

	tokens []uint32
	pages  []string // the page's host and its parent domains
	any    []string // the same, with name.* for each; made when needed
	hosts  []string // the request's own host and its parent domains

	page    *Request // the page itself, for exceptions of whole pages
	pageSet bool

	name   bool // a DNS query
	tunnel bool // a tunnel, matched by its host like a DNS query
	qtype  uint16
	client Client

	source           string
	buf, buf2        [maxURL]byte
	tokenBuf         [maxURL / 2]uint32
	pageBuf, hostBuf [32]string
	pageName         [256]byte
	entities         [512]byte
}

// A party reports whether a request goes to the site of its page. The public suffix list is
// consulted only when everything else in a rule matches.
type party uint8

const (
	unknown party = iota
	first
	third
)

// Set makes r a request of a type for a URL, with scheme and in any case, from a page on the
// host source, "" if unknown.
func (r *Request) Set(url string, typ Type, source string) {
	url = url[:min(len(url), maxURL)]
	r.typ, r.name, r.tunnel = typ, false, false
	r.original = append(r.buf2[:0], url...)
	r.url = r.buf[:0]
	for i := range len(url) {
		r.url = append(r.url, ascii.Lower(url[i]))
	}
	r.hostAt = 0
	if i := bytes.Index(r.url, []byte("://")); i >= 0 {
		r.hostAt = i + 3
	}
	end := len(r.url)
	if i := bytes.IndexAny(r.url[r.hostAt:], "/?#"); i >= 0 {
		end = r.hostAt + i
	}
	if i := bytes.LastIndexByte(r.url[r.hostAt:end], '@'); i >= 0 {
		r.hostAt += i + 1
	}
	host := r.url[r.hostAt:end]
	if i := bytes.LastIndexByte(host, ':'); i >= 0 && bytes.IndexByte(host[i:], ']') < 0 {
		host = host[:i]
	}
	r.host = asString(host)
	r.canonical()
	r.tokens = urlTokens(r.tokenBuf[:0], r.url)
	r.hosts = suffixes(r.hostBuf[:0], r.host)
	setPage(r, source)
}

// canonical writes a host that is an address in the form used by rules.
func (r *Request) canonical() {
	bare := strings.Trim(r.host, "[]")
	host := dns.Canonical(bare)
	if host == bare {
		return
	}
	if strings.IndexByte(host, ':') >= 0 {
		host = "[" + host + "]"
	}
	end := r.hostAt + len(r.host)
	r.url = slices.Concat(r.url[:r.hostAt], []byte(host), r.url[end:])
	r.original = slices.Concat(r.original[:r.hostAt], []byte(host), r.original[end:])
	r.url, r.original = r.url[:min(len(r.url), maxURL)], r.original[:min(len(r.original), maxURL)]
	r.host = asString(r.url[r.hostAt:min(r.hostAt+len(host), len(r.url))])
}

// SetDocument makes r a page, for rules about pages: it is its own page.
func (r *Request) SetDocument(url string, typ Type) {
	r.Set(url, typ, "")
	setPage(r, r.host)
}

// SetPage sets the host of the page that made the request.
func (r *Request) SetPage(host []byte) { setPage(r, host) }

func setPage[T string | []byte](r *Request, host T) {
	name := r.pageName[:0]
	for i := range min(len(host), cap(name)) {
		name = append(name, ascii.Lower(host[i]))
	}
	r.source = asString(name)
	r.pages, r.any = suffixes(r.pageBuf[:0], r.source), nil
	r.third, r.pageSet = unknown, false
}

// SetThirdParty sets the relation that a browser has reported between request and
// page, if the page's host is unknown.
func (r *Request) SetThirdParty(yes bool) {
	if r.third = first; yes {
		r.third = third
	}
}

// SetPopup marks r, a document, as requested by a page of another site, if it is.
func (r *Request) SetPopup() {
	if r.typ == Document && r.thirdParty() {
		r.typ |= Popup
	}
}

// thirdParty reports whether the page is of another site. An unknown page counts as one, as in
// ad blockers, but a document is its own page.
func (r *Request) thirdParty() bool {
	if r.third == unknown {
		if r.source == "" {
			r.SetThirdParty(r.typ&Document == 0)
		} else {
			r.SetThirdParty(!SameSite(r.host, r.source))
		}
	}
	return r.third == third
}

// anySuffix returns pages with name.* for each.
func (r *Request) anySuffix() []string {
	if r.any == nil {
		r.any = withAny(r.pages, r.source, r.entities[:0])
	}
	return r.any
}

// SameSite reports whether two hosts have the same registrable domain.
func SameSite(a, b string) bool { return a == b || site(a) == site(b) }

// site returns the registrable domain of a host, or the host itself.
func site(host string) string {
	if n := len(host); n == 0 || host[n-1] >= '0' && host[n-1] <= '9' || host[n-1] == ']' {
		return host // an address
	}
	suffix, _ := publicsuffix.PublicSuffix(host)
	n := len(host) - len(suffix) - 1
	if n <= 0 {
		return host
	}
	return host[strings.LastIndexByte(host[:n], '.')+1:]
}

// suffixes appends host and its parent domains.
func suffixes(dst []string, host string) []string {
	for host != "" && len(dst) < 16 {
		dst = append(dst, host)
		_, host, _ = strings.Cut(host, ".")
	}
	return dst
}

// withAny appends, for each suffix of host with a public suffix, the form with "*" in its
// place, written to buf.
func withAny(dst []string, host string, buf []byte) []string {
	if host == "" || len(host) > 253 {
		return dst
	}
	suffix, _ := publicsuffix.PublicSuffix(host)
	n := len(host) - len(suffix)
	if n <= 0 {
		return dst
	}
	buf = append(append(buf, host[:n]...), '*')
	for s := asString(buf); strings.IndexByte(s, '.') >= 0 && len(dst) < cap(dst); {
		dst = append(dst, s)
		_, s, _ = strings.Cut(s, ".")
	}
	return dst
}

// Tokens are runs of letters, digits and "%". A rule requires a token when the pattern
// determines both of its ends.

const (
	tokenSeed  = 0x811c9dc5
	gramSeed   = 0x2c1b3c6d
	domainSeed = 0x297a2d39
)

// inToken reports whether a byte belongs to tokens.
func inToken(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '%' || c >= 0x80
}

func step(h uint32, c byte) uint32 { return (h ^ uint32(c)) * 0x01000193 }

// finish mixes a hash into its upper bits, which are the ones used.
func finish(h uint32) uint32 {
	h ^= h >> 15
	h *= 0x85ebca6b
	h ^= h >> 13
	return h * 0xc2b2ae35
}

func tokenHash(s string) uint32 {
	h := uint32(tokenSeed)
	for i := range len(s) {
		h = step(h, s[i])
	}
	return finish(h)
}

func domainHash(s string) uint32 {
	h := uint32(domainSeed)
	for i := range len(s) {
		h = step(h, s[i])
	}
	return finish(h)
}

// gramHash returns the hash of the first three bytes of s.
func gramHash(s []byte) uint32 {
	return finish(gramSeed ^ (uint32(s[0])|uint32(s[1])<<8|uint32(s[2])<<16)*0x9e3779b1)
}

// urlTokens appends the hashes of all tokens of a URL in lower case, each once. There is room
// for as many as a URL can have.
func urlTokens(dst []uint32, url []byte) []uint32 {
	h, in := uint32(tokenSeed), false
	for i := 0; i <= len(url); i++ {
		if i < len(url) && inToken(url[i]) {
			h, in = step(h, url[i]), true
			continue
		}
		if in {
			if t := finish(h); len(dst) < cap(dst) && !slices.Contains(dst, t) {
				dst = append(dst, t)
			}
			h, in = tokenSeed, false
		}
	}
	return dst
}

// patternTokens appends the hashes of the tokens that every URL matching a rule has.
func patternTokens(dst []uint32, r rule) []uint32 {
	dst = appendPatternTokens(dst, r)
	if r.flags()&flagParams != 0 {
		var p Rule
		if p.Parse(r.text()); len(p.Params) > 0 && p.Params[0] != '/' && p.Params[0] != '~' {
			// Between "?" or "&" and "=", its tokens are complete.
			var buf [maxParam]uint32
			dst = append(dst, urlTokens(buf[:0], bytes.ToLower(p.Params))...)
		}
	}
	return dst
}

func appendPatternTokens(dst []uint32, r rule) []uint32 {
	p, flags := r.pattern(), r.flags()
	var buf [1024]byte
	if flags&flagMatchCase != 0 {
		p = append(buf[:0], p...)
		for i, c := range p {
			p[i] = ascii.Lower(c)
		}
	}
	for i := 0; i < len(p); {
		if !inToken(p[i]) {
			i++
			continue
		}
		j := i
		h := uint32(tokenSeed)
		for ; j < len(p) && inToken(p[j]); j++ {
			h = step(h, p[j])
		}
		left := i > 0 && p[i-1] != '*' || i == 0 && flags&(flagHost|flagLeft) != 0
		right := j < len(p) && p[j] != '*' || j == len(p) && flags&flagRight != 0
		if left && right {
			dst = append(dst, finish(h))
		}
		i = j
	}
	return dst
}

// rarestGram returns three bytes that every URL matching a rule has, from the longest run
// between wildcards, away from its beginning.
func rarestGram(r rule) (h uint32, ok bool) {
	var best []byte
	p := r.pattern()
	if r.flags()&flagMatchCase != 0 {
		p = bytes.ToLower(p)
	}
	for part := range bytes.FieldsFuncSeq(p, func(c rune) bool { return c == '*' || c == '^' }) {
		if len(part) > len(best) {
			best = part
		}
	}
	if len(best) < 3 {
		return 0, false
	}
	return gramHash(best[(len(best)-3)/2:]), true
}

// Match appends to dst every rule that blocks r. It allocates only a larger dst.
func (e *Engine) Match(r *Request, dst []uint32) []uint32 { return e.match(r, 0, dst) }

// Except appends every exception for r, and for the whole page that made the request.
func (e *Engine) Except(r *Request, dst []uint32) []uint32 {
	if !e.exceptions {
		return dst
	}
	dst = e.match(r, exceptionClass, dst)
	if r.source == "" || r.typ&Document != 0 {
		return dst
	}
	if r.page == nil {
		r.page = new(Request)
	}
	if !r.pageSet {
		r.page.Set("https://"+r.source+"/", Document, "")
		r.pageSet = true
	}
	return e.match(r.page, exceptionClass, dst)
}

// MatchPage appends to dst every rule, exceptions included, of a table of Page rules that
// matches the page r.
func (e *Engine) MatchPage(r *Request, dst []uint32) []uint32 { return e.match(r, anyClass, dst) }

// Effect returns the effects of a rule found by MatchPage, and the value of csp or
// permissions; for an exception these are the effects that it revokes.
func (e *Engine) Effect(ref uint32) (effects Effect, value []byte, exception bool) {
	x := e.rule(ref &^ 3)
	if x == nil {
		return 0, nil, false
	}
	var p Rule
	p.Parse(x.text())
	return p.Effects, p.Value, p.Exception
}

// MatchParams appends to dst every rule that removes query parameters from requests like r.
func (e *Engine) MatchParams(r *Request, dst []uint32) []uint32 {
	if !e.params {
		return dst
	}
	return e.match(r, paramsClass, dst)
}

// ExceptParams appends every exception to such rules.
func (e *Engine) ExceptParams(r *Request, dst []uint32) []uint32 {
	if !e.params {
		return dst
	}
	return e.match(r, paramsClass|exceptionClass, dst)
}

// Parameters calls yield with the name of each parameter of r's query, as written, until it
// returns false.
func (r *Request) Parameters(yield func(name []byte) bool) {
	_, query, _ := bytes.Cut(r.original, []byte("?"))
	query, _, _ = bytes.Cut(query, []byte("#"))
	for part := range bytes.SplitSeq(query, []byte("&")) {
		if name, _, _ := bytes.Cut(part, []byte("=")); len(name) > 0 && !yield(name) {
			return
		}
	}
}

// A Param says which parameters a rule matches.
type Param struct {
	value []byte // of removeparam
	re    *lazy
}

// Param returns which parameters a rule found by MatchParams or ExceptParams matches.
func (e *Engine) Param(ref uint32) Param {
	x := e.rule(ref &^ 3)
	if x == nil {
		return Param{value: []byte("~")}
	}
	var p Rule
	p.Parse(x.text())
	return Param{p.Params, e.regexps[ref&^3]}
}

// Is reports whether the rule matches a parameter.
func (p *Param) Is(name []byte) bool {
	switch {
	case len(p.value) == 0:
		return true
	case p.value[0] == '~':
		return string(p.value[1:]) != string(name)
	case p.value[0] == '/':
		return p.re != nil && p.re.matchParam(p.value, name)
	}
	return string(p.value) == string(name)
}

func (l *lazy) matchParam(value, param []byte) bool {
	l.paramsOnce.Do(func() {
		if re, ok := paramsExpression(value); ok {
			l.params, _ = regexp.Compile(re)
		}
	})
	return l.params != nil && l.params.Match(param)
}

func (e *Engine) match(r *Request, class uint32, dst []uint32) []uint32 {
	for _, h := range r.tokens {
		dst = e.bucket(h, r, class, dst)
	}
	for _, d := range r.pages {
		dst = e.bucket(domainHash(d), r, class, dst)
	}
	for i := 0; e.bitmap != nil && i+3 <= len(r.url); i++ {
		if h := gramHash(r.url[i:]); e.bitmap[h>>19]>>(h>>16&7)&1 == 1 {
			dst = e.bucket(h, r, class, dst)
		}
	}
	return e.try(e.always, 0, r, class, dst)
}

func (e *Engine) bucket(h uint32, r *Request, class uint32, dst []uint32) []uint32 {
	i := bucketOf(h, e.nbuckets)
	from, to := binary.LittleEndian.Uint32(e.buckets[4*i:]), binary.LittleEndian.Uint32(e.buckets[4*i+4:])
	if from >= to || uint64(to)*refSize > uint64(len(e.refs)) {
		return dst
	}
	return e.try(e.refs[refSize*from:refSize*to], h, r, class, dst)
}

// try appends those of refs that are indexed under a hash and match.
func (e *Engine) try(refs []byte, h uint32, r *Request, class uint32, dst []uint32) []uint32 {
	types := r.typ
	if r.name {
		types = allTypes | hostOnly | inverted // for DNS queries, coversName decides
	}
	for ; len(refs) >= refSize; refs = refs[refSize:] {
		x := binary.LittleEndian.Uint64(refs)
		ref, tag := uint32(x), uint32(x>>32)
		if ref&3 != class && class != anyClass || (tag^h<<16)>>16 != 0 || Type(tag)&types == 0 {
			continue
		}
		if e.covers(ref&^3, r) && !slices.Contains(dst, ref) {
			dst = append(dst, ref)
		}
	}
	return dst
}

// covers reports whether the rule at a place matches. It tests cheap conditions first.
func (e *Engine) covers(at uint32, r *Request) bool {
	x := e.rule(at)
	if x == nil {
		return false
	}
	if r.name {
		return e.coversName(at, x, r)
	}
	flags := x.flags()
	if flags&flagNames != 0 || x.types()&r.typ == 0 {
		return false
	}
	if !e.matches(at, x, r) {
		return false
	}
	if flags&(flagFirst|flagThird) != 0 && r.thirdParty() != (flags&flagThird != 0) {
		return false
	}
	if n := x.domains(); n > 0 {
		pages := r.pages
		if flags&flagAny != 0 {
			pages = r.anySuffix()
		}
		in, out := e.matchDomains(x, 0, n, pages)
		if out || !in && flags&flagOnly != 0 {
			return false
		}
	}
	if n := x.denied(); n > 0 {
		if in, _ := e.matchDomains(x, x.domains(), n, r.hosts); in {
			return false
		}
	}
	return true
}

// matchDomains looks for hosts, the longest first, in n of a rule's domains. in and out report
// whether the first one found is included or excluded.
func (e *Engine) matchDomains(x rule, from, n int, hosts []string) (in, out bool) {
	for _, h := range hosts {
		i := sort.Search(n, func(i int) bool { return name(e.names, x.domain(from+i)) >= h })
		if i < n {
			if id := x.domain(from + i); name(e.names, id) == h {
				return id&notDomain == 0, id&notDomain != 0
			}
		}
	}
	return false, false
}

// matches compares a rule's pattern with the URL.
func (e *Engine) matches(at uint32, x rule, r *Request) bool {
	flags, url := x.flags(), r.url
	if flags&flagRegexp != 0 {
		return e.regexp(at, x, r)
	}
	if flags&flagMatchCase != 0 {
		url = r.original
	}
	return matchPattern(x.pattern(), flags, url, r.hostAt, r.hostAt+len(r.host), r.name)
}

// matchPattern reports whether a pattern matches a URL with a host at from to to, or a name.
func matchPattern(p []byte, flags uint16, url []byte, from, to int, name bool) bool {
	right := flags&flagRight != 0
	switch {
	case flags&flagHost != 0:
		return matchHost(p, right, url, from, to)
	case flags&flagLeft != 0:
		return matchAt(p, right, url, 0)
	}
	if name {
		if rest, ok := bytes.CutPrefix(p, []byte("://")); ok { // the host begins here, for a URL
			return matchAt(rest, right, url, 0)
		}
	}
	return matchAnywhere(p, right, url)
}

func (e *Engine) regexp(at uint32, x rule, r *Request) bool {
	l := e.regexps[at]
	if l == nil {
		return false
	}
	l.once.Do(func() { l.re, _ = compile(x.pattern(), x.flags()) })
	switch {
	case l.re == nil:
		return false
	case x.types()&hostOnly != 0:
		return l.re.MatchString(r.host) != (x.types()&inverted != 0)
	}
	return l.re.Match(r.original)
}

// matchHost tries the pattern at the beginning of each label of the host.
func matchHost(p []byte, right bool, url []byte, from, to int) bool {
	for i := from; i < to || i == from; {
		if matchAt(p, right, url, i) {
			return true
		}
		j := bytes.IndexByte(url[i:to], '.')
		if j < 0 {
			return false
		}
		i += j + 1
	}
	return false
}

// matchAt reports whether url matches p at i; right requires that it ends there.
func matchAt(p []byte, right bool, url []byte, i int) bool {
	part, rest, more := bytes.Cut(p, []byte("*"))
	if !more {
		end, ok := partAt(part, url, i)
		return ok && (!right || end == len(url))
	}
	end, ok := partAt(part, url, i)
	return ok && matchAnywhere(rest, right, url[end:])
}

// matchAnywhere reports whether p occurs in url; right requires that it is at the end. Each
// part between wildcards is matched at its first occurrence, which leaves most to the next.
func matchAnywhere(p []byte, right bool, url []byte) bool {
	for {
		part, rest, more := bytes.Cut(p, []byte("*"))
		if !more && right {
			return endsWith(part, url)
		}
		end, ok := find(part, url)
		if !ok || !more {
			return ok
		}
		p, url = rest, url[end:]
	}
}

// endsWith reports whether url ends with part. A "^" at the end of it may match the end.
func endsWith(part, url []byte) bool {
	for n := len(part); n >= 0 && n >= len(part)-1; n-- {
		if i := len(url) - n; i >= 0 {
			if end, ok := partAt(part, url, i); ok && end == len(url) {
				return true
			}
		}
	}
	return false
}

// find returns the end of the first occurrence of part in url.
func find(part, url []byte) (end int, ok bool) {
	first := bytes.IndexByte(part, '^')
	if first < 0 {
		i := bytes.Index(url, part)
		return i + len(part), i >= 0
	}
	for i := 0; i <= len(url); i++ {
		if first > 0 {
			j := bytes.Index(url[i:], part[:first])
			if j < 0 {
				return 0, false
			}
			i += j
		}
		if end, ok = partAt(part, url, i); ok {
			return end, true
		}
	}
	return 0, false
}

// partAt compares a part without wildcards with url at i. "^" matches a separator, or at the
// end of the part the end of the URL.
func partAt(part, url []byte, i int) (end int, ok bool) {
	for k, c := range part {
		if i >= len(url) {
			return i, c == '^' && k == len(part)-1
		}
		if c == '^' && isSeparator(url[i]) || c != '^' && c == url[i] {
			i++
			continue
		}
		return 0, false
	}
	return i, true
}

// isSeparator reports whether "^" matches c: anything but a letter, a digit, "_", "-", ".",
// "%".
func isSeparator(c byte) bool {
	return !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.' || c == '%' || c >= 0x80)
}

// asString returns b as a string without copying.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
