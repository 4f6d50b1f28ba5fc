package test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shuultuur/intercept"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
)

// wide and narrow are the widths of screens, in pixels, at which the tests look at pages.
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

// TestPagesOfTheAdminAddress uses the pages as a person does: it finds why a page was blocked,
// opens it for a while, sees it open in the pupil's browser, and undoes that. Then it sees a
// mistake in the settings at its line, sees the effect of a change, and undoes the change.
func TestPagesOfTheAdminAddress(t *testing.T) {
	t.Parallel()
	onEachScreen(t, leadThroughThePages)
}

// onEachScreen runs a test on a wide screen and on a phone.
func onEachScreen(t *testing.T, story func(t *testing.T, width int)) {
	for _, width := range []int{wide, narrow} {
		t.Run(fmt.Sprint(width), func(t *testing.T) { story(t, width) })
	}
}

func leadThroughThePages(t *testing.T, width int) {
	h := newHouse(t, map[string]string{"tea.example/": "<p>Tea.</p>", "bet.example/": "<p>Bets.</p>"})
	for range 3 {
		h.status("http://bet.example/")
		h.status("http://tea.example/")
	}
	row := h.recorded("host:bet.example action:block")
	h.recorded("host:tea.example")
	b := newBrowser(t, h.g.ProxyAddr(), "--proxy-bypass-list=<-loopback>;127.0.0.1")
	b.look(width, "light")
	pupil := newBrowser(t, h.g.ProxyAddr())
	pupil.look(width, "light")
	sees := func(want string) {
		t.Helper()
		pupil.open("http://bet.example/")
		pupil.shows(want)
		pupil.picture(fmt.Sprintf("story-pupil-%d", width))
	}
	admin := "http://" + h.g.AdminAddr()
	sees("bet.example is closed here")

	b.open(admin + "/")
	b.shows("bet.example")
	b.shows("requests in the last hour")
	b.open(admin + "/why?url=http://bet.example/")
	b.shows("own.txt:1")

	// Open it for an hour, see it open, take it back.
	b.open(admin + "/events/" + row.ID)
	b.shows("What would happen now")
	b.click("button[value=open]")
	b.shows("This change would have")
	examine(b, axe(t), "/rulings", width, 200)
	b.picture(fmt.Sprintf("story-effect-%d", width))
	sees("bet.example is closed here")
	b.follow("#make")
	b.shows("bet.example is open for 127.0.0.1 until")
	sees("Bets.")
	b.change("#undo")
	b.shows("Lists and rules decide about bet.example")
	sees("bet.example is closed here")

	// The same from a row of the record, without leaving it.
	b.open(admin + "/events?filter=host:bet.example")
	b.click("a[data-ruling]")
	b.shows("Open or block a site")
	b.picture(fmt.Sprintf("record-ruling-%d", width))
	b.click("dialog button[value=open]")
	b.shows("This change would have")
	examine(b, axe(t), "/events with a dialog", width, 200)
	b.picture(fmt.Sprintf("record-effect-%d", width))
	sees("bet.example is closed here")
	b.click("#make")
	waittest.Until(t, "the change is made", func() bool { return b.script("return document.querySelector('#undo') ? 'made' : ''") == "made" })
	b.shows("bet.example is open for 127.0.0.1 until")
	sees("Bets.")
	b.seen("#undo")
	b.shows("Lists and rules decide about bet.example")
	sees("bet.example is closed here")
	if at := b.script("return location.pathname"); at != "/events" {
		t.Errorf("opening the site from a row of the record led away, to %s", at)
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
	// While a person types: completions at the cursor, and mistakes.
	b.script(`const t = document.querySelector("#text"); t.value += "identity:\n  addr"; t.focus(); t.setSelectionRange(t.value.length, t.value.length); t.dispatchEvent(new Event("input"))`)
	b.shows("addresses")
	b.picture(fmt.Sprintf("settings-hints-%d", width))
	b.click("#hints button")
	b.script(`const t = document.querySelector("#text"); t.value += "7"; t.dispatchEvent(new Event("input"))`)
	waittest.Until(t, "the mistake is said", func() bool {
		return strings.Contains(b.script(`return document.querySelector("#mistakes").textContent`), "identity.addresses")
	})
	b.picture(fmt.Sprintf("settings-mistake-%d", width))
	b.open(admin + "/settings")
	write("action: block, category: [gambling]", "action: stop, category: [gambling]")
	b.click("button[value=check]")
	line := 1 + strings.Count(string(was[:strings.Index(string(was), "betting")]), "\n")
	b.shows(fmt.Sprintf("line %d", line))
	examine(b, axe(t), "/settings with a mistake", width, 422)
	b.picture(fmt.Sprintf("settings-line-%d", width))
	write("action: stop, category: [gambling]", "action: warn, category: [gambling]")
	b.click("button[value=check]")
	b.shows("This change would have")
	b.shows("http://bet.example/")
	examine(b, axe(t), "/settings with the effect", width, 200)
	b.picture(fmt.Sprintf("settings-effect-%d", width))
	if now, _ := os.ReadFile(h.file); string(now) != string(was) {
		t.Error("the settings were saved before their effect was seen")
	}
	b.click("button[value=save]")
	b.shows("Saved and in use")
	if now, _ := os.ReadFile(h.file); string(now) != strings.Replace(string(was), "action: block, category: [gambling]", "action: warn, category: [gambling]", 1) {
		t.Errorf("the saved settings lack the change:\n%s", now)
	}
	b.click("a[href^='/settings/versions/']")
	b.shows("compared with the settings in use")
	examine(b, axe(t), "/settings/versions", width, 200)
	b.click("button[value=check]")
	b.shows("This change would have")
	b.click("button[value=save]")
	b.shows("Saved and in use")
	if now, _ := os.ReadFile(h.file); string(now) != string(was) {
		t.Errorf("after going back, the settings are not those before:\n%s", now)
	}
}

// tourSettings use everything that has a page.
const tourSettings = `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0, portal: 127.0.0.1:0}
portal: {name: gate.school.example}
data: data
lists:
  own: {format: domains, path: own.txt, category: gambling}
checks:
  category: {lists: [own]}
  phrase: {weighted: [weighted], naughtynesslimit: 50}
identity:
  # rooms
  addresses: {anna: [10.0.0.5], ben: [10.0.0.6, 10.0.0.7]}
  groups: {class-7a: [anna, ben], class-8b: [10.0.8.0/24]}
policies:
  - name: class
    groups: [class-7a, class-8b]
    decrypt: true
    schedule: [{days: mon-fri, hours: "08:00-12:00,13:00-16:30"}, {days: sat, hours: "09:00-12:00"}]
    quotas: [{category: gambling, time: 30m}]
    rules:
      - {name: betting, action: block, category: [gambling]}
      - {name: night, action: block, schedule: {hours: "21:00-06:00"}}
  - name: readers
    rules:
      - {name: betting, action: block, category: [gambling]}
      - {name: bad words, action: block, category: [phrase], over: 100}
alerts: {themes: {exams: {search: [exam answers], severity: high}}}
votes: {listen: 127.0.0.1:0}
dns: {listen: 127.0.0.1:0, forward: {upstreams: [192.0.2.53]}, zones: {files: [{path: example.com.zone}]}}
cache: {memory: 64MiB}
intercept: {root: root.pem}
events: {sqlite: events.db, every: 100ms}
proxy: {parent: "http://%s"}
`

// maxFirstPage bounds the bytes that the first page loads, as they are sent.
const maxFirstPage = 150 << 10

// axe returns Deque's checker, which npm installs. If it is not available, the
// test is skipped.
func axe(t *testing.T) string {
	t.Helper()
	const version = "4.14.1"
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(cache, "shuultuur", "axe-core-"+version)
	file := filepath.Join(dir, "package", "axe.min.js")
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		peer.Program(t, "npm")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		out, bad := exec.CommandContext(t.Context(), "sh", "-c", "cd \"$0\" && npm pack --silent axe-core@"+version+" && tar xzf axe-core-"+version+".tgz", dir).CombinedOutput()
		if bad != nil {
			t.Skipf("axe-core cannot be had, with npm: %v %s", bad, out)
		}
		text, err = os.ReadFile(file)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A visit has the figures about a page.
type visit struct {
	Status          float64 // of HTTP
	Bytes, Requests float64
	Shift           float64 // cumulative layout shift while it loads
	Over            float64 // pixels beyond the width of the screen
	Others          []string
}

const weigh = `
const all = performance.getEntriesByType("resource"), page = performance.getEntriesByType("navigation")[0];
// What is shown anew while somebody looks may need more room than before; a page must not move while it loads.
const fetched = Math.min(...all.filter((r) => r.initiatorType === "fetch" && r.name === location.href).map((r) => r.startTime));
let shift = 0;
new PerformanceObserver((list) => list.getEntries().forEach((s) => { shift += s.startTime < fetched ? s.value : 0; })).observe({type: "layout-shift", buffered: true});
return new Promise((done) => setTimeout(() => done(JSON.stringify({
	status: page.responseStatus, bytes: page.encodedBodySize + all.reduce((n, r) => n + r.encodedBodySize, 0), requests: 1 + all.length,
	shift: shift, over: document.documentElement.scrollWidth - wide, // a phone makes its window as wide as what is in it
	others: all.map((r) => r.name).filter((n) => !n.startsWith(location.origin))})), 100));
`

// TestEveryPageOfTheAdminAddress visits each page, wide and narrow, light and dark. A page must
// be accessible (WCAG 2.2 A and AA, by axe-core), fit the screen, not shift, and load little,
// and only from the admin address. With SHUULTUUR_PICTURES=DIR the test leaves pictures of all
// pages there.
func TestEveryPageOfTheAdminAddress(t *testing.T) {
	t.Parallel()
	checker := axe(t)
	h := newHouse(t, map[string]string{"tea.example/": "<p>Tea.</p>", "bet.example/": "<p>Bets.</p>"})
	h.write("example.com.zone", "$ORIGIN example.com.\n$TTL 1h\n@ SOA ns hostmaster 1 1h 10m 1w 5m\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\n")
	root, err := intercept.NewRoot(intercept.RootConfig{Name: "School filter"})
	if err != nil {
		t.Fatal(err)
	}
	if err := root.Write(filepath.Join(filepath.Dir(h.file), "root.pem"), false); err != nil {
		t.Fatal(err)
	}
	h.write("shuultuur.yaml", fmt.Sprintf(tourSettings, h.origin.Listener.Addr()))
	h.restart()
	for range 3 {
		h.status("http://bet.example/")
		h.status("http://tea.example/")
	}
	row := h.recorded("host:bet.example action:block")
	h.recorded("host:tea.example")
	h.status("http://www.google.com/search?q=exam+answers")
	admin := "http://" + h.g.AdminAddr()
	for path, form := range map[string]url.Values{"/bonus": {"who": {"class-7a"}, "minutes": {"15"}}, "/rulings": {"what": {"open"}, "site": {"bet.example"}, "who": {"anna"}, "for": {"1d"}}} {
		r, err := http.PostForm(admin+path, form)
		if err != nil || r.StatusCode != 200 {
			t.Fatalf("POST %s: %v, %v, want status 200", path, r, err)
		}
		r.Body.Close()
	}
	b := newBrowser(t, h.g.ProxyAddr(), "--proxy-bypass-list=<-loopback>;127.0.0.1")
	b.open(admin + "/")
	links := func() []string {
		return strings.Fields(b.script(`return [...document.querySelectorAll(".menu-main a, .foot a.me, .tabs a")].map((a) => a.getAttribute("href")).join(" ")`))
	}
	pages := links()
	if len(pages) != 9 {
		t.Fatalf("the menu has %q, want eight pages and the account", pages)
	}
	for _, item := range slices.Clone(pages) {
		b.open(admin + item)
		for _, tab := range links() {
			if !slices.Contains(pages, tab) {
				pages = append(pages, tab)
			}
		}
	}
	if len(pages) < 20 {
		t.Fatalf("the menu and its tabs lead only to %q", pages)
	}
	var alerts []struct{ ID string }
	waittest.Until(t, "somebody is told of a search", func() bool {
		_, text := adminCall(t, h.g, "GET", "/alerts", nil)
		return json.Unmarshal([]byte(text), &alerts) == nil && len(alerts) == 1
	})
	pages = append(pages, "/alerts/"+alerts[0].ID, "/reports?span=today", "/day", "/day?person=anna", "/events/"+row.ID, "/why?url=http://bet.example/", "/clients/one?who=anna", "/lists?q=bet.example", "/lists/own?odd=yes", "/zones/example.com", "/zones/example.com?type=SRV", "/rulings?site=www.bet.example&who=anna", "/events?filter=host:bet.example", "/events?filter=host", "/login", "/setup", "/nowhere")
	pages = append(pages, "/policies?name=class", "/clients?q=anna", "/clients?q=nobody", "/looks", "/privacy", "/more")
	pages = append(pages, "/settings", "/find?q=open+bet.example+for+anna+1h", "/policies/rule?policy=class&rule=night", "/policies/group?name=class", "/lists/new", "/lists/new/text", "/lists/own/text", "/statistics", "/login/invited?token=none")
	pages = append(pages, h.versions()...)
	everyPage(t, h, pages)
	pictures := os.Getenv("SHUULTUUR_PICTURES") != ""
	for i, page := range pages {
		for j, as := range []struct {
			width  int
			scheme string
		}{{wide, "light"}, {narrow, "dark"}, {768, "light"}, {1600, "dark"}, {wide, "dark"}, {narrow, "light"}, {768, "dark"}, {1600, "light"}} {
			if !pictures && j > 1 && j != 2+i%2 {
				continue
			}
			b.look(as.width, as.scheme)
			b.open(admin + page)
			if strings.HasPrefix(page, "/events?filter=host:bet") {
				b.click("a[data-ruling]")
				b.shows("Open or block a site")
			}
			fits(b, page, as.width, cmp.Or(statuses[page], 200))
			if pictures || j < 2 { // at a third width a page has the same words and colours
				accessible(b, checker, page, as.width)
			}
			b.picture(fmt.Sprintf("page-%s-%d-%s", pictureName(page), as.width, as.scheme))
		}
	}
	if !pictures { // some of them
		some := pages[:0:0]
		for i := 0; i < len(pages); i += 4 {
			some = append(some, pages[i])
		}
		pages = some
	}
	examineFromTheRight(b, checker, admin, pages)
}

// examineFromTheRight examines pages in a language that is written from right to left.
func examineFromTheRight(b *browser, checker, admin string, pages []string) {
	b.t.Helper()
	b.cdp("Network.enable", map[string]any{})
	b.cdp("Network.setExtraHTTPHeaders", map[string]any{"headers": map[string]string{"Accept-Language": "ar"}})
	for i, page := range pages {
		width := []int{wide, narrow}[i%2]
		b.look(width, "light")
		b.open(admin + page)
		if dir := b.script("return document.documentElement.dir"); dir != "rtl" {
			b.t.Errorf("%s has the direction %q, want rtl", page, dir)
		}
		if place := b.script(sidePlace); place != "" {
			b.t.Errorf("%s at %d pixels: the navigation is outside the screen: %s", page, width, place)
		}
		examine(b, checker, page, width, cmp.Or(statuses[page], 200))
		b.picture(fmt.Sprintf("rtl-%s-%d", pictureName(page), width))
	}
}

// versions changes the settings, and returns the pages of their versions.
func (h *house) versions() (pages []string) {
	h.t.Helper()
	if code, said := adminCall(h.t, h.g, "POST", "/clients", url.Values{"what": {"name"}, "address": {"10.0.0.9"}, "name": {"carl"}}); code != 200 {
		h.t.Fatalf("naming a client: status %d, want 200: %s", code, said)
	}
	var all []struct{ ID string }
	_, list := adminCall(h.t, h.g, "GET", "/settings/versions", nil)
	if err := json.Unmarshal([]byte(list), &all); err != nil || len(all) == 0 {
		h.t.Fatalf("the versions of the settings: got %s, %v, want some", list, err)
	}
	for _, v := range all {
		pages = append(pages, "/settings/versions/"+v.ID)
	}
	return pages
}

// everyPage reports the pages in the description of the API that were not visited.
func everyPage(t *testing.T, h *house, visited []string) {
	t.Helper()
	var api struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct{ Content map[string]any }
		}
	}
	_, text := adminCall(t, h.g, "GET", "/openapi.json", nil)
	if err := json.Unmarshal([]byte(text), &api); err != nil {
		t.Fatal(err)
	}
	// The test does not get to these: providers of accounts lead to and from them, the first
	// steps end there, or they are Go's own.
	elsewhere := []string{"/login/provider", "/login/callback", "/setup/connect", "/setup/first", "/setup/link", "/setup/home", "/debug/pprof", "/debug/pprof/{name}"}
	for path, methods := range api.Paths {
		if _, page := methods["get"].Responses["200"].Content["text/html"]; !page || slices.Contains(elsewhere, path) {
			continue
		}
		before, _, one := strings.Cut(path, "{")
		if !slices.ContainsFunc(visited, func(v string) bool {
			v, _, _ = strings.Cut(v, "?")
			return v == path || one && strings.HasPrefix(v, before) && v != before
		}) {
			t.Errorf("the test does not visit the page %s", path)
		}
	}
}

