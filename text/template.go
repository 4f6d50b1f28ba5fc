package text

import (
	"html"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// Pages are templates (html/template) written in English. The visible text from
// one tag or control action to the next is a key of the text files. So no template
// contains keys, and a page without a translation is an English page. Inside a
// key, actions are {1}, {2} … in order, and inline tags keep only their name:
//
//	{1} people since {2}. See the <a>settings</a>.
//
// A translation may reorder them.

// inline are the tags that may be part of a line of text.
var inline = []string{"a", "b", "bdi", "code", "em", "i", "kbd", "strong"}

// shown are the attributes with visible text.
var shown = []string{"alt", "aria-label", "label", "placeholder", "title"}

// A part is a piece of a template.
type part struct {
	kind partKind
	raw  string
	name string // of a tag, in lower case
}

type partKind uint8

const (
	words   partKind = iota // text
	value                   // an action that writes something
	opening                 // an inline tag
	closing
	other // anything else: it ends a run of text
)

// A Page is a page in every language. Each language is built on first use.
type Page[T any] struct {
	source     func() string
	make       func(t *Texts, source string) T
	mu         sync.Mutex
	translated map[*Texts]T // guarded by mu
}

// NewPage returns the page with the template that source returns. build converts the source
// into the executed form when somebody asks for it: most gateways show few of
// their pages, and the templates of all take 10 MB.
func NewPage[T any](source func() string, build func(t *Texts, source string) T) *Page[T] {
	return &Page[T]{source: source, make: build, translated: map[*Texts]T{}}
}

// In returns the page in the language of t, or in English for nil.
func (p *Page[T]) In(t *Texts) T {
	p.mu.Lock()
	defer p.mu.Unlock()
	done, ok := p.translated[t]
	if !ok {
		if len(p.translated) > maxCached {
			clear(p.translated)
		}
		done = p.make(t, t.Template(p.source()))
		p.translated[t] = done
	}
	return done
}

// maxCached bounds the cached translations of a page. A reload brings new Texts.
const maxCached = 32

// Template returns the template source with the visible text translated by t,
// and the attributes lang and dir of <html> set.
func (t *Texts) Template(source string) string {
	if t == nil {
		return source
	}
	return translate(source, func(key string) string { return t.isolatePlaces(t.of[key]) }, ` lang="`+t.Lang+`" dir="`+t.Dir+`"`)
}

// translate translates source run by run. say returns the text of a key, or "".
// lang replaces the attributes of <html>.
func translate(source string, say func(string) string, lang string) string {
	var b strings.Builder
	var run []part
	end := func() {
		writeRun(&b, run, say)
		run = run[:0]
	}
	for len(source) > 0 {
		p, rest := next(source)
		source = rest
		if p.kind != other {
			if p.kind == opening {
				p.raw = attributes(p.raw, say)
			}
			run = append(run, p)
			continue
		}
		end()
		switch {
		case p.name == "html" && lang != "" && p.raw[1] != '/':
			b.WriteString("<html" + lang + ">")
		case strings.HasPrefix(p.raw, "<") && !strings.HasPrefix(p.raw, "<!"):
			b.WriteString(attributes(p.raw, say))
		default:
			b.WriteString(p.raw)
		}
		if isCode(p) {
			n := strings.Index(source, "</"+p.name)
			if n < 0 {
				n = len(source)
			}
			b.WriteString(source[:n])
			source = source[n:]
		}
	}
	end()
	return b.String()
}

// isCode reports whether p begins an element whose text is not for people.
func isCode(p part) bool {
	if strings.HasPrefix(p.raw, "</") {
		return false
	}
	switch p.name {
	case "script", "style", "textarea", "pre":
		return true
	case "option":
		return !strings.Contains(p.raw, "value=") // otherwise the browser submits the text
	}
	return false
}

// next splits the first part off a template.
func next(source string) (part, string) {
	switch {
	case strings.HasPrefix(source, "{{"):
		n := strings.Index(source, "}}")
		if n < 0 {
			return part{other, source, ""}, ""
		}
		p := part{kind: value, raw: source[:n+2]}
		inside := strings.TrimSpace(strings.Trim(p.raw, "{}-"))
		word, _, _ := strings.Cut(inside, " ")
		if slices.Contains([]string{"if", "else", "end", "range", "with", "template", "define", "block", "break", "continue"}, word) ||
			strings.HasPrefix(inside, "/*") || strings.HasPrefix(inside, "$") && strings.Contains(inside, "=") {
			p.kind = other
		}
		return p, source[n+2:]
	case strings.HasPrefix(source, "<!--"):
		n := strings.Index(source, "-->")
		if n < 0 {
			return part{other, source, ""}, ""
		}
		return part{other, source[:n+3], ""}, source[n+3:]
	case strings.HasPrefix(source, "<"):
		n := tagEnd(source)
		p := part{kind: other, raw: source[:n]}
		name := strings.TrimPrefix(p.raw[1:], "/")
		if i := strings.IndexAny(name, " \n\t/>"); i >= 0 {
			name = name[:i]
		}
		p.name = strings.ToLower(name)
		if slices.Contains(inline, p.name) && !strings.Contains(p.raw, "{{if") && !strings.Contains(p.raw, "{{with") {
			p.kind = opening
			if p.raw[1] == '/' {
				p.kind = closing
			}
		}
		return p, source[n:]
	case strings.HasPrefix(source, "·"):
		return part{other, "·", ""}, source[len("·"):]
	}
	n := len(source)
	for _, stop := range []string{"{{", "<", "·"} {
		if i := strings.Index(source, stop); i >= 0 {
			n = min(n, i)
		}
	}
	return part{words, source[:n], ""}, source[n:]
}

// tagEnd returns the end of the tag at the beginning of source. A ">" in quotes
// or in an action does not end it.
func tagEnd(source string) int {
	quote := byte(0)
	for i := 0; i < len(source); i++ {
		switch c := source[i]; {
		case strings.HasPrefix(source[i:], "{{"):
			n := strings.Index(source[i:], "}}")
			if n < 0 {
				return len(source)
			}
			i += n + 1
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"':
			quote = c
		case c == '>':
			return i + 1
		}
	}
	return len(source)
}

// attributes translates the visible attributes of a tag.
func attributes(tag string, say func(string) string) string {
	for _, name := range shown {
		at := strings.Index(tag, " "+name+`="`)
		if at < 0 {
			continue
		}
		from := at + len(name) + 3
		to := from
		for to < len(tag) && tag[to] != '"' {
			if strings.HasPrefix(tag[to:], "{{") {
				n := strings.Index(tag[to:], "}}")
				if n < 0 {
					return tag
				}
				to += n + 2
				continue
			}
			to++
		}
		var b strings.Builder
		var run []part
		for rest := tag[from:to]; rest != ""; {
			var p part
			p, rest = next(rest)
			if p.kind == words || p.kind == value {
				run = append(run, p)
				continue
			}
			writeRun(&b, run, say)
			run = nil
			b.WriteString(p.raw)
		}
		writeRun(&b, run, say)
		tag = tag[:from] + b.String() + tag[to:]
	}
	return tag
}

// writeRun writes a run of text, values and inline tags, translated.
func writeRun(b *strings.Builder, run []part, say func(string) string) {
	if n := slices.IndexFunc(run, isTag); n >= 0 && (!balanced(run) || !readable(outside(run))) {
		writeRun(b, run[:n], say)
		b.WriteString(run[n].raw)
		writeRun(b, run[n+1:], say)
		return
	}
	key, values, tags := keyOf(run)
	text := strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(key), ",;:.)–”“ \n"))
	written := ""
	if readable(text) {
		written = say(strings.Join(strings.Fields(text), " "))
	}
	if written == "" || strings.Contains(written, "{{") {
		for _, p := range run {
			b.WriteString(p.raw)
		}
		return
	}
	before, after, _ := strings.Cut(key, text)
	b.WriteString(fill(before+written+after, values, tags))
}

