package adblock

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"regexp"
	"regexp/syntax"
	"slices"
	"sort"
	"strings"
	"sync"

	"shuultuur/lib/ascii"
	"shuultuur/lib/literal"
)

// The table of rules. All numbers are little endian and of four bytes unless
// said otherwise.
//
//	header   version, number of rules, of buckets, of references, of references
//	         that are always tried, of regular expressions; bytes of rules and
//	         of names; 1 if there are exceptions, plus 2 if there are rules
//	         about parameters, plus 4 if there are some about hosts alone
//	bitmap   of the grams that rules stand under, 8 KiB
//	buckets  for each where its references begin, and the end
//	refs     where each rule is, plus one for an exception, plus two for one
//	         about parameters; then its types (2) and the lower half of the
//	         hash that it stands under (2)
//	always   the same for rules that have nothing to stand under
//	regexps  where the rules with regular expressions are
//	rules    each at a multiple of four
//	names    of domains: length (1 byte), name
//
// A rule is its line, category (2), flags (2), types (2), bytes of its text
// (2), where in it the pattern begins (2) and how long it is (2), number of
// domains (2) and of those of denyallow (2), the domains as places in names
// with the highest bit for "not", in the order of the names, then its text, and
// the pattern again in lower case when the text has it otherwise.
const (
	tableVersion = 3
	refSize      = 8
	headerSize   = 9 * 4
	bitmapSize   = 8 << 10
	ruleSize     = 20
	notDomain    = 1 << 31
	maxRegexps   = 20_000
	maxTable     = 1 << 30
)

// A Builder makes a table from rules.
type Builder struct {
	rules   []byte
	n       int
	names   []byte
	byName  map[string]uint32
	regexps []uint32
	budget  literal.Budget // of regular expressions
	bad     BadFilters
	ids     []uint32
}

// BadFilters are rules that badfilter rules remove, by canonical text.
type BadFilters struct{ texts, patterns map[string]bool }

// Add adds a rule by its canonical text.
func (b *BadFilters) Add(canonical string) {
	if b.texts == nil {
		b.texts, b.patterns = map[string]bool{}, map[string]bool{}
	}
	b.texts[canonical] = true
	pattern, _ := cutOptions([]byte(strings.TrimPrefix(canonical, "@@")))
	b.patterns[string(bytes.TrimSuffix(pattern, []byte("$")))] = true
}

// has reports whether r is one of them; it allocates only when one has the same pattern.
func (b *BadFilters) has(r rule) bool {
	if b.texts == nil {
		return false
	}
	pattern, _ := cutOptions(bytes.TrimPrefix(r.text(), []byte("@@")))
	return b.patterns[string(pattern)] && b.texts[canonical(r.text())]
}

// IsBad reports whether bad has a rule that an Engine has found.
func (e *Engine) IsBad(ref uint32, bad *BadFilters) bool {
	r := e.rule(ref &^ 3)
	return r != nil && bad.has(r)
}

