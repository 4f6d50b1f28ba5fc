package traffic

import (
	"slices"
	"strings"
	"testing"

	"shuultuur/lib/suricata/rule"
)

// TestOddMessagesHaveSuricatasNames: anomalies of heads have the names used by the rules that
// come with Suricata (http-events.rules).
func TestOddMessagesHaveSuricatasNames(t *testing.T) {
	for _, x := range []struct {
		dir    rule.Direction
		line   string // method, target, protocol; or protocol, code
		fields string
		want   string
	}{
		{rule.ToServer, "GET|/|HTTP/1.1", "Host: a", ""},
		{rule.ToServer, "GET|http://a:80/|HTTP/1.1", "Host: a", ""},
		{rule.ToServer, "CONNECT|[::1]:443|HTTP/1.1", "Host: a", ""},
		{rule.ToServer, "GET|/%2541|HTTP/1.1", "Host: a", "http.double_encoded_uri"},
		{rule.ToServer, "GET|/?a=%252f|HTTP/1.1", "Host: a", "http.double_encoded_uri"},
		{rule.ToServer, "GET|/%25|HTTP/1.1", "Host: a", ""},
		{rule.ToServer, "GET|/%25zz%4|HTTP/1.1", "Host: a", ""},
		{rule.ToServer, "GET|/|HTTP/1.1", "X: 1", "http.missing_host_header"},
		{rule.ToServer, "GET|http://a:0/|HTTP/1.1", "Host: a:0", "http.invalid_authority_port"},
		{rule.ToServer, "CONNECT|a:99999|HTTP/1.1", "Host: a", "http.invalid_authority_port"},
		{rule.ToServer, "GET|/|HTTP/1.1", "Host: a\nContent-Length: 1\nContent-Length: 2", "http.request_header_repetition http.duplicate_content_length_field_in_request"},
		{rule.ToServer, "GET|/|HTTP/1.1", "Host: a\nX Y: 1", "http.request_header_invalid"},
		{rule.ToServer, "GET|/|HTTP/1.1", "Host: a\nnothing", "http.request_field_missing_colon"},
		{rule.ToClient, "HTTP/1.1|200", "A: b", ""},
		{rule.ToClient, "HTTP/2.7|200", "A: b", "http.response_invalid_protocol"},
		{rule.ToClient, "HTTP/1.1|20", "A: b", "http.response_invalid_status"},
		{rule.ToClient, "HTTP/1.0|200", "Transfer-Encoding: chunked", "http.response_chunked_old_proto"},
		{rule.ToClient, "HTTP/1.1|200", "Transfer-Encoding: xchunked", "http.response_abnormal_transfer_encoding"},
		{rule.ToClient, "HTTP/1.1|206", "Content-Range: bytes 0-9/5", "http.range_invalid"},
		{rule.ToClient, "HTTP/1.1|206", "Content-Range: bytes 0-9/*", ""},
	} {
		h := &HTTP{}
		s := &h.Sides[x.dir.Index()]
		f := strings.Split(x.line, "|")
		s.Line = []byte(strings.Join(f, " "))
		if x.dir == rule.ToServer {
			s.Method, s.Target, s.Protocol = []byte(f[0]), []byte(f[1]), []byte(f[2])
		} else {
			s.Protocol, s.Code = []byte(f[0]), []byte(f[1])
		}
		for line := range strings.SplitSeq(x.fields, "\n") {
			name, value, ok := strings.Cut(line, ": ")
			field := Header{Name: []byte(name), Value: []byte(value)}
			if !ok {
				field = Header{Value: []byte(line)}
			}
			s.Headers = append(s.Headers, field)
		}
		if got := h.Anomalies(x.dir); !slices.Equal(got, strings.Fields(x.want)) {
			t.Errorf("%s with %q has the anomalies %v, want %s", x.line, x.fields, got, x.want)
		}
	}
}
