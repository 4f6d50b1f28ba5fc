package collection

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shuultuur/lib/setting"
	"shuultuur/list"
)

// TestEntriesAreFoundWithWhatWasChangedByHand: those come first, and the others by alphabet, page by page.
func TestEntriesAreFoundWithWhatWasChangedByHand(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "bets.txt")
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, "bet%03d.example\n", i)
	}
	if err := os.WriteFile(file, []byte(text.String()+"bet.example/live\n192.0.2.0/24\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := Config{"bets": {Config: list.Config{Format: list.Domains, Path: setting.Source(file), Category: "gambling"}}}
	open := func() *Collection {
		c, err := Open(t.Context(), cfg, dir, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	changes := map[string][]list.Change{"bets": {{Entry: "mine.example"}, {Entry: "bet005.example", Exception: true}, {Entry: "bet006.example", Remove: true}}}
	if err := open().Change(t.Context(), changes, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text string
		from, most int
		want       []string
		all        int
	}{
		{"all", "", 0, 4, []string{"bet005.example excepted", "bet006.example removed", "mine.example added", "bet.example/live "}, 203},
		{"a part", "bet00", 0, 3, []string{"bet005.example excepted", "bet006.example removed", "bet000.example "}, 10},
		{"in capitals", "MINE", 0, 3, []string{"mine.example added"}, 1},
		{"the last page", "bet00", 9, 3, []string{"bet009.example "}, 10},
		{"behind the end", "bet00", 90, 3, nil, 10},
		{"nothing", "other", 0, 3, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, err := open().Find("bets", c.text, c.from, c.most)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range found.Entries {
				got = append(got, e.Key+" "+e.By)
			}
			if !slices.Equal(got, c.want) || c.name != "all" && found.All != c.all || found.Cut {
				t.Errorf("got %q of %d, cut %v; want %q of %d", got, found.All, found.Cut, c.want, c.all)
			}
		})
	}
	if _, err := open().Find("none", "", 0, 1); err != ErrNoList {
		t.Errorf("of a list that is not there: %v", err)
	}
}
