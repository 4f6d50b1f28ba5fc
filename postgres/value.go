package postgres

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// Types by their number in pg_type, if their values are not text here.
const (
	typeBool        = 16
	typeBytea       = 17
	typeInt8        = 20
	typeInt2        = 21
	typeInt4        = 23
	typeFloat4      = 700
	typeFloat8      = 701
	typeTimestamp   = 1114
	typeTimestampTZ = 1184
)

const timeForm = "2006-01-02 15:04:05.999999"

// appendText appends a non-nil value in the form that the server reads
// (PostgreSQL 17, chapter 8).
func appendText(dst []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return append(dst, v...)
	case []byte:
		return hex.AppendEncode(append(dst, `\x`...), v)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case int:
		return strconv.AppendInt(dst, int64(v), 10)
	case float64:
		return strconv.AppendFloat(dst, v, 'g', -1, 64)
	case bool:
		return strconv.AppendBool(dst, v)
	case time.Time:
		return append(v.UTC().AppendFormat(dst, timeForm), "+00"...)
	case []string:
		dst = append(dst, '{')
		for i, s := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, '"')
			for j := range len(s) {
				if s[j] == '"' || s[j] == '\\' {
					dst = append(dst, '\\')
				}
				dst = append(dst, s[j])
			}
			dst = append(dst, '"')
		}
		return append(dst, '}')
	}
	return fmt.Append(dst, v) // the server refuses other types
}

// appendRow appends a line of COPY's text form.
func appendRow(dst []byte, row []any) []byte {
	for i, v := range row {
		if i > 0 {
			dst = append(dst, '\t')
		}
		if v == nil {
			dst = append(dst, `\N`...)
			continue
		}
		from := len(dst)
		dst = appendText(dst, v)
		dst = escape(dst, from)
	}
	return append(dst, '\n')
}

// escape escapes the bytes of b from a position on, so that COPY reads them
// unchanged.
func escape(b []byte, from int) []byte {
	special := 0
	for _, c := range b[from:] {
		if escapes[c] != 0 {
			special++
		}
	}
	if special == 0 {
		return b
	}
	to := len(b) + special
	at := len(b)
	for range special {
		b = append(b, 0)
	}
	for special > 0 { // from the end, so that it works in place
		at--
		to--
		if name := escapes[b[at]]; name != 0 {
			b[to] = name
			to--
			b[to] = '\\'
			special--
			continue
		}
		b[to] = b[at]
	}
	return b
}

var escapes = [256]byte{'\\': '\\', '\t': 't', '\n': 'n', '\r': 'r'}

// parse parses a value from the server; nil is NULL. It does not keep text.
func parse(oid uint32, text []byte) (any, error) {
	if text == nil {
		return nil, nil
	}
	switch oid {
	case typeInt2, typeInt4, typeInt8:
		return strconv.ParseInt(string(text), 10, 64)
	case typeFloat4, typeFloat8:
		return strconv.ParseFloat(string(text), 64)
	case typeBool:
		return string(text) == "t", nil
	case typeBytea:
		if len(text) < 2 || text[0] != '\\' || text[1] != 'x' {
			return nil, fmt.Errorf("%.20q is not bytea in hexadecimal: leave bytea_output at its default", text)
		}
		return hex.AppendDecode([]byte{}, text[2:])
	case typeTimestampTZ:
		return time.Parse(timeForm+"-07", string(text))
	case typeTimestamp:
		return time.Parse(timeForm, string(text))
	}
	return string(text), nil
}
