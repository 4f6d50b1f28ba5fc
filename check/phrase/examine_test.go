package phrase

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"shuultuur/content"
	"shuultuur/lib/setting"
)

func TestLintNamesLinesThatDoNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/w", []byte(`<casino><60>
<casino><20>
<rock &amp; roll><10>
<free%20pills><10>
< good ><10>
<caf&eacute;>,<bar><10>
#language uz
<qimor><40>
<qimorlar o'yini><40>
#language none
<{казино}><15>
<poker><5>
<strip & tease><7>
`))
	write(t, dir+"/b", []byte("<poker>\n"))
	remarks, err := Lint(Config{Weighted: paths(dir + "/w"), Banned: paths(dir + "/b")}, dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range remarks {
		got = append(got, r.String())
	}
	want := []string{
		`w:2: the same phrase is weighted with 60 in w:1`,
		`w:3: phrase "rock &amp; roll" never matches: on a page its text is "rock roll"; write <rock roll>`,
		`w:6: phrase "caf&eacute;" never matches: on a page its text is "café"; write <café>`,
		`w:12: the same phrase is banned in b:1, so the line has no effect`,
	}
	if len(got) != len(want) {
		t.Fatalf("Lint returned %d remarks, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("got the remark %s\nwant %s", got[i], want[i])
		}
	}
}

func TestNoLineOfTheStarterListsIsUseless(t *testing.T) {
	for _, name := range []string{"gambling", "drugs", "weapons", "selfharm", "proxies"} {
		remarks, err := Lint(Config{Weighted: paths("starter/" + name + ".list")}, ".")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range remarks {
			t.Error(r)
		}
	}
}

func TestMatchesNameEveryLine(t *testing.T) {
	c := newCheck(t, testLists{weighted: "#listcategory: \"g\"\n<casino><60>\n<poker>,<club><-5>\n#language uz\n<qimor><40>\n", banned: "<roulette>\n", exception: "<charity>\n"}, Config{WeightedPhraseMode: ptr(1)})
	var b content.Body
	b.Reset(content.Describe("text/html", ""), content.Limits{})
	defer b.Release()
	b.Append([]byte("<html lang=uz>casino c4sino poker club roulette charity qimorlar"))
	b.Finish()
	all, err := c.Matches(context.Background(), &b, true)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		got = append(got, fmt.Sprintf("%s:%d %s %s %s %d %d", m.File, m.Line, m.Kind, m.Text, m.Category, m.Count, m.Score))
	}
	want := "b:1 banned <roulette>  1 0; e:1 exception <charity>  1 0; w:2 weighted <casino> g 2 120; w:3 weighted <poker>,<club> g 1 -5; w:5 weighted <{qimor}: qimorlar> g 1 40"
	if s := strings.Join(got, "; "); s != want {
		t.Errorf("Matches returned %s\nwant %s", s, want)
	}
}

func paths(names ...string) (files []setting.File) {
	for _, n := range names {
		files = append(files, setting.File(n))
	}
	return files
}
