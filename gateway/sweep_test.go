package gateway

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"shuultuur/event"
)

// TestWhatAKilledProgramWasWritingGoes: at the next start, and by an erasure.
func TestWhatAKilledProgramWasWritingGoes(t *testing.T) {
	file := folder(t, map[string]string{"shuultuur.yaml": "listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}\npolicies: [{name: everyone, rules: []}]\n"})
	old := time.Now().Add(-time.Hour)
	leave := func(path string) {
		t.Helper()
		lay(t, path, "anna")
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Dir(file)
	all := []string{filepath.Join(dir, "data/accounts/accounts.json.1.tmp"), file + ".2.tmp"}
	for _, path := range all {
		leave(path)
	}
	g := serving(t, file)
	for _, path := range all {
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(path); err != nil {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s is still there", path)
			}
		}
	}
	leave(all[0])
	for _, h := range (&pages{gateway: g}).holders() {
		if h.Name != "files that were not completed" {
			continue
		}
		for _, dry := range []bool{true, false} {
			if n, err := h.Erase(t.Context(), event.Person{Users: []string{"anna"}}, dry); n != 1 || err != nil {
				t.Errorf("an erasure, dry %v: %d, %v", dry, n, err)
			}
		}
	}
	if _, err := os.Stat(all[0]); err == nil {
		t.Error("an erasure leaves a file that was not completed")
	}
}
