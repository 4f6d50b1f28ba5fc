package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWordsSayWhatListsMakeOfAPage(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"gambling.list": "#listcategory: \"Gambling\"\n#language uz\n<qimor><40>\n#language none\n<casino><30>\n",
		"odd.list":      "<city><5>\n<rock &amp; roll><10>\n<city><2>\n",
		"page.html": `<html lang="uz"><p>Toshkent shahrining markazida joylashgan binoda bugun yangi klub ochildi. Unda yozuvchilar
va o&rsquo;qituvchilar, oʻqiydilar, bog‘imizda, qimorlarimizdan, qimorni va qimor haqida gapirdilar. Casino c4sino city.`,
		"shuultuur.yaml": `
checks: {phrase: {weighted: [gambling.list]}}
policies: [{name: all, rules: [{name: words, action: block, category: [phrase], over: 50}]}]
`,
	}
	if err := os.Mkdir(filepath.Join(dir, "harmless"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"a", "b", "c"} {
		files["harmless/"+n+".html"] = "<p>The library of the city is open on day " + n
	}
	files["harmless/d.html"] = "<p>The casino in the city."
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var office bytes.Buffer
	z := zip.NewWriter(&office)
	part, err := z.Create("word/document.xml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := part.Write([]byte("<w:document xmlns:w='x'><w:body><w:p><w:r><w:t>Toshkent shahrining markazida joylashgan binoda bugun yangi klub ochildi. Bolalar bu yerda kitob o‘qiydilar, to'g'ri bog’imizda.</w:t></w:r></w:p></w:body></w:document>")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "page.docx"), office.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write([]byte(files["page.html"]))
	}))
	defer origin.Close()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, tt := range []struct {
		name   string
		args   []string
		status int
		want   []string
	}{
		{"settings", []string{"-config", at("shuultuur.yaml"), at("page.html")}, 0,
			[]string{"language  uz-Latn (the page says uz-Latn)", "    3  qimor  qimor qimorlarimizdan qimorni", "    1  o'qi  o'qiydilar", "    1  o'qituvchi  o'qituvchilar", "    1  bog'  bog'imizda", "score     70 by gambling.list, limit 50", "<{qimor}: qimorlarimizdan> 40, line 3"}},
		{"a list", []string{"-list", at("odd.list"), at("page.html")}, 1,
			[]string{"score     5 by ", "odd.list:2: phrase \"rock &amp; roll\" never matches", "odd.list:3: the same phrase is weighted with 5"}},
		{"an office file", []string{"-config", at("shuultuur.yaml"), "-top", "0", at("page.docx")}, 0, []string{"    1  o'qi  o'qiydilar", "    1  to'g'ri\n", "    1  bog'  bog'imizda"}},
		{"a URL", []string{"-config", at("shuultuur.yaml"), origin.URL}, 0, []string{"text/html", "score     70"}},
		{"a URL that is not there", []string{"-config", at("shuultuur.yaml"), origin.URL + "/x"}, 1, []string{"404"}},
		{"harmless pages", []string{"-list", at("odd.list"), "-harmless", at("harmless"), at("page.html")}, 1, []string{"<city> is on 4 of 4 harmless pages"}},
		{"a harmless page above the limit", []string{"-config", at("shuultuur.yaml"), "-harmless", at("page.html"), at("page.html")}, 1, []string{"page.html: a harmless page with the score 70, above the limit 50"}},
		{"disguised", []string{"-config", at("shuultuur.yaml"), "-disguised", "-json", at("page.html")}, 0, []string{`"count": 2`}},
		{"no page", []string{"-config", at("shuultuur.yaml")}, 2, nil},
		{"no such file", []string{"-config", at("shuultuur.yaml"), at("none")}, 1, []string{"no such file"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			status := wordsCommand(context.Background(), env{stdin: strings.NewReader(""), stdout: &out, stderr: &out}, tt.args)
			if status != tt.status {
				t.Errorf("the command ends with status %d, want %d", status, tt.status)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the output lacks %q:\n%s", want, out.String())
				}
			}
			if tt.args[len(tt.args)-2] == "-json" && !json.Valid(out.Bytes()) {
				t.Errorf("the output is not JSON: %s", out.String())
			}
		})
	}
	for _, tt := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"lint", "-format", "phrase", at("odd.list")}, 1, "odd.list:2: phrase"},
		{[]string{"lint", "-format", "phrase", "-harmless", at("harmless"), at("odd.list")}, 1, "1 on too many of 4 harmless pages"},
		{[]string{"lint", "-format", "phrase", at("gambling.list")}, 0, "2 phrases, 0 lines of no use"},
		{[]string{"lint", "-config", at("shuultuur.yaml")}, 0, "2 phrases, 0 lines of no use"},
		{[]string{"lint", "-format", "phrase"}, 2, ""},
	} {
		var out bytes.Buffer
		got := lists(context.Background(), env{stdin: strings.NewReader(""), stdout: &out, stderr: &out}, tt.args)
		if got != tt.status || !strings.Contains(out.String(), tt.want) {
			t.Errorf("list %q: status %d and %q, want %d and %q", tt.args, got, out.String(), tt.status, tt.want)
		}
	}
}
