package redis

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// A Reply is a value from a server whose form a [scanner] has verified. The zero value is
// null.
type Reply struct{ b []byte }

// head returns the text of the first line, without the type, and the end of the line.
func (r Reply) head() (text []byte, end int) {
	for i, c := range r.b {
		if c == '\n' {
			return r.b[1 : i-1], i + 1
		}
	}
	return nil, 0
}

// Null reports whether the value is null.
func (r Reply) Null() bool {
	return len(r.b) < 3 || r.b[0] == '_' || (r.b[0] == '$' || r.b[0] == '*') && r.b[1] == '-'
}

// Err returns the [Error] of a refused command, or nil.
func (r Reply) Err() error {
	if len(r.b) == 0 || r.b[0] != '-' && r.b[0] != '!' {
		return nil
	}
	text, end := r.head()
	if r.b[0] == '!' {
		text = r.b[end : len(r.b)-2]
	}
	e := &Error{Text: strings.ToValidUTF8(string(text), "?")}
	e.Code, _, _ = strings.Cut(e.Text, " ")
	return e
}

// Bytes returns a string, nil for null. It is valid until the batch is used again, and must
// not be changed. Numbers are returned as written.
func (r Reply) Bytes() ([]byte, error) {
	if r.Null() {
		return nil, r.Err()
	}
	text, end := r.head()
	switch r.b[0] {
	case '+', ':', ',', '(', '#':
		return text, nil
	case '$':
		return r.b[end : len(r.b)-2], nil
	case '=':
		if b := r.b[end : len(r.b)-2]; len(b) >= 4 { // the format and a colon
			return b[4:], nil
		}
	}
	return nil, r.unexpected("a string")
}

// Text returns a string, "" for null.
func (r Reply) Text() (string, error) {
	b, err := r.Bytes()
	return string(b), err
}

// Int returns a number, 0 for null. It accepts a string with a number.
func (r Reply) Int() (int64, error) {
	b, err := r.Bytes()
	if err != nil || b == nil {
		return 0, err
	}
	n, ok := number(b)
	if !ok {
		return 0, r.unexpected("a number")
	}
	return n, nil
}

// unexpected returns the error for a value of an unexpected type.
func (r Reply) unexpected(want string) error {
	if err := r.Err(); err != nil {
		return err
	}
	return malformed("%.40q is not %s", r.b, want)
}

// aggregate reports whether the value contains others.
func (r Reply) aggregate() bool {
	return len(r.b) > 0 && (r.b[0] == '*' || r.b[0] == '~' || r.b[0] == '%' || r.b[0] == '>') && !r.Null()
}

// Items returns the values of an array, a set or a map, where each key precedes its value;
// none for null.
func (r Reply) Items() (iter.Seq[Reply], error) {
	if !r.Null() && !r.aggregate() {
		return nil, r.unexpected("a list")
	}
	return r.items, nil
}

func (r Reply) items(yield func(Reply) bool) {
	if !r.aggregate() {
		return
	}
	_, at := r.head()
	for at < len(r.b) {
		n := Reply{r.b[at:]}.length()
		if n <= 0 || !yield(Reply{r.b[at : at+n : at+n]}) {
			return
		}
		at += n
	}
}

// length returns the bytes of the first value in r.
func (r Reply) length() int {
	text, end := r.head()
	switch r.b[0] {
	case '$', '!', '=':
		if n, _ := number(text); n >= 0 {
			return end + int(n) + 2
		}
	case '*', '~', '%', '>':
		n, _ := number(text)
		if r.b[0] == '%' {
			n *= 2
		}
		for ; n > 0; n-- {
			end += Reply{r.b[end:]}.length()
		}
	}
	return end
}

// Texts returns the values of an array, a set or a map as strings.
func (r Reply) Texts() ([]string, error) {
	items, err := r.Items()
	if err != nil {
		return nil, err
	}
	var all []string
	for item := range items {
		s, err := item.Text()
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// EachPair calls f with the keys and values of a map, which belong to the batch like those of
// Bytes. It accepts a list of pairs.
func (r Reply) EachPair(f func(key, value []byte)) error {
	items, err := r.Items()
	if err != nil {
		return err
	}
	var key []byte
	isValue := false
	for item := range items {
		b, err := item.Bytes()
		if err != nil {
			return err
		}
		if isValue {
			f(key, b)
		}
		key, isValue = b, !isValue
	}
	if isValue {
		return malformed("a map with a key that has no value")
	}
	return nil
}

// String formats the reply for messages.
func (r Reply) String() string {
	if r.aggregate() {
		return fmt.Sprintf("%.80q", r.b)
	}
	b, err := r.Bytes()
	if err != nil {
		return err.Error()
	}
	return strconv.Quote(string(b))
}
