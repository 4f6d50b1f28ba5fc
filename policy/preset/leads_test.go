package preset

import (
	"testing"

	"shuultuur/filter"
	"shuultuur/lib/message"
)

// TestSafeSearchIsAddedHoweverThePathIsWritten: servers read it without case, escapes and doubled
// slashes, and serve it under other names.
func TestSafeSearchIsAddedHoweverThePathIsWritten(t *testing.T) {
	p, err := New(true, "", &Tenants{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host, path string
		want       bool
	}{
		{"www.google.com", "/search?q=x", true}, {"www.google.com", "/SEARCH?q=x", true}, {"www.google.com", "/%73earch?q=x", true},
		{"www.google.com", "/%53Earch?q=x", true}, {"www.google.com", "//search?q=x", true}, {"www.google.com", "/%2Fsearch", true},
		{"images.google.com", "/search?q=x", true}, {"images.google.de", "/search?q=x", true}, {"google.fr", "/search", true},
		{"www.google.com", "/maps?q=x", false}, {"www.google.com", "/s%earch", false}, {"www.google.com", "/sear%63", false}, {"www.google.com", "/%", false}, {"www.google.com", "", false},
		{"images.example.com", "/search?q=x", false},
	} {
		es := p.Edits(&filter.Transaction{Host: c.host, Request: &message.Request{Path: []byte(c.path)}})
		found := false
		for _, e := range es {
			found = found || e.Kind == filter.SetQuery && e.Name == "safe"
		}
		if found != c.want {
			t.Errorf("%s%s: got %v, want safe: %v", c.host, c.path, es, c.want)
		}
	}
}
