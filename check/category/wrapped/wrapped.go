// Package wrapped finds the addresses that an address contains: those that translators, caches,
// archives, redirects and proxies are asked for in their path or query, written plainly or in
// one of the codings that such services use.
package wrapped

import (
	"bytes"
	"encoding/binary"
	"strings"

	"golang.org/x/net/publicsuffix"

	"shuultuur/lib/ascii"
	"shuultuur/lib/dns"
)

// Limits for one address that is searched.
const (
	mostLayers  = 6   // codings inside each other
	mostEscapes = 3   // times that a text is percent-encoded
	mostFound   = 256 // addresses; so many cost about a millisecond to look up
	shortest    = 4   // bytes of a host
	shortCode   = 8   // characters of a coding that hide a host
	mostTops    = 512 // last labels that a Finder remembers
)

// An Address is an address inside another. It is valid until the next search.
type Address struct {
	Host string // as filter.Transaction has hosts
	Path []byte // path and query, nil if there are none
	Way  string // how it was written: "percent-encoded twice, base64"; "" if plainly
}

// A Finder searches addresses, and reuses its memory. The zero Finder is ready. It is not safe for
// concurrent use.
type Finder struct {
	Found []Address
	outer string // host of the address that is searched
	site  string // its registered domain, once it was needed
	known bool   // the outer host is a service that shows other pages
	text  [mostLayers + 1][]byte
	tops  map[string]bool // labels, and whether they are top-level domains
}

// Forget drops what was found, so that a kept Finder keeps no address alive.
func (f *Finder) Forget() {
	clear(f.Found)
	f.Found, f.outer, f.site, f.known = f.Found[:0], "", "", false
}

// begin prepares the search of an address of a host.
func (f *Finder) begin(host string) {
	f.Forget()
	f.outer, f.known = host, IsTranslator(host)
}

// Target searches the path and query of a request for a host.
func (f *Finder) Target(host string, target []byte) {
	f.begin(host)
	f.parts(target, layer{})
}

// Redirect searches the address to which a host sends a client. It counts itself, too.
func (f *Finder) Redirect(from string, to []byte) {
	f.begin(from)
	f.Also(to)
}

// Also searches a further address that the same request names, such as that of the page.
func (f *Finder) Also(url []byte) {
	host, rest := split(url)
	if host == nil {
		f.parts(url, layer{})
		return
	}
	f.add(host, rest, layer{})
	f.inHost(string(bytes.ToLower(host)))
	f.parts(rest, layer{})
}

// split returns host and path of an absolute address, nil if it is relative.
func split(url []byte) (host, rest []byte) {
	i := bytes.Index(url, []byte("//"))
	if i < 0 || !isScheme(bytes.TrimSuffix(url[:i], []byte(":"))) {
		return nil, url
	}
	host = url[i+2:]
	if i := bytes.IndexAny(host, "/?#\\"); i >= 0 {
		host, rest = host[:i], host[i:]
	}
	if i := bytes.LastIndexByte(host, '@'); i >= 0 {
		host = host[i+1:]
	}
	if i := bytes.LastIndexByte(host, ':'); i >= 0 && bytes.IndexByte(host[i:], ']') < 0 {
		host = host[:i]
	}
	return bytes.Trim(host, "[]"), rest
}

// A layer is how the text at hand was written in the address.
type layer struct {
	depth   int
	escapes int
	way     string
	coded   bool // in more than percent-encoding
	named   bool // the value of a parameter for words that are searched
}

func (l layer) in(coding string) layer {
	l.depth++
	l.coded, l.named = true, false
	if l.way = l.describe(); l.way != "" {
		coding = l.way + ", " + coding
	}
	l.way, l.escapes = coding, 0
	return l
}

// describe returns the way in words.
func (l layer) describe() string {
	way := [...]string{"", "percent-encoded", "percent-encoded twice", "percent-encoded three times"}[min(l.escapes, mostEscapes)]
	if l.way == "" || way == "" {
		return l.way + way
	}
	return l.way + ", " + way
}

