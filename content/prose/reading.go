package prose

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"shuultuur/lib/ascii"
)

// continues like the text from a position on.
type Reading struct {
	at   int // position in the text, 0 if there is none
	Say  bool
	word [LongestWord]byte
	N    int
}

// Begun returns a reading that begins with the text of another one so far, or with the last word of the

// Add extends the word. A word that is too long is discarded.
func (r *Reading) Add(p []byte) {
	if r.N > 0 && r.word[r.N-1] == ' ' {
		p = bytes.TrimLeft(p, " ")
	}
	if len(p) > len(r.word)-r.N {
		r.N, r.Say = 0, false
		return
	}
	r.N += copy(r.word[r.N:], p)
}

// Text returns the word so far.
func (r *Reading) Text() []byte { return r.word[:r.N] }

// text.
func (f *Flow) Begun(which int) Reading {
	r := &f.further[which]
	if r.at == 0 {
		w := Reading{}
		w.N = copy(w.word[:], LastWord(f.B))
		return w
	}
	w := *r
	w.Add(f.B[min(r.at, len(f.B)):])
	w.Say = w.Say || w.N > r.N && r.N > 0
	return w
}

// Continued reports whether a reading is continued here, and nothing has come since.
func (f *Flow) Continued() bool { return f.has && f.further[0].at == len(f.B) }

// InAnyWord reports whether the text ends within a word, in some reading.
func (f *Flow) InAnyWord() bool { return InWord(f) || f.has }

// InWord reports whether the text ends within a word.
func InWord(f *Flow) bool { return f.B[len(f.B)-1] != ' ' }

// DropReadings drops the other readings of the current word.
func (f *Flow) DropReadings() {
	f.further[0].at, f.further[1].at, f.further[2].at, f.has = 0, 0, 0, false
}

// Settle brings the end of the text into its final form.
func (f *Flow) Settle() {
	f.Flush()
	if f.Joins {
		f.compose()
	}
}

// Breaks returns the reading of the word that is interrupted here, an empty one outside words.
func (f *Flow) Breaks() (w Reading) {
	f.Settle()
	if f.InAnyWord() {
		w = f.Begun(0)
	}
	return w
}

// GoOn continues a reading with the following text.
func (f *Flow) GoOn(which int, w Reading) {
	w.at = len(f.B)
	f.further[which] = w
	f.has = true
	if which == 0 {
		f.others = nil
	}
}

// mostTried is the number of values up to which each is tried.
const mostTried = 4

// GoOnWith continues a word, in both of its readings, with the texts that a style sheet adds,
// and then with the text that follows. The added texts appear in any case. The first reading

// gets the last of them, the second the one whose turn it is.
func (f *Flow) GoOnWith(w [2]Reading, added []string, turn int) {
	if len(added) == 0 {
		f.GoOn(0, w[0])
		return
	}
	last := added[len(added)-1]
	begun := w[0].N
	w[0].Add([]byte(last))
	w[0].Say = true
	f.GoOn(0, w[0])
	if len(added) == 1 {
		return
	}
	w[1].Add([]byte(added[turn%len(added)]))
	w[1].Say = true
	f.GoOn(1, w[1])
	if len(added) <= mostTried && f.further[0].N >= begun {
		f.others, f.otherAt, f.otherEnd = added[:len(added)-1], begun, f.further[0].N
	}
}

// sayFurther writes the other readings of the word that has ended.
func (f *Flow) sayFurther() {
	f.has = false
	end := len(f.B)
	lastWord := f.B[bytes.LastIndexByte(f.B, ' ')+1:]
	for i := range f.further {
		r := &f.further[i]
		if r.at == 0 {
			continue
		}
		rest := f.B[min(r.at, end):end]
		r.at = 0
		if len(rest) > LongestWord || len(rest)+r.N == 0 || len(rest) == 0 && !r.Say {
			continue
		}
		word := bytes.TrimLeft(r.word[:r.N], " ")
		lastWord = f.sayWord(lastWord, word, rest)
		if i == 0 && len(f.others) > 0 {
			lastWord = f.sayOthers(lastWord, r.word[:r.N], rest)
		}
	}
}

// sayWord writes the word begin + rest, unless it equals out, the word written last. It
// returns the last written word.
func (f *Flow) sayWord(out, begin, rest []byte) []byte {
	from := len(f.B)
	if f.B[from-1] != ' ' {
		f.B = append(f.B, ' ')
		from++
	}
	f.B = append(append(f.B, begin...), rest...)
	if r, _ := utf8.DecodeRune(rest); f.folds.composes(r) { // it has another letter before it
		f.stress = true
		f.composeFrom(from)
	}
	if bytes.Equal(f.B[from:], out) {
		f.B = f.B[:from]
		return out
	}
	return f.B[from:]
}

// sayOthers writes a word once with each of the other texts that may be in it; begin is its
// beginning.
func (f *Flow) sayOthers(out, begin, rest []byte) []byte {
	others := f.others
	f.others = nil
	if f.otherEnd > len(begin) {
		return out
	}
	for _, other := range others {
		word := slices.Concat(begin[:f.otherAt], []byte(other), begin[f.otherEnd:])
		out = f.sayWord(out, bytes.TrimLeft(word, " "), rest)
	}
	return out
}

// A splitWord is where a tag that may not count split a word.
type splitWord struct {
	to   int // length of the text after the split, 0 if there was none
	word int // where the first part ends
}

// IsSplit reports whether a tag that may not count has just split a word.
func (f *Flow) IsSplit() bool { return f.parting.to > 0 }

// Unsplit forgets where a word was split.
func (f *Flow) Unsplit() { f.parting.to = 0 }

// Split ends the current word at a tag that may not count.
func (f *Flow) Split() { f.parting = f.Parts() }

// SplitAt says that p, where a word was split, is here, since the line has ended there.
func (f *Flow) SplitAt(p splitWord) {
	if p.to > 0 {
		p.to = len(f.B)
		f.parting = p
	}
}

// Parts ends the current word, and returns where it was split.
func (f *Flow) Parts() splitWord {
	p := f.parting
	again := p.to == len(f.B)
	if !again && !InWord(f) && !f.has {
		f.Blank()
		return splitWord{}
	}
	f.Blank()
	if !again {
		p.word = len(f.B) - 1
	}
	p.to = len(f.B)
	return p
}

// Rejoin continues the split word with the following text, which begins with c.
func (f *Flow) Rejoin(c byte) {
	p := f.parting
	f.parting.to = 0
	if p.to != len(f.B) || ascii.IsSpace(c) || f.Continued() {
		return
	}
	var w Reading
	if w.N = copy(w.word[:], LastWord(f.B[:p.word])); w.N > 0 {
		f.GoOn(2, w)
	}
}

// An Reading is another reading of the current word: it has another beginning, and
