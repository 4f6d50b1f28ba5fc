package phrase

import (
	"context"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/language"
	"shuultuur/lib/multimatch"
)

// step is the number of bytes of a view that are searched between checks of the context: about
// half a millisecond.
const step = 64 << 10

// A scan is the state of searching one page as it arrives; scans are reused. In mode modern it
// follows the text of a body; compatibility modes search the bytes.
type scan struct {
	*Check
	hits  *multimatch.Hits
	best  result // of the passes so far
	last  result // of the current pass
	sums  []sum
	views []searched        // of a page in a compatibility mode, one for each pass
	piece []byte            // of the current view
	bytes []byte            // the page with %XX decoded
	from  int               // bytes of the page before these were decoded
	words []byte            // evidence
	masks map[uint32]string // by phrase: the disguised word it was found in
	stem  *stemScan         // nil without phrases by stem
	spoken
}

func (c *Check) newScan() *scan {
	sc := &scan{Check: c, hits: c.set.NewHits(len(c.stemTexts)), stem: c.newStemScan()}
	sc.hits.Once = c.once
	if c.dialect != nil {
		sc.piece = make([]byte, 0, step)
		sc.views = make([]searched, len(c.passes))
	}
	return sc
}

// Follow returns a scan of one body ([content.Reader]).
func (c *Check) Follow(b *content.Body) content.Follower {
	sc := c.scans.Get().(*scan)
	if c.dialect != nil {
		sc.begin()
		return sc
	}
	sc.hits.Reset()
	clear(sc.masks)
	if sc.stem != nil {
		sc.stem.begin(b)
	}
	sc.spoken.begin(b)
	return sc
}

// Read counts the phrases that end in text[fresh:]. Compatibility modes do not search this text.
func (sc *scan) Read(text []byte, fresh int) {
	if sc.dialect != nil {
		return
	}
	sc.set.Scan(sc.hits, text, fresh)
	if sc.inSome != nil {
		sc.hear(text[fresh:])
	}
	if sc.stem != nil {
		sc.stem.read(text[fresh:], sc.hits.Starts, sc.foundStem)
	}
}

// endStems searches the text that was held to detect its language.
func (sc *scan) endStems() {
	if sc.stem != nil {
		sc.stem.end(sc.foundStem)
	}
}

func (sc *scan) foundStem(phrase int) { sc.hits.Add(uint32(sc.set.Len() + phrase)) }

// foundDisguised counts a phrase found in a disguised word.
func (sc *scan) foundDisguised(id uint32, word string) {
	if sc.hits.N[id] == 0 {
		if sc.masks == nil {
			sc.masks = map[uint32]string{}
		}
		sc.masks[id] = word
	}
	sc.hits.Add(id)
}

// Close returns the scan to the pool.
func (sc *scan) Close() { sc.scans.Put(sc) }

// A searched is the state of one pass over a page.
type searched struct {
	view view
	hits *multimatch.Hits
	to   int // length of the page so far
}

// begin begins a page.
func (sc *scan) begin() {
	sc.bytes, sc.from = sc.bytes[:0], 0
	for i, p := range sc.passes {
		v := &sc.views[i]
		switch {
		case v.hits != nil:
			v.hits.Reset()
		case i == 0:
			v.hits = sc.hits
		default:
			v.hits = sc.set.NewHits(0)
			v.hits.Once = sc.once
		}
		v.view, v.to = sc.dialect.view(p, nil), 0
	}
}

// whole scores a page that is here.
func (sc *scan) whole(ctx context.Context, page []byte) error {
	sc.begin()
	return sc.page(ctx, page, true)
}

// page scores a page as far as it has arrived, as the dialect does: pass by pass until one leads
// to a verdict. Each pass continues where it ended in the shorter page. Scores of
// passes are not added: the highest positive one is kept, or else the lowest. After an error, what
// was found before counts.
func (sc *scan) page(ctx context.Context, page []byte, whole bool) (err error) {
	defer filter.Catch(&err)
	sc.best.reset()
	sc.last.reset()
	if sc.unhex {
		sc.bytes, sc.from = appendUnhexed(sc.bytes, page, sc.from, whole)
		page = sc.bytes
	}
	now := sc.now()
	for i := range sc.views {
		v := &sc.views[i]
		sc.hits = v.hits
		err = sc.pass(ctx, v, page, whole)
		sc.judge(sc.hits, now, language.Every, &sc.last)
		if i == 0 || better(sc.last.score, sc.best.score) {
			sc.best, sc.last = sc.last, sc.best
		}
		sc.best.banned = max(sc.best.banned, sc.last.banned)
		sc.best.exception = max(sc.best.exception, sc.last.exception)
		if err != nil || sc.best.banned >= 0 || sc.best.exception >= 0 || sc.best.score > sc.limit {
			break
		}
	}
	return err
}

// better reports whether to keep score a rather than b.
func better(a, b int) bool {
	if a > 0 || b > 0 {
		return a > b
	}
	return a < b
}

// pass continues a pass. Where the head of a page ends may depend on all of it, so it is searched
// anew, but only when the page has become longer by a quarter: each byte counts a few times.
func (sc *scan) pass(ctx context.Context, s *searched, page []byte, whole bool) error {
	v := &s.view
	switch {
	case !v.head:
		v.src, v.whole = page[s.to-len(v.src):], whole
	case !whole && len(page) < s.to+s.to/4 || s.to == len(page) && s.to > 0:
		return nil
	default:
		s.hits.Reset()
		*v = sc.dialect.view(v.pass, appendHead(nil, page))
	}
	s.to = len(page)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		sc.piece = v.next(sc.piece[:0])
		if len(sc.piece) == 0 {
			return nil
		}
		sc.set.Feed(s.hits, sc.piece)
	}
}

// report appends the findings. All evidence shares one string, so that it costs one allocation
// for any number of categories.
func (sc *scan) report(dst []filter.Finding) []filter.Finding {
	r := &sc.best
	if r.exception >= 0 {
		return append(dst, sc.verdict("exceptionphrase", r.exception))
	}
	if r.banned >= 0 {
		dst = append(dst, sc.verdict("bannedphrase", r.banned))
	}
	if len(r.parts) == 0 {
		return dst
	}
	most, mostOf := topOfTotal, topOfCategory
	if sc.full {
		most, mostOf = len(r.parts), len(r.parts)
	}
	sortParts(r.parts)
	sc.sums = sc.Check.sums(sc.sums[:0], r.parts)
	sc.words = sc.evidence(sc.words[:0], r.parts, 0, most)
	end := len(sc.words)
	for i := range sc.sums {
		sc.words = sc.evidence(sc.words, r.parts, sc.sums[i].category, mostOf)
		sc.sums[i].end = len(sc.words)
	}
	words := string(sc.words)
	if r.score != 0 {
		dst = append(dst, filter.Finding{Check: "phrase", Category: "phrase", Score: r.score, Evidence: words[:end]})
	}
	for _, s := range sc.sums {
		dst = append(dst, filter.Finding{Check: "phrase", Category: sc.categories[s.category], Score: s.score, Evidence: words[end:s.end]})
		end = s.end
	}
	return dst
}

func (sc *scan) verdict(category string, i int) filter.Finding {
	l := &sc.lines[i]
	sc.words = sc.place(append(sc.text(sc.words[:0], l), ' '), l)
	return filter.Finding{Check: "phrase", Category: category, Evidence: string(sc.words)}
}
