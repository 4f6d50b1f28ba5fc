package text

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// subjects are the folders of the admin pages: those with templates, and two that have texts alone.
var subjects = func() []string {
	all := []string{"../admin", "../admin/remote"}
	pages, err := filepath.Glob("../admin/*/*.html")
	if err != nil {
		panic(err) // the pattern is good
	}
	for _, page := range pages {
		if dir := filepath.Dir(page); !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	return all
}()

// places are where texts are used: templates, and Go files that say texts.
var places = append(slices.Clip(subjects), "../admin/alert", "../admin/report", "../admin/account", "../gateway", "../portal", "../proxy/page", "../proxy/exchange", "../vote", "../vote/booth", "../policy/pause", "../intercept", "../engine/starter")

// names are the same in every language.
var names = []string{"Shuultuur", "Android", "Windows", "iPhone, iPad, Mac", "DNS over HTTPS", "DNS over TLS"}

// named are keys that the English file explains.
var named = regexp.MustCompile(`^[a-z]+\.[a-z0-9]+$`)

// used returns the keys that the program uses, with their places.
func used(t *testing.T) map[string]string {
	all := map[string]string{}
	call := regexp.MustCompile("\\b(?:[sS]ay|sentence|Mark|t) (?:\\$|\\.)? ?\"([^\"{]+)\"|\\(t \"([^\"]+)\"\\)")
	template := func(name, source string) {
		for _, key := range templateKeys(source) {
			all[key] = name
		}
		for _, m := range call.FindAllStringSubmatch(source, -1) {
			all[m[1]+m[2]] = name
		}
	}
	for _, dir := range places {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, ".html") {
				b, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				template(name, string(b))
			}
			if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			api, tools := strings.HasPrefix(name, "../admin/"), filepath.Base(name) == "assistants.go"
			ast.Inspect(file, func(n ast.Node) bool {
				if c, ok := n.(*ast.CallExpr); ok {
					messagesOf(c, func(key string) { all[key] = name })
				}
				if _, argument := n.(*ast.CallExpr); argument && tools {
					return true // of a tool, which only programs read
				}
				if s, ok := described(n); ok && api {
					all[s] = name
				}
				return true
			})
		}
	}
	for key := range all {
		if !readable(key) && !named.MatchString(key) || slices.Contains(names, key) {
			delete(all, key)
		}
	}
	for _, key := range spoken {
		all[key] = "values"
	}
	for _, key := range messages {
		all[key] = "message.go"
	}
	return all
}

// messagesOf examines a call that uses a text, whose key may be a part of an
// expression.
func messagesOf(c *ast.CallExpr, key func(string)) {
	name := ""
	switch f := c.Fun.(type) {
	case *ast.SelectorExpr:
		name = f.Sel.Name
	case *ast.Ident:
		name = f.Name
	}
	if len(c.Args) == 0 {
		return
	}
	switch name {
	case "Say", "say", "Mark":
		if s, ok := literal(c.Args[0]); ok {
			key(s)
		}
		if index, ok := c.Args[0].(*ast.IndexExpr); ok { // one of several
			if all, ok := index.X.(*ast.CompositeLit); ok {
				for _, e := range all.Elts {
					if s, ok := literal(e); ok {
						key(s)
					}
				}
			}
		}
	case "page": // of package vote: texts, look, title, text, label
		for _, i := range []int{2, 4} {
			if len(c.Args) == 6 {
				if s, ok := literal(c.Args[i]); ok && s != "" {
					key(s)
				}
			}
		}
	}
}

// described returns the description of a route or a field of its row. Possible values of a field are not texts.
func described(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if k, ok := n.Key.(*ast.Ident); ok && k.Name == "Does" {
			return literal(n.Value)
		}
	case *ast.CallExpr:
		name := ""
		switch f := n.Fun.(type) {
		case *ast.SelectorExpr:
			name = f.Sel.Name
		case *ast.Ident:
			name = f.Name
		}
		if name == "Optional" || name == "Required" {
			s, ok := literal(n.Args[len(n.Args)-1])
			return s, ok && !strings.Contains(s, " | ")
		}
	}
	return "", false
}

// literal returns the value of a string literal.
func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(l.Value)
	return s, err == nil
}

