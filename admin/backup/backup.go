// Package backup writes the configuration of a gateway into one file, and
// restores it: the settings as settings.yaml; the files that they name in the
// same folder, under files/; and the data folder, under data/, except for what
// the table [kept] names with a reason. format.json has the format
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
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/admin/account"
	"shuultuur/lib/atomicfile"
	"shuultuur/lib/datadir"
	"shuultuur/lib/platform"
)

// Bounds of a backup.
const (
	maxBackupFile = 64 << 20 // of one file
	maxBackup     = 1 << 30  // of all
	backupText    = "settings.yaml"
)

// kept has what is where in the data folder, besides the events, whose places the settings name: the
// names as patterns of [path.Match] for a path or for a folder above it, or after ANY for the last
// part of a path. left says why a backup does not contain it. What has no row is in a backup, too.
var kept = []struct{ name, what, left string }{
	{"ANY *lock", "locks", "they belong to a running process"},
	{"ANY *-wal", "a part of the database beside it", "the database is copied whole"},
	{"ANY *-shm", "a part of the database beside it", "the database is copied whole"},
	{"ANY *-journal", "a part of the database beside it", "the database is copied whole"},
	{"ANY *.tmp", "files that are being written", "they are not complete"},
	{"accounts", "accounts with their passkeys and codes, sessions, tokens and the audit log", ""},
	{"alerts.json", "alerts", ""},
	{KeptIn, "backups", "they are backups themselves"},
	{"bundles", "what the fleet runs, and what this desk offers", ""},
	{"cache", "responses", "they are stored again"},
	{"certificate", "the certificate of the listeners, and the account at its authority", ""},
	{"clock-*.json", "when rows were last deleted by the clock", ""},
	{"datasets", "what signature rules have saved", ""},
	{"directory-answers.json", "what a directory has said of people and their groups", ""},
	{"downloads", "downloads in progress", "they belong to requests"},
	{"instructions", "pauses, decisions, sign-ins and what remains of quotas", ""},
	{"last-good", "copies of the files that the settings name", "they are made at the next start"},
	{"lists/*.list", "compiled lists", "they are compiled again; changes by hand are in other files"},
	{"lists", "changes of lists by hand", ""},
	{"quotas.json", "names of policies with quotas", ""},
	{"reports.json", "which reports were sent", ""},
	{"restore.*", "a backup that is being restored, and what it replaces", "it is a backup itself"},
	{datadir.KeyFile, "the key that signs tokens", ""},
	{"samples", "bodies on which checks failed", "they are a record of people's browsing"},
	{"sign-ins.json", "people who have signed in at a provider, of whose groups it is asked again", ""},
	{"sources", "lists and rules as they were fetched", "they are fetched again"},
	{"spool", "events that wait for a server", "they are a record of people's browsing"},
	{"state.bin", "learned verdicts, and what was used of quotas", ""},
	{"used-tickets", "tickets that have been used", "older ones than the last would be taken twice"},
	{"versions", "versions of the settings and of zones", ""},
	{"votes", "votes that wait to be counted", ""},
	{"votes.db*", "votes and decisions", ""},
	{"zones", "zones that were transferred, and keys and signatures", ""},
	{datadir.FormatFile, "the format of the folder", "the backup has its own"},
}

// match returns what a file of the data folder is, and why a backup does not contain it.
func match(name string) (what, left string) {
	for at := name; at != "."; at = path.Dir(at) {
		for _, k := range kept {
			last, any := strings.CutPrefix(k.name, "ANY ")
			ok, _ := path.Match(k.name, at)
			if any {
				ok, _ = path.Match(last, path.Base(at))
			}
			if ok {
				return k.what, k.left
			}
		}
	}
	return "", ""
}

// Kept returns what the gateway keeps in a file of the data folder, "" if it keeps nothing there.
func Kept(name string) string {
	what, _ := match(name)
	return what
}

