package starter

import (
	"path/filepath"
	"testing"

	"shuultuur/engine/configuration"
)

// TestStarterSettings: a new user's filter blocks something, and no secret in the public
// project unlocks it.
func TestStarterSettings(t *testing.T) {
	dir := t.TempDir()
	if err := Write(dir); err != nil {
		t.Fatal(err)
	}
	s, err := configuration.Read(filepath.Join(dir, "shuultuur.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	fetched := map[string]bool{}
	for name, l := range s.Lists {
		if l.Fetch.Source != "" {
			fetched[l.Category] = true
		}
		if l.Fetch.Source == "" && l.Path == "" {
			t.Errorf("list %s has neither a source nor a path", name)
		}
	}
	for _, category := range []string{"ads", "tracking", "malware", "phishing", "adult", "gambling", "doh"} {
		if !fetched[category] {
			t.Errorf("no list of category %s is fetched", category)
		}
	}
	if len(s.Checks.Phrase.Exception) > 0 {
		t.Errorf("the exceptions %v let every page pass that hides one of these phrases", s.Checks.Phrase.Exception)
	}
}