// spoken are the texts of values that have other names in settings, or that come from packages
// without texts.
var spoken = []string{
	"pass", "allow", "warn", "block", "redirect", "blur", "placeholder", // actions
	"open", "acknowledged", "closed", "low", "medium", "high", // alerts
	"owner", "operator", "lead", "helper", "viewer", "none", // roles
	"user", "group", "device", // clients
	"wrong", "dangerous", "keep", // votes
	"everybody",
	// the catalogue of lists
	"ads and malware, of several lists",
	"the same, with gambling",
	"the same, with pornography",
	"ads, tracking, malware: careful",
	"ads, tracking, malware: all round",
	"ads, tracking, malware: more",
	"malware, phishing, scams",
	"ads mostly",
	"ads, tracking, malware",
	"pornography",
	"ads, for ad blockers",
	"tracking, for ad blockers",
	"ads and tracking, by host",
	"hosts that currently serve malware",
	"ads and tracking, small",
	"the University of Toulouse's lists, all",
	"signature rules: malware, phishing, exploits",
	"see homepage",
	"added", "excepted", "removed", // entries of lists
	"wait.part", "wait.some", "wait.check", "error.403", "error.502", "error.503", "error.504", "block.text", "warn.text", "page", "because",
}

func TestEveryLanguageHasEveryText(t *testing.T) {
	s, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	all := used(t)
	marks := regexp.MustCompile(`\{\w+\}|</?[a-z]+>`)
	var langs []string
	for _, l := range s.All() {
		langs = append(langs, l.Lang)
		for key, where := range all {
			source := cmp.Or(l.in.of[key], key)
			have, ok := l.of[key]
			if !ok && l.Lang != "en" {
				t.Errorf("%s.txt lacks the text %q, which %s uses", l.Lang, key, where)
			}
			if !ok {
				continue
			}
			want, got := marks.FindAllString(source, -1), marks.FindAllString(have, -1)
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) && where != "../proxy/page/page.go" {
				t.Errorf("%s.txt: the text of %q has the values %v, the English one %v", l.Lang, key, got, want)
			}
		}
		for key := range l.of {
			if _, ok := all[key]; !ok && !strings.HasPrefix(key, "set.") && !strings.HasPrefix(key, "help.") { // tests of admin check those
				t.Errorf("%s.txt has the text %q, which nothing uses", l.Lang, key)
			}
		}
	}
	slices.Sort(langs)
	if want := []string{"ar", "de", "en", "es", "fr", "kk", "mn", "ru", "tr", "uz-Cyrl", "uz-Latn"}; !slices.Equal(langs, want) {
		t.Errorf("the languages are %v, want %v", langs, want)
	}
}

func TestNoTextStandsTwice(t *testing.T) {
	files, err := filepath.Glob("*.txt")
	if err != nil || len(files) < 11 {
		t.Fatalf("%d files of texts, %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for line := range strings.Lines(string(data)) {
			key, _, ok := strings.Cut(line, " = ")
			if ok && seen[key] {
				t.Errorf("%s has the text %q twice", file, key)
			}
			seen[key] = true
		}
	}
}

func TestMessagesAreTranslatedWithTheirValues(t *testing.T) {
	s, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	de, mn := s.For("de"), s.For("mn")
	for _, c := range []struct {
		in            *Texts
		english, want string
	}{
		{de, "the 1h a day for games are used up", "die 1h am Tag für games sind verbraucht"},
		{de, "the 1h a day for everything are used up", "die 1h am Tag für alles sind verbraucht"},
		{mn, `client="x" is not an address`, `client="x" хаяг биш`},
		{de, `"ann": there is an account of that name`, `"ann": es gibt schon ein Konto dieses Namens`},
		{de, "The certificate of {1} could not be verified.", "Das Zertifikat von {1} ließ sich nicht prüfen."},
		{de, "nobody says this", "nobody says this"},
		{de, "a: b: c: d: e", "a: b: c: d: e"},
		{s.For("en"), "404 page not found", "404 page not found"},
		{nil, "404 page not found", "404 page not found"},
	} {
		if got := c.in.Message(c.english); got != c.want {
			t.Errorf("Message(%q) = %q, want %q", c.english, got, c.want)
		}
	}
}

// FuzzMessage: an untranslated sentence stays as it is.
func FuzzMessage(f *testing.F) {
	f.Add("x is not an address", "{1} is not an address")
	f.Fuzz(func(t *testing.T, sentence, message string) {
		if values, ok := valuesOf(message, sentence); ok {
			for _, v := range values {
				if !strings.Contains(sentence, v) {
					t.Errorf("the value %q is not part of %q", v, sentence)
				}
			}
		}
		(&Texts{Lang: "de", of: map[string]string{message: "x"}, in: &Texts{}}).Message(sentence)
	})
}

