package test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// wide and narrow are the widths at which pages are looked at.
const (
	wide   = 1280
	narrow = 360
)

// look has the browser show pages as a screen of this width and in this colour
// scheme would.
func (b *browser) look(width int, scheme string) {
	b.t.Helper()
	b.cdp("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500})
	b.cdp("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]string{"name": "prefers-color-scheme", "value": scheme}}})
}

// cdp gives a command of the Chrome DevTools Protocol.
func (b *browser) cdp(cmd string, params map[string]any) {
	b.t.Helper()
	b.call("POST", b.session+"/goog/cdp/execute", map[string]any{"cmd": cmd, "params": params}, nil)
}

// TestPagesOfTheAdminAddress leads a person through the pages: why was it
// blocked, open it for a while, take that back; a mistake in the settings is
// shown at its line, a change shows what it does, and is taken back. With
// SHUULTUUR_PICTURES=DIR it leaves pictures of all pages there, wide and narrow,
// light and dark.
func TestPagesOfTheAdminAddress(t *testing.T) {
	h := newHouse(t, map[string]string{"tea.example/": "<p>Tea.</p>", "bet.example/": "<p>Bets.</p>"})
	for range 3 {
		h.status("http://bet.example/")
		h.status("http://tea.example/")
	}
	row := h.recorded("host:bet.example action:block")
	h.recorded("host:tea.example")
	b := newBrowser(t, h.g.ProxyAddr(), "--proxy-bypass-list=<-loopback>;127.0.0.1")
	admin := "http://" + h.g.AdminAddr()

	b.open(admin + "/")
	b.shows("bet.example")
	b.shows("The last hour, by verdict")
	b.open(admin + "/why?url=http://bet.example/")
	b.shows("own.txt:1")

	// Open it for an hour, see it open, take it back.
	b.open(admin + "/events/" + row.ID)
	b.shows("What would happen now")
	b.click("button[value=open]")
	b.shows("bet.example is open for 127.0.0.1 until")
	if code := h.status("http://bet.example/"); code != 200 {
		t.Errorf("opened by hand, bet.example gives %d", code)
	}
	b.click("#undo")
	b.shows("Lists and rules decide about bet.example")
	if code := h.status("http://bet.example/"); code != 403 {
		t.Errorf("after that was taken back, bet.example gives %d", code)
	}

	// A mistake, a change, and back.
	was, err := os.ReadFile(h.file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(old, with string) {
		b.script(fmt.Sprintf("const t = document.querySelector('#text'); t.value = t.value.replace(%q, %q)", old, with))
	}
	b.open(admin + "/settings")
	write("action: block, category: [gambling]", "action: stop, category: [gambling]")
	b.click("button[value=check]")
	line := 1 + strings.Count(string(was[:strings.Index(string(was), "betting")]), "\n")
	b.shows(fmt.Sprintf("line %d", line))
	write("action: stop, category: [gambling]", "action: warn, category: [gambling]")
	b.click("button[value=check]")
	b.shows("This change would have altered")
	b.shows("http://bet.example/")
	if now, _ := os.ReadFile(h.file); string(now) != string(was) {
		t.Error("the settings were saved before their effect was seen")
	}
	b.click("button[value=save]")
	b.shows("Saved and in use")
	if now, _ := os.ReadFile(h.file); string(now) != strings.Replace(string(was), "action: block, category: [gambling]", "action: warn, category: [gambling]", 1) {
		t.Errorf("saved:\n%s", now)
	}
	b.click("a[href^='/settings/versions/']")
	b.shows("compared with the settings in use")
	b.click("button[value=check]")
	b.shows("This change would have altered")
	b.click("button[value=save]")
	b.shows("Saved and in use")
	if now, _ := os.ReadFile(h.file); string(now) != string(was) {
		t.Errorf("after going back:\n%s", now)
	}

	for _, page := range []string{"/", "/events", "/events/" + row.ID, "/statistics", "/why?url=http://bet.example/", "/clients", "/clients/one?who=127.0.0.1", "/policies", "/lists?q=bet.example", "/rulings", "/pause", "/ca", "/settings", "/system"} {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int{wide, narrow} {
				if scheme == "dark" && os.Getenv("SHUULTUUR_PICTURES") == "" {
					continue
				}
				b.look(width, scheme)
				b.open(admin + page)
				if over := b.script("return document.documentElement.scrollWidth - innerWidth"); over != "0" && !strings.HasPrefix(over, "-") {
					t.Errorf("%s at %d pixels is %s too wide", page, width, over)
				}
				name, _, _ := strings.Cut(strings.Trim(page, "/"), "?")
				if strings.Contains(name, "/") {
					name = filepath.Dir(name) + "-one"
				}
				b.picture(fmt.Sprintf("page-%s-%d-%s", cmp.Or(name, "start"), width, scheme))
			}
		}
	}
}
