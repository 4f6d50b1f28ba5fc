package list

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"shuultuur/lib/setting"
)

func TestExamineNamesEveryLineOfNoUse(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  Config
		text string
		want string
	}{
		"domains": {Config{Format: Domains}, "a.com\nwww.a.com\nb.com/x\nb.com/x/y\nb.com/xy\na.com\nnot a name\nc.com\n", `
1 twice 6: "a.com" is already in line 1
1 bad 7: "not a name" is not a domain name
2 shadowed 2: "www.a.com" is covered by "a.com":1
2 shadowed 4: "b.com/x/y" is covered by "b.com/x":3`},
		"exceptions": {Config{Format: Adblock}, "||a.com^\n@@||good.a.com^\n@@||very.good.a.com^\n@@||b.com^\n", `
1 shadowed 3: "very.good.a.com" is covered by "good.a.com":2
1 void 4: "b.com" is an exception from the category "one", which does not contain it in this list`},
		"allows": {Config{Format: Adblock}, "@@||a.com^\n@@||b.com^\n", ""},
		"hosts":  {Config{Format: Hosts}, "0.0.0.0 a.com\n0.0.0.0 www.a.com\n", ""},
	} {
		cfg := tt.cfg
		cfg.Path = setting.Source(filepath.Join(t.TempDir(), "one.txt"))
		if err := os.WriteFile(string(cfg.Path), []byte(tt.text), 0o644); err != nil {
			t.Fatal(err)
		}
		l, err := Examine(t.Context(), "one", cfg)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, kind := range []struct {
			name  string
			n     int
			found []Problem
		}{{"twice", l.Duplicates, l.Twice}, {"bad", l.Bad, l.Problems}, {"shadowed", l.Shadows, l.Shadowed}, {"void", l.Voids, l.Void}} {
			for _, p := range kind.found {
				fmt.Fprintf(&got, "\n%d %s %d: %s", kind.n, kind.name, p.Line, strings.ReplaceAll(p.Reason, " in "+string(cfg.Path), ""))
			}
		}
		if d := cmp.Diff(strings.Split(tt.want, "\n"), strings.Split(got.String(), "\n")); d != "" {
			t.Errorf("%s: remarks differ (-want +got): %s", name, d)
		}
		if n := len(l.All()); n != len(l.Problems)+len(l.Twice)+len(l.Shadowed)+len(l.Void) {
			t.Errorf("%s: All has %d problems, not the sum of its parts", name, n)
		}
	}
}

func TestTextsAreWhatIsMoreThanAHost(t *testing.T) {
	f, _ := compileText(t, Config{Format: Adblock}, "||a.com^\n||b.com/x$script\n/ads/*$image\n")
	var got []string
	if err := f.Texts(func(s string) bool { got = append(got, s); return true }); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"||b.com/x$script", "/ads/*$image"}, got); d != "" {
		t.Errorf("texts of rules differ (-want +got):\n%s", d)
	}
	f, _ = compileText(t, Config{Format: Networks}, "10.0.0.0/8\n2001:db8::/32\n")
	got = nil
	if err := f.Texts(func(s string) bool { got = append(got, s); return len(got) < 2 }); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"10.0.0.0/8", "2001:db8::/32"}, got); d != "" {
		t.Errorf("texts of networks differ (-want +got):\n%s", d)
	}
}
