package phrase

import (
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"shuultuur/content"
	"shuultuur/lib/language"
)

// This file lets lists in a language count in pages of that language: a word that is harmless in
// one language may be listed for another.

// alsoSpoken are languages whose lists count in each other's pages: no detector tells short texts in
// them apart, and they share most words.
var alsoSpoken = map[language.Tag]language.Tag{"da": "nb", "nb": "da"}

// spokenIn returns the languages of a list by the name of its file or of the two folders above, such
// as "weighted_portuguese" or "russian-1251"; 0 if there is none.
func spokenIn(path string) (s language.Set) {
	parts := strings.Split(strings.ToLower(filepath.ToSlash(path)), "/")
	slices.Reverse(parts)
	for _, name := range parts[:min(3, len(parts))] {
		for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return !unicode.IsLetter(r) }) {
			s |= languageNamed(word)
		}
		if s != 0 {
			break
		}
	}
	return s
}

// languageNamed returns the language of an English name, 0 if it is none.
func languageNamed(word string) language.Set {
	switch word { // names in the lists of e2guardian
	case "ukenglish":
		word = "english"
	case "malay":
		word = "indonesian" // the detector does not tell them apart
	case "chinesebig", "chinesegb":
		word = "chinese"
	}
	for _, l := range language.Languages {
		if strings.EqualFold(l.Name, word) {
			return language.SetOf(l.Tag) | language.SetOf(alsoSpoken[l.Tag])
		}
	}
	return 0
}

// spoken is what a scan knows of the languages of a text. The text is heard in passages, because
// menus may be in another language than the rest; the languages of all are those of the text.
type spoken struct {
	body   *content.Body
	seen   int          // hits that were looked at
	needed bool         // a phrase was found that counts in some languages only
	heard  language.Set // of the passages since
	sample []byte       // the beginning of the current passage
	length int          // of the passage

	told   language.Set // languages of the passage, by the first toldBy bytes of it and the tags
	toldBy int
	tags   [2]language.Tag
}

const (
	passage      = 16 << 10
	passageHeard = 1 << 10 // more than the detector reads of most texts
	leastPassage = 512     // of what follows the last passage
)

func (s *spoken) begin(b *content.Body) { *s = spoken{body: b, sample: s.sample[:0]} }

// hear takes the next text, in which phrases were found already.
func (sc *scan) hear(text []byte) {
	for _, id := range sc.hits.Seen[sc.seen:] {
		sc.needed = sc.needed || int(id) < len(sc.inSome) && sc.inSome[id]
	}
	sc.seen = len(sc.hits.Seen)
	for len(text) > 0 {
		n := min(len(text), passage-sc.length)
		if room := passageHeard - len(sc.sample); room > 0 {
			sc.sample = append(sc.sample, text[:min(n, room)]...)
		}
		sc.length += n
		text = text[n:]
		if sc.length == passage {
			if sc.needed {
				sc.heard |= sc.possible()
			}
			sc.sample, sc.length, sc.toldBy = sc.sample[:0], 0, 0
		}
	}
}

// possible returns the languages that the current passage may be in. It is asked for each piece of a
// body, and the beginning of a passage is soon complete.
func (sc *scan) possible() language.Set {
	var tags [2]language.Tag
	if sc.body != nil {
		tags[0], tags[1] = sc.body.Languages()
	}
	if sc.toldBy != len(sc.sample) || sc.tags != tags || sc.toldBy == 0 {
		sc.told = sc.detector.Possible(sc.sample, string(tags[0]), string(tags[1]))
		sc.toldBy, sc.tags = len(sc.sample), tags
	}
	return sc.told
}

// languages returns those that the text may be in, as far as it was heard.
func (sc *scan) languages() language.Set {
	if !sc.needed {
		return language.Every
	}
	if sc.length >= leastPassage || sc.heard == 0 {
		return sc.heard | sc.possible()
	}
	return sc.heard
}