const sidePlace = `const r = document.querySelector(".side")?.getBoundingClientRect();
return !r || r.left >= 0 && r.right <= innerWidth ? "" : JSON.stringify(r)`

// statuses are the statuses of pages that refuse.
var statuses = map[string]float64{"/login/invited?token=none": 410, "/setup": 403, "/nowhere": 404}

// pictureName is the name of a page's picture.
func pictureName(page string) string {
	name, query, _ := strings.Cut(strings.Trim(page, "/"), "?")
	if strings.Contains(name, "/") {
		return filepath.Dir(name) + "-one"
	}
	if query != "" {
		return name + "-asked"
	}
	return cmp.Or(name, "start")
}

// maxRequests bounds the requests of a page: itself, style sheets, scripts, pictures, and what it
// fetches while somebody looks.
const maxRequests = 10

// examine checks that the page that the browser shows fits, and its accessibility with axe-core.
func examine(b *browser, checker, page string, width int, status float64) {
	b.t.Helper()
	fits(b, page, width, status)
	accessible(b, checker, page, width)
}

// fits checks the weight of the page that the browser shows, and that it is not too wide.
func fits(b *browser, page string, width int, status float64) {
	b.t.Helper()
	var v visit
	if err := json.Unmarshal([]byte(b.script(fmt.Sprintf("const wide = %d;", width)+weigh)), &v); err != nil {
		b.t.Fatalf("measuring %s in the browser: %v", page, err)
	}
	if v.Status != status || v.Over > 0 || v.Shift > 0.1 || v.Requests > maxRequests || len(v.Others) > 0 || v.Bytes > maxFirstPage && page == "/" {
		b.t.Errorf("%s at %d pixels is too heavy: %+v", page, width, v)
	}
	if over := b.script(fmt.Sprintf("const wide = %d;", width) + unfold); over != "0" {
		b.t.Errorf("%s at %d pixels, all unfolded, is too wide by %s", page, width, over)
	}
}

// accessible looks for faults of accessibility on the page that the browser shows, all unfolded.
func accessible(b *browser, checker, page string, width int) {
	b.t.Helper()
	var found struct {
		Rules int // rules that found elements to check
		Bad   []string
	}
	if err := json.Unmarshal([]byte(b.script(checker+askAxe)), &found); err != nil {
		b.t.Fatalf("checking %s with axe: %v", page, err)
	}
	if found.Rules < 5 {
		b.t.Errorf("%s at %d pixels: axe-core found elements for only %d rules; is this a page?", page, width, found.Rules)
	}
	for _, bad := range found.Bad {
		b.t.Errorf("%s at %d pixels: %s", page, width, bad)
	}
}

// unfold opens everything that is folded, and returns by how much the page is then too wide.
const unfold = `document.querySelectorAll("main details").forEach((d) => { d.open = true });
return ((n) => n > 0 ? n : 0)(document.documentElement.scrollWidth - wide);
`

const askAxe = `
return axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}).then((r) => JSON.stringify({
	rules: r.passes.length + r.violations.length,
	bad: r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.html.slice(0, 160) + " " + n.failureSummary).join("; "))}))
`
