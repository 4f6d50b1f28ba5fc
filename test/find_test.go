package test

import (
	"fmt"
	"testing"

	"shuultuur/lib/wait/waittest"
	"shuultuur/test/race"
)

// Keys as WebDriver sends them (W3C WebDriver, section 17.4.2).
const (
	keyEnter = "\ue007"
	keyCtrl  = "\ue009"
	keyDown  = "\ue015"
	keyNone  = "\ue000"
)

// TestBrowserFindsAndDoes opens a site for a person by keyboard alone: Ctrl K, words, an arrow and
// Enter; and on a phone by the button at the top.
func TestBrowserFindsAndDoes(t *testing.T) {
	race.Without(t)
	h := classHouse(t)
	b := h.adminBrowser()
	for _, width := range []int{1440, 360} {
		b.look(width, "light")
		b.open("http://" + h.g.AdminAddr() + "/lists")
		if width > 1000 {
			b.write("body", keyCtrl+"k"+keyNone)
		} else {
			b.click("header.top [data-find]")
		}
		waittest.Until(t, "the field is there", func() bool { return b.script("return document.querySelector('#find').open ? 'open' : ''") == "open" })
		b.write("#find [data-ask]", "open bet.example anna 30m")
		b.shows("Open bet.example for anna, for 30 minutes")
		b.picture(fmt.Sprintf("find-%d", width))
		examine(b, axe(t), "/lists with the field", width, 200)
		b.script("window.before = true; return ''")
		b.write("#find [data-ask]", keyDown)
		if on := b.script("return document.activeElement.textContent"); on != "Open bet.example for anna, for 30 minutes" {
			t.Errorf("at %d px, the arrow leads to %q", width, on)
		}
		b.write("#found button", keyEnter)
		waittest.Until(t, "the next page is there", func() bool {
			return b.script("return window.before || document.readyState !== 'complete' ? '' : 'there'") == "there"
		})
		if b.script("return document.querySelector('#make') ? 'shown' : ''") == "shown" {
			b.follow("#make")
		}
		b.shows("bet.example is open for anna until")
		if got := h.statusFor("127.0.0.2", "http://bet.example/"); got != 200 {
			t.Errorf("anna gets status %d", got)
		}
		b.change("#undo")
	}
}
