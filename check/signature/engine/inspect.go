package engine

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"io"
	"math"
	"math/bits"
	"slices"
	"sort"
	"strconv"
	"time"
	"unicode/utf8"

	"shuultuur/check/signature/rule"
)

// Limits of the inspection of one rule on one message. Work is counted instead of time, so
// that results do not depend on the load of the machine. A unit of work takes about a
// nanosecond on a processor of 2020. A search for an expression in more than quickSubject
// bytes counts by its time, if that is less.
const (
	maxSteps       = 3000 // Suricata's inspection-recursion-limit
	ruleWork       = 1e6  // 1 ms
	stepWork       = 40
	searchBytes    = 8  // bytes that a search for a content passes over per unit
	expressionWork = 10 // for each byte that an expression examines
	scriptWork     = 20e3
	tryWork        = 500       // for each rule
	maxSubject     = 256 << 10 // bytes that a search for an expression examines
	quickSubject   = 4 << 10
	slowSearch     = 2e6 // ns; the message is charged the time of a slower search or transform
	maxBase64      = 64 << 10
)

// A result is the result of inspecting a list of matches.
type result int8

const (
	retry result = iota // no match from here; an earlier match may be tried further on
	match
	never // no match, whatever earlier matches do
)

// An inspector inspects one buffer with the matches of a rule. Its semantics are those of
// Suricata: matches are tried from left to right. If one that depends on the position of an
// earlier one fails, the nearest earlier one is tried at its next occurrence.
type inspector struct {
	buf      []byte
	text     []byte // buf as Latin-1 in UTF-8, nil until an expression needs it
	ascii    bool   // text is buf
	wide     []int  // number of bytes over 0x7f before every stride-th position of buf, unless it is ASCII
	spare    []byte // room for text
	runes    []rune // characters of buf from position runesAt on
	runesAt  int
	reader   byteReader
	vars     []uint64
	steps    int
	work     int // of the rule so far
	slow     int // ns of its slow searches, which are charged to the message
	captures []capture
	regexps  int // number of expressions run
	over     bool
	left     int // fewest matches that were left
	ctx      matcher
	name     string // of the buffer
	known    bufferFacts
	failures *failures // nil if the result depends on more than the position
}

// rememberAfter is the number of steps after which failures of a rule on a buffer are
// remembered. Most rules take fewer.
const rememberAfter = 32

// failures are positions from which matches of a rule failed. Backtracking reaches the same
// position in many ways, always with the same result.
type failures struct {
	round uint64 // identifies the current buffer and rule
	at    [1 << 8]failure
}

// A failure is a position, the number of matches that were left, and the steps it took to
// fail.
type failure struct {
	round    uint64
	at, left int
	steps    int
}

// slot returns the entry for a position.
func (f *failures) slot(left, at int) *failure { return &f.at[uint(at*31+left)%uint(len(f.at))] }

// A matcher tests the matches that depend on more than bytes.
type matcher interface {
	dataset(d *rule.Dataset, buf []byte) bool
	script(s *script, buf []byte, cursor int) bool
	entropy(e float64)
}

// A capture is the text of a group of an expression.
type capture struct {
	scope, name string
	value       []byte
}

// start prepares the inspector for a buffer. It keeps the text if the buffer is the same as
// before.
func (in *inspector) start(buf []byte) {
	if len(buf) != len(in.buf) || len(buf) > 0 && &buf[0] != &in.buf[0] {
		in.text, in.runes = nil, in.runes[:0]
	}
	in.buf, in.steps, in.left, in.known, in.failures = buf, 0, maxSteps, bufferFacts{}, nil
}

// remember starts remembering failures, in reused memory.
func (in *inspector) remember(f *failures) {
	f.round++
	in.failures = f
}