// Add adds a Network rule, or one with Effects, to a category, with its line. A rule that
// cannot be used is an error.
func (b *Builder) Add(r *Rule, category uint16, line uint32) error {
	if b.byName == nil {
		b.byName = map[string]uint32{}
	}
	if r.BadFilter {
		b.bad.Add(canonical(r.text))
		return nil
	}
	if len(b.rules) > maxTable || len(b.names) > maxTable {
		return errors.New("exceeds the rules of a list")
	}
	own := r.flags&(flagMatchCase|flagRegexp) == 0 && bytes.ContainsFunc(r.pattern, func(c rune) bool { return 'A' <= c && c <= 'Z' })
	if own {
		r.flags |= flagOwn
	}
	params := r.flags&flagParams != 0 && len(r.Params) > 0 && r.Params[0] == '/'
	if r.flags&flagRegexp != 0 || params {
		if len(b.regexps) >= maxRegexps {
			return fmt.Errorf("exceeds the %d regular expressions of a list", maxRegexps)
		}
		if r.flags&flagRegexp != 0 {
			if _, err := compile(r.pattern, r.flags); err != nil {
				return err
			}
			if err := b.budget.Spend(expression(r.pattern, r.flags)); err != nil {
				return err
			}
		}
		b.regexps = append(b.regexps, uint32(len(b.rules)))
	}
	at := bytes.Index(r.text, r.pattern)
	t := binary.LittleEndian.AppendUint32(b.rules, line)
	for _, v := range [...]int{int(category), int(r.flags), int(r.types), len(r.text), at, len(r.pattern), len(r.domains), len(r.deny)} {
		t = binary.LittleEndian.AppendUint16(t, uint16(v))
	}
	t = b.appendDomains(t, r.domains)
	t = b.appendDomains(t, r.deny)
	t = append(t, r.text...)
	if own {
		for _, c := range r.pattern {
			t = append(t, ascii.Lower(c))
		}
	}
	for len(t)%4 != 0 {
		t = append(t, 0)
	}
	b.rules = t
	b.n++
	return nil
}

func (b *Builder) appendDomains(t []byte, domains [][]byte) []byte {
	b.ids = b.ids[:0]
	var buf [256]byte
	for _, d := range domains {
		not := uint32(0)
		if d[0] == '~' {
			d, not = d[1:], notDomain
		}
		name := buf[:0]
		for _, c := range d {
			name = append(name, ascii.Lower(c))
		}
		id, ok := b.byName[string(name)]
		if !ok {
			id = uint32(len(b.names))
			b.names = append(append(b.names, byte(len(name))), name...)
			b.byName[string(name)] = id
		}
		b.ids = append(b.ids, id|not)
	}
	if len(b.ids) > 1 {
		ids := b.ids // slices.SortFunc would be compiled for this type
		sort.Slice(ids, func(i, j int) bool { return name(b.names, ids[i]) < name(b.names, ids[j]) })
	}
	for _, id := range b.ids {
		t = binary.LittleEndian.AppendUint32(t, id)
	}
	return t
}

// A key is the value under which a rule is indexed: the hash of a token, a gram or a
// domain, each with its own salt.
type key struct{ hash, ref uint32 }

// tag is a summary of a rule in its reference, so that most rules that cannot match are not
// read: its types and half of the hash it is indexed under.
func tag(t Type, hash uint32) uint32 { return uint32(t) | hash<<16 }

// Build returns the table, nil when there is no rule.
func (b *Builder) Build() []byte {
	e := &Engine{rules: b.rules, names: b.names}
	counts := make([]uint32, 1<<16) // number of rules with each token or gram
	var refs []uint32
	has := uint32(0)
	var scratch []uint32
	for at := uint32(0); int(at) < len(b.rules); {
		r := e.rule(at)
		if !b.bad.has(r) {
			refs = append(refs, at)
			has |= hasOf(r.class())
			if r.types()&hostOnly != 0 {
				has |= 4
			}
			if r.flags()&flagRegexp == 0 {
				scratch = patternTokens(scratch[:0], r)
				for _, h := range scratch {
					counts[h>>16]++
				}
			}
		}
		at += uint32(r.size())
	}
	if len(refs) == 0 {
		return nil
	}
	// A token in every other URL is not selective.
	for _, t := range []string{"http", "https", "www", "com", "net", "org", "js", "html", "php", "images", "img", "static", "cdn", "api", "assets", "index"} {
		counts[tokenHash(t)>>16] += 1 << 20
	}
	var keys, always []key
	bitmap := make([]byte, bitmapSize)
	for _, at := range refs {
		r := e.rule(at)
		ref := at | r.class()
		n := len(keys)
		keys = b.keysOf(keys, r, ref, counts, bitmap)
		if len(keys) == n {
			always = append(always, key{ref: ref})
		}
	}
	return b.encode(len(refs), keys, always, bitmap, has)
}

