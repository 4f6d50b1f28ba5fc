package cache

import (
	"bytes"
	"path"
	"slices"
	"strconv"

	"shuultuur/cache/protocol"
	"shuultuur/filter"
	"shuultuur/lib/message"

	"github.com/zeebo/xxh3"
)

// A name identifies the requests that an object answers. It consists of the URL, and on
// further lines of other distinctions: the host to connect to if that differs, fields set by a
// policy, and after a mark the variant. Objects are found by the hash of the name. The names
// themselves are compared, so that a collision does no harm.

// hash returns the key of a name.
func hash(name []byte) Key { return xxh3.Hash128(name) }

// appendName appends the name of the request q.
func (c *Cache) appendName(b []byte, q *message.Request, t *filter.Transaction) []byte {
	b = appendURL(b, q, c.ignored)
	if q.Dial != "" {
		b = append(append(b, "\ndial "...), q.Dial...)
	}
	if t == nil {
		return b
	}
	for _, e := range t.Edits {
		if e.Kind == filter.SetHeader {
			b = append(append(append(append(b, "\nset "...), e.Name...), ": "...), e.Value...)
		}
	}
	return b
}

// appendURL appends the URL of q, without ignored query parameters.
func appendURL(b []byte, q *message.Request, ignored []string) []byte {
	scheme, usual := "http", uint16(80)
	if q.Scheme == "https" {
		scheme, usual = "https", 443
	}
	b = append(append(b, scheme...), "://"...)
	n := len(b)
	v6 := bytes.IndexByte(q.Host, ':') >= 0
	if v6 {
		b = append(b, '[')
	}
	b = append(b, bytes.TrimSuffix(q.Host, []byte("."))...)
	if v6 {
		b = append(b, ']')
	}
	for i, c := range b[n:] {
		if c >= 'A' && c <= 'Z' {
			b[n+i] = c | 0x20
		}
	}
	if q.Port != 0 && q.Port != usual {
		b = strconv.AppendUint(append(b, ':'), uint64(q.Port), 10)
	}
	if len(ignored) == 0 {
		return append(b, q.Path...)
	}
	return appendPath(b, q.Path, ignored)
}

// appendPath appends path without the ignored query parameters. The others keep their order.
func appendPath(b, p []byte, ignored []string) []byte {
	rest, query, ok := bytes.Cut(p, []byte("?"))
	b = append(b, rest...)
	if !ok {
		return b
	}
	sep := byte('?')
	for part := range bytes.SplitSeq(query, []byte("&")) {
		name, _, _ := bytes.Cut(part, []byte("="))
		if slices.ContainsFunc(ignored, func(s string) bool { ok, _ := path.Match(s, string(name)); return ok }) {
			continue
		}
		b = append(append(b, sep), part...)
		sep = '&'
	}
	return b
}

// appendVariant appends to the name of a mark the variant for q; language is as in
// [protocol.Variant].
func (m *mark) appendVariant(name []byte, q message.Fields, language string) []byte {
	name = strconv.AppendUint(append(name, "\nvariant "...), m.number, 36)
	return protocol.Variant(append(name, '\n'), m.names, q, language)
}
