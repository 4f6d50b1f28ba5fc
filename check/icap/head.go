//go:build !small

package icap

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"

	httpmessage "shuultuur/lib/message"
)

// between are fields that scanners do not get: they concern the connection, or are a secret
// between client and gateway.
var between = []string{"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Proxy-Authenticate", "TE", "Trailer", "Transfer-Encoding", "Upgrade"}

// appendHead appends the head of an ICAP request and the HTTP heads that it encapsulates. A
// preview of -1 means none.
func appendHead(dst []byte, s *server, o *options, m *message, preview int, clients bool) []byte {
	req := appendRequest(nil, m)
	var res []byte
	if m.method == respmod {
		res = appendResponse(nil, m)
	}
	dst = append(append(append(append(dst, m.method...), ' '), s.url...), " ICAP/1.0\r\nHost: "...)
	dst = append(append(dst, s.address...), "\r\nUser-Agent: Shuultuur\r\nAllow: 204\r\n"...)
	t := m.t
	tell := func(name, value string) {
		if value != "" && (clients || slices.Contains(o.include, strings.ToLower(name))) {
			dst = append(append(append(append(dst, name...), ": "...), value...), "\r\n"...)
		}
	}
	if t.Client.Addr.IsValid() {
		tell("X-Client-IP", t.Client.Addr.String())
	}
	if t.Server.IsValid() {
		tell("X-Server-IP", t.Server.String())
	}
	if t.Client.User != "" { // base64 of a URI (draft-stecher-icap-subid section 3.4)
		tell("X-Authenticated-User", base64.StdEncoding.EncodeToString([]byte("Local://"+t.Client.User)))
		tell("X-Client-Username", line(t.Client.User))
	}
	if len(t.Client.Groups) > 0 {
		groups := make([]string, len(t.Client.Groups))
		for i, g := range t.Client.Groups {
			groups[i] = "Local://" + strings.ReplaceAll(g, ",", " ")
		}
		tell("X-Authenticated-Groups", base64.StdEncoding.EncodeToString([]byte(strings.Join(groups, ","))))
	}
	if preview >= 0 {
		dst = strconv.AppendInt(append(dst, "Preview: "...), int64(preview), 10)
		dst = append(dst, "\r\n"...)
	}
	dst = append(dst, "Encapsulated: req-hdr=0, "...)
	at := len(req)
	if res != nil {
		dst = strconv.AppendInt(append(dst, "res-hdr="...), int64(at), 10)
		dst = append(dst, ", "...)
		at += len(res)
	}
	switch {
	case m.body == nil:
		dst = append(dst, "null-body="...)
	case res != nil:
		dst = append(dst, "res-body="...)
	default:
		dst = append(dst, "req-body="...)
	}
	dst = strconv.AppendInt(dst, int64(at), 10)
	return append(append(append(dst, "\r\n\r\n"...), req...), res...)
}

// line returns s without bytes that would end a line.
func line(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, s)
}

// appendRequest appends the request head, with the absolute URL.
func appendRequest(dst []byte, m *message) []byte {
	method, fields := "GET", httpmessage.Fields(nil)
	if q := m.t.Request; q != nil {
		method, fields = q.Method, q.Fields
	}
	m.target = strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f {
			return -1
		}
		return r
	}, m.t.URL)
	if m.target == "" {
		m.target = "http://" + m.t.Host + "/"
	}
	dst = append(append(append(append(dst, method...), ' '), m.target...), " HTTP/1.1\r\n"...)
	if !fields.Has("Host") {
		dst = append(append(append(dst, "Host: "...), line(m.t.Host)...), "\r\n"...)
	}
	coded := m.method == reqmod && m.body != nil && m.body.Head().Coded()
	return append(appendFields(dst, fields, coded), "\r\n"...)
}

// appendResponse appends the response head.
func appendResponse(dst []byte, m *message) []byte {
	status, fields := 200, httpmessage.Fields(nil)
	if s := m.t.Response; s != nil && s.Status >= 200 {
		status, fields = s.Status, s.Fields
	}
	dst = strconv.AppendInt(append(dst, "HTTP/1.1 "...), int64(status), 10)
	dst = append(append(append(dst, ' '), http.StatusText(status)...), "\r\n"...)
	coded := m.body != nil && m.body.Head().Coded()
	return append(appendFields(dst, fields, coded), "\r\n"...)
}

// appendFields appends the fields that a scanner may see. coded says that the body had a
// content coding, which was removed for the scanner.
func appendFields(dst []byte, fields httpmessage.Fields, coded bool) []byte {
next:
	for _, f := range fields {
		if len(f.Name) == 0 || bytes.ContainsAny(f.Name, "\r\n: ") || bytes.ContainsAny(f.Value, "\r\n\x00") {
			continue
		}
		if coded && (httpmessage.EqualName(f.Name, "Content-Encoding") || httpmessage.EqualName(f.Name, "Content-Length") || httpmessage.EqualName(f.Name, "ETag")) {
			continue
		}
		for _, name := range between {
			if httpmessage.EqualName(f.Name, name) {
				continue next
			}
		}
		dst = append(append(append(append(dst, f.Name...), ": "...), f.Value...), "\r\n"...)
	}
	return dst
}
