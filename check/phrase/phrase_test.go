package phrase

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/setting"
	"shuultuur/test/race"
)

// testLists are the three lists of a check.
type testLists struct{ weighted, banned, exception string }

func newCheck(t testing.TB, l testLists, cfg Config) *Check {
	t.Helper()
	dir := t.TempDir()
	write(t, dir+"/w", []byte(l.weighted))
	write(t, dir+"/b", []byte(l.banned))
	write(t, dir+"/e", []byte(l.exception))
	cfg.Weighted, cfg.Banned, cfg.Exception = located(dir, "w"), located(dir, "b"), located(dir, "e")
	c, err := New(cfg, dir, noon)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// located returns files in dir.
func located(dir string, names ...string) (files []setting.File) {
	for _, name := range names {
		files = append(files, setting.File(filepath.Join(dir, name)))
	}
	return files
}

func ptr[T any](v T) *T { return &v }

// transaction returns a transaction at ResponseBody with this body.
func transaction(contentType, coding string, body []byte) *filter.Transaction {
	t := &filter.Transaction{
		Request:  &message.Request{Method: "GET"},
		Response: &message.Response{Status: 200},
		Body:     new(content.Body),
	}
	if contentType != "" {
		t.Response.Add("Content-Type", contentType)
	}
	t.Body.Reset(content.Describe(contentType, coding), content.Limits{})
	t.Body.Append(body)
	t.Body.Finish()
	return t
}

// find returns the findings for an HTML page.
func find(t testing.TB, c *Check, page string) []filter.Finding {
	t.Helper()
	tr := transaction("text/html; charset=utf-8", "", []byte(page))
	defer tr.Body.Release()
	found, err := c.Find(context.Background(), tr, filter.ResponseBody, nil)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func brief(found []filter.Finding) string {
	var s []string
	for _, f := range found {
		s = append(s, fmt.Sprintf("%s %d", f.Category, f.Score))
	}
	return strings.Join(s, ", ")
}

func TestModernScores(t *testing.T) {
	mode1 := Config{WeightedPhraseMode: ptr(1)}
	for _, c := range []struct {
		name  string
		lists testLists
		cfg   Config
		page  string
		want  string
	}{
		{name: "every occurrence", lists: testLists{weighted: "<sex><10>"}, cfg: mode1, page: "sex sex sex", want: "phrase 30"},
		{name: "once a page", lists: testLists{weighted: "<sex><10>"}, page: "sex sex sex", want: "phrase 10"},
		{name: "nothing at all", lists: testLists{weighted: "<sex><10>", banned: "<bad>"}, cfg: Config{WeightedPhraseMode: ptr(0)}, page: "sex bad", want: ""},
		{name: "letters in a word", lists: testLists{weighted: "<sex><10>\n< sex ><7>\n<*sex*><3>"}, page: "Essex", want: "phrase 3"},
		{name: "word", lists: testLists{weighted: "<sex><10>\n< sex ><7>"}, page: "Essex sex.", want: "phrase 17"},
		{name: "first and last word", lists: testLists{weighted: "< a ><1>\n< z ><2>"}, page: "A b z", want: "phrase 3"},
		{name: "prefix and suffix", lists: testLists{weighted: "< pre><1>\n<fix ><2>\n< fix><4>"}, page: "prefix", want: "phrase 3"},
		{name: "shared blank", lists: testLists{weighted: "< sex ><10>"}, cfg: mode1, page: "x sex sex y", want: "phrase 20"},
		{name: "overlap", lists: testLists{weighted: "<*aa*><10>"}, cfg: mode1, page: "qaaaaq", want: "phrase 30"},
		{name: "one letter", lists: testLists{weighted: "<*a*><1>"}, cfg: mode1, page: "banana", want: "phrase 3"},
		{name: "combination: rarest part", lists: testLists{weighted: "<alpha>,<beta><10>"}, cfg: mode1, page: "alpha beta alpha beta alpha", want: "phrase 20"},
		{name: "combination: once", lists: testLists{weighted: "<alpha>,<beta><10>"}, page: "alpha beta alpha beta", want: "phrase 10"},
		{name: "combination: a part is missing", lists: testLists{weighted: "<alpha>,<beta>,<gamma><10>"}, page: "alpha gamma", want: ""},
		{name: "combination and single", lists: testLists{weighted: "<foo>,<bar><10>\n<foo><3>"}, page: "foo bar", want: "phrase 13"},
		{name: "same part twice", lists: testLists{weighted: "<foo>,<foo><10>"}, page: "foo", want: "phrase 10"},
		{name: "same part twice is no single phrase", lists: testLists{weighted: "<foo>,<foo><10>\n<foo><-20>"}, page: "foo", want: "phrase -10"},
		{name: "negative combination", lists: testLists{weighted: "<breast>,<medical><-30>\n<breast><20>"}, page: "breast medical", want: "phrase -10"},
		{name: "combinations do not wear off", lists: testLists{weighted: "<alpha>,<beta><10>\n<gamma>,<delta><10>"}, cfg: mode1,
			page: "alpha beta" + strings.Repeat(" gamma delta", 5), want: "phrase 60"},
		{name: "category counts once in mode 1", lists: testLists{weighted: "#listcategory: \"Aa\"\n<foo><20>\n#listcategory: \"Bb\"\n<bar><10>"}, cfg: mode1,
			page: "foo foo foo bar bar bar bar", want: "phrase 100, Aa 60, Bb 40"},
		{name: "categories: positive weights, highest first", lists: testLists{weighted: "#listcategory: \"Aa\"\n<a1><20>\n#listcategory: \"Bb\"\n<b1><40>\n#listcategory: \"Cc\"\n<c1><15>\n<c2><15>\n#listcategory: \"Dd\"\n<d1><-5>\n<none>"},
			page: "a1 b1 c1 c2 d1", want: "phrase 85, Bb 40, Cc 30, Aa 20"},
		{name: "sum of nothing keeps its categories", lists: testLists{weighted: "#listcategory: \"Aa\"\n<foo><20>\n<bar><-20>"}, page: "foo bar", want: "Aa 20"},
		{name: "duplicate: higher weight", lists: testLists{weighted: "#listcategory: \"A\"\n<foo><60>\n#listcategory: \"B\"\n<foo><80>"}, page: "foo", want: "phrase 80, B 80"},
		{name: "duplicate: positive over negative", lists: testLists{weighted: "<foo><-60>\n<foo><20>"}, page: "foo", want: "phrase 20"},
		{name: "duplicate: banned over weighted", lists: testLists{weighted: "<foo><20>", banned: "<foo>"}, page: "foo", want: "bannedphrase 0"},
		{name: "duplicate: exception over banned", lists: testLists{banned: "<foo>", exception: "<foo>"}, page: "foo", want: "exceptionphrase 0"},
		{name: "exception stands alone", lists: testLists{weighted: "<x><99>", banned: "<bar>", exception: "<foo>"}, page: "x foo bar", want: "exceptionphrase 0"},
		{name: "banned keeps the score", lists: testLists{banned: "<bar>", exception: "<foo><-7>"}, page: "foo bar", want: "bannedphrase 0, phrase -7"},
		{name: "single exception over banned combination", lists: testLists{banned: "<foo>,<bar>", exception: "<ok>"}, page: "foo bar ok", want: "exceptionphrase 0"},
		{name: "exception combination", lists: testLists{banned: "<foo>", exception: "<foo>,<ok>"}, page: "foo ok", want: "exceptionphrase 0"},
		{name: "percent", lists: testLists{weighted: "<foo><20%>"}, cfg: Config{NaughtynessLimit: 160}, page: "foo", want: "phrase 32"},
		{name: "time is not now", lists: testLists{weighted: "<bar><5>\n#time: 0 0 0 0 0\n<foo><60>"}, page: "foo bar", want: "phrase 5"},
		{name: "time is now", lists: testLists{weighted: "#time: 11 0 13 0 2\n<foo><60>\n<bar><5>"}, page: "foo bar", want: "phrase 65"},
		{name: "same phrase at other times", lists: testLists{weighted: "<foo><5>\n#time: 11 0 13 0 2\n<foo><60>\n#time: 0 0 0 0 0\n<foo><99>"}, page: "foo", want: "phrase 60"},
		{name: "attribute and comment", lists: testLists{weighted: "<sex><10>\n<drugs><5>"}, page: `<img alt="sex"><!-- drugs -->`, want: "phrase 10"},
		{name: "tag in a word", lists: testLists{weighted: "<sex><10>"}, page: "s<b></b>ex", want: "phrase 10"},
		{name: "entities", lists: testLists{weighted: "<sex><10>\n<big bang><3>"}, page: "s&#101;x big&nbsp;bang", want: "phrase 13"},
		{name: "punctuation", lists: testLists{weighted: "<sex toy><12>"}, cfg: mode1, page: "sex-toy sex/toy sex|toy sex’toy", want: "phrase 48"},
		{name: "Cyrillic capitals", lists: testLists{weighted: "<шүүлтүүр><11>"}, page: "ШҮҮЛТҮҮР", want: "phrase 11"},
		{name: "Greek and French", lists: testLists{weighted: "<πορνό><14>\n<café><12>"}, page: "ΠΟΡΝΌ CAFÉ", want: "phrase 26"},
		{name: "Latin-1 list", lists: testLists{weighted: "<caf\xe9><12>"}, page: "café", want: "phrase 12"},
		{name: "Chinese", lists: testLists{weighted: "<色情><13>"}, page: "有色情的", want: "phrase 13"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := find(t, newCheck(t, c.lists, c.cfg), "<html><body>"+c.page+"</body></html>")
			if got := brief(found); got != c.want {
				t.Errorf("found %s, want %s\nevidence %+v", got, c.want, found)
			}
		})
	}
}

// TestCompatScores has examples of the older programs that are not among the test vectors.
func TestCompatScores(t *testing.T) {
	weighted := func(s string) testLists { return testLists{weighted: s} }
	for _, c := range []struct {
		name  string
		lists testLists
		cfg   Config
		page  string
		want  map[string]string // by compat; "" for all others
	}{
		{name: "dot", lists: weighted("<sex><10>\n< sex ><7>"), page: "Essex sex.",
			want: map[string]string{"": "phrase 10", "e2guardian-5.5": "phrase 17"}},
		{name: "dansguardian keeps dashes", lists: weighted("<sex toy><10>\n<sex-toy><5>"), page: "sex-toy",
			want: map[string]string{"dansguardian": "phrase 5", "e2guardian-5.3": "phrase 10", "e2guardian-5.5": "phrase 10"}},
		{name: "two parts mode 1", lists: weighted("<alpha>,<beta><10>\n<gamma>,<delta><10>"), cfg: Config{WeightedPhraseMode: ptr(1)},
			page: "alpha beta" + strings.Repeat(" gamma delta", 5), want: map[string]string{"": "phrase 60"}},
		{name: "passes are not summed", lists: weighted("<porn><60>\n<medical><-30>"), page: `<img alt="medical"> porn`, want: map[string]string{"": "phrase 60"}},
		{name: "raw pass sees attributes and comments", lists: weighted("<sex><10>\n<drugs><5>"), page: `<img alt="sex"><!-- drugs -->`, want: map[string]string{"": "phrase 15"}},
		{name: "smart pass does not", lists: weighted("<sex><10>\n<drugs><5>"), cfg: Config{PhraseFilterMode: ptr(1)}, page: `<img alt="sex"><!-- drugs -->`, want: map[string]string{"": ""}},
		{name: "raw pass alone", lists: weighted("<sex><10>\n<drugs><5>"), cfg: Config{PhraseFilterMode: ptr(0)}, page: `<img alt="sex"><!-- drugs -->`, want: map[string]string{"": "phrase 15"}},
		{name: "head only", lists: weighted("<sex><10>\n<drugs><5>\n<body><1>\n<second><2>"), cfg: Config{PhraseFilterMode: ptr(3)},
			page: `<title>Sex</title><META name=a content="drugs"><meta content="second"></head>body`, want: map[string]string{"": "phrase 17"}},
		{name: "hex off", lists: weighted("<sex><12>"), page: "%73%65x or so", want: map[string]string{"": ""}},
		{name: "hex on", lists: weighted("<sex><12>"), cfg: Config{HexDecodeContent: ptr(true)}, page: "%73%65x or so 100%", want: map[string]string{"": "phrase 12"}},
		{name: "exception too late", lists: testLists{banned: "<bar>", exception: "<foo>"}, page: `<img alt="foo"> bar`, want: map[string]string{"": "bannedphrase 0"}},
		{name: "exception in time", lists: testLists{banned: "<bar>", exception: "<foo>"}, page: `<img alt="bar"> foo`, want: map[string]string{"": "exceptionphrase 0"}},
		{name: "banned in the second pass", lists: testLists{weighted: "<foo><30>", banned: "<bar>"}, page: `<img alt="bar"> foo`, want: map[string]string{"": "bannedphrase 0, phrase 30"}},
		{name: "last character of the page", lists: weighted("<foo><3>"), cfg: Config{PhraseFilterMode: ptr(1)}, page: "foo", want: map[string]string{"": "phrase 3"}},
		{name: "case kept", lists: weighted("#noconvert\n<Foo><3>\n<bar><4>"), cfg: Config{PreserveCase: ptr(1)}, page: "Foo BAR", want: map[string]string{"": "phrase 3"}},
		{name: "windows-1251", lists: weighted("<\xf1\xe5\xea\xf1><3>"), page: "\xd1\xc5\xca\xd1", want: map[string]string{"": "phrase 3"}},
		{name: "Cyrillic UTF-8", lists: weighted("<шүүлтүүр><11>"), page: "ШҮҮЛТҮҮР", want: map[string]string{"": "phrase 11"}},
	} {
		for _, compat := range []string{"dansguardian", "e2guardian-5.3", "e2guardian-5.5"} {
			t.Run(c.name+"/"+compat, func(t *testing.T) {
				cfg := c.cfg
				cfg.Compat = compat
				want, ok := c.want[compat]
				if !ok {
					want = c.want[""]
				}
				if got := brief(scanPage(t, newCheck(t, c.lists, cfg), []byte(c.page))); got != want {
					t.Errorf("found %s, want %s", got, want)
				}
			})
		}
	}
}

func TestEvidenceNamesPhraseWeightAndLine(t *testing.T) {
	l := testLists{
		weighted: "#listcategory: \"Toys\"\n<sex toy><10>\n<cheap>,<shop><20>\n<school><-5>\n",
		banned:   "\n<forbidden>,<word>\n",
	}
	c := newCheck(t, l, Config{WeightedPhraseMode: ptr(1)})
	got := find(t, c, "Sex-Toy sex toy cheap shop, no school; forbidden word")
	want := []filter.Finding{
		{Check: "phrase", Category: "bannedphrase", Evidence: "<forbidden>,<word> b:2"},
		{Check: "phrase", Category: "phrase", Score: 35, Evidence: "<sex toy> 20 = 2 × 10 w:2; <cheap>,<shop> 20 w:3; <school> -5 w:4"},
		{Check: "phrase", Category: "Toys", Score: 40, Evidence: "<sex toy> 20 = 2 × 10 w:2; <cheap>,<shop> 20 w:3"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %+v\nwant  %+v", got, want)
	}
}

func TestEvidenceIsShortUnlessFull(t *testing.T) {
	var list, page strings.Builder
	for i := range 30 {
		fmt.Fprintf(&list, "<word%02d><%d>\n", i, i+1)
		fmt.Fprintf(&page, "word%02d ", i)
	}
	short := find(t, newCheck(t, testLists{weighted: list.String()}, Config{}), page.String())[0].Evidence
	if got := strings.Count(short, "; "); got != topOfTotal || !strings.HasPrefix(short, "<word29> 30 w:30; ") || !strings.HasSuffix(short, "; and 22 more") {
		t.Errorf("the short evidence is %q", short)
	}
	full := find(t, newCheck(t, testLists{weighted: list.String()}, Config{Full: true}), page.String())[0].Evidence
	if got := strings.Count(full, "; "); got != 29 {
		t.Errorf("full evidence has %d parts, want 30: %q", got+1, full)
	}
}

func TestWants(t *testing.T) {
	modern := newCheck(t, testLists{weighted: "<x><1>"}, Config{})
	compat := newCheck(t, testLists{weighted: "<x><1>"}, Config{Compat: "e2guardian-5.3"})
	for _, c := range []struct {
		ct             string
		status         int
		method         string
		modern, compat bool
		dest           string
	}{
		{"text/html", 200, "GET", true, true, "empty"},
		{"TEXT/HTML ; charset=x", 200, "GET", true, true, "image"},
		{"", 200, "GET", true, true, "image"},
		{"text/plain", 404, "GET", true, true, "image"},
		{"text/html", 206, "GET", true, true, "image"},
		{"application/xhtml+xml", 200, "GET", true, false, "image"},
		{"application/json", 200, "POST", true, false, "image"},
		{"application/problem+json", 500, "GET", true, false, "image"},
		{"application/atom+xml", 200, "GET", true, false, "image"},
		{"text/xml", 200, "GET", true, true, "image"},
		{"text/css", 200, "GET", true, true, "image"},
		{"text/javascript", 200, "GET", false, true, "image"},
		{"application/javascript", 200, "GET", false, false, "image"},
		{"text/event-stream", 200, "GET", true, false, "image"},
		{"image/svg+xml", 200, "GET", true, false, "image"},
		{"image/png", 200, "GET", false, false, "image"},
		{"application/octet-stream", 200, "GET", false, false, "image"},
		{"text/html", 304, "GET", false, false, "image"},
		{"text/html", 204, "GET", false, false, "image"},
		{"text/html", 100, "GET", false, false, "image"},
		{"text/html", 200, "HEAD", false, false, "image"},
		{"image/png", 200, "GET", true, false, "empty"},
		{"video/mp4", 200, "GET", true, false, "empty"},
		{"application/octet-stream", 200, "GET", true, false, "empty"},
		{"text/javascript", 200, "GET", true, true, "empty"},
		{"image/png", 200, "GET", true, false, ""},
		{"text/javascript", 200, "GET", true, true, ""},
	} {
		tr := transaction(c.ct, "", nil)
		tr.Response.Status, tr.Request.Method = c.status, c.method
		tr.Request.Add("Sec-Fetch-Dest", c.dest)
		if got := modern.Wants(tr, filter.ResponseBody); got != c.modern {
			t.Errorf("modern: Wants for %s %q with status %d returned %v", c.method, c.ct, c.status, got)
		}
		if got := compat.Wants(tr, filter.ResponseBody); got != c.compat {
			t.Errorf("compat: Wants for %s %q with status %d returned %v", c.method, c.ct, c.status, got)
		}
	}
	tr := transaction("text/html", "", nil)
	tr.Request.Length = message.None
	for _, s := range []filter.Stage{filter.Name, filter.Request, filter.RequestBody, filter.Response} {
		if modern.Wants(tr, s) {
			t.Errorf("Wants returned true at stage %v", s)
		}
	}
	off := newCheck(t, testLists{weighted: "<x><1>"}, Config{WeightedPhraseMode: ptr(0)})
	if off.Wants(tr, filter.ResponseBody) {
		t.Error("with weightedphrasemode 0, Wants returned true for a body")
	}
	none, err := New(Config{}, t.TempDir(), noon)
	if err != nil {
		t.Fatal(err)
	}
	if none.Wants(tr, filter.ResponseBody) {
		t.Error("without phrases, Wants returned true for a body")
	}
}

func TestCategories(t *testing.T) {
	c := newCheck(t, testLists{weighted: "#listcategory: \"B\"\n<x><1>\n#listcategory: \"A\"\n<y><1>\n#listcategory: \"B\"\n"}, Config{})
	got := c.Categories()
	want := []filter.Category{{Name: "phrase", Scored: true}, {Name: "bannedphrase"}, {Name: "exceptionphrase"}, {Name: "B", Scored: true}, {Name: "A", Scored: true}}
	if !slices.Equal(got, want) {
		t.Errorf("the categories are %v, want %v", got, want)
	}
}

func zipped(t testing.TB, p []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(p); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFindLooksIntoCodedBodies(t *testing.T) {
	for _, compat := range []string{"modern", "e2guardian-5.5"} {
		c := newCheck(t, testLists{weighted: "<sex toy><10>"}, Config{Compat: compat})
		tr := transaction("text/html", "gzip", zipped(t, []byte("<p>Sex-toy</p>")))
		found, err := c.Find(context.Background(), tr, filter.ResponseBody, nil)
		if err != nil || brief(found) != "phrase 10" {
			t.Errorf("%s: found %s, %v; want phrase 10", compat, brief(found), err)
		}
		tr.Body.Release()
	}
}

func TestFindJudgesTheBeginningOfABrokenBody(t *testing.T) {
	bomb := zipped(t, append([]byte("<p>Sex-toy</p>"), bytes.Repeat([]byte(" "), 24<<20)...))
	whole := zipped(t, []byte("<p>Sex-toy "+strings.Repeat("and more of it 0123456789 ", 1000)))
	for _, c := range []struct {
		name     string
		body     []byte
		why      string
		category string
	}{
		{"bomb", bomb, "decompression bomb: inspected ", "unread-bomb"},
		{"cut off", whole[:len(whole)-20], "cut: inspected ", "unread-damaged"},
	} {
		for _, compat := range []string{"modern", "e2guardian-5.5"} {
			check := newCheck(t, testLists{weighted: "<sex toy><10>"}, Config{Compat: compat})
			tr := transaction("text/html", "gzip", c.body)
			found, err := check.Find(context.Background(), tr, filter.ResponseBody, nil)
			if err != nil || brief(found) != "phrase 10, "+c.category+" 0" || !strings.HasPrefix(found[1].Evidence, c.why) {
				t.Errorf("%s, %s: found %+v, %v; want phrase 10 and unread", c.name, compat, found, err)
			}
			tr.Body.Release()
		}
	}
}

func TestFindLeavesOtherBodiesAlone(t *testing.T) {
	c := newCheck(t, testLists{weighted: "<sex><10>"}, Config{})
	png := transaction("", "", []byte("\x89PNG\r\n\x1a\n sex sex"))
	text := transaction("", "", []byte("just words about sex"))
	for _, x := range []struct {
		name  string
		tr    *filter.Transaction
		stage filter.Stage
		want  string
	}{
		{"picture without a type", png, filter.ResponseBody, ""},
		{"text without a type", text, filter.ResponseBody, "phrase 10"},
		{"other stage", text, filter.Response, ""},
		{"no body", &filter.Transaction{}, filter.ResponseBody, ""},
	} {
		found, err := c.Find(context.Background(), x.tr, x.stage, nil)
		if err != nil || brief(found) != x.want {
			t.Errorf("%s: found %q, %v; want %q", x.name, brief(found), err, x.want)
		}
	}
}

func TestFindStopsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, compat := range []string{"modern", "dansguardian"} {
		c := newCheck(t, testLists{weighted: "<sex><10>"}, Config{Compat: compat})
		tr := transaction("text/html", "", []byte("sex"))
		if found, err := c.Find(ctx, tr, filter.ResponseBody, nil); !errors.Is(err, context.Canceled) || len(found) > 0 {
			t.Errorf("%s: got %v, %v; want nothing and context.Canceled", compat, found, err)
		}
	}
}

func TestPhrasesAcrossStepsAreFound(t *testing.T) {
	filler := strings.Repeat("filler ", 3*step/7)
	for _, compat := range []string{"modern", "dansguardian", "e2guardian-5.5"} {
		c := newCheck(t, testLists{weighted: "<a needle here><1>"}, Config{Compat: compat, WeightedPhraseMode: ptr(1)})
		for at := step - 20; at < step+20; at += 3 {
			page := []byte(filler)
			copy(page[at:], " a needle here ")
			if found := find(t, c, string(page)); brief(found) != "phrase 1" {
				t.Fatalf("%s: with the phrase at byte %d, found %q", compat, at, brief(found))
			}
		}
	}
}

func TestViewIsTheSameInPieces(t *testing.T) {
	page := []byte("<html>Ünï \xe9\xc9 \xd0 a  b\r\n<b>c</b><!-- d > e --> f <i g\n> ШҮ 100% & <x")
	for _, compat := range []string{"dansguardian", "e2guardian-5.3", "e2guardian-5.5"} {
		for _, p := range []pass{{}, {fold: true}, {smart: true}, {fold: true, smart: true}} {
			whole := newDialect(compat).view(p, page)
			want := whole.next(make([]byte, 0, 1000))
			pieces := newDialect(compat).view(p, page)
			var got []byte
			for {
				piece := pieces.next(make([]byte, 0, 8))
				if len(piece) == 0 {
					break
				}
				got = append(got, piece...)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s: the view of %+v is %q, want %q", compat, p, got, want)
			}
		}
	}
}

func TestFindAllocatesNothingForAHarmlessPage(t *testing.T) {
	if race.On {
		t.Skip("the race detector makes sync.Pool forget at random")
	}
	c := newCheck(t, testLists{weighted: "<sex><10>\n<drugs>,<cheap><20>"}, Config{})
	tr := transaction("text/html", "", []byte("<p>nothing of interest, and drugs</p>"))
	defer tr.Body.Release()
	ctx := context.Background()
	dst := make([]filter.Finding, 0, 8)
	if _, err := c.Find(ctx, tr, filter.ResponseBody, dst); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = c.Find(ctx, tr, filter.ResponseBody, dst) }); n > 0 {
		t.Errorf("Find allocates %v times, want 0", n)
	}
}