// whyOmitted returns why a file of the data folder is not in a backup, "" if it is.
func whyOmitted(name string) string {
	_, left := match(name)
	return left
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

// Contents says what is in a backup.
type Contents struct {
	Held []string // what it holds, in words, each once
	Left []string // files that it omitted although they belong in it: those in other folders and those of more than 64 MiB
}

// hold notes what a backup holds.
func (c *Contents) hold(what string) {
	if what != "" && !slices.Contains(c.Held, what) {
		c.Held = append(c.Held, what)
	}
}

// Write writes a backup to w, and says what is in it. It refuses a data folder in a newer format.
func Write(w io.Writer, s Source) (c Contents, err error) {
	format, err := formatOf(s.Data)
	if err != nil {
		return c, err
	}
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	add := func(name string, text []byte, mode fs.FileMode, owner names) error {
		if err := t.WriteHeader(&tar.Header{Name: name, Mode: int64(mode.Perm()), Uname: owner.user, Gname: owner.group, Size: int64(len(text)), ModTime: time.Now(), Typeflag: tar.TypeReg}); err != nil {
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
			c.Left = append(c.Left, from)
			return nil
		}
		text, err := read(from)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("backing up %s: %w", from, err)
		}
		return add(name, text, info.Mode(), ownerOf(info))
	}
	if err := add(backupText, s.Text, cmp.Or(s.Mode, 0o600), names{}); err != nil {
		return c, err
	}
	if err := add(datadir.FormatFile, format, 0o600, names{}); err != nil {
		return c, err
	}
	c.hold("the settings")
	added := map[string]bool{}
	for _, named := range s.Files {
		err := eachFile(named, func(from string) error {
			if added[from] || isBelow(from, s.Data) {
				return nil
			}
			added[from] = true
			name, err := filepath.Rel(s.Dir, from)
			if err != nil || !filepath.IsLocal(name) {
				c.Left = append(c.Left, from)
				return nil
			}
			c.hold("the files beside the settings that belong to them")
			return addFile("files/"+filepath.ToSlash(name), from)
		})
		if err != nil {
			return c, err
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
		c.hold(cmp.Or(Kept(name), "other files of the data folder"))
		return addFile("data/"+name, from)
	})
	if err != nil {
		return c, err
	}
	return c, errors.Join(t.Close(), z.Close())
}

// names are the names of a file's owner and group; "" if they are not known.
type names struct{ user, group string }

func ownerOf(info fs.FileInfo) (n names) {
	uid, gid, ok := platform.Owner(info)
	if !ok {
		return n
	}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		n.user = u.Username
	}
	if g, err := user.LookupGroupId(strconv.Itoa(gid)); err == nil {
		n.group = g.Name
	}
	return n
}

