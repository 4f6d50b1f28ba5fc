package message

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestRelaxedResponsesAreReadAsTheyAreMeant(t *testing.T) {
	long := strings.Repeat("x", 3000)
	for _, tt := range []struct{ name, in, want, body string }{
		{"as it should be", "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 2\r\n\r\nok", "A=b Content-Length=2", "ok"},
		{"equal lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: b\r\ncontent-length: 2\r\n\r\nok", "Content-Length=2 A=b", "ok"},
		{"equal lengths in one field", "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok", "Content-Length=2", "ok"},
		{"different lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", "", ""},
		{"different lengths in one field", "HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nok", "", ""},
		{"length and chunks", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "Transfer-Encoding=chunked", "ok"},
		{"lengths and chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\nContent-Length: x\r\n\r\n2\r\nok\r\n0\r\n\r\n", "Transfer-Encoding=chunked", "ok"},
		{"chunked twice", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", ""},
		{"identity", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Identity\r\nContent-Length: 2\r\n\r\nok", "Content-Length=2", "ok"},
		{"identity without a length", "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nA: b\r\n\r\nok", "A=b", "ok"},
		{"identity and chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n", "", ""},
		{"chunks in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "Transfer-Encoding=chunked", "ok"},
		{"control bytes", "HTTP/1.1 200 OK\r\nA: b\x00c\x7f\x1bd\te\r\nContent-Length: 2\r\n\r\nok", "A=b c  d\te Content-Length=2", "ok"},
		{"control byte in a name", "HTTP/1.1 200 OK\r\nA\x01: b\r\n\r\n", "", ""},
		{"radio", "ICY 200 OK\r\nicy-name: n\r\n\r\nok", "icy-name=n", "ok"},
		{"radio with LF", "ICY 200 OK\nicy-name: n\n\nok", "icy-name=n", "ok"},
		{"not quite radio", "ICE 200 OK\r\n\r\n", "", ""},
		{"CR alone", "HTTP/1.1 200 OK\r\nA: b\rc\r\nContent-Length: 2\r\n\r\nok", "A=b c Content-Length=2", "ok"},
		{"LF alone", "HTTP/1.1 200 OK\nA: b\nContent-Length: 2\n\nok", "A=b Content-Length=2", "ok"},
		{"LF here and there", "HTTP/1.1 200 OK\r\nA: b\nContent-Length: 2\r\n\nok", "A=b Content-Length=2", "ok"},
		{"body that begins with lines", "HTTP/1.1 200 OK\nContent-Length: 4\n\n\n\nok", "Content-Length=4", "\n\nok"},
		{"folded", "HTTP/1.1 200 OK\r\nA: b\r\n\t c\r\n  d\r\nContent-Length: 2\r\n\r\nok", "A=b c d Content-Length=2", "ok"},
		{"folded with LF", "HTTP/1.1 200 OK\nA: b\n c\nContent-Length: 2\n\nok", "A=b c Content-Length=2", "ok"},
		{"folded, nothing on the line", "HTTP/1.1 200 OK\r\nA: b\r\n \r\nContent-Length: 2\r\n\r\nok", "A=b Content-Length=2", "ok"},
		{"folded status line", "HTTP/1.1 200\r\n OK\r\nContent-Length: 2\r\n\r\nok", "", ""},
		{"head larger than the buffer", "HTTP/1.1 200 OK\nA: " + long + "\n " + long + "\nContent-Length: 2\n\nok", "A=" + long + " " + long + " Content-Length=2", "ok"},
		{"head too large", "HTTP/1.1 200 OK\nA: " + long + long + long + "\n\nok", "", ""},
		{"ends early", "HTTP/1.1 200 OK\nA: b\n", "", ""},
	} {
		for way, src := range map[string]io.Reader{"at once": strings.NewReader(tt.in), "byte by byte": iotest.OneByteReader(strings.NewReader(tt.in))} {
			r := NewReader(src, 1024, 8192)
			r.Relax(true)
			var s Response
			err := r.ReadResponse(&s, "GET")
			if tt.want == "" {
				if e, ok := errors.AsType[*Error](err); err == nil || ok && e.Status != 502 {
					t.Errorf("%s, %s: reading returned %v, want an error", tt.name, way, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s, %s: reading returned %v", tt.name, way, err)
				continue
			}
			var fields []string
			for _, f := range s.Fields {
				fields = append(fields, string(f.Name)+"="+strings.TrimSpace(string(f.Value)))
			}
			body, err := io.ReadAll(s.Body)
			if got := strings.Join(fields, " "); got != tt.want || string(body) != tt.body || err != nil {
				t.Errorf("%s, %s: got the fields %q and the body %q, %v; want %q and %q", tt.name, way, got, body, err, tt.want, tt.body)
			}
		}
	}
}

func TestRequestsAreNeverRelaxed(t *testing.T) {
	for _, in := range []string{
		"GET / HTTP/1.1\nHost: a\n\n",
		"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
	} {
		r := NewReader(strings.NewReader(in), 1024, 8192)
		r.Relax(true)
		if err := r.ReadRequest(new(Request)); err == nil {
			t.Errorf("a relaxed reader accepts the request %q", in)
		}
	}
}

// FuzzRelaxed compares a message that a relaxed reader accepts with its valid form as a strict
// reader reads it.
func FuzzRelaxed(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\nA: b\n c\nContent-Length: 2\nContent-Length: 2\n\nok")
	f.Add("HTTP/1.1 204 x\r\n\r\n")
	f.Fuzz(func(t *testing.T, in string) {
		r := NewReader(strings.NewReader(in), 1024, 4096)
		r.Relax(true)
		var s, strict Response
		if r.ReadResponse(&s, "GET") != nil {
			return
		}
		for i := range s.Fields {
			if EqualName(s.Fields[i].Name, "content-length") && len(s.Fields) > 1 {
				return // joined lengths are not in the raw head
			}
		}
		if err := NewReader(strings.NewReader(string(s.Raw())), 1024, 8192).ReadResponse(&strict, "GET"); err != nil || len(strict.Fields) != len(s.Fields) || strict.Status != s.Status {
			t.Errorf("the relaxed form of %q is refused by a strict reader: %q, %v", in, s.Raw(), err)
		}
	})
}

func TestALineMayEndWithLFInAnyResponse(t *testing.T) {
	long := "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", 3000) + "\r\n"
	for in, want := range map[string]bool{
		"HTTP/1.1 200 OK\nA: b\nContent-Length: 2\n\nok":                       true,
		"HTTP/1.1 200 OK\r\nA: b\nContent-Length: 2\r\n\nok":                   true,
		"HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 2\n\r\nok":                 true,
		long + "Content-Length: 2\n\nok":                                       true,
		"HTTP/1.1 200 OK\nA: b\n c\nContent-Length: 2\n\nok":                   false, // folded
		"HTTP/1.1 200 OK\nContent-Length: 2\nContent-Length: 2\n\nok":          false,
		"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nContent-Length: 2\n\nok": false,
		"HTTP/1.1 200 OK\nA: b\rc\n\nok":                                       false,
		"ICY 200 OK\n\nok":                                                     false,
	} {
		for way, src := range map[string]io.Reader{"at once": strings.NewReader(in), "byte by byte": iotest.OneByteReader(strings.NewReader(in))} {
			var s Response
			err := NewReader(src, 1024, 8192).ReadResponse(&s, "GET")
			if (err == nil) != want {
				t.Errorf("%.60q, %s: got %v, want it accepted: %v", in, way, err, want)
			}
			if err == nil {
				if b, err := io.ReadAll(s.Body); string(b) != "ok" || err != nil {
					t.Errorf("%.60q, %s: got the body %q, %v", in, way, b, err)
				}
			}
		}
	}
}

func TestWhatIsUnclearEndsTheConnection(t *testing.T) {
	for in, want := range map[string]bool{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n":      true,
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n": true,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n":                          true,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 0\r\n\r\n":     false,
		"ICY 200 OK\r\n\r\n": true,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n": false,
	} {
		r := NewReader(strings.NewReader(in), 1024, 8192)
		r.Relax(true)
		var s Response
		if err := r.ReadResponse(&s, "GET"); err != nil || s.Close != want {
			t.Errorf("%q: %v, closes %v, want %v", in, err, s.Close, want)
		}
	}
}

func TestATunnelHasNoBody(t *testing.T) {
	for _, fields := range []string{"Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "Content-Length: x\r\n"} {
		var s Response
		if err := NewReader(strings.NewReader("HTTP/1.1 200 OK\r\n"+fields+"\r\nbytes"), 1024, 8192).ReadResponse(&s, "CONNECT"); err != nil || s.Body != nil {
			t.Errorf("%q: got %v, %v, want no body", fields, s.Body, err)
		}
	}
}
