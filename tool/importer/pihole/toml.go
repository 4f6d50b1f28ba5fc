package pihole

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"shuultuur/tool/importer/report"
)

// A tomlValue is a setting of a TOML file, in the part of TOML that Pi-hole writes.
type tomlValue struct {
	path    string // with dots
	text    string // as it is written, without quotes and comments
	list    []string
	isList  bool
	changed bool // Pi-hole marks the value as changed from its default
	line    int
	again   int // the last line that sets the key again, or 0
}

// readTOML reads tables and keys with values on one line or arrays over several. It returns a
// syntax error with its line. Of a key that is set more than once, the last value counts.
func readTOML(data []byte) (all []tomlValue, err error) {
	table, rest, n := "", string(data), 0
	next := func() (line string, more bool) {
		more = rest != ""
		line, rest, _ = strings.Cut(rest, "\n")
		n++
		return line, more
	}
	for line, more := next(); more; line, more = next() {
		s := strings.TrimSpace(line)
		if s == "" || s[0] == '#' {
			continue
		}
		if s[0] == '[' {
			name, _, ok := strings.Cut(strings.TrimLeft(s, "["), "]")
			if !ok {
				return nil, fmt.Errorf("line %d: %q is not the name of a table", n, report.Clip(s))
			}
			table = strings.TrimSpace(name)
			continue
		}
		key, text, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("line %d: %q is neither a table nor a key with a value", n, report.Clip(s))
		}
		v := tomlValue{path: strings.Trim(strings.TrimPrefix(table+"."+strings.TrimSpace(key), "."), `"`), line: n}
		value, comment, depth, err := tomlCut(text)
		v.changed = strings.Contains(comment, "CHANGED")
		if v.isList = strings.HasPrefix(value, "["); v.isList {
			var parts strings.Builder
			for parts.WriteString(value); err == nil && depth > 0; {
				if line, more = next(); !more {
					return nil, fmt.Errorf("line %d: the array of %s is not closed", v.line, report.Clip(v.path))
				}
				var inner int
				value, comment, inner, err = tomlCut(line)
				v.changed, depth = v.changed || strings.Contains(comment, "CHANGED"), depth+inner
				parts.WriteString(" " + value)
			}
			value = strings.TrimSuffix(parts.String()[1:], "]")
			v.list = tomlStrings(value)
			v.text = strings.Join(v.list, " ")
		} else {
			v.text = tomlText(value)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", n, report.Clip(v.path), err)
		}
		all = append(all, v)
	}
	last := map[string]int{}
	for i, v := range slices.Backward(all) {
		if all[i].again = last[v.path]; last[v.path] == 0 {
			last[v.path] = v.line
		}
	}
	return all, nil
}

// tomlCut cuts a comment off a line. depth is the number of brackets that the line opens and
// does not close.
func tomlCut(s string) (value, comment string, depth int, err error) {
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote == '"' && c == '\\':
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
		case c == '"' || c == '\'':
			quote = c
			if strings.HasPrefix(s[i:], strings.Repeat(s[i:i+1], 3)) {
				return "", "", 0, errors.New("a text over several lines is not read: write it on one line")
			}
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == '#':
			return strings.TrimSpace(s[:i]), s[i:], depth, nil
		}
	}
	if quote != 0 {
		err = fmt.Errorf("a text has no %c at its end", quote)
	}
	return strings.TrimSpace(s), "", depth, err
}

var tomlEscapes = strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\n`, "\n", `\t`, "\t", `\/`, "/")

// tomlText returns a value without its quotes.
func tomlText(s string) string {
	if len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' {
		return tomlEscapes.Replace(s[1 : len(s)-1])
	}
	if len(s) > 1 && s[0] == '\'' && s[len(s)-1] == '\'' {
		return s[1 : len(s)-1]
	}
	return s
}

// tomlStrings returns the values of an array.
func tomlStrings(s string) (all []string) {
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimLeft(s, ", \t\r") {
		if s[0] != '"' && s[0] != '\'' {
			v, rest, _ := strings.Cut(s, ",")
			all, s = append(all, strings.TrimSpace(v)), rest
			continue
		}
		end := 1
		for end < len(s) && s[end] != s[0] {
			if s[0] == '"' && s[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end, len(s)-1)
		all, s = append(all, tomlText(s[:end+1])), s[end+1:]
	}
	return all
}
