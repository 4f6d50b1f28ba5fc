package language

import (
	"bytes"
	"compress/flate"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

//go:embed detect.model
var model []byte

const (
	buckets = 1 << 13 // hashed trigrams, for each script
	sample  = 600     // letters read of a text
	enough  = 12      // fewest letters for a result
)

// A Detector determines the language of a text: by script where that suffices, otherwise by
// the trigrams in a sample (naive Bayes). It is safe for concurrent use.
type Detector struct {
	groups [scripts]group
}

// A group is the languages of one script, with a weight for each trigram and language. A weight is
// kept as a byte, 128 more than it is, so that eight languages are added up at a time.
type group struct {
	tags  []Tag
	words int      // of a row: eight languages each
	rows  []uint64 // buckets × words
	uz    int      // the place of Uzbek, a tenth of whose words have an apostrophe; -1 for none
	inUz  []int8   // its weights alone, which stay in the fastest cache
}

// NewDetector unpacks the detector, which takes about 400 KB.
func NewDetector() (*Detector, error) {
	d, err := readDetector(bytes.NewReader(model))
	if err != nil {
		return nil, fmt.Errorf("reading the model of languages: %w", err)
	}
	return d, nil
}

var errModel = errors.New("not a model of languages, or a damaged one")

func readDetector(r io.Reader) (*Detector, error) {
	data, err := io.ReadAll(io.LimitReader(flate.NewReader(r), 4<<20))
	if err != nil {
		return nil, err
	}
	d := &Detector{}
	for s := range d.groups {
		g := &d.groups[s]
		g.uz = -1
		for _, l := range Languages {
			if l.Script == Script(s) {
				g.tags = append(g.tags, l.Tag)
			}
		}
		if len(g.tags) < 2 {
			continue
		}
		n := buckets * len(g.tags)
		if len(data) < n {
			return nil, errModel
		}
		g.words = (len(g.tags) + 7) / 8
		g.rows = make([]uint64, buckets*g.words)
		for i := range n {
			bucket, tag := i/len(g.tags), i%len(g.tags)
			g.rows[bucket*g.words+tag/8] |= uint64(data[i]^0x80) << (tag % 8 * 8)
		}
		if g.uz = slices.Index(g.tags, "uz-Latn"); g.uz >= 0 {
			g.inUz = make([]int8, buckets)
			for bucket := range g.inUz {
				g.inUz[bucket] = int8(data[bucket*len(g.tags)+g.uz])
			}
		}
		data = data[n:]
	}
	if len(data) != 0 {
		return nil, errModel
	}
	return d, nil
}

// Detect returns the language of a text in UTF-8, or Unknown. Hints are BCP 47 tags, as in the
// attribute lang or the field Content-Language; they decide if the text does not contradict
// them. It allocates nothing.
func (d *Detector) Detect(text []byte, hints ...string) Tag {
	var seen census
	seen.read(text)
	script, han := seen.main()
	if seen.letters < enough {
		return seen.hinted(script, hints)
	}
	switch script {
	case None:
		return Unknown
	case Han:
		return han
	}
	g := &d.groups[script]
	if len(g.tags) == 1 {
		return g.tags[0]
	}
	return d.byTrigrams(g, script, text, hints)
}

// hinted returns the first hint that fits the script.
func (c *census) hinted(script Script, hints []string) Tag {
	for _, h := range hints {
		if tag := Parse(h, script); tag != Unknown {
			return tag
		}
	}
	return Unknown
}

func (d *Detector) byTrigrams(g *group, script Script, text []byte, hints []string) Tag {
	var room [maxTags]int32
	sums, n := g.sums(room[:0], script, text)
	best, second := 0, -1
	for i, x := range sums {
		if i == best {
			continue
		}
		if x > sums[best] {
			best, second = i, best
		} else if second < 0 || x > sums[second] {
			second = i
		}
	}
	margin := sums[best] - sums[second]
	for _, h := range hints {
		tag := Parse(h, script)
		for i, t := range g.tags {
			// A hint outweighs a small difference, as between similar languages.
			if t == tag && sums[best]-sums[i] <= 2*n+hintWeight {
				return tag
			}
		}
	}
	if margin < unsure {
		return Unknown
	}
	return g.tags[best]
}

// sums appends the weight of a text in each language of the group to dst, and returns the number of
// trigrams.
func (g *group) sums(dst []int32, script Script, text []byte) (sums []int32, n int32) {
	sums = dst[:len(g.tags)]
	clear(sums)
	var found trigrams
	found.read(text, script)
	for all := found.buckets[:found.n]; len(all) > 0; {
		part := all[:min(len(all), mostAdded)]
		all = all[len(part):]
		for word := range g.words {
			g.add(sums[8*word:min(8*word+8, len(sums))], word, part)
		}
	}
	if g.uz >= 0 {
		for _, c := range found.blanks[:found.blank] {
			more := int32(0)
			for i, with := range c.apostrophe {
				more += int32(g.inUz[with]) - int32(g.inUz[found.buckets[c.at+i]])
			}
			sums[g.uz] += max(0, more)
		}
	}
	return sums, int32(found.n)
}

// mostAdded is how many bytes a sum of 16 bits can hold.
const mostAdded = 256

// add adds the weights of at most mostAdded trigrams in the languages of one word of the rows.
func (g *group) add(sums []int32, word int, all []uint16) {
	const bytes = 0x00ff00ff00ff00ff
	var even, odd uint64 // four sums of 16 bits each
	rows, words := g.rows[word:], g.words
	for _, bucket := range all {
		w := rows[int(bucket)*words]
		even += w & bytes
		odd += w >> 8 & bytes
	}
	for i := range sums {
		half := even
		if i%2 != 0 {
			half = odd
		}
		sums[i] += int32(half>>(i/2*16)&0xffff) - int32(128*len(all))
	}
}

// A Set is a set of rows of [Languages].
type Set uint64

// Every is the set of all languages.
const Every Set = 1<<len(Languages) - 1

// SetOf returns the set of a language in every script, which is empty for [Unknown].
func SetOf(tag Tag) (s Set) {
	name, _, _ := strings.Cut(string(tag), "-")
	for i := range Languages {
		if base, _, _ := strings.Cut(string(Languages[i].Tag), "-"); base == name {
			s |= 1 << i
		}
	}
	return s
}

// Possible returns the languages that a text may be in. Languages of other scripts than that of
// most letters count as possible: words of theirs may be in any text. If the text says nothing,
// all are possible.
func (d *Detector) Possible(text []byte, hints ...string) Set {
	var seen census
	seen.read(text)
	script, han := seen.main()
	if seen.letters < enough || script == None {
		return Every
	}
	var room [maxTags]int32
	g := &d.groups[script]
	sums := room[:0]
	least := int32(0)
	if len(g.tags) > 1 && script != Han {
		var n int32
		sums, n = g.sums(sums, script, text)
		least = slices.Max(sums) - n - unsure
	}
	set, k := Set(0), 0
	for i := range Languages {
		l := &Languages[i]
		same := l.Script == script
		switch {
		case !same, script == Han && l.Tag == han, len(sums) == 0 && script != Han, len(sums) > 0 && sums[k] >= least:
			set |= 1 << i
		}
		if same {
			k++
		}
	}
	for _, h := range hints {
		set |= SetOf(Parse(h, script))
	}
	return set
}

const (
	// A weight is eight times the natural logarithm of a likelihood ratio.
	unsure     = 28
	hintWeight = 160
)

// A census counts the letters of each script in a sample of a text.
type census struct {
	count   [scripts]int
	letters int
	kana    int
}

func (c *census) read(text []byte) {
	for i := 0; i < len(text) && c.letters < sample; {
		b := text[i]
		if b < utf8.RuneSelf {
			i++
			if b |= 0x20; 'a' <= b && b <= 'z' {
				c.count[Latin]++
				c.letters++
			}
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		i += size
		s := scriptOf(r)
		if s == None {
			continue
		}
		if s == Kana {
			c.kana++
			s = Han
		}
		n := 1
		if s == Han || s == Hangul {
			n = 3 // one of these signs counts as three letters
		}
		c.count[s] += n
		c.letters += n
	}
}

// main returns the most frequent script.
func (c *census) main() (s Script, han Tag) {
	for i, n := range c.count {
		if n > c.count[s] {
			s = Script(i)
		}
	}
	// Texts in any script contain Latin names.
	for i, n := range c.count {
		if Script(i) != Latin && s == Latin && n*2 > c.count[Latin] {
			s = Script(i)
		}
	}
	if c.count[s] == 0 {
		return None, Unknown
	}
	han = "zh"
	if c.kana*3*20 > c.count[Han] {
		han = "ja"
	}
	return s, han
}

// scriptOf returns the script of a letter beyond ASCII.
func scriptOf(r rune) Script {
	switch {
	case r < 0x00c0 || r == 0x00d7 || r == 0x00f7:
		return None
	case r < 0x0250 || 0x1e00 <= r && r <= 0x1eff:
		return Latin
	case 0x0370 <= r && r <= 0x03ff || 0x1f00 <= r && r <= 0x1fff:
		return Greek
	case 0x0400 <= r && r <= 0x052f:
		return Cyrillic
	case 0x05d0 <= r && r <= 0x05ea:
		return Hebrew
	case 0x0620 <= r && r <= 0x064a || 0x066e <= r && r <= 0x06d3 || 0xfb50 <= r && r <= 0xfdff || 0xfe70 <= r && r <= 0xfefc:
		return Arabic
	case 0x0900 <= r && r <= 0x097f:
		return Devanagari
	case 0x0e01 <= r && r <= 0x0e4e:
		return Thai
	case 0x3040 <= r && r <= 0x30ff || 0xff66 <= r && r <= 0xff9f:
		return Kana
	case 0x3400 <= r && r <= 0x4dbf || 0x4e00 <= r && r <= 0x9fff || 0xf900 <= r && r <= 0xfaff:
		return Han
	case 0xac00 <= r && r <= 0xd7a3 || 0x1100 <= r && r <= 0x11ff:
		return Hangul
	}
	return None
}

// trigrams are those of a sample of a text.
type trigrams struct {
	buckets [sample + 1]uint16
	n       int
	// A blank in normalised text may replace an apostrophe.
	blanks [sample/3 + 1]struct {
		at         int       // of three trigrams around a blank
		apostrophe [3]uint16 // those that an apostrophe would give
	}
	blank int
}

// read finds every trigram of letters of the script in a sample of the text. A word begins and
// ends with a space.
func (t *trigrams) read(text []byte, script Script) {
	a, b := rune(' '), rune(' ') // the previous two letters
	var x, y, z rune             // the two letters before a blank and the one after it; x is 0 if there is none
	letters := 0
	for i := 0; i < len(text) && letters < sample; {
		r := rune(text[i])
		size := 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(text[i:])
		}
		i += size
		switch {
		case r < utf8.RuneSelf:
			if l := r | 0x20; script == Latin && 'a' <= l && l <= 'z' {
				r = l
			} else if r == '\'' && b != ' ' {
				r = '\''
			} else {
				r = ' '
			}
		case r == 0x2018 || r == 0x2019 || r == 0x02bb || r == 0x02bc:
			if r = '\''; b == ' ' {
				r = ' '
			}
		case scriptOf(r) == script:
			r = unicode.ToLower(r)
		default:
			r = ' '
		}
		if r == ' ' && b == ' ' {
			continue
		}
		t.buckets[t.n] = bucket(a, b, r)
		t.n++
		switch {
		case r == ' ':
			x, y, z = a, b, 0
		case x == 0:
		case z == 0:
			z = r
		default:
			c := &t.blanks[t.blank]
			c.at = t.n - 3
			c.apostrophe = [3]uint16{bucket(x, y, '\''), bucket(y, '\'', z), bucket('\'', z, r)}
			t.blank++
			x = 0
		}
		letters++
		if r == ' ' {
			a = ' '
		} else {
			a = b
		}
		b = r
	}
	if b != ' ' {
		t.buckets[t.n] = bucket(a, b, ' ')
		t.n++
	}
}

func bucket(a, b, c rune) uint16 {
	h := uint32(a)*0x9e3779b1 ^ uint32(b)*0x85ebca77 ^ uint32(c)*0xc2b2ae3d
	h ^= h >> 15
	h *= 0x2c1b3c6d
	return uint16(h >> 19)
}
