package gateway

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/lib/setting"
)

// folder writes files into a new folder and returns the settings file in it.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "shuultuur.yaml")
}

func explain(t *testing.T, file string) error {
	t.Helper()
	_, done, err := engine.Explain(context.Background(), file)
	if err == nil {
		done()
	}
	return err
}

// sketch is the example that the README shows.
const sketch = `
listen: {proxy: 127.0.0.1:8080, admin: 127.0.0.1:8081}
data: ./data                      # compiled lists, events
lists:
  ut1: {format: ut1, path: lists/blacklists}
  own: {format: domains, path: own.txt, category: own}
checks:
  category: {lists: [ut1, own]}
  phrase: {weighted: [w.list], banned: [b.list], exception: [e.list], compat: modern}
policies:                         # the first that covers the client
  - name: pupils
    networks: [10.1.0.0/16]
    rules:                        # the first that fits
      - {name: banks, action: allow, category: [bank]}
      - {name: adult, action: block, category: [adult, own]}
      - {name: words, action: block, category: [phrase], over: 50}   # score > 50, as naughtynesslimit
  - name: everyone
    rules: [{name: words, action: warn, category: [phrase], over: 160}]
events: {sqlite: events.db}
`

func sketchFiles(settings string) map[string]string {
	return map[string]string{
		"shuultuur.yaml":                 settings,
		"lists/blacklists/bank/domains":  "bank.example\n",
		"lists/blacklists/adult/domains": "adult.example\n",
		"own.txt":                        "own.example\n",
		"w.list":                         "#listcategory: \"Bad words\"\n<blimey><60>\n",
		"b.list":                         "<forbidden>\n",
		"e.list":                         "<excepted>\n",
	}
}

func TestTheExampleSettingsWork(t *testing.T) {
	if err := explain(t, folder(t, sketchFiles(sketch))); err != nil {
		t.Error(err)
	}
}

func TestMistakesAreNamedByFileLineAndKey(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"unknown key", "data: ./data", "dta: ./data", `:3: dta: there is no setting "dta" here`},
		{"unknown key inside", "format: domains, path", "formt: domains, path", `:6: lists.own.formt: there is no setting "formt" here`},
		{"wrong kind", "over: 50", "over: many", ":16: policies[0].rules[2].over: this is text `many`, it should be a whole number"},
		{"list for text", "data: ./data", "data: [a, b]", ":3: data: this is a list, it should be a single value"},
		{"network", "10.1.0.0/16", "10.1.0.0/66", `:12: policies[0].networks[0]`},
		{"action", "action: allow", "action: alow", `:14: policies[0].rules[0].action`},
		{"category nobody reports", "category: [bank]", "category: [bnak]", `:14: policies[0].rules[0].category[0]`},
		{"score without limit", ", over: 160", "", `:18: policies[1].rules[0]`},
		{"list that is not there", "path: own.txt", "path: owned.txt", `:6: lists.own`},
		{"format", "format: ut1", "format: ut2", `:5: lists.ut1`},
		{"list nobody knows", "lists: [ut1, own]", "lists: [ut1, onw]", `:8: checks.category.lists[1]`},
		{"phrase list", "[w.list]", "[v.list]", `:9: checks.phrase.weighted[0]`},
		{"compat", "compat: modern", "compat: e2guardian-6", `:9: checks.phrase.compat`},
		{"events", "events: {sqlite: events.db}", "events: {every: 1ns}", `:19: events.every`},
		{"token", "admin: 127.0.0.1:8081}", "admin: 127.0.0.1:8081, token: sesame}", `:2: listen.token: 6 bytes are too few to be safe`},
		{"syntax", "lists: [ut1, own]}", "lists: [ut1, own}", `shuultuur.yaml:8:`},
		{"twice", "data: ./data", "data: a\ndata: b", `shuultuur.yaml:4: `},
		{"empty", sketch, "", `policies`},
	} {
		t.Run(c.name, func(t *testing.T) {
			settings := strings.Replace(sketch, c.old, c.new, 1)
			if settings == sketch {
				t.Fatalf("%q is not in the example", c.old)
			}
			err := explain(t, folder(t, sketchFiles(settings)))
			var m setting.Mistakes
			if !errors.As(err, &m) {
				t.Fatalf("got %v, want setting.Mistakes", err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, want it to say %q", err, c.want)
			}
		})
	}
}

func TestEveryMistakeOfTheFormIsNamedAtOnce(t *testing.T) {
	settings := strings.NewReplacer("data: ./data", "dta: ./data", "over: 50", "over: many", "over: 160", "ovr: 160").Replace(sketch)
	_, err := configuration.Parse("x.yaml", []byte(settings))
	var m setting.Mistakes
	if !errors.As(err, &m) || len(m) != 3 {
		t.Fatalf("got %d mistakes: %v; want 3", len(m), err)
	}
	for i, line := range []int{3, 16, 18} {
		if m[i].Line != line {
			t.Errorf("mistake %d: got line %d, want %d: %s", i, m[i].Line, line, m[i])
		}
	}
}

func TestADataFolderServesOneGateway(t *testing.T) {
	settings := strings.NewReplacer("127.0.0.1:8080", "127.0.0.1:0", "127.0.0.1:8081", "127.0.0.1:0").Replace(sketch)
	file := folder(t, sketchFiles(settings))
	log := slog.New(slog.DiscardHandler)
	g, err := New(t.Context(), file, log)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), file, log); err == nil || !strings.Contains(err.Error(), "in use by another gateway") {
		t.Errorf("a second gateway on the same data: got %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := g.Run(ctx); err != nil {
		t.Fatal(err)
	}
	again, err := New(t.Context(), file, log)
	if err != nil {
		t.Fatalf("starting after the first gateway ended: %v", err)
	}
	if err := again.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(sketch))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("policies: {"))
	f.Add([]byte("x: &x {y: 1}\nz: {<<: *x}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := configuration.Parse("fuzz.yaml", data)
		if (s == nil) == (err == nil) {
			t.Fatalf("Read returned the settings %v and the error %v, want one of them", s, err)
		}
		if err != nil && err.Error() == "" {
			t.Error("Read returned an error without a text")
		}
	})
}
