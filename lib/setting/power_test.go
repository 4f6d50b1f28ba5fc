package setting

import (
	"strings"
	"testing"
)

// powerful is a small settings type with secrets.
type powerful struct {
	Token string `yaml:"token" role:"owner" secret:"yes"`
	URL   string `yaml:"url" secret:"url"`
	Lists map[string]struct {
		URL string `yaml:"url" secret:"url"`
	} `yaml:"lists"`
	Hooks   OneOrMore[hooked]   `yaml:"hooks" role:"owner"`
	Headers map[string]string   `yaml:"headers" secret:"yes"`
	Keys    OneOrMore[string]   `yaml:"keys" secret:"yes"`
	Note    string              `yaml:"note"`
	Cert    File                `yaml:"cert" role:"owner"`
	More    *struct{ A string } `yaml:"more" role:"owner"`
}

type hooked struct {
	To    string `yaml:"to"`
	Token string `yaml:"token" secret:"yes"`
}

// TestSecretsAreHiddenAndPutBack in every form in which YAML writes a value.
func TestSecretsAreHiddenAndPutBack(t *testing.T) {
	for name, text := range map[string]string{
		"plain":                  "token: geheim-1\nnote: x\n",
		"in double quotes":       `token: "geheim-1 \"x\" # y"` + "\nnote: x\n",
		"in single quotes":       "token: 'geheim-1 ''x'' y' # it is\nnote: x\n",
		"on two lines":           "token: \"geheim-1\n  more geheim-1\"\nnote: x\n",
		"with a tag":             "token: !!str geheim-1\nnote: x\n",
		"by an alias":            "note: &n geheim-1\ntoken: *n\n",
		"by an anchor":           "token: &n geheim-1\nnote: *n\n",
		"after letters":          "{note: \"äöü 漢字\", token: geheim-1}\n",
		"in a flow":              "hooks: [{to: a, token: geheim-1}, {token: geheim-12, to: b}]\n",
		"as a single value":      "keys: geheim-1\n",
		"in a list":              "keys:\n  - geheim-1\n  - \"geheim-2\"\n",
		"in a map":               "headers: {Authorization: geheim-1, X: geheim-1}\n",
		"of a URL":               "url: https://u:geheim-1@x.example/\nlists: {a: {url: 'https://x.example/?key=geheim-1'}, b: {url: https://y.example}}\n",
		"of a URL in any place":  "note: https://u:geheim-1@x.example/\nhooks: [{to: 'icaps://u:geheim-1@[::1]:11344/x'}]\nother: [ldap://u:geheim-1@x]\n",
		"in a comment too":       "# geheim-1, once\ntoken: geheim-1\n",
		"under a misspelt key":   "tokn: {token: geheim-1, passwort: x, my-password: geheim-2}\n",
		"empty":                  "",
		"a key beside it":        "note: x\ntoken: geheim-1 # and geheim-1\nmore: {A: x}\n",
		"with Windows line ends": "token: geheim-1\r\nnote: x\r\n",
	} {
		h, err := Hide([]byte(text), &powerful{}, []byte("key"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if strings.Contains(string(h.Text), "geheim") || text != "" && !placeholder.Match(h.Text) {
			t.Errorf("%s: a secret is not hidden: %s", name, h.Text)
		}
		if back, err := h.Restore(h.Text); err != nil || string(back) != text {
			t.Errorf("%s: put back it is %q, %v; want %q", name, back, err, text)
		}
		if got := h.Redact(`"geheim-1" is wrong`); text != "" && strings.HasPrefix(text, "token: geheim-1") && strings.Contains(got, "geheim") {
			t.Errorf("%s: an error says %s", name, got)
		}
	}
	for _, text := range []string{"note: https://x.example:443/@a\n", "note: https://u@x.example/\n", "note: ^https?://[^/]*\n", "note: see https://u:p@x.example\n", "note: https://x.example/?a=b:c@d\n"} {
		if h, err := Hide([]byte(text), &powerful{}, nil); err != nil || string(h.Text) != text {
			t.Errorf("%q is shown as %q, %v", text, h.Text, err)
		}
	}
	for name, text := range map[string]string{"a block": "token: |\n  geheim-1\n", "a folded value": "token: geheim-1\n  geheim-2\n", "no YAML": "token: [geheim-1\n"} {
		if h, err := Hide([]byte(text), &powerful{}, nil); err == nil {
			t.Errorf("%s is shown as %s", name, h.Text)
		}
	}
}

func TestPowersAreWhatOneRoleMayChange(t *testing.T) {
	read := func(text string) *powerful {
		var p powerful
		if _, err := Read("/d/x.yaml", []byte(text), &p); err != nil {
			t.Fatal(err)
		}
		return &p
	}
	was := "token: a\nnote: x\nhooks: [{to: a}, {to: b}]\nlists: {a: {url: x}}\n"
	for text, changed := range map[string]string{
		was: "", "token: a\nnote: y\nhooks: [{to: a}, {to: b}]\n": "", "note: x\nhooks: [{to: a}, {to: b}]\n": "token", "token: b\nhooks: [{to: a}, {to: b}]\n": "token",
		"token: a\nhooks: [{to: b}, {to: a}]\n": "hooks", "token: a\nhooks: {to: a}\n": "hooks", was + "cert: x\n": "cert", was + "more: {a: x}\n": "more",
	} {
		a, b := Powers(read(was), "owner"), Powers(read(text), "owner")
		for _, key := range []string{"token", "hooks", "cert", "more"} {
			if (a[key] != b[key]) != (key == changed) {
				t.Errorf("%s: %s changed: %v", text, key, a[key] != b[key])
			}
		}
	}
	if got := PowerFiles(read("cert: c.pem\nnote: x\n"), "owner"); len(got) != 1 || got[0] != "/d/c.pem" {
		t.Errorf("the files are %q", got)
	}
}

func TestURLsForPeopleHaveNoSecrets(t *testing.T) {
	for in, want := range map[string]string{
		"https://x.example/?v=2": "https://x.example/?v=2", "own.txt": "own.txt", "https://u:p@x.example/a": "https://x.example/a",
		`Get "https://u:p@x.example/a?license_key=k": refused`: `Get "https://x.example/a?license_key=%E2%80%A6": refused`,
	} {
		if got := WithoutCredentials(in); got != want {
			t.Errorf("WithoutCredentials(%q) = %q, want %q", in, got, want)
		}
	}
}
