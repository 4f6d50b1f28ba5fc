package list

import (
	"os"
	"path/filepath"
	"shuultuur/lib/setting"
	"slices"
	"testing"
)

func TestEntriesAreWhatTheSourceSays(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "rules.txt")
	text := "||ads.example^\n@@||good.ads.example^\n||two.example^\n||ads.example^\n"
	if err := os.WriteFile(src, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	dst := filepath.Join(dir, "rules.list")
	if _, err := Compile(t.Context(), "rules", Config{Format: Adblock, Path: setting.Source(src)}, dst); err != nil {
		t.Fatal(err)
	}
	f, err := Open(dst)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got []string
	if err := f.Entries(func(e Entry) bool { got = append(got, e.String()); return true }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if want := []string{"@@good.ads.example", "ads.example", "two.example"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	n := 0
	if err := f.Entries(func(Entry) bool { n++; return false }); err != nil || n != 1 {
		t.Errorf("Entries continued after yield returned false: %d entries, %v, want 1", n, err)
	}
}
