package engine

import (
	"encoding/binary"
	"iter"
	"math/bits"
	"slices"
	"strings"

	"shuultuur/check/signature/rule"
)

// A prefilter finds which of many patterns occur in a buffer.
//
// A scan hashes the four bytes at every second place and looks closer only where two
// runs, one two bytes after the other, may belong to one pattern. What a hash is
// worth is in a table: the groups of patterns of which such a run may be the first,
// and those of which it may be the second. So of each pattern two pairs of runs are
// in the table, one from an even place in it and one from an odd place: those that are
// rarest in web traffic. A pattern that is too short for a pair is there with one run,
// in a group of its own for which every run may be the second. Where a run is longer
// than what there is of a pattern, every byte that may be before or after is
// there. Patterns of one and two bytes are searched for one by one, or, when they are
// many, in tables of their own.
//
// Where the processor has AVX2, vector instructions do the hashing for 16 places at a
// time, and what is looked at closer is collected first.
//
// That is a filter as in Hyperscan (Wang and others, Hyperscan: A Fast Multi-pattern
// Regex Matcher for Modern CPUs, 2019), with hashes in the place of shifts.
type prefilter struct {
	groups  *groups // nil without patterns that have a hash
	buckets []int32 // where the runs of each begin
	shift   uint8   // of the hash of a bucket
	runs    []run   // by bucket
	entries []entry
	pairs   *[1 << 10]uint64
	short   map[uint16][]int32 // two bytes, folded, to patterns
	single  *[256][]int32
	pats    []pattern
	n       int
	longest int // bytes of the longest pattern
	few     []few
	threes  []int32 // patterns of three bytes, for data that has no more
}

// A pattern is what a prefilter looks for. One whose case does not count is folded.
type pattern struct {
	text  string
	exact bool // case counts
}

// begins says whether data begins with the pattern.
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

// patternOf returns the pattern for all of a content.
func patternOf(c *rule.Content) pattern { return newPattern(c.Pattern, !c.NoCase) }

func newPattern(text []byte, exact bool) pattern {
	if !exact {
		text = fold(text)
	}
	return pattern{string(text), exact}
}

// A few is one of a few patterns, or of a few short ones. Each is searched for by its
// rarest bytes, which is faster than a look at every place.
type few struct {
	pat           int32
	text          []byte
	first, second int // places of the rarest bytes in it
}

// maxFew is how many patterns, or short ones, are searched for one by one.
const maxFew = 8

// A run is four bytes, folded, that may be where an entry says. Most looks need no more.
type run struct {
	key   uint32
	entry int32
}

// An entry is a pattern with the place of four of its bytes in it. Around takes the
// eight bytes from back places before those four; most patterns that are not
// there differ in them, and need not be looked at.
type entry struct {
	around, mask uint64
	fold         uint64 // the bits of case, where it does not count
	pat          int32
	off          int16
	back         uint8
}

const multiplier = 0x9E3779B1

// hashBits is the logarithm of the hashes: the table has 128 KiB. Larger ones have
// fewer false candidates and wait for the memory. All have one size, as a search is
// faster when the compiler knows it.
const hashBits = 16

// groups are the groups of patterns, by slot. Vector instructions read two bytes
// behind the last one.
type groups [1<<hashBits + 1]uint16

// pairGroups is how many groups of patterns with pairs there are: bits of the lower
// byte for the first run, of the upper one for the second. The bit after them is that
// of single runs.
const pairGroups = 7

// pair is how many bytes two runs have together.
const pair = gram + 2

// slot is where a run is in the table. Case is folded, and of the outer bytes five
// bits count: so the patterns that have any byte there are in a quarter of the slots.
func slot(run uint32) uint32 { return run & 0x1fdfdf1f * multiplier >> (32 - hashBits) }

// gram is how many bytes of a pattern are hashed.
const gram = 4

