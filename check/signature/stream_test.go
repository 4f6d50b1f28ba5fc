//go:build !small

package signature

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/message"
)

// TestContentOutsideBuffersIsFoundWhereverItStands takes contents from every position of a
// response, across its head and body, and judges the body in pieces.
func TestContentOutsideBuffersIsFoundWhereverItStands(t *testing.T) {
	page := "<html><body>" + strings.Repeat("a word, another; ", 9) + "</body></html>"
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Length: %d\r\n\r\n", len(page))
	raw := head + page
	var rules strings.Builder
	n := 0
	for _, size := range []int{2, 3, 4, 11, 40} {
		for i := 0; i+size <= len(raw); i++ {
			n++
			proto, extra := "tcp", ""
			switch i % 3 {
			case 1:
				proto, extra = "http", `http.stat_code; content:"200"; `
			case 2:
				extra = fmt.Sprintf("offset:%d; depth:%d; ", i, size)
			}
			fmt.Fprintf(&rules, "alert %s any any -> any any (flow:to_client; content:\"|% x|\"; fast_pattern; %ssid:%d;)\n", proto, raw[i:i+size], extra, n)
		}
	}
	c := newCheck(t, rules.String())
	for _, step := range []int{1, 7, 50, len(page)} {
		read := func(s string) *message.Reader { return message.NewReader(strings.NewReader(s), 4096, 65536) }
		tr := &filter.Transaction{ID: "x", Flow: &filter.Flow{}, Client: filter.Client{Addr: netip.MustParseAddr("10.0.0.1")}, Host: "example.com", Port: 80, Last: filter.ResponseBody, Request: &message.Request{}, Response: &message.Response{}}
		if err := read("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n").ReadRequest(tr.Request); err != nil {
			t.Fatal(err)
		}
		if err := read(head).ReadResponse(tr.Response, "GET"); err != nil {
			t.Fatal(err)
		}
		tr.Body = &content.Body{}
		tr.Body.Reset(tr.Content(), content.Limits{})
		found := map[string]bool{}
		find := func(s filter.Stage) {
			fs, err := c.Find(context.Background(), tr, s, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range fs {
				found[f.Category] = true
			}
		}
		find(filter.Request)
		find(filter.Response)
		for rest := page; rest != ""; {
			k := min(step, len(rest))
			tr.Body.Append([]byte(rest[:k]))
			if rest = rest[k:]; rest == "" {
				tr.Body.Finish()
			}
			find(filter.ResponseBody)
			tr.Body.Forget()
		}
		for sid := 1; sid <= n; sid++ {
			if !found[fmt.Sprint(sid)] {
				t.Errorf("in pieces of %d: rule %d does not match: %s", step, sid, strings.Split(rules.String(), "\n")[sid-1])
			}
		}
	}
}
