package language

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/arabic"
	"github.com/blevesearch/snowballstem/danish"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	fi "github.com/blevesearch/snowballstem/finnish"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/hungarian"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/norwegian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/romanian"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
	"github.com/blevesearch/snowballstem/swedish"
	"github.com/blevesearch/snowballstem/turkish"

	"shuultuur/lib/language/mongolian"
	"shuultuur/lib/language/turkic"
	"shuultuur/lib/language/uzbek"
)

// A Stemmer finds the stems of words in one language. Stem appends the stem of a word in lower
// case to dst; it is empty only if the word is. It is safe for concurrent use.
type Stemmer interface {
	Stem(dst, word []byte) []byte
}

// NewStemmer returns the stemmer of a language in the table, or an error if it has none. That
// of Chinese, Japanese and Thai does not change words, because they are found by overlapping
// pairs of letters (see Pairs).
func NewStemmer(tag Tag) (Stemmer, error) {
	switch tag {
	case "uz-Latn", "uz-Cyrl":
		return uzbek.New()
	case "mn":
		return mongolian.New()
	case "kk":
		return turkic.Kazakh(), nil
	case "ky":
		return turkic.Kyrgyz(), nil
	case "zh", "ja", "th":
		return identityStemmer{}, nil
	}
	switch tag {
	case "ar":
		return arabicStemmer{}, nil
	case "tr":
		return formStemmer{snowball{algorithm(tag)}, turkic.Turkish()}, nil
	case "fi":
		return finnish{snowball{algorithm(tag)}}, nil
	}
	if stem := algorithm(tag); stem != nil {
		return snowball{stem}, nil
	}
	return nil, fmt.Errorf("there is no stemmer for %q", tag)
}

// HasStemmer reports whether NewStemmer supports inflected forms in a language.
func HasStemmer(tag Tag) bool {
	switch tag {
	case "uz-Latn", "uz-Cyrl", "mn", "kk", "ky":
		return true
	}
	return algorithm(tag) != nil
}

// algorithm returns the Snowball stemmer of a language.
func algorithm(tag Tag) func(*snowballstem.Env) bool {
	switch tag {
	case "ar":
		return arabic.Stem
	case "da":
		return danish.Stem
	case "de":
		return german.Stem
	case "en":
		return english.Stem
	case "es":
		return spanish.Stem
	case "fi":
		return fi.Stem
	case "fr":
		return french.Stem
	case "hu":
		return hungarian.Stem
	case "it":
		return italian.Stem
	case "nb":
		return norwegian.Stem
	case "nl":
		return dutch.Stem
	case "pt":
		return portuguese.Stem
	case "ro":
		return romanian.Stem
	case "ru":
		return russian.Stem
	case "sv":
		return swedish.Stem
	case "tr":
		return turkish.Stem
	}
	return nil
}

// snowball runs an algorithm of the Snowball project. It allocates when an algorithm replaces
// an ending.
type snowball struct {
	stem func(*snowballstem.Env) bool
}

// A formStemmer is a stemmer with the forms of another one.
type formStemmer struct {
	snowball
	forms turkic.Stemmer
}

// Forms calls form with forms of a word.
func (s formStemmer) Forms(word string, form func(string)) { s.forms.Forms(word, form) }

const longestWord = 64 // bytes; a longer word is its own stem

func (s snowball) Stem(dst, word []byte) []byte {
	if len(word) > longestWord || !utf8.Valid(word) {
		return append(dst, word...)
	}
	var env snowballstem.Env
	env.SetCurrent(string(word))
	s.stem(&env)
	if env.Current() == "" {
		return append(dst, word...)
	}
	return append(dst, env.Current()...)
}

// An arabicStemmer stems Arabic. The algorithm removes the article, but not an "and" before it.
type arabicStemmer struct{}

func (arabicStemmer) Stem(dst, word []byte) []byte {
	if bytes.HasPrefix(word, []byte("وال")) || bytes.HasPrefix(word, []byte("فال")) {
		word = word[len("و"):]
	}
	return snowball{arabic.Stem}.Stem(dst, word)
}

// An identityStemmer returns words unchanged.
type identityStemmer struct{}

func (identityStemmer) Stem(dst, word []byte) []byte { return append(dst, word...) }
