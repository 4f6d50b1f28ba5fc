package lists_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
	"shuultuur/admin/lists"
	"shuultuur/admin/settings"
	"shuultuur/admin/web"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/policy"
)

// A desk is a house with lists and settings that lists are added to.
type desk struct {
	*admintest.House
	t      *testing.T
	paper  *admintest.Paper
	dir    string
	trials []web.Trial
	effect web.Effect
	used   int
}

const deskSettings = `# ours
lists:
  own: {format: domains, path: lists/own.txt, category: own} # by hand
checks:
  category: {lists: [own]}
policies:
  - name: everyone
    rules:
      - {name: own, action: block, category: [own]}
`

func newDesk(t *testing.T, client *http.Client) *desk {
	d := &desk{House: admintest.NewHouse(t), t: t, paper: &admintest.Paper{Text: deskSettings}, dir: t.TempDir(), effect: web.Effect{Judged: 100, Changed: 43, Closes: 43}}
	own := filepath.Join(d.dir, "lists", "own.txt")
	if err := os.MkdirAll(filepath.Dir(own), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, []byte("one.example\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := collection.Config{"own": {Config: list.Config{Format: list.Domains, Path: setting.Source(own), Category: "own"}}}
	open := func() *collection.Collection {
		c, err := collection.Open(t.Context(), cfg, filepath.Join(d.dir, "data"), nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	in := open()
	d.Parts.Lists = (&lists.Lists{In: func() (*collection.Collection, *http.Client) { return in, client }, Checked: func() []string { return []string{"own"} },
		Use: func(context.Context, string) bool { in, d.used = open(), d.used+1; return true }}).ShowLists()
	d.Parts.Settings = d.paper.Parts(t)
	d.Parts.Settings.File = filepath.Join(d.dir, "shuultuur.yaml")
	d.Parts.Settings.Policies = func() ([]settings.PolicyView, error) {
		return []settings.PolicyView{{Name: "everyone", Of: &policy.Policy{Name: "everyone", Rules: []policy.Rule{{Name: "own", Action: "block", Category: []string{"own"}}}}}}, nil
	}
	d.Parts.Judge = func(_ context.Context, x web.Trial) (*web.Effect, error) {
		d.trials = append(d.trials, x)
		e := d.effect
		return &e, nil
	}
	d.Site = admin.New(d.Parts)
	return d
}

func (d *desk) post(path string, form url.Values, page bool) *httptest.ResponseRecorder {
	return d.Ask(account.Owner, "POST", path, form.Encode(), func(r *http.Request) {
		if page {
			r.Header.Set("Accept", "text/html")
		}
	})
}

// hidden returns a field of a form that a page has.
func hidden(t *testing.T, page, name string) string {
	t.Helper()
	m := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("the page has no field %s:\n%s", name, page)
	}
	return m[1]
}

// TestAListIsAddedByItsAddress: it is fetched and shown with its effect, and what was shown is saved:
// the list, the check that looks into it, and a rule.
func TestAListIsAddedByItsAddress(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		fmt.Fprint(w, "# Clickbait\nwow.example\nskins.example\nnot a host at all\n")
	}))
	defer server.Close()
	d := newDesk(t, server.Client())
	address := server.URL + "/kids/clickbait.txt"
	shown := d.post("/lists/new", url.Values{"what": {"look"}, "url": {address}}, true)
	for _, want := range []string{"Clickbait", "skins.example", "4 lines", "line 4", `value="clickbait"`, "closed 43 of 100"} {
		if !strings.Contains(shown.Body.String(), want) {
			t.Errorf("looking at it: %d, want %q in\n%s", shown.Code, want, shown.Body)
		}
	}
	if string(d.paper.Disk()) != deskSettings {
		t.Errorf("looking has saved\n%s", d.paper.Disk())
	}
	form := url.Values{"what": {"add"}, "url": {address}, "name": {"clickbait"}, "category": {"clickbait"}, "policy": {"everyone"}, "action": {"block"}}
	if w := d.post("/lists/new", form, true); w.Code != 200 || string(d.paper.Disk()) != deskSettings {
		t.Errorf("adding what nobody has seen: %d, %s", w.Code, d.paper.Disk())
	}
	form.Set("checked", hidden(t, shown.Body.String(), "checked"))
	if w := d.post("/lists/new", form, true); w.Code != http.StatusSeeOther {
		t.Errorf("adding it: %d, %s", w.Code, w.Body)
	}
	text := string(d.paper.Disk())
	for _, want := range []string{"# ours", "# by hand", "clickbait: {url: '" + address + "', category: 'clickbait'}", "lists: [own, clickbait]", `{name: "clickbait", action: block, category: ["clickbait"]}`} {
		if !strings.Contains(text, want) {
			t.Errorf("the settings lack %q:\n%s", want, text)
		}
	}
	if asked != 1 {
		t.Errorf("its server was asked %d times, want once", asked)
	}
	if last := d.trials[len(d.trials)-1]; last.List != "clickbait" || last.File == "" || len(last.Text) == 0 {
		t.Errorf("it was judged by %+v, want by the settings with it and by what was fetched", last)
	}
}

