package settings_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
	"shuultuur/admin/web"
	"shuultuur/lib/setting"
)

// kinds are settings with a key of each kind of the form.
type kinds struct {
	Proxy struct {
		On    bool                      `yaml:"turn"`
		Idle  setting.Duration          `yaml:"idle"`
		Ports setting.OneOrMore[int]    `yaml:"ports"`
		Via   string                    `yaml:"via"`
		Names setting.OneOrMore[string] `yaml:"names"`
		Table map[string]string         `yaml:"table"`
	} `yaml:"proxy"`
	Mail *struct {
		Server   string `yaml:"server" role:"owner"`
		Password string `yaml:"password" role:"owner" secret:"yes"`
	} `yaml:"mail"`
	Policies []struct {
		Name string `yaml:"name"`
	} `yaml:"policies"`
}

const kindsText = "# top\nproxy:\n  idle: 5s # short\n  names: [a, b]\n  table: {x: \"1\"}\nmail: {server: 'smtp://m.example', password: hush-hush}\n"

func withKinds(t *testing.T) (*admintest.House, *admintest.Paper, *[]string) {
	t.Helper()
	h := admintest.NewHouse(t)
	paper, tried := &admintest.Paper{Text: kindsText}, new([]string)
	s := paper.Parts(t)
	s.Empty, s.Key = func() any { return new(kinds) }, []byte("key")
	s.Check = func(_ context.Context, text []byte) error {
		x := new(kinds)
		read, err := setting.Read("shuultuur.yaml", text, x)
		if err == nil && x.Proxy.Via == "wrong" {
			err = read.Mistakes(setting.At("proxy.via", errors.New("is a <mistake>")))
		}
		return err
	}
	s.Manual = func() map[string]setting.Row {
		return map[string]setting.Row{"proxy.idle": {Default: "60s", Meaning: "how long nothing may come"}, "proxy.turn": {Default: "off"}}
	}
	s.Try = func(_ context.Context, text []byte, part, with string) ([]string, error) {
		*tried = append(*tried, part+" "+with+"\n"+string(text))
		if strings.Contains(string(text), "away") {
			return nil, errors.New("nobody answers there")
		}
		return []string{"it took the mail"}, nil
	}
	h.Parts.Settings, h.Parts.Judge = s, func(context.Context, web.Trial) (*web.Effect, error) { return &web.Effect{Judged: 7}, nil }
	h.Site = admin.New(h.Parts)
	return h, paper, tried
}

