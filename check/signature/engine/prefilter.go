package engine

import (
	"encoding/binary"
	"iter"
	"math/bits"
	"slices"
	"sort"
	"strings"

	"shuultuur/check/signature/rule"
)

// A prefilter finds which of many patterns occur in a buffer.
//
// A scan hashes the four bytes at every second position, and examines only positions where two
// runs, two bytes apart, may belong to the same pattern. A table maps each hash to groups of
// patterns: those for which such a run may be the first, and those for which it may be the
// second. So each pattern has two pairs of runs in the table, one at an even position in it
// and one at an odd position: the pairs that are rarest in web traffic. A pattern too short
// for a pair has one run, in its own group, for which any run may be the second. If a run
// extends beyond the pattern, the table has it with every byte that may be before or after.
// Before a pattern is compared, a second hash of both runs has to be known.
// Patterns of one and two bytes are searched for one by one, or, if there are many, in
// separate tables.
//
// On processors with AVX2, vector instructions hash 16 positions at a time, and positions to
// examine are first collected.
//
// This resembles the filter in Hyperscan (Wang and others, Hyperscan: A Fast Multi-pattern
// Regex Matcher for Modern CPUs, 2019), with hashes instead of shifts.
type prefilter struct {
	groups  groups   // nil if no pattern has a hash
	buckets []int32  // index of the first run of each
	shift   uint8    // of the hash for buckets
	runs    []run    // by bucket
	known   []uint32 // bits of pairs of runs, which most false candidates lack
	entries []entry
	pairs   *[1 << 10]uint64
	short   map[uint16][]int32 // two bytes, folded, to patterns
	single  *[256][]int32
	pats    []pattern
	n       int
	longest int // length of the longest pattern in bytes
	few     []rarePattern
	threes  []int32 // patterns of three bytes, for data of three bytes
}

// A pattern is a pattern of a prefilter. It is folded unless it is exact.
type pattern struct {
	text  string
	exact bool // case matters
}

// begins reports whether data begins with the pattern.
func (p *pattern) begins(data []byte) bool {
	if len(data) < len(p.text) {
		return false
	}
	if p.exact {
		return string(data[:len(p.text)]) == p.text
	}
	for i := range len(p.text) {
		if lower[data[i]] != p.text[i] {
			return false
		}
	}
	return true
}

// patternOf returns the pattern for the whole content.
func patternOf(c *rule.Content) pattern { return newPattern(c.Pattern, !c.NoCase) }

func newPattern(text []byte, exact bool) pattern {
	if !exact {
		text = fold(text)
	}
	return pattern{string(text), exact}
}

// A rarePattern is one of a few patterns, or of a few short ones. It is searched for by its rarest
// bytes, which is faster than examining every position.
type rarePattern struct {
	pat           int32
	text          []byte
	first, second int // positions of its rarest bytes
}

// maxFew is the number of patterns, or of short ones, up to which they are searched for one by
// one.
const maxFew = 8

// A run is four bytes, folded, that may be where an entry says. Most lookups need nothing
// else.
type run struct {
	key   uint32
	entry int32
}

// An entry is a pattern and the position of four of its bytes in it. eight has the eight bytes
// of the pattern at a position relative to those four. Most false candidates differ in them and
// need no full comparison.
type entry struct {
	eight, mask uint64
	fold        uint64 // the bits of case, if case does not matter
	pat         int32
	off, to     int16
}

const multiplier = 0x9E3779B1

// The number of slots of a table depends on its patterns: a table should be so small that it stays
// in the cache, and so large that few candidates are false. The largest has 128 KiB.
const (
	leastSlots = 1 << 6
	mostSlots  = 1 << 16
	runSlots   = 8 // slots for each run
)

// groups has the groups of patterns, by slot. Their number is a power of two.
type groups []uint16

// pairGroups is the number of groups of patterns with pairs. In a slot they are bits of the
// lower byte for the first run, of the upper byte for the second. The bit after them marks
// single runs.
const pairGroups = 7

// pair is the length of two runs together, in bytes.
const pair = gram + 2

// runMask has the bits of a run that tables use. It folds case and has five bits of the outer
// bytes, so that patterns with any byte there take less room.
const runMask = 0x1fdfdf1f

