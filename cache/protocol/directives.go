package protocol

import (
	"bytes"
	"time"

	"shuultuur/lib/ascii"
	"shuultuur/lib/message"
)

// longest is the meaning of a directive of 2^31 seconds or more (RFC 9111 section 1.2.2).
const longest = (1<<31 - 1) * time.Second

// Directives are those of Cache-Control (RFC 9111 section 5.2; RFC 5861; RFC 8246). An absent
// time is -1.
type Directives struct {
	MaxAge, SMaxAge                    time.Duration
	StaleWhileRevalidate, StaleIfError time.Duration
	MaxStale, MinFresh                 time.Duration // of requests

	NoStore, NoCache, Private, Public bool // NoCache and Private apply to the whole response
	MustRevalidate, ProxyRevalidate   bool
	MustUnderstand, Immutable         bool
	OnlyIfCached, NoTransform         bool

	// Fields are the fields that no-cache and private name. They are neither stored nor sent
	// from the store.
	Fields [][]byte
	// Given says that there was a Cache-Control field.
	Given bool
}

// Control parses the Cache-Control fields in f.
func Control(f message.Fields) (d Directives) {
	d.MaxAge, d.SMaxAge, d.StaleWhileRevalidate, d.StaleIfError, d.MaxStale, d.MinFresh = -1, -1, -1, -1, -1, -1
	for i := range f {
		if len(f[i].Name) == 13 && message.EqualName(f[i].Name, "cache-control") {
			d.Given = true
			d.read(f[i].Value)
		}
	}
	return d
}

// read adds the directives of one field line.
func (d *Directives) read(v []byte) {
	for len(v) > 0 {
		var item []byte
		item, v = nextItem(v)
		name, value, has := bytes.Cut(item, []byte("="))
		name, value = bytes.TrimRight(name, " \t"), bytes.TrimLeft(value, " \t")
		switch {
		case quotedString(value):
			value = value[1 : len(value)-1]
		case bytes.IndexByte(item, '"') >= 0: // an unterminated string may contain anything
			d.NoStore, d.NoCache = true, true
		}
		d.add(name, value, has)
	}
}

func (d *Directives) add(name, value []byte, has bool) {
	is := func(s string) bool { return len(name) == len(s) && message.EqualName(name, s) }
	switch {
	case is("max-age"):
		set(&d.MaxAge, value)
	case is("s-maxage"):
		set(&d.SMaxAge, value)
	case is("stale-while-revalidate"):
		set(&d.StaleWhileRevalidate, value)
	case is("stale-if-error"):
		set(&d.StaleIfError, value)
	case is("min-fresh"):
		set(&d.MinFresh, value)
	case is("max-stale"):
		if !has {
			d.MaxStale = longest // of any age
			return
		}
		set(&d.MaxStale, value)
	case is("no-store"):
		d.NoStore = true
	case is("no-cache"):
		d.NoCache = d.NoCache || !d.names(value)
	case is("private"):
		d.Private = d.Private || !d.names(value)
	case is("public"):
		d.Public = true
	case is("must-revalidate"):
		d.MustRevalidate = true
	case is("proxy-revalidate"):
		d.ProxyRevalidate = true
	case is("must-understand"):
		d.MustUnderstand = true
	case is("immutable"):
		d.Immutable = true
	case is("only-if-cached"):
		d.OnlyIfCached = true
	case is("no-transform"):
		d.NoTransform = true
	}
}

// quotedString reports whether v is exactly one quoted string.
func quotedString(v []byte) bool {
	if len(v) < 2 || v[0] != '"' {
		return false
	}
	for i := 1; i < len(v); i++ {
		switch v[i] {
		case '\\':
			i++
		case '"':
			return i == len(v)-1
		}
	}
	return false
}

// names adds the fields in the value of a directive, and reports whether the directive
// concerns only these. It concerns the whole response if there are none, or if the response
// would change its meaning without one of them.
func (d *Directives) names(value []byte) bool {
	was := len(d.Fields)
	for v := range bytes.SplitSeq(value, []byte(",")) {
		if v = bytes.Trim(v, " \t"); len(v) == 0 {
			continue
		}
		if !ascii.IsToken(v) || decides(v) {
			d.Fields = d.Fields[:was]
			return false
		}
		d.Fields = append(d.Fields, v)
	}
	return len(d.Fields) > was
}

// decides reports whether a field determines which requests a response fits, for how long, or
// how to read its body.
func decides(name []byte) bool {
	for _, s := range [...]string{"cache-control", "vary", "expires", "content-encoding", "content-range", "content-type"} {
		if is(name, s) {
			return true
		}
	}
	return false
}

// set sets a time. A directive given twice with different values, or with an invalid one,
// counts as 0: whatever may be stale is stale (RFC 9111 section 4.2.1).
func set(to *time.Duration, value []byte) {
	n, ok := Seconds(value)
	switch {
	case !ok, *to >= 0 && *to != n:
		*to = 0
	default:
		*to = n
	}
}

// Seconds parses a number of seconds (RFC 9111 section 1.2.2): digits only.
func Seconds(v []byte) (time.Duration, bool) {
	if len(v) == 0 {
		return 0, false
	}
	n := int64(0)
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n = n*10 + int64(c-'0'); n > int64(longest/time.Second) {
			n = int64(longest / time.Second)
		}
	}
	return time.Duration(n) * time.Second, true
}

// nextItem returns the first item of a comma-separated list, without surrounding white space,
// and the rest. Commas in quoted strings do not separate.
func nextItem(v []byte) (item, rest []byte) {
	quoted, i := false, 0
	for ; i < len(v); i++ {
		switch {
		case quoted && v[i] == '\\':
			i++
		case v[i] == '"':
			quoted = !quoted
		case v[i] == ',' && !quoted:
			return bytes.Trim(v[:i], " \t"), v[i+1:]
		}
	}
	return bytes.Trim(v, " \t"), nil
}