func TestMistakesOfANewListAreBesideTheirFields(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/page":
			fmt.Fprint(w, "<!DOCTYPE html><html><body>Sign in</body></html>")
		case "/gone":
			http.NotFound(w, r)
		case "/empty":
		default:
			fmt.Fprint(w, "a.example\n")
		}
	}))
	defer server.Close()
	d := newDesk(t, server.Client())
	for _, c := range []struct {
		name, want string
		form       url.Values
	}{
		{"no address", "Write the address", url.Values{}},
		{"no web address", "is not a URL", url.Values{"url": {"ftp://a.example/list"}}},
		{"a web page", "a web page, not a list", url.Values{"url": {server.URL + "/page"}}},
		{"nothing there", "404", url.Values{"url": {server.URL + "/gone"}}},
		{"an empty file", "", url.Values{"url": {server.URL + "/empty"}}},
		{"a name that is taken", "already", url.Values{"url": {server.URL + "/a"}, "name": {"own"}}},
		{"a name with spaces", "no spaces", url.Values{"url": {server.URL + "/a"}, "name": {"my list"}}},
		{"a name that the page has", "no spaces", url.Values{"url": {server.URL + "/a"}, "name": {"new"}}},
		{"a category with a comma", "a word or two", url.Values{"url": {server.URL + "/a"}, "category": {"a,b"}}},
		{"a policy that is not there", "there is no policy", url.Values{"url": {server.URL + "/a"}, "policy": {"nobody"}}},
		{"a source that is not there", "the catalogue has no list", url.Values{"source": {"none"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.form.Set("what", "look")
			w := d.post("/lists/new", c.form, true)
			if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), c.want) || c.form.Get("url") != "" && !strings.Contains(w.Body.String(), `value="`+c.form.Get("url")) {
				t.Errorf("%d, want %q and what was typed in\n%s", w.Code, c.want, w.Body)
			}
		})
	}
	if left, _ := os.ReadDir(filepath.Join(d.dir, "data", "sources")); len(left) > 0 {
		t.Errorf("what could not be fetched has left %v", left)
	}
}

// TestAListGoesWithTheRulesThatNeedIt: it is taken out at once if that changes nothing.
func TestAListGoesWithTheRulesThatNeedIt(t *testing.T) {
	d := newDesk(t, nil)
	if w := d.post("/lists/own/remove", nil, true); w.Code != 200 || !strings.Contains(w.Body.String(), "closed 43 of 100") || string(d.paper.Disk()) != deskSettings {
		t.Errorf("its effect is not shown first: %d, %s", w.Code, w.Body)
	}
	d.effect.Changed = 0
	check := d.Parts.Settings.Check
	d.Parts.Settings.Check = func(ctx context.Context, text []byte) error {
		if strings.Contains(string(text), "category: [own]") && !strings.Contains(string(text), "own.txt") {
			return setting.Mistakes{{Key: "policies[0].rules[0].category[0]", Text: "nothing finds this"}}
		}
		return check(ctx, text)
	}
	if w := d.post("/lists/own/remove", nil, true); w.Code != http.StatusSeeOther {
		t.Errorf("taking it out: %d, %s", w.Code, w.Body)
	}
	if text := string(d.paper.Disk()); strings.Contains(text, "own") || !strings.Contains(text, "# ours") {
		t.Errorf("the settings are\n%s", text)
	}
	if w := d.post("/lists/none/remove", nil, false); w.Code != http.StatusNotFound {
		t.Errorf("taking out one that is not there: %d", w.Code)
	}
}

