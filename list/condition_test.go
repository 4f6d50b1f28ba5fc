package list

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/lib/setting"
)

// TestBlocksForOtherProgramsAreNotUsed: what stands between !#if and !#endif counts only if it is for
// us, and a condition that is wrong is reported, as is a list that another one names.
func TestBlocksForOtherProgramsAreNotUsed(t *testing.T) {
	deep := strings.Repeat("(", 1<<16)
	for name, c := range map[string]struct{ text, want, remark string }{
		"a browser":                     {"!#if env_firefox\n||a.example^\n!#endif\n||b.example^", "b", "1 rules for other programs are not used"},
		"not a browser":                 {"!#if !env_firefox\n||a.example^\n!#endif\n||b.example^", "a b", ""},
		"never":                         {"!#if false\n||a.example^\n!#endif", "", "1 rules for other programs"},
		"always":                        {"!#if true\n||a.example^\n!#endif", "a", ""},
		"otherwise":                     {"!#if adguard\n||a.example^\n!#else\n||b.example^\n!#endif\n||c.example^", "b c", "1 rules for other programs"},
		"otherwise, of what holds":      {"!#if !adguard\n||a.example^\n!#else\n||b.example^\n!#endif", "a", "1 rules for other programs"},
		"and":                           {"!#if !ext_ublock && env_mobile\n||a.example^\n!#endif", "", "other programs"},
		"or":                            {"!#if env_mobile||!ext_ublock\n||a.example^\n!#endif", "a", ""},
		"and before or":                 {"!#if true || true && false\n||a.example^\n!#endif", "a", ""},
		"parentheses":                   {"!#if (true || true) && !(false || !true)\n||a.example^\n!#endif", "a", ""},
		"within another, which is not":  {"!#if false\n!#if true\n||a.example^\n!#else\n||b.example^\n!#endif\n!#endif\n||c.example^", "c", "2 rules for other programs"},
		"within another":                {"!#if true\n!#if false\n||a.example^\n!#else\n||b.example^\n!#endif\n||c.example^\n!#endif", "b c", "1 rules for other programs"},
		"without a condition":           {"!#if\n||a.example^\n!#endif\n||b.example^", "b", "cannot be read"},
		"half a condition":              {"!#if true &&\n||a.example^\n!#endif\n||b.example^", "b", "cannot be read"},
		"a parenthesis too many":        {"!#if true)\n||a.example^\n!#endif\n||b.example^", "b", "cannot be read"},
		"a number":                      {"!#if 1\n||a.example^\n!#endif\n||b.example^", "b", "cannot be read"},
		"too deep":                      {"!#if " + deep[:8000] + "true" + strings.Repeat(")", 8000) + "\n||a.example^\n!#endif\n||b.example^", "b", "cannot be read"},
		"too many negations":            {"!#if " + strings.Repeat("!", 8000) + "true\n||a.example^\n!#endif\n||b.example^", "b", "cannot be read"},
		"no end":                        {"||b.example^\n!#if false\n||a.example^", "b", "has no !#endif"},
		"an end too many":               {"!#endif\n||b.example^", "b", "belongs to no !#if"},
		"otherwise without a condition": {"!#else\n||b.example^", "b", "belongs to no !#if"},
		"otherwise twice":               {"!#if true\n||a.example^\n!#else\n!#else\n||b.example^\n!#endif", "a", "belongs to no !#if"},
		"another list":                  {"!#include more.txt\n||b.example^", "b", "names another list"},
		"another list for others":       {"!#if false\n!#include more.txt\n!#endif\n||b.example^", "b", "other programs"},
		"a remark":                      {"!#safari_cb_affinity(all)\n! a remark\n||b.example^", "b", ""},
	} {
		file := filepath.Join(t.TempDir(), "list")
		if err := os.WriteFile(file, []byte(c.text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Compile(t.Context(), "x", Config{Format: Adblock, Path: setting.Source(file), Fetched: true}, file+".list")
		if err != nil {
			t.Fatal(err)
		}
		f, err := Open(file + ".list")
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, name := range []string{"a", "b", "c"} {
			if hits, err := f.Ask(name + ".example"); err != nil {
				t.Fatal(err)
			} else if len(hits) > 0 {
				found = append(found, name)
			}
		}
		f.Close()
		var said strings.Builder
		for _, p := range r.Problems {
			said.WriteString(p.String() + "\n")
		}
		if got := strings.Join(found, " "); got != c.want || !strings.Contains(said.String(), c.remark) || c.remark == "" && said.Len() > 0 {
			t.Errorf("%s: %q is used, want %q; said %q, want %q", name, got, c.want, said.String(), c.remark)
		}
	}
}

// TestAListOfOnesOwnIncludesFilesBesideIt: in blocks that hold, in a few depths, each once; what is not
// included is reported, and a file that changes, comes or goes is noticed.
func TestAListOfOnesOwnIncludesFilesBesideIt(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, "own", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("../secret", "||secret.example^\n")
	put("list", "! mine\n||a.example^\n!#include b\n!#if env_firefox\n!#include firefox\n!#endif\n!#if !env_firefox\n!#include sub/c\n!#endif\n!#include ../secret\n!#include list\n!#include late\n!#include https://lists.example/d\n")
	put("b", "\ufeff||b.example^\n!#include sub/c\n!#if false")
	put("firefox", "||firefox.example^\n")
	put("sub/c", "||c.example^\n!#include ../b\n!#include deep1\n")
	for i := range 20 {
		put(fmt.Sprintf("sub/deep%d", i), fmt.Sprintf("||deep%d.example^\n!#include deep%d\n", i, i+1))
	}
	names := "a b c firefox secret late deep1 deep9 deep10"
	compiled := func(format FormatName) (Report, string) {
		t.Helper()
		dst := filepath.Join(dir, string(format)+".list")
		r, err := Compile(t.Context(), "x", Config{Format: format, Path: setting.Source(filepath.Join(dir, "own", "list"))}, dst)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Open(dst)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var found []string
		for _, name := range strings.Fields(names) {
			if hits, err := f.Ask(name + ".example"); err != nil {
				t.Fatal(err)
			} else if len(hits) > 0 {
				found = append(found, name)
			}
		}
		return r, strings.Join(found, " ")
	}
	for _, format := range []FormatName{Adblock, Auto} {
		os.Remove(filepath.Join(dir, "own", "late"))
		r, got := compiled(format)
		if want := "a b c deep1 deep9"; got != want {
			t.Errorf("%s: %q is read, want %q", format, got, want)
		}
		said := fmt.Sprint(r.Problems)
		for _, want := range []string{"own/list:10: \"../secret\" is not included: it lies outside", "own/list:11: \"list\" is already included", "own/list:12: \"late\" cannot be included", "own/list:13: \"https://lists.example/d\" cannot", "is not included: there are too many includes", "has no !#endif"} {
			if !strings.Contains(said, want) {
				t.Errorf("%s: %s lacks %s", format, said, want)
			}
		}
		if r, _ := compiled(format); !r.Reused {
			t.Errorf("%s: a list of which nothing has changed is made anew", format)
		}
		put("late", "||late.example^\n")
		if r, got := compiled(format); r.Reused || !strings.Contains(got, "late") {
			t.Errorf("%s: a file that has come is not noticed: %q", format, got)
		}
		put("late", "||a.example^\n||too.late.example^\n")
		if r, got := compiled(format); r.Reused || strings.Contains(got, "late") {
			t.Errorf("%s: a file that has changed is not noticed: %q", format, got)
		}
		os.Remove(filepath.Join(dir, "own", "late"))
		if r, _ := compiled(format); r.Reused {
			t.Errorf("%s: a file that has gone is not noticed", format)
		}
	}
}

// TestAnIncludeOfAFormatThatIsGuessedIsReported: the format says how the file is read.
func TestAnIncludeOfAFormatThatIsGuessedIsReported(t *testing.T) {
	_, r := compileText(t, Config{}, "a.example\n.Include<more>\n")
	if r.Bad != 1 || !strings.Contains(fmt.Sprint(r.Problems), "name the format") {
		t.Errorf("said %v", r.Problems)
	}
}
