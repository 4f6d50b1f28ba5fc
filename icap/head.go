package icap

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"shuultuur/lib/message"
	wire "shuultuur/lib/message/icap"
)

// maxGroups is the most groups of a user.
const maxGroups = 1024

// idField has the ID of a request in the answer to REQMOD. A proxy that returns it in
// RESPMOD says which request was answered, which nothing else does if several clients
// behind one address ask for the same.
const idField = "X-Shuultuur-ID"

// A head is the head of an ICAP request.
type head struct {
	method  string
	service string // path of the URI, without slashes
	allow   struct{ no, partial bool }
	preview int // -1: no preview
	close   bool

	client, server netip.Addr
	port           string // of the client, as sent
	id             string // that idField returns
	user           string
	groups         []string
	authorization  []byte

	parts wire.Encapsulated
}

// read reads the next head. The error is io.EOF if the connection ended between
// requests.
func (h *head) read(r *bufio.Reader) error {
	*h = head{preview: -1, groups: h.groups[:0], parts: wire.Encapsulated{Req: -1, Res: -1}}
	line, err := wire.ReadLine(r)
	for n := 0; err == nil && len(line) == 0 && n < 4; n++ {
		line, err = wire.ReadLine(r)
	}
	if err != nil {
		return err
	}
	if err := h.requestLine(line); err != nil {
		return err
	}
	for n := 0; ; n++ {
		line, err := wire.ReadLine(r)
		switch {
		case err == io.EOF:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		case len(line) == 0:
			return nil
		case n == wire.MaxFields:
			return wire.Bad("more than %d fields", wire.MaxFields)
		}
		name, value, err := wire.Field(line)
		if err == nil {
			err = h.field(name, value)
		}
		if err != nil {
			return err
		}
	}
}

func (h *head) requestLine(line []byte) error {
	method, rest, _ := bytes.Cut(line, []byte(" "))
	uri, version, ok := bytes.Cut(rest, []byte(" "))
	switch {
	case !ok:
		return wire.Bad("malformed request line %.60q", line)
	case !bytes.HasPrefix(version, []byte("ICAP/1.")):
		return wire.Refuse(505, "version %.20q is not ICAP/1.0", version)
	}
	switch h.method = string(method); h.method {
	case "OPTIONS", "REQMOD", "RESPMOD":
	default:
		return wire.Refuse(501, "method %.20q is none of OPTIONS, REQMOD and RESPMOD", method)
	}
	path := string(uri)
	if _, after, ok := strings.Cut(path, "://"); ok {
		if _, path, ok = strings.Cut(after, "/"); !ok {
			path = ""
		}
	}
	path, _, _ = strings.Cut(path, "?")
	h.service = strings.Trim(path, "/")
	return nil
}

// field reads a field, if it is one that we need.
func (h *head) field(name string, value []byte) (err error) {
	switch name {
	case "encapsulated":
		if h.parts.Present {
			return wire.Bad("two Encapsulated fields")
		}
		return h.parts.Parse(string(value))
	case "allow":
		for v := range strings.SplitSeq(string(value), ",") {
			switch strings.TrimSpace(v) {
			case "204":
				h.allow.no = true
			case "206":
				h.allow.partial = true
			}
		}
	case "preview":
		n, err := strconv.ParseUint(string(value), 10, 31)
		if err != nil || n > maxPreview {
			return wire.Bad("a preview of %.20q bytes; at most %d are taken", value, maxPreview)
		}
		h.preview = int(n)
	case "connection":
		for v := range strings.SplitSeq(string(value), ",") {
			h.close = h.close || strings.EqualFold(strings.TrimSpace(v), "close")
		}
	case "x-client-ip":
		if at, e := netip.ParseAddrPort(string(value)); e == nil {
			h.client, h.port = at.Addr().Unmap().WithZone(""), strconv.Itoa(int(at.Port()))
			return nil
		}
		h.client, err = address(name, value)
	case "x-client-port":
		h.port = string(value)
	case "x-shuultuur-id":
		h.id = string(value)
	case "x-server-ip":
		h.server, err = address(name, value)
	case "x-client-username", "x-authenticated-user":
		h.user = account(decoded(value))
	case "x-authenticated-groups":
		for g := range strings.SplitSeq(decoded(value), ",") {
			if strings.Contains(g, "=") && !strings.Contains(g, "://") {
				continue // not a name, but the rest of a distinguished name
			}
			if g = account(strings.TrimSpace(g)); g != "" && len(h.groups) < maxGroups {
				h.groups = append(h.groups, g)
			}
		}
	case "proxy-authorization":
		h.authorization = bytes.Clone(value)
	}
	return err
}

