package test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
)

// A browser is a headless Chromium driven over the WebDriver protocol
// (W3C WebDriver).
type browser struct {
	t       *testing.T
	driver  string // base URL of chromedriver
	session string
	client  http.Client // to chromedriver
}

// newBrowser starts chromedriver and a session. Everything that the browser loads goes through
// the proxy at addr.
func newBrowser(t *testing.T, addr string, args ...string) *browser {
	t.Helper()
	return newBrowserBy(t, nil, nil, append(proxyFlags(addr), args...)...)
}

// proxyFlags are the flags of a browser whose proxy is addr, for addresses of this machine too.
func proxyFlags(addr string) []string {
	return []string{"--proxy-server=http://" + addr, "--proxy-bypass-list=<-loopback>"}
}

// newBrowserAt is newBrowser for a user with a separate home folder.
func newBrowserAt(t *testing.T, home, addr string) *browser {
	t.Helper()
	return newBrowserBy(t, []string{"env", "HOME=" + home}, nil, proxyFlags(addr)...)
}

// newBrowserBy starts a browser by a command that runs other commands, and reaches its driver
// over connections of dial. Both may be nil.
func newBrowserBy(t *testing.T, command []string, dial func(ctx context.Context, network, addr string) (net.Conn, error), args ...string) *browser {
	t.Helper()
	port := startDriver(t, append(command, peer.Program(t, "chromedriver"), "--port=0"))
	b := &browser{t: t, driver: "http://127.0.0.1:" + port}
	b.client = http.Client{Timeout: 3 * time.Minute, Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true, DialContext: dial}}

	args = append([]string{
		"--remote-debugging-pipe", // the browser ends with its driver, however that ends
		"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-dev-shm-usage", "--disable-features=HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,OptimizationHints",
		"--user-data-dir=" + t.TempDir(), "--window-size=1000,800",
	}, args...)
	var s struct{ SessionID string }
	b.call("POST", "/session", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"browserName": "chrome", "timeouts": map[string]int{"script": 120_000}, // milliseconds: a busy machine takes long
		"goog:chromeOptions": map[string]any{"args": args},
	}}}, &s)
	b.session = "/session/" + s.SessionID
	t.Cleanup(func() { b.call("DELETE", b.session, nil, nil) })
	return b
}

var portLine = regexp.MustCompile(`started successfully on port (\d+)`)

// startDriver starts chromedriver and returns its port. It takes a free port of IPv4 and then
// needs the same one of IPv6; if something else has that, it ends, and is started again.
func startDriver(t *testing.T, command []string) (port string) {
	t.Helper()
	said := ""
	for range 10 {
		cmd := peer.Command(t, command[0], command[1:]...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = cmd.Stdout
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		if port, said = driverPort(t, out); port != "" {
			return port
		}
	}
	t.Fatalf("chromedriver ended ten times before it said which port it listens on; the last time it said %q", said)
	return ""
}

// driverPort returns the port that chromedriver says it listens on, or "" and what it said if it
// ends.
func driverPort(t *testing.T, out io.Reader) (port, said string) {
	t.Helper()
	result := make(chan [2]string, 1)
	go func() {
		all := ""
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if m := portLine.FindStringSubmatch(lines.Text()); m != nil {
				result <- [2]string{m[1], ""}
				_, _ = io.Copy(io.Discard, out)
				return
			}
			all += lines.Text() + "\n"
		}
		result <- [2]string{"", all}
	}()
	select {
	case r := <-result:
		return r[0], r[1]
	case <-time.After(time.Minute):
		t.Fatal("chromedriver did not say within a minute which port it listens on")
	}
	return "", ""
}

// call does one WebDriver command.
func (b *browser) call(method, path string, in, out any) {
	b.t.Helper()
	if err := b.try(method, path, in, out); err != nil {
		b.t.Fatalf("browser: %s %s: %v", method, path, err)
	}
}