// parts searches the path, and each parameter of the query: an address ends with its parameter.
func (f *Finder) parts(target []byte, l layer) {
	path, query := target, []byte(nil)
	if i := bytes.IndexByte(target, '?'); i >= 0 {
		path, query = target[:i], target[i+1:]
	}
	if len(path) > 1 {
		if i := bytes.IndexByte(path, ':'); i >= 0 { // its query is that of an address in the path
			path = target
		}
		f.decode(path, l)
	}
	for len(query) > 0 {
		part := query
		if i := bytes.IndexByte(query, '&'); i >= 0 {
			part, query = query[:i], query[i+1:]
		} else {
			query = nil
		}
		f.parameter(part, l)
	}
}

// parameter searches a parameter, which is an address itself where it has no name.
func (f *Finder) parameter(part []byte, l layer) {
	i := bytes.IndexByte(part, '=')
	if i >= 0 && bytes.IndexAny(part[:i], "./:%") < 0 {
		l.named = isSearch(part[:i])
		part = part[i+1:]
	}
	if part = bytes.Trim(part, "+"); len(part) >= shortest { // blanks around a value mean nothing
		f.decode(part, l)
	}
}

// isSearch reports whether a parameter usually has what a person typed into a search field. There a
// host is a word.
func isSearch(name []byte) bool {
	if len(name) > 8 {
		return false
	}
	var buf [8]byte
	switch string(ascii.AppendLower(buf[:0], name)) {
	case "q", "query", "search", "p", "text", "wd", "word", "k", "keyword", "keywords", "s", "term", "oq", "kw", "qs", "pq":
		return true
	}
	return false
}

// decode searches text after undoing percent-encoding.
func (f *Finder) decode(text []byte, l layer) {
	dst := f.text[min(l.depth, mostLayers)][:0]
	for l.escapes < mostEscapes && bytes.IndexByte(text, '%') >= 0 {
		n := len(dst)
		dst = appendUnescaped(dst, text)
		if len(dst)-n == len(text) {
			break // a percent sign that escapes nothing
		}
		text = dst[n:]
		l.escapes++
	}
	f.text[min(l.depth, mostLayers)] = dst[:0]
	f.scan(text, l)
}

func appendUnescaped(dst, text []byte) []byte {
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '%' && i+2 < len(text) {
			if hi, lo := ascii.Unhex(text[i+1]), ascii.Unhex(text[i+2]); hi >= 0 && lo >= 0 {
				c = byte(hi<<4 | lo)
				if i += 2; c == '\t' {
					continue // whoever reads an address drops it
				}
			}
		}
		dst = append(dst, c)
	}
	return dst
}

// Classes of characters in a text, by which words are told apart.
const (
	inWord   = 1 << iota // part of a host, or of a coding
	dot                  // between labels
	notHex               // no hexadecimal digit
	notCode              // in no base64
	notLabel             // in no host
)

var class = func() (t [256]uint8) {
	for i := range t {
		switch c := byte(i); {
		case ascii.Unhex(c) >= 0:
			t[i] = inWord
		case ascii.IsAlnum(c):
			t[i] = inWord | notHex
		case c == '-' || c == '_':
			t[i] = inWord | notHex
		case c == '.':
			t[i] = inWord | dot | notHex | notCode
		case c == '=' || c == '+':
			t[i] = inWord | notHex | notLabel
		case c >= 0x80:
			t[i] = inWord | notHex | notCode
		}
	}
	return t
}()

