package phrase

import (
	"context"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/multimatch"
)

// step is the number of bytes of a view that are searched between checks of the context: about
// half a millisecond.
const step = 64 << 10

// A scan is the state of searching one page; scans are reused. In mode modern it follows the
// text of a body as it arrives; compatibility modes search complete pages.
type scan struct {
	*Check
	hits  *multimatch.Hits
	best  result // of the passes so far
	last  result // of the current pass
	sums  []sum
	piece []byte            // of the current view
	bytes []byte            // the decoded page, or its head
	words []byte            // evidence
	masks map[uint32]string // by phrase: the disguised word it was found in
	stem  *stemScan         // nil without phrases by stem
}

func (c *Check) newScan() *scan {
	sc := &scan{Check: c, hits: c.set.NewHits(len(c.stemTexts)), stem: c.newStemScan()}
	sc.hits.Once = c.once
	if c.dialect != nil {
		sc.piece = make([]byte, 0, step)
	}
	return sc
}

// Follow returns a scan of the visible text of one body ([content.Reader]).
func (c *Check) Follow(b *content.Body) content.Follower {
	sc := c.scans.Get().(*scan)
	sc.hits.Reset()
	clear(sc.masks)
	if sc.stem != nil {
		sc.stem.begin(b)
	}
	return sc
}

// Read counts the phrases that end in text[fresh:].
func (sc *scan) Read(text []byte, fresh int) {
	sc.set.Scan(sc.hits, text, fresh)
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

// page scores a page as the dialect does: pass by pass until one leads to a verdict. Scores of
// passes are not added: the highest positive one is kept, or else the lowest. After an error, what
// was found before counts.
func (sc *scan) page(ctx context.Context, page []byte) (err error) {
	defer filter.Catch(&err)
	sc.best.reset()
	sc.last.reset()
	if sc.unhex {
		sc.bytes = appendUnhexed(sc.bytes[:0], page)
		page = sc.bytes
	}
	now := sc.now()
	for i, p := range sc.passes {
		err = sc.pass(ctx, page, p)
		sc.judge(sc.hits, now, &sc.last)
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

func (sc *scan) pass(ctx context.Context, page []byte, p pass) error {
	sc.hits.Reset()
	if p.head {
		page = appendHead(nil, page)
	}
	v := sc.dialect.view(p, page)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		sc.piece = v.next(sc.piece[:0])
		if len(sc.piece) == 0 {
			return nil
		}
		sc.set.Feed(sc.hits, sc.piece)
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