// keysOf appends the keys of a rule: its rarest token; or else its domains; or a gram; or
// none.
func (b *Builder) keysOf(keys []key, r rule, ref uint32, counts []uint32, bitmap []byte) []key {
	if r.types()&inverted != 0 {
		return keys
	}
	domains := r.flags()&(flagOnly|flagAny) == flagOnly
	if r.flags()&flagRegexp != 0 {
		texts := literal.Required(expression(r.pattern(), r.flags()))
		if domains && (len(texts) == 0 || len(texts) > 20) {
			return b.domainKeys(keys, r, ref)
		}
		for _, t := range texts {
			t = strings.ToLower(t)[len(t)-3:] // the end is more selective than "htt"
			if h := gramHash([]byte(t)); !slices.Contains(keys, key{h, ref}) {
				keys = append(keys, key{h, ref})
				setBit(bitmap, h)
			}
		}
		return keys
	}
	tokens := patternTokens(make([]uint32, 0, 32), r)
	best, least := uint32(0), uint32(1<<32-1)
	for _, h := range tokens {
		if counts[h>>16] < least {
			best, least = h, counts[h>>16]
		}
	}
	if len(tokens) > 0 && (least < 500 || !domains) && least < 1<<20 {
		return append(keys, key{best, ref})
	}
	if domains {
		return b.domainKeys(keys, r, ref)
	}
	if h, ok := rarestGram(r); ok {
		setBit(bitmap, h)
		return append(keys, key{h, ref})
	}
	if len(tokens) > 0 {
		return append(keys, key{best, ref})
	}
	return keys
}

func (b *Builder) domainKeys(keys []key, r rule, ref uint32) []key {
	for i := range r.domains() {
		if id := r.domain(i); id&notDomain == 0 {
			keys = append(keys, key{domainHash(name(b.names, id)), ref})
		}
	}
	return keys
}

func setBit(bitmap []byte, h uint32) { bitmap[h>>19] |= 1 << (h >> 16 & 7) }

func (b *Builder) encode(n int, keys, always []key, bitmap []byte, has uint32) []byte {
	buckets := 1 << bits.Len(uint(max(1, len(keys))))
	begin := make([]uint32, buckets+1) // of each bucket
	for _, k := range keys {
		begin[bucketOf(k.hash, buckets)+1]++
	}
	for i := range buckets {
		begin[i+1] += begin[i]
	}
	refs := make([]key, len(keys))
	next := slices.Clone(begin)
	for _, k := range keys {
		i := bucketOf(k.hash, buckets)
		refs[next[i]] = k
		next[i]++
	}
	t := make([]byte, 0, headerSize+bitmapSize+4*(buckets+1+len(b.regexps))+refSize*(len(keys)+len(always))+len(b.rules)+len(b.names))
	u32 := func(v uint32) { t = binary.LittleEndian.AppendUint32(t, v) }
	for _, v := range []int{tableVersion, n, buckets, len(keys), len(always), len(b.regexps), len(b.rules), len(b.names), int(has)} {
		u32(uint32(v))
	}
	t = append(t, bitmap...)
	for _, v := range begin {
		u32(v)
	}
	e := &Engine{rules: b.rules}
	for _, k := range slices.Concat(refs, always) {
		u32(k.ref)
		u32(tag(e.rule(k.ref&^3).types(), k.hash))
	}
	for _, v := range b.regexps {
		u32(v)
	}
	return append(append(t, b.rules...), b.names...)
}

// bucketOf uses the upper bits of a hash; buckets is a power of two.
func bucketOf(h uint32, buckets int) uint32 { return uint32(uint64(h) * uint64(buckets) >> 32) }

// An Engine matches requests against a table of rules. It is immutable and safe for concurrent
// use.
type Engine struct {
	n          int
	exceptions bool
	params     bool
	hosts      bool
	bitmap     []byte // nil when no rule is indexed by a gram
	buckets    []byte
	nbuckets   int
	refs       []byte
	always     []byte
	rules      []byte
	names      []byte
	regexps    map[uint32]*lazy
}