// inspect tries the matches ms from position at on.
func (in *inspector) inspect(ms []rule.Match, at int) result {
	in.left = min(in.left, len(ms))
	if len(ms) == 0 {
		return match
	}
	in.steps++
	in.work += stepWork
	if in.steps > maxSteps || in.work > ruleWork {
		in.over = true
		return never
	}
	if in.failures == nil || in.steps < rememberAfter {
		return in.first(ms, at)
	}
	kept := in.failures.slot(len(ms), at)
	if kept.round == in.failures.round && kept.at == at && kept.left == len(ms) {
		if in.steps += kept.steps; in.steps > maxSteps {
			in.over = true
			return never
		}
		return retry
	}
	before := in.steps
	r := in.first(ms, at)
	if r == retry {
		*kept = failure{in.failures.round, at, len(ms), in.steps - before}
	}
	return r
}

// first tries the first of the matches ms, and then the others.
func (in *inspector) first(ms []rule.Match, at int) result {
	next := ms[1:]
	switch m := ms[0].(type) {
	case *rule.Content:
		return in.content(m, next, at)
	case *expression:
		return in.pcre(m, next, at)
	case *rule.DataAt:
		n := in.value(m.At)
		var there bool
		if m.Relative {
			there = at+n <= len(in.buf)
		} else {
			there = n < len(in.buf)
		}
		if there == m.Negated {
			return retry
		}
		return in.inspect(next, at)
	case *rule.ByteTest:
		if !in.byteTest(m, at) {
			return retry
		}
		return in.inspect(next, at)
	case *rule.ByteJump:
		to, ok := in.byteJump(m, at)
		if !ok {
			return retry
		}
		return in.inspect(next, to)
	case *rule.ByteExtract:
		if !in.byteExtract(m, at) {
			return retry
		}
		return in.inspect(next, at)
	case *rule.ByteMath:
		if !in.byteMath(m, at) {
			return retry
		}
		return in.inspect(next, at)
	}
	return in.testWhole(ms[0], next, at)
}

// testWhole tests matches on the buffer as a whole.
func (in *inspector) testWhole(m rule.Match, next []rule.Match, at int) result {
	ok := false
	switch m := m.(type) {
	case *rule.Size:
		ok = m.Match(uint64(len(in.buf)))
	case *rule.Entropy:
		var e float64
		if e, ok = entropyFits(m, in.buf); ok && in.ctx != nil {
			in.ctx.entropy(e)
		}
	case *rule.Dataset:
		ok = in.ctx != nil && in.ctx.dataset(m, in.buf)
	case *script:
		in.work += scriptWork
		ok = in.ctx != nil && in.ctx.script(m, in.buf, at)
	case *rule.Base64:
		return in.base64(m, next, at)
	}
	if !ok {
		return never
	}
	return in.inspect(next, at)
}

func (in *inspector) value(n rule.Number) int {
	if n.Var > 0 {
		return int(min(in.vars[n.Var-1], math.MaxInt32))
	}
	return int(n.N)
}

func (in *inspector) operand(n rule.Operand) uint64 {
	if n.Var > 0 {
		return in.vars[n.Var-1]
	}
	return uint64(n.N)
}

// bounds returns where a content may begin and must end.
func (in *inspector) bounds(c *rule.Content, at int) (from, to int) {
	to = len(in.buf)
	if !c.Relative() {
		if c.HasOffset {
			from = in.value(c.Offset)
		}
		if c.HasDepth {
			to = min(to, from+in.value(c.Depth))
		}
		return from, to
	}
	from = at
	distance := 0
	if c.HasDistance {
		distance = in.value(c.Distance)
		from = max(0, at+distance)
	}
	if c.HasWith {
		to = min(to, at+in.value(c.Within)+distance)
	}
	if c.HasDepth {
		to = min(to, at+in.value(c.Depth))
	}
	if c.HasOffset {
		from = max(from, in.value(c.Offset))
	}
	return from, to
}

