package icap

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"shuultuur/lib/message"
	wire "shuultuur/lib/message/icap"
	"shuultuur/lib/setting"
)

// idField has the ID of a request in the answer to REQMOD. A proxy that returns it in
// RESPMOD says which request was answered, which nothing else does if several clients
// behind one address ask for the same.
const idField = "X-Shuultuur-ID"

// nameFields are the fields, in lower case, in which the proxy names users and their groups.
type nameFields struct {
	users, groups []string
	shown         string // all, as they are written
}

// readNameFields reads the names of fields in the settings.
func readNameFields(cfg *Config) (*nameFields, error) {
	f := &nameFields{users: cfg.Users, groups: cfg.Groups}
	if len(f.users) == 0 {
		f.users = []string{"X-Client-Username", "X-Authenticated-User"}
	}
	if len(f.groups) == 0 {
		f.groups = []string{"X-Authenticated-Groups"}
	}
	f.shown = strings.Join(slices.Concat(f.users, f.groups), ", ")
	for key, names := range map[string]*[]string{"users": &f.users, "groups": &f.groups} {
		all := make([]string, len(*names))
		for i, n := range *names {
			if all[i] = strings.ToLower(n); strings.Trim(all[i], "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" || n == "" {
				return nil, setting.At(fmt.Sprintf("%s[%d]", key, i), fmt.Errorf("%q is not the name of a field, such as X-Client-Username", n))
			}
		}
		*names = all
	}
	return f, nil
}

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
	names          *nameFields
	users, groups  []string // values of the fields that name them
	authorization  []byte

	parts wire.Encapsulated
}

// read reads the next head. The error is io.EOF if the connection ended between
// requests.
func (h *head) read(r *bufio.Reader) error {
	*h = head{preview: -1, names: h.names, users: h.users[:0], groups: h.groups[:0], parts: wire.Encapsulated{Req: -1, Res: -1}}
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
		if line, err = unfold(r, line); err != nil {
			return err
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

// unfold appends the lines that continue a field (RFC 3507 takes its fields from RFC 2616).
func unfold(r *bufio.Reader, line []byte) ([]byte, error) {
	for n := 0; ; n++ {
		next, err := r.Peek(1) // a line follows every field
		if err != nil || next[0] != ' ' && next[0] != '\t' {
			return line, nil
		}
		line = bytes.Clone(line)
		more, err := wire.ReadLine(r)
		switch {
		case err != nil:
			return nil, wire.Unexpected(err)
		case n == wire.MaxFields || len(line)+len(more) > wire.MaxLine:
			return nil, wire.Bad("a field of more than %d lines or %d bytes", wire.MaxFields, wire.MaxLine)
		}
		line = append(append(line, ' '), bytes.Trim(more, " \t")...)
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
		h.client, err = address(name, value)
		if at, e := netip.ParseAddrPort(string(value)); e == nil {
			h.port = strconv.Itoa(int(at.Port()))
		}
	case "x-client-port":
		h.port = string(value)
	case "x-shuultuur-id":
		h.id = string(value)
	case "x-server-ip":
		h.server, err = address(name, value)
	case "proxy-authorization":
		if h.authorization == nil { // the first counts, as in HTTP
			h.authorization = bytes.Clone(value)
		}
	default:
		switch text := string(value); {
		case text == "" || text == "-":
		case slices.Contains(h.names.users, name):
			h.users = append(h.users, text)
		case slices.Contains(h.names.groups, name):
			h.groups = append(h.groups, text)
		}
	}
	return err
}

// address reads an address. Some proxies write a port behind it, brackets around it, a zone or the
// domain of a route after "%", or further addresses: those of the proxies between.
func address(name string, value []byte) (netip.Addr, error) {
	text, _, _ := strings.Cut(string(value), ",")
	if text = strings.TrimSpace(text); text == "-" || text == "" {
		return netip.Addr{}, nil
	}
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap().WithZone(""), nil
	}
	text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	plain, _, _ := strings.Cut(text, "%")
	a, err := netip.ParseAddr(plain)
	if err != nil {
		return a, wire.Bad("%s: %.60q is not an address", name, value)
	}
	return a.Unmap(), nil
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
