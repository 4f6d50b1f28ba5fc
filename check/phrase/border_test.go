package phrase

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/language"
)

func TestPhrasesAreWords(t *testing.T) {
	for _, c := range []struct{ list, page, want string }{
		// Whole words, in any form.
		{"<busen>", "Busen", "1"}, {"<busen>", "Busens", "1"}, {"<busen>", "Busendorf", ""}, {"<busen>", "Hirtbusen", ""},
		{"<sex>", "Essex", ""}, {"<sex>", "Sextant", ""}, {"<sex>", "sex.", "1"}, {"<sex>", "(SEX)", "1"}, {"<sex>", "sexes", "1"},
		{"<fick>", "Fickeisen", ""}, {"<titten>", "Tittenkofen", ""}, {"<möse>", "Mösendorf Möse", "1"},
		{"<hot girl>", "hot girls", "1"}, {"<hot girl>", "shot girl", ""}, {"<hot girl>", "hot girlfriend", ""},
		{"<путан>", "путаны", "1"}, {"<путан>", "путаница", ""},
		{"<cu>", "cus", ""}, {"<cu>", "cu", "1"},
		// Digits are no part of a word.
		{"<porn>", "porn123 x", "1"}, {"<sex>", "18sex", "1"}, {"<18>", "1800", ""}, {"<18>", "218", ""}, {"<18>", "18", "1"}, {"<18>", "18plus", "1"},
		// A blank says which border counts.
		{"< sex >", "sexes", ""}, {"< sex >", "sex", "1"}, {"< sex>", "sextant", "1"}, {"< sex>", "essex", ""}, {"<sex >", "essex", "1"}, {"<sex >", "sextant", ""},
		// A star stands for letters.
		{"<*sex*>", "essexian", "1"}, {"<sex*>", "sextant", "1"}, {"<sex*>", "essex", ""}, {"<*sex>", "essex", "1"}, {"<*sex>", "essexes", "1"}, {"<*sex>", "essexian", ""},
		{"<*>", "a", ""}, {"<**>", "a", ""},
		// Long ones are found in compounds.
		{"<pornogra>", "Kinderpornographie", "1"}, {"<pornogra>", "pornography", "1"}, {"<schöne schlampe>", "schöne Schlampenfotos", "1"}, {"<schöne schlampe>", "unschöne Schlampe", ""},
		// Scripts without blanks.
		{"<色情>", "有色情的", "1"}, {"<エロ>", "超エロい", "1"}, {"<โป๊>", "หนังโป๊ใหม่", "1"},
		// Combinations.
		{"<sex>,<toy>", "essex toy", ""}, {"<sex>,<toy>", "sex toys", "1"},
	} {
		list := c.list + "<1>"
		if got := strings.TrimPrefix(brief(find(t, newCheck(t, testLists{weighted: list}, Config{}), "<p>x "+c.page+" y</p>")), "phrase "); got != c.want {
			t.Errorf("%s in %q: score %q, want %q", c.list, c.page, got, c.want)
		}
	}
}

// TestBordersDoNotDependOnPieces: a word that goes on in the next piece is one word.
func TestBordersDoNotDependOnPieces(t *testing.T) {
	c := newCheck(t, testLists{weighted: "<busen><1>\n<sex><2>\n<*kofen><4>"}, Config{})
	for _, page := range []string{"<p>x Busendorf y</p>", "<p>x Busen dorf Essex</p>", "<p>Titten<b>kofen</b> Sex</p>"} {
		whole := brief(find(t, c, page))
		for step := 1; step < len(page); step++ {
			tr := transaction("text/html; charset=utf-8", "", nil)
			tr.Body.Reset(content.Describe("text/html; charset=utf-8", ""), content.Limits{})
			var found []filter.Finding
			for at := 0; at < len(page); at += step {
				tr.Body.Append([]byte(page[at:min(at+step, len(page))]))
				if at+step >= len(page) {
					tr.Body.Finish()
				}
				var err error
				if found, err = c.Find(t.Context(), tr, filter.ResponseBody, nil); err != nil {
					t.Fatal(err)
				}
			}
			if got := brief(found); got != whole {
				t.Errorf("%q in pieces of %d bytes: found %q, want %q", page, step, got, whole)
			}
			tr.Body.Release()
		}
	}
}

