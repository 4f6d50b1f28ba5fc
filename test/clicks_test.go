package test

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/wait/waittest"
)

const clicksSettings = `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
data: data
lists:
  own: {format: domains, path: own.txt, category: gambling}
checks:
  category: {lists: [own]}
identity:
  addresses: {anna: [127.0.0.2], ben: [127.0.0.3]}
  groups: {class-7a: [anna], class-8b: [ben]}
policies:
  - name: pupils
    groups: [class-7a, class-8b]
    rules:
      - {name: betting, action: block, category: [gambling]}
dns:
  listen: 127.0.0.1:0
  forward: {upstreams: [127.0.0.1:1]}
  zones: {files: [{path: zones}], reread: 50ms}
votes: {}
events: {sqlite: events.db, every: 50ms}
proxy: {private: [127.0.0.0/8], parent: "http://%s"}
`

// A walk is one story of one person: on a screen of a width, in a language, by mouse or by keyboard alone.
type walk struct {
	*testing.T
	h      *house
	b      *browser
	no     string // tells its names apart from those of other walks
	keys   bool
	clicks int
}

// press clicks what is seen of a selector, or gives it the focus and presses Enter, when it is there. A page
// that is just being replaced is asked again.
func (w *walk) press(selector string) {
	w.Helper()
	w.clicks++
	find := fmt.Sprintf(`document.querySelectorAll("[data-pressed]").forEach(e => e.removeAttribute("data-pressed"));
		const e = document.readyState === "complete" && [...document.querySelectorAll(%q)].find(e => !e.disabled && e.tabIndex >= 0 && e.checkVisibility() && e.getBoundingClientRect().width > 1);
		if (!e) return "";
		e.setAttribute("data-pressed", "");
		e.scrollIntoView({block: "center"});
		if (%v) e.focus();
		return !%[2]v || document.activeElement === e ? "found" : "";`, selector, w.keys)
	do, with := "/click", map[string]string{}
	if w.keys {
		do, with = "/value", map[string]string{"text": enter}
	}
	waittest.Until(w, "the page has "+selector, func() bool {
		if w.b.script(find) != "found" {
			return false
		}
		var el map[string]string
		err := w.b.try("POST", w.b.session+"/element", map[string]string{"using": "css selector", "value": "[data-pressed]"}, &el)
		for _, id := range el {
			err = w.b.try("POST", w.b.session+"/element/"+id+do, with, nil)
		}
		return err == nil && len(el) > 0
	})
}

// to follows the menu to a page: on a phone, what has no place in its bar is under More.
func (w *walk) to(page string) {
	w.Helper()
	link := "a[href='" + page + "']"
	if w.b.script(fmt.Sprintf("return [...document.querySelectorAll(%q)].some(e => e.checkVisibility()) ? 'seen' : ''", "nav "+link)) != "seen" {
		w.press(".bar a[href='/more']")
		link = "main " + link
	} else {
		link = "nav " + link
	}
	w.press(link)
}

// sees waits for an element.
func (w *walk) sees(selector string) {
	w.Helper()
	waittest.Until(w, "the page has "+selector, func() bool {
		return w.b.script(fmt.Sprintf("return document.readyState === 'complete' && document.querySelector(%q) ? 'there' : ''", selector)) == "there"
	})
}

// make makes a change, whose effect the page shows first if it has one; done is there after it.
func (w *walk) make(done string) {
	w.Helper()
	w.sees("#make, " + done)
	if w.b.script("return document.querySelector('#make') ? 'shown' : ''") == "shown" {
		w.press("#make")
		w.sees(done)
	}
}

func (w *walk) addsAList() {
	w.to("/services")
	w.press(".tabs a[href='/lists']")
	w.sees("#url")
	w.b.write("#url", "http://lists.example/"+w.no+".txt"+enter)
	w.press("#save")
	waittest.Until(w, "the list is in the settings", func() bool { return strings.Contains(w.settings(), w.no+".txt") })
}

func (w *walk) answersARequest() {
	waittest.Until(w, "the request is on the start page", func() bool { // votes are counted a moment later
		w.b.open(w.h.pages() + "/")
		return strings.Contains(w.b.text(), "ask-"+w.no+".example")
	})
	w.press("main li form[action='/votes'] button")
	w.make("#decisions")
	waittest.Until(w, "the site is open", func() bool { return w.h.statusFor("127.0.0.2", "http://ask-"+w.no+".example/") != 403 })
}

func (w *walk) findsWhyAndOpens() {
	row := w.h.recorded("host:why-" + w.no + ".example")
	w.b.open(w.h.pages() + "/events")
	w.press("a[href='/events/" + row.ID + "']")
	w.sees("#one")
	w.press("#quick [value=open]")
	w.make("#undo")
	if other := w.h.statusFor("127.0.0.3", "http://why-"+w.no+".example/"); other != 403 {
		w.Errorf("it is open for others, too: status %d", other)
	}
	waittest.Until(w, "the site is open for one", func() bool { return w.h.statusFor("127.0.0.2", "http://why-"+w.no+".example/") != 403 })
}

func (w *walk) invitesATeacher() {
	w.to("/system")
	w.press(".tabs a[href='/accounts']")
	w.sees("#invite")
	w.b.fill("#invite [name=name]", "tess-"+w.no)
	w.b.fill("#invite [name=role]", "helper")
	w.b.fill("#invite [name=groups]", "class-7a")
	w.press("#invite button.main")
	w.sees("#link code")
}

