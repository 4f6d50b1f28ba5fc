package traffic

import (
	"bytes"
	"strconv"
	"strings"

	"shuultuur/lib/ascii"
	"shuultuur/lib/suricata/rule"
)

// Anomalies returns the anomalies in the head that one side sent, by their names in
// app-layer-event.
func (h *HTTP) Anomalies(dir rule.Direction) (odd []string) {
	s := &h.Sides[dir.Index()]
	side := "request"
	if dir == rule.ToServer {
		odd = h.oddRequest(s)
	} else {
		side = "response"
		odd = oddResponse(s)
	}
	return h.oddFields(s, side, odd)
}

// maxHeaders is the number of fields above which a message has too many.
const maxHeaders = 1024

// oddFields adds the anomalies in the fields of a request or a response.
func (h *HTTP) oddFields(s *Side, side string, odd []string) []string {
	if repeats(s.Headers) {
		odd = append(odd, "http."+side+"_header_repetition")
	}
	if len(s.Headers) > maxHeaders {
		odd = append(odd, "http."+side+"_too_many_headers")
	}
	if len(s.RawHead) > 0 && (s.RawHead[0] == ' ' || s.RawHead[0] == '\t') {
		odd = append(odd, "http.invalid_"+side+"_field_folding")
	}
	var length []byte
	colon, name, twice := false, false, false
	for i := range s.Headers {
		x := &s.Headers[i]
		switch {
		case h.Two:
		case x.Name == nil:
			colon = true
		case len(x.Name) > 0 && !ascii.IsToken(x.Name):
			name = true
		}
		if x.is("Content-Length") {
			twice = twice || length != nil && !bytes.Equal(length, x.Value)
			length = x.Value
		}
	}
	if colon {
		odd = append(odd, "http."+side+"_field_missing_colon")
	}
	if name {
		odd = append(odd, "http."+side+"_header_invalid")
	}
	if length != nil && bytes.IndexAny(length, "0123456789") < 0 {
		odd = append(odd, "http.invalid_content_length_field_in_"+side)
	}
	if twice {
		odd = append(odd, "http.duplicate_content_length_field_in_"+side)
	}
	return odd
}

// oddLine adds the anomalies in a request line.
func oddLine(s *Side, odd []string) []string {
	line := s.Line
	if len(line) > 0 && (line[0] == ' ' || line[0] == '\t') {
		odd = append(odd, "http.request_line_leading_whitespace")
		line = bytes.TrimLeft(line, " \t")
	}
	if n := len(s.Method); n < len(line) && bytes.HasPrefix(line, s.Method) && line[n] != ' ' {
		odd = append(odd, "http.method_delim_non_compliant")
	}
	if n := len(line) - len(s.Protocol) - 1; len(s.Protocol) > 0 && n > 0 && bytes.HasSuffix(line, s.Protocol) && line[n] != ' ' {
		odd = append(odd, "http.uri_delim_non_compliant")
	}
	named := authority(s.Target)
	if named == nil && string(s.Method) == "CONNECT" {
		named = s.Target
	}
	if named == nil {
		return odd
	}
	host, port, ok := bytes.Cut(named, []byte(":"))
	if end := bytes.IndexByte(named, ']'); len(named) > 0 && named[0] == '[' && end > 0 {
		host, port, ok = named[:end+1], bytes.TrimPrefix(named[end+1:], []byte(":")), end+1 < len(named)
	}
	if len(host) == 0 || bytes.ContainsAny(host, " \t/@\\") {
		odd = append(odd, "http.request_uri_host_invalid")
	}
	if n, err := strconv.ParseUint(string(port), 10, 16); ok && (err != nil || n == 0) {
		odd = append(odd, "http.invalid_authority_port")
	}
	return odd
}

func (h *HTTP) oddRequest(s *Side) (odd []string) {
	if string(s.Protocol) == "HTTP/0.9" && len(s.Headers) > 0 {
		odd = append(odd, "http.request_line_missing_protocol")
	}
	if !h.Two {
		odd = oddLine(s, odd)
	}
	if !h.Two && encodedTwice(s.Target) {
		odd = append(odd, "http.double_encoded_uri")
	}
	host, ok := s.Get("Host")
	switch {
	case !ok && string(s.Protocol) == "HTTP/1.1" && string(s.Method) != "CONNECT":
		odd = append(odd, "http.missing_host_header")
	case ok && bytes.ContainsAny(host, " \t/@"):
		odd = append(odd, "http.request_header_host_invalid")
	case ok && !h.Two && ambiguous(s.Target, host):
		odd = append(odd, "http.host_header_ambiguous")
	}
	if v, ok := s.Get("Transfer-Encoding"); ok && !h.Two && !strings.EqualFold(string(bytes.TrimSpace(v)), "chunked") {
		odd = append(odd, "http.invalid_transfer_encoding_value_in_request")
	}
	if a, ok := s.Get("Authorization"); ok {
		scheme, _, _ := strings.Cut(strings.ToLower(string(a)), " ")
		if scheme != "basic" && scheme != "digest" && scheme != "bearer" {
			odd = append(odd, "http.request_auth_unrecognized")
		}
	}
	return odd
}

