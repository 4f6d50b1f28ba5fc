package engine

import (
	"bytes"
	"strings"

	"shuultuur/check/signature/rule"
)

// Anomalies returns what is odd about the head that one side sent, by the names
// of app-layer-event.
func (h *HTTP) Anomalies(dir rule.Direction) (odd []string) {
	s := &h.Sides[index(dir)]
	side := "request"
	if dir == rule.ToServer {
		odd = h.oddRequest(s)
	} else {
		side = "response"
		odd = oddResponse(s)
	}
	if repeats(s.Headers) {
		odd = append(odd, "http."+side+"_header_repetition")
	}
	return odd
}

func (h *HTTP) oddRequest(s *Side) (odd []string) {
	if string(s.Protocol) == "HTTP/0.9" && len(s.Headers) > 0 {
		odd = append(odd, "http.request_line_missing_protocol")
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
	if a, ok := s.Get("Authorization"); ok {
		scheme, _, _ := strings.Cut(strings.ToLower(string(a)), " ")
		if scheme != "basic" && scheme != "digest" && scheme != "bearer" {
			odd = append(odd, "http.request_auth_unrecognized")
		}
	}
	return odd
}

// ambiguous says whether a target names another host than the field Host.
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

// knownCoding says whether Suricata knows a content coding.
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
	if v, ok := s.Get("Content-Type"); ok && bytes.HasPrefix(bytes.ToLower(v), []byte("multipart/byteranges")) {
		odd = append(odd, "http.response_multipart_byteranges")
	}
	if _, ok := s.Get("Content-Length"); ok && string(s.Code) == "101" {
		odd = append(odd, "http.switching_proto_with_content_length")
	}
	return odd
}

// repeats says whether a field is there twice.
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
