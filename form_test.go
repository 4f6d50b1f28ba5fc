package shuultuur

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
	"shuultuur/engine/configuration"
	"shuultuur/lib/setting"
	"shuultuur/text"
)

// plainKeys are keys that people understand as they are, and names and acronyms that those who need the
// setting know.
var plainKeys = strings.Fields(`accept-terms access active-directory addresses allow answer automatic body catalogs certificates challenge children classes
	clickhouse clients cluster concurrent connect connections contact country dansguardian data deny directory disk dns64 documents
	domains downloads expire expires file files folder format forward from groups headers hosts hosts-files http https icap identity
	insecure inspected interval json limit link list listen lists log login memory mode model name names nats networks node nodes
	notify object offline open order organization pac page password path pending policies portal ports postgres preview profile
	proxy quic radius ranges recipients region reload remember reports requests required roles root routes rules schema scripts
	secondary secret serial server servers service session sessions shared sign size sockets sources sqlite squid store strict
	suffix suricata templates themes threshold timeout tls to topic trust trusted two-people update updates upstreams url user
	username users version warn workers`)

// TestTheFormSpeaksPlainly: no label of the real settings is the bare key of the file, none begins with a broken
// letter in any language, and no help sends the reader to another key by its dots.
func TestTheFormSpeaksPlainly(t *testing.T) {
	h := admintest.NewHouse(t)
	s := (&admintest.Paper{Text: "policies: []\n"}).Parts(t)
	s.Empty, s.Key = func() any { return new(configuration.Settings) }, []byte("key")
	rows, err := setting.Manual(Manual)
	if err != nil {
		t.Fatal(err)
	}
	manual := map[string]setting.Row{}
	for _, r := range rows {
		manual[r.Key] = r
	}
	s.Manual = func() map[string]setting.Row { return manual }
	texts, err := text.New("")
	if err != nil {
		t.Fatal(err)
	}
	h.Parts.Settings, h.Parts.Shared.Texts = s, texts.For
	h.Site = admin.New(h.Parts)
	field := regexp.MustCompile(`(?s)<div class="set wide" id="k-([^"]+)"><div><label[^>]*>([^<]*)</label>(?:<small>([^<]*)</small>)?`)
	keys := setting.Inputs(s.Empty())
	dotted := regexp.MustCompile(`(^|[ (])(` + strings.Join(outermostKeys(keys), "|") + `)(\.[a-z][a-z-]*)+`)
	files := regexp.MustCompile(`\.(md|db|conf|example|config|yaml|html)$|^mail\.example`)
	for _, lang := range []string{"en", "de", "ru", "ar"} {
		seen := 0
		for _, part := range []string{"network", "names", "encrypted", "checks", "people", "pages", "mail", "record", "memory", "other"} {
			w := h.Ask(account.Owner, "GET", "/settings/form?"+url.Values{"part": {part}}.Encode(), "", inLanguage(lang))
			for _, m := range field.FindAllStringSubmatch(w.Body.String(), -1) {
				seen++
				key, label, help := m[1][strings.LastIndexByte(m[1], '.')+1:], html.UnescapeString(m[2]), html.UnescapeString(m[3])
				if first, _ := utf8.DecodeRuneInString(label); first == utf8.RuneError || unicode.IsLower(first) {
					t.Errorf("%s: the label of %s is %q", lang, m[1], label)
				}
				if same := strings.EqualFold(label, strings.ReplaceAll(key, "-", " ")); same && lang == "en" && !slices.Contains(plainKeys, key) {
					t.Errorf("the label of %s is its bare key: give set.%s a text", m[1], strings.ReplaceAll(key, "-", ""))
				}
				for _, name := range dotted.FindAllString(help, -1) {
					if !files.MatchString(strings.TrimLeft(name, " (")) {
						t.Errorf("%s: the help of %s names the key%s: give help.%s a text", lang, m[1], name, m[1])
					}
				}
			}
		}
		if seen != len(keys) {
			t.Errorf("%s: the form has %d of %d keys", lang, seen, len(keys))
		}
	}
}

// properNames are keys that are names of programs, formats and protocols, the same in every language.
var properNames = strings.Fields(`acme clickhouse dansguardian dns64 https icap kafka kerberos ldap nats ocsp oidc otlp parquet postgres quic radius redis sqlite squid suricata syslog tls`)

// TestEveryLanguageNamesEverySetting: each key of the settings, and each key above one, has a word of its own in
// every language, so that no label and no heading of the form is the key of the file.
func TestEveryLanguageNamesEverySetting(t *testing.T) {
	texts, err := text.New("")
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.NewReplacer("-", "").Replace
	asked := map[string]bool{}
	for _, in := range setting.Inputs(new(configuration.Settings)) {
		parts := strings.Split(in.Path, ".")
		for i, key := range parts {
			names := []string{"set." + plain(key)}
			if i > 0 {
				names = append(names, "set."+plain(parts[i-1]+"."+key))
			}
			if path := strings.Join(parts[:i+1], "."); !asked[path] && !slices.Contains(properNames, key) {
				asked[path] = true
				for _, l := range texts.All() {
					if l.Lang != "en" && !slices.ContainsFunc(names, func(name string) bool { return l.Say(name) != name }) {
						t.Errorf("%s.txt has none of the texts %q: the form shows the key %s", l.Lang, names, path)
					}
				}
			}
		}
	}
	if len(asked) < 400 {
		t.Errorf("only %d keys were asked for", len(asked))
	}
}

// outermostKeys are the outermost keys.
func outermostKeys(keys []setting.Input) (all []string) {
	for _, k := range keys {
		top, _, _ := strings.Cut(k.Path, ".")
		all = append(all, top)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func inLanguage(lang string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Accept-Language", lang)
	}
}
