package phrase

import (
	"fmt"
	"slices"
	"time"

	"shuultuur/lib/language"
	"shuultuur/lib/multimatch"
)

// maxCount limits the counted occurrences of a phrase, so that no sum overflows.
const maxCount = 1_000_000

// A line is a rule in compiled form: it searches for one or several patterns.
type line struct {
	weight   int32
	number   uint32 // in its file
	file     uint16
	category uint16
	window   uint16
	kind     kind
	parts    []uint32

	languages language.Set // of the pages in which it counts, 0 for all
}

// An index maps patterns to lines: those of pattern id are lines[start[id]:start[id+1]].
type index struct {
	start []uint32
	lines []uint32
}

func (x *index) of(id uint32) []uint32 { return x.lines[x.start[id]:x.start[id+1]] }

func newIndex(patterns int, key func(line int) (id uint32, ok bool), lines int) index {
	x := index{start: make([]uint32, patterns+1)}
	for i := range lines {
		if id, ok := key(i); ok {
			x.start[id+1]++
		}
	}
	for i := range patterns {
		x.start[i+1] += x.start[i]
	}
	x.lines = make([]uint32, x.start[patterns])
	next := slices.Clone(x.start)
	for i := range lines {
		if id, ok := key(i); ok {
			x.lines[next[id]] = uint32(i)
			next[id]++
		}
	}
	return x
}

// A book is all lists, compiled. It never changes.
type book struct {
	set        *multimatch.Set
	stems      *language.Phrases // nil if there are none; their ids follow those of set
	stemTexts  []string          // of stems, as in the lists
	lines      []line
	files      []string
	paths      []string // of files
	categories []string
	windows    []window
	inSome     []bool // by pattern: whether lines of it count in some languages only; nil without such lines

	single index // lines with one phrase, by that phrase
	combi  index // combinations, by their phrase that occurs in the fewest combinations
}

// compile compiles lists to a book. Of lines with the same single phrase and the same times it
// keeps the one of the highest kind, and among those the highest weight.
func compile(ls *lists) (*book, error) {
	b := &book{files: ls.files, paths: ls.paths, categories: ls.categories, windows: ls.windows}
	patterns, stems, reaches, ids := ls.patterns()
	type key struct {
		pattern   uint32
		window    uint16
		languages language.Set
	}
	single := map[key]uint32{} // → line
	for i := range ls.rules {
		u := &ls.rules[i]
		l := line{
			weight: int32(u.weight), number: uint32(u.line), file: uint16(u.file),
			category: uint16(u.category), window: uint16(u.window), kind: u.kind, languages: u.languages,
		}
		for i := range u.parts {
			l.parts = append(l.parts, ids[u.key(i)])
		}
		if l.languages != 0 && b.inSome == nil {
			b.inSome = make([]bool, len(ids))
		}
		if l.languages != 0 {
			for _, id := range l.parts {
				b.inSome[id] = true
			}
		}
		if len(l.parts) == 1 {
			key := key{l.parts[0], l.window, l.languages}
			if j, dup := single[key]; dup {
				if l.beats(&b.lines[j]) {
					b.lines[j] = l
				}
				continue
			}
			single[key] = uint32(len(b.lines))
		}
		b.lines = append(b.lines, l)
	}
	var err error
	if err = b.compileStems(ls, stems); err != nil {
		return nil, fmt.Errorf("compiling phrases by stem: %w", err)
	}
	var words [][]byte
	if b.stems != nil {
		words = b.stems.Beginnings()
	}
	if b.set, err = multimatch.New(patterns, words); err != nil {
		return nil, fmt.Errorf("compiling phrases: %w", err)
	}
	if slices.ContainsFunc(reaches, func(x reach) bool { return x != midBegin|midEnd }) {
		b.set.Where(func(id uint32, before, behind []byte) bool {
			return reaches[id].fits(b.set.Pattern(id), before, behind)
		})
	}
	b.single = newIndex(len(ids), func(i int) (uint32, bool) {
		return b.lines[i].parts[0], len(b.lines[i].parts) == 1
	}, len(b.lines))

	// A combination is tested only if the phrase under which it is filed is on the page. So it
	// is filed under the phrase with the fewest combinations.
	uses := make([]uint32, len(ids))
	for i := range b.lines {
		if p := b.lines[i].parts; len(p) > 1 {
			for _, id := range p {
				uses[id]++
			}
		}
	}
	b.combi = newIndex(len(ids), func(i int) (uint32, bool) {
		p := b.lines[i].parts
		if len(p) < 2 {
			return 0, false
		}
		return slices.MinFunc(p, func(x, y uint32) int { return int(uses[x]) - int(uses[y]) }), true
	}, len(b.lines))
	return b, nil
}

// key returns what distinguishes part i of a rule from others: its text, and where it may stand.
func (u *rule) key(i int) string {
	if u.parts[i][0] == stemMark {
		return string(u.parts[i])
	}
	return string(append([]byte{byte(u.reaches[i])}, u.parts[i]...))
}

