package list

import (
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
