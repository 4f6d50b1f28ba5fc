package setting

import (
	"strings"
	"testing"
)

// TestEditTouchesNothingElse: parts that a change does not concern stay the same byte for byte.
func TestEditTouchesNothingElse(t *testing.T) {
	const text = `# The school.
identity:
  addresses: {anna: [10.0.0.5]}   # by hand
  groups:
    # pupils
    "7a": [10.0.1.0/24]

policies:
  - name: school   # all
    rules:
      # never
      - {name: bad, action: block, category: [porn]}
      - name: games
        action: block
        category: [games]   # until 16:00

      # last
      - {name: rest, action: allow}
data: /var/x
`
	for name, c := range map[string]struct {
		change    Change
		old, with string
	}{
		"a key in a flow mapping":  {Change{Path: []any{"identity", "addresses", "bert"}, Value: []string{"10.0.0.6"}}, "  addresses: {anna: [10.0.0.5]}   # by hand\n", "  addresses: {anna: [10.0.0.5], bert: [10.0.0.6]} # by hand\n"},
		"an item in a flow list":   {Change{Path: []any{"identity", "groups", "7a", 1}, Value: "anna"}, "[10.0.1.0/24]", "[10.0.1.0/24, anna]"},
		"an item past the end":     {Change{Path: []any{"identity", "groups", "7a", 1 << 20}, Value: "anna"}, "[10.0.1.0/24]", "[10.0.1.0/24, anna]"},
		"a new group":              {Change{Path: []any{"identity", "groups", "8b"}, Value: []string{"bert"}}, "\"7a\": [10.0.1.0/24]\n", "\"7a\": [10.0.1.0/24]\n    8b: [bert]\n"},
		"a new key and what leads": {Change{Path: []any{"access", "names"}, Value: []string{"filter.example"}}, "data: /var/x\n", "data: /var/x\naccess:\n  names: [filter.example]\n"},
		"a scalar":                 {Change{Path: []any{"policies", 0, "rules", 1, "action"}, Value: "warn"}, "action: block\n        cat", "action: warn\n        cat"},
		"a rule":                   {Change{Path: []any{"policies", 0, "rules", 1}, Value: Snippet("{name: games, action: warn}")}, "- name: games\n        action: block\n        category: [games]   # until 16:00\n", "- {name: games, action: warn}\n"},
		"a rule moves down":        {Change{Path: []any{"policies", 0, "rules", 0}, Move: true, To: 1}, text[strings.Index(text, "      # never"):strings.Index(text, "\n      # last")], "      - name: games\n        action: block\n        category: [games]   # until 16:00\n      # never\n      - {name: bad, action: block, category: [porn]}\n"},
		"a rule goes":              {Change{Path: []any{"policies", 0, "rules", 0}, Remove: true}, "      # never\n      - {name: bad, action: block, category: [porn]}\n", ""},
		"the name of a policy":     {Change{Path: []any{"policies", 0, "name"}, Value: "all"}, "name: school   # all", "name: all # all"},
	} {
		got, err := Edit([]byte(text), c.change)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if want := strings.Replace(text, c.old, c.with, 1); string(got) != want {
			t.Errorf("%s: the text is\n%s\nwant\n%s", name, got, want)
		}
	}
	if got, err := Edit(nil, Change{Path: []any{"data"}, Value: "x"}); err != nil || string(got) != "data: x\n" {
		t.Errorf("adding a key to an empty text: %q, %v", got, err)
	}
	if _, err := Edit([]byte(text), Change{Path: []any{"nothing", "here"}, Remove: true}); err == nil {
		t.Error("Edit removes a key that does not exist")
	}
}

// TestEditOfOneLine: settings that were written on one line are rewritten.
func TestEditOfOneLine(t *testing.T) {
	got, err := Edit([]byte("policies: [{name: a, rules: [{name: x, action: block}, {name: y, action: allow}]}]\n"), Change{Path: []any{"policies", 0, "rules", 1}, Move: true})
	if want := "policies: [{name: a, rules: [{name: y, action: allow}, {name: x, action: block}]}]\n"; err != nil || string(got) != want {
		t.Errorf("editing settings on one line: %s, %v", got, err)
	}
}

func FuzzEdit(f *testing.F) {
	f.Add("a: {b: 1}\nc:\n- x\n- y\n", "c", 1, "z")
	f.Add("c:\n  # k\n  - {x: |\n   }\n", "c", 0, "[1, 2]")
	f.Fuzz(func(t *testing.T, text, key string, at int, value string) {
		if len(text) > 4<<10 {
			return
		}
		for _, c := range []Change{{Path: []any{key, at}, Value: value}, {Path: []any{key}, Value: Snippet(value)}, {Path: []any{key, at}, Remove: true}, {Path: []any{key, at}, Move: true}} {
			_, _ = Edit([]byte(text), c) // Edit verifies its result; it must not panic
		}
	})
}
