package files

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"

	"shuultuur/filter"
)

// Kinds of e2guardian's short lists, which are about a request or response as a whole, not its
// destination.
const (
	Extensions = "extension" // of files: .exe
	MediaTypes = "type"      // application/x-msdownload
	Searches   = "search"    // words, in any order: girls+naked
)

// Values are the entries of a short list of e2guardian or DansGuardian and its includes, for
// the conditions of rules.
type Values struct {
	Values   []string // in the form of rules, each once
	Files    []string // files that were read
	Problems []Problem
}

const (
	maxValues   = 20_000
	maxProblems = 1000 // that are kept
	maxWords    = 4    // words of a search, in any order
)

// ReadValues reads a list of one of the kinds. Malformed lines are problems and left out; so
// are lists with time limits, because rules have their own schedules.
func ReadValues(path, kind string) (*Values, error) {
	x, err := Includes(path, false)
	if err != nil {
		return nil, err
	}
	v := &Values{Problems: x.Problems}
	for _, f := range x.Files {
		v.Files = append(v.Files, f.Path)
		if len(f.When) > 0 {
			v.Problems = append(v.Problems, Problem{File: f.Path, Reason: "has #time, which is ignored: give the rule a schedule", Kept: true})
		}
		if err := v.read(f.Path, kind); err != nil {
			return nil, fmt.Errorf("reading %s: %w", f.Path, err)
		}
	}
	return v, nil
}

func (v *Values) read(path, kind string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	br := bufio.NewReaderSize(f, MaxLine)
	for n := 1; ; n++ {
		s, err := br.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			return fmt.Errorf("line %d is longer than %d bytes", n, MaxLine)
		}
		if s = CutComment(bytes.TrimSpace(s)); len(s) > 0 && !bytes.HasPrefix(s, []byte(".Include<")) {
			values, wrong := valuesOf(string(s), kind)
			if wrong != nil {
				values = nil
				if len(v.Problems) < maxProblems {
					v.Problems = append(v.Problems, Problem{File: path, Line: n, Reason: wrong.Error()})
				}
			}
			if len(v.Values)+len(values) > maxValues {
				return fmt.Errorf("line %d: more than %d values", n, maxValues)
			}
			for _, x := range values {
				if !slices.Contains(v.Values, x) {
					v.Values = append(v.Values, x)
				}
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// valuesOf reads a line, or returns the mistake in it.
func valuesOf(s, kind string) ([]string, error) {
	switch kind {
	case Extensions:
		s, err := filter.Extension(s)
		return []string{s}, err
	case MediaTypes:
		s, err := filter.MediaType(s)
		return []string{s}, err
	}
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return r == '+' || r == ' ' })
	switch {
	case slices.ContainsFunc(words, func(w string) bool {
		return !strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
	}) || len(words) == 0:
		return nil, fmt.Errorf("%s has no letter or digit to search for", Quote([]byte(s)))
	case len(words) > maxWords:
		return nil, fmt.Errorf("%s has more than %d words, too many to search for in every order", Quote([]byte(s)), maxWords)
	}
	return Orders(words), nil
}

// Orders returns words in every order, separated by spaces: up to n! of n words.
func Orders(words []string) (all []string) {
	if len(words) == 1 {
		return words
	}
	for i := range words {
		rest := append(slices.Clone(words[:i]), words[i+1:]...)
		for _, r := range Orders(rest) {
			if s := words[i] + " " + r; !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}