func TestAcceptLanguageChooses(t *testing.T) {
	s, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	for accept, want := range map[string]string{
		"": "en", "xx": "en", "ja": "en", "*": "en", "mn-MN,mn;q=0.9,en;q=0.5": "mn", "uz": "uz-Latn", "uz-UZ": "uz-Latn",
		"uz-Cyrl-UZ": "uz-Cyrl", "de-AT,de;q=0.9": "de", "es-419": "es", "zh,ru;q=0.8": "ru", ";;;": "en", "ar": "ar", "ar-EG,en;q=0.5": "ar", "fa": "en",
	} {
		if got := s.For(accept).Lang; got != want {
			t.Errorf("For(%q) has the language %s, want %s", accept, got, want)
		}
	}
}

func TestFolderAddsALanguageWrittenFromTheRight(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "fa.txt"), []byte("# Persian\nblock.title = این صفحه بسته است\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := New(dir)
	if err != nil {
		t.Fatal(err)
	}
	fa := s.For("fa-IR")
	if fa.Dir != "rtl" || fa.Say("block.title") != "این صفحه بسته است" || fa.Say("address") != "Address" {
		t.Errorf("texts of a folder: language %s, direction %s, %q and %q", fa.Lang, fa.Dir, fa.Say("block.title"), fa.Say("address"))
	}
	if err := os.WriteFile(filepath.Join(dir, "fa.txt"), []byte("block.title\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(dir); err == nil {
		t.Error("New accepts a line without a text")
	}
}

// TestValuesKeepTheirOrderFromTheRight: after an Arabic letter the parts of a date, or an address and
// its slash, would change places.
func TestValuesKeepTheirOrderFromTheRight(t *testing.T) {
	s, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	ar, de := s.For("ar"), s.For("de")
	for _, c := range []struct{ got, want string }{
		{ar.Say("This holds until {time}.", "time", "2026-11-30 15:04"), "يسري هذا حتى \u20682026-11-30 15:04\u2069."},
		{ar.Say("Alerts: {n}; people: {people}", "n", "3", "people", "12"), "التنبيهات: 3؛ الأشخاص: 12"},
		{ar.Say("It went to {contact}. The answer appears here.", "contact", "https://school.example/ask"), "أُرسل إلى https://school.example/ask. يظهر الجواب هنا."},
		{de.Say("This holds until {time}.", "time", "2026-11-30 15:04"), "Das gilt bis 2026-11-30 15:04."},
		{ar.Message("The certificate of x.example could not be verified."), "تعذّر التحقق من شهادة \u2068x.example\u2069."},
		{ar.Template(`<p title="until {{.T}}">until {{.T}}</p>`), "<p title=\"حتى \u2068{{.T}}\u2069\">حتى \u2068{{.T}}\u2069</p>"},
		{ar.Template("<p>from <code>{{.From}}</code> in {{.N}} ms</p>"), "<p>من <code>{{.From}}</code> خلال \u2068{{.N}}\u2069 م.ث</p>"},
		{de.Template("<p>until {{.T}}</p>"), "<p>bis {{.T}}</p>"},
	} {
		if c.got != c.want {
			t.Errorf("got %+q, want %+q", c.got, c.want)
		}
	}
}

// FuzzTemplate: without texts, every template stays unchanged.
func FuzzTemplate(f *testing.F) {
	f.Add(`<p title="a {{.B}} word">{{.N}} people, <a href="/{{.X}}">see <b>this</b></a>{{if .Y}} until {{.Y}}{{end}}</p>`)
	f.Add(`<option>url</option><script>if (a < b) {}</script><a><b></a></b>{{ <`)
	f.Fuzz(func(t *testing.T, source string) {
		if got := translate(source, func(string) string { return "" }, ""); got != source {
			t.Errorf("without texts %q became %q", source, got)
		}
		(&Texts{in: &Texts{}}).Template(source)
	})
}

func TestATemplateIsTranslatedWithItsValuesAndTags(t *testing.T) {
	of := map[string]string{
		"{1} people since {2}. See the <a>settings</a>.": "<a>Тохиргоо</a>: {2}, {1} хүн.",
		"Name of {1}": "{1} нэр", "Save": "Хадгалах", "until {1}": "{1} хүртэл", "bad": "{{evil}}",
	}
	texts := &Texts{Lang: "mn", Dir: "ltr", of: of, in: &Texts{}}
	for source, want := range map[string]string{
		`<p>{{.N}} people since {{time .At "15:04"}}. See the <a href="/s?{{.Q}}">settings</a>.</p>`: `<p><a href="/s?{{.Q}}">Тохиргоо</a>: {{time .At "15:04"}}, {{.N}} хүн.</p>`,
		`<html lang="en"></html>`: `<html lang="mn" dir="ltr"></html>`,
		`<input value="Save" aria-label="Name of {{.Name}}"><button name="what" value="Save"> Save </button>`: `<input value="Save" aria-label="{{.Name}} нэр"><button name="what" value="Save"> Хадгалах </button>`,
		`<b>{{.X}}</b>{{if .Y}}, until {{.Y}}{{end}}`:                                                         `<b>{{.X}}</b>{{if .Y}}, {{.Y}} хүртэл{{end}}`,
		`<option>Save</option><option value="1">Save</option><script>Save</script><p>bad</p>`:                 `<option>Save</option><option value="1">Хадгалах</option><script>Save</script><p>bad</p>`,
	} {
		if got := texts.Template(source); got != want {
			t.Errorf("the template %s\nbecame %s\nwant   %s", source, got, want)
		}
	}
}

// TestReasonsOnErrorPagesAreMessages: each reason that the proxy gives can be said
// in every language. A value in it is {1}.
func TestReasonsOnErrorPagesAreMessages(t *testing.T) {
	found := 0
	for _, dir := range []string{"../proxy", "../proxy/exchange"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				c, ok := n.(*ast.CallExpr)
				if !ok || len(c.Args) < 3 {
					return true
				}
				f, ok := c.Fun.(*ast.SelectorExpr)
				if !ok || f.Sel.Name != "Fail" && f.Sel.Name != "fail" {
					return true
				}
				phrase := sentence(c.Args[1])
				if strings.Contains(phrase, " ") {
					found++
					if !slices.Contains(messages[:], phrase) {
						t.Errorf("%s: %q is not among the messages of message.go", set.Position(c.Pos()), phrase)
					}
				}
				return true
			})
		}
	}
	if found < 25 {
		t.Errorf("found only %d reasons, want at least 25", found)
	}
}

