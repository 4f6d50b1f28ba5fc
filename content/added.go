package content

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
)

// This file handles text that style sheets add to elements: content, list markers and quotes,
// from strings, attributes, custom properties and counters. Which of several rules applies
// depends on the surroundings of an element, and the symbol of a counter depends on previous
// elements. So the text gets the last of several values, and besides it each in turn, from
// element to element. If there are only few, each is tried with the text around it.

const (
	mostValues = 64      // values added at one place
	mostTried  = 4       // number of values up to which each is tried
	mostNamed  = 4 << 10 // custom properties and counter styles
	mostWithin = 8       // depth of values that refer to others
	mostAdding = 1 << 19 // steps of work for a page
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

// adds reads a declaration that may add text.
func (s *styles) adds(d *declarations, name, value []byte) {
	switch {
	case equalLower(name, "content"):
		if v, ok := valueOf(value); ok { // other values may have no effect
			d.content = append(d.content, v)
			d.effect |= addsText
		}
	case equalLower(name, "list-style"), equalLower(name, "list-style-type"):
		v, ok := valueOf(value)
		if !ok {
			if v.text = counterOf(value); v.text == "" {
				return
			}
			v.varies = true
		}
		d.own.before = append(d.own.before, v)
		d.effect |= addsText
	case equalLower(name, "quotes"):
		open, rest := cssToken(value)
		shut, _ := cssToken(rest)
		for _, q := range [...]struct {
			to *[]addedValue
			v  []byte
		}{{&d.own.before, open}, {&d.own.after, shut}} {
			if v, ok := valueOf(q.v); ok {
				*q.to = append(*q.to, v)
				d.effect |= addsText
			}
		}
	case bytes.HasPrefix(name, []byte("--")):
		if v, ok := valueOf(value); ok {
			s.name(string(name), v)
		}
	}
}

// name stores a value that others may refer to.
func (s *styles) name(name string, v addedValue) {
	if s.named == nil {
		s.named = make(map[string][]addedValue)
	}
	had, ok := s.named[name]
	switch i := slices.Index(had, v); {
	case i >= 0:
		had = slices.Delete(had, i, i+1)
	case !ok && len(s.named) == mostNamed || len(had) == mostValues:
		s.lost = true
		return
	}
	s.named[name] = append(had, v)
}

// counterStyle reads the rule of a counter style: each of its symbols, with prefix and suffix.
func (s *styles) counterStyle(name, p []byte) {
	var symbols [][]byte
	var prefix, suffix []byte
	for one := range bytes.SplitSeq(p, []byte{';'}) {
		property, value, _ := bytes.Cut(one, []byte{':'})
		switch property = bytes.ToLower(bytes.TrimSpace(property)); string(property) {
		case "prefix":
			prefix, _ = cssToken(value)
		case "suffix":
			suffix, _ = cssToken(value)
		case "symbols", "additive-symbols":
			for {
				var token []byte
				if token, value = cssToken(value); len(token) == 0 {
					break
				}
				if token[0] < '0' || token[0] > '9' { // otherwise it is a weight
					symbols = append(symbols, token)
				}
			}
		}
	}
	for _, symbol := range symbols[:min(len(symbols), mostValues)] {
		if text := plainValue(slices.Concat(unquoted(prefix), unquoted(symbol), unquoted(suffix))); text != "" {
			s.name("@"+string(name), addedValue{text: text})
		}
	}
	s.lost = s.lost || len(symbols) > mostValues
}

// definition reads a rule that defines a counter style, a custom property or a custom function,
// and reports whether it was one. head is what stands before its last brace.
func (s *styles) definition(head, p []byte) bool {
	at := bytes.LastIndexByte(head, '@')
	if k := bytes.LastIndex(head, []byte("@function ")); k >= 0 { // conditions may be in it
		at = k
	}
	kind, name, _ := bytes.Cut(head[at+1:], []byte{' '})
	switch name = bytes.TrimSpace(name); string(bytes.ToLower(kind)) {
	case "counter-style":
		s.counterStyle(name, p)
	case "property":
		s.property(name, p)
	case "function":
		s.function(name, p)
	default:
		return false
	}
	return true
}

// property reads the rule of a custom property.
func (s *styles) property(name, p []byte) {
	for one := range bytes.SplitSeq(p, []byte{';'}) {
		property, value, _ := bytes.Cut(one, []byte{':'})
		if equalLower(bytes.TrimSpace(property), "initial-value") {
			s.adds(&declarations{}, name, bytes.TrimSpace(value))
		}
	}
}

// function reads the rule of a custom function: its parameters and results, and the custom
// properties in it, which are taken for the page's.
func (s *styles) function(head, p []byte) {
	head, _, _ = bytes.Cut(head, []byte{'{'})
	name, parameters, _ := bytes.Cut(head, []byte{'('})
	parameters = parameters[:max(0, bytes.LastIndexByte(parameters, ')'))]
	for one := range bytes.SplitSeq(p, []byte{';'}) {
		property, value, _ := bytes.Cut(one, []byte{':'})
		switch property = bytes.TrimSpace(property); {
		case !equalLower(property, "result"):
			s.adds(&declarations{}, property, bytes.TrimSpace(value))
		case len(value) <= 4*longestWord:
			s.name("("+string(bytes.ToLower(bytes.TrimSpace(name))), addedValue{text: string(parameters) + "{" + string(value)})
		}
	}
}

// call appends the texts of a custom function: those of its results, in which its parameters
// are custom properties.
func call(x *page, to []string, name string, arguments []byte, deep int) []string {
	for _, v := range x.sheets.named["("+name] {
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
			had[fields[0]] = x.sheets.named[fields[0]]
			x.sheets.named[fields[0]] = []addedValue{{text: strings.Join(textsOf(x, nil, argument, deep), "")}}
		}
		to = textsOf(x, to, []byte(result), deep)
		for name, v := range had {
			if x.sheets.named[name] = v; v == nil {
				delete(x.sheets.named, name)
			}
		}
	}
	return to
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
		case deep == 0 && i > 0 && (isSpace(c) || c == ','):
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
	text = Normalise(nil, text)
	if len(bytes.TrimSpace(text)) == 0 || len(text) > longestWord {
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
				return addedValue{text: string(v), varies: true}, len(v) <= 4*longestWord
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

// isShownBySheet records whether a style sheet shows the current attribute, and returns its
// kind in that case.
func isShownBySheet(x *page, k attrKind, name []byte) attrKind {
	x.showing = 0
	for i, shown := range x.css.attrs {
		if !equalLower(name, shown) {
			continue
		}
		if x.showing = i + 1; k == attrNone {
			return attrMore
		}
	}
	return k
}

// keepShown keeps the attribute value just added to aside, if a style sheet may show it.
func keepShown(x *page) {
	if x.showing == 0 {
		return
	}
	if x.valueAt < len(x.aside.b) {
		if text := bytes.TrimSpace(x.aside.b[x.valueAt:]); len(text) > 0 && len(text) <= longestWord {
			x.values = append(x.values, shownValue{x.showing, string(text)})
		}
	}
	x.showing = 0
}

// addNamed records that the current element gets the added text with this number.
func addNamed(x *page, added uint16) {
	if added == 0 || slices.Contains(x.added[:x.nAdded], added) {
		return
	}
	if x.nAdded == len(x.added) {
		x.lost = true
		return
	}
	x.added[x.nAdded] = added
	x.nAdded++
}

// shownBy returns the texts that style sheets add before the current element, and the turn
// among them. It stores the texts added after it in s.
func shownBy(x *page, s *styledElement) (before []string, turn int) {
	for _, i := range x.added[:x.nAdded] {
		a := &x.sheets.added[i-1]
		before = evaluate(x, before, a.before)
		s.after = evaluate(x, s.after, a.after)
		turn = max(turn, a.turn)
		a.turn++
	}
	if x.own != nil {
		before = evaluate(x, before, x.own.own.before)
		s.after = evaluate(x, s.after, x.own.own.after)
	}
	if len(x.literal) > 0 {
		before = append(before, string(x.literal))
	}
	s.turn = turn
	return before, turn
}

// evaluate appends the texts of values for the current element.
func evaluate(x *page, to []string, values []addedValue) []string {
	if !mayAdd(x, len(values)) {
		return to
	}
	for _, v := range values {
		if !v.varies {
			to = append(to, v.text)
			continue
		}
		for _, text := range textsOf(x, nil, []byte(v.text), 0) {
			text := plainValue([]byte(text))
			if text == "" {
				continue
			}
			to = append(to, text)
			if !slices.ContainsFunc(x.values, func(v shownValue) bool { return v.text == text }) {
				x.aside.blank()
				x.aside.b = append(x.aside.b, bytes.TrimLeft([]byte(text), " ")...)
				x.aside.blank()
				x.spill()
			}
		}
	}
	if len(to) > mostValues {
		x.lost = true
		to = to[:mostValues]
	}
	return to
}

// mayAdd counts steps of work for values, and reports whether the page is within its limit.
func mayAdd(x *page, steps int) bool {
	x.adding += steps
	x.lost = x.lost || x.adding > mostAdding
	return x.adding <= mostAdding
}

// textsOf appends the texts of a value that depends on the element: one for each symbol of its
// counters.
func textsOf(x *page, to []string, v []byte, deep int) []string {
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
			parts = cssFunction(x, string(name), bytes.TrimSuffix(arguments, []byte{')'}), deep+1)
		case isFunction:
			x.lost = true
		}
		if !mayAdd(x, 8*(1+len(all)*len(parts))) {
			return to
		}
		if len(parts) == 0 || len(all)*len(parts) > mostValues {
			x.lost = x.lost || len(parts) > 0
			continue
		}
		var longer []string
		for _, part := range parts {
			for _, begun := range all {
				if len(begun)+len(part) <= 4*longestWord {
					longer = append(longer, begun+part)
				}
			}
		}
		all = longer
	}
}