func (w *walk) signsAZone() {
	w.to("/names")
	w.press(".tabs a[href='/zones']")
	w.press("a[href^='/zones/" + w.no + ".example.']")
	w.press("#sign")
	w.make("#ds")
	waittest.Until(w, "the zone is signed", func() bool { return strings.Contains(w.settings(), w.no+".example") })
}

func (w *walk) backsUpAndRestores() {
	before := w.settings()
	w.to("/system")
	backups := func() string { return w.b.script("return document.querySelectorAll('#backups li').length") }
	earlier := backups()
	w.press("form[action='/system/backups'] button")
	waittest.Until(w, "the backup is made", func() bool { return backups() != earlier })
	w.h.write("shuultuur.yaml", before+"# changed\n")
	w.press("#backups li form[action='/system/restore'] button")
	w.press("#sure button.primary")
	waittest.Until(w, "the end of the gateway", w.h.g.StartsAgain)
	w.h.restart()
	if got := w.settings(); got != before {
		w.Errorf("the settings are\n%s", got)
	}
}

func (w *walk) settings() string {
	w.Helper()
	text, err := os.ReadFile(w.h.file)
	if err != nil {
		w.Fatal(err)
	}
	return string(text)
}

// stories are what people do often, and by how many clicks at most: from the start page, and why from the page
// of what happened.
var stories = []struct {
	name  string
	walk  func(*walk)
	most  int
	phone int // more clicks where the menu is a bar: what has no place in it is under More
}{
	{"a list by its address", (*walk).addsAList, 4, 0},
	{"an answer to a request", (*walk).answersARequest, 2, 0},
	{"why, and open for one person", (*walk).findsWhyAndOpens, 3, 0},
	{"an invitation", (*walk).invitesATeacher, 3, 1},
	{"a signed zone", (*walk).signsAZone, 4, 1},
	{"a backup and back", (*walk).backsUpAndRestores, 4, 1},
}

// TestWhatPeopleDoOftenTakesFewClicks: on each screen and in each language by mouse, and on a phone's screen by
// keyboard alone.
func TestWhatPeopleDoOftenTakesFewClicks(t *testing.T) {
	t.Parallel()
	type screen struct {
		width int
		lang  string
		keys  bool
	}
	screens := []screen{
		{1440, "en", false}, {768, "de", false}, {narrow, "ar", false},
		{narrow, "en", true},
	}
	pages := map[string]string{}
	name := func(s screen) string { return fmt.Sprintf("%s%d", s.lang, s.width) }
	blocked := ""
	for _, s := range screens {
		no := name(s)
		pages["lists.example/"+no+".txt"] = "ten-facts-" + no + ".example\n"
		blocked += "ask-" + no + ".example\nwhy-" + no + ".example\n"
	}
	h := newHouse(t, pages)
	h.end()
	h.write("shuultuur.yaml", fmt.Sprintf(clicksSettings, h.origin.Listener.Addr()))
	h.write("own.txt", blocked)
	for _, s := range screens {
		h.write("zones/"+name(s)+".example.zone", "$TTL 300\n@ SOA ns hostmaster 1 3600 600 86400 300\n@ NS ns\nns A 192.0.2.1\n")
	}
	h.start()
	h.accounts(ownerAnd()...)
	b := h.adminBrowser()
	for _, s := range screens {
		way := "mouse"
		if s.keys {
			way = "keys"
		}
		t.Run(fmt.Sprintf("%d %s by %s", s.width, s.lang, way), func(t *testing.T) {
			no := name(s)
			b.t = t
			b.look(s.width, []string{"light", "dark"}[s.width%5%2])
			h.asks("ask-" + no + ".example")
			h.statusFor("127.0.0.2", "http://why-"+no+".example/")
			b.signIn(h.pages(), "olga", password)
			b.script("document.cookie = 'shuultuur-view=." + s.lang + ";path=/'; return ''")
			for _, story := range stories {
				w := &walk{T: t, h: h, b: b, no: no, keys: s.keys}
				b.open(h.pages() + "/")
				if lang := b.script("return document.documentElement.lang"); lang != s.lang {
					t.Fatalf("the page is in %q", lang)
				}
				story.walk(w)
				most := story.most
				if s.width < 1000 { // the menu is a bar
					most += story.phone
				}
				if w.clicks > most {
					t.Errorf("%s took %d clicks, at most %d are allowed", story.name, w.clicks, most)
				}
				b.picture(fmt.Sprintf("clicks-%s-%s", no, strings.ReplaceAll(story.name, " ", "-")))
			}
		})
	}
	b.t = t
}

// asks sends a request to open a site, as the page that blocks it does.
func (h *house) asks(site string) {
	h.t.Helper()
	c := through(h.g.ProxyAddr())
	c.Transport.(*http.Transport).DialContext = (&net.Dialer{Timeout: time.Minute, LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}}).DialContext
	defer c.CloseIdleConnections()
	res, err := c.PostForm("http://"+site+"/.well-known/shuultuur/votes", url.Values{"token": {tokenOf(h.t, c, "http://"+site+"/")}, "vote": {"wrong"}})
	if err != nil {
		h.t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusAccepted {
		h.t.Fatalf("asking for %s: %s", site, res.Status)
	}
}
