package rule

import (
	"compress/gzip"
	"os"
	"testing"
	"time"

	"shuultuur/test/data"
)

// TestPublicRulesLoad reads the public rule sets: none may be refused.
func TestPublicRulesLoad(t *testing.T) {
	for name, want := range map[string]int{"et-open.rules.gz": 29744, "et-open-http.rules.gz": 16024} {
		f, err := os.Open(data.Path(t, "rules", name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		rules, mistakes, err := NewParser().Read(name, z)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d rules in %v", name, len(rules), time.Since(start))
		for i, m := range mistakes {
			if i < 20 {
				t.Error(m)
			}
		}
		if len(rules) != want {
			t.Errorf("%s: %d rules, want %d", name, len(rules), want)
		}
	}
}