// encodedTwice reports whether a target has an escape whose percent sign is escaped.
func encodedTwice(target []byte) bool {
	for rest := target; ; {
		i := bytes.Index(rest, []byte("%25"))
		if i < 0 {
			return false
		}
		if rest = rest[i+3:]; len(rest) >= 2 && ascii.Unhex(rest[0]) >= 0 && ascii.Unhex(rest[1]) >= 0 {
			return true
		}
	}
}

// ambiguous reports whether a target names another host than the Host field.
func ambiguous(target, host []byte) bool {
	i := bytes.Index(target, []byte("://"))
	if i < 0 || bytes.ContainsAny(target[:i], "/?") {
		return false
	}
	named := target[i+3:]
	if i := bytes.IndexAny(named, "/?#"); i >= 0 {
		named = named[:i]
	}
	named = named[bytes.IndexByte(named, '@')+1:]
	bare := func(b []byte) []byte { return bytes.TrimSuffix(b, []byte(":80")) }
	return !bytes.EqualFold(bare(named), bare(host))
}

// knownCoding reports whether Suricata knows a content coding.
func knownCoding(name string) bool {
	switch name {
	case "gzip", "x-gzip", "deflate", "x-deflate", "br", "lzma", "inflate", "none":
		return true
	}
	return false
}

func oddResponse(s *Side) (odd []string) {
	if v, ok := s.Get("Content-Encoding"); ok {
		for coding := range strings.SplitSeq(strings.ToLower(string(v)), ",") {
			if !knownCoding(strings.TrimSpace(coding)) {
				odd = append(odd, "http.abnormal_ce_header")
				break
			}
		}
	}
	if v, ok := s.Get("Content-Type"); ok && len(v) >= len(byteRanges) && strings.EqualFold(string(v[:len(byteRanges)]), byteRanges) {
		odd = append(odd, "http.response_multipart_byteranges")
	}
	if _, ok := s.Get("Content-Length"); ok && string(s.Code) == "101" {
		odd = append(odd, "http.switching_proto_with_content_length")
	}
	if v, ok := s.Get("Content-Range"); ok && string(s.Code) == "206" && !isRange(v) {
		odd = append(odd, "http.range_invalid")
	}
	if v, ok := s.Get("Transfer-Encoding"); ok {
		low := strings.ToLower(string(bytes.TrimSpace(v)))
		if low != "chunked" && strings.Contains(low, "chunked") {
			odd = append(odd, "http.response_abnormal_transfer_encoding")
		}
		if old := string(s.Protocol); strings.Contains(low, "chunked") && (old == "HTTP/1.0" || old == "HTTP/0.9") {
			odd = append(odd, "http.response_chunked_old_proto")
		}
	}
	if p := string(s.Protocol); s.Line != nil && p != "HTTP/1.1" && p != "HTTP/1.0" && p != "HTTP/0.9" && p != "HTTP/2" {
		odd = append(odd, "http.response_invalid_protocol")
	}
	if n, err := strconv.Atoi(string(s.Code)); s.Line != nil && (err != nil || n < 100 || n > 999) {
		odd = append(odd, "http.response_invalid_status")
	}
	return odd
}

// byteRanges begins the type of a response with several parts of a body.
const byteRanges = "multipart/byteranges"

// isRange reports whether a Content-Range is possible (RFC 9110 section 14.4). An unknown
// length is valid.
func isRange(v []byte) bool {
	rest, ok := bytes.CutPrefix(bytes.TrimSpace(v), []byte("bytes "))
	span, size, found := bytes.Cut(rest, []byte("/"))
	if !ok || !found {
		return false
	}
	number := func(b []byte) (uint64, bool) {
		n, err := strconv.ParseUint(string(b), 10, 63)
		return n, err == nil
	}
	whole, known := number(size)
	if !known && string(size) != "*" {
		return false
	}
	a, b, _ := bytes.Cut(span, []byte("-"))
	from, ok1 := number(a)
	to, ok2 := number(b)
	return string(span) == "*" || ok1 && ok2 && from <= to && (!known || to < whole)
}

// repeats reports whether a field occurs twice.
func repeats(hs []Header) bool {
	for i := range hs {
		for j := range i {
			if len(hs[j].Name) == len(hs[i].Name) && bytes.EqualFold(hs[j].Name, hs[i].Name) {
				return true
			}
		}
	}
	return false
}
