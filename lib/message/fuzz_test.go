package message

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

// The grammar of RFC 9112 and RFC 9110 as regular expressions, which are slow: whatever the
// reader accepts must match them.
const (
	tcharRE = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]"
	fieldRE = `(?:` + tcharRE + `+:[\t\x20-\x7e\x80-\xff]*\r\n)`
	// A recipient cuts white space before the colon in responses (5.1).
	looseRE  = `(?:` + tcharRE + `+[ \t]*:[\t\x20-\x7e\x80-\xff]*\r\n)`
	quotedRE = `"(?:[\t\x20!\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*"`
	extRE    = `(?:[ \t]*;[ \t]*` + tcharRE + `+(?:[ \t]*=[ \t]*(?:` + tcharRE + `+|` + quotedRE + `))?)*`
)

var (
	requestGrammar  = regexp.MustCompile(`\A` + tcharRE + `+ [\x21-\x7e\x80-\xff]+ HTTP/1\.[0-9]\r\n` + fieldRE + `*\r\n\z`)
	responseGrammar = regexp.MustCompile(`\AHTTP/1\.[01] [1-9][0-9][0-9](?: [\t\x20-\x7e\x80-\xff]*)?\r\n` + looseRE + `*\r\n\z`)
	chunkGrammar    = regexp.MustCompile(`\A([0-9A-Fa-f]+)` + extRE + `\r\n`)
	trailerGrammar  = regexp.MustCompile(`\A(` + fieldRE + `*)\r\n`)
)

// latin1 lets a regular expression, which reads UTF-8, see bytes.
func latin1(b []byte) string {
	r := make([]rune, len(b))
	for i, c := range b {
		r[i] = rune(c)
	}
	return string(r)
}

// countField counts the lines called name in a head, the slow way.
func countField(raw []byte, name string) int {
	n := 0
	for line := range strings.SplitSeq(string(raw), "\r\n") {
		k, _, ok := strings.Cut(line, ":")
		if ok && strings.EqualFold(strings.TrimRight(k, " \t"), name) {
			n++
		}
	}
	return n
}

// checkFraming compares an accepted head with the rules on where a message ends.
func checkFraming(t *testing.T, raw []byte) {
	t.Helper()
	te, cl := countField(raw, "Transfer-Encoding"), countField(raw, "Content-Length")
	if te+cl > 1 {
		t.Fatalf("accepted %d Transfer-Encoding and %d Content-Length in %q", te, cl, raw)
	}
}

// canonical brings fields into the form of http.Header, for comparing.
func canonical(f Fields, drop ...string) string {
	h := http.Header{}
	for _, x := range f {
		h.Add(textproto.CanonicalMIMEHeaderKey(string(x.Name)), string(x.Value))
	}
	return headerString(h, drop...)
}