// cssFunction returns the texts of a function.
func cssFunction(x *page, name string, arguments []byte, deep int) (parts []string) {
	first, rest, more := bytes.Cut(arguments, []byte{','})
	first = bytes.TrimSpace(first)
	switch name {
	case "attr":
		first, _ = cssToken(first) // a type may follow
		for _, v := range x.values {
			if equalLower(first, x.css.attrs[v.index-1]) {
				return []string{v.text}
			}
		}
	case "var":
		for _, v := range x.sheets.named[string(first)] {
			if v.varies {
				parts = textsOf(x, parts, []byte(v.text), deep)
			} else {
				parts = append(parts, v.text)
			}
		}
		if len(parts) > 0 {
			return parts
		}
	default:
		if strings.HasPrefix(name, "--") {
			return call(x, nil, name, arguments, deep)
		}
	case "if": // which condition holds is not known
		for rest := arguments; len(rest) > 0; {
			var branch []byte
			branch, rest, _ = bytes.Cut(rest, []byte{';'})
			if k := bytes.LastIndexByte(branch, ':'); k >= 0 {
				parts = textsOf(x, parts, branch[k+1:], deep)
			}
		}
		return parts
	case "counter", "counters":
		if k := bytes.LastIndexByte(arguments, ','); k >= 0 {
			for _, v := range x.sheets.named["@"+string(bytes.TrimSpace(arguments[k+1:]))] {
				parts = append(parts, v.text)
			}
		}
		return parts
	}
	if more {
		parts = textsOf(x, nil, rest, deep)
	}
	return parts
}