// slot returns the slot of a run.
func (g groups) slot(run uint32) uint32 {
	return run & runMask * multiplier >> 16 & uint32(len(g)-1)
}

// of returns the groups of a run.
func (g groups) of(run uint32) uint16 { return g[g.slot(run)] }

// gram is the number of bytes of a pattern that are hashed.
const gram = 4

// newPrefilter compiles patterns. They are reported by their index.
func newPrefilter(patterns []pattern) *prefilter {
	f := &prefilter{n: len(patterns), pats: patterns}
	if len(patterns) <= maxFew { // a table would not be worth its memory
		for i := range patterns {
			if p := patterns[i].text; len(p) > 0 {
				f.few = append(f.few, newFew(int32(i), patterns[i].text))
				f.longest = max(f.longest, len(p))
			}
		}
		return f
	}
	long, short := 0, 0 // number of runs of four bytes, and of patterns that have none
	for i := range patterns {
		n := len(patterns[i].text)
		f.longest = max(f.longest, n)
		switch {
		case n > gram:
			long += 2
		case n == gram:
			long += 1 + 1<<5
		case n == gram-1:
			long += 2 << 5
			f.threes = append(f.threes, int32(i))
		case n > 0:
			short++
		}
	}
	f.shift = uint8(32 - max(4, bits.Len(uint(long))))
	nb := 1 << (32 - f.shift)
	if long > 0 {
		f.known = make([]uint32, nb*knownBits/32)
		f.groups = make(groups, min(max(1<<bits.Len(uint(long*runSlots)), leastSlots), mostSlots))
		for i := range f.groups { // any run may follow a single run
			f.groups[i] = 1 << (pairGroups + 8)
		}
	}
	for i := range patterns {
		p := fold([]byte(patterns[i].text))
		if len(p) > 0 && len(p) < gram-1 && short <= maxFew {
			f.few = append(f.few, newFew(int32(i), patterns[i].text))
			continue
		}
		f.add(int32(i), p)
	}
	sort.Slice(f.runs, func(i, j int) bool { return f.bucket(f.runs[i].key) < f.bucket(f.runs[j].key) }) // slices.SortFunc would be compiled for this type
	f.buckets = make([]int32, nb+1)
	for i := range f.runs {
		f.buckets[f.bucket(f.runs[i].key)+1] = int32(i + 1)
	}
	for b := range nb { // an empty bucket ends where the one before ends
		f.buckets[b+1] = max(f.buckets[b+1], f.buckets[b])
	}
	f.runs, f.entries = slices.Clone(append(f.runs, run{})), slices.Clone(f.entries) // without spare capacity; a run after the last bucket
	return f
}

// bucket returns the bucket for runs of four bytes.
func (f *prefilter) bucket(key uint32) uint32 { return key * multiplier >> f.shift }

// knownBits is the number of bits in known for each bucket.
const knownBits = 16

// bit returns the bit in known of the six bytes that two runs have. Like runMask, it uses five
// bits of the outer bytes.
func (f *prefilter) bit(first uint32, last uint16) (word, bit uint32) {
	h := (first&0x1f|first&0xffffff00|0x20202000)*multiplier ^ uint32(last&0x1fff|0x2020)*0x85EBCA6B
	return h >> 12 & uint32(len(f.known)-1), h >> 7 & 31
}

// mayBe returns 1 if both runs at position i may be those of a pattern, or the first one a single
// run.
func (f *prefilter) mayBe(data []byte, i int, value uint16) int {
	d := data[i : i+pair : i+pair]
	first := binary.LittleEndian.Uint32(d)
	word, bit := f.bit(first, binary.LittleEndian.Uint16(d[gram:]))
	alone, its := f.bit(first&runMask, 0)
	return int(f.known[word]>>bit&1 | f.known[alone]>>its&uint32(value>>pairGroups)&1)
}

func newFew(i int32, text string) rarePattern {
	x := rarePattern{pat: i, text: []byte(text)}
	x.first, x.second = rarestBytes(fold(x.text))
	return x
}

// occursIn reports whether the pattern is in data.
func (x *rarePattern) occursIn(data []byte, exact bool) bool {
	if len(data) < len(x.text) {
		return false
	}
	if x.first == x.second || common(lower[x.text[x.first]]) <= rareByte {
		return findBy(data, x.text, x.first, !exact) >= 0
	}
	return findByTwo(data, x.text, x.first, x.second, !exact) >= 0
}

