package test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/check/phrase"
	"shuultuur/content"
	"shuultuur/content/prose"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/setting"
)

// A rawOrigin answers each path with bytes exactly as they are given.
type rawOrigin struct {
	net.Listener
	mu    sync.Mutex
	pages map[string][]byte
	stop  sync.WaitGroup
}

func newRawOrigin(t *testing.T) *rawOrigin {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &rawOrigin{Listener: l, pages: map[string][]byte{}}
	o.stop.Add(1)
	go o.serve()
	t.Cleanup(func() { l.Close(); o.stop.Wait() })
	return o
}

func (o *rawOrigin) serve() {
	defer o.stop.Done()
	for {
		c, err := o.Accept()
		if err != nil {
			return
		}
		o.stop.Add(1)
		go func() {
			defer o.stop.Done()
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			q, err := http.ReadRequest(bufio.NewReader(c))
			if err != nil {
				return
			}
			o.mu.Lock()
			page, ok := o.pages[q.URL.Path]
			o.mu.Unlock()
			if !ok {
				page = []byte("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			}
			_, _ = c.Write(page)
		}()
	}
}

func (o *rawOrigin) put(path string, response []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pages[path] = response
}

// rendered returns by URL the text that the page and its frames show, each with the text of the
// frames within it.
func (b *browser) rendered() map[string]string {
	b.t.Helper()
	type values struct{ Index, Value []int }
	var s struct {
		Strings   []string
		Documents []struct {
			DocumentURL int
			Layout      struct{ Text []int }
			Nodes       struct{ InputValue, TextValue, ContentDocumentIndex values }
		}
	}
	b.call("POST", b.session+"/goog/cdp/execute", map[string]any{"cmd": "DOMSnapshot.captureSnapshot", "params": map[string]any{"computedStyles": []string{}}}, &s)
	var text func(i int, apart string) string
	text = func(i int, apart string) string {
		var out strings.Builder
		d := s.Documents[i]
		for _, list := range [][]int{d.Layout.Text, d.Nodes.InputValue.Value, d.Nodes.TextValue.Value} {
			for _, k := range list {
				if k >= 0 {
					out.WriteString(s.Strings[k] + apart)
				}
			}
		}
		for _, k := range d.Nodes.ContentDocumentIndex.Value {
			out.WriteString(apart + text(k, apart))
		}
		return out.String()
	}
	all := map[string]string{}
	for i, d := range s.Documents {
		// Adjacent boxes of text may belong to one word or not.
		all[s.Strings[d.DocumentURL]] = text(i, " ") + "\n" + text(i, "")
	}
	return all
}

// renderings has the browser show each response in a frame of another origin, which inherits
// nothing from the page that contains it.
func renderings(t *testing.T, b *browser, responses [][]byte) []string {
	t.Helper()
	frames, pages := newRawOrigin(t), newRawOrigin(t)
	base := fmt.Sprintf("http://localhost:%d", frames.Addr().(*net.TCPAddr).Port)
	texts := make([]string, len(responses))
	const together = 40
	for from := 0; from < len(responses); from += together {
		to := min(from+together, len(responses))
		var page strings.Builder
		page.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<!doctype html>")
		for i := from; i < to; i++ {
			path := fmt.Sprintf("/%d", i)
			frames.put(path, responses[i])
			fmt.Fprintf(&page, "<iframe src=%s%s></iframe>", base, path)
		}
		at := fmt.Sprintf("/from%d", from)
		pages.put(at, []byte(page.String()))
		b.open("http://" + pages.Addr().String() + at)
		time.Sleep(200 * time.Millisecond) // refreshes and late frames
		for url, text := range b.rendered() {
			var i int
			if _, err := fmt.Sscanf(url, base+"/%d", &i); err == nil {
				texts[i] = text
			}
		}
	}
	return texts
}

// inspector is a phrase check that looks for the words of the cases.
func inspector(t *testing.T, words []string) *phrase.Check {
	t.Helper()
	dir := t.TempDir()
	var list strings.Builder
	seen := map[string]bool{}
	for _, w := range words {
		if !seen[w] {
			fmt.Fprintf(&list, "<*%s*>\n", strings.ToLower(w)) // wherever it is in a word: what is tested is reading
		}
		seen[w] = true
	}
	if err := os.WriteFile(filepath.Join(dir, "words"), []byte(list.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := phrase.New(phrase.Config{Banned: []setting.File{setting.File(filepath.Join(dir, "words"))}}, dir, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// inspected reports whether the check finds word in a response to a browser, or whether the
// proxy refuses the response before that.
func inspected(t *testing.T, c *phrase.Check, response []byte, word string) bool {
	t.Helper()
	var s message.Response
	if err := message.NewReader(bytes.NewReader(response), 4096, 64<<10).ReadResponse(&s, "GET"); err != nil {
		return true // refused: the client gets none of it
	}
	q := &message.Request{Method: "GET"}
	q.Add("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	tr := &filter.Transaction{Request: q, Response: &s, Last: filter.ResponseBody}
	if s.Body == nil || !c.Wants(tr, filter.ResponseBody) {
		return false
	}
	tr.Body = &content.Body{}
	tr.Body.Reset(tr.Content(), content.Limits{})
	defer tr.Body.Release()
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(s.Body); err != nil && !strings.Contains(err.Error(), "EOF") {
		return true
	}
	tr.Body.Append(buf.Bytes())
	tr.Body.Finish()
	found, _ := c.Find(context.Background(), tr, filter.ResponseBody, nil)
	for _, f := range found {
		if f.Category == "bannedphrase" && strings.Contains(f.Evidence, string(bytes.TrimSpace(prose.Normalise(nil, []byte(word))))) {
			return true
		}
	}
	return false
}

// unseen are the cases that need not be found, and why.
var unseen = map[string]string{
	// The comparison joins all texts of a page. A details element is a block even if it shows
	// nothing, so the browser breaks the line between "po" and "rn" (innerText is "po\nrn").
	`html "po<details><summary style='display:none'></summary>zz</details>rn"`: "nobody sees one word",
}

// Everything that Chromium renders is inspected. Each case is a response with a word that
// Chromium may or may not show. If it does, the check must find the word.
func TestWhatChromiumRendersIsInspected(t *testing.T) {
	t.Parallel()
	compareWithChromium(t, renderCases(t))
}

// The same holds for answers that were made to evade a filter.
func TestWhatChromiumRendersOfOddAnswersIsInspected(t *testing.T) {
	t.Parallel()
	var all []renderCase
	for _, part := range []func(t *testing.T) []renderCase{statusCases, moreCodingCases, moreCharsetCases, moreMarkupCases} {
		all = append(all, part(t)...)
	}
	all = append(all, styleCases()...)
	compareWithChromium(t, all)
}

func compareWithChromium(t *testing.T, cases []renderCase) {
	t.Helper()
	var words []string
	for _, c := range cases {
		words = append(words, c.word)
	}
	check := inspector(t, words)
	b := newBrowserBy(t, nil, nil, "--disable-site-isolation-trials", "--disable-features=IsolateOrigins,site-per-process,HttpsUpgrades")
	var responses [][]byte
	for _, c := range cases {
		responses = append(responses, c.response())
	}
	shown := 0
	for i, text := range renderings(t, b, responses) {
		c := cases[i]
		word := bytes.TrimSpace(prose.Normalise(nil, []byte(c.word)))
		renders := bytes.Contains(prose.Normalise(nil, []byte(text)), word)
		finds := inspected(t, check, responses[i], c.word)
		if renders {
			shown++
		}
		if reason := unseen[c.name]; reason != "" {
			if finds {
				t.Errorf("%s: the check finds the word; remove the exception (%s)", c.name, reason)
			}
			continue
		}
		if renders && !finds {
			t.Errorf("%s: Chromium shows %q, the check does not find it; it shows %.100q", c.name, c.word, text)
		}
		if testing.Verbose() {
			t.Logf("shown %-5v found %-5v %s", renders, finds, c.name)
		}
	}
	t.Logf("%d cases, %d shown", len(cases), shown)
	if len(cases) < 200 || shown < 150 {
		t.Errorf("Chromium shows the word in only %[2]d of %[1]d cases: something is wrong with the test", len(cases), shown)
	}
}
