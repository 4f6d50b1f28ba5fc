package message

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// get is a request with the given field lines.
func get(lines ...string) string {
	return "GET / HTTP/1.1\r\nHost: a.example\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
}

// post is a chunked request with the given body.
func post(body string) string { return get("Transfer-Encoding: chunked") + body }

// readRequest reads one request with its body.
func readRequest(in string) (*Request, string, error) {
	var q Request
	r := NewReader(strings.NewReader(in), 0, 8<<10)
	if err := r.ReadRequest(&q); err != nil {
		return nil, "", err
	}
	if q.Body == nil {
		return &q, "", nil
	}
	body, err := io.ReadAll(q.Body)
	return &q, string(body), err
}

func readResponse(in, method string) (*Response, string, error) {
	var s Response
	r := NewReader(strings.NewReader(in), 0, 8<<10)
	if err := r.ReadResponse(&s, method); err != nil {
		return nil, "", err
	}
	if s.Body == nil {
		return &s, "", nil
	}
	body, err := io.ReadAll(s.Body)
	return &s, string(body), err
}

var refusedRequests = []struct {
	name   string
	in     string
	status int
}{
	// Two lengths.
	{"CL.TE", get("Content-Length: 13", "Transfer-Encoding: chunked") + "0\r\n\r\nSMUGGLED", 400},
	{"TE.CL", get("Transfer-Encoding: chunked", "Content-Length: 3") + "8\r\nSMUGGLED\r\n0\r\n\r\n", 400},
	{"CL 0 and TE", get("Content-Length: 0", "Transfer-Encoding: chunked") + "0\r\n\r\n", 400},
	{"CL and TE without chunked", get("Content-Length: 5", "Transfer-Encoding: identity") + "abcde", 400},
	{"CL.CL", get("Content-Length: 8", "Content-Length: 7") + "12345678", 400},
	{"CL twice the same", get("Content-Length: 8", "Content-Length: 8") + "12345678", 400},
	{"CL twice in other case", get("Content-Length: 8", "content-lengtH: 8") + "12345678", 400},
	{"CL list", get("Content-Length: 8, 8") + "12345678", 400},
	{"CL list differing", get("Content-Length: 8,7") + "12345678", 400},
	{"CL plus", get("Content-Length: +1") + "a", 400},
	{"CL minus", get("Content-Length: -1") + "a", 400},
	{"CL minus zero", get("Content-Length: -0"), 400},
	{"CL hex", get("Content-Length: 0x1") + "a", 400},
	{"CL underscore", get("Content-Length: 1_0") + "aaaaaaaaaa", 400},
	{"CL fraction", get("Content-Length: 1.0") + "a", 400},
	{"CL exponent", get("Content-Length: 1e1") + "a", 400},
	{"CL empty", get("Content-Length:"), 400},
	{"CL blank", get("Content-Length: \t "), 400},
	{"CL inner space", get("Content-Length: 1 0") + "aaaaaaaaaa", 400},
	{"CL quoted", get(`Content-Length: "1"`) + "a", 400},
	{"CL semicolon", get("Content-Length: 1;a") + "a", 400},
	{"CL overflow", get("Content-Length: 18446744073709551617") + "a", 400},
	{"CL vertical tab", get("Content-Length: 1\v") + "a", 400},
	{"CL other digits", get("Content-Length: \u0661") + "a", 400},

	// Transfer codings that hops disagree about.
	{"TE xchunked", get("Transfer-Encoding: xchunked"), 501},
	{"TE gzip", get("Transfer-Encoding: gzip"), 501},
	{"TE identity", get("Transfer-Encoding: identity"), 501},
	{"TE gzip, chunked", get("Transfer-Encoding: gzip, chunked"), 501},
	{"TE chunked, identity", get("Transfer-Encoding: chunked, identity"), 400},
	{"TE chunked, gzip", get("Transfer-Encoding: chunked, gzip"), 400},
	{"TE chunked, chunked", get("Transfer-Encoding: chunked, chunked"), 400},
	{"TE identity, chunked", get("Transfer-Encoding: identity, chunked"), 501},
	{"TE twice", get("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), 400},
	{"TE then identity", get("Transfer-Encoding: chunked", "Transfer-Encoding: identity"), 400},
	{"TE identity then chunked", get("Transfer-Encoding: identity", "Transfer-Encoding: chunked"), 400},
	{"TE then cow", get("Transfer-Encoding: chunked", "Transfer-encoding: cow"), 400},
	{"TE vertical tab", get("Transfer-Encoding: chunked\x0b"), 400},
	{"TE vertical tab before", get("Transfer-Encoding: \x0bchunked"), 400},
	{"TE form feed", get("Transfer-Encoding: chunked\x0c"), 400},
	{"TE NUL", get("Transfer-Encoding: chunked\x00"), 400},
	{"TE bare CR", get("Transfer-Encoding: chunked\r, identity"), 400},
	{"TE space before colon", get("Transfer-Encoding : chunked"), 400},
	{"TE tab before colon", get("Transfer-Encoding\t: chunked"), 400},
	{"TE vertical tab before colon", get("Transfer-Encoding\x0b: chunked"), 400},
	{"TE space before name", get("X: y", " Transfer-Encoding: chunked"), 400},
	{"TE tab before name", get("X: y", "\tTransfer-Encoding: chunked"), 400},
	{"TE folded", get("Transfer-Encoding:", " chunked"), 400},
	{"TE folded with tab", get("Transfer-Encoding:", "\tchunked"), 400},
	{"TE after bare CR", get("X: X\rTransfer-Encoding: chunked"), 400},
	{"TE after bare LF", get("X: X\nTransfer-Encoding: chunked"), 400},
	{"TE after CR CR LF", get("X: X\r\r\nTransfer-Encoding: chunked"), 400},
	{"TE quoted", get(`Transfer-Encoding: "chunked"`), 400},
	{"TE apostrophes", get("Transfer-Encoding: 'chunked'"), 501},
	{"TE parameter", get("Transfer-Encoding: chunked;a=b"), 400},
	{"TE trailing comma", get("Transfer-Encoding: chunked,"), 400},
	{"TE leading comma", get("Transfer-Encoding: ,chunked"), 400},
	{"TE empty", get("Transfer-Encoding:"), 400},
	{"TE two words", get("Transfer-Encoding: identity chunked"), 400},
	{"TE non-ASCII s", get("Transfer-Encoding: chunKed\u017f"), 400},
	{"TE Kelvin sign", get("Transfer-Encoding: chun\u212aed"), 400},
	{"TE non-breaking space", get("Transfer-Encoding:\u00a0chunked"), 400},
	{"TE in HTTP/1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
	{"TE in CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
	{"CL in CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 400},

	// Field lines.
	{"folded", get("X: a", " b"), 400},
	{"folded first line", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400},
	{"tab before first field", "GET / HTTP/1.1\r\n\tX: y\r\nHost: a\r\n\r\n", 400},
	{"space before colon", get("X : a"), 400},
	{"empty name", get(": a"), 400},
	{"no colon", get("X"), 400},
	{"space in name", get("X Y: a"), 400},
	{"slash in name", get("X/Y: a"), 400},
	{"parenthesis in name", get("X(Y): a"), 400},
	{"non-ASCII name", get("X\u00e9: a"), 400},
	{"NUL in name", get("X\x00: a"), 400},
	{"NUL in value", get("X: a\x00b"), 400},
	{"DEL in value", get("X: a\x7fb"), 400},
	{"escape in value", get("X: a\x1bb"), 400},
	{"NUL in a long value", get("X: abcdefghijklmnopqrstuvwxyz\x00b"), 400},
	{"bare CR in value", get("X: a\rb"), 400},
	{"bare LF between fields", "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400},
	{"bare LF after request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", 400},
	{"all lines bare LF", "GET / HTTP/1.1\nHost: a\n\n", 400},
	{"empty line bare LF", "GET / HTTP/1.1\r\nHost: a\r\n\nX: b\r\n\r\n", 400},
	{"empty line bare CR", "GET / HTTP/1.1\r\nHost: a\r\n\rX: b\r\n\r\n", 400},
	{"two CR", "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", 400},
	{"too many fields", get(strings.TrimSuffix(strings.Repeat("X: y\r\n", maxFields), "\r\n")), 431},
	{"head too large", get("X: " + strings.Repeat("x", 9000)), 431},
	{"head too large, not ended", "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 9000), 431},
	{"request line too long", "GET /" + strings.Repeat("x", 9000), 414},
	{"expectation unknown", get("Expect: 200-ok"), 417},
	{"expectations", get("Expect: 100-continue, x"), 417},

	// Host.
	{"no host", "GET / HTTP/1.1\r\nX: y\r\n\r\n", 400},
	{"no field at all", "GET / HTTP/1.1\r\n\r\n", 400},
	{"no host, absolute target", "GET http://a/ HTTP/1.1\r\n\r\n", 400},
	{"two hosts", get("Host: b.example"), 400},
	{"two hosts the same", get("Host: a.example"), 400},
	{"two hosts in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400},
	{"two hosts, absolute target", "GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
	{"host with path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
	{"host with user", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400},
	{"host with space", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
	{"host list", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400},
	{"host with scheme", "GET / HTTP/1.1\r\nHost: http://a\r\n\r\n", 400},
	{"host with query", "GET / HTTP/1.1\r\nHost: a?b\r\n\r\n", 400},
	{"host with fragment", "GET / HTTP/1.1\r\nHost: a#b\r\n\r\n", 400},
	{"host with backslash", "GET / HTTP/1.1\r\nHost: a\\b\r\n\r\n", 400},
	{"host percent-encoded", "GET / HTTP/1.1\r\nHost: %61\r\n\r\n", 400},
	{"host not ASCII", "GET / HTTP/1.1\r\nHost: \u00e9.example\r\n\r\n", 400},
	{"host with bad port", "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", 400},
	{"host with two ports", "GET / HTTP/1.1\r\nHost: a:80:81\r\n\r\n", 400},
	{"host with signed port", "GET / HTTP/1.1\r\nHost: a:+80\r\n\r\n", 400},
	{"host with huge port", "GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n", 400},
	{"host with port 0", "GET / HTTP/1.1\r\nHost: a:0\r\n\r\n", 400},
	{"port without host", "GET / HTTP/1.1\r\nHost: :80\r\n\r\n", 400},
	{"address without brackets", "GET / HTTP/1.1\r\nHost: ::1\r\n\r\n", 400},
	{"brackets open", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400},
	{"brackets empty", "GET / HTTP/1.1\r\nHost: []\r\n\r\n", 400},
	{"brackets with name", "GET / HTTP/1.1\r\nHost: [a.example]\r\n\r\n", 400},
	{"brackets with IPv4", "GET / HTTP/1.1\r\nHost: [127.0.0.1]\r\n\r\n", 400},
	{"brackets with zone", "GET / HTTP/1.1\r\nHost: [fe80::1%25lo]\r\n\r\n", 400},
	{"brackets and rest", "GET / HTTP/1.1\r\nHost: [::1]a\r\n\r\n", 400},
	{"invalid host, absolute target", "GET http://a/ HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
	{"invalid host, CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a b\r\n\r\n", 400},

	// Request line.
	{"two spaces before target", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"two spaces after target", "GET /  HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"tab for space", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"space at the end", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400},
	{"space at the beginning", " GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"space in target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"no target", "GET HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"HTTP/0.9", "GET /\r\nHost: a\r\n\r\n", 400},
	{"HTTP/0.9 alone", "GET /\r\n\r\n", 400},
	{"bad method", "G(T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"no method", "/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"long method", strings.Repeat("X", 33) + " / HTTP/1.1\r\nHost: a\r\n\r\n", 501},
	{"lower-case version", "GET / http/1.1\r\nHost: a\r\n\r\n", 400},
	{"mixed-case version", "GET / Http/1.1\r\nHost: a\r\n\r\n", 400},
	{"HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
	{"HTTP/0.9 written", "GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505},
	{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
	{"HTTP/11", "GET / HTTP/11\r\nHost: a\r\n\r\n", 400},
	{"HTTP/1.10", "GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400},
	{"HTTP/1", "GET / HTTP/1\r\nHost: a\r\n\r\n", 400},
	{"control byte in target", "GET /a\x01b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"DEL in target", "GET /a\x7fb HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"CR in target", "GET /a\rb HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"relative target", "GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"authority target", "GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"asterisk with GET", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"asterisk and more", "OPTIONS *a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"URL without host", "GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"URL with port only", "GET http://:80/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"URL without slashes", "GET http:a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"URL with one slash", "GET http:/a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"URL with backslashes", "GET http:\\\\a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"URL with backslash after host", "GET http://a\\@b/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"URL without scheme", "GET ://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"scheme begins with digit", "GET 1http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"URN", "GET urn:a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"fragment alone", "GET #b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"fragment in CONNECT", "CONNECT a:443#b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"fragment before the host", "GET http://#b@a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"non-ASCII host", "GET http://\u00e9/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"two users", "GET http://u@v@a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"backslash in user", "GET http://u\\@a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"user without host", "GET http://u@/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"no Host in HTTP/1.2", "GET / HTTP/1.2\r\n\r\n", 400},
	{"CONNECT without port", "CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"CONNECT with empty port", "CONNECT a: HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"CONNECT without host", "CONNECT :443 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"CONNECT with URL", "CONNECT http://a:443/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"CONNECT with path", "CONNECT a:443/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"CONNECT with user", "CONNECT u@a:443 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"CONNECT with path only", "CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"too many empty lines", strings.Repeat("\r\n", 5) + get(), 400},
	{"empty line bare LF before", "\n" + get(), 400},
	{"empty line bare CR before", "\r" + get(), 400},
	{"TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 400},
	{"HTTP/2 frame", "\x00\x00\x12\x04\x00\x00\x00\x00\x00", 400},

	// Chunks.
	{"chunk size empty", post("\r\nabc\r\n0\r\n\r\n"), 400},
	{"chunk size signed", post("+3\r\nabc\r\n0\r\n\r\n"), 400},
	{"chunk size negative", post("-3\r\nabc\r\n0\r\n\r\n"), 400},
	{"chunk size 0x", post("0x3\r\nabc\r\n0\r\n\r\n"), 400},
	{"chunk size not hex", post("g\r\nabc\r\n0\r\n\r\n"), 400},
	{"chunk size underscore", post("0_3\r\nabc\r\n0\r\n\r\n"), 400},
	{"chunk size space before", post(" 3\r\nabc\r\n0\r\n\r\n"), 400},
	{"chunk size tab before", post("\t3\r\nabc\r\n0\r\n\r\n"), 400},
	{"chunk size space after", post("3 \r\nabc\r\n0\r\n\r\n"), 400},
	{"chunk size overflow", post("10000000000000003\r\nabc\r\n0\r\n\r\n"), 400},
	{"chunk size of 64 bits", post("ffffffffffffffff\r\nabc\r\n0\r\n\r\n"), 400},
	{"chunk size with NUL", post("3\x00\r\nabc\r\n0\r\n\r\n"), 400},
	{"chunk size bare LF", post("3\nabc\r\n0\r\n\r\n"), 400},
	{"chunk size bare CR", post("3\rabc\r\n0\r\n\r\n"), 400},
	{"chunk size two CR", post("3\r\r\nabc\r\n0\r\n\r\n"), 400},
	{"chunk data too long", post("3\r\nabcd\r\n0\r\n\r\n"), 400},
	{"chunk data ends with LF", post("3\r\nabc\n0\r\n\r\n"), 400},
	{"chunk data ends with CR", post("3\r\nabc\r0\r\n\r\n"), 400},
	{"chunk data ends with nothing", post("3\r\nabc0\r\n\r\n"), 400},
	{"chunk data too short", post("3\r\nab\r\n0\r\n\r\n"), 400},
	{"last chunk bare LF", post("0\n\r\n"), 400},
	{"end bare LF", post("0\r\n\n"), 400},
	{"end bare CR", post("0\r\n\rX"), 400},
	{"extension bare LF", post("3;a\nabc\r\n0\r\n\r\n"), 400},
	{"extension with LF inside", post("3;a=\nabc\r\n0\r\n\r\n"), 400},
	{"extension with CR inside", post("3;a\rb\r\nabc\r\n0\r\n\r\n"), 400},
	{"extension empty", post("3;\r\nabc\r\n0\r\n\r\n"), 400},
	{"extension without semicolon", post("3 a\r\nabc\r\n0\r\n\r\n"), 400},
	{"extension without value", post("3;a=\r\nabc\r\n0\r\n\r\n"), 400},
	{"extension with open quote", post("3;a=\"b\r\nabc\r\n0\r\n\r\n"), 400},
	{"extension with CR LF in quotes", post("3;a=\"\r\n\"\r\nabc\r\n0\r\n\r\n"), 400},
	{"extension too long", post("3;" + strings.Repeat("a", 300) + "\r\nabc\r\n0\r\n\r\n"), 400},
	{"extension too long, not ended", post("3;" + strings.Repeat("a", 300)), 400},
	{"extensions too many", post(strings.Repeat("1;"+strings.Repeat("a", 200)+"\r\na\r\n", 100) + "0\r\n\r\n"), 400},
	{"trailer Content-Length", post("0\r\nContent-Length: 3\r\n\r\nabc"), 400},
	{"trailer Transfer-Encoding", post("0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400},
	{"trailer Host", post("0\r\nHost: b\r\n\r\n"), 400},
	{"trailer folded", post("0\r\nX: a\r\n b\r\n\r\n"), 400},
	{"trailer space before colon", post("0\r\nX : a\r\n\r\n"), 400},
	{"trailer bare LF", post("0\r\nX: a\n\n"), 400},
	{"trailer bare CR", post("0\r\nX: a\rY: b\r\n\r\n"), 400},
	{"trailer no colon", post("0\r\nGET / HTTP/1.1\r\n\r\n"), 400},
	{"trailer too many", post("0\r\n" + strings.Repeat("X: y\r\n", maxFields+1) + "\r\n"), 400},
	{"trailer too large", post("0\r\nX: " + strings.Repeat("x", 9000) + "\r\n\r\n"), 400},
}

func TestAmbiguousRequestsAreRefused(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range refusedRequests {
		if seen[c.name] {
			t.Errorf("two cases have the name %q", c.name)
		}
		seen[c.name] = true
		q, body, err := readRequest(c.in)
		var e *Error
		if !errors.As(err, &e) || e.Status != c.status {
			t.Errorf("%s: got %v, body %q, error %v, want an Error with status %d", c.name, q, body, err, c.status)
		}
	}
}

// TestRefusalDoesNotWaitForTheRest: a malformed message is refused at the first wrong byte.
// After the given bytes the connection stays open and silent.
func TestRefusalDoesNotWaitForTheRest(t *testing.T) {
	silent := errors.New("waited")
	for _, in := range []string{
		"\x16\x03\x01",
		"\n",
		"\rG",
		"GET / HTTP/1.1\nHost: a\n\n",
		"GET / HTTP/1.1\r\nHost: a\nX: y",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX",
	} {
		r := NewReader(io.MultiReader(strings.NewReader(in), iotest.ErrReader(silent)), 0, 8<<10)
		var q Request
		err := r.ReadRequest(&q)
		if err == nil {
			_, err = io.ReadAll(q.Body)
		}
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("reading %q: %v, want an Error", in, err)
		}
	}
	r := NewReader(io.MultiReader(strings.NewReader("SSH-2.0"), iotest.ErrReader(silent)), 0, 8<<10)
	var e *Error
	if err := r.ReadResponse(new(Response), "GET"); !errors.As(err, &e) || e.Status != 502 {
		t.Errorf("reading a response: %v, want an Error with status 502", err)
	}
}

func TestRequestsAreUnderstood(t *testing.T) {
	for _, c := range []struct {
		in   string
		want string
	}{
		{"GET /a?b HTTP/1.1\r\nHost: a.example\r\n\r\n",
			`GET origin "" a.example:0 /a?b 11 0`},
		{"\r\n\r\nGET / HTTP/1.1\r\nhost:a.example:81\r\n\r\n",
			`GET origin "" a.example:81 / 11 0`},
		{"GET / HTTP/1.1\r\nHost: a.example:\r\n\r\n",
			`GET origin "" a.example:0 / 11 0`},
		{"GET / HTTP/1.1\r\nHost:\r\n\r\n",
			`GET origin "" :0 / 11 0`},
		{"GET / HTTP/1.1\r\nHost: [2001:db8::1]:8080\r\n\r\n",
			`GET origin "" 2001:db8::1:8080 / 11 0`},
		{"GET / HTTP/1.0\r\n\r\n",
			`GET origin "" :0 / 10 0 close`},
		{"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
			`GET origin "" :0 / 10 0`},
		{"GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n",
			`GET origin "" a:0 / 11 0 close`},
		{"GET HTTP://A.Example:8080/x HTTP/1.1\r\nHost: other\r\n\r\n",
			`GET absolute "http" A.Example:8080 /x 11 0`},
		{"GET http://a.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
			`GET absolute "http" a.example:0 / 11 0`},
		{"GET http://a.example?q=/&r HTTP/1.1\r\nHost: a.example\r\n\r\n",
			`GET absolute "http" a.example:0 /?q=/&r 11 0`},
		{"GET https://[::1]:8443/?a HTTP/1.1\r\nHost: [::1]\r\n\r\n",
			`GET absolute "https" ::1:8443 /?a 11 0`},
		{"GET Coap+X://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
			`GET absolute "coap+x" a:0 / 11 0`},
		{"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
			`OPTIONS asterisk "" a:0 * 11 0`},
		{"OPTIONS http://a:81 HTTP/1.1\r\nHost: a\r\n\r\n",
			`OPTIONS absolute "http" a:81 * 11 0`},
		{"CONNECT a.example:443 HTTP/1.1\r\nHost: b\r\n\r\n",
			`CONNECT authority "" a.example:443  11 0`},
		{"CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\nContent-Length: 0\r\n\r\n",
			`CONNECT authority "" ::1:443  11 0`},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length:  0003 \t\r\n\r\nabcd",
			`POST origin "" a:0 / 11 3 "abc"`},
		{"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\nabcd",
			`POST origin "" a:0 / 11 3 expect "abc"`},
		{"GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
			`GET origin "" a:0 / 11 0`},
		{"POST / HTTP/1.1\r\nHost: a\r\ntransfer-encoding:\tChunked \r\n\r\n" +
			"3\r\nabc\r\n000A;x ; y = \"z\\\"\" ;w=v\r\n0123456789\r\n0;a\r\nX-Sum:  1\r\nX-Sum: 2 \r\n\r\n",
			`POST origin "" a:0 / 11 -1 "abc0123456789" X-Sum=1 X-Sum=2`},
		{"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\r\n",
			`GET origin "" a:0 / 11 0 upgrade=websocket`},
		{"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n",
			`GET origin "" a:0 / 11 0`},
		{"GET / HTTP/1.0\r\nHost: a\r\nUpgrade: x\r\nConnection: upgrade, keep-alive\r\n\r\n",
			`GET origin "" a:0 / 10 0`},
		{"BREW /pot|{}^\"<>`\\ HTTP/1.1\r\nHost: a\r\nX: caf\xe9 \t tab\r\nY:\r\n\r\n",
			"BREW origin \"\" a:0 /pot|{}^\"<>`\\ 11 0"},
	} {
		q, body, err := readRequest(c.in)
		if err != nil {
			t.Errorf("reading %q: %v", c.in, err)
			continue
		}
		form := [...]string{"origin", "absolute", "authority", "asterisk"}[q.Form]
		got := fmt.Sprintf("%s %s %q %s:%d %s %d %d", q.Method, form, q.Scheme, q.Host, q.Port, q.Path, q.Proto, q.Length)
		if q.Close {
			got += " close"
		}
		if q.Expect {
			got += " expect"
		}
		if q.Upgrade != nil {
			got += " upgrade=" + string(q.Upgrade)
		}
		if q.Body != nil {
			got += fmt.Sprintf(" %q", body)
		}
		for _, f := range trailer(q.Body) {
			got += fmt.Sprintf(" %s=%s", f.Name, f.Value)
		}
		if got != c.want {
			t.Errorf("reading %q:\ngot  %s\nwant %s", c.in, got, c.want)
		}
	}
}

func TestRawIsTheHeadAsSent(t *testing.T) {
	const in = "GET http://a?b HTTP/1.1\r\nhOsT:a\r\nX:  y \t\r\n\r\n"
	q, _, err := readRequest("\r\n" + in + "rest")
	if err != nil {
		t.Fatal(err)
	}
	if got := string(q.Raw()); got != in {
		t.Errorf("Raw returned %q, want %q", got, in)
	}
}

func TestRegisteredMethodsCostNoAllocation(t *testing.T) {
	for _, m := range append(registered[:], "GET", "POST", "HEAD", "CONNECT", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE") {
		b := []byte(m)
		var got string
		n := testing.AllocsPerRun(10, func() { got = intern(b) })
		if got != m || n != 0 {
			t.Errorf("intern of %s returned %q with %v allocations, want 0", m, got, n)
		}
	}
}

func TestBadResponsesAreRefused(t *testing.T) {
	ok := func(lines ...string) string {
		return "HTTP/1.1 200 OK\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
	}
	for _, c := range []struct{ name, in string }{
		{"CL and TE", ok("Content-Length: 3", "Transfer-Encoding: chunked") + "0\r\n\r\n"},
		{"two CL", ok("Content-Length: 3", "Content-Length: 4") + "abcd"},
		{"two CL the same", ok("Content-Length: 3", "Content-Length: 3") + "abc"},
		{"CL list", ok("Content-Length: 3, 3") + "abc"},
		{"CL plus", ok("Content-Length: +3") + "abc"},
		{"TE xchunked", ok("Transfer-Encoding: xchunked")},
		{"TE gzip, chunked", ok("Transfer-Encoding: gzip, chunked")},
		{"TE chunked, gzip", ok("Transfer-Encoding: chunked, gzip")},
		{"TE twice", ok("Transfer-Encoding: chunked", "Transfer-Encoding: chunked")},
		{"TE vertical tab", ok("Transfer-Encoding: chunked\x0b")},
		{"TE in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"folded", ok("X: a", " b")},
		{"space before name", ok(" X: a")},
		{"name with space", ok("X Y: a")},
		{"colon missing after space", ok("X Y")},
		{"empty name", ok(": a")},
		{"blank name", ok(" : a")},
		{"bare CR", ok("X: a\rb")},
		{"NUL", ok("X: a\x00")},
		{"CR in reason", "HTTP/1.1 200 a\rb\r\n\r\n"},
		{"NUL in reason", "HTTP/1.1 200 a\x00b\r\n\r\n"},
		{"status of two digits", "HTTP/1.1 20 OK\r\n\r\n"},
		{"status of four digits", "HTTP/1.1 2000 OK\r\n\r\n"},
		{"status 099", "HTTP/1.1 099 OK\r\n\r\n"},
		{"status 099", "HTTP/1.1 099 OK\r\n\r\n"},
		{"status signed", "HTTP/1.1 +20 OK\r\n\r\n"},
		{"no status", "HTTP/1.1\r\n\r\n"},
		{"no status but space", "HTTP/1.1 \r\n\r\n"},
		{"two spaces", "HTTP/1.1  200 OK\r\n\r\n"},
		{"tab", "HTTP/1.1\t200 OK\r\n\r\n"},
		{"lower-case version", "http/1.1 200 OK\r\n\r\n"},
		{"HTTP/2.0", "HTTP/2.0 200 OK\r\n\r\n"},
		{"HTTP/1.2", "HTTP/1.2 200 OK\r\n\r\n"},
		{"HTTP/1.10", "HTTP/1.10 200 OK\r\n\r\n"},
		{"ICY", "ICY 200 OK\r\n\r\n"},
		{"no head", "<html>"},
		{"empty line before", "\r\n" + ok()},
		{"too large", ok("X: " + strings.Repeat("x", 9000))},
		{"too many fields", ok(strings.Repeat("X: y\r\n", 5000) + "X: y")},
		{"bad chunk", ok("Transfer-Encoding: chunked") + "x\r\n"},
		{"trailer length", ok("Transfer-Encoding: chunked") + "0\r\nContent-Length: 0\r\n\r\n"},
	} {
		s, body, err := readResponse(c.in, "GET")
		var e *Error
		if !errors.As(err, &e) || e.Status != 502 {
			t.Errorf("%s: got %v, body %q, error %v, want an Error with status 502", c.name, s, body, err)
		}
	}
}

func TestResponsesAreUnderstood(t *testing.T) {
	for _, c := range []struct {
		method, in string
		want       string
	}{
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd", `200 "OK" 11 3 "abc"`},
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", `200 "OK" 11 0`},
		{"GET", "HTTP/1.1 200 OK\r\n\r\nabcd", `200 "OK" 11 -2 close "abcd"`},
		{"GET", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabcd", `200 "OK" 10 3 close "abc"`},
		{"GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabcd", `200 "OK" 10 3 "abc"`},
		{"GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabcd", `200 "OK" 11 3 close "abc"`},
		{"GET", "HTTP/1.1 404\r\nContent-Length: 3\r\n\r\nabc", `404 "" 11 3 "abc"`},
		{"GET", "HTTP/1.1 404 \r\nContent-Length: 3\r\n\r\nabc", `404 "" 11 3 "abc"`},
		{"GET", "HTTP/1.1 404 Nicht \t da \xe9\r\nContent-Length : 3\r\n\r\nabc", "404 \"Nicht \\t da \\xe9\" 11 3 \"abc\""},
		{"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n", `200 "OK" 11 -1 "abc" A=b`},
		{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", `200 "OK" 11 0`},
		{"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", `200 "OK" 11 0`},
		{"HEAD", "HTTP/1.1 200 OK\r\n\r\n", `200 "OK" 11 0`},
		{"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", `304 "Not Modified" 11 0`},
		{"GET", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", `204 "No Content" 11 0`},
		{"GET", "HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nabc", `204 "No Content" 11 0 close`},
		{"GET", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", `204 "No Content" 11 0 close`},
		{"GET", "HTTP/1.1 100 Continue\r\n\r\n", `100 "Continue" 11 0`},
		{"GET", "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nraw", `101 "Switching" 11 0 upgrade=x`},
		{"CONNECT", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nraw", `200 "OK" 11 0`},
		{"CONNECT", "HTTP/1.1 407 No\r\nContent-Length: 3\r\n\r\nabc", `407 "No" 11 3 "abc"`},
		{"GET", "HTTP/1.1 599 \r\nContent-Length: 0\r\n\r\n", `599 "" 11 0`},
	} {
		s, body, err := readResponse(c.in, c.method)
		if err != nil {
			t.Errorf("reading %q: %v", c.in, err)
			continue
		}
		got := fmt.Sprintf("%d %q %d %d", s.Status, s.Reason, s.Proto, s.Length)
		if s.Close {
			got += " close"
		}
		if s.Upgrade != nil {
			got += " upgrade=" + string(s.Upgrade)
		}
		if s.Body != nil {
			got += fmt.Sprintf(" %q", body)
		}
		for _, f := range trailer(s.Body) {
			got += fmt.Sprintf(" %s=%s", f.Name, f.Value)
		}
		if got != c.want {
			t.Errorf("reading the response to %s, %q:\ngot  %s\nwant %s", c.method, c.in, got, c.want)
		}
	}
}

// tell reads requests until an error, and returns a description of them and of the error.
func tell(r io.Reader, size, maxHead int) string {
	var b bytes.Buffer
	rd := NewReader(r, size, maxHead)
	var q Request
	for {
		if err := rd.ReadRequest(&q); err != nil {
			fmt.Fprintf(&b, "%v", err)
			return b.String()
		}
		fmt.Fprintf(&b, "%s %s %s %d %s %q %d\n", q.Method, q.Target, q.Host, q.Port, q.Path, q.Raw(), q.Length)
		for _, f := range q.Fields {
			fmt.Fprintf(&b, "%q=%q\n", f.Name, f.Value)
		}
		if q.Body == nil {
			continue
		}
		body, err := io.ReadAll(q.Body)
		fmt.Fprintf(&b, "%q %v %q\n", body, err, trailer(q.Body))
		if err != nil {
			return b.String()
		}
	}
}

var pipeline = "\r\nGET /1 HTTP/1.1\r\nHost: a\r\n\r\n" +
	"POST http://b?x HTTP/1.1\r\nHost: b\r\nContent-Length: 5\r\n\r\n12345" +
	"POST /3 HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nX: y\r\nZ: z\r\n\r\n" +
	"\r\nPOST /4 HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n" +
	"GET /5 HTTP/1.1\r\nHost: d\r\nLong: " + strings.Repeat("x", 1500) + "\r\n\r\n" +
	"GET /6 HTTP/1.1\r\nHost: e\r\n\r\n"

// TestTheResultDoesNotDependOnSplits: the result does not depend on how the bytes are divided among reads.
func TestTheResultDoesNotDependOnSplits(t *testing.T) {
	ins := []string{pipeline}
	for i := 0; i < len(refusedRequests); i += 7 {
		if in := refusedRequests[i].in; len(in) < 500 {
			ins = append(ins, pipeline[:100]+in)
		}
	}
	for _, in := range ins {
		want := tell(strings.NewReader(in), 8<<10, 8<<10)
		for i := range in {
			r := io.MultiReader(strings.NewReader(in[:i]), strings.NewReader(in[i:]))
			if got := tell(r, 0, 8<<10); got != want {
				t.Fatalf("split at %d:\ngot  %s\nwant %s", i, got, want)
			}
		}
		for name, r := range map[string]io.Reader{
			"one byte":    iotest.OneByteReader(strings.NewReader(in)),
			"half":        iotest.HalfReader(strings.NewReader(in)),
			"with an EOF": iotest.DataErrReader(strings.NewReader(in)),
		} {
			if got := tell(r, 0, 8<<10); got != want {
				t.Errorf("read %s:\ngot  %s\nwant %s", name, got, want)
			}
		}
	}
}

func TestConnectionEndsEarly(t *testing.T) {
	in := "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n"
	for i := range in {
		_, _, err := readRequest(in[:i])
		want := io.ErrUnexpectedEOF
		if i == 0 {
			want = io.EOF
		}
		if err != want {
			t.Errorf("reading the truncated %q: %v, want %v", in[:i], err, want)
		}
	}
	if _, body, err := readRequest(get("Content-Length: 5") + "abcd"); body != "abcd" || err != io.ErrUnexpectedEOF {
		t.Errorf("got %q and %v, want abcd and %v", body, err, io.ErrUnexpectedEOF)
	}
}

func TestTheNextHeadRequiresTheBodyToBeRead(t *testing.T) {
	r := NewReader(strings.NewReader(get("Content-Length: 5")+"abcde"+get()), 0, 8<<10)
	var q Request
	if err := r.ReadRequest(&q); err != nil {
		t.Fatal(err)
	}
	body := q.Body.(*FramedBody)
	if err := r.ReadRequest(new(Request)); err != errUnread {
		t.Errorf("reading a request before the body's end: %v, want %v", err, errUnread)
	}
	if err := body.Discard(4); err != errTooMuch {
		t.Errorf("Discard(4) of 5 bytes returned %v, want %v", err, errTooMuch)
	}
	if err := body.Discard(5); err != nil || !body.AtEnd() {
		t.Errorf("Discard(5) of 5 bytes returned %v with AtEnd %v", err, body.AtEnd())
	}
	if err := r.ReadRequest(&q); err != nil {
		t.Error(err)
	}
}

func TestErrorsPersist(t *testing.T) {
	r := NewReader(strings.NewReader("GET / HTTP/1.1\r\n\r\n"+get()), 0, 8<<10)
	var q Request
	for range 2 {
		var e *Error
		if err := r.ReadRequest(&q); !errors.As(err, &e) || e.Status != 400 {
			t.Errorf("got %v, want an Error with status 400", err)
		}
	}
	r.Reset(strings.NewReader(get()))
	if err := r.ReadRequest(&q); err != nil {
		t.Error(err)
	}
}

func TestPeekReadDiscard(t *testing.T) {
	r := NewReader(iotest.HalfReader(strings.NewReader("0123456789")), 0, 8<<10)
	if p, err := r.Peek(3); string(p) != "012" || err != nil {
		t.Errorf("Peek(3) returned %q, %v; want 012", p, err)
	}
	r.Discard(2)
	p := make([]byte, 1)
	if n, err := r.Read(p); n != 1 || p[0] != '2' || err != nil {
		t.Errorf("Read returned %q, %v; want 2", p[:n], err)
	}
	if p, err := r.Peek(8); string(p) != "3456789" || err != io.EOF {
		t.Errorf("Peek(8) of 7 bytes returned %q, %v; want them and EOF", p, err)
	}
	if _, err := r.Peek(2000); err != io.EOF {
		t.Errorf("Peek(2000) returned %v, want %v", err, io.EOF)
	}
	r.Reset(strings.NewReader(strings.Repeat("x", 5000)))
	if p, err := r.Peek(1025); len(p) != 1024 || err != errFull {
		t.Errorf("Peek beyond the buffer returned %d bytes, %v; want 1024 and %v", len(p), err, errFull)
	}
}

func TestResponseSplitsAndEarlyEnds(t *testing.T) {
	const in = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n"
	for i := range in {
		_, _, err := readResponse(in[:i], "GET")
		want := io.ErrUnexpectedEOF
		if i == 0 {
			want = io.EOF
		}
		if err != want {
			t.Errorf("reading the truncated %q: %v, want %v", in[:i], err, want)
		}
		var s Response
		r := NewReader(io.MultiReader(strings.NewReader(in[:i]), strings.NewReader(in[i:])), 0, 8<<10)
		if err := r.ReadResponse(&s, "GET"); err != nil {
			t.Fatalf("reading a response split at %d: %v", i, err)
		}
		if body, err := io.ReadAll(s.Body); string(body) != "abc" || err != nil || string(trailer(s.Body).Get("x")) != "y" {
			t.Errorf("split at %d: got the body %q, %v, and the trailer %q", i, body, err, trailer(s.Body))
		}
	}
}

// TestAHeadContinuesAfterADeadline: after a deadline that passes before or within a head, reading
// can continue, and the received bytes are not lost.
func TestAHeadContinuesAfterADeadline(t *testing.T) {
	late := errors.New("late")
	first, second := get("X: y")[:30], get("X: y")[30:]
	src := &stages{strings.NewReader(first), iotest.ErrReader(late), strings.NewReader(second)}
	r := NewReader(src, 0, 8<<10)
	var q Request
	if err := r.ReadRequest(&q); err != late {
		t.Fatalf("reading with a passed deadline: %v, want %v", err, late)
	}
	if err := r.ReadRequest(&q); err != nil || string(q.Get("X")) != "y" {
		t.Errorf("reading after the deadline was extended: %v, X = %q", err, q.Get("X"))
	}
}

// stages reads from its readers in turn; an error ends a stage.
type stages []io.Reader

func (s *stages) Read(p []byte) (int, error) {
	for len(*s) > 0 {
		n, err := (*s)[0].Read(p)
		if err == nil {
			return n, nil
		}
		*s = (*s)[1:]
		if err != io.EOF {
			return n, err
		}
	}
	return 0, io.EOF
}

func TestWriteErrorIsReturned(t *testing.T) {
	full := errors.New("full")
	for _, in := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	} {
		var s Response
		if err := NewReader(strings.NewReader(in), 0, 8<<10).ReadResponse(&s, "GET"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(failing{full}, s.Body); err != full {
			t.Errorf("copying %q to a writer that fails: %v, want %v", in, err, full)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// trailer is the trailer section of a body that may be missing.
func trailer(b Body) Fields {
	if b == nil {
		return nil
	}
	return b.Trailer()
}

func TestRequestsThatClientsSendAreCleaned(t *testing.T) {
	for _, tt := range []struct{ line, host, path, scheme string }{
		{"GET /a#b HTTP/1.1", "h", "/a", ""},
		{"GET /# HTTP/1.1", "h", "/", ""},
		{"GET /a?q=1#b?c HTTP/1.1", "h", "/a?q=1", ""},
		{"GET http://a/#b HTTP/1.1", "a", "/", "http"},
		{"GET http://a#b HTTP/1.1", "a", "/", "http"},
		{"GET http://a?q#b HTTP/1.1", "a", "/?q", "http"},
		{"GET /\u00e9?\u00fc=%20 HTTP/1.1", "h", "/%C3%A9?%C3%BC=%20", ""},
		{"GET /\xe9 HTTP/1.1", "h", "/%E9", ""},
		{"GET http://a?\u00e9#\u00e9 HTTP/1.1", "a", "/?%C3%A9", "http"},
		{"GET http://u@a/ HTTP/1.1", "a", "/", "http"},
		{"GET http://u:p%40:x@a:80/b@c HTTP/1.1", "a", "/b@c", "http"},
		{"GET http://\u00e9@a/ HTTP/1.1", "a", "/", "http"},
		{"GET http://:@a HTTP/1.1", "a", "/", "http"},
		{"GET http://u@[::1]:80/ HTTP/1.1", "::1", "/", "http"},
		{"GET /u@a HTTP/1.1", "h", "/u@a", ""},
		{"GET / HTTP/1.2", "h", "/", ""},
		{"GET / HTTP/1.9", "h", "/", ""},
	} {
		in := tt.line + "\r\nHost: h\r\nX: y\r\n\r\n"
		for range 2 { // the memory is used again
			r := NewReader(strings.NewReader(in), 0, 8<<10)
			var q Request
			if err := r.ReadRequest(&q); err != nil {
				t.Errorf("%q: %v", tt.line, err)
				continue
			}
			if string(q.Host) != tt.host || string(q.Path) != tt.path || q.Scheme != tt.scheme || q.Proto != 11 || string(q.Raw()) != in || string(q.Get("X")) != "y" {
				t.Errorf("%q: got host %q, path %q, scheme %q, version %d, raw %q", tt.line, q.Host, q.Path, q.Scheme, q.Proto, q.Raw())
			}
		}
	}
	var q Request
	if err := NewReader(strings.NewReader("CONNECT a:443 HTTP/1.1\r\n\r\n"), 0, 8<<10).ReadRequest(&q); err != nil || string(q.Host) != "a" || q.Port != 443 {
		t.Errorf("CONNECT without Host: got %q, %d, %v", q.Host, q.Port, err)
	}
}
