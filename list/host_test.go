package list

import (
	"strings"
	"testing"
)

// TestNamesTakenAsTheyAre: what isNormal says yes to is what normalHost makes
// of it, and it says no to all that normalHost changes or refuses.
func TestNamesTakenAsTheyAre(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, tt := range []struct {
		host string
		want bool
	}{
		{"example.com", true}, {"a.b", true}, {"_dmarc.x-y.co.uk", true}, {"xn--bcher-kva.example", true}, {"1.2.3.a4", true},
		{long + ".com", true}, {"com." + long, true},
		{"", false}, {"com", false}, {".", false}, {"example.com.", false}, {".example.com", false}, {"a..b", false},
		{"Example.com", false}, {"bücher.example", false}, {"example.com:80", false}, {"a b.com", false}, {"example.com/x", false},
		{"1.2.3.4", false}, {"a.1", false}, {"::1", false}, {"a.-", false},
		{long + "a.com", false}, {"com." + long + "a", false},
		{strings.Repeat(long+".", 4) + "com", false},
	} {
		if got := isNormal([]byte(tt.host)); got != tt.want {
			t.Errorf("%q: got %v, want %v", tt.host, got, tt.want)
		}
		if host, reason := normalHost(nil, []byte(tt.host)); tt.want && (string(host) != tt.host || reason != "") {
			t.Errorf("%q: normalHost makes %q of it: %s", tt.host, host, reason)
		}
	}
}
