package redins

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Reading a zone again is mostly decoding JSON. So JSON in the usual form is parsed here, and
// passed to encoding/json otherwise. The input is known to be valid JSON.

// fields calls each with the names and values of an object. It returns false when b is not an
// object, has names with escapes, or each returned false.
func fields(b []byte, each func(name, value []byte) bool) bool {
	i := blank(b, 0)
	if i >= len(b) || b[i] != '{' {
		return false
	}
	for i = blank(b, i+1); i < len(b) && b[i] == '"'; i = blank(b, i+1) {
		end := skip(b, i)
		name := b[i+1 : end-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			return false
		}
		i = blank(b, blank(b, end)+1) // after the colon
		end = skip(b, i)
		if !each(name, b[i:end]) {
			return false
		}
		if i = blank(b, end); b[i] == '}' {
			return true
		}
	}
	return i < len(b) && b[i] == '}'
}

// elements calls each with the values of an array.
func elements(b []byte, each func(value []byte) bool) bool {
	i := blank(b, 0)
	if i >= len(b) || b[i] != '[' {
		return false
	}
	for i = blank(b, i+1); i < len(b) && b[i] != ']'; i = blank(b, i+1) {
		end := skip(b, i)
		if !each(b[i:end]) {
			return false
		}
		if i = blank(b, end); b[i] == ']' {
			return true
		}
	}
	return i < len(b)
}

func blank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skip returns the end of the value at i.
func skip(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			i++
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\r', '\t':
			i++
			continue
		default: // a number, true, false, null
			for i < len(b) && bytes.IndexByte([]byte(",:]} \n\r\t"), b[i]) < 0 {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

// plain reads a string without escapes, number a number without sign and fraction.
func plain(b []byte) (string, bool) {
	if len(b) < 2 || b[0] != '"' || bytes.IndexByte(b, '\\') >= 0 {
		return "", false
	}
	return string(b[1 : len(b)-1]), true
}

func number(b []byte) (uint32, bool) {
	n, err := strconv.ParseUint(string(b), 10, 32)
	return uint32(n), err == nil
}

// walk reads the JSON of A and AAAA; false when the form is unusual.
func (s *addressSet) walk(b []byte) bool {
	return fields(b, func(name, value []byte) (ok bool) {
		switch string(name) {
		case "ttl":
			s.TTL, ok = number(value)
		case "records":
			s.Records = s.Records[:0]
			ok = elements(value, func(record []byte) bool {
				s.Records = append(s.Records, record)
				return true
			})
		case "filter":
			s.Filter = nil
			unknown, err := decode(value, &s.Filter)
			ok = unknown == "" && err == nil
		case "health_check":
			s.Health = nil
			unknown, err := decode(value, &s.Health)
			ok = unknown == "" && err == nil
		}
		return ok
	})
}

// walk reads the JSON of one address; false when the form is unusual.
func (v *addressJSON) walk(b []byte) bool {
	return fields(b, func(name, value []byte) (ok bool) {
		switch string(name) {
		case "ip":
			v.IP, ok = plain(value)
		case "weight":
			var n uint32
			n, ok = number(value)
			v.Weight = int64(n)
		case "country":
			v.Country = v.Country[:0]
			ok = oneOrList(value, func(b []byte) bool {
				s, ok := plain(b)
				v.Country = append(v.Country, s)
				return ok
			})
		case "asn":
			v.ASN = v.ASN[:0]
			ok = oneOrList(value, func(b []byte) bool {
				n, ok := number(b)
				v.ASN = append(v.ASN, n)
				return ok
			})
		}
		return ok
	})
}

// oneOrList is elements for one value or a list.
func oneOrList(b []byte, do func([]byte) bool) bool {
	if b[0] == '[' {
		return elements(b, do)
	}
	return do(b)
}

// types lists the fields of a name's JSON.
func types(b []byte) (names []string, values map[string]json.RawMessage, err error) {
	if !json.Valid(b) {
		return nil, nil, json.Unmarshal(b, &values)
	}
	values = make(map[string]json.RawMessage, 4)
	if !fields(b, func(name, value []byte) bool {
		n := string(name)
		if _, twice := values[n]; !twice {
			names = append(names, n)
		}
		values[n] = value
		return true
	}) {
		names, values := names[:0], map[string]json.RawMessage{}
		if err := json.Unmarshal(b, &values); err != nil {
			return nil, nil, err
		}
		for name := range values {
			names = append(names, name)
		}
		return names, values, nil
	}
	return names, values, nil
}