// content tries a content from position at on.
func (in *inspector) content(c *rule.Content, next []rule.Match, at int) result {
	from, to := in.bounds(c, at)
	failed := retry
	if !c.Relative() {
		failed = never // no earlier match can change this
	}
	for {
		i := -1
		switch {
		case from > to || to-from < len(c.Pattern):
		case c.Ends:
			start := len(in.buf) - len(c.Pattern)
			if start >= from && to == len(in.buf) && equalAt(in.buf[start:], c) {
				i = start
			}
		case c.Starts && !c.Relative():
			if equalAt(in.buf[from:], c) {
				i = from
			}
		default:
			i = in.find(c, from, to)
		}
		if c.Negated {
			if i >= 0 {
				return failed
			}
			return in.inspect(next, at)
		}
		if i < 0 {
			return failed
		}
		end := i + len(c.Pattern)
		r := in.inspect(next, end)
		if r != retry || !c.RelativeNext {
			if r == retry {
				return failed
			}
			return r
		}
		if c.Ends {
			return failed
		}
		from = i + 1
	}
}

// find returns the first position of a content in data, or -1.
func find(data []byte, c *rule.Content) int {
	p := c.Pattern // folded when compiled, if case does not matter
	switch {
	case len(p) == 0:
		return 0
	case len(p) == 1 && !c.NoCase:
		return bytes.IndexByte(data, p[0])
	case len(data) >= shortBuffer:
		first, second := rarestBytes(p)
		if common(p[first]) <= rareByte || len(p) == 1 {
			return findBy(data, p, first, c.NoCase)
		}
		return findByTwo(data, p, first, second, c.NoCase)
	case !c.NoCase:
		return bytes.Index(data, p)
	}
	for i := 0; i+len(p) <= len(data); i++ {
		if lower[data[i]] == p[0] && at(data[i:], p) {
			return i
		}
	}
	return -1
}

// shortBuffer is the number of bytes up to which a buffer is searched byte by byte, because
// selecting rare bytes of a pattern would take longer. rareByte is the frequency up to which a
// single byte is searched for: more frequent ones give too many candidates.
const (
	shortBuffer = 64
	rareByte    = 6
)

// rarestBytes returns the positions of the two bytes of a pattern that are least frequent in
// pages, the rarest first. They are equal for a pattern of one byte.
func rarestBytes(p []byte) (first, second int) {
	for i, c := range p {
		switch {
		case common(c) < common(p[first]):
			first, second = i, first
		case second == first || i != first && common(c) < common(p[second]):
			second = i
		}
	}
	return first, second
}

// findByTwo returns the first position of a pattern in data, or -1. It compares two bytes of
// the pattern, at positions a and b, with 32 or eight positions of data at a time. With noCase
// the pattern must be folded.
func findByTwo(data, p []byte, a, b int, noCase bool) int {
	const ones, cases = 0x0101010101010101, 0x2020202020202020
	x, y := uint64(p[a]|0x20)*ones, uint64(p[b]|0x20)*ones
	first, second := data[a:], data[b:]
	i := 0
	for n := (min(len(first), len(second)) - i) / 32; vectors && n > 0; n = (min(len(first), len(second)) - i) / 32 {
		k := indexTwoAVX2(&first[i], &second[i], n, p[a]|0x20, p[b]|0x20)
		if i += k; k == n*32 {
			break
		}
		if noCase && at(data[i:], p) || !noCase && bytes.HasPrefix(data[i:], p) {
			return i
		}
		i++
	}
	for ; i+8 <= len(first) && i+8 <= len(second); i += 8 {
		// A byte of v is 0 where both bytes match, in any case.
		v := (binary.LittleEndian.Uint64(first[i:]) | cases) ^ x | (binary.LittleEndian.Uint64(second[i:]) | cases) ^ y
		for zero := (v - ones) &^ v & (ones << 7); zero != 0; zero &= zero - 1 {
			k := i + bits.TrailingZeros64(zero)/8
			if noCase && at(data[k:], p) || !noCase && bytes.HasPrefix(data[k:], p) {
				return k
			}
		}
	}
	for ; i+len(p) <= len(data); i++ {
		if noCase && at(data[i:], p) || !noCase && bytes.HasPrefix(data[i:], p) {
			return i
		}
	}
	return -1
}

