package gateway

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shuultuur/admin/account"
	"shuultuur/engine/configuration"
	"shuultuur/intercept"
	"shuultuur/lib/datadir"
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
	c, err := configuration.Backup(&b, filepath.Join(dir, "shuultuur.yaml"))
	if err != nil || len(c.Left) > 0 || len(c.Held) != 4 {
		t.Fatalf("making a backup: it holds %q and left out %q, %v, want nothing left out, and settings, files, accounts and versions", c.Held, c.Left, err)
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
	held, err := datadir.Open(filepath.Join(other, "data"))
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
	held, err := datadir.Open(data)
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

// TestARestoredGatewayIsTheSame: backup, an empty machine, restore. The root certificate has the same
// key, so that the same certificates are made, and every file of the data folder is there with its
// mode, unless the table of what is left out names it.
func TestARestoredGatewayIsTheSame(t *testing.T) {
	file, other := used(t), filepath.Join(t.TempDir(), "shuultuur.yaml")
	dir := filepath.Dir(file)
	left := map[string]bool{ // in the data folder
		"format.json": true, "lock": true, "accounts/lock": true, "accounts/audit.lock": true, "events.db": true, "events.db-wal": true, "events.db-shm": true, "events.db-journal": true,
		"lists/own.list": true, "lists/own.list.lock": true, "sources/ads/current": true, "cache/1.segment": true, "downloads/download-1": true, "last-good/lists/x": true,
		"spool/kafka/1.log": true, "accounts/x.tmp": true, "access.log": true, "access.log.1.gz": true,
	}
	for name, mode := range map[string]os.FileMode{
		"data/lists/own.list": 0o644, "data/lists/own.list.lock": 0o644, "data/lists/own.list.edits": 0o644, "data/lists/own.list.overlay": 0o644, "data/sources/ads/current": 0o644,
		"data/cache/1.segment": 0o600, "data/downloads/download-1": 0o600, "data/last-good/lists/x": 0o600, "data/spool/kafka/1.log": 0o640, "data/accounts/x.tmp": 0o600,
		"data/access.log": 0o640, "data/access.log.1.gz": 0o640,
		"data/alerts.json": 0o600, "data/reports.json": 0o600, "data/votes/00000001.log": 0o640, "data/votes/erased.json": 0o600, "data/zones/example.zone": 0o600, "data/zones/files/example": 0o600,
		"data/instructions": 0o600, "data/versions/20260101T000000.000000Z.json": 0o600, "data/accounts/searches.json": 0o600, "data/memory": 0o640, "data/new kind of file": 0o600,
		"zone-files/example.zone": 0o644, "keys/Kexample.+013+1.private": 0o600, "keys/Kexample.+013+1.key": 0o600, "own/adult/domains": 0o640,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("of "+name), mode); err != nil {
			t.Fatal(err)
		}
	}
	const settings = "lists: {own: {format: ut1, path: own}}\nintercept: {root: root.pem}\nevents: {sqlite: events.db, dansguardian: access.log}\n" +
		"dns: {zones: {files: [{path: zone-files}], sign: [{zones: [example], keys: [keys/Kexample.+013+1]}]}}\npolicies: [{name: all, rules: []}]\n"
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file+".saved", 0o755); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if out, err := configuration.Backup(&b, file); err != nil || len(out.Left) > 0 {
		t.Fatalf("making a backup: left out %q, %v", out, err)
	}
	if _, err := configuration.Restore(&b, other); err != nil {
		t.Fatal(err)
	}
	want, got := tree(t, dir), tree(t, filepath.Dir(other))
	for path := range want {
		name, err := filepath.Rel(dir, path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.IsDir() || slices.Contains([]string{"own.txt", "empty", "binary", "access.log", "words", "users"}, name) {
			continue // no setting names it
		}
		sub, inData := strings.CutPrefix(name, "data/")
		to := filepath.Join(filepath.Dir(other), name)
		restored, err := os.Stat(to)
		if inData && left[sub] {
			if text, _ := os.ReadFile(path); err == nil && sub != "format.json" && sub != "lock" && bytes.HasPrefix(text, []byte("of ")) {
				t.Errorf("%s is in the backup", name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s is not in the backup: %v", name, err)
			continue
		}
		a, _ := os.ReadFile(path)
		if b, _ := os.ReadFile(to); !bytes.Equal(a, b) || restored.Mode() != info.Mode() {
			t.Errorf("%s has mode %v and %d bytes, want %v and the same %d", name, restored.Mode(), len(b), info.Mode(), len(a))
		}
	}
	if len(got) == 0 || len(want) < 40 {
		t.Errorf("only %d files were made, and %d restored", len(want), len(got))
	}
	root, err := intercept.ReadRoot(filepath.Join(filepath.Dir(other), "root.pem"))
	if err != nil {
		t.Fatalf("the restored root certificate: %v", err)
	}
	was, err := intercept.ReadRoot(filepath.Join(dir, "root.pem"))
	if err != nil || !root.Certificate.Equal(was.Certificate) {
		t.Errorf("the root certificate is another one, %v", err)
	}
}
