package gateway

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/list"
	"shuultuur/list/collection"
)

// TestChangesOfListsAreAllOrNone: if one change cannot be made, or the result
// cannot be put into use, no list is changed.
func TestChangesOfListsAreAllOrNone(t *testing.T) {
	settings := `
listen: {proxy: 127.0.0.1:0, admin: "off"}
lists:
  a: {format: domains, path: a.txt, category: games}
  b: {format: domains, path: b.txt, category: games}
checks: {category: {lists: [a, b]}}
policies: [{name: all, rules: [{name: games, action: block, category: [games]}]}]
`
	file := folder(t, map[string]string{"shuultuur.yaml": settings, "a.txt": "one.example\n", "b.txt": "two.example\n"})
	g, err := New(t.Context(), file, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	has := func(host string) bool {
		t.Helper()
		hits, err := g.engine.Load().Lists.Search(host)
		if err != nil {
			t.Fatal(err)
		}
		return len(hits) > 0
	}
	overlays := func() (n int) {
		all, err := filepath.Glob(filepath.Join(filepath.Dir(file), "data", "lists", "*.overlay"))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	three := list.Change{Entry: "three.example"}
	var bad *collection.BadChange
	if err := g.node.ChangeLists(t.Context(), map[string][]list.Change{"a": {three}, "b": {{Entry: "not a host"}}}); !errors.As(err, &bad) || overlays() != 0 {
		t.Errorf("a change that is not a host: %v, %d lists changed; want an error and none", err, overlays())
	}
	if err := g.node.ChangeLists(t.Context(), map[string][]list.Change{"a": {three}, "c": {three}}); !errors.Is(err, collection.ErrNoList) || overlays() != 0 {
		t.Errorf("a change of a list that does not exist: %v, %d lists changed; want an error and none", err, overlays())
	}
	if err := os.WriteFile(file, []byte(strings.Replace(settings, "action: block", "action: bolck", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := g.node.ChangeLists(t.Context(), map[string][]list.Change{"a": {three}, "b": {three}}); err == nil || overlays() != 0 {
		t.Errorf("changes with settings that cannot be used: %v, %d lists changed; want an error and none", err, overlays())
	}
	if err := os.WriteFile(file, []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := g.node.ChangeLists(t.Context(), map[string][]list.Change{"a": {three}, "b": {{Entry: "two.example", Exception: true}}}); err != nil || overlays() != 2 || !has("three.example") {
		t.Errorf("good changes: %v, %d lists changed; want 2", err, overlays())
	}
}
