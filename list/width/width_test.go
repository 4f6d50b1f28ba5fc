package width

import "testing"

// TestShortPatternsAreTooWide: patterns of fewer than three characters, and those that occur in nearly all
// addresses, are refused.
func TestShortPatternsAreTooWide(t *testing.T) {
	for pattern, want := range map[string]bool{
		"": true, "*": true, "a": true, "ad": true, "/a": true, "^ad^": true, "|ad|": true, "a*b": true, "ab*cd*e": true, "**": true,
		"ads": false, "/ad": false, "-ad-": false, "a*bcd": false, "^ads^": false,
		"http": true, "://": true, "https://": true, "www": false, "https://www.example": false,
	} {
		if got := Pattern([]byte(pattern)); got != want {
			t.Errorf("Pattern(%q) = %v, want %v", pattern, got, want)
		}
	}
}
