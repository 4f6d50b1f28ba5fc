// Package backup writes the configuration of a gateway into one file, and
// restores it: the settings as settings.yaml; the files that they name in the
// same folder, under files/; and of the data folder the accounts, the audit log,
// versions of the settings, instructions and keys, under data/. It omits
// everything that can be fetched or compiled again, and the record of people's
// browsing. format.json has the format of the data. The file is a gzip-compressed
// tar file.
package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shuultuur/admin/account"
	"shuultuur/atomicfile"
	"shuultuur/datadir"
)

// Bounds of a backup.
const (
	maxBackupFile = 64 << 20 // of one file
	maxBackup     = 1 << 30  // of all
	backupText    = "settings.yaml"
)

// kept has the names in the data folder that a backup contains.
var kept = []string{"accounts", "versions", datadir.KeyFile, "instructions"}

// A Source is the data to back up.
type Source struct {
	Text  []byte   // of the settings
	Files []string // that the settings name
	Place
}

// A Place has the folders of the settings and of the data.
type Place struct{ Dir, Data string }

// Write writes a backup to w. It returns the names of the files that it omitted:
// files in other folders and those of more than 64 MiB. It refuses a data folder
// in a newer format.
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
		text, err := os.ReadFile(from)
		if err != nil {
			return fmt.Errorf("backing up: %w", err)
		}
		return add(name, text, info.Mode())
	}
	if err := add(backupText, s.Text, 0o600); err != nil {
		return nil, err
	}
	if err := add(datadir.FormatFile, format, 0o600); err != nil {
		return nil, err
	}
	slices.Sort(s.Files)
	for _, from := range slices.Compact(s.Files) {
		name, err := filepath.Rel(s.Dir, from)
		if err != nil || !filepath.IsLocal(name) || strings.HasPrefix(from, s.Data+string(filepath.Separator)) {
			left = append(left, from)
			continue
		}
		if err := addFile("files/"+filepath.ToSlash(name), from); err != nil {
			return left, err
		}
	}
	for _, name := range kept {
		err := filepath.WalkDir(filepath.Join(s.Data, name), func(from string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && (d.IsDir() || strings.HasSuffix(from, "lock")) {
				return nil
			}
			rel, bad := filepath.Rel(s.Data, from)
			if err = errors.Join(err, bad); err != nil {
				return err
			}
			return addFile("data/"+filepath.ToSlash(rel), from)
		})
		if err != nil {
			return left, err
		}
	}
	return left, errors.Join(t.Close(), z.Close())
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
	if text, ok := all[datadir.FormatFile]; ok {
		if format, err = datadir.ParseFormat(text); err != nil {
			return nil, fmt.Errorf("reading the backup: %s: %w", datadir.FormatFile, err)
		}
		delete(all, datadir.FormatFile)
	}
	if err := format.Known("the backup"); err != nil {
		return nil, err
	}
	s, err := place(all[backupText])
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
		mode := fs.FileMode(0o600)
		if strings.HasPrefix(name, "files/") && !strings.Contains(name, "key") || name == backupText {
			mode = 0o644
		}
		if info, err := os.Stat(to); err == nil {
			mode = info.Mode().Perm()
		}
		dir := fs.FileMode(0o755)
		if strings.HasPrefix(to, account.Folder(s.Data)) {
			dir = 0o700
		}
		if err := os.MkdirAll(filepath.Dir(to), dir); err != nil {
			return names, err
		}
		if err := atomicfile.WriteBytes(to, mode, all[name]); err != nil {
			return names, fmt.Errorf("restoring: %w", err)
		}
		names = append(names, to)
	}
	return names, held.Migrate()
}

// readBackup reads a whole backup. It refuses names that lead elsewhere.
func readBackup(r io.Reader) (map[string][]byte, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	t, all, sum := tar.NewReader(z), map[string][]byte{}, int64(0)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		first, rest, _ := strings.Cut(h.Name, "/")
		top, _, _ := strings.Cut(rest, "/")
		good := h.Name == backupText || h.Name == datadir.FormatFile || path.Clean(h.Name) == h.Name && filepath.IsLocal(filepath.FromSlash(h.Name)) && (first == "files" && rest != "" || first == "data" && slices.Contains(kept, top))
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
		all[h.Name] = b.Bytes()
	}
	if all[backupText] == nil {
		return nil, errors.New("there are no settings in it: is it a backup of this program?")
	}
	return all, nil
}