func isTag(p part) bool { return p.kind == opening || p.kind == closing }

// balanced reports whether the run has the end of each of its tags.
func balanced(run []part) bool {
	var open []string
	for _, p := range run {
		switch p.kind {
		case opening:
			open = append(open, p.name)
		case closing:
			if len(open) == 0 || open[len(open)-1] != p.name {
				return false
			}
			open = open[:len(open)-1]
		}
	}
	return len(open) == 0
}

// outside returns the text of a run outside its tags.
func outside(run []part) (text string) {
	depth := 0
	for _, p := range run {
		switch {
		case p.kind == opening:
			depth++
		case p.kind == closing:
			depth--
		case depth == 0 && p.kind == words:
			text += p.raw
		}
	}
	return text
}

// keyOf returns a run as a key, with numbers for values and bare tags. It also
// returns the values, and the full tags by name.
func keyOf(run []part) (key string, values []string, tags map[string][]string) {
	tags = map[string][]string{}
	for _, p := range run {
		switch p.kind {
		case value:
			values = append(values, p.raw)
			key += "{" + strconv.Itoa(len(values)) + "}"
		case opening:
			tags[p.name] = append(tags[p.name], p.raw)
			key += "<" + p.name + ">"
		default:
			key += p.raw
		}
	}
	return key, values, tags
}

// fill inserts values and the attributes of tags.
func fill(text string, values []string, tags map[string][]string) string {
	for i, v := range values {
		text = strings.ReplaceAll(text, "{"+strconv.Itoa(i+1)+"}", v)
	}
	for name, all := range tags {
		rest := text
		text = ""
		for _, tag := range all {
			before, after, ok := strings.Cut(rest, "<"+name+">")
			if !ok {
				break
			}
			text += before + tag
			rest = after
		}
		text += rest
	}
	return text
}

// readable reports whether a key has a word to translate: a word with a lower-case
// letter outside tags, values and code that is not an address. Names such as PDF
// and API are the same in all languages.
func readable(key string) bool {
	for _, name := range []string{"code", "kbd"} {
		for {
			before, rest, ok := strings.Cut(key, "<"+name+">")
			if !ok {
				break
			}
			_, after, _ := strings.Cut(rest, "</"+name+">")
			key = before + after
		}
	}
	for _, tag := range inline {
		key = strings.NewReplacer("<"+tag+">", "", "</"+tag+">", "").Replace(key)
	}
	for word := range strings.FieldsSeq(html.UnescapeString(key)) {
		word = strings.TrimRight(word, ".:")
		if strings.ContainsFunc(word, unicode.IsLower) && !strings.ContainsAny(word, ".:/@") {
			return true
		}
	}
	return false
}
