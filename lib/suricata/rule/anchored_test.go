package rule

import (
	"testing"
)

// TestExpressionsWithAlternativesAreSearchedForAtTheBeginning has expressions that match at
// the beginning only, whatever alternatives their groups have.
func TestExpressionsWithAlternativesAreSearchedForAtTheBeginning(t *testing.T) {
	for expr, want := range map[string]bool{`^a`: true, `^(?:a|b)c`: true, `^[|]`: true, `^\|`: true, `^a|^b`: true, `^(a|b)(?=c|d)`: true,
		`^a|b`: false, `^(?=a)b|c`: false, `(?:a|b)`: false, `a^`: false} {
		re, err := Compile(&PCRE{Expr: expr, Flags: "R"})
		if err != nil {
			t.Fatal(expr, err)
		}
		if re.Anchored() != want {
			t.Errorf("%s is anchored: %v, want %v", expr, re.Anchored(), want)
		}
	}
}
