package exchange

import (
	"bytes"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"shuultuur/filter"
	"shuultuur/lib/message"
)

// MakeOutgoing makes the request as it goes upstream: the fields as the client sent them, without
// those that end here and ours, and with the edits of the policy. Values are valid until the
// next Begin of x.
func (x *Exchange) MakeOutgoing(out *message.Request) {
	q := &x.Q
	fields := out.Fields[:0]
	*out = message.Request{
		Method: q.Method, Form: q.Form, Scheme: q.Scheme, Host: q.Host, Port: x.T.Port, PortNamed: q.Port != 0, Path: x.path(), Proto: q.Proto,
		Length: q.Length, Expect: q.Expect, Body: q.Body,
	}
	out.Upgrade = x.upgrade()
	edits := editing(x)
	list := q.Fields.ConnectionNames()
	for _, f := range q.Fields {
		if list != nil && message.NameIn(list, f.Name) || message.HopByHop(f.Name) || x.edited(f.Name) || hasField(x.Private, f.Name) || x.whole && condition(f.Name) {
			continue
		}
		switch {
		case len(f.Name) == 6 && message.EqualName(f.Name, "cookie"):
			if f.Value = x.cookie(f.Value); f.Value == nil {
				continue
			}
		case len(f.Name) == 15 && message.EqualName(f.Name, "accept-encoding"):
			if f.Value = x.encodings(f.Value); edits {
				f.Value = gzipAlone(f.Value)
			}
		case len(f.Name) == 12 && message.EqualName(f.Name, "max-forwards"):
			if f.Value = x.forwards(f.Value); f.Value == nil {
				continue
			}
		case len(f.Name) == 24 && out.Upgrade != nil && message.EqualName(f.Name, "sec-websocket-extensions") && x.Wants(filter.ResponseBody):
			if f.Value = extensions(x, f.Value); f.Value == nil {
				continue
			}
		case len(f.Name) == 4 && message.EqualName(f.Name, "host"), // rewritten from the target
			len(f.Name) == 6 && message.EqualName(f.Name, "expect"),
			len(f.Name) == 7 && q.Length != message.Chunked && message.EqualName(f.Name, "trailer"):
			continue
		}
		fields = append(fields, f)
	}
	for _, e := range x.Edits {
		if e.Kind == filter.SetHeader && e.Value != "" {
			fields = append(fields, editField(e))
		}
	}
	out.Fields = fields
}

// hasField reports whether names contains a field's name.
func hasField(names []string, name []byte) bool {
	for _, n := range names {
		if len(n) == len(name) && strings.EqualFold(n, string(name)) {
			return true
		}
	}
	return false
}

// edited reports whether a SetHeader edit replaces the field.
func (x *Exchange) edited(name []byte) bool {
	for _, e := range x.Edits {
		if e.Kind == filter.SetHeader && len(e.Name) == len(name) && strings.EqualFold(e.Name, string(name)) {
			return true
		}
	}
	return false
}

// editField returns the field of an edit. Its value comes from the settings, and must not
// contain a line end.
func editField(e filter.Edit) message.Field {
	clean := func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}
	return message.Field{
		Name:  []byte(strings.ReplaceAll(strings.Map(clean, e.Name), " ", "-")),
		Value: []byte(strings.Map(clean, e.Value)),
	}
}

// path returns the path and query for the origin.
func (x *Exchange) path() []byte {
	p := x.Q.Path
	for _, e := range x.Edits {
		switch e.Kind {
		case filter.SetQuery:
			p = setQuery(p, e.Name, e.Value)
		case filter.DropQuery:
			p = dropQuery(p, e.Name)
		}
	}
	return p
}

// dropQuery removes the parameters written name from the query in path, and keeps the others
// byte for byte.
func dropQuery(path []byte, name string) []byte {
	rest, query, ok := bytes.Cut(path, []byte("?"))
	if !ok {
		return path
	}
	out := slices.Clone(rest)
	sep := byte('?')
	for part := range bytes.SplitSeq(query, []byte("&")) {
		if k, _, _ := bytes.Cut(part, []byte("=")); string(k) == name {
			continue
		}
		out = append(append(out, sep), part...)
		sep = '&'
	}
	return out
}

// setQuery sets a parameter of the query in path, and keeps the others byte for byte.
func setQuery(path []byte, name, value string) []byte {
	rest, query, _ := bytes.Cut(path, []byte("?"))
	out := slices.Clone(rest)
	sep := byte('?')
	for part := range bytes.SplitSeq(query, []byte("&")) {
		k, _, _ := bytes.Cut(part, []byte("="))
		if key, err := url.QueryUnescape(string(k)); len(part) == 0 || err == nil && key == name {
			continue
		}
		out = append(append(out, sep), part...)
		sep = '&'
	}
	out = append(out, sep)
	out = append(out, url.QueryEscape(name)...)
	out = append(out, '=')
	return append(out, url.QueryEscape(value)...)
}

// forwards decrements Max-Forwards (RFC 9110 section 7.6.2); nil omits it.
func (x *Exchange) forwards(v []byte) []byte {
	if x.Q.Method != "TRACE" && x.Q.Method != "OPTIONS" {
		return v
	}
	n, err := strconv.ParseUint(string(v), 10, 31)
	if err != nil || n == 0 {
		return nil
	}
	start := len(x.scratch)
	x.scratch = strconv.AppendUint(x.scratch, n-1, 10)
	return x.scratch[start:]
}

// acceptCookie is the cookie with the tokens of accepted warnings. It is not forwarded.
const acceptCookie = "shuultuur"

// cookie returns the value of a Cookie field without ours; nil if nothing is left.
func (x *Exchange) cookie(v []byte) []byte {
	if !bytes.Contains(v, []byte(acceptCookie+"=")) {
		return v
	}
	start := len(x.scratch)
	for part := range bytes.SplitSeq(v, []byte(";")) {
		part = bytes.Trim(part, " \t")
		if bytes.HasPrefix(part, []byte(acceptCookie+"=")) || len(part) == 0 {
			continue
		}
		if len(x.scratch) > start {
			x.scratch = append(x.scratch, "; "...)
		}
		x.scratch = append(x.scratch, part...)
	}
	if len(x.scratch) == start {
		return nil
	}
	return x.scratch[start:]
}

// encodings returns the value of Accept-Encoding without codings that cannot be decoded for
// the checks. It is nearly always unchanged.
func (x *Exchange) encodings(v []byte) []byte {
	known := true
	for part := range bytes.SplitSeq(v, []byte(",")) {
		known = known && decodable(part)
	}
	if known {
		return v
	}
	start := len(x.scratch)
	for part := range bytes.SplitSeq(v, []byte(",")) {
		if !decodable(part) {
			continue
		}
		if len(x.scratch) > start {
			x.scratch = append(x.scratch, ", "...)
		}
		x.scratch = append(x.scratch, bytes.Trim(part, " \t")...)
	}
	if len(x.scratch) == start {
		return []byte("identity")
	}
	return x.scratch[start:]
}

// decodable reports whether a part of Accept-Encoding names a coding that package content can
// decode.
func decodable(part []byte) bool {
	name, _, _ := bytes.Cut(part, []byte(";"))
	switch name = bytes.Trim(name, " \t"); {
	case len(name) == 0, string(name) == "*", message.EqualName(name, "gzip"), message.EqualName(name, "deflate"), message.EqualName(name, "br"),
		message.EqualName(name, "zstd"), message.EqualName(name, "identity"), message.EqualName(name, "x-gzip"):
		return true
	}
	return false
}
