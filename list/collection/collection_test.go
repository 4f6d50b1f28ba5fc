package collection

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/lib/setting"
	"shuultuur/list"
)

// TestAFaultBelongsToItsList: a fault does not count for another list whose name begins alike.
func TestAFaultBelongsToItsList(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{}
	for _, name := range []string{"ads", "ads-2", "ads_more"} {
		file := filepath.Join(dir, name+".txt")
		if err := os.WriteFile(file, []byte(name+".example\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		cfg[name] = List{Config: list.Config{Format: list.Domains, Path: setting.Source(file), Category: "ads"}}
	}
	open := func(previous *Collection) *Collection {
		t.Helper()
		c, err := Open(t.Context(), cfg, dir, previous, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := open(nil)
	if all := c.Faults(); len(all) > 0 {
		t.Fatalf("a collection of good lists has the faults %v", all)
	}
	if err := os.Remove(filepath.Join(dir, "ads-2.txt")); err != nil {
		t.Fatal(err)
	}
	c = open(c)
	for name, faulty := range map[string]bool{"ads": false, "ads-2": true, "ads_more": false} {
		s, err := c.StatusOf(name)
		if err != nil || (s.Fault != "") != faulty || faulty && !strings.HasPrefix(s.Fault, "ads-2") {
			t.Errorf("Standing(%q): error %v, fault %q", name, err, s.Fault)
		}
	}
	if all := c.Faults(); len(all) != 1 || !strings.Contains(all[0].Error(), "ads-2") {
		t.Errorf("Faults: got %v, want one about ads-2", all)
	}
	if _, err := c.StatusOf("none"); !errors.Is(err, ErrNoList) {
		t.Errorf("Standing of an unknown list: got %v, want ErrNoList", err)
	}
}