func TestCheckIsSafeForManyGoroutines(t *testing.T) {
	c := newCheck(t, testLists{weighted: "<sex><10>\n<toy>,<shop><20>"}, Config{})
	done := make(chan string)
	for i := range 8 {
		go func() {
			got := ""
			for range 50 {
				page := strings.Repeat("words ", i*100) + "a sex toy shop"
				tr := transaction("text/html", "", []byte(page))
				found, err := c.Find(context.Background(), tr, filter.ResponseBody, nil)
				if got = brief(found); err != nil || got != "phrase 30" {
					break
				}
				tr.Body.Release()
			}
			done <- got
		}()
	}
	for range 8 {
		if got := <-done; got != "phrase 30" {
			t.Errorf("a concurrent Find found %q, want phrase 30", got)
		}
	}
}

func FuzzScore(f *testing.F) {
	f.Add([]byte("<sex>,<toy><10>\n<a><-5>\n<b>"), []byte("<html>a sex%20toy<!-- b --></html>"), uint16(0))
	f.Add([]byte("#noconvert\n<\xe9><1>\n<é><2>"), []byte("<title>\xc9 É</title><meta content=x></head>"), uint16(0x7ff))
	f.Fuzz(func(t *testing.T, list, page []byte, bits uint16) {
		compat := []string{"modern", "dansguardian", "e2guardian-5.3", "e2guardian-5.5"}[bits&3]
		cfg := Config{Compat: compat, WeightedPhraseMode: ptr(1 + int(bits>>2&1))}
		if compat != "modern" {
			cfg.PhraseFilterMode = ptr(int(bits >> 3 & 3))
			cfg.PreserveCase = ptr(int(bits>>5&3) % 3)
			cfg.HexDecodeContent = ptr(bits>>7&1 == 1)
		}
		c := &Check{now: noon}
		if err := c.configure(cfg); err != nil {
			t.Fatal(err)
		}
		r := c.reader("/lists")
		r.open = files{"/lists/w": string(list)}.open
		if err := r.read("/lists/w", section{kind: kind(bits >> 8 & 3 % 3)}, nil); err != nil {
			return
		}
		var err error
		if c.book, err = compile(&r.lists); err != nil {
			t.Fatal(err)
		}
		c.scans.New = func() any { return c.newScan() }
		tr := transaction("text/html", "", page)
		defer tr.Body.Release()
		found, err := c.Find(context.Background(), tr, filter.ResponseBody, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range found {
			if x.Evidence == "" || x.Check != "phrase" || x.Category == "" {
				t.Fatalf("the finding lacks its check, category or evidence: %+v", x)
			}
		}
	})
}

// plainView computes a view character by character, for ASCII.
func plainView(d *dialect, p pass, page string) string {
	var out []byte
	tag := false
	if p.smart {
		out = append(out, ' ')
	}
	for i := range len(page) {
		c := page[i]
		if p.fold && 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		tag = tag && c != '>' || p.smart && c == '<'
		if tag {
			continue
		}
		if d.blank[c] || c == '<' || c == '>' {
			c = ' '
		}
		if !p.smart || c != ' ' || out[len(out)-1] != ' ' {
			out = append(out, c)
		}
	}
	return string(out)
}

func TestViewAgreesWithItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDialect(rapid.SampledFrom([]string{"dansguardian", "e2guardian-5.3", "e2guardian-5.5"}).Draw(t, "compat"))
		p := pass{fold: rapid.Bool().Draw(t, "fold"), smart: rapid.Bool().Draw(t, "smart")}
		page := string(rapid.SliceOf(rapid.SampledFrom([]byte("aAzZ <>  \n\t\x00./=@_`|~-0"))).Draw(t, "page"))
		v := d.view(p, []byte(page))
		size := rapid.IntRange(6, 40).Draw(t, "size")
		var got []byte
		for {
			piece := v.next(make([]byte, 0, size))
			if len(piece) == 0 {
				break
			}
			got = append(got, piece...)
		}
		if want := plainView(d, p, page); string(got) != want {
			t.Fatalf("the view %+v of %q is %q, want %q", p, page, got, want)
		}
	})
}