// findBy returns the first position of a pattern in data, or -1. It searches for the byte at
// position off of the pattern. With noCase the pattern must be folded.
func findBy(data, p []byte, off int, noCase bool) int {
	end := len(data) - len(p) + off + 1 // limit of the positions of that byte
	index := func(c byte, from int) int {
		if from >= end {
			return end
		}
		if n := bytes.IndexByte(data[from:end], c); n >= 0 {
			return from + n
		}
		return end
	}
	small, large := p[off], p[off]
	if noCase && small >= 'a' && small <= 'z' {
		large -= 'a' - 'A'
	}
	s, l := index(small, off), end
	if large != small {
		l = index(large, off)
	}
	for s < end || l < end {
		i := min(s, l)
		if noCase && at(data[i-off:], p) || !noCase && bytes.HasPrefix(data[i-off:], p) {
			return i - off
		}
		if i == s {
			s = index(small, i+1)
		} else {
			l = index(large, i+1)
		}
	}
	return -1
}

func equalAt(data []byte, c *rule.Content) bool {
	if c.NoCase {
		return at(data, c.Pattern)
	}
	return bytes.HasPrefix(data, c.Pattern)
}

// An expression is a compiled pcre.
type expression struct {
	*rule.PCRE
	re *rule.Regexp
}

// latin converts the buffer to a text in which each byte is one character. ASCII needs no
// conversion.
func (in *inspector) latin() []byte {
	if in.text != nil {
		return in.text
	}
	in.work += 2 * len(in.buf) / searchBytes
	high := 0
	for _, c := range in.buf {
		high += int(c >> 7)
	}
	if in.ascii = high == 0; in.ascii {
		in.text = in.buf
		return in.text
	}
	out := slices.Grow(in.spare[:0], len(in.buf)+high)
	in.wide = in.wide[:0]
	for i, c := range in.buf {
		if i%stride == 0 {
			in.wide = append(in.wide, len(out)-i)
		}
		out = utf8.AppendRune(out, rune(c))
	}
	if len(in.buf)%stride == 0 {
		in.wide = append(in.wide, high)
	}
	in.text, in.spare = out, out
	return in.text
}

// stride is the distance of positions in the buffer whose position in the text is known.
const stride = 512

// toText converts a position in the buffer to one in the text, toBytes does the reverse.
func (in *inspector) toText(i int) int {
	if in.ascii {
		return i
	}
	k := i / stride
	n := k*stride + in.wide[k]
	for _, c := range in.buf[k*stride : i] {
		n += width(c)
	}
	return n
}

func (in *inspector) toBytes(i int) int {
	if in.ascii {
		return i
	}
	k := sort.Search(len(in.wide), func(k int) bool { return k*stride+in.wide[k] > i }) - 1
	at := k * stride
	for n := at + in.wide[k]; n < i; at++ {
		n += width(in.buf[at])
	}
	return at
}

// width returns the length in the text of a byte of the buffer.
func width(c byte) int { return 1 + int(c>>7) }

// pcre tries an expression from position at on.
func (in *inspector) pcre(m *expression, next []rule.Match, at int) result {
	from := 0
	if m.Relative {
		if at > len(in.buf) {
			return retry
		}
		from = at
	}
	place := from
	failed := retry
	if !m.Relative {
		failed = never
	}
	for {
		in.regexps++
		loc, ok := in.search(m, from, place)
		if !ok {
			in.over = true
			return never
		}
		if m.Negated {
			if loc != nil {
				return failed
			}
			return in.inspect(next, at)
		}
		if loc == nil {
			return failed
		}
		for i, c := range m.Captures {
			if 2*i+3 < len(loc) && loc[2*i+2] >= 0 {
				in.captures = append(in.captures, capture{c.Scope, c.Name, bytes.Clone(in.buf[loc[2*i+2]:loc[2*i+3]])})
			}
		}
		r := in.inspect(next, loc[1])
		if r != retry || !m.RelativeNext {
			if r == retry {
				return failed
			}
			return r
		}
		place = loc[0] + 1
		if place > len(in.buf) || in.steps > maxSteps || m.re.Anchored() {
			return failed
		}
	}
}