// patterns returns the texts that the rules search for: patterns for the matcher and where they may
// stand, phrases by stem, and the ids of both by key.
func (ls *lists) patterns() (patterns [][]byte, stems []string, reaches []reach, ids map[string]uint32) {
	ids = map[string]uint32{}
	for i := range ls.rules {
		u := &ls.rules[i]
		for j, p := range u.parts {
			key := u.key(j)
			if _, ok := ids[key]; ok {
				continue
			}
			ids[key] = uint32(len(patterns))
			if p[0] == stemMark {
				stems = append(stems, string(p))
			} else {
				patterns, reaches = append(patterns, p), append(reaches, u.reaches[j])
			}
		}
	}
	for i, s := range stems {
		ids[s] = uint32(len(patterns) + i)
	}
	return patterns, stems, reaches, ids
}

// beats reports whether l applies rather than other, which has the same phrase.
func (l *line) beats(other *line) bool {
	return l.kind > other.kind || l.kind == weighted && other.kind == weighted && l.weight > other.weight
}

// text appends the phrase or phrases of line l as a list would write them. It adds the word on
// the page if a phrase was found by stem or in disguise.
func (sc *scan) text(dst []byte, l *line) []byte {
	for i, id := range l.parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '<')
		stem := int(id) - sc.set.Len()
		if stem < 0 {
			dst = appendReadable(dst, sc.set.Pattern(id))
		} else {
			dst = append(dst, sc.stemTexts[stem]...)
		}
		if word := sc.masks[id]; word != "" {
			dst = append(append(dst, ": "...), word...)
		} else if stem >= 0 {
			dst = append(append(dst, ": "...), sc.stem.words[stem]...)
		}
		dst = append(dst, '>')
	}
	return dst
}

// A part is the contribution of one line to a score.
type part struct {
	line  uint32
	count int // of the phrase, or of the rarest of a combination
	value int
}

// A result is the result of one pass over a page.
type result struct {
	exception, banned int // the line that decides, or -1
	score             int
	parts             []part
}

func (r *result) reset() {
	r.exception, r.banned, r.score, r.parts = -1, -1, 0, r.parts[:0]
}

// holds reports whether a line counts at the time now in a text of these languages.
func (b *book) holds(l *line, now time.Time, languages language.Set) bool {
	return (l.languages == 0 || l.languages&languages != 0) && b.windows[l.window].holds(now)
}

// judge evaluates the counts in h of a text of these languages at the time now, and stores the result in r. After an
// exception nothing else on the page counts.
func (b *book) judge(h *multimatch.Hits, now time.Time, languages language.Set, r *result) {
	r.reset()
	for _, id := range h.Seen {
		b.judgeSingle(id, h, now, languages, r)
		for _, i := range b.combi.of(id) {
			l := &b.lines[i]
			n := ^uint32(0)
			for _, p := range l.parts {
				n = min(n, h.N[p])
			}
			if n > 0 && b.holds(l, now, languages) {
				b.count(r, i, n, h.Once)
			}
		}
	}
	if r.exception >= 0 {
		r.score, r.parts = 0, r.parts[:0]
	}
}

func (b *book) judgeSingle(id uint32, h *multimatch.Hits, now time.Time, languages language.Set, r *result) {
	best := -1
	for _, i := range b.single.of(id) {
		l := &b.lines[i]
		if b.holds(l, now, languages) && (best < 0 || l.beats(&b.lines[best])) {
			best = int(i)
		}
	}
	if best >= 0 {
		b.count(r, uint32(best), h.N[id], h.Once)
	}
}

// count records in r that line i matches n times.
func (b *book) count(r *result, i, n uint32, once bool) {
	l := &b.lines[i]
	switch l.kind {
	case exception:
		r.exception = b.first(r.exception, int(i))
	case banned:
		r.banned = b.first(r.banned, int(i))
	default:
		count := 1
		if !once {
			count = min(int(n), maxCount)
		}
		value := count * int(l.weight)
		r.score += value
		r.parts = append(r.parts, part{line: i, count: count, value: value})
	}
}

// first returns which of two lines is named as the reason: combinations before single phrases,
// then in the order of the lists.
func (b *book) first(was, is int) int {
	if was < 0 {
		return is
	}
	wasCombi, isCombi := len(b.lines[was].parts) > 1, len(b.lines[is].parts) > 1
	if isCombi != wasCombi {
		if isCombi {
			return is
		}
		return was
	}
	return min(was, is)
}

// A sum is the score of one category.
type sum struct {
	category uint16
	score    int
	end      int // end of its evidence
}

// sums appends the positive scores of the categories in parts to dst, highest first. Only
// phrases with a positive weight count for their category.
func (b *book) sums(dst []sum, parts []part) []sum {
	for _, p := range parts {
		c := b.lines[p.line].category
		if p.value <= 0 || c == 0 {
			continue
		}
		i := slices.IndexFunc(dst, func(s sum) bool { return s.category == c })
		if i < 0 {
			i = len(dst)
			dst = append(dst, sum{category: c})
		}
		dst[i].score += p.value
	}
	for i := range dst { // they are few
		for j := i; j > 0 && b.ranksAbove(dst[j], dst[j-1]); j-- {
			dst[j], dst[j-1] = dst[j-1], dst[j]
		}
	}
	return dst
}

// ranksAbove reports whether x comes before y: by score, then by the name of the category.
func (b *book) ranksAbove(x, y sum) bool {
	if x.score != y.score {
		return x.score > y.score
	}
	return b.categories[x.category] < b.categories[y.category]
}
