package test

import (
	"testing"

	"shuultuur/lib/wait/waittest"
)

// TestAListIsAddedAndTakenOut: by its address, by keyboard alone, in as few steps as one can name: what
// it is and what it would have done is seen before it blocks, and a switch takes it out again.
func TestAListIsAddedAndTakenOut(t *testing.T) {
	t.Parallel()
	onEachScreen(t, aListIsAddedAndTakenOut)
}

// enter is the key.
const enter = "\ue007"

func aListIsAddedAndTakenOut(t *testing.T, width int) {
	h := newHouse(t, map[string]string{"wow.example/": "<p>Wow.</p>", "tea.example/": "<p>Tea.</p>",
		"lists.example/clickbait.txt": "# Clickbait\nwow.example\nten-facts.example\nno host at all\n"})
	want := func(when, url string, status int) {
		t.Helper()
		waittest.Until(t, when, func() bool { return h.status(url) == status })
	}
	want("it is open", "http://wow.example/", 200)
	b := h.adminBrowser()
	b.look(width, "light")
	b.openUntil(h.pages()+"/events", "wow.example")
	b.open(h.pages() + "/lists")
	b.shows("own")
	b.write("#url", "http://lists.example/clickbait.txt")
	b.script("window.before = true; return ''")
	b.write("#url", enter)
	b.shows("Found: 4 lines")
	b.shows("ten-facts.example")
	b.shows("This change would have closed")
	b.write("#save:focus", enter)
	want("the list blocks", "http://wow.example/", 403)
	b.openUntil(h.pages()+"/lists?q=wow.example", "wow.example")
	b.shows("clickbait")
	b.change(`form[action="/lists/clickbait/remove"] button`)
	want("the list is out", "http://wow.example/", 200)

	b.open(h.pages() + "/lists/new/text")
	b.write("[name=name]", "loud")
	b.write("textarea", "# too loud\ntea.example\n")
	b.follow("#save")
	if b.script("return document.querySelector('#save[autofocus]') ? 'shown' : ''") == "shown" { // it changes something of the last day
		b.follow("#save")
	}
	b.shows("Saved and in use")
	want("one's own list blocks", "http://tea.example/", 403)
}
