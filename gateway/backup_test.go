package gateway

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/admin/account"
	"shuultuur/configuration"
	"shuultuur/datadir"
)

// TestABackupIsPutBackElsewhere: a backup restores settings, files beside them, and accounts,
// but nothing that can be fetched again.
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
	left, err := configuration.Backup(&b, filepath.Join(dir, "shuultuur.yaml"))
	if err != nil || len(left) > 0 {
		t.Fatalf("making a backup: left out %q, %v, want nothing left out", left, err)
	}
	names, err := configuration.Restore(bytes.NewReader(b.Bytes()), filepath.Join(other, "shuultuur.yaml"))
	if err != nil {
		t.Fatalf("restoring a backup in another folder: got %q, %v", names, err)
	}
	for name, want := range map[string]string{"shuultuur.yaml": settings, "lists/own.txt": "bet.example\n", "data/versions/20260101T000000.000000Z.json": "{}"} {
		if got, err := os.ReadFile(filepath.Join(other, name)); err != nil || string(got) != want {
			t.Errorf("restored %s: %q, %v", name, got, err)
		}
	}
	if _, err := os.Stat(filepath.Join(other, "data/lists/own.list")); err == nil {
		t.Error("the backup contains a compiled list")
	}
	again, err := account.Open(account.Folder(filepath.Join(other, "data")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := again.One("olga"); err != nil || a.Role != account.Owner {
		t.Errorf("the restored account is %+v, %v; want an owner", a, err)
	}
	held, err := datadir.Open(filepath.Join(other, "data"), true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := configuration.Restore(bytes.NewReader(b.Bytes()), filepath.Join(other, "shuultuur.yaml")); err == nil || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("restoring beside a running gateway: %v, want an error", err)
	}
	held.Close()
}

// TestABackupOfANewerFormat: a backup of a newer format is refused before anything is written.
// So is the backup of a folder that is newer than the program.
func TestABackupOfANewerFormat(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "shuultuur.yaml")
	if err := os.WriteFile(file, []byte("policies: [{name: all, rules: []}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	held, err := datadir.Open(data, true)
	if err != nil {
		t.Fatal(err)
	}
	held.Close()
	var whole bytes.Buffer
	if _, err := configuration.Backup(&whole, file); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, format, want string }{
		{"newer", `{"format":99,"program":"7.1.0"}`, "data format 99, written by shuultuur 7.1.0"},
		{"the same, of a newer program", `{"format":1,"program":"7.1.0"}`, ""},
		{"none, as before there were formats", "", ""},
		{"damaged", `{"format":`, "does not say which format"},
	} {
		t.Run(c.name, func(t *testing.T) {
			other := t.TempDir()
			_, err := configuration.Restore(bytes.NewReader(withFormat(t, whole.Bytes(), c.format)), filepath.Join(other, "shuultuur.yaml"))
			left, _ := os.ReadDir(other)
			if c.want == "" {
				f, bad := datadir.FormatOf(filepath.Join(other, "data"))
				if err != nil || bad != nil || f != datadir.Current() {
					t.Errorf("restoring: %v; the format of the folder is %+v, %v", err, f, bad)
				}
			} else if err == nil || !strings.Contains(err.Error(), c.want) || len(left) > 0 {
				t.Errorf("restoring a newer format: %v; %v was written, want an error and nothing written", err, left)
			}
		})
	}
	if err := os.WriteFile(filepath.Join(data, datadir.FormatFile), []byte(`{"format":99,"program":"7.1.0"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := configuration.Backup(&bytes.Buffer{}, file); err == nil || !strings.Contains(err.Error(), "install shuultuur 7.1.0") {
		t.Errorf("making a backup of a newer folder: %v, want which version to install", err)
	}
	if _, err := configuration.Restore(bytes.NewReader(whole.Bytes()), file); err == nil || !strings.Contains(err.Error(), "install shuultuur 7.1.0") {
		t.Errorf("restoring into a newer folder: %v, want which version to install", err)
	}
}

// withFormat returns a backup with another format file, or without one.
func withFormat(t *testing.T, whole []byte, format string) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	in, packed := tar.NewReader(z), gzip.NewWriter(&b)
	out, seen := tar.NewWriter(packed), false
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == datadir.FormatFile {
			seen = true
			if text = []byte(format); format == "" {
				continue
			}
			h.Size = int64(len(text))
		}
		if err := out.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(out.Close(), packed.Close()); err != nil || !seen {
		t.Fatal("the backup has no format file", err)
	}
	return b.Bytes()
}
