package gateway

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/admin/account"
)

const withLocked = `listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
checks:
  picture:
    skin: true
    hashes:
      law: {file: law.txt, type: sha256, locked: true}
policies:
  - name: staff
    users: [anna]
    rules: []
  - name: everyone
    patience: 1s
    rules:
      - {name: law, action: block, category: ["picture/listed:law"]}
      - {name: other, action: block, host: [bad.example]}
`

func TestLockedListsAreSwitchedOffByOwnersOnly(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	file := folder(t, map[string]string{"law.txt": hash + "\n", "shuultuur.yaml": withLocked})
	g := serving(t, file)
	if text, err := os.ReadFile(filepath.Join(filepath.Dir(file), "law.txt")); err != nil || strings.Contains(string(text), hash) {
		t.Errorf("the fetched list is on disk unencrypted: %v", err)
	}
	err := filepath.WalkDir(filepath.Dir(file), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), hash) {
			t.Errorf("%s contains the hash in the clear", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	operator := account.With(t.Context(), &account.Who{Name: "op", Role: account.Operator})
	owner := account.With(t.Context(), &account.Who{Name: "own", Role: account.Owner})
	for _, c := range []struct {
		was, is string
		free    bool
	}{
		{"host: [bad.example]", "host: [worse.example]", true},
		{"skin: true", "skin: false", true},
		{"rules: []", "rules: [{name: news, action: allow, host: [news.example]}]", true},
		{", locked: true", "", false},
		{"law.txt", "other.txt", false},
		{"action: block, category", "action: monitor, category", false},
		{"      - {name: law", "      - {name: all, action: allow}\n      - {name: law", false},
		{"patience: 1s", "patience: 1ms", false},
		{"checks:\n", "proxy: {inspected: 1KiB}\nchecks:\n", false},
		{"checks:\n", "proxy: {idle: 1m}\nchecks:\n", true},
		{"users: [anna]", "users: []", false},
		{"policies:\n", "policies:\n  - {name: new, rules: []}\n", false},
		{"      law: {file: law.txt, type: sha256, locked: true}\n", "      own: {file: other.txt}\n", false},
	} {
		text := strings.Replace(withLocked, c.was, c.is, 1)
		if !strings.Contains(text, "law: {") {
			text = strings.Replace(text, "      - {name: law, action: block, category: [\"picture/listed:law\"]}\n", "", 1)
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(file), "other.txt"), []byte(strings.Repeat("0", 64)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := g.checkText(owner, []byte(text)); err != nil {
			t.Errorf("settings that change %q: refused to the owner: %v", c.is, err)
		}
		err := g.checkText(operator, []byte(text))
		if c.free != (err == nil) || err != nil && !strings.Contains(err.Error(), `locked list "law"; only an owner`) {
			t.Errorf("settings that change %q: the operator gets %v", c.is, err)
		}
	}
}