// search searches for an expression from position place on, in the text from position from on.
// ok is false if it was given up.
func (in *inspector) search(m *expression, from, place int) (loc []int, ok bool) {
	end := min(len(in.buf), place+maxSubject)
	switch anchored := m.re.Anchored(); {
	case anchored && (place == from || !m.re.Looking()) && in.refuses(m.re, in.buf[place:end]):
		return nil, true
	case anchored && !m.re.Looking():
		loc, ok = in.beginning(m.re, in.buf[place:end]), true
		move(loc, place)
	default:
		began := time.Time{}
		if end-place > quickSubject || m.re.Looking() {
			began = time.Now()
		}
		if m.re.Looking() {
			loc, ok = in.backtrack(m.re, from, place, end)
		} else {
			loc, ok = in.linear(m.re, place, end), true
		}
		seen := end - place
		if loc != nil {
			seen = loc[1] - place
		}
		work := seen * expressionWork
		if !began.IsZero() {
			spent := int(time.Since(began))
			if m.re.Looking() && spent > slowSearch { // it examined the same bytes again and again
				in.slow += spent
			}
			if end-place > quickSubject { // it may have examined less
				work = min(work, spent)
				if loc == nil && anchored && ok { // mostly at the beginning
					work = min(work, quickSubject*expressionWork)
				}
			}
		}
		in.work += work
	}
	// The end of a part is not the end of the buffer for an expression.
	whole := end == len(in.buf) || loc == nil && m.re.Anchored() || loc != nil && loc[1] < end
	return loc, ok && whole
}

func move(loc []int, by int) {
	for i := range loc {
		if loc[i] >= 0 {
			loc[i] += by
		}
	}
}

// A byteReader reads bytes as characters, as far as needed.
type byteReader struct {
	data []byte
	at   int
}

func (r *byteReader) ReadRune() (c rune, size int, err error) {
	if r.at == len(r.data) {
		return 0, 0, io.EOF
	}
	r.at++
	return rune(r.data[r.at-1]), 1, nil
}

// beginning returns the match of an expression that matches at the beginning only. It examines
// no more of data than needed.
func (in *inspector) beginning(re *rule.Regexp, data []byte) []int {
	in.reader = byteReader{data: data}
	loc := re.Read(&in.reader)
	in.work += in.reader.at * expressionWork
	in.reader.data = nil
	return loc
}

// refuses reports that an expression does not match at the beginning of data.
func (in *inspector) refuses(re *rule.Regexp, data []byte) bool {
	read, no := re.Refuses(data)
	in.work += read
	return no
}

// linear searches for an expression that may match anywhere.
func (in *inspector) linear(re *rule.Regexp, place, end int) []int {
	n := re.Skip(in.buf[place:end])
	if n < 0 {
		return nil
	}
	place += n
	text := in.latin()
	begin := in.toText(place)
	loc := re.Find(text[begin:in.toText(end)])
	for i := range loc {
		if loc[i] >= 0 {
			loc[i] = in.toBytes(begin + loc[i])
		}
	}
	return loc
}

// backtrack searches for an expression that works on characters.
func (in *inspector) backtrack(re *rule.Regexp, from, place, end int) (loc []int, ok bool) {
	if n := re.Longest(); n > 0 && place == from {
		end = min(end, from+n)
	}
	if !re.Anchored() {
		n := re.Skip(in.buf[place:end])
		if n < 0 {
			return nil, true
		}
		place += n
	}
	loc, ok = re.FindRunes(in.characters(from, end), place-from)
	move(loc, from)
	return loc, ok
}