func headerString(h http.Header, drop ...string) string {
	var out []string
	for k, v := range h {
		if !slices.Contains(drop, k) {
			out = append(out, fmt.Sprintf("%s: %q", k, v))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// hostPort brings an authority into one form.
func hostPort(s string) string {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || strings.HasSuffix(s, "]") {
		return s
	}
	if s[i+1:] == "" {
		return s[:i]
	}
	n, _ := strconv.Atoi(s[i+1:])
	return s[:i] + ":" + strconv.Itoa(n)
}

func ourHostPort(q *Request) string {
	h := string(q.Host)
	if strings.Contains(h, ":") {
		h = "[" + h + "]"
	}
	if q.Port != 0 {
		h += ":" + strconv.Itoa(int(q.Port))
	}
	return h
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(browserRequest))
	f.Add([]byte(pipeline[2:]))
	for _, c := range refusedRequests {
		if len(c.in) < 1000 {
			f.Add([]byte(c.in))
		}
	}
	f.Add([]byte("POST https://[::1]:8443?x HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3;a=\"b\"\r\nabc\r\n0\r\nX: y\r\n\r\nrest"))
	f.Add([]byte(post("0\r\nX y: z\nX: y\r\n\r\n"))) // which fault is reported first
	f.Add([]byte("OPTIONS * HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\nContent-Length: 1\r\n\r\nab"))
	f.Add([]byte("CONNECT a:443 HTTP/1.0\r\nPragma: no-cache\r\nConnection: keep-alive, upgrade\r\nUpgrade: x\r\n\r\nab"))
	f.Fuzz(func(t *testing.T, in []byte) {
		src := bytes.NewReader(in)
		r := NewReader(src, 0, 8<<10)
		var q Request
		err := r.ReadRequest(&q)
		split := tell(io.MultiReader(bytes.NewReader(in[:len(in)/3]), iotest.HalfReader(bytes.NewReader(in[len(in)/3:]))), 0, 8<<10)
		if whole := tell(bytes.NewReader(in), 16<<10, 8<<10); whole != split {
			t.Fatalf("read whole and in pieces, the messages differ:\n%s\n%s", whole, split)
		}
		if err != nil {
			return
		}
		if !requestGrammar.MatchString(latin1(q.Raw())) {
			t.Fatalf("the reader accepts what the grammar does not: %q", q.Raw())
		}
		checkFraming(t, q.Raw())
		if n := countField(q.Raw(), "Host"); n > 1 || n == 0 && q.Proto == 11 && q.Form != Authority {
			t.Fatalf("the reader accepts %d Host fields: %q", n, q.Raw())
		}
		var body []byte
		if q.Body != nil {
			if body, err = io.ReadAll(q.Body); err != nil {
				return
			}
		}
		rest := src.Len() + len(r.Buffered())

		skipped := bytes.TrimLeft(in, "\r\n") // net/http skips no empty line
		theirs := bytes.NewReader(skipped)
		br := bufio.NewReader(theirs)
		p, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		theirBody, err := io.ReadAll(p.Body)
		if err != nil {
			t.Fatalf("net/http does not read the body of %q: %v", in, err)
		}
		cleaned := strings.ContainsFunc(p.RequestURI, func(r rune) bool { return r == '#' || r >= 0x80 })
		if p.Method != q.Method || p.RequestURI != string(q.Target) && !cleaned {
			t.Fatalf("got the request %s %s, net/http %s %s", q.Method, q.Target, p.Method, p.RequestURI)
		}
		if got, want := ourHostPort(&q), hostPort(p.Host); got != want {
			t.Fatalf("got the host %q, net/http %q", got, want)
		}
		if q.Form == Absolute && q.Scheme != p.URL.Scheme {
			t.Fatalf("got the scheme %q, net/http %q", q.Scheme, p.URL.Scheme)
		}
		// net/http takes these out or adds to them.
		drop := []string{"Host", "Transfer-Encoding", "Trailer", "Cache-Control", "Content-Length"}
		if got, want := canonical(q.Fields, drop...), headerString(p.Header, drop...); got != want {
			t.Fatalf("got the fields\n%s\nnet/http\n%s", got, want)
		}
		if !bytes.Equal(body, theirBody) {
			t.Fatalf("got the body %q, net/http %q", body, theirBody)
		}
		if got, want := canonical(trailer(q.Body)), headerString(filled(p.Trailer)); got != want {
			t.Fatalf("got the trailer\n%s\nnet/http\n%s", got, want)
		}
		if q.Length != p.ContentLength && !(q.Method == "CONNECT" && q.Length == 0) {
			t.Fatalf("got the length %d, net/http %d", q.Length, p.ContentLength)
		}
		if q.Close != p.Close {
			t.Fatalf("got Close %v, net/http %v", q.Close, p.Close)
		}
		if theirRest := theirs.Len() + br.Buffered(); rest != theirRest {
			t.Fatalf("%d bytes are left after the message, net/http leaves %d", rest, theirRest)
		}
	})
}

// filled removes the names that a Trailer field announced and the trailer lacks.
func filled(h http.Header) http.Header {
	for k, v := range h {
		if len(v) == 0 {
			delete(h, k)
		}
	}
	return h
}

func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\nrest",
		"HTTP/1.0 200\r\nConnection: keep-alive\r\nContent-Length : 3\r\n\r\nabcd",
		"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n",
		"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nraw",
		"HTTP/1.1 404 \r\nX:\tcaf\xe9 \r\n\r\nabcd",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, in []byte, head bool) {
		method := "GET"
		if head {
			method = "HEAD"
		}
		src := bytes.NewReader(in)
		r := NewReader(src, 0, 8<<10)
		var s Response
		if err := r.ReadResponse(&s, method); err != nil {
			return
		}
		if !responseGrammar.MatchString(latin1(s.Raw())) {
			t.Fatalf("the reader accepts what the grammar does not: %q", s.Raw())
		}
		checkFraming(t, s.Raw())
		var body []byte
		var err error
		if s.Body != nil {
			if body, err = io.ReadAll(s.Body); err != nil {
				return
			}
		}
		rest := src.Len() + len(r.Buffered())
		if regexp.MustCompile(`[ \t]:`).Match(s.Raw()) {
			return // net/http takes the space for a part of the name
		}

		theirs := bytes.NewReader(in)
		br := bufio.NewReader(theirs)
		p, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			return
		}
		theirBody, err := io.ReadAll(p.Body)
		if err != nil {
			t.Fatalf("net/http does not read the body of %q: %v", in, err)
		}
		if s.Status != p.StatusCode {
			t.Fatalf("got the status %d, net/http %d", s.Status, p.StatusCode)
		}
		drop := []string{"Transfer-Encoding", "Trailer", "Cache-Control", "Content-Length"}
		if got, want := canonical(s.Fields, drop...), headerString(p.Header, drop...); got != want {
			t.Fatalf("got the fields\n%s\nnet/http\n%s", got, want)
		}
		if !bytes.Equal(body, theirBody) {
			t.Fatalf("got the body %q, net/http %q", body, theirBody)
		}
		if got, want := canonical(trailer(s.Body)), headerString(filled(p.Trailer)); got != want {
			t.Fatalf("got the trailer\n%s\nnet/http\n%s", got, want)
		}
		if p.Close && !s.Close {
			t.Fatal("the reader keeps a connection that net/http closes")
		}
		if theirRest := theirs.Len() + br.Buffered(); rest != theirRest {
			t.Fatalf("%d bytes are left after the message, net/http leaves %d", rest, theirRest)
		}
	})
}

