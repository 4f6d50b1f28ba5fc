package policy

import (
	"bytes"
	"fmt"
	"net/url"
	"sync"
	"unicode/utf8"

	"shuultuur/content"
	"shuultuur/content/language"
)

// forms are words and phrases of search terms that match in every inflection.
type forms struct {
	phrases language.Phrases
	finders sync.Pool
}

func newForms() *forms {
	f := &forms{}
	f.finders.New = func() any { return f.phrases.NewFinder() }
	return f
}

// add adds a phrase whose words in braces match by their stems.
func (f *forms) add(phrase string) error {
	terms := content.Terms([]byte(phrase), false)
	if len(terms) == 0 {
		return fmt.Errorf("%q has no letter or digit to search for", phrase)
	}
	_, err := f.phrases.Add(language.Unknown, terms)
	return err
}

// isJoined reports whether all words of a phrase are in scripts that put no blanks
// between words: there is no form of them to look for.
func isJoined(phrase string) bool {
	for _, t := range content.Terms([]byte(phrase), true) {
		if !language.ScriptOf(t.Word).JoinsWords() {
			return false
		}
	}
	return true
}

// searched returns a phrase as it stands in a search: with a blank at either end,
// unless words in the script of that end stand next to others without blanks.
func searched(phrase string) []byte {
	term := appendTerm(nil, []byte(url.QueryEscape(phrase)))
	words := bytes.TrimSpace(term)
	if len(words) == 0 {
		return nil
	}
	if language.ScriptOf(string(words)).JoinsWords() {
		term = bytes.TrimLeft(term, " ")
	}
	if last, _ := utf8.DecodeLastRune(words); language.ScriptOf(string(last)).JoinsWords() {
		term = bytes.TrimRight(term, " ")
	}
	return term
}

// containsAny reports whether a search term contains one of the phrases.
func (f *forms) containsAny(term []byte) bool {
	if f == nil || len(term) == 0 {
		return false
	}
	find := f.finders.Get().(*language.Finder)
	defer f.finders.Put(find)
	found := false
	find.Read(content.Normalise(nil, term), func(int, []byte) { found = true })
	find.Break()
	return found
}