func (f *prefilter) add(i int32, p []byte) {
	switch {
	case len(p) >= pair:
		for parity := range 2 {
			f.pair(i, p, rarest(p, parity))
		}
	case len(p) > gram:
		f.pair(i, p, 0)
		f.pair(i, p, -1)
	case len(p) == gram:
		f.enter(i, 0)
		f.first(binary.LittleEndian.Uint32(p), 1<<pairGroups)
		f.pair(i, p, -1)
	case len(p) == gram-1:
		for _, off := range []int{0, -1} {
			f.enter(i, off)
			for key := range runs(p, off) {
				f.first(key, 1<<pairGroups)
			}
		}
	case len(p) >= 2:
		if f.pairs == nil {
			f.pairs, f.short = new([1 << 10]uint64), map[uint16][]int32{}
		}
		k := binary.LittleEndian.Uint16(p) | 0x2020
		f.pairs[k>>6] |= 1 << (k & 63)
		f.short[k] = append(f.short[k], i)
	case len(p) == 1:
		if f.single == nil {
			f.single = new([256][]int32)
		}
		f.single[p[0]] = append(f.single[p[0]], i)
	}
}

// pair adds two runs of a pattern to the table, at position off in it and two bytes after.
func (f *prefilter) pair(i int32, p []byte, off int) {
	f.enter(i, off)
	group := uint16(0)
	for key := range runs(p, off) {
		if group == 0 {
			group = 1 << (key * multiplier >> 16 % pairGroups)
		}
		f.first(key, group)
	}
	for key := range runs(p, off+2) {
		f.groups[f.groups.slot(key)] |= group << 8
		for first := range runs(p, off) {
			word, bit := f.bit(first, uint16(key>>16))
			f.known[word] |= 1 << bit
		}
	}
}

// runs iterates over the runs possible at a position of a pattern. A byte before or after the
// pattern can be any; bytes that fold to the same one are included once.
func runs(p []byte, off int) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		key, outside := uint32(0), -1
		for k := range gram {
			if at := off + k; at >= 0 && at < len(p) {
				key |= uint32(p[at]) << (8 * k)
			} else {
				outside = 8 * k
			}
		}
		if outside < 0 {
			yield(key)
			return
		}
		for c := range uint32(1 << 5) {
			if !yield(key | c<<outside) {
				return
			}
		}
	}
}

// enter adds a pattern with position off in it to the table.
func (f *prefilter) enter(pat int32, off int) {
	p := &f.pats[pat]
	at := rarestEight(p.text, off)
	x := entry{pat: pat, off: int16(off), to: int16(at - off)}
	if !p.exact {
		x.fold = 0x2020202020202020
	}
	for w := 0; w < 8 && at+w < len(p.text); w++ {
		x.eight |= (uint64(p.text[at+w]) | x.fold&0xff) << (8 * w)
		x.mask |= 0xff << (8 * w)
	}
	f.entries = append(f.entries, x)
}

// rarestEight returns the position of the eight bytes of a pattern that are rarest in web traffic,
// not counting those of the pair at position off.
func rarestEight(p string, off int) (at int) {
	most := -1
	for i := 0; i == 0 || i+8 <= len(p) && i < 1<<14; i++ {
		sum := 0
		for k := i; k < min(i+8, len(p)); k++ {
			if k < off || k >= off+pair {
				sum += anyByte - common(lower[p[k]])
			}
		}
		if sum > most {
			most, at = sum, i
		}
	}
	return at
}

// first adds four bytes that may be at the position of the last entry to the table, as the
// first run of patterns of a group.
func (f *prefilter) first(key uint32, group uint16) {
	key &= runMask
	f.groups[f.groups.slot(key)] |= group
	if group == 1<<pairGroups {
		word, bit := f.bit(key, 0)
		f.known[word] |= 1 << bit
	}
	f.runs = append(f.runs, run{key, int32(len(f.entries) - 1)})
}

// fold returns p with ASCII letters in lower case.
func fold(p []byte) []byte {
	q := make([]byte, len(p))
	for i, c := range p {
		q[i] = lower[c]
	}
	return q
}

