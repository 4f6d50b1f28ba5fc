package search

import (
	"fmt"
	"sync"

	"shuultuur/content/prose"
	"shuultuur/lib/language"
)

// Forms are words and phrases of search terms that match in every inflection.
type Forms struct {
	phrases language.Phrases
	finders sync.Pool
}

func NewForms() *Forms {
	f := &Forms{}
	f.finders.New = func() any { return f.phrases.NewFinder() }
	return f
}

// Add adds a phrase whose words in braces match by their stems.
func (f *Forms) Add(phrase string) error {
	terms := prose.Terms([]byte(phrase), false)
	if len(terms) == 0 {
		return fmt.Errorf("%q has no letter or digit to search for", phrase)
	}
	_, err := f.phrases.Add(language.Unknown, terms)
	return err
}

// IsJoined reports whether all words of a phrase are in scripts that put no blanks
// between words: there is no form of them to look for.
func IsJoined(phrase string) bool {
	for _, t := range prose.Terms([]byte(phrase), true) {
		if !language.ScriptOf(t.Word).JoinsWords() {
			return false
		}
	}
	return true
}

// In reports whether a search term contains one of the phrases.
func (f *Forms) In(term []byte) bool {
	if f == nil || len(term) == 0 {
		return false
	}
	find := f.finders.Get().(*language.Finder)
	defer f.finders.Put(find)
	found := false
	find.Read(prose.Normalise(nil, term), func(int, []byte) { found = true })
	find.Break()
	return found
}