// scan searches a text without percent-encoding, word by word.
func (f *Finder) scan(text []byte, l layer) {
	if f.numbers(text, l) {
		return
	}
	for i := 0; i < len(text); {
		if (i == 0 || text[i-1] == '/') && f.enciphered(text[i:], l) {
			return
		}
		c := class[text[i]]
		if c == 0 {
			if i++; text[i-1] == '[' {
				f.literal(text, i, l)
			}
			continue
		}
		from, all := i, c
		for i++; i < len(text); i++ {
			if c = class[text[i]]; c == 0 {
				break
			}
			all |= c
		}
		switch {
		case i-from < shortest || len(f.Found) >= mostFound:
		case all&dot != 0 || from > 1 && text[from-1] == '/' && (text[from-2] == '/' || text[from-2] == ':'):
			f.dotted(text, from, i, l)
		case i-from <= 6 && f.scheme(text, from, i, l):
			return
		case all&notCode == 0 && i-from >= shortCode:
			f.coded(text[from:i], all, l)
			f.pieces(text[from:], i-from, l)
		}
	}
}

// enciphered searches a text whose letters are exchanged: by xor with a short key, as Ultraviolet and
// others write addresses, or moved by a distance, among all bytes or among those that are printed. The
// scheme of the address shows which. It reports whether it was one.
func (f *Finder) enciphered(text []byte, l layer) bool {
	if len(text) < shortCode || l.depth >= mostLayers {
		return false
	}
	if n := keyOf(text); n > 0 && f.deciphered(text, l.in("xor"), func(i int) byte { return text[i] ^ text[i%n] ^ plainScheme[i%n] }) {
		return true
	}
	by := text[0] - 'h'
	if by == 0 || text[1] != text[2] {
		return false
	}
	if text[1]-'t' == by && text[2]-'t' == by && text[3]-'p' == by &&
		f.deciphered(text, l.in("moved letters"), func(i int) byte { return text[i] - by }) {
		return true
	}
	turned := func(i int) byte { // within the characters that are printed
		if text[i] < '!' || text[i] > '~' {
			return text[i]
		}
		return '!' + byte((int(text[i])-int(text[0])+'h'-'!'+3*94)%94)
	}
	return turned(1) == 't' && turned(2) == 't' && turned(3) == 'p' && f.deciphered(text, l.in("moved letters"), turned)
}

// plainScheme is how nearly all addresses begin.
const plainScheme = "http"

// mostKey is the length of a key by which the beginning of an address shows an xor.
const mostKey = 4

// beginnings are those of addresses, with the length of the longest key that they show: four bytes more
// than the key must agree.
var beginnings = func() (all []opening) {
	for _, text := range [...]string{"https://", "http://", "https:%", "http:%"} {
		o := opening{n: len(text), key: min(mostKey, len(text)-4)}
		for i := range text {
			o.bytes |= uint64(text[i]) << (8 * i)
		}
		all = append(all, o)
	}
	return all
}()

// An opening is the beginning of an address: its bytes, the first one lowest.
type opening struct {
	bytes  uint64
	n, key int
}

// keyOf returns the length of the key with which the beginning of an address was enciphered by xor, 0 if
// there is none.
func keyOf(text []byte) int {
	if len(text) < shortCode {
		return 0
	}
	first := binary.LittleEndian.Uint64(text)
	if k := first ^ beginnings[0].bytes; byte(k) != byte(k>>24) && uint16(k) != uint16(k>>16) && byte(k) != byte(k>>32) {
		return 0 // no key of three, two or four bytes: so most texts
	}
	for i := range beginnings {
		o := &beginnings[i]
		key := first ^ o.bytes
		if key<<(64-8*o.n) == 0 {
			return 0 // written plainly
		}
		for n := 1; n <= o.key; n++ { // a key that repeats differs in nothing from itself moved
			if (key^key>>(8*n))<<(64-8*(o.n-n)) == 0 {
				return n
			}
		}
	}
	return 0
}

// deciphered searches a text whose letters are plain, if that begins like an address.
func (f *Finder) deciphered(text []byte, l layer, plain func(i int) byte) bool {
	at := len(plainScheme)
	if plain(at) == 's' {
		at++
	}
	if plain(at) != ':' || plain(at+1) != '/' && plain(at+1) != '%' {
		return false
	}
	f.again(text, l, func(dst, b []byte) []byte {
		for i := range b {
			dst = append(dst, plain(i))
		}
		return dst
	})
	return true
}

