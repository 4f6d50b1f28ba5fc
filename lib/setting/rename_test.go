package setting

import "testing"

// TestANameIsChangedWhereKeysName: with comments and order as they are, and nowhere else.
func TestANameIsChangedWhereKeysName(t *testing.T) {
	n := &Naming{Keys: []string{"devices", "dns.sets"}, Values: []string{"groups", "policies.users", "policies.base", "pages"}}
	for name, tt := range map[string]struct{ text, want string }{
		"the key of a mapping":        {"devices:\n  # hers\n  anna: [a1] # tablet\n  ben: [anna]\n", "devices:\n  # hers\n  zoe: [a1] # tablet\n  ben: [anna]\n"},
		"a mapping in one line":       {"devices: {anna: [a1], ben: [b1]}\n", "devices: {zoe: [a1], ben: [b1]}\n"},
		"values of lists":             {"groups:\n  7a: [ben, Anna] # pupils\n  anna: [ben]\n", "groups:\n  7a: [ben, zoe] # pupils\n  anna: [ben]\n"},
		"in each of a list":           {"policies:\n  - {name: anna, users: anna}\n  - name: x\n    users:\n      - ben # first\n      - anna\n", "policies:\n  - {name: anna, users: zoe}\n  - name: x\n    users:\n      - ben # first\n      - zoe\n"},
		"deeper":                      {"dns: {sets: {anna: [1.1.1.1]}, anna: x}\n", "dns: {sets: {zoe: [1.1.1.1]}, anna: x}\n"},
		"not what only has the words": {"groups: {7a: [annamarie, \"anna b\"]}\nother: {devices: {anna: 1}}\n# anna\n", "groups: {7a: [annamarie, \"anna b\"]}\nother: {devices: {anna: 1}}\n# anna\n"},
		"nothing":                     {"", ""},
	} {
		changes, err := n.Changes([]byte(tt.text), "anna", "zoe")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := Edit([]byte(tt.text), changes...)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, tt.want)
		}
	}
}

func TestAKeyIsRenamedInItsPlace(t *testing.T) {
	for _, tt := range []struct{ text, to, want string }{
		{"a: {b: 1, c: 2} # said\nd: 3\n", "x y", "a: {x y: 1, c: 2} # said\nd: 3\n"},
		{"a:\n  b:\n    - 1 # one\n  c: 2\n", "on", "a:\n  \"on\":\n  - 1 # one\n  c: 2\n"},
	} {
		got, err := Edit([]byte(tt.text), Change{Path: []any{"a", "b"}, Key: tt.to})
		if err != nil || string(got) != tt.want {
			t.Errorf("%v\n%s\nwant\n%s", err, got, tt.want)
		}
	}
	for _, c := range []Change{{Path: []any{"a", "none"}, Key: "x"}, {Path: []any{"l", 0}, Key: "x"}, {Path: []any{"a", "b"}, Key: "c"}} {
		if got, err := Edit([]byte("a: {b: 1, c: 2}\nl: [1]\n"), c); err == nil {
			t.Errorf("%+v: want an error, got\n%s", c, got)
		}
	}
}
