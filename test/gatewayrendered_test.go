package test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"shuultuur/content/prose"
)

const renderedSettings = `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
data: data
checks:
  phrase: {banned: [banned]}
policies:
  - name: readers
    rules:
      - {name: words, action: block, category: [bannedphrase]}
events: {sqlite: events.db, every: 100ms}
proxy: {parent: "http://%s"}
`

// shownBy has a browser show n answers in frames, through the proxy, and returns the texts of
// the frames.
func shownBy(b *browser, count int) []string {
	texts := make([]string, count)
	const together = 60
	for from := 0; from < count; from += together {
		to := min(from+together, count)
		b.open("http://pages.example/")
		var none any
		b.call("POST", b.session+"/execute/async", map[string]any{"args": []any{from, to}, "script": framesScript}, &none)
		for url, text := range b.rendered() {
			var i int
			if _, err := fmt.Sscanf(url, "http://frames.example/%d", &i); err == nil {
				texts[i] = text
			}
		}
	}
	return texts
}

// framesScript waits until all frames have loaded, or for three seconds, as some never do.
const framesScript = `const [from, to, done] = arguments;
let left = to - from;
const end = () => setTimeout(done, 400); // refreshes
for (let i = from; i < to; i++) {
	const f = document.createElement('iframe');
	f.onload = () => { if (--left == 0) end() };
	f.src = 'http://frames.example/' + i;
	document.body.append(f);
}
setTimeout(end, 3000);`

// Chromium shows the word when it asks the origin. When it asks through the gateway, it does
// not, because the gateway blocks the page.
func TestWhatChromiumShowsIsBlockedByTheGateway(t *testing.T) {
	t.Parallel()
	compareThroughGateway(t, oddCases(t), 120)
}

func compareThroughGateway(t *testing.T, cases []renderCase, least int) {
	t.Helper()
	h := newHouse(t, nil)
	origin := newRawOrigin(t)
	words := map[string]bool{}
	var list strings.Builder
	var responses [][]byte
	for _, c := range cases {
		if !words[c.word] {
			fmt.Fprintf(&list, "<*%s*>\n", strings.ToLower(c.word)) // wherever it is in a word: what is tested is reading
		}
		words[c.word] = true
		responses = append(responses, c.response())
	}
	h.write("banned", list.String())
	h.write("shuultuur.yaml", fmt.Sprintf(renderedSettings, origin.Addr()))
	h.restart()
	flags := []string{"--disable-site-isolation-trials", "--disable-features=IsolateOrigins,site-per-process,HttpsUpgrades"}
	origin.put("/", []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<!doctype html><body>"))
	for i, r := range responses {
		origin.put(fmt.Sprintf("/%d", i), r)
	}
	var direct []string
	b := newBrowser(t, origin.Addr().String(), flags...)
	var wg sync.WaitGroup
	wg.Go(func() { direct = shownBy(b, len(responses)) })
	through := shownBy(newBrowser(t, h.g.ProxyAddr(), flags...), len(responses))
	wg.Wait()
	shown := 0
	for i, c := range cases {
		word := bytes.TrimSpace(prose.Normalise(nil, []byte(c.word)))
		shows := func(s string) bool { return bytes.Contains(prose.Normalise(nil, []byte(s)), word) }
		blocked := strings.Contains(through[i], "readers")
		if shows(direct[i]) {
			shown++
		}
		if shows(through[i]) && !blocked && unseen[c.name] == "" {
			t.Errorf("%s: Chromium shows %q through the gateway: %.100q", c.name, c.word, through[i])
		}
		if testing.Verbose() {
			t.Logf("shown %-5v blocked %-5v %s", shows(direct[i]), blocked, c.name)
		}
	}
	t.Logf("%d cases, %d shown without the gateway", len(cases), shown)
	if shown < least {
		t.Errorf("Chromium shows only %d of %d cases without the gateway: something is wrong with the test", shown, len(cases))
	}
}