var lower = func() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
		if i >= 'A' && i <= 'Z' {
			t[i] += 'a' - 'A'
		}
	}
	return
}()

// rarest returns the position of the pair of runs that is rarest in web traffic, among even or
// odd positions. The position before a short pattern counts as odd.
func rarest(p []byte, parity int) int {
	at := parity
	best := frequency(p, at)
	for i := parity; i+pair <= len(p) && i < 1<<15; i += 2 {
		if sum := frequency(p, i); sum < best {
			best, at = sum, i
		}
	}
	if parity == 1 && len(p) <= shortPattern && frequency(p, -1) < best {
		at = -1
	}
	return at
}

// shortPattern is the length up to which a pattern may have the byte before it in a run. Any
// byte is possible there, which fills the table.
const shortPattern = 7

// frequency returns how common the pair of runs at position i of a pattern is in web traffic;
// less is better.
func frequency(p []byte, i int) (sum int) {
	for _, at := range [2]int{i, i + 2} {
		for k := at; k < at+gram; k++ {
			if k < 0 || k >= len(p) {
				sum += anyByte
			} else {
				sum += common(p[k])
			}
		}
		if at >= 0 && at+gram <= len(p) {
			if _, ok := frequent[binary.LittleEndian.Uint32(p[at:])|0x20202020]; ok {
				sum += 100
			}
		}
	}
	return sum
}

// anyByte is the value of [common] for an unknown byte.
const anyByte = 20

// rareness estimates how rare a pattern is in pages, in bits: each more halves the number of
// positions.
func rareness(p []byte) (bits int) {
	for i, c := range p {
		if i >= gram-1 {
			if _, ok := frequent[binary.LittleEndian.Uint32(p[i-gram+1:])|0x20202020]; ok {
				bits++ // as expected
				continue
			}
		}
		bits += max(1, 16-common(lower[c]))
	}
	return bits
}

// rare is the rareness from which on a pattern is in few pages only.
const rare = 48

// guarding is the rareness from which on a second pattern is worth a search. Beside a common
// pattern it has to be rarer by less.
const (
	guarding = 36
	rarer    = 5
)

// everyday reports whether a pattern consists of text that is common in pages.
func everyday(p []byte) bool {
	for i := 0; i+gram <= len(p); i++ {
		if _, ok := frequent[binary.LittleEndian.Uint32(p[i:])|0x20202020]; !ok {
			return false
		}
	}
	return true
}

// frequent are the runs of four bytes in words that are common in pages, scripts and heads.
var frequent = func() map[uint32]struct{} {
	set := map[uint32]struct{}{}
	for w := range strings.FieldsSeq(frequentWords) {
		for _, text := range []string{w, " " + w, w + " ", w + "=\"", "." + w, w + "("} {
			for i := 0; i+gram <= len(text); i++ {
				set[binary.LittleEndian.Uint32([]byte(text[i:]))|0x20202020] = struct{}{}
			}
		}
	}
	for phrase := range strings.Lines(frequentPhrases) {
		for i := 0; i+gram < len(phrase); i++ { // without the line break
			set[binary.LittleEndian.Uint32([]byte(phrase[i:]))|0x20202020] = struct{}{}
		}
	}
	for _, text := range []string{"\r\n\r\n", " HTTP/1.1\r\nHost: www.", "\r\nContent-Type: ", "\r\nAccept: */*\r\nAccept-", "\r\nConnection: Keep-Alive\r\n", "\r\nCookie: ", "\x00\x00\x00\x00", "\r\n\r\n<!DOCTYPE html",
		"    \n    \n\t\t\t", ">\n    <", ">\n\n", ">\r\n  ", ";\n  ", "{\n  ", "p>\n  ", "e\">\n  ", "\\u002F\\u002f\\u0022"} {
		for i := 0; i+gram <= len(text); i++ {
			set[binary.LittleEndian.Uint32([]byte(text[i:]))|0x20202020] = struct{}{}
		}
	}
	return set
}()

