package phrase

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"shuultuur/content"
	"shuultuur/filter"
)

// findDisguised is like find for a client whose policy has disguised. The page arrives in
// pieces that end at cuts.
func findDisguised(t testing.TB, c *Check, page string, cuts ...int) []filter.Finding {
	t.Helper()
	tr := &filter.Transaction{Body: new(content.Body), Verdict: filter.Verdict{Disguised: true}}
	tr.Body.Reset(content.Describe("text/html; charset=utf-8", ""), content.Limits{})
	defer tr.Body.Release()
	from := 0
	for _, to := range append(cuts, len(page)) {
		tr.Body.Append([]byte(page[from:to]))
		if from = to; to == len(page) {
			tr.Body.Finish()
		}
		if _, err := c.Find(context.Background(), tr, filter.ResponseBody, nil); err != nil {
			t.Fatal(err)
		}
	}
	found, err := c.Find(context.Background(), tr, filter.ResponseBody, nil)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestDisguisedWordsAreFound(t *testing.T) {
	c := newCheck(t, testLists{weighted: "<casino><60>\n< sex ><70>\n<free pills><80>\n<казино><90>\n#language uz\n<qimor><40>\n"}, Config{})
	for name, p := range map[string]struct{ page, want, evidence string }{
		"Cyrillic letters":              {"our cаsіnо opens", "phrase 60", "<casino: cаsіnо> 60"},
		"Greek letters":                 {"our cαsinο opens", "phrase 60", ""},
		"small capitals":                {"our ᴄᴀsɪɴᴏ opens", "phrase 60", ""},
		"marks":                         {"our cásínö opens", "phrase 60", ""},
		"marks of a language":           {"our câsino opens", "", ""},
		"marks beside letters":          {"our c\u0304a\u0304s\u0304i\u0304n\u0304o\u0304 opens", "phrase 60", ""},
		"strokes and hooks":             {"our ƈɑʂíɲơ opens", "phrase 60", ""},
		"Lisu letters":                  {"our ꓚꓮꓢꓲꓠꓳ opens", "phrase 60", ""},
		"Cherokee letters":              {"our ꮯꭺꮪꮖꮑꮎ opens", "phrase 60", ""},
		"full width":                    {"our Ｃａｓｉｎｏ opens", "phrase 60", ""},
		"letters of mathematics":        {"our 𝒸𝒶𝓈𝒾𝓃ℴ opens", "phrase 60", ""},
		"digits":                        {"our c4s1n0 opens", "phrase 60", "<casino: c4s1n0> 60"},
		"digits and other letters":      {"our с4sin0 opens", "phrase 60", ""},
		"1 for l":                       {"get free pi11s", "phrase 80", ""},
		"both words":                    {"get fr33 p1lls", "phrase 80", ""},
		"zero-width":                    {"our c\u200ba\u200cs\u200di\u2060n\ufeffo opens", "phrase 60", ""},
		"soft hyphens":                  {"our ca&shy;si&shy;no opens", "phrase 60", ""},
		"spaces":                        {"our c a s i n o opens", "phrase 60", "<casino: c a s i n o> 60"},
		"dots":                          {"our c.a.s.i.n.o. opens", "phrase 60", ""},
		"dashes":                        {"our c-a_s*i|n~o opens", "phrase 60", ""},
		"inline tags":                   {"our c<b>a</b>s<i>i</i>n<u>o</u> opens", "phrase 60", ""},
		"block tags":                    {"our<p>c<p>a<p>s<p>i<p>n<p>o<p>opens", "phrase 60", ""},
		"spaces and tags":               {"our <b>c</b> <b>a</b> <b>s</b> <b>i</b> <b>n</b> <b>o</b> opens", "phrase 60", ""},
		"no-break spaces":               {"our c&nbsp;a&nbsp;s&nbsp;i&nbsp;n&nbsp;o opens", "phrase 60", ""},
		"spaces and digits":             {"our c 4 s 1 n 0 opens", "phrase 60", ""},
		"whole word in a row":           {"see a s e x page", "phrase 70", ""},
		"whole word":                    {"see s3x page", "phrase 70", ""},
		"at the end":                    {"our c4s1n0", "phrase 60", ""},
		"Latin letters in Cyrillic":     {"новое кaзинo открылось", "phrase 90", ""},
		"digits in Cyrillic":            {"новое казин0 открылось", "phrase 90", ""},
		"by stem":                       {uzbekPage + "Ular qim0rlarimizdan gapirdilar.", "phrase 40", "<{qimor}: qim0rlarimizdan> 40"},
		"by stem, apart":                {uzbekPage + "Ular q i m o r l a r gapirdilar.", "phrase 40", ""},
		"in the plain besides":          {"casino c4s1n0", "phrase 60", "<casino> 60"},
		"within an identifier":          {"id 7f5ex3a9 and s3xt4nt", "", ""},
		"an alphabet":                   {"a b c d e f g h i j k l m n o p q r s t u v w x y z", "", ""},
		"initials":                      {"U. S. A. and S. E. Xavier", "", ""},
		"numbers":                       {"room 4 5 1 0 0, 5ex of 1000, 2x4", "phrase 70", ""},
		"plain words":                   {"a cosy inn with cases in o", "", ""},
		"words that are only separated": {"cas ino", "", ""},
	} {
		found := findDisguised(t, c, p.page)
		if got := brief(found); got != p.want {
			t.Errorf("%s: found %s, want %s; all findings: %v", name, got, p.want, found)
		} else if p.evidence != "" && !strings.Contains(found[0].Evidence, p.evidence) {
			t.Errorf("%s: the evidence is %s, want %s", name, found[0].Evidence, p.evidence)
		}
		switch name {
		case "zero-width", "soft hyphens", "inline tags", "letters of mathematics", "full width", "in the plain besides":
			continue // always reversed
		}
		if found := find(t, c, p.page); len(found) > 0 {
			t.Errorf("%s: found although the policy does not want it: %v", name, found)
		}
	}
}

func TestDisguisedWordsAreFoundHoweverThePageIsCut(t *testing.T) {
	c := newCheck(t, testLists{weighted: "<casino><1>\n< sex ><2>\n<free pills><4>\n<win big money><8>\n#language uz\n<qimor><16>\n"}, Config{WeightedPhraseMode: ptr(1)})
	r := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("the c4s1n0 of c a s i n o and s e x or s3x get free pi11s fr33 pills win b1g money w1n big m0ney a qim0r cаsіnо о 1 x")
	for range 300 {
		var page strings.Builder
		for range 5 + r.IntN(60) {
			page.WriteString(words[r.IntN(len(words))] + " ")
		}
		p := page.String()
		want := fmt.Sprint(findDisguised(t, c, p))
		var cuts []int
		for i := range len(p) {
			if r.IntN(12) == 0 {
				cuts = append(cuts, i)
			}
		}
		if got := fmt.Sprint(findDisguised(t, c, p, cuts...)); got != want {
			t.Fatalf("%q cut at %v: found %s, want %s", p, cuts, got, want)
		}
	}
}

// TestDisguisesAreRarelyFoundInHarmlessPages: reversing disguises must not change the verdict
// on harmless pages. One page in a hundred may gain a few points.
func TestDisguisesAreRarelyFoundInHarmlessPages(t *testing.T) {
	score := func(found []filter.Finding) int {
		for _, f := range found {
			if f.Category == "phrase" {
				return f.Score
			}
		}
		return 0
	}
	pages, _ := realPages(t)
	for _, s := range harmless {
		pages = append(pages, []byte("<p>"+strings.Join(s, " ")))
	}
	for name, c := range map[string]*Check{"starter lists": starter(t), "e2guardian's lists": e2gOrNil(t)} {
		if c == nil {
			continue
		}
		changed, over := 0, 0
		for i, page := range pages {
			plain := find(t, c, string(page))
			undone := findDisguised(t, c, string(page))
			if score(plain) == score(undone) && len(plain) == len(undone) {
				continue
			}
			changed++
			if score(plain) <= defaultLimit && score(undone) > defaultLimit {
				over++
			}
			t.Logf("%s, page %d: score %d, with reversed disguises %d: %v", name, i, score(plain), score(undone), undone)
		}
		t.Logf("%s: %d pages, %d with another score, %d over the limit only by that", name, len(pages), changed, over)
		if over > 0 || changed > (len(pages)+24)/25 {
			t.Errorf("%s: %d of %d pages have another score, %d exceed the limit", name, changed, len(pages), over)
		}
	}
}

// e2gOrNil is like e2gCheck, but returns nil if the lists of e2guardian are missing.
func e2gOrNil(t *testing.T) (c *Check) {
	t.Run("e2guardian", func(t *testing.T) { c = e2gCheck(t, "") })
	return c
}

func TestLookAlikesArePairs(t *testing.T) {
	for _, p := range append(asLatin[:], asCyrillic[:]...) {
		if a, b := utf8.RuneCountInString(p[0]), utf8.RuneCountInString(p[1]); a != b {
			t.Errorf("%q has %d letters, but its counterpart %q has %d", p[0], a, p[1], b)
		}
	}
}

func TestMarksThatStandAloneDoNotStopTheSearch(t *testing.T) {
	c := newCheck(t, testLists{weighted: "<casino><60>\n"}, Config{})
	for name, page := range map[string]string{
		"three":                 "\u0301 \u0301 \u0301",
		"in paragraphs":         "<p>\u0301<p>\u0301<p>\u0301",
		"one letter among them": "\u0301 a \u0301",
		"two letters":           "a \u0301 b \u0301",
		"at the end of a row":   "c a s i n o \u0301",
		"between the letters":   "c \u0301 a \u0301 s \u0301 i \u0301 n \u0301 o",
	} {
		page = "our casino <p>" + page + "<p> opens"
		if got := brief(findDisguised(t, c, page)); got != "phrase 60" {
			t.Errorf("%s: found %q, want phrase 60", name, got)
		}
	}
}

// TestNoTextStopsTheSearchForDisguises searches short texts of everything that looks odd, in
// pieces. What was found must not depend on them.
func TestNoTextStopsTheSearchForDisguises(t *testing.T) {
	c := newCheck(t, testLists{weighted: "<casino><60>\n< sex ><70>\n<x><1>\n< a b ><2>\n#language uz\n<qimor><40>\n"}, Config{})
	pieces := []string{" ", " ", " ", " ", "a", "x", "s3x", "c4s1n0", "c a s i n o", "qim0r", "1", "0", "в", "ѕ", "é", "ß",
		"\u0301", "\u0301", "\u0344", "\u0316", "\u0300", "\u036f", "\u0489", "\u20dd", // marks
		"\u200b", "\u200d", "\u2060", "\ufeff", "\u034f", "\u00ad", // joining
		"\u202e", "\u202c", "\u2067", "\u2069", "\u061c", // direction
		"\ufe0f", "\U000e0100", "\U000e0061", "\U000e007f", // variation and tags
		"\u1100", "\u1161", "\u0e33", "\U0001f600", "\xff", "\xcc", "\x81", "", strings.Repeat("1 ", 60), strings.Repeat("é", 60)}
	r := rand.New(rand.NewPCG(3, 4))
	find := func(text string, cuts bool) string {
		u := c.disguise.Follow(nil).(*unmasker)
		defer u.Close()
		for from := 0; from < len(text); {
			to := len(text)
			if cuts {
				to = from + 1 + r.IntN(len(text)-from)
			}
			u.Read([]byte(text[:to]), from)
			from = to
		}
		found := ""
		u.take(true, func(id uint32, word string) { found += fmt.Sprintf("%d %q;", id, word) })
		return found
	}
	for range 100_000 {
		var text strings.Builder
		for range 1 + r.IntN(8) {
			text.WriteString(pieces[r.IntN(len(pieces))])
		}
		s := text.String()
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Fatalf("%q: %v", s, p)
				}
			}()
			if want, got := find(s, false), find(s, true); got != want {
				t.Fatalf("%q: found %s in pieces, want %s", s, got, want)
			}
		}()
	}
}

func FuzzDisguises(f *testing.F) {
	c := newCheck(f, testLists{weighted: "<casino><60>\n< sex ><70>\n#language uz\n<qimor><40>\n"}, Config{})
	f.Add("a c4s1n0 and c a s i n o ", 3)
	f.Add("кaзинo s 3 x", 1)
	f.Add(" \xff 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", 9)
	f.Fuzz(func(t *testing.T, page string, cut int) {
		if want, got := brief(findDisguised(t, c, page)), brief(findDisguised(t, c, page, min(max(cut, 0), len(page)))); got != want {
			t.Errorf("with the page cut at %d: found %s, want %s", cut, got, want)
		}
	})
}

func BenchmarkDisguised(b *testing.B) {
	c := e2gCheck(b, "")
	pages, size := realPages(b)
	for name, disguised := range map[string]bool{"off": false, "on": true} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				for _, page := range pages {
					tr := transaction("text/html; charset=utf-8", "", page)
					tr.Verdict.Disguised = disguised
					if _, err := c.Find(context.Background(), tr, filter.ResponseBody, nil); err != nil {
						b.Fatal(err)
					}
					tr.Body.Release()
				}
			}
		})
	}
}