// numbers searches a text that is written as the numbers of its characters, with the same between each
// two: "104,116,116,112", "\x68\x74\x74\x70", "%u0068%u0074". It reports whether it was one.
func (f *Finder) numbers(text []byte, l layer) bool {
	if l.depth >= mostLayers || len(text) < 4*shortCode {
		return false
	}
	for _, c := range [...]struct {
		h, t, p string
		base    int
	}{{"104", "116", "112", 10}, {"68", "74", "70", 16}} {
		from, between := numbersIn(text, c.h, c.t, c.p)
		if from < 0 {
			continue
		}
		f.again(text[from:], l.in("numbers"), func(dst, b []byte) []byte {
			for len(b) > 0 {
				n, used := 0, 0
				for used < len(b) && used < len(c.h) {
					d := ascii.Unhex(b[used])
					if d < 0 || d >= c.base {
						break
					}
					n, used = n*c.base+d, used+1
				}
				if used < 2 || n > 0xff || !printable[byte(n)] {
					break
				}
				dst = append(dst, byte(n))
				var more bool
				if b, more = bytes.CutPrefix(b[used:], between); !more {
					break
				}
			}
			return dst
		})
		return true
	}
	return false
}

// numbersIn returns where the numbers of "http" are in a text, and what is between them; -1 for nowhere.
func numbersIn(text []byte, h, t, p string) (from int, between []byte) {
	for from = 0; ; {
		i := bytes.Index(text[from:], []byte(h))
		if i < 0 {
			return -1, nil
		}
		from += i
		rest := text[from+len(h):]
		if n := bytes.Index(rest[:min(len(rest), mostBetween+len(t))], []byte(t)); n > 0 {
			between = rest[:n]
			if bytes.HasPrefix(rest[n:], []byte(t+string(between)+t+string(between)+p+string(between))) {
				return from, between
			}
		}
		from++
	}
}

// mostBetween is the number of bytes between the numbers of two characters.
const mostBetween = 6

// scheme searches the text after a scheme that says how it was turned, and reports whether it was
// one.
func (f *Finder) scheme(text []byte, from, to int, l layer) bool {
	word := text[from:to]
	switch {
	case l.depth >= mostLayers:
		return false
	case ascii.EqualLower(word, "sptth") || ascii.EqualLower(word, "ptth"):
		if from == 0 || text[from-1] != ':' {
			return false
		}
		f.again(text[:to], l.in("reversed"), appendReversed)
	case to < len(text) && text[to] == ':' && turnedBy(word) > 0:
		by := turnedBy(word)
		way := "turned letters"
		if by == 13 {
			way = "rot13"
		}
		f.again(text[from:], l.in(way), func(dst, b []byte) []byte {
			for _, c := range b {
				if ascii.IsLetter(c) {
					first := c&0x20 | 'A'
					c = first + (c-first+26-by)%26
				}
				dst = append(dst, c)
			}
			return dst
		})
	default:
		return false
	}
	return true
}

// turnedBy returns by how many letters of the alphabet a word is moved that is "http" or "https", 0 for
// another word.
func turnedBy(word []byte) byte {
	if len(word) != len("http") && len(word) != len("https") {
		return 0
	}
	by := func(i int) byte { return ((word[i] | 0x20) - "https"[i] + 26) % 26 }
	for i, c := range word {
		if !ascii.IsLetter(c) || by(i) != by(0) {
			return 0
		}
	}
	return by(0)
}

// again searches a text after decoding it.
func (f *Finder) again(text []byte, l layer, decoded func(dst, text []byte) []byte) {
	f.decode(decoded(make([]byte, 0, len(text)), text), l)
}