// frequentPhrases are common texts of pages and scripts, one per line.
const frequentPhrases = `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>
</title></head><body></body></html>
<div class="</div></div><div id="
<a href="https://www.</a></li><li><a href="/
<a class="<span class="</span></a><p class="</p>
href="#" href="../" href="css/style.css" rel="stylesheet" type="text/css">
src="js/" src="img/" src="images/" src="https://" alt="" width="100%" height="1
<input type="text" name="value=" type="hidden" name="id" placeholder="
<form action="" method="post" name="form" id="form"><button type="submit" class="btn
<table border="0" cellpadding="0" cellspacing="0"><tr><td></td></tr></table>
<img src="<br><br/><br /><h1></h1><h2></h2><center></center><strong></strong>
<script src="<script type="text/javascript"></script><script>
<style type="text/css">style="display:none;" style="color:#
document.getElementById("document.write(document.createElement("window.location=
.innerHTML=.value=.length;.replace(/.push(.split(".indexOf(".substring(0,
function(){function(e){return this.};return};if(!else{for(var i=0;i<
=="undefined"&&typeof ===null||=function(=window.=document.var a=var b=new Array(new Date(
":"",":{" ":[{" "},{" ":true,":false,":null,"id":"name":"type":"value":"url":"http
&nbsp;&nbsp; &amp; &quot; &lt; &gt; &copy; 
http://www. https://www. .com/ .com" .org/ .net/ .php? .html" .js" .css" ?id= &id=
eval("atob("<html>"form"</form>
<!-- --><!--[if lt IE 9]><![endif]--><!-- / -->\u0022\u002F\u003C\u003E":[],"
`

const frequentWords = `<html <head <body <title <meta <link <script </script> <style </style> <div </div> <span </span> <table <form <input
	<img <a </a> <p> </p> <li> </li> <br> <option <button href= src= class= style= name= value= type= content= width= height= id= rel=
	text/css text/html text/javascript application/json image/png stylesheet http:// https:// www. .com .html .php .js .css .png .jpg
	function return document window getElementById getElementsByTagName createElement appendChild addEventListener innerHTML location
	var let const this new null true false undefined prototype length replace indexOf substring split join push parseInt Math String
	Array Object Date typeof else while break case switch default throw catch event target element node attribute import export module
	color background border margin padding display none block inline position absolute relative center left right top bottom font family
	size weight important solid hidden overflow float clear cursor pointer white black url data item list user page site home search news
	contact about login account password email phone address city state country date time number index result error message status code
	text title description image video audio media file load ready click submit select option label button table column header footer
	author auth icon mobile view property blog follow google mark facebook book info collect download upload open sign confirm small
	compare community comment track article vertical light drop yahoo iframe print play apple device service box well quality online
	window.location scroll article mailto twitter youtube instagram share feed post tag category archive default theme module widget
	plugin wp-content assets static cdn ajax json api version build config setting update create delete remove append before after
	account customer product price cart shop order payment bank security privacy policy terms cookie consent read more 2015 2016 2017
	2018 2019 2020 2021 2022 2023 2024 2025 -----  "name": "url": "type": "id": ": {" ": " \u00 \u0 'type', 'name', display: none; center; block;
	main menu item with that this from have will your more about they were been which their would there could other than then these
	Content-Type Content-Length Accept-Encoding User-Agent Mozilla Windows Connection keep-alive Cookie Referer Host Server Date Cache
	charset= utf-8 HTTP/1.1 GET POST wrapper configure configuration require callback dropbox browser redirect provide internal external
	format information checkbox desktop register office official amazon support language microsoft credit request tracking hacker
	explain template primary embed creative current client response program jquery symbol linkedin success escape global bucket
	placeholder billing warning working survey execute industries complete develop continue protect secure verify http-equiv opener
	applet .class aHR0cDov script> ://www. ://secure window.location position:absolute display:none`

// common returns how frequent a byte is in pages: the logarithm, from 0, of its occurrences in
// a million bytes.
func common(c byte) int {
	switch {
	case c >= ' ' && c < 0x7f:
		return int(printable[c-' '] - 'a')
	case c == '\n':
		return 10
	case c == '\r' || c == '\t' || c == 0:
		return 6
	}
	return 2
}

// printable has the values of [common] for ASCII characters, from the space on: 'a' stands for
// 0.
const printable = "pgmgfiihiifgkllklkkjjjjjjjkjkkkfeiiiiiihhihgiiiihhiijhhhhhhhjhdjamkllmkklmijllmmlimmmlkkjkiifie"

