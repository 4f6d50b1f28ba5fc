package markup

import (
	"bytes"
	"slices"
	"strings"
	"unicode"

	"shuultuur/content/limit"
	"shuultuur/content/prose"
	"shuultuur/lib/ascii"
)

// This file handles text that style sheets add to elements: content, list markers and quotes,
// from strings, attributes, custom properties and counters. Which of several rules applies
// depends on the surroundings of an element, and the symbol of a counter depends on previous
// elements. So the text gets the last of several values, and besides it each in turn, from
// element to element. If there are only few, each is tried with the text around it.

const (
	mostValues = 256      // values added at one place
	mostNamed  = 32 << 10 // custom properties and counter styles
	mostWithin = 8        // depth of values that refer to others
	mostAdding = 1 << 19  // steps of work for a page, besides those for each element
	eachAdding = 64       // steps for an element
)

// An addedValue is one value of content.
type addedValue struct {
	text   string
	varies bool // text is the value as written, and the result depends on the element
}

// An addedText is the text that a style sheet adds to elements.
type addedText struct {
	before, after []addedValue
	turn          int // number of elements that had it
}

// add adds the values of other to a, and reports whether there was no room for some.
func (a *addedText) add(other addedText) (full bool) {
	for _, pair := range [...]struct {
		to  *[]addedValue
		add []addedValue
	}{{&a.before, other.before}, {&a.after, other.after}} {
		for _, v := range pair.add {
			switch i := slices.Index(*pair.to, v); {
			case i >= 0: // the last one applies
				*pair.to = append(slices.Delete(*pair.to, i, i+1), v)
			case len(*pair.to) == mostValues:
				full = true
			default:
				*pair.to = append(*pair.to, v)
			}
		}
	}
	return full
}

// declarations are the relevant declarations of one rule.
type declarations struct {
	effect
	content []addedValue // for ::before and ::after
	own     addedText    // to the element itself
}

// cssToken splits the first string, function or name from a value.
func cssToken(v []byte) (token, rest []byte) {
	v = bytes.TrimLeft(v, " \t\r\n\f,")
	deep := 0
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"' || c == '\'':
			end := bytes.IndexByte(v[i+1:], c)
			if end < 0 {
				return v, nil
			}
			i += end + 1
			if deep == 0 {
				return v[:i+1], v[i+1:]
			}
		case c == '(':
			deep++
		case c == ')':
			if deep--; deep <= 0 {
				return v[:i+1], v[i+1:]
			}
		case deep == 0 && i > 0 && (ascii.IsSpace(c) || c == ','):
			return v[:i], v[i:]
		case deep == 0 && c == '/':
			return v[:max(i, 1)], v[max(i, 1):]
		}
		if deep == 0 && i+1 < len(v) && (v[i+1] == '"' || v[i+1] == '\'') {
			return v[:i+1], v[i+1:]
		}
	}
	return v, nil
}

// unquoted returns the text of a string or name.
func unquoted(token []byte) []byte {
	if len(token) == 0 || token[0] != '"' && token[0] != '\'' {
		return token
	}
	return bytes.TrimSuffix(token[1:], token[:1])
}

// plainValue returns normalised text. It returns "" if the text has no letters, as in icon
// fonts, or is too long to be part of a word.
func plainValue(text []byte) string {
	if !bytes.ContainsFunc(text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
		return ""
	}
	text = prose.Normalise(nil, text)
	if len(bytes.TrimSpace(text)) == 0 || len(text) > prose.LongestWord {
		return ""
	}
	return string(text)
}

// valueOf parses a value of content; ok is false if it adds no text.
func valueOf(v []byte) (value addedValue, ok bool) {
	if bytes.IndexByte(v, '(') >= 0 {
		functions := bytes.ToLower(v)
		for _, f := range [...]string{"attr(", "var(", "counter", "--", "if("} {
			if bytes.Contains(functions, []byte(f)) {
				return addedValue{text: string(v), varies: true}, len(v) <= 4*prose.LongestWord
			}
		}
	}
	var all []byte
	for rest := v; ; {
		var token []byte
		if token, rest = cssToken(rest); len(token) == 0 || token[0] == '/' { // the alternative text follows, which is only read aloud
			break
		}
		if token[0] == '"' || token[0] == '\'' {
			all = append(all, unquoted(token)...)
		}
	}
	value.text = plainValue(all)
	return value, value.text != ""
}

// counterOf returns the counter of a list style in the syntax of content, "" for styles that
// show no words.
func counterOf(v []byte) string {
	for {
		var token []byte
		if token, v = cssToken(v); len(token) == 0 {
			return ""
		}
		switch string(bytes.ToLower(token)) {
		case "none", "disc", "circle", "square", "decimal", "inside", "outside", "inherit", "initial", "unset", "!important", "!", "important":
		default:
			if token[0] == '\'' || token[0] == '"' || bytes.IndexByte(token, '(') >= 0 {
				continue
			}
			return "counter(x," + string(token) + ")"
		}
	}
}

// A shownValue is the value of an attribute that a style sheet shows.
type shownValue struct {
	index int // in quotes.attrs
	text  string
}

