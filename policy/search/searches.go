package search

import (
	"net/url"
	"regexp"
	"strings"
)

// Searches finds search terms in URLs of known engines. It is safe for concurrent use.
type Searches struct{ known Engines }

// NewSearches returns a Searches with the engines that rules know (see the condition search).
func NewSearches() *Searches { return &Searches{NewEngines()} }

const maxSearch = 200 // longest search that is kept, in bytes

// Term returns the search term in a URL, with single blanks between words, or "". Requests for
// suggestions while a user types do not count.
func (s *Searches) Term(raw string) string {
	if !strings.ContainsRune(raw, '?') {
		return ""
	}
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	e := s.known.Of(strings.ToLower(u.Hostname()))
	if e == nil || typing.MatchString(u.Path) {
		return ""
	}
	q := u.Query()
	for _, p := range e.Params {
		if t := strings.Join(strings.Fields(q.Get(p)), " "); t != "" {
			if len(t) > maxSearch {
				t = t[:maxSearch]
			}
			return strings.ToValidUTF8(t, "")
		}
	}
	return ""
}

// typing matches paths of suggestions while a user types.
var typing = regexp.MustCompile(`(?i)suggest|complete|/ac/?$|/ac\.|gen_204|/osjson`)