// scan calls hit once for every pattern that occurs in data, and records its positions in
// seen, which must be reset for the number of patterns.
func (f *prefilter) scan(data []byte, seen *sight, hit func(pat int32)) (candidates int) {
	if len(f.entries) > 0 && len(data) >= gram {
		candidates = f.scanLong(data, seen, hit)
	} else if len(data) == gram-1 {
		for _, p := range f.threes {
			if f.pats[p].begins(data) && seen.mark(p) {
				hit(p)
			}
		}
	}
	for i := range f.few {
		if x := &f.few[i]; x.occursIn(data, f.pats[x.pat].exact) && seen.mark(x.pat) {
			candidates++
			hit(x.pat)
		}
	}
	if f.pairs != nil {
		for i := 0; i+2 <= len(data); i++ {
			k := binary.LittleEndian.Uint16(data[i:]) | 0x2020
			if f.pairs[k>>6]>>(k&63)&1 == 0 {
				continue
			}
			candidates++
			for _, p := range f.short[k] {
				if !seen.full(p) && f.pats[p].begins(data[i:]) && seen.mark(p) {
					hit(p)
				}
			}
		}
	}
	if f.single != nil {
		for i, c := range data {
			for _, p := range f.single[lower[c]] {
				if f.pats[p].begins(data[i:]) && seen.mark(p) {
					hit(p)
				}
			}
		}
	}
	return candidates
}

func (f *prefilter) scanLong(data []byte, seen *sight, hit func(int32)) (candidates int) {
	i, groups := 0, f.groups
	if vectors {
		i, candidates = f.scanBlocks(data, seen, hit)
	}
	before := uint64(0) // value for the run two bytes before
	if i > 0 {
		before = uint64(groups.of(binary.LittleEndian.Uint32(data[i-2:])))
	}
	for ; i+12 <= len(data); i += 8 {
		d := data[i : i+12 : i+12]
		v, w := binary.LittleEndian.Uint64(d), binary.LittleEndian.Uint64(d[4:])
		x := uint64(groups.of(uint32(v))) | uint64(groups.of(uint32(v>>16)))<<16 |
			uint64(groups.of(uint32(w)))<<32 | uint64(groups.of(uint32(w>>16)))<<48
		if c := (x<<16 | before) & (x >> 8) & 0x00ff00ff00ff00ff; c != 0 {
			candidates += f.four(data, i-2, c, seen, hit)
		}
		before = x >> 48
	}
	for i = max(0, i-2); i+gram <= len(data); i++ { // every position, because a pattern of four bytes may be at the end
		key := binary.LittleEndian.Uint32(data[i:]) & runMask
		if uint8(groups.of(key)) != 0 {
			candidates++
			f.comparePatterns(data, i, key, seen, hit)
		}
	}
	return candidates
}

// manyBlocks is the number of blocks of 32 bytes that are sieved at a time, manySuspects the
// number of candidates that are examined together, and manySimilar that of entries.
const (
	manyBlocks   = 64
	manySuspects = 64
	manySimilar  = 128
)

// A suspect is a position where a pattern may be, with its bucket and the first run in that.
type suspect struct {
	at       int
	key      uint32
	from, to int32
	first    run
}

// A sieve is the memory of scanBlocks.
type sieve struct {
	values   [1 + manyBlocks*16]uint16
	out      [manyBlocks]uint64
	suspects [manySuspects]suspect
	similar  [manySimilar]similar
}

// A similar is a position that has the four bytes of an entry.
type similar struct {
	at    int
	entry int32
}

// scanBlocks is scanLong with vector instructions, for whole blocks, and returns where it
// ended.
func (f *prefilter) scanBlocks(data []byte, seen *sight, hit func(int32)) (end, candidates int) {
	s := &seen.sieve
	n := 0
	s.values[0] = 0
	for {
		blocks := min(manyBlocks, (len(data)-end-2)/32)
		if blocks <= 0 {
			f.examine(data, s.suspects[:n], seen, hit)
			return end, candidates
		}
		for _, x := range s.out[:sieveAVX2(&data[end], blocks, &f.groups[0], len(f.groups)-1, &s.values[0], &s.out[0])] {
			for which := uint32(x); which != 0; which &= which - 1 {
				i := end + int(x>>32) + 2*bits.TrailingZeros32(which) - 2
				candidates++
				s.suspects[n].at = i
				if n += f.mayBe(data, i, s.values[(i+2-end)/2]); n == len(s.suspects) {
					f.examine(data, s.suspects[:n], seen, hit)
					n = 0
				}
			}
		}
		end += blocks * 32
		s.values[0] = s.values[blocks*16]
	}
}