// newPrefilter compiles patterns, which are found by their index.
func newPrefilter(patterns []pattern) *prefilter {
	f := &prefilter{n: len(patterns), pats: patterns}
	if len(patterns) <= maxFew { // no table is worth its memory
		for i := range patterns {
			if p := patterns[i].text; len(p) > 0 {
				f.few = append(f.few, newFew(int32(i), patterns[i].text))
				f.longest = max(f.longest, len(p))
			}
		}
		return f
	}
	long, short := 0, 0 // runs of four bytes, patterns that have none
	for i := range patterns {
		n := len(patterns[i].text)
		f.longest = max(f.longest, n)
		switch {
		case n > gram:
			long += 2
		case n == gram:
			long += 1 + 1<<7
		case n == gram-1:
			long += 2 << 7
			f.threes = append(f.threes, int32(i))
		case n > 0:
			short++
		}
	}
	f.shift = uint8(32 - max(4, bits.Len(uint(long))))
	nb := 1 << (32 - f.shift)
	for i := range patterns {
		p := fold([]byte(patterns[i].text))
		if len(p) > 0 && len(p) < gram-1 && short <= maxFew {
			f.few = append(f.few, newFew(int32(i), patterns[i].text))
			continue
		}
		f.add(int32(i), p)
	}
	slices.SortFunc(f.runs, func(a, b run) int { return int(f.bucket(a.key)) - int(f.bucket(b.key)) })
	f.runs, f.entries = slices.Clone(f.runs), slices.Clone(f.entries) // without room to grow
	f.buckets = make([]int32, nb+1)
	for i := range f.runs {
		f.buckets[f.bucket(f.runs[i].key)+1] = int32(i + 1)
	}
	for b := range nb { // of an empty one the end is that of the one before
		f.buckets[b+1] = max(f.buckets[b+1], f.buckets[b])
	}
	return f
}

// bucket is where the runs of four bytes are.
func (f *prefilter) bucket(key uint32) uint32 { return key * multiplier >> f.shift }

func newFew(i int32, text string) few {
	x := few{pat: i, text: []byte(text)}
	x.first, x.second = rarestBytes(fold(x.text))
	return x
}

// in says whether the pattern is in data.
func (x *few) in(data []byte, exact bool) bool {
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

// pair puts two runs of a pattern into the table, at place off in it and two bytes after.
func (f *prefilter) pair(i int32, p []byte, off int) {
	f.enter(i, off)
	group := uint16(0)
	for key := range runs(p, off) {
		if group == 0 {
			group = 1 << (slot(key) % pairGroups)
		}
		f.first(key, group)
	}
	for key := range runs(p, off+2) {
		f.groups[slot(key)] |= group << 8
	}
}

// runs goes through the runs that may be at a place of a pattern. A byte before the
// pattern or after it may be any; of those that folding makes equal one is enough.
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
		for c := range uint32(1 << 8) {
			if c&0x20 != 0 && !yield(key|c<<outside) {
				return
			}
		}
	}
}

// enter puts a pattern with place off in it into the table.
func (f *prefilter) enter(pat int32, off int) {
	x := entry{pat: pat, off: int16(off), back: uint8(max(0, min(off, 4)))}
	p := &f.pats[pat]
	if !p.exact {
		x.fold = 0x2020202020202020
	}
	for w := range 8 {
		if i := off - int(x.back) + w; i >= 0 && i < len(p.text) {
			x.around |= (uint64(p.text[i]) | x.fold&0xff) << (8 * w)
			x.mask |= 0xff << (8 * w)
		}
	}
	f.entries = append(f.entries, x)
}

// first puts four bytes into the table that may be at the place of the last entry, as
// the first run of patterns of a group.
func (f *prefilter) first(key uint32, group uint16) {
	key |= 0x20202020
	if f.groups == nil {
		f.groups = new(groups)
		for i := range f.groups { // after a single run anything may be
			f.groups[i] = 1 << (pairGroups + 8)
		}
	}
	f.groups[slot(key)] |= group
	f.runs = append(f.runs, run{key, int32(len(f.entries) - 1)})
}

