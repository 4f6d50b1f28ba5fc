package cache

import (
	"bytes"
	"path"
	"slices"
	"strconv"

	"shuultuur/cache/protocol"
	"shuultuur/filter"
	"shuultuur/message"

	"github.com/zeebo/xxh3"
)

// A name says what an object answers: the URL, then, each on a line, what else
// sets requests apart: the host to connect to where that is another, fields
// that a policy sets, and behind a mark the variant. Objects are found by its
// hash; the name itself is compared, so that no two are ever taken for one.

// hash returns the key of a name.
func hash(name []byte) Key { return xxh3.Hash128(name) }

// appendName appends the name of what q asks for.
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

// appendURL appends the URL that q asks for, without the parameters of the
// query that ignored says do not count.
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

// appendPath appends path without the parameters of its query that are ignored.
// The others stay in their order.
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

// appendVariant appends to the name of a mark what makes it that of the variant
// for q; language is as in [protocol.Variant].
func (m *mark) appendVariant(name []byte, q message.Fields, language string) []byte {
	name = strconv.AppendUint(append(name, "\nvariant "...), m.number, 36)
	return protocol.Variant(append(name, '\n'), m.names, q, language)
}
