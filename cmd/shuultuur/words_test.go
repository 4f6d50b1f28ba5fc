package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWordsAndLintExamineThePhraseListsOfTheSettings(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"gambling.list": "<casino><30>\n<poker><40>\n",
		"odd.list":      "<city><5>\n<rock &amp; roll><10>\n<city><2>\n",
		"page.html":     "<p>Casino, poker and city.",
		"a.html":        "<p>The library of the city.",
		"b.html":        "<p>The city.",
		"shuultuur.yaml": `
checks: {phrase: {weighted: [gambling.list]}}
policies: [{name: all, rules: [{name: words, action: block, category: [phrase], over: 50}]}]
`,
	} {
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"words", "-config", at("shuultuur.yaml"), at("page.html")}, 0, "score     70 by gambling.list, limit 50"},
		{[]string{"words", "-list", at("odd.list"), "-json", at("page.html")}, 1, `"score": 5`},
		{[]string{"words", "-config", at("shuultuur.yaml"), "-harmless", at("page.html"), at("page.html")}, 1, "with the score 70, above the limit 50"},
		{[]string{"words", "-config", at("shuultuur.yaml")}, 2, "missing"},
		{[]string{"words", "-config", at("shuultuur.yaml"), at("none")}, 1, "no such file"},
		{[]string{"list", "lint", "-format", "phrase", at("odd.list")}, 1, "odd.list:2: phrase"},
		{[]string{"list", "lint", "-format", "phrase", "-harmless", at("a.html"), "-harmless", at("b.html"), at("odd.list")}, 1, "1 on too many of 2 harmless pages"},
		{[]string{"list", "lint", "-format", "phrase", at("gambling.list")}, 0, "2 phrases, 0 lines of no use"},
		{[]string{"list", "lint", "-config", at("shuultuur.yaml")}, 0, "2 phrases, 0 lines of no use"},
		{[]string{"list", "lint", "-format", "phrase"}, 2, ""},
	} {
		status, out, errs := callAs(t, tt.args...)
		if status != tt.status || !strings.Contains(out+errs, tt.want) {
			t.Errorf("%q: status %d and %q, want %d and %q", tt.args, status, out+errs, tt.status, tt.want)
		}
	}
}
