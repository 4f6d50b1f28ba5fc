package literal

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRequiredTexts(t *testing.T) {
	for in, want := range map[string][]string{
		`porn`:                         {"porn"},
		`(?i)PORN|pOsh`:                {"porn", "posh"},
		`(^|[-./])(adult|sex)(/|$)`:    {"-adult", "-adult/", "-sex", "-sex/", "./"},
		`a.*bcd[0-9]efgh+`:             nil,
		`x*`:                           nil,
		`ab|.*`:                        nil,
		`(?i)(abc){2,}`:                nil,
		`\x{431}\x{43e}lonG\x{43e}xyz`: nil,
	} {
		got := Required(in)
		switch in {
		case `(^|[-./])(adult|sex)(/|$)`:
			if !slices.Contains(got, "sex") && shortest(got) < 3 {
				t.Errorf("Required(%s) = %q, want longer texts", in, got)
			}
		case `a.*bcd[0-9]efgh+`:
			if len(got) == 0 || shortest(got) < 3 {
				t.Errorf("Required(%s) = %q, want texts of three bytes or more", in, got)
			}
		case `(?i)(abc){2,}`, `\x{431}\x{43e}lonG\x{43e}xyz`:
			if len(got) == 0 {
				t.Errorf("Required(%s) is empty", in)
			}
		default:
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("Required(%s) differs (-want +got): %s", in, d)
			}
		}
	}
}

func TestExpressionsOfPOSIX(t *testing.T) {
	for in, want := range map[string]string{
		`a[\.]b`:        `a[\\.]b`,
		`\<a\>\.b`:      `\ba\b\.b`,
		`[]\]x[[:a:]\]`: `[]\\]x[[:a:]\\]`,
		`[^]\]`:         `[^]\\]`,
		`a\`:            `a\`,
		`[\`:            `[\\`,
	} {
		if got := FromPOSIX(in); got != want {
			t.Errorf("FromPOSIX(%s) = %s, want %s", in, got, want)
		}
	}
}
