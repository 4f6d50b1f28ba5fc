package backup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/lib/atomicfile"
)

// A Folder keeps backups on the machine itself: against mistakes, not against the loss of its disk.
type Folder string

// An Entry is a backup in a folder.
type Entry struct {
	Name  string    `json:"name"`
	At    time.Time `json:"at"`
	Bytes int64     `json:"bytes"`
	Sent  bool      `json:"sent,omitempty"` // it was sent here, and waits for a decision
}

// KeptIn is the name of the folder below the data folder, and mostKept how many it holds: the oldest
// goes when there is one more.
const (
	KeptIn   = "backups"
	mostKept = 10
)

var entryName = regexp.MustCompile(`^\d{8}T\d{6}Z(-sent)?\.backup$`)

// adding lets one name be chosen and taken at a time.
var adding sync.Mutex

// Add keeps a backup, and drops the oldest ones.
func (f Folder) Add(now time.Time, sent bool, write func(io.Writer) error) (e Entry, err error) {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return e, fmt.Errorf("making the folder of backups: %w", err)
	}
	adding.Lock()
	defer adding.Unlock()
	e = Entry{At: now.UTC().Truncate(time.Second), Sent: sent}
	path := ""
	// A backup of the same second takes the name of the next free one: it replaces none.
	for ; ; e.At = e.At.Add(time.Second) {
		e.Name = e.At.Format("20060102T150405Z")
		if sent {
			e.Name += "-sent"
		}
		e.Name += ".backup"
		path = filepath.Join(string(f), e.Name)
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			break
		} else if err != nil {
			return e, fmt.Errorf("keeping a backup: %w", err)
		}
	}
	if err := atomicfile.Write(path, 0o600, func(w *os.File) error { return write(w) }); err != nil {
		return e, fmt.Errorf("keeping a backup: %w", err)
	}
	if info, err := os.Stat(path); err == nil {
		e.Bytes = info.Size()
	}
	all, err := f.All()
	// The new one stays even if the clock says that it is older than the others.
	all = slices.DeleteFunc(all, func(o Entry) bool { return o.Name == e.Name })
	for _, old := range all[min(len(all), mostKept-1):] {
		err = errors.Join(err, f.Remove(old.Name))
	}
	return e, err
}

// All returns the backups, the newest first.
func (f Folder) All() (all []Entry, err error) {
	files, err := os.ReadDir(string(f))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, file := range files {
		m := entryName.FindStringSubmatch(file.Name())
		if m == nil {
			continue
		}
		at, bad := time.Parse("20060102T150405Z", file.Name()[:16])
		info, gone := file.Info()
		if bad != nil || gone != nil {
			continue
		}
		all = append(all, Entry{Name: file.Name(), At: at, Bytes: info.Size(), Sent: m[1] != ""})
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(b.Name, a.Name) })
	return all, err
}

// ErrNotKept reports that there is no backup of that name.
var ErrNotKept = errors.New("no backup of that name is kept here")

// Open opens a backup by its name.
func (f Folder) Open(name string) (*os.File, error) {
	if !entryName.MatchString(name) {
		return nil, ErrNotKept
	}
	r, err := os.Open(filepath.Join(string(f), name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrNotKept
	}
	return r, err
}

// Remove removes a backup.
func (f Folder) Remove(name string) error {
	if !entryName.MatchString(name) {
		return ErrNotKept
	}
	err := os.Remove(filepath.Join(string(f), name))
	if errors.Is(err, os.ErrNotExist) {
		return ErrNotKept
	}
	return err
}