// A lazy is a regular expression that is compiled on first use.
type lazy struct {
	once, paramsOnce sync.Once
	re, params       *regexp.Regexp
}

var errTable = errors.New("damaged table of rules")

// Open reads a table made by Build. It keeps data without copying, and takes time only for the
// regular expressions. What it does not verify is verified on use.
func Open(data []byte) (*Engine, error) {
	if len(data) < headerSize+bitmapSize {
		return nil, errTable
	}
	var h [9]uint64
	for i := range h {
		h[i] = uint64(binary.LittleEndian.Uint32(data[4*i:]))
	}
	size := headerSize + bitmapSize + 4*(h[2]+1+h[5]) + refSize*(h[3]+h[4]) + h[6] + h[7]
	if h[0] != tableVersion || size != uint64(len(data)) || h[2] == 0 || h[2]&(h[2]-1) != 0 || h[6]%4 != 0 || h[5] > maxRegexps {
		return nil, errTable
	}
	rest := data[headerSize:]
	cut := func(n uint64) []byte {
		part := rest[:n:n]
		rest = rest[n:]
		return part
	}
	e := &Engine{n: int(h[1]), nbuckets: int(h[2]), exceptions: h[8]&1 != 0, params: h[8]&2 != 0, hosts: h[8]&4 != 0}
	e.bitmap, e.buckets, e.refs, e.always = cut(bitmapSize), cut(4*(h[2]+1)), cut(refSize*h[3]), cut(refSize*h[4])
	if len(bytes.Trim(e.bitmap, "\x00")) == 0 {
		e.bitmap = nil
	}
	regexps := cut(4 * h[5])
	e.rules, e.names = cut(h[6]), cut(h[7])
	e.regexps = make(map[uint32]*lazy, h[5])
	for i := 0; i < len(regexps); i += 4 {
		e.regexps[binary.LittleEndian.Uint32(regexps[i:])] = &lazy{}
	}
	return e, nil
}

// Len returns the number of rules.
func (e *Engine) Len() int { return e.n }

// Params reports whether any rule is about parameters.
func (e *Engine) Params() bool { return e.params }

// Exceptions reports whether any rule is an exception.
func (e *Engine) Exceptions() bool { return e.exceptions }

// A rule is the bytes of a table from the beginning of a rule.
type rule []byte

// rule returns the rule at an offset, or nil when there is no complete one.
func (e *Engine) rule(at uint32) rule {
	if uint64(at)+ruleSize > uint64(len(e.rules)) {
		return nil
	}
	r := rule(e.rules[at:])
	if r.size() > len(r) || int(r.u16(12))+int(r.u16(14)) > int(r.u16(10)) {
		return nil
	}
	return r
}

func (r rule) u16(i int) uint16 { return binary.LittleEndian.Uint16(r[i:]) }

// Classes of rules, in the lowest bits of a reference.
const (
	exceptionClass = 1
	paramsClass    = 2
	anyClass       = 4 // as an argument: any class
)

func (r rule) class() uint32 {
	c := uint32(0)
	if r.flags()&flagException != 0 {
		c = exceptionClass
	}
	if r.flags()&flagParams != 0 {
		c |= paramsClass
	}
	return c
}

// hasOf returns the header bit for a class.
func hasOf(class uint32) uint32 {
	switch {
	case class&paramsClass != 0:
		return 2
	case class == exceptionClass:
		return 1
	}
	return 0
}

func (r rule) line() uint32     { return binary.LittleEndian.Uint32(r) }
func (r rule) category() uint16 { return r.u16(4) }
func (r rule) flags() uint16    { return r.u16(6) }
func (r rule) types() Type      { return Type(r.u16(8)) }
func (r rule) domains() int     { return int(r.u16(16)) }
func (r rule) denied() int      { return int(r.u16(18)) }