// examine compares patterns at suspects. It takes each step for all of them before the next
// step, so that memory accesses overlap.
func (f *prefilter) examine(data []byte, suspects []suspect, seen *sight, hit func(int32)) {
	for n := range suspects {
		x := &suspects[n]
		x.key = binary.LittleEndian.Uint32(data[x.at:]) & runMask
		b := f.bucket(x.key)
		x.from, x.to = f.buckets[b], f.buckets[b+1]
	}
	for n := range suspects {
		x := &suspects[n]
		x.first = f.runs[x.from]
	}
	all := seen.sieve.similar[:0]
	for n := range suspects {
		x := &suspects[n]
		for k, r := x.from, x.first; k < x.to; r = f.runs[k] { // there is a run after the last
			if k++; r.key != x.key {
				continue
			}
			if all = append(all, similar{x.at, r.entry}); len(all) == manySimilar {
				f.compareAll(data, all, seen, hit)
				all = all[:0]
			}
		}
	}
	f.compareAll(data, all, seen, hit)
}

// compareAll compares the patterns of entries.
func (f *prefilter) compareAll(data []byte, all []similar, seen *sight, hit func(int32)) {
	kept := 0
	for _, m := range all {
		all[kept] = m
		kept += f.entries[m.entry].mayBe(data, m.at)
	}
	for _, m := range all[:kept] {
		f.compare(data, m.at, &f.entries[m.entry], seen, hit)
	}
}

// four examines four positions from i on, two apart. which has 16 bits for each, which are 0
// if no pair of runs may begin there.
func (f *prefilter) four(data []byte, i int, which uint64, seen *sight, hit func(int32)) (candidates int) {
	for ; which != 0; which >>= 16 {
		if uint16(which) != 0 {
			candidates++
			f.comparePatterns(data, i, binary.LittleEndian.Uint32(data[i:])&runMask, seen, hit)
		}
		i += 2
	}
	return candidates
}

// comparePatterns compares the patterns whose four bytes may be at position i.
func (f *prefilter) comparePatterns(data []byte, i int, key uint32, seen *sight, hit func(int32)) {
	b := f.bucket(key)
	for _, r := range f.runs[f.buckets[b]:f.buckets[b+1]] {
		if r.key == key && f.entries[r.entry].mayBe(data, i) > 0 {
			f.compare(data, i, &f.entries[r.entry], seen, hit)
		}
	}
}

// mayBe returns 1 unless the eight bytes differ, for four bytes at position i.
func (x *entry) mayBe(data []byte, i int) int {
	if from := i + int(x.to); from >= 0 && from+8 <= len(data) && (binary.LittleEndian.Uint64(data[from:])|x.fold)&x.mask != x.eight {
		return 0
	}
	return 1
}

// compare compares the pattern of an entry whose four bytes are at position i.
func (f *prefilter) compare(data []byte, i int, x *entry, seen *sight, hit func(int32)) {
	at := i - int(x.off)
	if !seen.full(x.pat) && at >= 0 && at <= len(data) && f.pats[x.pat].begins(data[at:]) && seen.add(x.pat, at) {
		hit(x.pat)
	}
}

// at reports whether data begins with a folded pattern, in any case.
func at(data, p []byte) bool {
	if len(data) < len(p) {
		return false
	}
	for i, c := range p {
		if lower[data[i]] != c {
			return false
		}
	}
	return true
}

// strength is Suricata's measure of a pattern: rare bytes count more, repeated ones hardly.
func strength(p []byte) int {
	var seen [256]bool
	s := 0
	for _, c := range p {
		switch {
		case seen[c]:
			s++
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			s += 3
		case c > ' ' && c < 0x7f || c == 0 || c == 1 || c == 0xff:
			s += 4
		default:
			s += 6
		}
		seen[c] = true
	}
	return s
}

// sortUnique sorts rule numbers and removes duplicates.
func sortUnique(s []int32) []int32 {
	slices.Sort(s)
	return slices.Compact(s)
}