// characters returns the text between two positions as characters. Many searches need nearly
// the same.
func (in *inspector) characters(from, end int) []rune {
	if from < in.runesAt || from > in.runesAt+len(in.runes) {
		in.runes = in.runes[:0]
	}
	if len(in.runes) == 0 {
		in.runesAt = from
	}
	if n := in.runesAt + len(in.runes); n < end {
		in.runes = slices.Grow(in.runes, end-n)
		for _, c := range in.buf[n:end] {
			in.runes = append(in.runes, rune(c))
		}
	}
	return in.runes[from-in.runesAt : end-in.runesAt]
}

// read reads the number for a byte_ keyword and returns where it ends.
func (in *inspector) read(r *rule.Reader, at int) (n uint64, end int, ok bool) {
	i := in.value(r.Offset)
	if r.Relative {
		i += at
	}
	size := in.value(r.Bytes)
	if i < 0 || size < 0 || i+size > len(in.buf) {
		if !r.Text || i < 0 || i >= len(in.buf) {
			return 0, 0, false
		}
		size = len(in.buf) - i
	}
	raw := in.buf[i : i+size]
	if r.Text {
		n, used, ok := digits(raw, r.Base)
		if !ok {
			return 0, 0, false
		}
		return in.masked(r, n), i + used, true
	}
	if size > 8 || size == 0 {
		return 0, 0, size == 0
	}
	for k := range raw {
		if r.Little {
			n |= uint64(raw[k]) << (8 * k)
		} else {
			n = n<<8 | uint64(raw[k])
		}
	}
	return in.masked(r, n), i + size, true
}

func (in *inspector) masked(r *rule.Reader, n uint64) uint64 {
	if r.Mask == 0 {
		return n
	}
	n &= uint64(r.Mask)
	for m := r.Mask; m&1 == 0; m >>= 1 {
		n >>= 1
	}
	return n
}

// digits parses a number as strtoull does: spaces, a sign, and digits up to the first other
// byte.
func digits(raw []byte, base int) (n uint64, used int, ok bool) {
	i := 0
	for i < len(raw) && (raw[i] == ' ' || raw[i] >= '\t' && raw[i] <= '\r') {
		i++
	}
	if i < len(raw) && (raw[i] == '+' || raw[i] == '-') {
		i++
	}
	if base == 16 && i+1 < len(raw) && raw[i] == '0' && raw[i+1]|0x20 == 'x' {
		i += 2
	}
	from := i
	for i < len(raw) {
		if c := raw[i]; !isHex(c) || int(unhex(c)) >= base {
			break
		}
		i++
	}
	if i == from {
		return 0, 0, false
	}
	n, err := strconv.ParseUint(string(raw[from:i]), base, 64)
	return n, i, err == nil
}

func (in *inspector) byteTest(m *rule.ByteTest, at int) bool {
	n, _, ok := in.read(&m.Reader, at)
	if !ok {
		return false
	}
	v := in.operand(m.Value)
	switch m.Op {
	case "<":
		ok = n < v
	case ">":
		ok = n > v
	case "<=":
		ok = n <= v
	case ">=":
		ok = n >= v
	case "=":
		ok = n == v
	case "&":
		ok = n&v != 0
	case "^":
		ok = n^v != 0
	}
	return ok != m.Negated
}

func (in *inspector) byteJump(m *rule.ByteJump, cursor int) (int, bool) {
	n, end, ok := in.read(&m.Reader, cursor)
	if !ok {
		return 0, false
	}
	if m.Bytes.N == 0 && m.Bytes.Var == 0 {
		end = in.value(m.Offset)
		if m.Relative {
			end += cursor
		}
	}
	jump := int64(n) * int64(m.Multiplier)
	if n > math.MaxInt32 {
		return 0, false
	}
	if m.Align && jump%4 != 0 {
		jump += 4 - jump%4
	}
	post := int64(m.Post)
	if m.PostVar > 0 {
		post = int64(in.vars[m.PostVar-1])
	}
	to := int64(end) + jump + post
	switch {
	case m.Begin:
		to = jump + post
	case m.End:
		to = int64(len(in.buf)) + jump + post
	}
	if to < 0 || to > int64(len(in.buf)) {
		return 0, false
	}
	return int(to), true
}