// TestAListOfOnesOwnIsAText: the page shows the text, names lines of no use, shows the effect, saves, and
// keeps what was there.
func TestAListOfOnesOwnIsAText(t *testing.T) {
	d := newDesk(t, nil)
	read := func() string {
		b, err := os.ReadFile(filepath.Join(d.dir, "lists", "own.txt"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	page := d.Ask(account.Owner, "GET", "/lists/own/text", "", func(r *http.Request) { r.Header.Set("Accept", "text/html") }).Body.String()
	if !strings.Contains(page, ">one.example\n</textarea>") {
		t.Errorf("the page lacks the text:\n%s", page)
	}
	form := url.Values{"tag": {hidden(t, page, "tag")}, "text": {"# ours\r\none.example\r\nno host at all\r\ntwo.example"}}
	shown := d.post("/lists/own/text", form, true)
	for _, want := range []string{"Lines of no use: 1", "line 3", "closed 43 of 100", "no host at all\n"} {
		if !strings.Contains(shown.Body.String(), want) {
			t.Errorf("%d, want %q in\n%s", shown.Code, want, shown.Body)
		}
	}
	if read() != "one.example\n" {
		t.Errorf("it was saved before its effect was seen: %q", read())
	}
	form.Set("checked", hidden(t, shown.Body.String(), "checked"))
	if w := d.post("/lists/own/text", form, true); w.Code != http.StatusSeeOther || read() != "# ours\none.example\nno host at all\ntwo.example\n" || d.used != 1 {
		t.Errorf("saving it: %d, %q, used %d times, %s", w.Code, read(), d.used, w.Body)
	}
	if w := d.post("/lists/own/text", form, true); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "meanwhile") {
		t.Errorf("saving over another text: %d, %s", w.Code, w.Body)
	}
	d.effect.Changed = 0
	if w := d.post("/lists/own/text", url.Values{"text": {""}}, true); w.Code != http.StatusSeeOther || read() != "" {
		t.Errorf("emptying it: %d, %q, %s", w.Code, read(), w.Body)
	}
	if all := d.Parts.Lists.All(); len(all) != 1 || all[0].Entries != 0 || all[0].Problem != "" {
		t.Errorf("emptied, it is %+v", all)
	}
	page = d.Ask(account.Owner, "GET", "/lists/own/text", "", func(r *http.Request) { r.Header.Set("Accept", "text/html") }).Body.String()
	if n := strings.Count(page, "Go back to this version"); n != 2 {
		t.Errorf("the history has %d texts to go back to, want 2:\n%s", n, page)
	}
	if w := d.post("/lists/none/text", url.Values{"text": {"a.example"}}, false); w.Code != http.StatusNotFound {
		t.Errorf("a list that is not there: %d", w.Code)
	}
	if w := d.post("/lists/own/text", url.Values{"text": {strings.Repeat("a.example\n", 200_000)}}, true); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("a text that is too long: %d", w.Code)
	}
}

func TestAListOfOnesOwnIsMade(t *testing.T) {
	d := newDesk(t, nil)
	form := url.Values{"name": {"school"}, "text": {"scratch.mit.edu\n||ads.example^\nbank.example/login\n"}, "policy": {"everyone"}, "action": {"allow"}}
	file := filepath.Join(d.dir, "lists", "school.txt")
	shown := d.post("/lists/new/text", form, true)
	if _, err := os.Stat(file); shown.Code != 200 || !os.IsNotExist(err) {
		t.Errorf("it is there before its effect was seen: %d, %v, %s", shown.Code, err, shown.Body)
	}
	form.Set("checked", hidden(t, shown.Body.String(), "checked"))
	if w := d.post("/lists/new/text", form, true); w.Code != http.StatusSeeOther {
		t.Errorf("saving it: %d, %s", w.Code, w.Body)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != form.Get("text") {
		t.Errorf("its file is %q, %v", b, err)
	}
	if text := string(d.paper.Disk()); !strings.Contains(text, "school: {path: 'lists/school.txt', category: 'school'}") || !strings.Contains(text, `    rules:
      - {name: "school", action: allow, category: ["school"]}`) {
		t.Errorf("the settings are\n%s", text)
	}
}

// TestAnOperatorEditsNoOtherFiles: below an owner, only files in the folder for lists are shown.
func TestAnOperatorEditsNoOtherFiles(t *testing.T) {
	d := newDesk(t, nil)
	d.Parts.Settings.File = filepath.Join(d.dir, "elsewhere", "shuultuur.yaml")
	for role, want := range map[account.Role]int{account.Owner: 200, account.Operator: 403, account.Viewer: 403} {
		if w := d.Ask(role, "GET", "/lists/own/text", ""); w.Code != want {
			t.Errorf("as %v: %d, want %d", role, w.Code, want)
		}
	}
}

// TestEntriesOfAListAreShownWithWhoChangedThem: those by hand come first, with their undo.
func TestEntriesOfAListAreShownWithWhoChangedThem(t *testing.T) {
	d := newDesk(t, nil)
	in, _ := d.Parts.Lists.In()
	d.Parts.Lists.Change = func(ctx context.Context, changes map[string][]list.Change) error {
		return in.Change(ctx, changes, func() error { return nil })
	}
	if w := d.post("/lists", url.Values{"what": {"add"}, "entry": {"tea.example"}, "list": {"own"}}, false); w.Code != 200 {
		t.Fatalf("adding an entry: %d, %s", w.Code, w.Body)
	}
	get := func(role account.Role, path string) string {
		return d.Ask(role, "GET", path, "", func(r *http.Request) { r.Header.Set("Accept", "text/html") }).Body.String()
	}
	page := get(account.Operator, "/lists/own")
	if tea, one := strings.Index(page, "<bdi>tea.example</bdi>"), strings.Index(page, "<bdi>one.example</bdi>"); tea < 0 || one < tea || !strings.Contains(page, "<bdi>the-owner</bdi>") || !strings.Contains(page, `value="remove">Undo`) {
		t.Errorf("the page has tea.example at %d and one.example at %d, in\n%s", tea, one, page)
	}
	if page = get(account.Operator, "/lists/own?find=one"); strings.Contains(page, "<bdi>tea.example</bdi>") || !strings.Contains(page, "<bdi>one.example</bdi>") {
		t.Errorf("looking for one:\n%s", page)
	}
	if page = get(account.Viewer, "/lists/own"); strings.Contains(page, "one.example") {
		t.Errorf("a viewer sees entries of a file that was not fetched:\n%s", page)
	}
}
