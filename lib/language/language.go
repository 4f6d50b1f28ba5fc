// Package language determines the language of a text and finds the stems of its words.
//
// Languages is the one table of languages, with tags, scripts and stemmers. A Detector reads a
// sample of a text and returns its language. NewStemmer returns the Stemmer of a language.
package language

import "strings"

// A Tag is a BCP 47 tag of a language, with the script if a language has two: "uz-Latn".
type Tag string

// Unknown is the tag of a text whose language is not certain.
const Unknown Tag = ""

// A Script is a set of letters.
type Script uint8

const (
	None Script = iota
	Latin
	Cyrillic
	Arabic
	Greek
	Hebrew
	Devanagari
	Thai
	Han
	Hangul
	Kana
	scripts
)

// A Language is a row of the table.
type Language struct {
	Tag    Tag
	Name   string // in English
	Script Script
}

const maxTags = 32 // of one script

// Languages are the languages that a Detector distinguishes.
var Languages = [...]Language{
	{"uz-Latn", "Uzbek", Latin},
	{"uz-Cyrl", "Uzbek in Cyrillic script", Cyrillic},
	{"mn", "Mongolian", Cyrillic},
	{"kk", "Kazakh", Cyrillic},
	{"ky", "Kyrgyz", Cyrillic},
	{"tt", "Tatar", Cyrillic},
	{"tg", "Tajik", Cyrillic},
	{"ru", "Russian", Cyrillic},
	{"uk", "Ukrainian", Cyrillic},
	{"be", "Belarusian", Cyrillic},
	{"bg", "Bulgarian", Cyrillic},
	{"sr", "Serbian", Cyrillic},
	{"tr", "Turkish", Latin},
	{"az", "Azerbaijani", Latin},
	{"tk", "Turkmen", Latin},
	{"en", "English", Latin},
	{"de", "German", Latin},
	{"fr", "French", Latin},
	{"es", "Spanish", Latin},
	{"pt", "Portuguese", Latin},
	{"it", "Italian", Latin},
	{"ro", "Romanian", Latin},
	{"pl", "Polish", Latin},
	{"cs", "Czech", Latin},
	{"nl", "Dutch", Latin},
	{"sv", "Swedish", Latin},
	{"da", "Danish", Latin},
	{"nb", "Norwegian", Latin},
	{"fi", "Finnish", Latin},
	{"hu", "Hungarian", Latin},
	{"vi", "Vietnamese", Latin},
	{"id", "Indonesian", Latin},
	{"ar", "Arabic", Arabic},
	{"fa", "Persian", Arabic},
	{"ur", "Urdu", Arabic},
	{"el", "Greek", Greek},
	{"he", "Hebrew", Hebrew},
	{"hi", "Hindi", Devanagari},
	{"th", "Thai", Thai},
	{"zh", "Chinese", Han},
	{"ja", "Japanese", Han},
	{"ko", "Korean", Hangul},
}

// JoinsWords reports whether words in a script are not separated by blanks, or have endings that
// no stemmer removes, so that a listed word matches anywhere.
func (s Script) JoinsWords() bool { return s == Han || s == Kana || s == Hangul || s == Thai }

// Parse returns the tag in the table for a BCP 47 tag such as "uz-UZ" or "de_AT" and the
// script of the text, or Unknown.
func Parse(tag string, script Script) Tag {
	base := tag
	if i := strings.IndexAny(tag, "-_,; "); i >= 0 {
		base = tag[:i]
	}
	if len(base) > 3 {
		return Unknown
	}
	switch {
	case strings.EqualFold(base, "no") || strings.EqualFold(base, "nn"):
		base = "nb"
	case strings.EqualFold(base, "iw"):
		base = "he"
	}
	for i := range Languages {
		l := &Languages[i]
		name, _, _ := strings.Cut(string(l.Tag), "-")
		if strings.EqualFold(name, base) && (script == None || l.Script == script) {
			return l.Tag
		}
	}
	return Unknown
}