func ask(h *admintest.House, role account.Role, method, path string, form url.Values) *httptest.ResponseRecorder {
	return h.Ask(role, method, path, form.Encode(), func(r *http.Request) {
		r.Header.Set("Accept", "text/html")
		if method == "POST" {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
	})
}

// TestTheFormChangesTheFile: each kind of field becomes the change of its key and of nothing else, a
// mistake stands beside its field with what was typed, and a secret is neither shown nor lost.
func TestTheFormChangesTheFile(t *testing.T) {
	h, paper, _ := withKinds(t)
	for name, tt := range map[string]struct {
		role   account.Role
		form   url.Values
		want   string // text of the file after it; "" as before
		says   string
		status int
	}{
		"nothing":     {account.Owner, url.Values{"key": {"proxy.idle", "proxy.names", "mail.password", "proxy.turn"}, "v.proxy.idle": {"5s"}, "v.proxy.names": {"a\r\nb"}}, "", "Nothing is changed.", 200},
		"a time":      {account.Operator, url.Values{"key": {"proxy.idle"}, "v.proxy.idle": {" 7s "}}, strings.Replace(kindsText, "idle: 5s", "idle: 7s", 1), "Saved and in use.", 200},
		"two at once": {account.Operator, url.Values{"key": {"proxy.idle", "proxy.names"}, "v.proxy.idle": {""}, "v.proxy.names": {"c\n\n d\n"}}, "# top\nproxy:\n  names: [c, d]\n  table: {x: \"1\"}\nmail: {server: 'smtp://m.example', password: hush-hush}\n", "Saved", 200},
		"a switch":    {account.Operator, url.Values{"key": {"proxy.turn"}, "v.proxy.turn": {"true"}}, strings.Replace(kindsText, "{x: \"1\"}\n", "{x: \"1\"}\n  turn: true\n", 1), "Saved", 200},
		"numbers":     {account.Operator, url.Values{"key": {"proxy.ports"}, "v.proxy.ports": {"80\n443"}}, strings.Replace(kindsText, "{x: \"1\"}\n", "{x: \"1\"}\n  ports:\n  - 80\n  - 443\n", 1), "Saved", 200},
		"by default":  {account.Operator, url.Values{"key": {"proxy.idle"}, "v.proxy.idle": {"5s"}, "reset": {"proxy.idle"}}, "# top\nproxy:\n  names: [a, b]\n  table: {x: \"1\"}\nmail: {server: 'smtp://m.example', password: hush-hush}\n", "Saved", 200},
		"YAML":        {account.Operator, url.Values{"key": {"proxy.table"}, "v.proxy.table": {"x: \"2\"\ny: \"3\""}}, "# top\nproxy:\n  idle: 5s # short\n  names: [a, b]\n  table:\n    x: \"2\"\n    y: \"3\"\nmail: {server: 'smtp://m.example', password: hush-hush}\n", "Saved", 200},
		"bad YAML":    {account.Operator, url.Values{"key": {"proxy.table"}, "v.proxy.table": {"x: ["}}, "", "x: [", 422},
		"no time":     {account.Operator, url.Values{"key": {"proxy.idle", "proxy.via"}, "v.proxy.idle": {"soon"}, "v.proxy.via": {"kept typing"}}, "", "kept typing", 422},
		"a mistake":   {account.Operator, url.Values{"key": {"proxy.via"}, "v.proxy.via": {"wrong"}}, "", "is a &lt;mistake&gt;", 422},
		"no owner":    {account.Operator, url.Values{"part": {"mail"}, "key": {"mail.server", "mail.password"}, "v.mail.server": {"smtp://evil.example"}}, "", "Nothing is changed.", 200},
		"a secret":    {account.Owner, url.Values{"part": {"mail"}, "key": {"mail.password"}, "v.mail.password": {"other-word"}}, strings.Replace(kindsText, "hush-hush", "other-word", 1), "Saved", 200},
		"not there":   {account.Owner, url.Values{"key": {"nothing.here", "policies"}, "v.nothing.here": {"1"}}, "", "Nothing is changed.", 200},
		"stale":       {account.Owner, url.Values{"tag": {"other"}, "key": {"proxy.via"}, "v.proxy.via": {"typed"}}, "", "typed", 412},
	} {
		paper.Text = kindsText
		if !tt.form.Has("tag") {
			tt.form.Set("tag", strings.Trim(ask(h, tt.role, "GET", "/settings/form", nil).Header().Get("ETag"), `"`))
		}
		w := ask(h, tt.role, "POST", "/settings/form", tt.form)
		if want := tt.want; string(paper.Disk()) != want && (want != "" || string(paper.Disk()) != kindsText) {
			t.Errorf("%s: the file is\n%s\nwant\n%s", name, paper.Disk(), want)
		}
		if body := w.Body.String(); w.Code != tt.status || !strings.Contains(body, tt.says) || strings.Contains(body, "hush-hush") {
			t.Errorf("%s: got %d, want %d and %q:\n%s", name, w.Code, tt.status, tt.says, body)
		}
	}
}

// TestTheFormShowsParts: the part that is asked for, what has the words, and who may write it.
func TestTheFormShowsParts(t *testing.T) {
	h, _, _ := withKinds(t)
	for _, tt := range []struct {
		role      account.Role
		query     string
		has, lack string
	}{
		{account.Owner, "", `name="v.proxy.idle" value="5s"`, "v.mail.server"},
		{account.Owner, "part=mail", `name="v.mail.server" value="smtp://m.example"`, "hush"},
		{account.Operator, "part=mail", "only an owner may change this", "hush"},
		{account.Owner, "q=nothing+come", "how long nothing may come", "v.proxy.turn"},
		{account.Owner, "q=zzz", "No setting has these words.", "v.proxy"},
		{account.Owner, "part=other", `href="/policies"`, "v.policies"},
		{account.Owner, "part=evil", "v.proxy.idle", "v.mail"},
	} {
		w := ask(h, tt.role, "GET", "/settings/form?"+tt.query, nil)
		if body := w.Body.String(); w.Code != 200 || !strings.Contains(body, tt.has) || strings.Contains(body, tt.lack) {
			t.Errorf("%v %q: got %d; want %q and not %q:\n%s", tt.role, tt.query, w.Code, tt.has, tt.lack, body)
		}
	}
	if w := ask(h, account.Owner, "GET", "/settings?key=proxy.names", nil); !strings.Contains(w.Body.String(), `<div class="add">4    names: [a, b]`) {
		t.Errorf("the file does not show the line:\n%s", w.Body)
	}
}

// TestATestUsesTheFormAndSavesNothing: what is tried has the values of the form; who may not write
// them tries what is in the file.
func TestATestUsesTheFormAndSavesNothing(t *testing.T) {
	h, paper, tried := withKinds(t)
	for name, tt := range map[string]struct {
		role         account.Role
		server       string
		tried, shown string
	}{
		"an owner":    {account.Owner, "smtp://new.example", "new.example", "it took the mail"},
		"it is away":  {account.Owner, "smtp://away.example", "hush-hush", "nobody answers there"},
		"an operator": {account.Operator, "smtp://evil.example", "m.example", "it took the mail"},
	} {
		*tried = nil
		w := ask(h, tt.role, "POST", "/settings/form", url.Values{"part": {"mail"}, "key": {"mail.server", "mail.password"}, "v.mail.server": {tt.server}, "try": {"mail"}, "with.mail": {"me@x.example"}})
		if w.Code != 200 || !strings.Contains(w.Body.String(), tt.shown) || string(paper.Disk()) != kindsText {
			t.Errorf("%s: got %d, want %q:\n%s", name, w.Code, tt.shown, w.Body)
		}
		if len(*tried) != 1 || !strings.HasPrefix((*tried)[0], "mail me@x.example\n") || !strings.Contains((*tried)[0], tt.tried) || strings.Contains((*tried)[0], "evil") {
			t.Errorf("%s: tried %q", name, *tried)
		}
	}
}
