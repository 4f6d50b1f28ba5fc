package proxy

import (
	"bytes"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"shuultuur/filter"
	"shuultuur/message"
)

// What becomes of a field on its way through.
type fate uint8

const (
	pass   fate = iota
	hop         // between two neighbours only (RFC 9110, 7.6.1): left out
	framed      // says how long the body is: written anew
	cookie
	encoding
)

// fates of request fields by their lower-case names. Length and first letter
// are enough to let most names pass.
func requestFate(name []byte) fate {
	switch len(name) {
	case 2:
		return when(name, "te", hop)
	case 4:
		return when(name, "host", hop)
	case 6:
		if name[0]|0x20 == 'c' {
			return when(name, "cookie", cookie)
		}
		return when(name, "expect", hop)
	case 7:
		if name[0]|0x20 == 'u' {
			return when(name, "upgrade", hop)
		}
		return when(name, "trailer", framed)
	case 10:
		if name[0]|0x20 == 'k' {
			return when(name, "keep-alive", hop)
		}
		return when(name, "connection", hop)
	case 12:
		return when(name, "max-forwards", hop)
	case 14:
		if name[0]|0x20 == 'h' {
			return when(name, "http2-settings", hop)
		}
		return when(name, "content-length", framed)
	case 15:
		return when(name, "accept-encoding", encoding)
	case 16:
		return when(name, "proxy-connection", hop)
	case 17:
		return when(name, "transfer-encoding", framed)
	case 18:
		return when(name, "proxy-authenticate", hop)
	case 19:
		return when(name, "proxy-authorization", hop)
	}
	return pass
}

func responseFate(name []byte) fate {
	switch len(name) {
	case 7:
		switch name[0] | 0x20 {
		case 'u':
			return when(name, "upgrade", hop)
		case 'a':
			return when(name, "alt-svc", hop) // a way around us: HTTP/3 is not looked into
		}
		return when(name, "trailer", framed)
	case 10:
		if name[0]|0x20 == 'k' {
			return when(name, "keep-alive", hop)
		}
		return when(name, "connection", hop)
	case 14:
		return when(name, "content-length", framed)
	case 16:
		return when(name, "proxy-connection", hop)
	case 17:
		return when(name, "transfer-encoding", framed)
	case 18:
		return when(name, "proxy-authenticate", hop)
	}
	return pass
}

func when(name []byte, lower string, f fate) fate {
	if equalFold(name, lower) {
		return f
	}
	return pass
}

