package text

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

func TestEveryLanguageHasEveryText(t *testing.T) {
	s, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`\{\w+\}`)
	var langs []string
	for _, l := range s.All() {
		langs = append(langs, l.Lang)
		for key, source := range l.in.of {
			text := l.of[key]
			if text == "" {
				t.Errorf("%s: no text for %q", l.Lang, key)
			}
			for _, n := range names.FindAllString(text, -1) {
				if !slices.Contains(names.FindAllString(source, -1), n) {
					t.Errorf("%s: %q has %s, which the English text has not", l.Lang, key, n)
				}
			}
		}
		for key := range l.of {
			if _, ok := l.in.of[key]; !ok {
				t.Errorf("%s: %q is not a key of English", l.Lang, key)
			}
		}
	}
	slices.Sort(langs)
	if want := []string{"de", "en", "es", "fr", "kk", "mn", "ru", "tr", "uz-Cyrl", "uz-Latn"}; !slices.Equal(langs, want) {
		t.Errorf("languages %v, want %v", langs, want)
	}
}

func TestAcceptLanguageChooses(t *testing.T) {
	s, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	for accept, want := range map[string]string{
		"": "en", "xx": "en", "ja": "en", "*": "en", "mn-MN,mn;q=0.9,en;q=0.5": "mn", "uz": "uz-Latn", "uz-UZ": "uz-Latn",
		"uz-Cyrl-UZ": "uz-Cyrl", "de-AT,de;q=0.9": "de", "es-419": "es", "zh,ru;q=0.8": "ru", ";;;": "en",
	} {
		if got := s.For(accept).Lang; got != want {
			t.Errorf("%q: %s, want %s", accept, got, want)
		}
	}
}

func TestFolderAddsALanguageWrittenFromTheRight(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ar.txt"), []byte("# Arabic\nblock.title = هذه الصفحة محجوبة\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := New(dir)
	if err != nil {
		t.Fatal(err)
	}
	ar := s.For("ar-EG")
	if ar.Dir != "rtl" || ar.Say("block.title") != "هذه الصفحة محجوبة" || ar.Say("address") != "Address" {
		t.Errorf("%s %s %q %q", ar.Lang, ar.Dir, ar.Say("block.title"), ar.Say("address"))
	}
	if err := os.WriteFile(filepath.Join(dir, "ar.txt"), []byte("block.title\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(dir); err == nil {
		t.Error("a line without text is taken")
	}
}