// coded searches a word that may be base64, base32, hexadecimal or binary. Nearly all are none of these,
// which shows in the first characters.
func (f *Finder) coded(word []byte, all uint8, l layer) {
	if l.depth >= mostLayers {
		return
	}
	word = bytes.TrimLeft(word, "=")                                       // of a word that was turned
	if i := bytes.LastIndexByte(bytes.TrimRight(word, "="), '='); i >= 0 { // name=value within a text
		word = word[i+1:]
	}
	if len(word) < shortCode {
		return
	}
	if all&notHex == 0 && len(word)%2 == 0 {
		f.hexadecimal(word, l)
		return
	}
	switch {
	case isBase64(word):
		f.again(word, l.in("base64"), appendBase64)
	case f.base64Cipher(word, l):
	case bytes.HasSuffix(word, []byte("0RHa")): // "http" in base64, from its end
		f.again(word, l.in("reversed"), appendReversed)
	case len(word) > 2*shortCode && (ascii.HasPrefixLower(word, "nb2hi4") || ascii.HasPrefixLower(word, "o53xo")): // "http", "www"
		f.again(word, l.in("base32"), appendBase32)
	default: // something short before it: a version, a check sum
		if i := bytes.Index(word, []byte("aHR0c")); i > 0 {
			f.again(word[i:], l.in("base64"), appendBase64)
		}
	}
}

// hexadecimal searches a word of hexadecimal digits, which may be binary ones.
func (f *Finder) hexadecimal(word []byte, l layer) {
	if bytes.HasPrefix(word, []byte("0110100001110100")) { // "ht"
		f.again(word, l.in("binary"), func(dst, b []byte) []byte {
			for ; len(b) >= 8; b = b[8:] {
				c := byte(0)
				for _, d := range b[:8] {
					c = c<<1 | d&1
				}
				if !printable[c] {
					break
				}
				dst = append(dst, c)
			}
			return dst
		})
		return
	}
	text := isText(unhex(word, 0), unhex(word, 2), unhex(word, 4))
	if !text {
		if len(word) < 2*len("https://") {
			return
		}
		var head [len("https://")]byte
		for i := range head {
			head[i] = byte(unhex(word, 2*i))
		}
		if keyOf(head[:]) == 0 {
			return
		}
	}
	f.again(word, l.in("hexadecimal"), func(dst, b []byte) []byte {
		for i := 0; i+1 < len(b) && (!text || printable[byte(unhex(b, i))]); i += 2 {
			dst = append(dst, byte(unhex(b, i)))
		}
		return dst
	})
}

// isBase64 reports whether a word is text in base64, by its first characters.
func isBase64(word []byte) bool {
	a, b, c, d := sextet[word[0]], sextet[word[1]], sextet[word[2]], sextet[word[3]]
	return (a|b|c|d)&0x80 == 0 && isText(int(a<<2|b>>4), int(b<<4|c>>2), int(c<<6|d))
}

// base64Cipher searches a word of base64 in which an address was enciphered, and reports whether it is one.
func (f *Finder) base64Cipher(word []byte, l layer) bool {
	const enough = 12 // characters, of nine bytes
	if len(word) < enough {
		return false
	}
	var buf [enough]byte
	if head := appendBytes64(buf[:0], word[:enough]); len(head) < len("https://") || keyOf(head) == 0 {
		return false
	}
	f.scan(appendBytes64(make([]byte, 0, len(word)), word), l.in("base64"))
	return true
}

// pieceLength is the number of characters after which some proxies break base64 by a slash.
const pieceLength = 8