func (b *browser) try(method, path string, in, out any) error {
	body := []byte("{}")
	if in != nil {
		body, _ = json.Marshal(in)
	}
	req, err := http.NewRequest(method, b.driver+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := b.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer := struct{ Value json.RawMessage }{}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%.300s", answer.Value)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer.Value, out)
}

func (b *browser) open(url string) {
	b.t.Helper()
	if err := b.visit(url); err != nil {
		b.t.Fatalf("open %s: %v", url, err)
	}
}

// networkChanged is the error of a browser that abandons requests when an
// address of its machine appears or disappears, as in a new namespace.
const networkChanged = "ERR_NETWORK_CHANGED"

func (b *browser) visit(url string) (err error) {
	for range 5 {
		err = b.try("POST", b.session+"/url", map[string]string{"url": url}, nil)
		if err == nil || !strings.Contains(err.Error(), networkChanged) {
			break
		}
	}
	return err
}

// text returns the text that the page shows.
func (b *browser) text() string {
	b.t.Helper()
	var s string
	b.call("POST", b.session+"/execute/sync", map[string]any{"script": "return document.body.innerText", "args": []any{}}, &s)
	return s
}

func (b *browser) script(js string) string {
	b.t.Helper()
	var s any
	b.call("POST", b.session+"/execute/sync", map[string]any{"script": js, "args": []any{}}, &s)
	return fmt.Sprint(s)
}

// click clicks the first element that the CSS selector finds.
func (b *browser) click(selector string) {
	b.t.Helper()
	var el map[string]string
	b.call("POST", b.session+"/element", map[string]string{"using": "css selector", "value": selector}, &el)
	// A person scrolls to what a bar of the page covers.
	b.script(fmt.Sprintf("document.querySelector(%q)?.scrollIntoView({block: 'center'}); return ''", selector))
	for _, id := range el {
		b.call("POST", b.session+"/element/"+id+"/click", nil, nil)
	}
}

// change clicks a button that changes something. If the page shows the effect first, it then
// makes the change.
func (b *browser) change(selector string) {
	b.t.Helper()
	b.follow(selector)
	if b.script("return document.querySelector('#make') ? 'shown' : ''") == "shown" {
		b.follow("#make")
	}
}

// follow clicks a link, and waits until the next page is there.
func (b *browser) follow(selector string) {
	b.t.Helper()
	b.script("window.before = true; return ''")
	b.click(selector)
	waittest.Until(b.t, "the next page is there", func() bool {
		return b.script("return window.before || document.readyState !== 'complete' ? '' : 'there'") == "there"
	})
}

// seen makes a change whose effect the page shows without being left.
func (b *browser) seen(selector string) {
	b.t.Helper()
	b.click(selector)
	b.shows("This change would have")
	b.click("#make")
	waittest.Until(b.t, "the change is made", func() bool { return b.script("return document.querySelector('#make') ? '' : 'made'") == "made" })
}

// write types text into the first element that the CSS selector finds.
func (b *browser) write(selector, text string) {
	b.t.Helper()
	var el map[string]string
	b.call("POST", b.session+"/element", map[string]string{"using": "css selector", "value": selector}, &el)
	for _, id := range el {
		b.call("POST", b.session+"/element/"+id+"/value", map[string]string{"text": text}, nil)
	}
}

// unfold opens the details of a page.
func (b *browser) unfold() {
	b.script(`document.querySelectorAll("details").forEach(d => d.open = true)`)
}

// shows waits until the page shows want.
func (b *browser) shows(want string) {
	b.t.Helper()
	var got string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if got = b.text(); strings.Contains(strings.ToLower(got), strings.ToLower(want)) {
			return
		}
		if strings.Contains(got, networkChanged) {
			_ = b.try("POST", b.session+"/refresh", map[string]string{}, nil)
		}
	}
	b.t.Errorf("the page does not show %q, but:\n%s", want, got)
}

// openUntil opens a page again and again until it shows a text.
func (b *browser) openUntil(url, want string) {
	b.t.Helper()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		b.open(url)
		if strings.Contains(strings.ToLower(b.text()), strings.ToLower(want)) {
			return
		}
	}
	b.shows(want)
}

// picture saves a screenshot of the whole page in the folder SHUULTUUR_PICTURES,
// for inspection.
func (b *browser) picture(name string) {
	b.t.Helper()
	dir := os.Getenv("SHUULTUUR_PICTURES")
	if dir == "" {
		return
	}
	var shot struct{ Data string }
	b.call("POST", b.session+"/goog/cdp/execute", map[string]any{"cmd": "Page.captureScreenshot", "params": map[string]any{"captureBeyondViewport": true}}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
