package icap

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"shuultuur/message"
)

// Limits of an ICAP head and of what it encapsulates.
const (
	maxLine   = 16 << 10  // bytes of a line
	maxFields = 128       // lines of a head
	maxHeads  = 128 << 10 // bytes of the HTTP heads
	maxGroups = 1024      // of one user
)

// A head is an ICAP request's.
type head struct {
	method  string
	service string // path of the URI, without slashes
	allow   struct{ no, partial bool }
	preview int // -1: none
	close   bool

	client, server netip.Addr
	user           string
	groups         []string
	authorization  []byte

	parts encapsulated
}

// encapsulated is the field of that name (RFC 3507, 4.4.1): lengths of the HTTP
// heads, -1 without one, and whether a body follows.
type encapsulated struct {
	present   bool
	req, res  int
	body      bool
	forAnswer bool // the body is that of a response
}

// A fault is an ICAP request that is answered with an error status.
type fault struct {
	status int
	reason string
}

func (f *fault) Error() string { return f.reason }

func bad(format string, args ...any) error { return &fault{400, fmt.Sprintf(format, args...)} }

// readLine reads a line without its CRLF. It is valid until the next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	b, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, bad("a line is longer than %d bytes", maxLine)
	case err == io.EOF && len(b) > 0:
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	case len(b) < 2 || b[len(b)-2] != '\r':
		return nil, bad("a line does not end with CRLF")
	}
	return b[:len(b)-2], nil
}

// read reads the next head. io.EOF says that the connection ended between
// requests.
func (h *head) read(r *bufio.Reader) error {
	*h = head{preview: -1, groups: h.groups[:0], parts: encapsulated{req: -1, res: -1}}
	line, err := readLine(r)
	for n := 0; err == nil && len(line) == 0 && n < 4; n++ {
		line, err = readLine(r)
	}
	if err != nil {
		return err
	}
	if err := h.requestLine(line); err != nil {
		return err
	}
	for n := 0; ; n++ {
		line, err := readLine(r)
		switch {
		case err == io.EOF:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		case len(line) == 0:
			return nil
		case n == maxFields:
			return bad("more than %d fields", maxFields)
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || len(name) == 0 || bytes.ContainsAny(name, " \t") {
			return bad("malformed field %.40q", line)
		}
		if err := h.field(string(name), bytes.Trim(value, " \t")); err != nil {
			return err
		}
	}
}

func (h *head) requestLine(line []byte) error {
	method, rest, _ := bytes.Cut(line, []byte(" "))
	uri, version, ok := bytes.Cut(rest, []byte(" "))
	switch {
	case !ok:
		return bad("malformed request line %.60q", line)
	case !bytes.HasPrefix(version, []byte("ICAP/1.")):
		return &fault{505, fmt.Sprintf("version %.20q is not ICAP/1.0", version)}
	}
	switch h.method = string(method); h.method {
	case "OPTIONS", "REQMOD", "RESPMOD":
	default:
		return &fault{501, fmt.Sprintf("method %.20q is none of OPTIONS, REQMOD and RESPMOD", method)}
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

// field takes what we need of a field.
func (h *head) field(name string, value []byte) (err error) {
	switch strings.ToLower(name) {
	case "encapsulated":
		if h.parts.present {
			return bad("two Encapsulated fields")
		}
		return h.parts.parse(string(value))
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
			return bad("a preview of %.20q bytes; at most %d are taken", value, maxPreview)
		}
		h.preview = int(n)
	case "connection":
		h.close = h.close || strings.EqualFold(string(value), "close")
	case "x-client-ip":
		h.client, err = address(name, value)
	case "x-server-ip":
		h.server, err = address(name, value)
	case "x-client-username", "x-authenticated-user":
		h.user = account(decoded(value))
	case "x-authenticated-groups":
		for g := range strings.SplitSeq(decoded(value), ",") {
			if strings.Contains(g, "=") && !strings.Contains(g, "://") {
				continue // the rest of a distinguished name
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
		return a, bad("%s: %.60q is not an address", name, value)
	}
	return a.Unmap().WithZone(""), nil
}

// decoded undoes the base64 in which names may be written
// (draft-stecher-icap-subid, 3.4): what decodes to a name is one.
func decoded(value []byte) string {
	plain := string(value)
	if plain == "-" {
		return ""
	}
	b, err := base64.StdEncoding.Strict().DecodeString(plain)
	if err != nil || len(b) == 0 || !utf8.Valid(b) || strings.ContainsFunc(string(b), func(r rune) bool { return !unicode.IsPrint(r) }) {
		return plain
	}
	return string(b)
}

// account is the name of a user or group in a URI such as
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

// parse reads a value such as "req-hdr=0, res-hdr=137, res-body=296".
func (e *encapsulated) parse(value string) error {
	*e = encapsulated{present: true, req: -1, res: -1}
	at, open := 0, (*int)(nil) // the head whose length is not known
	ended := false
	for part := range strings.SplitSeq(value, ",") {
		name, offset, ok := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.ParseUint(offset, 10, 31)
		switch {
		case !ok || err != nil || ended:
			return bad("malformed Encapsulated: %.80q", value)
		case int(n) > maxHeads:
			return &fault{413, fmt.Sprintf("HTTP heads of %d bytes; at most %d are taken", n, maxHeads)}
		case open == nil && n != 0, open != nil && int(n) <= at:
			return bad("offsets in Encapsulated that do not ascend from 0: %.80q", value)
		case open != nil:
			*open = int(n) - at
		}
		at = int(n)
		switch strings.ToLower(name) {
		case "req-hdr":
			if e.req >= 0 || e.res >= 0 {
				return bad("Encapsulated in a wrong order: %.80q", value)
			}
			open = &e.req
		case "res-hdr":
			if e.res >= 0 {
				return bad("Encapsulated in a wrong order: %.80q", value)
			}
			open = &e.res
		case "req-body":
			e.body, ended = true, true
		case "res-body":
			e.body, e.forAnswer, ended = true, true, true
		case "opt-body", "null-body":
			ended = true
		default:
			return bad("Encapsulated names %.20q", name)
		}
		if !ended {
			*open = 0 // until the next offset
		}
	}
	if !ended {
		return bad("Encapsulated does not end with a body or null-body: %.80q", value)
	}
	return nil
}

// httpRequest reads an encapsulated request head into q.
func (c *conn) httpRequest(raw []byte, q *message.Request) error {
	c.src.Reset(raw)
	c.http.Reset(&c.src)
	if err := c.http.ReadRequest(q); err != nil {
		return unexpected(err)
	}
	return c.whole("request")
}

// httpResponse reads an encapsulated response head into s.
func (c *conn) httpResponse(raw []byte, s *message.Response, method string) error {
	c.src.Reset(raw)
	c.http.Reset(&c.src)
	if err := c.http.ReadResponse(s, method); err != nil {
		return unexpected(err)
	}
	return c.whole("response")
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// whole says whether the head fills the length that Encapsulated gives it.
func (c *conn) whole(what string) error {
	if n := len(c.http.Buffered()) + c.src.Len(); n > 0 {
		return bad("the HTTP %s head is %d bytes shorter than Encapsulated says", what, n)
	}
	return nil
}