func address(name string, value []byte) (netip.Addr, error) {
	if string(value) == "-" || len(value) == 0 {
		return netip.Addr{}, nil
	}
	a, err := netip.ParseAddr(string(value))
	if err != nil {
		return a, wire.Bad("%s: %.60q is not an address", name, value)
	}
	return a.Unmap().WithZone(""), nil
}

// decoded undoes the base64 in which names may be encoded (draft-stecher-icap-subid, 3.4).
// Plain names such as "bill" and "Ulla" can be decoded, too. So a text that looks like a name
// is not decoded.
func decoded(value []byte) string {
	plain := string(value)
	if plain == "-" {
		return ""
	}
	b, err := base64.StdEncoding.Strict().DecodeString(plain)
	if err != nil || len(b) == 0 || !utf8.Valid(b) || isWord(value) {
		return plain
	}
	name := string(b)
	uri := strings.Contains(name, "://")
	if strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsPrint(r) || !uri && r < utf8.RuneSelf && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(` -._@\,$'`, r)
	}) {
		return plain
	}
	return name
}

// isWord reports whether p looks like a word of a language, perhaps with a number at its end,
// and not like base64.
func isWord(p []byte) bool {
	for i, c := range p {
		switch digit := i > 0 && p[i-1] >= '0' && p[i-1] <= '9'; {
		case c >= 'A' && c <= 'Z' && i > 0, c >= 'a' && c <= 'z' && digit, c == '=', c == '/', c == '+':
			return false
		}
	}
	return true
}

// account returns the name of a user or group from a URI such as
// WinNT://domain/name, Local://name or LDAP://host/CN=name,OU=people.
func account(s string) string {
	_, rest, ok := strings.Cut(s, "://")
	if !ok {
		return s
	}
	name := rest[strings.LastIndexByte(rest, '/')+1:]
	if attr, value, ok := strings.Cut(name, "="); ok && (strings.EqualFold(attr, "cn") || strings.EqualFold(attr, "uid")) {
		name, _, _ = strings.Cut(value, ",")
	}
	return name
}

// httpRequest reads an encapsulated request head into q.
func (c *conn) httpRequest(raw []byte, q *message.Request) error {
	c.src.Reset(raw)
	c.http.Reset(&c.src)
	if err := c.http.ReadRequest(q); err != nil {
		return cutOff("request", len(raw), err)
	}
	return c.checkLength("request")
}

// httpResponse reads an encapsulated response head into s.
func (c *conn) httpResponse(raw []byte, s *message.Response, method string) error {
	c.src.Reset(raw)
	c.http.Reset(&c.src)
	if err := c.http.ReadResponse(s, method); err != nil {
		return cutOff("response", len(raw), err)
	}
	return c.checkLength("response")
}

// cutOff returns the error for a head that is longer than Encapsulated allows.
func cutOff(what string, n int, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return wire.Bad("the HTTP %s head does not end within the %d bytes that Encapsulated says", what, n)
	}
	return err
}

// checkLength reports whether the head fills the length in Encapsulated.
func (c *conn) checkLength(what string) error {
	if n := len(c.http.Buffered()) + c.src.Len(); n > 0 {
		return wire.Bad("the HTTP %s head is %d bytes shorter than Encapsulated says", what, n)
	}
	return nil
}
