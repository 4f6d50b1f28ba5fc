package squidguard

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// A statement is a line of squidGuard.conf, or the part of one up to a brace.
type statement struct {
	words []string
	end   byte // '{', '}' or '\n'
	report.Place
}

// maxStatements is the most statements of a squidGuard.conf.
const maxStatements = 200_000

// statements cuts squidGuard.conf into statements.
func statements(file string) (all []statement, err error) {
	err = input.Lines(file, func(n int, s []byte) error {
		if s[0] == '#' {
			return nil
		}
		if i := bytes.Index(s, []byte(" #")); i >= 0 {
			s = s[:i]
		}
		at := report.Place{File: file, Line: n, Text: string(bytes.TrimSpace(s))}
		for len(s) > 0 {
			if len(all) > maxStatements {
				return fmt.Errorf("%s: there are more than %d statements: divide the file", at, maxStatements)
			}
			i := bytes.IndexAny(s, "{}")
			if i < 0 {
				all = splitStatements(all, strings.Fields(string(s)), at)
				break
			}
			words := strings.Fields(string(s[:i]))
			if s[i] == '}' && len(words) > 0 {
				all = splitStatements(all, words, at)
				words = nil
			}
			all = append(all, statement{words, s[i], at})
			s = bytes.TrimSpace(s[i+1:])
		}
		return nil
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s has no statement", file)
	}
	return all, err
}

// splitStatements adds the statements of a line, each of which begins with its own keyword.
func splitStatements(all []statement, words []string, at report.Place) []statement {
	for len(words) > 0 {
		n := 1
		for n < len(words) && (words[0] == "user" || !slices.Contains([]string{"pass", "redirect", "rewrite", "domainlist", "urllist", "expressionlist", "userlist", "iplist", "log"}, words[n])) {
			n++
		}
		all = append(all, statement{words[:n], '\n', at})
		words = words[n:]
	}
	return all
}

// blockEnd is the index of the statement that closes a block.
func blockEnd(body []statement) int {
	depth := 0
	for i, s := range body {
		switch s.end {
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		}
	}
	return -1
}
