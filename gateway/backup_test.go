package gateway

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/admin/account"
	"shuultuur/datadir"
)

// TestABackupIsPutBackElsewhere: settings, files beside them, accounts; and
// nothing of what can be fetched again.
func TestABackupIsPutBackElsewhere(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const settings = "# ours\nlists: {own: {format: domains, path: lists/own.txt}}\npolicies: [{name: all, rules: []}]\n"
	write("shuultuur.yaml", settings)
	write("lists/own.txt", "bet.example\n")
	write("data/lists/own.list", "compiled")
	write("data/versions/20260101T000000.000000Z.json", "{}")
	book, err := account.Open(account.Folder(filepath.Join(dir, "data")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := book.Add("olga", account.Owner, nil, ""); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	left, err := Backup(&b, filepath.Join(dir, "shuultuur.yaml"))
	if err != nil || len(left) > 0 {
		t.Fatal(left, err)
	}
	names, err := Restore(bytes.NewReader(b.Bytes()), filepath.Join(other, "shuultuur.yaml"))
	if err != nil {
		t.Fatal(names, err)
	}
	for name, want := range map[string]string{"shuultuur.yaml": settings, "lists/own.txt": "bet.example\n", "data/versions/20260101T000000.000000Z.json": "{}"} {
		if got, err := os.ReadFile(filepath.Join(other, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	if _, err := os.Stat(filepath.Join(other, "data/lists/own.list")); err == nil {
		t.Error("a compiled list was in the backup")
	}
	again, err := account.Open(account.Folder(filepath.Join(other, "data")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := again.One("olga"); err != nil || a.Role != account.Owner {
		t.Errorf("the account: %+v %v", a, err)
	}
	held, err := datadir.Open(filepath.Join(other, "data"), true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(bytes.NewReader(b.Bytes()), filepath.Join(other, "shuultuur.yaml")); err == nil || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("beside a running gateway: %v", err)
	}
	held.Close()
}
