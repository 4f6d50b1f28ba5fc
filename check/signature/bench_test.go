//go:build !small

package signature

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/setting"
	"shuultuur/test/data"
)

// BenchmarkExchange tries all public rules for HTTP on a request for a page and its response,
// as a server does.
func BenchmarkExchange(b *testing.B) {
	rules := data.Path(b, "rules", "et-open-http.rules.gz")
	c, err := New(Config{Rules: []setting.File{setting.File(rules)}}, Parts{Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(data.Path(b, "pages"), "*.html"))
	if err != nil {
		b.Fatal(err)
	}
	var pages [][]byte
	for _, f := range files {
		p, err := os.ReadFile(f)
		if err != nil {
			b.Fatal(err)
		}
		pages = append(pages, p)
	}
	small := bytes.Repeat([]byte("<p>a small page of a few words</p>\n"), 30)
	for name, pages := range map[string][][]byte{"Small": {small}, "Pages": pages} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			total := 0
			for i := 0; b.Loop(); i++ {
				page := pages[i%len(pages)]
				total += len(page)
				exchangeOf(b, c, page)
			}
			b.SetBytes(int64(total / b.N))
		})
	}
}

// block is the size of the pieces in which a server holds a body.
const block = 32 << 10

func exchangeOf(b testing.TB, c *Check, page []byte) {
	read := func(s string) *message.Reader {
		return message.NewReader(strings.NewReader(strings.ReplaceAll(s, "\n", "\r\n")), 4096, 65536)
	}
	t := &filter.Transaction{ID: "x", Flow: &filter.Flow{}, Client: filter.Client{Addr: netip.MustParseAddr("10.0.0.1")}, Host: "www.example.com", Port: 80, Last: filter.ResponseBody}
	q, s := &message.Request{}, &message.Response{}
	if err := read("GET http://www.example.com/pages/1.html HTTP/1.1\nHost: www.example.com\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0\nAccept: */*\nAccept-Language: en-US,en;q=0.5\nReferer: http://www.example.com/\n\n").ReadRequest(q); err != nil {
		b.Fatal(err)
	}
	if err := read("HTTP/1.1 200 OK\nServer: nginx\nDate: Tue, 14 Nov 2023 22:13:20 GMT\nContent-Type: text/html\nContent-Length: 11\nConnection: keep-alive\n\n").ReadResponse(s, "GET"); err != nil {
		b.Fatal(err)
	}
	var found []filter.Finding
	find := func(stage filter.Stage) {
		var err error
		if found, err = c.Find(context.Background(), t, stage, found); err != nil {
			b.Fatal(err)
		}
	}
	t.Request = q
	find(filter.Request)
	t.Response = s
	find(filter.Response)
	t.Body = &content.Body{}
	t.Body.Reset(t.Content(), content.Limits{})
	for ; len(page) > block; page = page[block:] {
		t.Body.Append(page[:block])
	}
	t.Body.Append(page)
	t.Body.Finish()
	find(filter.ResponseBody)
	t.Body.Release()
}
