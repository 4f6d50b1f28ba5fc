package importer

import (
	"fmt"
	"strings"
)

// A tomlValue is a setting of a TOML file, in the part of TOML that Pi-hole writes.
type tomlValue struct {
	path    string // with dots
	text    string // as it is written, without quotes and comments
	list    []string
	isList  bool
	changed bool // Pi-hole marks the value as changed from its default
	line    int
}

// readTOML reads tables and keys with values on one line or arrays over several. It returns a
// syntax error with its line.
func readTOML(data []byte) (all []tomlValue, err error) {
	table := ""
	lines := strings.Split(string(data), "\n")
	for i := 0; i < len(lines); i++ {
		n := i + 1
		s := strings.TrimSpace(lines[i])
		if s == "" || s[0] == '#' {
			continue
		}
		if s[0] == '[' {
			name, _, ok := strings.Cut(strings.TrimLeft(s, "["), "]")
			if !ok {
				return nil, fmt.Errorf("line %d: %q is not the name of a table", n, s)
			}
			table = strings.TrimSpace(name)
			continue
		}
		key, rest, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("line %d: %q is neither a table nor a key with a value", n, s)
		}
		v := tomlValue{path: strings.Trim(strings.TrimPrefix(table+"."+strings.TrimSpace(key), "."), `"`), line: n}
		value, comment := tomlCut(rest)
		v.changed = strings.Contains(comment, "CHANGED")
		if strings.HasPrefix(value, "[") {
			v.isList = true
			for !strings.HasSuffix(value, "]") {
				if i++; i >= len(lines) || i-n > 100_000 {
					return nil, fmt.Errorf("line %d: the array of %s is not closed", n, v.path)
				}
				more, comment := tomlCut(lines[i])
				v.changed = v.changed || strings.Contains(comment, "CHANGED")
				value += " " + more
			}
			v.list = tomlStrings(value[1 : len(value)-1])
			v.text = strings.Join(v.list, " ")
		} else {
			v.text = tomlText(value)
		}
		all = append(all, v)
	}
	return all, nil
}

// tomlCut cuts a comment off. It does not look for comments inside strings.
func tomlCut(s string) (value, comment string) {
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
		case c == '#':
			return strings.TrimSpace(s[:i]), s[i:]
		}
	}
	return strings.TrimSpace(s), ""
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
