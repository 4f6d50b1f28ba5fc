package settings_test

import (
	"context"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
	"shuultuur/admin/web"
	"shuultuur/lib/setting"
)

// small are settings with a key of each kind.
type small struct {
	A      string         `yaml:"a"`
	List   setting.Source `yaml:"list"`
	Log    setting.Folder `yaml:"log" role:"owner"`
	Access struct {
		TwoPeople bool   `yaml:"two-people"`
		URLs      string `yaml:"urls"`
	} `yaml:"access" role:"owner" two:"people"`
}

// withSmall is a house whose settings are small ones in a folder.
func withSmall(t *testing.T, text string) (*admintest.House, *admintest.Paper, string) {
	t.Helper()
	h, dir := admintest.NewHouse(t), t.TempDir()
	paper := &admintest.Paper{Text: text}
	s := paper.Parts(t)
	s.File = filepath.Join(dir, "shuultuur.yaml")
	s.Empty = func() any { return new(small) }
	s.Paths = func(v any) []string { return setting.Paths(v) }
	s.Own = func(path string) bool { return strings.HasPrefix(path, filepath.Join(dir, "data")) }
	s.Inside = func(path string) bool { return strings.HasPrefix(path, dir+string(filepath.Separator)) }
	h.Parts.Settings, h.Parts.Judge = s, admintest.PaperEffect
	h.Site = admin.New(h.Parts)
	return h, paper, dir
}

// TestPathsStayInTheFoldersOfTheGateway: what is written from elsewhere names only files in the folder of
// the settings; what is there already may stay, and this machine may name all.
func TestPathsStayInTheFoldersOfTheGateway(t *testing.T) {
	h, _, _ := withSmall(t, "a: 1\nlist: /etc/known\n")
	for text, want := range map[string]struct{ owner, operator int }{
		"a: 2\nlist: /etc/known\n":                     {200, 200},
		"a: 1\nlist: /etc/shadow\n":                    {403, 403},
		"a: 1\nlist: ../other.txt\n":                   {403, 403},
		"a: 1\nlist: own.txt\n":                        {200, 200},
		"a: 1\nlist: data/secret.key\n":                {200, 403},
		"a: 1\nlist: /etc/known\nlog: x.log\n":         {200, 403},
		"a: 1\nlist: /etc/known\nlog: /etc/cron.d/x\n": {403, 403},
	} {
		for role, status := range map[account.Role]int{account.Owner: want.owner, account.Operator: want.operator} {
			w := h.Ask(role, "PUT", "/settings?dry_run=yes", text)
			if w.Code != status {
				t.Errorf("%q as %v: %d %s, want %d", text, role, w.Code, w.Body, status)
			}
			if status == 403 && !strings.Contains(w.Body.String(), "owner") {
				t.Errorf("%q as %v: %s, want who may do it", text, role, w.Body)
			}
		}
	}
	alone := admintest.Nobody() // without accounts, this machine is an owner
	alone.Settings = h.Parts.Settings
	if w := admintest.Ask(admin.New(alone), "PUT", "/settings?dry_run=yes", "", "a: 1\nlist: /etc/shadow\n"); w.Code != http.StatusOK {
		t.Errorf("this machine names a file elsewhere: %d %s", w.Code, w.Body)
	}
}

// TestErrorsAboutAFileShowNoLines: a check says which line of a file is wrong, and only an owner reads
// it.
func TestErrorsAboutAFileShowNoLines(t *testing.T) {
	h, _, dir := withSmall(t, "a: 1\n")
	own := filepath.Join(dir, "own.txt")
	h.Parts.Settings.Check = func(context.Context, []byte) error {
		return setting.Mistakes{{File: "shuultuur.yaml", Line: 2, Key: "list", Text: own + `:3: "root:geheim" is not a host`}}
	}
	for role, want := range map[account.Role]bool{account.Owner: true, account.Operator: false} {
		for path, body := range map[string]string{"/settings/check": url.Values{"text": {"a: 1\nlist: own.txt\n"}}.Encode(), "/settings": url.Values{"what": {"check"}, "text": {"a: 1\nlist: own.txt\n"}, "tag": {web.Tag([]byte("a: 1\n"))}}.Encode()} {
			said := h.Ask(role, "POST", path, body).Body.String()
			if role == account.Operator && path == "/settings" {
				continue // the tag is another one
			}
			if strings.Contains(said, "geheim") != want || !strings.Contains(said, "own.txt:3") {
				t.Errorf("%s as %v: %s", path, role, said)
			}
		}
	}
}

// TestTwoPeopleEndWhatNeedsTwo: while two people are needed to look into browsing, one alone can neither
// end that, nor see more by other settings, nor make a second person.
func TestTwoPeopleEndWhatNeedsTwo(t *testing.T) {
	const two = "a: 1\naccess: {two-people: true}\n"
	h, paper, _ := withSmall(t, two)
	h.Rules.TwoPeople = true
	book := h.Parts.Accounts
	if err := book.Add("olga", account.Owner, nil, ""); err != nil {
		t.Fatal(err)
	}
	olga, err := book.Begin("olga", "passkey", account.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	put := func(cookie, text string) int {
		return h.Ask(account.None, "PUT", "/settings", text, func(r *http.Request) {
			r.Header.Set("If-Match", web.Tag([]byte(paper.Text)))
			if cookie == "settings" {
				r.Header.Set("Authorization", "Bearer the token of the settings")
			} else {
				r.AddCookie(&http.Cookie{Name: web.CookieName, Value: cookie})
			}
		}).Code
	}
	one := h.Cookie[account.Owner]
	for i, c := range []struct {
		who, text string
		want      int
	}{
		{one, "a: 2\naccess: {two-people: true}\n", 200},
		{one, "a: 2\n", 403}, {one, "a: 2\n", 403}, // again
		{"settings", "a: 2\n", 403},
		{olga, "a: 2\naccess: {urls: viewer}\n", 403}, // something else
		{one, "a: 2\naccess: {two-people: true, urls: viewer}\n", 403},
		{olga, "a: 3\n", 200}, // the same of these keys
	} {
		if got := put(c.who, c.text); got != c.want {
			t.Errorf("step %d, %q: %d, want %d", i, c.text, got, c.want)
		}
	}
	if paper.Text != "a: 3\n" {
		t.Errorf("the settings are %q", paper.Text)
	}
	add := func(cookie, path string, f url.Values) int {
		return h.Ask(account.None, "POST", path, f.Encode(), func(r *http.Request) { r.AddCookie(&http.Cookie{Name: web.CookieName, Value: cookie}) }).Code
	}
	mallory := url.Values{"name": {"mallory"}, "role": {"safeguarding-lead"}, "password": {"long enough, really"}}
	if got := add(one, "/accounts", mallory); got != 403 {
		t.Errorf("one person makes a second one: %d", got)
	}
	if got := add(one, "/accounts/edit", url.Values{"name": {"the-viewer"}, "role": {"owner"}}); got != 403 {
		t.Errorf("one person makes a viewer an owner: %d", got)
	}
	if got := add(one, "/accounts/password", url.Values{"name": {"olga"}, "password": {"long enough, really"}}); got != 403 {
		t.Errorf("one person sets the password of another owner: %d", got)
	}
	if got := add(olga, "/accounts", mallory); got != 200 && got != 303 {
		t.Errorf("two people make a third: %d", got)
	}
	if got := add(one, "/accounts", url.Values{"name": {"vera"}, "role": {"viewer"}}); got != 200 && got != 303 {
		t.Errorf("one person makes a viewer: %d", got)
	}
}
