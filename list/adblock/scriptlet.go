package adblock

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Scriptlets are short scripts of our own that run in a page before the page's scripts. Lists
// name them and give them texts as arguments, never code.

//go:embed scriptlets.js
var scriptletSource string

// A scriptlet is one of the available scripts.
type scriptlet struct {
	names       []string // the first is its main name
	least, most int      // number of arguments
	text        string   // source of a function
}

var scriptletHelpers, scriptlets = readScriptlets(scriptletSource)

// readScriptlets parses the file of scriptlets: shared functions, then each scriptlet after a
// line "//! names… least most".
func readScriptlets(source string) (helpers string, all []scriptlet) {
	parts := strings.Split(source, "\n//! ")
	for _, part := range parts[1:] {
		head, text, _ := strings.Cut(part, "\n")
		words := strings.Fields(head)
		s := scriptlet{names: words[:len(words)-2], text: strings.TrimSpace(text)}
		s.least, _ = strconv.Atoi(words[len(words)-2])
		s.most, _ = strconv.Atoi(words[len(words)-1])
		all = append(all, s)
	}
	return withoutComments(parts[0]), all
}

// withoutComments removes comment lines, which pages need not contain.
func withoutComments(source string) string {
	var b strings.Builder
	for line := range strings.Lines(source) {
		if !strings.HasPrefix(line, "///") && line != "\n" {
			b.WriteString(line)
		}
	}
	return b.String()
}

// findScriptlet returns the index of the scriptlet called name, -1 if there is none.
func findScriptlet(name string) int {
	name = strings.TrimSuffix(name, ".js")
	return slices.IndexFunc(scriptlets, func(s scriptlet) bool { return slices.Contains(s.names, name) })
}

// checkScriptlet returns why the call s cannot be used, "" when it can.
func checkScriptlet(s []byte) (reason string) {
	words := scriptletWords(string(s))
	i := findScriptlet(words[0])
	switch {
	case i < 0:
		return fmt.Sprintf("the unknown scriptlet %.40q", words[0])
	case len(words)-1 < scriptlets[i].least:
		return fmt.Sprintf("the scriptlet %.40q without its arguments", words[0])
	}
	return ""
}

// scriptletWords splits "name, argument, …" at commas. A comma after a backslash, or in quotes
// around the whole argument, belongs to the argument.
func scriptletWords(s string) (words []string) {
	for more := true; more; {
		s = strings.TrimLeft(s, " ")
		word, rest, quoted := cutQuoted(s)
		if quoted {
			s, more = strings.CutPrefix(rest, ",")
		} else {
			word, s, more = cutComma(s)
		}
		words = append(words, word)
	}
	return words
}

// cutQuoted cuts off a quoted argument, if the quotes enclose all of it.
func cutQuoted(s string) (word, rest string, ok bool) {
	if s == "" || strings.IndexByte("\"'`", s[0]) < 0 {
		return "", s, false
	}
	end := strings.IndexByte(s[1:], s[0])
	if end < 0 {
		return "", s, false
	}
	rest = strings.TrimLeft(s[end+2:], " ")
	return s[1 : end+1], rest, rest == "" || rest[0] == ','
}

func cutComma(s string) (word, rest string, more bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && s[i+1] == ',':
			i++
			b.WriteByte(',')
		case s[i] == ',':
			return strings.TrimSpace(b.String()), s[i+1:], true
		default:
			b.WriteByte(s[i])
		}
	}
	return strings.TrimSpace(b.String()), "", false
}

// AppendScript appends to dst the script that runs scriptlets, given as written in their
// rules. It never contains the end of a script element.
func AppendScript(dst []byte, calls []string) []byte {
	dst = append(dst, "(()=>{\"use strict\";\n"...)
	dst = append(dst, scriptletHelpers...)
	var defined []int
	for _, call := range calls {
		words := scriptletWords(call)
		i := findScriptlet(words[0])
		if i < 0 {
			continue
		}
		if !slices.Contains(defined, i) {
			defined = append(defined, i)
			dst = fmt.Appendf(dst, "const s%d = %s;\n", i, scriptlets[i].text)
		}
		arguments := words[1:]
		arguments = arguments[:min(len(arguments), scriptlets[i].most)]
		for len(arguments) < scriptlets[i].most {
			arguments = append(arguments, "")
		}
		text, _ := json.Marshal(arguments) // strings, with "<" escaped
		dst = fmt.Appendf(dst, "try { s%d(...%s); } catch {}\n", i, text)
	}
	return append(dst, "})();"...)
}
