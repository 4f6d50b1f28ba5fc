package protocol

import (
	"bytes"
	"slices"
	"strconv"

	"shuultuur/lib/message"
)

// varies reports whether no other request fits the response: Vary lists "*".
func varies(fields message.Fields) bool {
	for i := range fields {
		if !is(fields[i].Name, "vary") {
			continue
		}
		for v := range bytes.SplitSeq(fields[i].Value, []byte(",")) {
			if string(bytes.Trim(v, " \t")) == "*" {
				return true
			}
		}
	}
	return false
}

// Vary returns the request fields that select the response, in lower case, sorted and without
// duplicates.
func Vary(fields message.Fields) (names []string) {
	for i := range fields {
		if !is(fields[i].Name, "vary") {
			continue
		}
		for v := range bytes.SplitSeq(fields[i].Value, []byte(",")) {
			if v = bytes.Trim(v, " \t"); len(v) > 0 {
				names = append(names, string(bytes.ToLower(v)))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Variant appends to dst the values of request fields by which a response varies (RFC 9111
// section 4.1). Requests with the same variant get the same response. Values are normalised:
// lines of one name are joined, and white space around commas is ignored; so are, in languages
// and codings, case and the order of equal weights. language replaces Accept-Language unless
// it is "".
func Variant(dst []byte, names []string, q message.Fields, language string) []byte {
	for _, name := range names {
		dst = append(append(dst, name...), ':')
		switch {
		case name == "accept-language" && language != "":
			dst = append(append(dst, '='), language...)
		case name == "accept-language", name == "accept-encoding":
			if !q.Has(name) { // anything is acceptable, while an empty field accepts nothing
				dst = append(dst, 0)
			}
			for i, w := range weighted(q, name) {
				if i > 0 {
					dst = append(dst, ',')
				}
				dst = append(dst, w.name...)
				if w.weight != 1000 {
					dst = strconv.AppendInt(append(dst, ';'), int64(w.weight), 10)
				}
			}
		default:
			dst = joined(dst, q, name)
		}
		dst = append(dst, '\n')
	}
	return dst
}

// joined appends the values of all fields called name. A missing field differs from an empty
// one.
func joined(dst []byte, q message.Fields, name string) []byte {
	some := false
	for i := range q {
		if len(q[i].Name) != len(name) || !message.EqualName(q[i].Name, name) {
			continue
		}
		for v := q[i].Value; ; {
			var item []byte
			item, v = nextItem(v)
			if some {
				dst = append(dst, ',')
			}
			dst = append(dst, item...)
			some = true
			if v == nil {
				break
			}
		}
	}
	if !some {
		dst = append(dst, 0)
	}
	return dst
}

// A weight is a language or coding that a client accepts.
type weight struct {
	name   []byte
	weight int // thousandths
}

// weighted parses the fields called name as a list with weights (RFC 9110 section 12.4.2),
// greatest first, equal ones by name.
func weighted(q message.Fields, name string) (list []weight) {
	for i := range q {
		if len(q[i].Name) != len(name) || !message.EqualName(q[i].Name, name) {
			continue
		}
		for item := range bytes.SplitSeq(q[i].Value, []byte(",")) {
			v, params, _ := bytes.Cut(item, []byte(";"))
			w := weight{bytes.ToLower(bytes.Trim(v, " \t")), 1000}
			if len(w.name) == 0 {
				continue
			}
			if string(w.name) == "x-gzip" {
				w.name = []byte("gzip")
			}
			if v, ok := bytes.CutPrefix(bytes.ToLower(bytes.Trim(params, " \t")), []byte("q=")); ok {
				if f, err := strconv.ParseFloat(string(v), 64); err == nil && f >= 0 && f <= 1 {
					w.weight = int(f*1000 + 0.5)
				}
			}
			list = append(list, w)
		}
	}
	slices.SortStableFunc(list, func(a, b weight) int {
		if a.weight != b.weight {
			return b.weight - a.weight
		}
		return bytes.Compare(a.name, b.name)
	})
	return list
}

// Languages returns the languages that a client prefers, at most four: those with the greatest
// weight. A stored response in one of them is the one that the origin would select.
func Languages(q message.Fields) (best []string) {
	list := weighted(q, "accept-language")
	for _, w := range list {
		if w.weight == 0 || w.weight != list[0].weight || len(best) == 4 {
			break
		}
		if string(w.name) != "*" {
			best = append(best, string(w.name))
		}
	}
	return best
}

// Language returns the language of a response if the client prefers it, "" otherwise.
func Language(q, s message.Fields) string {
	language := string(bytes.ToLower(bytes.Trim(s.Get("Content-Language"), " \t")))
	if language != "" && slices.Contains(Languages(q), language) {
		return language
	}
	return ""
}
