package phrase

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"shuultuur/content"
	"shuultuur/content/prose"
	"shuultuur/lib/language"
)

// A stemPhrase is a phrase whose words are found by their stems.
type stemPhrase struct {
	tag   language.Tag // Unknown for every language
	terms []language.Term
}

// stemMark begins the text of such a phrase among the parts of a rule. No normalised phrase
// contains it.
const stemMark = 0

// text returns the phrase as a list writes it.
func (s *stemPhrase) text() string {
	var words []string
	for _, t := range s.terms {
		if t.Stem {
			t.Word = "{" + t.Word + "}"
		}
		words = append(words, t.Word)
	}
	return strings.Join(words, " ")
}

// language returns the language that rest, the text after "#language", sets for the lines
// below, "" for none.
func (r *reader) language(rest []byte, file, line int) string {
	name := strings.ToLower(strings.Trim(string(rest), " \t:\""))
	if name == "" || name == "none" {
		return ""
	}
	tag := language.Parse(name, language.None)
	switch {
	case tag == language.Unknown:
		r.remark(file, line, fmt.Sprintf("language %.20q is not known, so the words below are found as they are written", name), "")
		return ""
	case !language.HasStemmer(tag) && !pairs(tag):
		r.remark(file, line, fmt.Sprintf("there is no stemmer for language %q, so the words below are found as they are written", name), "")
		return ""
	}
	return name
}

// pairs reports whether words of a language are not separated by blanks, so that they match
// anywhere.
func pairs(tag language.Tag) bool {
	return slices.Contains([]language.Tag{"zh", "ja", "th", "ko"}, tag)
}

// stem returns the key of a phrase that is found by stem, for the parts of a rule; nil if no
// word of it is.
func (r *reader) stem(part []byte, lang string) []byte {
	if !r.stems || lang == "" && !bytes.ContainsAny(part, "{}") {
		return nil
	}
	s := stemPhrase{terms: prose.Terms(part, lang != "")}
	any := false
	for i := range s.terms {
		t := &s.terms[i]
		if s := language.ScriptOf(t.Word); s.JoinsWords() || s == language.None {
			t.Stem = false
		}
		any = any || t.Stem
		if lang != "" && t.Stem && s.tag == language.Unknown {
			s.tag = language.TagNamed(lang, t.Word)
		}
	}
	if !any {
		return r.normalise(bytes.Trim(part, "{}"))
	}
	key := append([]byte{stemMark}, string(s.tag)+" "+s.text()...)
	if r.stemmed == nil {
		r.stemmed = map[string]stemPhrase{}
	}
	r.stemmed[string(key)] = s
	return key
}

// compileStems adds to b the phrases that are found by their stems, in the order of keys.
func (b *book) compileStems(ls *lists, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	b.stems = &language.Phrases{}
	for _, key := range keys {
		s := ls.stemmed[key]
		if _, err := b.stems.Add(s.tag, s.terms); err != nil {
			return err
		}
		b.stemTexts = append(b.stemTexts, s.text())
	}
	return nil
}

// A stemScan searches for phrases by stem in one page after another.
type stemScan struct {
	*language.Finder
	detector *language.Detector
	body     *content.Body
	held     []byte       // text held until there is enough to detect its language
	starts   []int        // where words may begin in it
	begun    bool         // there was enough
	samples  [2][]byte    // of the current text and the one before
	tag      language.Tag // last detected
	words    [][]byte     // by phrase: its last word as on the page
}

const (
	enoughText = 2 << 10 // bytes needed to detect a language
	middleText = 8 << 10 // of longer texts the second half is used, because menus come first
	sampleText = 4 << 10 // more than the detector reads of a text
)

func (c *Check) newStemScan() *stemScan {
	if c.stems == nil {
		return nil
	}
	return &stemScan{Finder: c.stems.NewFinder(), detector: c.detector, words: make([][]byte, c.stems.Len())}
}

// begin prepares s for the text of another body.
func (s *stemScan) begin(b *content.Body) {
	s.Break()
	s.body, s.begun, s.held, s.starts = b, false, s.held[:0], s.starts[:0]
	s.samples[0], s.samples[1], s.tag = s.samples[0][:0], s.samples[1][:0], language.Unknown
	for i, w := range s.words {
		s.words[i] = w[:0]
	}
}

// read searches for phrases in the next text, in which words may begin at starts.
func (s *stemScan) read(text []byte, starts []int, found func(int)) {
	if !s.begun && len(s.held)+len(text) < enoughText {
		for _, at := range starts {
			s.starts = append(s.starts, len(s.held)+at)
		}
		s.held = append(s.held, text...)
		return
	}
	s.end(found)
	s.look(text, starts, found)
}

// end searches for phrases in the text that was held.
func (s *stemScan) end(found func(int)) {
	if len(s.held) > 0 {
		s.look(s.held, s.starts, found)
		s.held, s.starts = s.held[:0], s.starts[:0]
	}
}

func (s *stemScan) look(text []byte, starts []int, found func(int)) {
	if len(text) >= enoughText || !s.begun {
		s.sample(text)
	}
	s.ReadAt(text, starts, func(phrase int, word []byte) {
		if len(s.words[phrase]) == 0 {
			s.words[phrase] = append(s.words[phrase], word...)
		}
		found(phrase)
	})
}

// sample keeps a part of a text for detecting its language. The language is detected again as
// the page continues, because menus may be in another language. It is not detected where no
// listed phrase may occur.
func (s *stemScan) sample(text []byte) {
	if len(text) > middleText {
		text = text[len(text)/2:]
	}
	s.samples[1], s.samples[0] = s.samples[0], append(s.samples[1][:0], text[:min(len(text), sampleText)]...)
	s.begun = true
	s.Ask(s.textLanguage)
}

// textLanguage returns the language of the current text, or if that is unknown, of the text before.
func (s *stemScan) textLanguage() language.Tag {
	var page, head language.Tag
	if s.body != nil {
		page, head = s.body.Languages()
	}
	for _, text := range s.samples {
		if tag := s.detector.Detect(text, string(page), string(head)); tag != language.Unknown {
			s.tag = tag
			break
		}
	}
	return s.tag
}
