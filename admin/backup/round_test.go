package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shuultuur/lib/datadir"
)

// fill writes files with their texts.
func fill(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
}

// textsIn returns the files of a folder.
func textsIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(file)
		name, _ := filepath.Rel(dir, file)
		all[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestABackupRestoresWhatItHolds: on an empty machine there is afterwards what belongs to the
// gateway, and no record of people's browsing, and none of what is made again.
func TestABackupRestoresWhatItHolds(t *testing.T) {
	from := t.TempDir()
	data := filepath.Join(from, "data")
	belongs := map[string]string{
		"pages/block.html": "a page", "phrases/own": "< words >",
		"data/secret.key": strings.Repeat("k", 64), "data/accounts/accounts.json": "{}", "data/votes.db": "not a database",
		"data/lists/own.list.overlay": "+a.example", "data/zones/example": "a zone", "data/something": "of a later program",
	}
	fill(t, from, belongs)
	left := map[string]string{
		"data/lock": "1", "data/lists/own.list": "compiled", "data/sources/feed": "fetched", "data/spool/1": "events",
		"data/cache/1": "a response", "data/votes.db-wal": "changes", "data/x.tmp": "half", "data/events.jsonl": "browsing", "data/events.jsonl.1": "browsing",
	}
	fill(t, from, left)
	if err := os.Symlink(filepath.Join(from, "phrases"), filepath.Join(from, "linked")); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	fill(t, filepath.Dir(elsewhere), map[string]string{"elsewhere": "x"})
	var b bytes.Buffer
	c, err := Write(&b, Source{
		Text: []byte("data: data\n"), Place: Place{Dir: from, Data: data},
		Files: []string{filepath.Join(from, "pages"), filepath.Join(from, "linked"), filepath.Join(from, "linked"), filepath.Join(from, "nowhere"), elsewhere},
		Logs:  []string{filepath.Join(data, "events.jsonl")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Left, []string{elsewhere}) {
		t.Errorf("what the backup omits although it belongs to the settings: got %q, want %q", c.Left, elsewhere)
	}
	for _, held := range []string{"the settings", "the key that signs tokens", "other files of the data folder", "votes and decisions"} {
		if !slices.Contains(c.Held, held) {
			t.Errorf("the backup does not say that it holds %s: %q", held, c.Held)
		}
	}
	to := filepath.Join(t.TempDir(), "new")
	file := filepath.Join(to, "shuultuur.yaml")
	written, err := Restore(&b, file, nowhere(file))
	if err != nil {
		t.Fatal(err)
	}
	got := textsIn(t, to)
	want := map[string]string{"shuultuur.yaml": "data: data\n", "linked/own": "< words >"}
	for name, text := range belongs {
		if name != "phrases/own" {
			want[name] = text
		}
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s: restored as %q, want %q", name, got[name], text)
		}
	}
	for name := range left {
		if _, there := got[name]; there && name != "data/lock" {
			t.Errorf("%s is restored", name)
		}
	}
	if len(written) != len(want) {
		t.Errorf("Restore says that it wrote %q, want %d files", written, len(want))
	}
	if f, err := datadir.FormatOf(filepath.Join(to, "data")); err != nil || f.Number != datadir.Current().Number {
		t.Errorf("the format of the restored folder is %d, error %v; want %d", f.Number, err, datadir.Current().Number)
	}
	if info, err := os.Stat(filepath.Join(to, "data", "accounts")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of accounts: %v, error %v; want its owner alone in it", info, err)
	}
}

// TestARestoreRefusesBeforeItWrites: after a refusal nothing has changed.
func TestARestoreRefusesBeforeItWrites(t *testing.T) {
	good := func() []byte {
		dir := t.TempDir()
		fill(t, dir, map[string]string{"data/votes.db": strings.Repeat("a vote\n", 1000)})
		var b bytes.Buffer
		if _, err := Write(&b, Source{Text: []byte("data: data\n"), Place: Place{Dir: dir, Data: filepath.Join(dir, "data")}}); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}()
	with := func(files ...string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := tar.NewWriter(z)
		for i := 0; i < len(files); i += 2 {
			_ = w.WriteHeader(&tar.Header{Name: files[i], Size: int64(len(files[i+1])), Mode: 0o644, Typeflag: tar.TypeReg})
			_, _ = w.Write([]byte(files[i+1]))
		}
		_, _ = w.Close(), z.Close()
		return b.Bytes()
	}
	for _, c := range []struct {
		name   string
		backup []byte
		want   string
	}{
		{"empty", nil, "EOF"},
		{"no backup", []byte("listen: {}\n"), "gzip"},
		{"cut in the middle", good[:len(good)/2], "unexpected EOF"},
		{"cut at the end", good[:len(good)-6], "unexpected EOF"},
		{"changed", slices.Concat(good[:len(good)-8], []byte{1, 2, 3, 4}, good[len(good)-4:]), "checksum"},
		{"no settings", with("data/votes.db", "x"), "no settings"},
		{"a newer format", with("settings.yaml", "x", "format.json", `{"format": 99, "program": "9.0"}`), "9.0"},
		{"a damaged format", with("settings.yaml", "x", "format.json", "99"), "format.json"},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "shuultuur.yaml")
		fill(t, dir, map[string]string{"shuultuur.yaml": "before\n"})
		_, err := Restore(bytes.NewReader(c.backup), file, nowhere(file))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got the error %v, want %q in it", c.name, err, c.want)
		}
		if got := textsIn(t, dir); len(got) != 1 || got["shuultuur.yaml"] != "before\n" {
			t.Errorf("%s: the refused backup left %d files, the settings are %q", c.name, len(got), got["shuultuur.yaml"])
		}
	}
}

// TestAGatewayThatRunsIsNotRestored: its data folder is taken.
func TestAGatewayThatRunsIsNotRestored(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	running, err := datadir.Open(data)
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	var b bytes.Buffer
	if _, err := Write(&b, Source{Text: []byte("x\n"), Place: Place{Dir: dir, Data: data}}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "shuultuur.yaml")
	if _, err := Restore(&b, file, nowhere(file)); err == nil || !strings.Contains(err.Error(), "needs the gateway to be stopped") {
		t.Errorf("Restore into the folder of a running gateway: %v", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("it wrote the settings")
	}
}

// TestWhatABackupLeavesOut says why, and knows each file of the data folder.
func TestWhatABackupLeavesOut(t *testing.T) {
	for name, left := range map[string]bool{
		"lock": true, "accounts/lock": true, "votes.db": false, "votes.db-wal": true, "lists/a.list": true, "lists/a.list.overlay": false,
		"spool/syslog/1": true, "versions/settings/1": false, "secret.key": false, "format.json": true,
	} {
		if why := whyOmitted(name); (why != "") != left || Kept(name) == "" {
			t.Errorf("%s is %q and left out because %q; want left out: %v", name, Kept(name), why, left)
		}
	}
	if Kept("unknown") != "" || whyOmitted("unknown") != "" {
		t.Error("an unknown file has a purpose")
	}
}