// goOnWith continues a word, in both of its readings, with the texts that a style sheet adds,
// and then with the text that follows. The added texts appear in any case. The first reading
// gets the last of them, the second the one whose turn it is.
func (f *flow) goOnWith(w [2]otherReading, added []string, turn int) {
	if len(added) == 0 {
		f.goOn(0, w[0])
		return
	}
	last := added[len(added)-1]
	begun := w[0].n
	w[0].add([]byte(last))
	w[0].say = true
	f.goOn(0, w[0])
	if len(added) == 1 {
		return
	}
	w[1].add([]byte(added[turn%len(added)]))
	w[1].say = true
	f.goOn(1, w[1])
	if len(added) <= mostTried && f.further[0].n >= begun {
		f.others, f.otherAt, f.otherEnd = added[:len(added)-1], begun, f.further[0].n
	}
}

// sayOthers writes a word once with each of the other texts that may be in it; begin is its
// beginning.
func sayOthers(f *flow, out, begin, rest []byte) []byte {
	others := f.others
	f.others = nil
	if f.otherEnd > len(begin) {
		return out
	}
	for _, other := range others {
		word := slices.Concat(begin[:f.otherAt], []byte(other), begin[f.otherEnd:])
		out = f.sayWord(out, bytes.TrimLeft(word, " "), rest)
	}
	return out
}