// pieces searches text[:n], a word, and those behind it as base64 that slashes break.
func (f *Finder) pieces(text []byte, n int, l layer) {
	if n != pieceLength || l.depth >= mostLayers || len(text) <= n+1 || text[n] != '/' || !isBase64(text) {
		return
	}
	var joined []byte
	for n == pieceLength {
		joined = append(joined, text[:n]...)
		if text = text[n:]; len(text) == 0 || text[0] != '/' {
			break
		}
		text = text[1:]
		for n = 0; n < min(len(text), pieceLength) && (sextet[text[n]]&0x80 == 0 && text[n] != '/' || text[n] == '='); n++ {
		}
		if n < pieceLength && (n == len(text) || text[n] == '/' || text[n] == '?') {
			joined = append(joined, text[:n]...)
		}
	}
	if len(joined) > pieceLength {
		f.again(joined, l.in("base64"), appendBase64)
	}
}

func unhex(b []byte, i int) int { return ascii.Unhex(b[i])<<4 | ascii.Unhex(b[i+1]) }

// appendBase64 decodes base64 of either alphabet as far as it is text.
func appendBase64(dst, b []byte) []byte {
	n := len(dst)
	dst = appendBytes64(dst, b)
	for i, c := range dst[n:] {
		if !printable[c] && c != ' ' {
			return dst[:n+i]
		}
	}
	return dst
}

// appendBytes64 decodes base64 of either alphabet as far as it is base64.
func appendBytes64(dst, b []byte) []byte {
	bits, n := uint32(0), 0
	for _, c := range b {
		v := sextet[c]
		if v&0x80 != 0 {
			break
		}
		bits, n = bits<<6|uint32(v), n+6
		if n >= 8 {
			n -= 8
			dst = append(dst, byte(bits>>n))
		}
	}
	return dst
}

// appendBase32 decodes base32 (RFC 4648 section 6) in either case as far as it is text.
func appendBase32(dst, b []byte) []byte {
	bits, n := uint32(0), 0
	for _, c := range b {
		switch {
		case ascii.IsLetter(c):
			c = (c | 0x20) - 'a'
		case c >= '2' && c <= '7':
			c -= '2' - 26
		default:
			return dst
		}
		bits, n = bits<<5|uint32(c), n+5
		if n >= 8 {
			n -= 8
			if !printable[byte(bits>>n)] {
				return dst
			}
			dst = append(dst, byte(bits>>n))
		}
	}
	return dst
}

func appendReversed(dst, b []byte) []byte {
	for i := len(b) - 1; i >= 0; i-- {
		dst = append(dst, b[i])
	}
	return dst
}

// sextet has the values of the characters of base64, in both alphabets; 0x80 for others.
var sextet = func() (t [256]uint8) {
	for i := range t {
		t[i] = 0x80
	}
	for i, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/" {
		t[c] = uint8(i)
	}
	t['-'], t['_'] = 62, 63
	return t
}()

// printable has the characters of addresses and of the words around them.
var printable = func() (t [256]bool) {
	for c := range t {
		t[c] = c > ' ' && c < 0x7f || c >= 0x80
	}
	return t
}()

// beginning has the characters with which an address begins, or the words around it.
var beginning = func() (t [256]bool) {
	for c := range t {
		t[c] = ascii.IsAlnum(byte(c)) || strings.IndexByte(`-.:/%_{"=[ `, byte(c)) >= 0
	}
	return t
}()

func isText(a, b, c int) bool {
	return beginning[byte(a)] && beginning[byte(b)] && beginning[byte(c)]
}

// dotted examines a word with a dot, which may be a host.
func (f *Finder) dotted(text []byte, from, to int, l layer) {
	for from < to { // "=" and "+" part words
		end := from
		for end < to && class[text[end]]&notLabel == 0 {
			end++
		}
		if end-from >= shortest {
			f.host(text, from, end, l)
		}
		from = end + 1
	}
}

