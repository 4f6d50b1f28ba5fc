// Package mongolian finds the stems of Mongolian words in Cyrillic script.
package mongolian

import (
	"bytes"
	_ "embed"
	"fmt"

	"shuultuur/lib/language/inflect"
)

//go:embed mongolian.model
var model []byte

// New unpacks a stemmer, which takes about a megabyte. It expects words in lower case.
func New() (*inflect.Stemmer, error) {
	m, err := inflect.ReadModel(bytes.NewReader(model))
	if err != nil {
		return nil, fmt.Errorf("reading the model of Mongolian: %w", err)
	}
	s, err := inflect.New(Grammar, m)
	if err != nil {
		return nil, fmt.Errorf("reading the model of Mongolian: %w", err)
	}
	return s, nil
}
