package width

import (
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/publicsuffix"

	"shuultuur/lib/literal"
)

// TestShortPatternsAreTooWide: patterns of fewer than three characters, and those that occur in nearly all
// addresses, or in those of a row, are refused.
func TestShortPatternsAreTooWide(t *testing.T) {
	for pattern, want := range map[string]bool{
		"": true, "*": true, "a": true, "ad": true, "/a": true, "^ad^": true, "|ad|": true, "a*b": true, "ab*cd*e": true, "**": true,
		"ads": false, "/ad": false, "-ad-": false, "a*bcd": false, "^ads^": false,
		"http": true, "://": true, "https://": true, "www": true, "www.": true, "https://www.example": false, ".com": true, ".co.uk/": true, ".coma": false, "casino": false, ".casino/": true, ".ads": false,
	} {
		if got := Pattern([]byte(pattern), func(s string) bool { return strings.Contains("https://"+s, pattern) }); got != want {
			t.Errorf("Pattern(%q) = %v, want %v", pattern, got, want)
		}
	}
}

// TestExpressionsAreJudgedByWhatTheyMatch: not by how they are written.
func TestExpressionsAreJudgedByWhatTheyMatch(t *testing.T) {
	for text, want := range map[string]bool{
		".": true, "^[a-z]": true, "\\.com$": true, "[.]c[o]m(/|$)": true, "^[a-z0-9-]+\\.(net|org)": true, "\\.bet$": true, "\\.(tk|ml|casino)(/|$)": true, "^www\\.": true,
		"casino": false, "(^|[-./])ads": false, "shop": false, "(bet|poker)[0-9]+\\.com": false, "^ads\\.": false, "google\\.com$": false, "\\.com/ads/": false, "^www\\.[a-z]+-bet\\.": false,
	} {
		if got := Matches([]byte(text), literal.Required(text), regexp.MustCompile(text).MatchString); got != want {
			t.Errorf("Matches(%q) = %v, want %v", text, got, want)
		}
	}
}

// TestSuffixesAreFoundByWhoOwnsTheirNames: those where anybody may register are too wide; those of
// hosters, offices, schools and trades cover the names of many, and true lists name them.
func TestSuffixesAreFoundByWhoOwnsTheirNames(t *testing.T) {
	f := NewSuffixes()
	for name, want := range map[string][2]bool{
		"com": {true, false}, "uk": {true, false}, "xn--p1ai": {true, false}, "co.uk": {true, false}, "com.br": {true, false}, "co.jp": {true, false}, "or.jp": {true, false},
		"github.io": {false, true}, "blogspot.com": {false, true}, "pages.dev": {false, true}, "herokuapp.com": {false, true}, "co.com": {false, true},
		"gov.uk": {false, true}, "ac.jp": {false, true}, "bet.br": {false, true}, "net.kg": {false, true}, "cci.fr": {false, true}, "s3.amazonaws.com": {false, true},
		"example.com": {}, "example.co.uk": {}, "a.github.io": {}, "192.0.2.10": {}, "192.0.2.1": {}, "2001:db8::1": {}, "localhost": {}, "": {}, "co.example": {}, "com.np": {true, false}, "co.ck": {true, false}, "www.np": {false, true}, "a.b.np": {},
	} {
		public, shared := f.Find([]byte(name))
		if got := [2]bool{public, shared}; got != want {
			t.Errorf("%q: public and shared are %v, want %v", name, got, want)
		}
	}
}

// TestSuffixesAreThoseOfTheLibrary: after an update of the library, take those out that it no longer has.
func TestSuffixesAreThoseOfTheLibrary(t *testing.T) {
	f := NewSuffixes()
	for name := range strings.Lines(suffixes) {
		name = strings.TrimSuffix(name, "\n")
		if suffix, _ := publicsuffix.PublicSuffix(name); suffix != name {
			t.Errorf("%s is no suffix", name)
		}
		if public, shared := f.Find([]byte(name)); !public && !shared {
			t.Errorf("%s is not found", name)
		}
	}
}
