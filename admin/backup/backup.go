// Package backup writes the configuration of a gateway into one file, and
// restores it: the settings as settings.yaml; the files that they name in the
// same folder, under files/; and the data folder, under data/, except for what
// the table [omitted] names, each with its reason. format.json has the format
// of the data. The file is a gzip-compressed tar file.
package backup

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shuultuur/admin/account"
	"shuultuur/lib/atomicfile"
	"shuultuur/lib/datadir"
)

// Bounds of a backup.
const (
	maxBackupFile = 64 << 20 // of one file
	maxBackup     = 1 << 30  // of all
	backupText    = "settings.yaml"
)

// omitted has the names in the data folder that a backup does not contain, as patterns of
// [path.Match] for a path or for a folder above it, or after ANY for the last part of a path, and
// why not. Everything else is in it.
var omitted = []struct{ name, why string }{
	{"cache", "responses are stored again"},
	{"downloads", "they belong to requests in progress"},
	{"last-good", "copies of the files that the settings name are made at the next start"},
	{"lists/*.list", "lists are compiled again; changes by hand are in other files"},
	{"sources", "lists and rules are fetched again"},
	{"spool", "events are a record of people's browsing"},
	{datadir.FormatFile, "the backup has its own"},
	{"ANY *lock", "it belongs to a running process"},
	{"ANY *-wal", "it is a part of the database beside it, which is copied whole"},
	{"ANY *-shm", "it is a part of the database beside it, which is copied whole"},
	{"ANY *.tmp", "it is being written"},
}

// whyOmitted returns why a file of the data folder is not in a backup, "" if it is.
func whyOmitted(name string) string {
	for at := name; at != "."; at = path.Dir(at) {
		for _, o := range omitted {
			last, any := strings.CutPrefix(o.name, "ANY ")
			ok, _ := path.Match(o.name, at)
			if any {
				ok, _ = path.Match(last, path.Base(at))
			}
			if ok {
				return o.why
			}
		}
	}
	return ""
}

// A Source is the data to back up.
type Source struct {
	Text  []byte // of the settings
	Mode  fs.FileMode
	Files []string // files and folders that belong to the settings; they need not exist
	// Logs are files, with those into which they were rotated, and folders with events. Like the other records of people's browsing they
	// are not in the backup.
	Logs []string
	Place
}

// A Place has the folders of the settings and of the data.
type Place struct{ Dir, Data string }

// Write writes a backup to w. It returns the names of the files that it omitted although they
// belong in it: files in other folders and those of more than 64 MiB. It refuses a data folder in
// a newer format.
func Write(w io.Writer, s Source) (left []string, err error) {
	format, err := formatOf(s.Data)
	if err != nil {
		return nil, err
	}
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	add := func(name string, text []byte, mode fs.FileMode) error {
		if err := t.WriteHeader(&tar.Header{Name: name, Mode: int64(mode.Perm()), Size: int64(len(text)), ModTime: time.Now(), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		_, err := t.Write(text)
		return err
	}
	addFile := func(name, from string) error {
		info, err := os.Stat(from)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			return nil // it exists only while something runs
		}
		if err == nil && info.Size() > maxBackupFile {
			left = append(left, from)
			return nil
		}
		text, err := read(from)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("backing up %s: %w", from, err)
		}
		return add(name, text, info.Mode())
	}
	if err := add(backupText, s.Text, cmp.Or(s.Mode, 0o600)); err != nil {
		return nil, err
	}
	if err := add(datadir.FormatFile, format, 0o600); err != nil {
		return nil, err
	}
	added := map[string]bool{}
	for _, named := range s.Files {
		err := eachFile(named, func(from string) error {
			if added[from] || isBelow(from, s.Data) {
				return nil
			}
			added[from] = true
			name, err := filepath.Rel(s.Dir, from)
			if err != nil || !filepath.IsLocal(name) {
				left = append(left, from)
				return nil
			}
			return addFile("files/"+filepath.ToSlash(name), from)
		})
		if err != nil {
			return left, err
		}
	}
	err = eachFile(s.Data, func(from string) error {
		rel, err := filepath.Rel(s.Data, from)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if whyOmitted(name) != "" || slices.ContainsFunc(s.Logs, func(log string) bool { return isBelow(from, log) || strings.HasPrefix(from, log+".") }) {
			return nil
		}
		return addFile("data/"+name, from)
	})
	if err != nil {
		return left, err
	}
	return left, errors.Join(t.Close(), z.Close())
}

// eachFile calls f for a file, or for every file in a folder. What does not exist is skipped.
func eachFile(name string, f func(from string) error) error {
	if real, err := filepath.EvalSymlinks(name); err == nil && real != name {
		if info, err := os.Stat(real); err == nil && info.IsDir() { // WalkDir follows no link
			return eachFile(real, func(from string) error { return f(name + strings.TrimPrefix(from, real)) })
		}
	}
	return filepath.WalkDir(name, func(from string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && d.IsDir() {
			return nil
		}
		if err != nil {
			return fmt.Errorf("backing up: %w", err)
		}
		return f(from)
	})
}

// isBelow reports whether a path is a folder or in it.
func isBelow(name, folder string) bool {
	rel, err := filepath.Rel(folder, name)
	return err == nil && filepath.IsLocal(rel)
}

