package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/test/race"
)

// nowhere returns a place beside the settings for restored files.
func nowhere(file string) func([]byte) (Place, error) {
	return func([]byte) (Place, error) {
		dir := filepath.Dir(file)
		return Place{Dir: dir, Data: filepath.Join(dir, "data")}, nil
	}
}

// Restore restores a backup to the place that its settings have.
func Restore(r io.Reader, file string, place func([]byte) (Place, error)) ([]string, error) {
	b, err := Read(r)
	if err != nil {
		return nil, err
	}
	s, err := place(b.Text())
	if err != nil {
		return nil, err
	}
	return b.Restore(file, s)
}

// TestABackupLeadsNowhereElse uses forged names in a backup.
func TestABackupLeadsNowhereElse(t *testing.T) {
	for _, name := range []string{"../x", "files/../../x", "/etc/passwd", "data/lock", "data/../x", "other", "data/accounts/../../x"} {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := tar.NewWriter(z)
		for _, n := range []string{backupText, name} {
			_ = w.WriteHeader(&tar.Header{Name: n, Size: 1, Mode: 0o644, Typeflag: tar.TypeReg})
			_, _ = w.Write([]byte("\n"))
		}
		_, _ = w.Close(), z.Close()
		dir := t.TempDir()
		file := filepath.Join(dir, "sub", "shuultuur.yaml")
		if names, err := Restore(&b, file, nowhere(file)); err == nil {
			t.Errorf("Restore accepts the forged name %s: %q", name, names)
		}
	}
}

func FuzzReadBackup(f *testing.F) {
	f.Add([]byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := readBackup(bytes.NewReader(b))
		if err == nil && all[backupText].text == nil {
			t.Error("readBackup accepts a backup without settings")
		}
	})
}

// TestABackupIsEncryptedOnRequest: with the passphrase it reads as before, with another or none it does
// not, and a weak one is refused.
func TestABackupIsEncryptedOnRequest(t *testing.T) {
	race.Without(t)
	const passphrase = "correct horse battery"
	var b bytes.Buffer
	w, err := Encrypt(&b, passphrase)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(w, "the backup")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(b.Bytes(), []byte("the backup")) {
		t.Error("the backup is not encrypted")
	}
	for _, c := range []struct {
		name, text, passphrase, want string
		bad                          bool
	}{
		{"encrypted", b.String(), passphrase, "the backup", false},
		{"another passphrase", b.String(), "another passphrase", "", true},
		{"no passphrase", b.String(), "", "", true},
		{"plain", "plain", "", "plain", false},
		{"plain, with a passphrase", "plain", passphrase, "plain", false},
		{"empty", "", passphrase, "", false},
	} {
		r, err := Open(strings.NewReader(c.text), c.passphrase)
		var got []byte
		if err == nil {
			got, err = io.ReadAll(r)
		}
		if (err != nil) != c.bad || !c.bad && string(got) != c.want {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
	if _, err := Encrypt(&b, "short"); err == nil {
		t.Error("a short passphrase encrypts")
	}
}

// TestEachKindOfFileIsKeptOrLeftForAReason: no row of the table has a name that another hides.
func TestEachKindOfFileIsKeptOrLeftForAReason(t *testing.T) {
	for name, left := range map[string]bool{
		"accounts/accounts.json": false, "accounts/lock": true, "alerts.json": false, "cache/1.segment": true, "certificate/certificate.pem": false, "clock-sqlite.json": false, "datasets/x": false, "directory-answers.json": false, "downloads/1": true, "instructions": false,
		"last-good/lists/x": true, "lists/own.list": true, "lists/own.list.edits": false, "lists/own.list.lock": true, "quotas.json": false, "reports.json": false, "secret.key": false, "sign-ins.json": false, "sources/x/1": true, "spool/x": true, "state.bin": false, "used-tickets": true,
		"versions/zones/x.json": false, "votes/1.log": false, "votes.db": false, "votes.db-wal": true, "votes.db-journal": true, "zones/x/state": false, "format.json": true, "lock": true, "new": false, "new.tmp": true,
	} {
		if got := whyOmitted(name) != ""; got != left {
			t.Errorf("%s is left out: %v, want %v", name, got, left)
		}
		if what := Kept(name); (what == "") != (name == "new") {
			t.Errorf("%s is %q", name, what)
		}
	}
	for i, k := range kept {
		for _, other := range kept[:i] {
			if ok, _ := path.Match(other.name, k.name); ok {
				t.Errorf("%s is hidden by %s", k.name, other.name)
			}
		}
	}
}