// fold returns p in lower case, of ASCII only.
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

// rarest returns the place of the two runs that occur least in web traffic, among even
// places or odd ones. The place before a short pattern is one of the odd ones.
func rarest(p []byte, parity int) int {
	at := parity
	best := commonness(p, at)
	for i := parity; i+pair <= len(p) && i < 1<<15; i += 2 {
		if sum := commonness(p, i); sum < best {
			best, at = sum, i
		}
	}
	if parity == 1 && len(p) <= shortPattern && commonness(p, -1) < best {
		at = -1
	}
	return at
}

// shortPattern is how long a pattern may be that has the byte before it in a run. Every
// byte may be that, so that the table grows.
const shortPattern = 7

// commonness says how often two runs, at place i of a pattern and two bytes after,
// occur in web traffic: the less, the better.
func commonness(p []byte, i int) (sum int) {
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

// anyByte is what [common] would say of a byte that may be any.
const anyByte = 20

// rareness estimates how rare a pattern is in pages, in bits: with each more it is in
// half as many places.
func rareness(p []byte) (bits int) {
	for i, c := range p {
		if i >= gram-1 {
			if _, ok := frequent[binary.LittleEndian.Uint32(p[i-gram+1:])|0x20202020]; ok {
				bits++ // as was to be expected
				continue
			}
		}
		bits += max(1, 16-common(lower[c]))
	}
	return bits
}

// rare is how rare a pattern has to be to be in few pages only.
const rare = 48

// guarding is how rare a second pattern has to be to be worth the search for it.
const guarding = 36

// everyday says whether all of a pattern is what pages are full of.
func everyday(p []byte) bool {
	for i := 0; i+gram <= len(p); i++ {
		if _, ok := frequent[binary.LittleEndian.Uint32(p[i:])|0x20202020]; !ok {
			return false
		}
	}
	return true
}

// frequent are the runs of four bytes in words that pages, scripts and heads
// are full of.
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
		for i := 0; i+gram < len(phrase); i++ { // the line break is none of it
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

// frequentPhrases are what pages and scripts say between words, a line each.
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
	charset= utf-8 HTTP/1.1 GET POST`

// common says how frequent a byte is in pages: the logarithm of how often it occurs
// in a million, from 0.
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

// printable are the logarithms of the characters of ASCII, from the space on: 'a'
// stands for 0.
const printable = "pgmgfiihiifgkllklkkjjjjjjjkjkkkfeiiiiiihhihgiiiihhiijhhhhhhhjhdjamkllmkklmijllmmlimmmlkkjkiifie"

// scan calls hit once for every pattern that occurs in data, and notes in seen, which
// is ready for so many patterns, where that is.
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
		if x := &f.few[i]; x.in(data, f.pats[x.pat].exact) && seen.mark(x.pat) {
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
	before := uint64(0) // of the run two bytes ago
	if i > 0 {
		before = uint64(groups[slot(binary.LittleEndian.Uint32(data[i-2:]))])
	}
	for ; i+12 <= len(data); i += 8 {
		d := data[i : i+12 : i+12]
		v, w := binary.LittleEndian.Uint64(d), binary.LittleEndian.Uint64(d[4:])
		x := uint64(groups[slot(uint32(v))]) | uint64(groups[slot(uint32(v>>16))])<<16 |
			uint64(groups[slot(uint32(w))])<<32 | uint64(groups[slot(uint32(w>>16))])<<48
		if c := (x<<16 | before) & (x >> 8) & 0x00ff00ff00ff00ff; c != 0 {
			candidates += f.four(data, i-2, c, seen, hit)
		}
		before = x >> 48
	}
	for i = max(0, i-2); i+gram <= len(data); i++ { // every place: a pattern of four bytes may be the end
		key := binary.LittleEndian.Uint32(data[i:]) | 0x20202020
		if uint8(groups[slot(key)]) != 0 {
			candidates++
			f.look(data, i, key, seen, hit)
		}
	}
	return candidates
}

// manyBlocks is how many blocks of 32 bytes are looked at before what is in them is
// looked at closer.
const manyBlocks = 128

// A suspect is a place where a pattern may be, with its bucket.
type suspect struct {
	at       int
	key      uint32
	from, to int32
}

// scanBlocks does with vector instructions what scanLong does with others, as far as
// there are whole blocks, and returns where it ended. It fetches the buckets of many
// places before it looks into the first, so that the memory is waited for once.
func (f *prefilter) scanBlocks(data []byte, seen *sight, hit func(int32)) (end, candidates int) {
	var out [manyBlocks]uint64
	var suspects [manyBlocks]suspect
	before, n := uint32(0), 0
	for {
		blocks := min(manyBlocks, (len(data)-end-2)/32)
		if blocks <= 0 {
			return end, candidates
		}
		for _, x := range out[:sieveAVX2(&data[end], blocks, &f.groups[0], before, &out[0])] {
			for which := uint16(x); which != 0; which &= which - 1 {
				k := bits.TrailingZeros16(which)
				i := end + int(x>>16) - 2 + 4*k
				if k >= 8 {
					i += 2 - 4*8
				}
				key := binary.LittleEndian.Uint32(data[i:]) | 0x20202020
				b := f.bucket(key)
				suspects[n] = suspect{i, key, f.buckets[b], f.buckets[b+1]}
				if n++; n == len(suspects) {
					candidates += f.examine(data, suspects[:n], seen, hit)
					n = 0
				}
			}
		}
		candidates += f.examine(data, suspects[:n], seen, hit)
		n = 0
		end += blocks * 32
		before = uint32(f.groups[slot(binary.LittleEndian.Uint32(data[end-2:]))])
	}
}

// examine looks closer at suspects.
func (f *prefilter) examine(data []byte, suspects []suspect, seen *sight, hit func(int32)) int {
	for n := range suspects {
		s := &suspects[n]
		f.compare(data, s.at, s.key, f.runs[s.from:s.to], seen, hit)
	}
	return len(suspects)
}

// four looks closer at four places from i on, two apart. In which are 16 bits for each,
// 0 where no pair of runs may begin.
func (f *prefilter) four(data []byte, i int, which uint64, seen *sight, hit func(int32)) (candidates int) {
	for ; which != 0; which >>= 16 {
		if uint16(which) != 0 {
			candidates++
			f.look(data, i, binary.LittleEndian.Uint32(data[i:])|0x20202020, seen, hit)
		}
		i += 2
	}
	return candidates
}

// look compares the patterns whose four bytes may be at place i.
func (f *prefilter) look(data []byte, i int, key uint32, seen *sight, hit func(int32)) {
	b := f.bucket(key)
	f.compare(data, i, key, f.runs[f.buckets[b]:f.buckets[b+1]], seen, hit)
}

// compare compares the patterns of a bucket that have the four bytes at place i.
func (f *prefilter) compare(data []byte, i int, key uint32, bucket []run, seen *sight, hit func(int32)) {
	for e := range bucket {
		if bucket[e].key != key {
			continue
		}
		x := &f.entries[bucket[e].entry]
		if from := i - int(x.back); from >= 0 && from+8 <= len(data) && (binary.LittleEndian.Uint64(data[from:])|x.fold)&x.mask != x.around {
			continue
		}
		if seen.full(x.pat) || i < int(x.off) || i-int(x.off) > len(data) {
			continue
		}
		if f.pats[x.pat].begins(data[i-int(x.off):]) && seen.add(x.pat, i-int(x.off)) {
			hit(x.pat)
		}
	}
}

// at says whether data begins with a folded pattern, in any case.
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

// strength is Suricata's measure of a pattern: rare bytes count more, repeated
// ones hardly.
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

// sortUnique sorts rule numbers and drops repetitions.
func sortUnique(s []int32) []int32 {
	slices.Sort(s)
	return slices.Compact(s)
}
