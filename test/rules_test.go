package test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"shuultuur/lib/wait/waittest"
)

const pupilsSettings = `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
data: data
lists:
  own: {format: domains, path: own.txt, category: games}
checks:
  category: {lists: [own]}
policies:
  - name: pupils # all of them
    rules:
      - {name: ai, action: monitor, host: [ai.example]} # for now
events: {sqlite: events.db, every: 100ms}
proxy: {parent: "http://%s"}
`

// TestNoGamesForPupilsBeforeThree: from the start page, with at most eight clicks, or with the keys alone.
func TestNoGamesForPupilsBeforeThree(t *testing.T) {
	t.Parallel()
	for _, width := range []int{1440, narrow} {
		for _, way := range []string{"mouse", "keys"} {
			t.Run(fmt.Sprintf("%d by %s", width, way), func(t *testing.T) { noGamesBeforeThree(t, width, way == "keys") })
		}
	}
}

func noGamesBeforeThree(t *testing.T, width int, keys bool) {
	h := newHouse(t, map[string]string{"bet.example/": "<p>Chess.</p>"})
	h.end()
	h.write("shuultuur.yaml", fmt.Sprintf(pupilsSettings, h.origin.Listener.Addr()))
	h.start()
	h.status("http://bet.example/")
	h.recorded("host:bet.example")
	b := h.adminBrowser()
	b.look(width, "light")
	clicks := 0
	press := func(selector string, leaves bool) {
		t.Helper()
		clicks++
		switch {
		case keys: // it has the focus, and is pressed
			b.script(fmt.Sprintf("window.before = %v; document.querySelector(%q).focus(); return ''", leaves, selector))
			key := "\uE007"
			if strings.Contains(selector, "input") {
				key = " "
			}
			b.keys(key)
		case strings.Contains(selector, "input"): // what is seen of it is its label
			b.script(fmt.Sprintf("document.querySelector(%q).closest('label').id = 'label'; return ''", selector))
			b.click("#label")
			b.script("document.querySelector('#label').removeAttribute('id'); return ''")
		default:
			b.script(fmt.Sprintf("window.before = %v; return ''", leaves))
			b.click(selector)
		}
		if leaves {
			waittest.Until(t, "the next page is there", func() bool {
				return b.script("return window.before || document.readyState !== 'complete' ? '' : 'there'") == "there"
			})
		}
	}
	b.open("http://" + h.g.AdminAddr() + "/")
	if width == narrow {
		press(".bar a[href='/more']", true)
		press("main a[href='/policies']", true)
	} else {
		press(".side a[href='/policies']", true)
	}
	press("a.primary[href^='/policies/rule']", true)
	press("input[name=category][value=games]", false)
	press("input[name=action][value=block]", false)
	last := "(row => row.cells[(row.cells.length - 1) * 15 / 24])(document.querySelector('.paint tbody:nth-of-type(5)').rows[0])"
	if keys {
		b.script("document.querySelector('.paint tbody td').focus(); return ''")
		n := 15*2 - 1
		if width == narrow {
			n = 15 - 1
		}
		b.keys("\uE008" + strings.Repeat("\uE014", n) + strings.Repeat("\uE015", 4) + "\uE000")
	} else {
		clicks++
		b.drag("document.querySelector('.paint tbody td')", last)
	}
	b.shows("Mon–Fri 00:00–15:00")
	b.shows("This change would have")
	b.picture(fmt.Sprintf("story-rule-%d-%v", width, keys))
	press("form#rule button.primary", true)
	if b.script("return document.querySelector('#make') ? 'shown' : ''") == "shown" {
		press("#make", true)
	}
	b.shows("Saved and in use")
	if clicks > 8 {
		t.Errorf("it took %d clicks, at most 8 are allowed", clicks)
	}
	text, err := os.ReadFile(h.file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# all of them", "# for now", "action: block", "category: [games]", `00:00-15:00`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the settings lack %q:\n%s", want, text)
		}
	}
	// The new rule changes places with its handle, and the change is taken back.
	b.open("http://" + h.g.AdminAddr() + "/policies?name=pupils")
	b.script("window.before = true; document.querySelectorAll('.grip')[1].focus(); return ''")
	b.keys("\uE013")
	waittest.Until(t, "the rule is first", func() bool {
		return strings.HasPrefix(b.script("return document.querySelector('.sentences li .line')?.textContent || ''"), "Block")
	})
	b.follow("#undo")
	b.shows("Taken back")
	if first := b.script("return document.querySelector('.sentences li .line').textContent"); !strings.HasPrefix(first, "Only count") {
		t.Errorf("after Undo the first rule is %q", first)
	}
}

// keys presses keys where the focus is.
func (b *browser) keys(keys string) {
	b.t.Helper()
	var el map[string]string
	b.call("GET", b.session+"/element/active", nil, &el)
	for _, id := range el {
		b.call("POST", b.session+"/element/"+id+"/value", map[string]string{"text": keys}, nil)
	}
}

// drag moves the pressed pointer from one element, a script says which, to another.
func (b *browser) drag(from, to string) {
	b.t.Helper()
	b.script(from + ".scrollIntoView({block: 'center'}); return ''")
	var at [2]int
	move := func(of string) map[string]any {
		b.script("const r = (" + of + ").getBoundingClientRect(); window.at = [Math.round(r.x + r.width / 2), Math.round(r.y + r.height / 2)]; return ''")
		if _, err := fmt.Sscanf(b.script("return window.at.join(' ')"), "%d %d", &at[0], &at[1]); err != nil {
			b.t.Fatal(err)
		}
		return map[string]any{"type": "pointerMove", "duration": 50, "x": at[0], "y": at[1]}
	}
	b.call("POST", b.session+"/actions", map[string]any{"actions": []any{map[string]any{"type": "pointer", "id": "mouse", "actions": []any{
		move(from), map[string]any{"type": "pointerDown", "button": 0}, move(to), map[string]any{"type": "pointerUp", "button": 0}}}}}, nil)
}
