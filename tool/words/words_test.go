package words

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/check/phrase"
	"shuultuur/lib/setting"
)

func TestWordsSayWhatListsMakeOfAPage(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"gambling.list": "#listcategory: \"Gambling\"\n#language uz\n<qimor><40>\n#language none\n<casino><30>\n",
		"odd.list":      "<city><5>\n<rock &amp; roll><10>\n<city><2>\n",
		"page.html": `<html lang="uz"><p>Toshkent shahrining markazida joylashgan binoda bugun yangi klub ochildi. Unda yozuvchilar
va o&rsquo;qituvchilar, oʻqiydilar, bog‘imizda, qimorlarimizdan, qimorni va qimor haqida gapirdilar. Casino c4sino city.`,
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
	own := Lists{Config: phrase.Config{Weighted: []setting.File{setting.File(at("gambling.list"))}}, Dir: dir, Share: 5, Read: os.ReadFile}
	odd := Lists{Config: phrase.Config{Weighted: []setting.File{setting.File(at("odd.list"))}}, Dir: dir, Share: 5, Read: os.ReadFile}
	with := func(l Lists, harmless string) Lists {
		l.Harmless = []string{at(harmless)}
		return l
	}
	for _, tt := range []struct {
		name   string
		q      Question
		faulty bool
		want   []string
	}{
		{"lists of the settings", Question{Lists: own, Page: at("page.html")}, false,
			[]string{"language  uz-Latn (the page says uz-Latn)", "    3  qimor  qimor qimorlarimizdan qimorni", "    1  o'qi  o'qiydilar", "    1  o'qituvchi  o'qituvchilar", "    1  bog'  bog'imizda", "score     70 by gambling.list, limit 50", "<{qimor}: qimorlarimizdan> 40, line 3"}},
		{"a list", Question{Lists: odd, Page: at("page.html")}, true,
			[]string{"score     5 by ", "odd.list:2: phrase \"rock &amp; roll\" never matches", "odd.list:3: the same phrase is weighted with 5"}},
		{"an office file", Question{Lists: own, Page: at("page.docx")}, false, []string{"    1  o'qi  o'qiydilar", "    1  to'g'ri\n", "    1  bog'  bog'imizda"}},
		{"a URL", Question{Lists: own, Page: origin.URL}, false, []string{"text/html", "score     70"}},
		{"harmless pages", Question{Lists: with(odd, "harmless"), Page: at("page.html")}, true, []string{"<city> is on 4 of 4 harmless pages"}},
		{"a harmless page above the limit", Question{Lists: with(own, "page.html"), Page: at("page.html")}, true, []string{"page.html: a harmless page with the score 70, above the limit 50"}},
		{"disguised", Question{Lists: own, Page: at("page.html"), Disguised: true}, false, []string{`"count": 2`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x, err := Examine(t.Context(), tt.q)
			if err != nil {
				t.Fatal(err)
			}
			if x.Faulty() != tt.faulty {
				t.Errorf("faulty is %v, want %v", x.Faulty(), tt.faulty)
			}
			var out, object bytes.Buffer
			if err := errors.Join(x.Text(&out), x.JSON(&object)); err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String()+object.String(), want) {
					t.Errorf("the output lacks %q:\n%s", want, out.String())
				}
			}
			if !json.Valid(object.Bytes()) {
				t.Errorf("the object is not JSON: %s", object.String())
			}
		})
	}
	for page, want := range map[string]string{origin.URL + "/x": "404", at("none"): "no such file"} {
		if _, err := Examine(t.Context(), Question{Lists: own, Page: page}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", page, err, want)
		}
	}
	for _, tt := range []struct {
		lists Lists
		n     int
		want  string
	}{
		{odd, 2, "odd.list:2: phrase"},
		{with(odd, "harmless"), 3, "1 on too many of 4 harmless pages"},
		{own, 0, "2 phrases, 0 lines of no use"},
	} {
		var out bytes.Buffer
		n, err := tt.lists.Lint(t.Context(), &out)
		if err != nil || n != tt.n || !strings.Contains(out.String(), tt.want) {
			t.Errorf("lint: %d, %v and %q, want %d and %q", n, err, out.String(), tt.n, tt.want)
		}
	}
}