// give gives a restored file to the owner that it had, if root restores it and the machine knows the
// owner: a key that the gateway cannot read is not restored. Folders are for the files in them.
func (n names) give(path string) {
	u, err := user.Lookup(n.user)
	if n.user == "" || os.Geteuid() != 0 || err != nil {
		return
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return
	}
	gid, _ := strconv.Atoi(u.Gid)
	if g, err := user.LookupGroup(n.group); err == nil {
		gid, _ = strconv.Atoi(g.Gid)
	}
	_ = os.Lchown(path, uid, gid) // if it fails, the gateway says that it cannot read the file
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

// A Backup is one that was read, by [Read].
type Backup struct {
	all    map[string]restored
	format datadir.Format
}

// Read reads a whole backup. It refuses one that leads elsewhere, and one in a newer format.
func Read(r io.Reader) (*Backup, error) {
	all, err := readBackup(r)
	if err != nil {
		return nil, fmt.Errorf("reading the backup: %w", err)
	}
	b := &Backup{all, datadir.Format{Number: 1}} // older backups have no format
	if file, ok := all[datadir.FormatFile]; ok {
		if b.format, err = datadir.ParseFormat(file.text); err != nil {
			return nil, fmt.Errorf("reading the backup: %s: %w", datadir.FormatFile, err)
		}
	}
	return b, b.format.Known("the backup")
}

// Text returns the settings in the backup.
func (b *Backup) Text() []byte { return b.all[backupText].text }

// SetText has other settings restored.
func (b *Backup) SetText(text []byte) {
	f := b.all[backupText]
	f.text = text
	b.all[backupText] = f
}

// Pack writes the backup as [Write] does.
func (b *Backup) Pack(w io.Writer) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(b.all)) {
		f := b.all[name]
		if err := t.WriteHeader(&tar.Header{Name: name, Mode: int64(f.mode), Uname: f.owner.user, Gname: f.owner.group, Size: int64(len(f.text)), ModTime: time.Now(), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		if _, err := t.Write(f.text); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// Unpack writes the files of the backup below dir, for a look before they are restored: in files what
// belongs beside the settings, in data what belongs into the data folder. Only this user may read them.
func (b *Backup) Unpack(dir string) error {
	for name, f := range b.all {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(to, f.text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Restore restores a backup by [Write]: the settings as file, the other files
// beside it and in the data folder, at s. It replaces existing files. No gateway may
// use the data folder. A backup in an older format is converted.
func (b *Backup) Restore(file string, s Place) (written []string, err error) {
	if err := datadir.Check(s.Data); err != nil {
		return nil, err
	}
	held := datadir.Folder{Dir: s.Data}
	if err := held.Take(); err != nil {
		return nil, fmt.Errorf("restoring needs the gateway to be stopped: %w", err)
	}
	defer held.Close()
	if err := held.Note(b.format); err != nil { // until all of it is in our format
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(b.all)) {
		if name == datadir.FormatFile {
			continue
		}
		to := file
		if sub, ok := strings.CutPrefix(name, "files/"); ok {
			to = filepath.Join(s.Dir, filepath.FromSlash(sub))
		} else if sub, ok := strings.CutPrefix(name, "data/"); ok {
			to = filepath.Join(s.Data, filepath.FromSlash(sub))
		}
		if err := b.restore(name, to, s); err != nil {
			return written, err
		}
		written = append(written, to)
	}
	err = held.Migrate()
	datadir.GiveToOwner(s.Data)
	return written, err
}

// restore restores one file.
func (b *Backup) restore(name, to string, s Place) error {
	dir := fs.FileMode(0o755)
	switch {
	case isBelow(to, account.Folder(s.Data)), isBelow(to, filepath.Join(s.Data, "versions")):
		dir = 0o700
	case isBelow(to, s.Data):
		dir = 0o750
	}
	var fresh []string // folders
	for at := filepath.Dir(to); ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		fresh = append(fresh, at)
	}
	if err := os.MkdirAll(filepath.Dir(to), dir); err != nil {
		return err
	}
	mode := b.all[name].mode
	if info, err := os.Stat(to); err == nil && name == backupText {
		mode = info.Mode().Perm() // of this machine: its gateway may be another user
	}
	for _, beside := range [...]string{"-wal", "-shm", "-journal"} { // of the database that is replaced, of a process that did not end it
		if err := os.Remove(to + beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("restoring: %w", err)
		}
	}
	if err := atomicfile.WriteBytes(to, mode, b.all[name].text); err != nil {
		return fmt.Errorf("restoring: %w", err)
	}
	for _, path := range append(fresh, to) {
		b.all[name].owner.give(path)
	}
	return nil
}

// A restored is a file in a backup.
type restored struct {
	text  []byte
	mode  fs.FileMode
	owner names
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
		all[h.Name] = restored{b.Bytes(), fs.FileMode(h.Mode) & 0o755, names{h.Uname, h.Gname}}
	}
	// The sum of all is behind the end that tar sees.
	if _, err := io.Copy(io.Discard, io.LimitReader(z, maxBackupFile)); err != nil {
		return nil, fmt.Errorf("the end of it: %w", err)
	}
	if all[backupText].text == nil {
		return nil, errors.New("there are no settings in it: is it a backup of this program?")
	}
	return all, nil
}