// decodeChunked is the grammar of RFC 9112, 7.1, over the whole body.
func decodeChunked(in []byte) (body []byte, trailer string, rest int, ok bool) {
	s := latin1(in)
	at := 0 // a byte offset in in, and so an offset in runes
	runes := []rune(s)
	for {
		m := chunkGrammar.FindStringSubmatch(string(runes[at:]))
		if m == nil || len(m[1]) > 15 {
			return nil, "", 0, false
		}
		at += len([]rune(m[0]))
		n, _ := strconv.ParseInt(m[1], 16, 64)
		if n == 0 {
			break
		}
		if int64(len(in)-at) < n+2 || string(in[at+int(n):at+int(n)+2]) != "\r\n" {
			return nil, "", 0, false
		}
		body = append(body, in[at:at+int(n)]...)
		at += int(n) + 2
	}
	m := trailerGrammar.FindStringSubmatch(string(runes[at:]))
	if m == nil {
		return nil, "", 0, false
	}
	return body, m[1], len(in) - at - len([]rune(m[0])), true
}

func FuzzChunked(f *testing.F) {
	for _, c := range refusedRequests {
		if body, ok := strings.CutPrefix(c.in, post("")); ok && len(body) < 1000 {
			f.Add([]byte(body), 3)
		}
	}
	f.Add([]byte("3\r\nabc\r\n000A;x ; y = \"z\\\"\" ;w=v\r\n0123456789\r\n0;a\r\nX-Sum:  1\r\nX-Sum: 2 \r\n\r\nrest"), 5)
	f.Add([]byte("1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n"), 1)
	head := []byte(post(""))
	f.Fuzz(func(t *testing.T, in []byte, step int) {
		in = in[:min(len(in), 4096)]
		step = 1 + (step&0x7fffffff)%2000
		wantBody, wantTrailer, wantRest, valid := decodeChunked(in)

		src := bytes.NewReader(append(slices.Clip(head), in...))
		r := NewReader(iotest.HalfReader(src), 0, 8<<10)
		var q Request
		if err := r.ReadRequest(&q); err != nil {
			t.Fatal(err)
		}
		var body []byte
		var err error
		for p := make([]byte, step); err == nil; {
			var n int
			n, err = q.Body.Read(p)
			body = append(body, p[:n]...)
		}
		if err != io.EOF {
			// Limits are ours; everything else valid is accepted.
			if valid && wantTrailer == "" && len(in) < maxChunkLine {
				t.Fatalf("the reader refuses the valid body %q: %v", in, err)
			}
			return
		}
		if !valid {
			t.Fatalf("the reader accepts what the grammar does not: %q", in)
		}
		if rest := src.Len() + len(r.Buffered()); !bytes.Equal(body, wantBody) || rest != wantRest {
			t.Fatalf("got %q and %d left, want %q and %d", body, rest, wantBody, wantRest)
		}
		if n := strings.Count(wantTrailer, "\r\n"); len(trailer(q.Body)) != n {
			t.Fatalf("got %d fields in the trailer, want %d", len(trailer(q.Body)), n)
		}

		p, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(append(slices.Clip(head), in...))))
		if err != nil {
			t.Fatal(err)
		}
		theirBody, err := io.ReadAll(p.Body)
		if err != nil {
			return
		}
		if !bytes.Equal(body, theirBody) {
			t.Fatalf("got the body %q, net/http %q", body, theirBody)
		}
		if got, want := canonical(trailer(q.Body)), headerString(filled(p.Trailer)); got != want {
			t.Fatalf("got the trailer\n%s\nnet/http\n%s", got, want)
		}
	})
}