func TestListsCountInPagesOfTheirLanguage(t *testing.T) {
	dir := t.TempDir()
	texts := map[string]string{
		"pt": "A nossa biblioteca abre todas as manhãs às nove horas e fecha ao fim da tarde. As crianças leem livros aqui e encontram novos amigos. ",
		"es": "Nuestra biblioteca abre cada mañana a las nueve y cierra por la tarde. Los niños leen libros aquí y encuentran nuevos amigos. ",
		"de": "Unsere Bibliothek öffnet jeden Morgen um neun Uhr und schließt am Abend. Kinder lesen hier Bücher und finden neue Freunde. ",
		"da": "Vores bibliotek åbner hver morgen klokken ni og lukker om aftenen. Børnene læser bøger her og finder nye venner. ",
		"ru": "Наша библиотека открывается каждое утро в девять часов и закрывается вечером. Дети читают здесь книги и находят новых друзей. ",
		"":   "",
	}
	for _, c := range []struct {
		file, text string
		want       bool
	}{
		{"weighted_portuguese", texts["pt"], true},
		{"weighted_portuguese", texts["es"], false},
		{"weighted_portuguese", texts["de"], false},
		{"weighted_portuguese", texts[""], true},
		{"weighted_portuguese", texts["ru"], true}, // words of another script are no chance
		{"weighted_portuguese", strings.Repeat(texts["es"], 100) + strings.Repeat(texts["pt"], 100), true},
		{"weighted_portuguese", strings.Repeat(texts["pt"], 100) + strings.Repeat(texts["es"], 100), true},
		{"weighted_portuguese", strings.Repeat(texts["es"], 200), false},
		{"weighted_norwegian", texts["da"], true},
		{"weighted", texts["es"], true},
		{"weighted_general", texts["es"], true},
		{"polish/words/weighted", texts["es"], false},
		{"polishing/words/weighted", texts["es"], true},
	} {
		path := filepath.Join(dir, filepath.FromSlash(c.file))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, []byte("< lesbo><10>\n<foo>,<lesbo><5>\n"))
		write(t, filepath.Join(dir, "main"), []byte(".Include<"+path+">\n"))
		k, err := New(Config{Weighted: located(dir, "main")}, dir, noon)
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		if c.want {
			want = "phrase 15"
		}
		for _, page := range []string{"<p>" + c.text + " foo lesbo</p>", "<p>foo lesbo " + c.text + "</p>"} {
			if got := brief(find(t, k, page)); got != want {
				t.Errorf("list %s in %.60q of %d bytes: found %q, want %q", c.file, page, len(page), got, want)
			}
		}
	}
}

func TestLanguageOfAList(t *testing.T) {
	for path, want := range map[string]language.Set{
		"/l/phraselists/pornography/weighted_portuguese": language.SetOf("pt"),
		"/l/phraselists/portuguese/badwords/weighted":    language.SetOf("pt"),
		"/l/phraselists/russian-koi8-r/x/weighted":       language.SetOf("ru"),
		"/l/weighted_russian_utf8":                       language.SetOf("ru"),
		"/l/weighted_malay":                              language.SetOf("id"),
		"/l/chinesegb2312/x/weighted":                    language.SetOf("zh"),
		"/l/ukenglish/x/weighted":                        language.SetOf("en"),
		"/l/Weighted_German":                             language.SetOf("de"),
		"/l/pornography/weighted":                        0,
		"weighted":                                       0,
		"/german/a/b/c/weighted":                         0,
	} {
		if got := spokenIn(path); got != want {
			t.Errorf("languages of %s: %b, want %b", path, got, want)
		}
	}
}