// equalFold compares a field name with one in lower case, ASCII only.
func equalFold(a []byte, lower string) bool {
	if len(a) != len(lower) {
		return false
	}
	for i, c := range a {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// named returns the fields' Connection options that name fields of their own,
// or nil: nearly always it lists keep-alive or close only.
func named(fs message.Fields) (list [][]byte) {
	for _, f := range fs {
		if !equalFold(f.Name, "connection") && !equalFold(f.Name, "proxy-connection") {
			continue
		}
		for v := range bytes.SplitSeq(f.Value, []byte(",")) {
			v = bytes.Trim(v, " \t")
			switch {
			case len(v) == 0, equalFold(v, "keep-alive"), equalFold(v, "close"), equalFold(v, "upgrade"):
			case equalFold(v, "content-length"), equalFold(v, "cookie"), equalFold(v, "host"), equalFold(v, "via"):
				// End-to-end fields cannot be thrown out this way.
			default:
				list = append(list, v)
			}
		}
	}
	return list
}

func isNamed(list [][]byte, name []byte) bool {
	for _, v := range list {
		if bytes.EqualFold(v, name) {
			return true
		}
	}
	return false
}

func appendField(dst []byte, name string, value []byte) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

func appendRaw(dst []byte, f message.Field) []byte {
	dst = append(dst, f.Name...)
	dst = append(dst, ": "...)
	dst = append(dst, f.Value...)
	return append(dst, "\r\n"...)
}

// appendHost appends a host as it stands in a URL.
func appendHost(dst []byte, host string) []byte {
	if strings.IndexByte(host, ':') < 0 {
		return append(dst, host...)
	}
	dst = append(dst, '[')
	dst = append(dst, host...)
	return append(dst, ']')
}

func appendPort(dst []byte, port uint16) []byte {
	return strconv.AppendUint(append(dst, ':'), uint64(port), 10)
}

// requestHead writes the head as it goes upstream into x.out: target in origin
// form, or absolute for a parent; Host from the target (RFC 9112, 3.2.2);
// fields as the client sent them, less those that end here.
func (x *session) requestHead(toParent bool, framing int64) {
	q := &x.q
	b := append(x.out[:0], q.Method...)
	b = append(b, ' ')
	if toParent {
		b = append(b, "http://"...)
		b = appendHost(b, x.t.Host)
		if x.t.Port != 80 {
			b = appendPort(b, x.t.Port)
		}
	}
	if !toParent || string(q.Path) != "*" {
		b = append(b, x.path()...)
	}
	b = append(b, " HTTP/1.1\r\nHost: "...)
	if bytes.IndexByte(q.Host, ':') >= 0 {
		b = append(append(append(b, '['), q.Host...), ']')
	} else {
		b = append(b, q.Host...)
	}
	usual := uint16(80)
	if x.inside != nil && x.inside.scheme == "https" {
		usual = 443
	}
	if x.t.Port != usual {
		b = appendPort(b, x.t.Port)
	}
	b = append(b, "\r\n"...)

	list := named(q.Fields)
	for _, f := range q.Fields {
		if list != nil && isNamed(list, f.Name) || x.edited(f.Name) {
			continue
		}
		switch requestFate(f.Name) {
		case pass:
			b = appendRaw(b, f)
		case cookie:
			b = appendCookie(b, f)
		case encoding:
			b = appendEncoding(b, f)
		case framed:
			if f.Name[1]|0x20 == 'r' && len(f.Name) == 7 && framing == message.Chunked {
				b = appendRaw(b, f) // Trailer
			}
		}
	}
	b = append(append(b, "Via: 1."...), '0'+q.Proto%10, ' ')
	b = append(append(b, x.p.cfg.Via...), "\r\n"...)
	for _, e := range x.edits {
		if e.Kind == filter.SetHeader && e.Value != "" {
			b = appendEdit(b, e)
		}
	}
	b = x.appendUpgrade(b)
	b = x.appendForwards(b)
	if toParent && x.p.up.parent.auth != "" {
		b = appendField(b, "Proxy-Authorization", []byte(x.p.up.parent.auth))
	}
	if q.Expect && !x.continued && framing != message.None {
		b = append(b, "Expect: 100-continue\r\n"...)
	}
	switch {
	case framing == message.Chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case framing > 0 || q.Has("Content-Length"):
		b = append(b, "Content-Length: "...)
		b = append(strconv.AppendInt(b, framing, 10), "\r\n"...)
	}
	x.out = append(b, "\r\n"...)
}

// edited says whether a SetHeader edit replaces the field.
func (x *session) edited(name []byte) bool {
	for _, e := range x.edits {
		if e.Kind == filter.SetHeader && len(e.Name) == len(name) && strings.EqualFold(e.Name, string(name)) {
			return true
		}
	}
	return false
}

// appendEdit appends an edit's field; it comes from the settings, and what
// would end a line there must not begin one here.
func appendEdit(dst []byte, e filter.Edit) []byte {
	clean := func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}
	return appendField(dst, strings.ReplaceAll(strings.Map(clean, e.Name), " ", "-"), []byte(strings.Map(clean, e.Value)))
}

// path is the path and query for the origin.
func (x *session) path() []byte {
	p := x.q.Path
	for _, e := range x.edits {
		switch e.Kind {
		case filter.SetQuery:
			p = setQuery(p, e.Name, e.Value)
		case filter.DropQuery:
			p = dropQuery(p, e.Name)
		}
	}
	return p
}

// dropQuery takes the parameters written name out of the query in path, and
// leaves the others as they are, byte for byte.
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

// setQuery sets a parameter of the query in path, leaving the others as they
// are, byte for byte.
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

// appendUpgrade passes the wish for another protocol on, except for cleartext
// HTTP/2: its tunnel would carry requests that nobody judges.
func (x *session) appendUpgrade(dst []byte) []byte {
	if !x.upgrading() {
		return dst
	}
	return appendField(append(dst, "Connection: Upgrade\r\n"...), "Upgrade", x.q.Upgrade)
}

func (x *session) upgrading() bool {
	return x.q.Upgrade != nil && !bytes.Contains(bytes.ToLower(x.q.Upgrade), []byte("h2c"))
}

// appendForwards counts Max-Forwards down (RFC 9110, 7.6.2).
func (x *session) appendForwards(dst []byte) []byte {
	v := x.q.Get("Max-Forwards")
	if v == nil {
		return dst
	}
	if x.q.Method == "TRACE" || x.q.Method == "OPTIONS" {
		n, err := strconv.ParseUint(string(v), 10, 31)
		if err != nil {
			return dst
		}
		v = strconv.AppendUint(nil, n-1, 10)
	}
	return appendField(dst, "Max-Forwards", v)
}

// acceptCookie is the cookie that carries the tokens of warnings a user has
// clicked through. It is between the browser and us.
const acceptCookie = "shuultuur"

// appendCookie appends a Cookie field less ours.
func appendCookie(dst []byte, f message.Field) []byte {
	if !bytes.Contains(f.Value, []byte(acceptCookie+"=")) {
		return appendRaw(dst, f)
	}
	start := len(dst)
	dst = append(append(dst, f.Name...), ": "...)
	n := len(dst)
	for part := range bytes.SplitSeq(f.Value, []byte(";")) {
		part = bytes.Trim(part, " \t")
		if bytes.HasPrefix(part, []byte(acceptCookie+"=")) || len(part) == 0 {
			continue
		}
		if len(dst) > n {
			dst = append(dst, "; "...)
		}
		dst = append(dst, part...)
	}
	if len(dst) == n {
		return dst[:start]
	}
	return append(dst, "\r\n"...)
}

// appendEncoding appends Accept-Encoding, less the codings that the checks
// could not undo. Nearly always it goes on as it is.
func appendEncoding(dst []byte, f message.Field) []byte {
	start := len(dst)
	dst = append(append(dst, f.Name...), ": "...)
	n := len(dst)
	for part := range bytes.SplitSeq(f.Value, []byte(",")) {
		part = bytes.Trim(part, " \t")
		name, _, _ := bytes.Cut(part, []byte(";"))
		switch name = bytes.Trim(name, " \t"); {
		case equalFold(name, "gzip"), equalFold(name, "deflate"), equalFold(name, "br"),
			equalFold(name, "zstd"), equalFold(name, "identity"), equalFold(name, "x-gzip"), string(name) == "*":
		default:
			continue
		}
		if len(dst) > n {
			dst = append(dst, ", "...)
		}
		dst = append(dst, part...)
	}
	if len(dst) == n && len(f.Value) > 0 {
		return append(dst[:start], "Accept-Encoding: identity\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// responseHead writes the response's head as it goes to the client into x.out.
// framing is the length of the body to be written; bare says that there is
// none to write although the head may name a length (HEAD, 304).
func (x *session) responseHead(framing int64, bare, keep bool) {
	s := &x.s
	b := append(x.out[:0], "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(s.Status), 10)
	b = append(b, ' ')
	b = append(b, s.Reason...)
	b = append(b, "\r\n"...)
	list := named(s.Fields)
	for _, f := range s.Fields {
		if list != nil && isNamed(list, f.Name) {
			continue
		}
		switch responseFate(f.Name) {
		case pass:
			b = appendRaw(b, f)
		case framed:
			if len(f.Name) == 7 && framing == message.Chunked || len(f.Name) == 14 && bare && s.Status != 204 && s.Status >= 200 {
				b = appendRaw(b, f) // Trailer; Content-Length of what is not sent
			}
		}
	}
	b = append(b, "Via: 1."...)
	b = append(b, '0'+s.Proto%10, ' ')
	b = append(b, x.p.cfg.Via...)
	b = append(b, "\r\n"...)
	switch {
	case bare:
	case framing >= 0:
		b = append(b, "Content-Length: "...)
		b = append(strconv.AppendInt(b, framing, 10), "\r\n"...)
	case framing == message.Chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	}
	switch {
	case s.Status == 101:
		b = appendField(append(b, "Connection: Upgrade\r\n"...), "Upgrade", s.Upgrade)
	case s.Status < 200:
	case !keep:
		b = append(b, "Connection: close\r\n"...)
	case x.q.Proto == 10:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	x.out = append(b, "\r\n"...)
}