// isDatabase is how a database of SQLite begins.
const isDatabase = "SQLite format 3\x00"

// read reads a file. A database may be changing, and the latest changes are in a file beside it: it
// is copied as its readers see it.
func read(from string) ([]byte, error) {
	text, err := os.ReadFile(from)
	if err != nil || !bytes.HasPrefix(text, []byte(isDatabase)) || !slices.Contains(sql.Drivers(), "sqlite") {
		return text, err
	}
	dir, err := os.MkdirTemp("", "shuultuur-backup-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: from}).EscapedPath()+"?mode=rw&_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	to := filepath.Join(dir, "copy")
	if _, err := db.Exec("VACUUM INTO ?", to); err != nil {
		return nil, err
	}
	return os.ReadFile(to)
}

// formatOf returns the format of a data folder, in the form for a backup.
func formatOf(dir string) ([]byte, error) {
	f, err := datadir.FormatOf(dir)
	if err := errors.Join(err, f.Known(dir)); err != nil {
		return nil, fmt.Errorf("backing up: %w", err)
	}
	f.Program = datadir.Current().Program
	return json.Marshal(f)
}

// Restore restores a backup by [Write]: the settings as file, the other files
// beside it and in the data folder. It replaces existing files. The gateway must
// not run. Restore reads the whole backup, and calls place to learn where the
// settings in it want their files, before it writes anything. It refuses a backup
// in a newer format, and converts an older one.
func Restore(r io.Reader, file string, place func(text []byte) (Place, error)) (names []string, err error) {
	all, err := readBackup(r)
	if err != nil {
		return nil, fmt.Errorf("reading the backup: %w", err)
	}
	format := datadir.Format{Number: 1} // older backups have no format
	if file, ok := all[datadir.FormatFile]; ok {
		if format, err = datadir.ParseFormat(file.text); err != nil {
			return nil, fmt.Errorf("reading the backup: %s: %w", datadir.FormatFile, err)
		}
		delete(all, datadir.FormatFile)
	}
	if err := format.Known("the backup"); err != nil {
		return nil, err
	}
	s, err := place(all[backupText].text)
	if err != nil {
		return nil, err
	}
	if err := datadir.Check(s.Data); err != nil {
		return nil, err
	}
	held := datadir.Folder{Dir: s.Data}
	if err := held.Take(); err != nil {
		return nil, fmt.Errorf("restoring needs the gateway to be stopped: %w", err)
	}
	defer held.Close()
	if err := held.Note(format); err != nil { // until all of it is in our format
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		to := file
		if sub, ok := strings.CutPrefix(name, "files/"); ok {
			to = filepath.Join(s.Dir, filepath.FromSlash(sub))
		} else if sub, ok := strings.CutPrefix(name, "data/"); ok {
			to = filepath.Join(s.Data, filepath.FromSlash(sub))
		}
		dir := fs.FileMode(0o755)
		switch {
		case isBelow(to, account.Folder(s.Data)), isBelow(to, filepath.Join(s.Data, "versions")):
			dir = 0o700
		case isBelow(to, s.Data):
			dir = 0o750
		}
		if err := os.MkdirAll(filepath.Dir(to), dir); err != nil {
			return names, err
		}
		mode := all[name].mode
		if info, err := os.Stat(to); err == nil && name == backupText {
			mode = info.Mode().Perm() // of this machine: its gateway may be another user
		}
		if err := atomicfile.WriteBytes(to, mode, all[name].text); err != nil {
			return names, fmt.Errorf("restoring: %w", err)
		}
		names = append(names, to)
	}
	err = held.Migrate()
	datadir.GiveToOwner(s.Data)
	return names, err
}

// A restored is a file in a backup.
type restored struct {
	text []byte
	mode fs.FileMode
}

// readBackup reads a whole backup. It refuses names that lead elsewhere.
func readBackup(r io.Reader) (map[string]restored, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	t, all, sum := tar.NewReader(z), map[string]restored{}, int64(0)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		first, rest, _ := strings.Cut(h.Name, "/")
		good := h.Name == backupText || h.Name == datadir.FormatFile || path.Clean(h.Name) == h.Name && filepath.IsLocal(filepath.FromSlash(h.Name)) && (first == "files" && rest != "" || first == "data" && rest != "" && whyOmitted(rest) == "")
		if h.Typeflag != tar.TypeReg || !good {
			return nil, fmt.Errorf("%q does not belong in a backup of this program", h.Name)
		}
		if sum += h.Size; h.Size > maxBackupFile || sum > maxBackup {
			return nil, fmt.Errorf("%q: a backup holds files of at most %d bytes, and %d in all", h.Name, maxBackupFile, maxBackup)
		}
		var b bytes.Buffer
		if _, err := io.Copy(&b, io.LimitReader(t, maxBackupFile)); err != nil {
			return nil, err
		}
		// Nobody but the owner may write what is restored, whatever the backup says.
		all[h.Name] = restored{b.Bytes(), fs.FileMode(h.Mode) & 0o755}
	}
	if all[backupText].text == nil {
		return nil, errors.New("there are no settings in it: is it a backup of this program?")
	}
	return all, nil
}