// domain returns the i-th domain; those of denyallow follow the others.
func (r rule) domain(i int) uint32 { return binary.LittleEndian.Uint32(r[ruleSize+4*i:]) }

func (r rule) textAt() int { return ruleSize + 4*(r.domains()+r.denied()) }

func (r rule) text() []byte { return r[r.textAt():][:r.u16(10)] }

// written returns the pattern as written.
func (r rule) written() []byte { return r.text()[r.u16(12):][:r.u16(14)] }

// pattern returns the pattern in the form for comparison.
func (r rule) pattern() []byte {
	if r.flags()&flagOwn == 0 {
		return r.written()
	}
	return r[r.textAt()+int(r.u16(10)):][:r.u16(14)]
}

// size returns the bytes of the rule.
func (r rule) size() int {
	n := r.textAt() + int(r.u16(10))
	if r.flags()&flagOwn != 0 {
		n += int(r.u16(14))
	}
	return (n + 3) &^ 3
}

// name returns the domain at an offset in names, "" if there is none.
func name(names []byte, id uint32) string {
	i := int(id &^ notDomain)
	if i >= len(names) || i+1+int(names[i]) > len(names) {
		return ""
	}
	return asString(names[i+1 : i+1+int(names[i])])
}

// expression returns the regular expression of a rule in RE2's syntax.
func expression(pattern []byte, flags uint16) string {
	if flags&flagMatchCase != 0 {
		return string(pattern)
	}
	return "(?i)" + string(pattern)
}

func compile(pattern []byte, flags uint16) (*regexp.Regexp, error) {
	re, err := regexp.Compile(expression(pattern, flags))
	if e := (*syntax.Error)(nil); errors.As(err, &e) {
		return nil, fmt.Errorf("does not compile: %s: %.80q", e.Code, e.Expr)
	}
	return re, err
}

// Categories counts the rules of each of n categories.
func (e *Engine) Categories(n int) []int {
	count := make([]int, n)
	for at := uint32(0); ; {
		r := e.rule(at)
		if r == nil {
			return count
		}
		if int(r.category()) < n {
			count[r.category()]++
		}
		at += uint32(r.size())
	}
}

// Verdict returns the category of a rule found by Match or Except, and whether it overrides
// exceptions.
func (e *Engine) Verdict(ref uint32) (category uint16, important, ok bool) {
	r := e.rule(ref &^ 3)
	if r == nil {
		return 0, false, false
	}
	return r.category(), r.flags()&flagImportant != 0, true
}

// FoundRule is a matching rule.
type FoundRule struct {
	Text      string
	Line      uint32
	Category  uint16
	Exception bool
	Important bool
	Redirect  string // replacement resource
}

// Redirect returns the resource with which a rule replaces a response, "" if it names none.
func (e *Engine) Redirect(ref uint32) string {
	r := e.rule(ref &^ 3)
	if r == nil || !bytes.Contains(r.text(), []byte("redirect")) && !bytes.Contains(r.text(), []byte("rewrite")) {
		return ""
	}
	f, _ := e.Rule(ref)
	return f.Redirect
}

// Rule returns a rule found by Match or Except.
func (e *Engine) Rule(ref uint32) (f FoundRule, ok bool) {
	r := e.rule(ref &^ 3)
	if r == nil {
		return f, false
	}
	f = FoundRule{Text: string(r.text()), Line: r.line(), Category: r.category(), Exception: r.flags()&flagException != 0, Important: r.flags()&flagImportant != 0}
	if bytes.Contains(r.text(), []byte("re")) {
		var p Rule
		p.Parse(r.text())
		f.Redirect = p.Redirect
	}
	return f, true
}

// Texts calls yield with each rule as written, until it returns false.
func (e *Engine) Texts(yield func(string) bool) {
	for at := uint32(0); ; {
		r := e.rule(at)
		if r == nil || !yield(string(r.text())) {
			return
		}
		at += uint32(r.size())
	}
}