// sentence is the message that an expression makes: its literals, and {1} for
// the first value.
func sentence(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, _ := strconv.Unquote(e.Value)
		return s
	case *ast.BinaryExpr:
		return sentence(e.X) + sentence(e.Y)
	}
	return "{1}"
}

func TestThePackedTextsAreThoseOfTheFiles(t *testing.T) {
	want, err := Pack(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := unpack(); err != nil || got != string(want) {
		t.Fatalf("the files of texts have changed since they were packed: run go run ./text/pack (%v)", err)
	}
}

// forPrograms are files and single errors that no page shows: those of clients, of settings,
// and of the parts of the API that only programs use.
var forPrograms = []string{"client.go", "config.go", "contention.go", "assistants.go", "sessions.go", "admin.go", "serve.go", "audit.go", "why.go", "expect.go",
	"send application/json or text/csv", "If-Match is missing: send the ETag of the settings that were read", "reading the alerts in X: X; move the file away to begin anew",
	"it has no accounts", "X; restore it from a backup, or delete it to begin without accounts"}

// TestMistakesOnAdminPagesAreMessages: each mistake that can be made on a page
// is reported in every language. A text that wraps an error says where it
// happened, and may stay as it is.
func TestMistakesOnAdminPagesAreMessages(t *testing.T) {
	verbs := regexp.MustCompile(`%[-+#]?[0-9.]*[a-zA-Z]`)
	found := 0
	patterns := []string{"../admin/account/*.go", "../admin/alert/desk.go", "../policy/pause/*.go"}
	for _, dir := range subjects {
		patterns = append(patterns, dir+"/*.go")
	}
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("looking for %s: got no files, %v", pattern, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") || slices.Contains(forPrograms, filepath.Base(name)) {
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				c, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				f, ok := c.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				at := map[string]int{"New": 0, "Errorf": 0, "Error": 1}
				i, ok := at[f.Sel.Name]
				if p, is := f.X.(*ast.Ident); !ok || !is || !slices.Contains([]string{"errors", "fmt", "http"}, p.Name) || len(c.Args) <= i {
					return true
				}
				phrase := strings.ReplaceAll(sentence(c.Args[i]), "{1}", "%s")
				if strings.HasSuffix(phrase, "%w") || !strings.Contains(phrase, " ") {
					return true
				}
				found++
				if phrase = verbs.ReplaceAllString(phrase, "X"); slices.Contains(forPrograms, phrase) {
					return true
				}
				for _, m := range messages {
					if _, ok := valuesOf(m, phrase); ok {
						return true
					}
				}
				t.Errorf("%s: %q is not among the messages of message.go", set.Position(c.Pos()), phrase)
				return true
			})
		}
	}
	if found < 60 {
		t.Errorf("found only %d mistakes, want at least 60", found)
	}
}

// templateKeys returns the visible texts of the template source as keys.
func templateKeys(source string) (keys []string) {
	translate(source, func(key string) string {
		keys = append(keys, key)
		return ""
	}, "")
	return keys
}
