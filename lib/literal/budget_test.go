package literal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"shuultuur/test/race"
)

// TestDearExpressionsAreRefused: one that is dear by itself, and those that are too many of a kind. What
// lists have is not.
func TestDearExpressionsAreRefused(t *testing.T) {
	for pattern, want := range map[string]bool{
		"casino": true, "(^|[-./])ads[0-9]+": true, "(" + strings.Repeat("word[0-9]|", 3000) + "x)": true, "[a-z]{900}q": true, "(a|b|c|d|e){200}q": true,
		"(" + strings.Repeat("[a-z]b", 50) + "){1000}": false, "(" + strings.Repeat("a", 100) + "){1,500}x": false, "(?=x)y": true,
	} {
		if err := new(Budget).Spend(pattern); (err == nil) != want {
			t.Errorf("%.40s: %v, want taken: %v", pattern, err, want)
		}
	}
	for pattern, want := range map[string]int{
		"[a-z]{900}q%d": 44, "^[a-z]{5,900}[0-9]{2,9}%d": 22, "casino%d[a-z]{900}": 200, "casino%d": 200, "(a|b)%d": 200, "(?=x)%d": 20,
	} {
		var b Budget
		taken := 0
		for i := range 200 {
			if b.Spend(fmt.Sprintf(pattern, i)) == nil {
				taken++
			}
		}
		if taken < want*9/10 || taken > want*11/10 {
			t.Errorf("%s: %d of 200 are taken, want about %d", pattern, taken, want)
		}
	}
}

// TestRequiredTextsAreFoundInBoundedTime: whatever the expression is made of.
func TestRequiredTextsAreFoundInBoundedTime(t *testing.T) {
	race.Without(t)
	for _, pattern := range []string{"(?i)[a-z]{900}q", "(?i)(a|b|c|d|e){900}q", "(?i)((ab|cd)(e|f|g)){300}", "(?i)([a-z][0-9]){450}", "(?i)(" + strings.Repeat("[a-f]{9}|", 3000) + "x)", "(?i)" + strings.Repeat("(a|b|c)", 4000)} {
		begin := time.Now()
		for range 100 {
			Required(pattern)
		}
		if took := time.Since(begin) / 100; took > 100*time.Millisecond {
			t.Errorf("%.40s: one takes %v", pattern, took)
		} else {
			t.Logf("%.40s: %v", pattern, took)
		}
	}
}
