package test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	wire "shuultuur/lib/message/icap"
)

const scannerSettings = `
listen: {proxy: 127.0.0.1:0, admin: off}
data: data
checks:
  icap: {servers: "icap://%s/scan", page: scanner, requests: true}
policies:
  - name: readers
    rules:
      - {name: scanner, action: block, category: [icap/virus, icap/blocked]}
      - {name: no scanner, action: block, category: [icap-error]}
proxy: {private: [127.0.0.0/8], held: 64KiB}
events: {jsonl: events.jsonl, every: 50ms}
`

// marmotScanner starts an ICAP server that refuses bodies with the word marmot,
// and requests for /refused.
func marmotScanner(t *testing.T) net.Listener {
	return serveTCP(t, func(c net.Conn) {
		for r := bufio.NewReaderSize(c, wire.MaxLine); answerICAP(c, r) == nil; {
		}
	})
}

// answerICAP reads a question, without preview, and answers it.
func answerICAP(w io.Writer, r *bufio.Reader) error {
	var parts wire.Encapsulated
	first := ""
	for {
		line, err := wire.ReadLine(r)
		if err != nil {
			return err
		}
		if len(line) == 0 {
			break
		}
		if first == "" {
			first = string(line)
		}
		if v, ok := strings.CutPrefix(string(line), "Encapsulated: "); ok {
			if err := parts.Parse(v); err != nil {
				return err
			}
		}
	}
	if strings.HasPrefix(first, "OPTIONS") {
		_, err := io.WriteString(w, "ICAP/1.0 200 OK\r\nMethods: REQMOD, RESPMOD\r\nISTag: \"1\"\r\nEncapsulated: null-body=0\r\n\r\n")
		return err
	}
	heads := make([]byte, max(parts.Req, 0)+max(parts.Res, 0))
	if _, err := io.ReadFull(r, heads); err != nil {
		return err
	}
	var body strings.Builder
	for parts.Body {
		n, _, err := wire.ReadChunk(r)
		if err != nil {
			return err
		}
		if n == 0 {
			if err := wire.SkipTrailer(r); err != nil {
				return err
			}
			break
		}
		if _, err := io.CopyN(&body, r, n); err != nil {
			return err
		}
		if err := wire.EndChunk(r); err != nil {
			return err
		}
	}
	if !strings.Contains(body.String(), "marmot") && !strings.Contains(string(heads), "/refused HTTP/1.1") {
		_, err := io.WriteString(w, "ICAP/1.0 204 No\r\nEncapsulated: null-body=0\r\n\r\n")
		return err
	}
	head := "HTTP/1.1 403 Forbidden\r\nContent-Type: text/html\r\n\r\n"
	_, err := fmt.Fprintf(w, "ICAP/1.0 200 OK\r\nX-Infection-Found: Type=0; Resolution=2; Threat=Marmots;\r\nEncapsulated: res-hdr=0, res-body=%d\r\n\r\n%s12\r\na page of scanners\r\n0\r\n\r\n", len(head), head)
	return err
}

// TestAScannerBehindICAPDecides tests requests, uploads, downloads that are held, and downloads
// that memory has no room for.
func TestAScannerBehindICAPDecides(t *testing.T) {
	scanner := marmotScanner(t)
	g := runGateway(t, t.TempDir(), fmt.Sprintf(scannerSettings, scanner.Addr()))
	quiet := strings.Repeat("a quiet line of text. ", 100_000)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/octet-stream")
		if strings.Contains(r.URL.Path, "long") {
			_, _ = io.WriteString(w, quiet)
		}
		if strings.Contains(r.URL.Path, "bad") {
			_, _ = io.WriteString(w, "marmot")
		}
		_, _ = io.WriteString(w, "done")
	}))
	defer origin.Close()
	c := through(g.ProxyAddr())
	for _, ask := range []struct {
		path, upload string
		status       int
		holds        string
	}{
		{"/good", "", 200, "done"},
		{"/bad", "", 403, "a page of scanners"},
		{"/long", "", 200, "done"},
		{"/longbad", "", 403, "a page of scanners"},
		{"/good", "nothing", 200, "done"},
		{"/good", "a marmot", 403, "a page of scanners"},
		{"/refused", "", 403, "a page of scanners"},
	} {
		var res *http.Response
		var err error
		if ask.upload != "" {
			res, err = c.Post(origin.URL+ask.path, "text/plain", strings.NewReader(ask.upload))
		} else {
			res, err = c.Get(origin.URL + ask.path)
		}
		if err != nil {
			t.Fatalf("requesting %s: %v", ask.path, err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != ask.status || !strings.Contains(string(body), ask.holds) {
			t.Errorf("%s, upload %q: status %d, %.100q, %v", ask.path, ask.upload, res.StatusCode, body, err)
		}
	}
	scanner.Close()
	origin.Close()
}
