package policy

import (
	"fmt"
	"sync"

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

// in reports whether a search term contains one of the phrases.
func (f *forms) in(term []byte) bool {
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
