package redis

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// A Reply is one value of a server, of which a [scanner] has checked the form.
// The zero value is null.
type Reply struct{ b []byte }

// head returns the text of the first line, behind the type, and where the line
// ends.
func (r Reply) head() (text []byte, end int) {
	for i, c := range r.b {
		if c == '\n' {
			return r.b[1 : i-1], i + 1
		}
	}
	return nil, 0
}

// Null says whether the server has no such value.
func (r Reply) Null() bool {
	return len(r.b) < 3 || r.b[0] == '_' || (r.b[0] == '$' || r.b[0] == '*') && r.b[1] == '-'
}

// Err returns the [Error] with which the server refused the command, or nil.
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

// Bytes returns a string, nil for null. It belongs to the batch: it is valid
// until that is used again, and is not to be changed. Numbers are returned as
// they were written.
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

// Int returns a number, 0 for null. A string that is one will do.
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

// unexpected is the error for a value of another type than the command returns.
func (r Reply) unexpected(want string) error {
	if err := r.Err(); err != nil {
		return err
	}
	return malformed("%.40q is not %s", r.b, want)
}

// aggregate says whether the value holds others.
func (r Reply) aggregate() bool {
	return len(r.b) > 0 && (r.b[0] == '*' || r.b[0] == '~' || r.b[0] == '%' || r.b[0] == '>') && !r.Null()
}

// Items returns the values of an array, a set or a map, in which each key
// precedes its value; none of null.
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

// length returns how many bytes the first value of r takes.
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

// Each calls f with the keys and values of a map, which belong to the batch as
// those of Bytes do. A list of pairs will do.
func (r Reply) Each(f func(key, value []byte)) error {
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

// String is for messages.
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