// An adder finds the texts of values that depend on the element.
type adder struct {
	named  map[string][]addedValue // as in styles
	attrs  []string                // that style sheets show
	values []shownValue            // of the element's attributes
	work   *limit.Work             // of the body
	steps  int                     // of work so far
	lost   bool                    // there were too many
}

// element begins with another element.
func (a *adder) element(named map[string][]addedValue, attrs []string, values []shownValue, work *limit.Work) {
	a.named, a.attrs, a.values, a.work = named, attrs, values, work
	a.steps -= min(a.steps, eachAdding)
}

// call appends the texts of a custom function: those of its results, in which its parameters
// are custom properties.
func (a *adder) call(to []string, name string, arguments []byte, deep int) []string {
	for _, v := range a.named["("+name] {
		parameters, result, _ := strings.Cut(v.text, "{")
		had, rest := map[string][]addedValue{}, arguments
		for len(parameters) > 0 {
			var parameter string
			parameter, parameters, _ = strings.Cut(parameters, ",")
			parameter, byDefault, _ := strings.Cut(parameter, ":")
			fields := strings.Fields(parameter) // a type may follow
			if len(fields) == 0 || len(had) == mostWithin {
				break
			}
			var argument []byte
			if argument, rest, _ = bytes.Cut(rest, []byte{','}); len(bytes.TrimSpace(argument)) == 0 {
				argument = []byte(byDefault)
			}
			had[fields[0]] = a.named[fields[0]]
			a.named[fields[0]] = []addedValue{{text: strings.Join(a.textsOf(nil, argument, deep), "")}}
		}
		to = a.textsOf(to, []byte(result), deep)
		for name, v := range had {
			if a.named[name] = v; v == nil {
				delete(a.named, name)
			}
		}
	}
	return to
}

// mayAdd counts steps of work for values, and reports whether the page is within its limit.
func (a *adder) mayAdd(steps int) bool {
	a.steps += steps
	a.lost = a.lost || a.steps > mostAdding
	return a.steps <= mostAdding && !a.work.Spend(steps)
}

// textsOf appends the texts of a value that depends on the element: one for each symbol of its
// counters.
func (a *adder) textsOf(to []string, v []byte, deep int) []string {
	all := []string{""}
	for {
		var token []byte
		if token, v = cssToken(v); len(token) == 0 || token[0] == '/' {
			return append(to, all...)
		}
		var parts []string
		name, arguments, isFunction := bytes.Cut(token, []byte{'('})
		switch name = bytes.ToLower(name); {
		case token[0] == '"' || token[0] == '\'':
			parts = []string{string(unquoted(token))}
		case isFunction && deep < mostWithin:
			parts = a.cssFunction(string(name), bytes.TrimSuffix(arguments, []byte{')'}), deep+1)
		case isFunction:
			a.lost = true
		}
		if !a.mayAdd(8 * (1 + len(all)*len(parts))) {
			return to
		}
		if len(parts) == 0 || len(all)*len(parts) > mostValues {
			a.lost = a.lost || len(parts) > 0
			continue
		}
		var longer []string
		for _, part := range parts {
			for _, begun := range all {
				if len(begun)+len(part) <= 4*prose.LongestWord {
					longer = append(longer, begun+part)
				}
			}
		}
		all = longer
	}
}

// cssFunction returns the texts of a function.
func (a *adder) cssFunction(name string, arguments []byte, deep int) (parts []string) {
	first, rest, more := bytes.Cut(arguments, []byte{','})
	first = bytes.TrimSpace(first)
	switch name {
	case "attr":
		first, _ = cssToken(first) // a type may follow
		for _, v := range a.values {
			if ascii.EqualLower(first, a.attrs[v.index-1]) {
				return []string{v.text}
			}
		}
	case "var":
		for _, v := range a.named[string(first)] {
			if v.varies {
				parts = a.textsOf(parts, []byte(v.text), deep)
			} else {
				parts = append(parts, v.text)
			}
		}
		if len(parts) > 0 {
			return parts
		}
	default:
		if strings.HasPrefix(name, "--") {
			return a.call(nil, name, arguments, deep)
		}
	case "if": // which condition holds is not known
		for rest := arguments; len(rest) > 0; {
			var branch []byte
			branch, rest, _ = bytes.Cut(rest, []byte{';'})
			if k := bytes.LastIndexByte(branch, ':'); k >= 0 {
				parts = a.textsOf(parts, branch[k+1:], deep)
			}
		}
		return parts
	case "counter", "counters":
		if k := bytes.LastIndexByte(arguments, ','); k >= 0 {
			for _, v := range a.named["@"+string(bytes.TrimSpace(arguments[k+1:]))] {
				parts = append(parts, v.text)
			}
		}
		return parts
	}
	if more {
		parts = a.textsOf(nil, rest, deep)
	}
	return parts
}

// An effect is the effect of style on an element.
type effect uint8

const (
	hides    effect = 1 << iota // it shows nothing, or only elsewhere
	mayHide                     // a class, an id or a style may hide it
	flows                       // it is a block that begins no line
	turns                       // its text is shown backwards
	rightTo                     // its boxes are laid out from right to left
	addsText                    // text is added before or after its content
	lays                        // blocks in it begin no lines
)