// host examines text[from:to], which may be a host.
func (f *Finder) host(text []byte, from, to int, l layer) {
	explicit, user := before(text, from)
	if to < len(text) && text[to] == '@' {
		return // the part before a host or a mail's
	}
	for to > from && !isEdge(text[to-1]) {
		to--
	}
	if user && !explicit {
		return // somebody's mail
	}
	name := text[from:to]
	if explicit {
		f.add(name, rest(text, to), l)
		return
	}
	for len(name) > 0 && !isEdge(name[0]) {
		name = name[1:]
		from++
	}
	if from > 0 && strings.IndexByte(` +'`, text[from-1]) >= 0 || to < len(text) && strings.IndexByte(` +'(`, text[to]) >= 0 {
		return // a word of a sentence
	}
	if l.named && !bytes.HasPrefix(text, []byte("cache:")) && (from > 0 || len(rest(text, to)) <= 1) {
		return // searched for, as a word
	}
	switch {
	case f.isName(name, from == 0):
		f.add(name, rest(text, to), l)
	case l.depth < mostLayers && f.endsBackwards(name):
		f.again(name, l.in("reversed"), appendReversed)
	default:
		for label := range bytes.SplitSeq(name, []byte(".")) {
			f.label(label, l)
		}
	}
}

// label examines a label that may be a coding.
func (f *Finder) label(label []byte, l layer) {
	if len(label) < shortCode {
		return
	}
	all := uint8(0)
	for _, c := range label {
		all |= class[c]
	}
	if all&notCode == 0 {
		f.coded(label, all, l)
	}
}

// literal examines an IPv6 address behind its bracket.
func (f *Finder) literal(text []byte, from int, l layer) {
	end := bytes.IndexByte(text[from:min(len(text), from+48)], ']')
	if end < 2 {
		return
	}
	if explicit, _ := before(text, from-1); explicit {
		f.add(text[from:from+end], rest(text, from+end+1), l)
	}
}

// isEdge reports whether a host may begin or end with c.
func isEdge(c byte) bool { return ascii.IsAlnum(c) || c >= 0x80 }

// before looks at what precedes a host: a scheme makes it one whatever it looks like; somebody's name
// and "@" do not.
func before(text []byte, from int) (explicit, user bool) {
	i := from
	if i > 0 && (text[i-1] == '@' || text[i-1] == '$' && i > 1 && class[text[i-2]] != 0) { // "$" as pages hide addresses of mail
		user = true
		for i--; i > 0 && text[i-1] != '/' && text[i-1] != '\\'; i-- {
		}
	}
	at := i
	for i > 0 && (text[i-1] == '/' || text[i-1] == '\\') {
		i--
	}
	if i == 0 || text[i-1] != ':' || at == i && user {
		return false, user
	}
	end := i - 1
	for i = end; i > 0 && end-i < 5 && ascii.IsLetter(text[i-1]); i-- {
	}
	if i == 0 && (end == 0 || end == 1 && text[0] == 's') {
		return true, user // without its "http", which some proxies leave out
	}
	return isScheme(text[i:end]) && i < end, user
}

// isScheme reports whether a word is the scheme of an address that has a host. The empty one is that of the
// page.
func isScheme(word []byte) bool {
	for _, scheme := range [...]string{"https", "http", "", "wss", "ws", "ftp"} {
		if ascii.EqualLower(word, scheme) {
			return true
		}
	}
	return false
}

// rest returns path and query behind a host.
func rest(text []byte, to int) []byte {
	if to < len(text) && text[to] == ':' { // a port
		for to++; to < len(text) && text[to] >= '0' && text[to] <= '9'; to++ {
		}
	}
	if to >= len(text) || text[to] != '/' {
		return nil
	}
	end := to
	for end < len(text) && text[end] > ' ' && text[end] != '"' && text[end] != '<' && text[end] != '|' {
		end++
	}
	return text[to:end]
}

// isName reports whether a word without a scheme is a host: its last label is a top-level domain,
// and it is neither the name of a file, nor that of a program, in reverse order. first says that
// nothing precedes it.
func (f *Finder) isName(name []byte, first bool) bool {
	i := bytes.LastIndexByte(name, '.')
	if i <= 0 || len(name) > 253 {
		return false
	}
	several := bytes.IndexByte(name[:i], '.') >= 0
	top, doubtful := f.isTop(name[i+1:])
	switch {
	case !top, doubtful && !first && !several:
		return false
	}
	return !several || !isOrigin(name[:bytes.IndexByte(name, '.')])
}