func (in *inspector) byteExtract(m *rule.ByteExtract, at int) bool {
	n, _, ok := in.read(&m.Reader, at)
	if !ok {
		return false
	}
	n *= m.Multiplier
	if a := uint64(m.Align); a > 0 && n%a != 0 {
		n += a - n%a
	}
	in.vars[m.Slot-1] = n
	return true
}

func (in *inspector) byteMath(m *rule.ByteMath, at int) bool {
	n, _, ok := in.read(&m.Reader, at)
	if !ok {
		return false
	}
	v := in.operand(m.Value)
	switch m.Op {
	case "+":
		n += v
	case "-":
		n -= v
	case "*":
		n *= v
	case "/":
		if v == 0 {
			return false
		}
		n /= v
	case "<<":
		if v >= 64 {
			n = 0
		} else {
			n <<= v
		}
	case ">>":
		if v >= 64 {
			n = 0
		} else {
			n >>= v
		}
	}
	in.vars[m.Slot-1] = n
	return true
}

// base64 decodes from the cursor and inspects the result.
func (in *inspector) base64(m *rule.Base64, next []rule.Match, at int) result {
	from := m.Offset
	if m.Relative {
		from += at
	}
	if from >= len(in.buf) {
		return retry
	}
	raw := in.buf[from:]
	if m.Bytes > 0 && m.Bytes < len(raw) {
		raw = raw[:m.Bytes]
	}
	out := decodeBase64(raw, false)
	if len(out) == 0 {
		return retry
	}
	if len(m.Inner) > 0 {
		sub := inspector{buf: out, vars: in.vars, work: in.work, ctx: in.ctx}
		r := sub.inspect(m.Inner, 0)
		in.steps, in.work, in.slow, in.over = in.steps+sub.steps, sub.work, in.slow+sub.slow, in.over || sub.over
		in.captures = append(in.captures, sub.captures...)
		if r != match {
			return retry
		}
	}
	return in.inspect(next, at)
}

// decodeBase64 decodes as far as there are digits. It skips spaces and line ends if skip is
// true.
func decodeBase64(raw []byte, skip bool) []byte {
	if len(raw) > maxBase64 {
		raw = raw[:maxBase64]
	}
	clean := make([]byte, 0, len(raw))
	for _, c := range raw {
		if isBase64(c) {
			clean = append(clean, c)
			continue
		}
		if skip && c != '=' {
			continue
		}
		break
	}
	if len(clean)%4 == 1 {
		clean = clean[:len(clean)-1]
	}
	out := make([]byte, base64.RawStdEncoding.DecodedLen(len(clean)))
	n, _ := base64.RawStdEncoding.Decode(out, clean)
	return out[:n]
}

func isBase64(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/'
}

// entropyFits compares Shannon's entropy in bits per byte, and returns it.
func entropyFits(m *rule.Entropy, b []byte) (e float64, ok bool) {
	if m.Offset > len(b) {
		return 0, false
	}
	b = b[m.Offset:]
	if m.Bytes > 0 {
		if m.Bytes > len(b) {
			return 0, false
		}
		b = b[:m.Bytes]
	}
	e = Entropy(b)
	switch m.Op {
	case "=":
		ok = e == m.Value
	case "!=":
		ok = e != m.Value
	case "<":
		ok = e < m.Value
	case ">":
		ok = e > m.Value
	case "<=":
		ok = e <= m.Value
	case ">=":
		ok = e >= m.Value
	case "<>":
		ok = e > m.Value && e < m.High
	case "!<>":
		ok = e <= m.Value || e >= m.High
	}
	return e, ok
}

// Entropy returns Shannon's entropy of b in bits per byte.
func Entropy(b []byte) float64 {
	if len(b) == 0 {
		return 0
	}
	var count [256]int
	for _, c := range b {
		count[c]++
	}
	e := 0.0
	for _, n := range count {
		if n > 0 {
			p := float64(n) / float64(len(b))
			e -= p * math.Log2(p)
		}
	}
	return e
}
