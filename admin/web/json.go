package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ReadJSON reads one JSON value into v. Fields that v lacks are errors.
func ReadJSON(text []byte, v any) error {
	if err := Unambiguous(text); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// Unambiguous returns an error if a text is not exactly one JSON value with one meaning: a name
// must not occur twice in an object (RFC 8259 section 4), not even in another case, because
// [json.Unmarshal] ignores case, and nothing may follow the value.
func Unambiguous(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	var open []map[string]bool // the names of each open object; nil for an array
	name := false              // whether a name comes next
	for {
		t, err := d.Token()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		inside := len(open) - 1
		switch t {
		case json.Delim('{'):
			open, name = append(open, map[string]bool{}), true
			continue
		case json.Delim('['):
			open, name = append(open, nil), false
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:inside]
			inside--
		default:
			if s, ok := t.(string); ok && name {
				if s = strings.ToLower(s); open[inside][s] {
					return fmt.Errorf("the name %q occurs twice in one object", t)
				}
				open[inside][s], name = true, false
				continue
			}
		}
		if inside < 0 {
			if _, err := d.Token(); err != io.EOF {
				return errors.New("something follows the JSON value")
			}
			return nil
		}
		name = open[inside] != nil
	}
}