// isOrigin reports whether identifiers of programs begin with a label, as com.example.app does.
func isOrigin(label []byte) bool {
	if len(label) > 3 {
		return false
	}
	switch string(bytes.ToLower(label)) {
	case "com", "org", "net", "edu", "gov", "io", "de", "uk", "fr", "jp", "ru", "cn", "me", "co", "br", "in", "eu":
		return true
	}
	return false
}

// isTop reports whether a label is a top-level domain; doubtful says that files end like it, too.
func (f *Finder) isTop(label []byte) (top, doubtful bool) {
	if len(label) < 2 || len(label) > 24 || label[0] >= '0' && label[0] <= '9' {
		return false, false
	}
	var buf [24]byte
	low := ascii.AppendLower(buf[:0], label)
	switch string(low) {
	case "js", "css", "php", "html", "htm", "xml", "json", "png", "jpg", "gif", "svg", "webp", "jpeg", "ico", "aspx", "asp", "jsp", "min", "txt", "pdf", "woff", "map", "cgi":
		return false, false // the most frequent ends, which are no domains
	case "py", "sh", "pl", "rs", "md", "so", "ps", "zip", "mov", "as", "ml", "bz", "vi", "do", "java", "app":
		doubtful = true
	}
	if bytes.IndexFunc(low, func(r rune) bool { return r >= 0x80 }) >= 0 {
		return true, false // the look-up tells
	}
	top, seen := f.tops[string(low)]
	if seen {
		return top, doubtful
	}
	_, top = publicsuffix.PublicSuffix(string(low))
	if f.tops == nil || len(f.tops) == mostTops {
		f.tops = map[string]bool{}
	}
	f.tops[string(low)] = top
	return top, doubtful
}

// endsBackwards reports whether a word is a host from its end to its beginning. Names of files are words,
// too ("in.php", "md.html"), so it must look like the whole name of a site.
func (f *Finder) endsBackwards(name []byte) bool {
	if i := bytes.IndexByte(name, '.'); i < 2 || i > 24 || len(name) > 253 {
		return false
	}
	var buf [253]byte
	host := buf[:len(name)]
	for i, c := range name {
		host[len(name)-1-i] = c
	}
	if !isWhole(ascii.ToLower(string(host))) {
		return false
	}
	top, doubtful := f.isTop(host[bytes.LastIndexByte(host, '.')+1:])
	return top && !doubtful
}

// add adds a host with its path, unless it is the one that is asked, or of the same site.
func (f *Finder) add(name, path []byte, l layer) {
	if len(f.Found) >= mostFound || len(name) < 2 || len(name) > 4*253 {
		return
	}
	var buf [256]byte
	host, bad := dns.Host(buf[:0], name)
	if bad != "" {
		return
	}
	if !f.known && f.sameSite(string(host)) {
		return
	}
	for i := range f.Found {
		if f.Found[i].Host == string(host) && bytes.Equal(f.Found[i].Path, path) {
			return
		}
	}
	f.Found = append(f.Found, Address{string(host), bytes.Clone(path), l.describe()})
}

// sameSite reports whether a host belongs to the site that is asked, which is judged itself.
func (f *Finder) sameSite(host string) bool {
	if host == f.outer || strings.HasSuffix(host, "."+f.outer) || strings.HasSuffix(f.outer, "."+host) {
		return true
	}
	if f.site == "" {
		f.site = registered(f.outer)
	}
	return f.site != "" && strings.HasSuffix(host, f.site) && (len(host) == len(f.site) || host[len(host)-len(f.site)-1] == '.')
}

// registered returns the registered domain of a host, "-" if there is none.
func registered(host string) string {
	site, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil {
		return "-"
	}
	return site
}
