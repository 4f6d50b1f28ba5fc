package source

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"shuultuur/atomicfile"
	"shuultuur/list"
	"shuultuur/setting"
)

const (
	kept     = 3            // older versions, beside the one in use
	current  = "current"    // the link to the version in use
	stateOf  = "state.json" // of one list
	stampFmt = "20060102T150405.000000000Z"
)

// A Store keeps what was fetched, in a folder for each list.
type Store struct {
	Dir    string
	Client *http.Client
	// Progress, if not nil, is told how many bytes of a list have come, and of
	// how many; -1 when that is not known.
	Progress func(name string, done, total int64)

	wait time.Duration // before the second attempt
}

// In returns the store in the folder of the gateway's data.
func In(data string, client *http.Client) *Store {
	return &Store{Dir: filepath.Join(data, "sources"), Client: client}
}

// A State is what is known about one list that is fetched.
type State struct {
	Checked      time.Time // when its server was last asked, in vain or not
	Problem      string    // why the last update failed, "" if it did not
	URL          string    // that was asked, and what the next two are about
	ETag         string
	LastModified string
	Versions     []Version // newest first
}

// A Version is one content of a list.
type Version struct {
	File     string // in the folder of the list
	Fetched  time.Time
	URL      string // where it is from
	Modified string // as the server said, "" if it did not
	Bytes    int64
	SHA256   string
	Entries  int // of any kind
	// Categories it has; none are kept of a list with more than 1,000.
	Categories []string `json:",omitempty"`
	Left       bool     // it was rolled back from, and is not taken again
	Current    bool     `json:"-"`
}

// Path is the file that the list called name is compiled from. It is a link,
// and is missing while nothing has been fetched.
func (s *Store) Path(name string) string { return filepath.Join(s.Dir, name, current) }

// State returns what is known of the list called name.
func (s *Store) State(name string) (st State, err error) {
	file := filepath.Join(s.Dir, name, stateOf)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return st, nil
	}
	if err != nil {
		return st, err
	}
	if err := json.Unmarshal(data, &st); err != nil {
		return st, fmt.Errorf("%s: %w; delete the file, and the list is fetched anew", file, err)
	}
	inUse, _ := os.Readlink(s.Path(name)) // missing: none is in use
	for i := range st.Versions {
		v := &st.Versions[i]
		if v.File != filepath.Base(v.File) || v.File == current {
			return State{}, fmt.Errorf("%s: %q is not a file of this folder", file, v.File)
		}
		v.Current = v.File == inUse
	}
	return st, nil
}

// inUse returns the version in use, or nil.
func (st *State) inUse() *Version {
	i := slices.IndexFunc(st.Versions, func(v Version) bool { return v.Current })
	if i < 0 {
		return nil
	}
	return &st.Versions[i]
}

// A Change says what an update did.
type Change struct {
	Taken   bool // there is a new version in use
	Was     int  // entries before
	Version      // in use now
}

// Update asks for a newer version of what is called name and takes it into use
// if it is good. On an error the version in use stays, and the State has the
// error too.
func (s *Store) Update(ctx context.Context, name string, it Item) (Change, error) {
	unlock, err := s.lock(name)
	if err != nil {
		return Change{}, err
	}
	defer unlock()
	st, err := s.State(name)
	if err != nil {
		return Change{}, err
	}
	if src := it.Source; st.URL != src.Place() {
		st.URL, st.ETag, st.LastModified = src.Place(), "", ""
	}
	c, err := s.update(ctx, name, it, &st)
	if err != nil {
		err = fmt.Errorf("%s %s: %w", it.kind(), name, err)
		if ctx.Err() != nil {
			return c, err // stopped, which says nothing about the list
		}
		st.Problem = err.Error()
	} else {
		st.Problem = ""
	}
	st.Checked = time.Now().UTC()
	return c, errors.Join(err, s.save(name, st))
}

// Seed takes a file into use as the first version of what is called name, as if
// it had been fetched just now. What has versions stays as it is.
func (s *Store) Seed(ctx context.Context, name string, it Item, file string) error {
	src := it.Source
	unlock, err := s.lock(name)
	if err != nil {
		return err
	}
	defer unlock()
	st, err := s.State(name)
	if err != nil || len(st.Versions) > 0 {
		return err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	v := Version{File: time.Now().UTC().Format(stampFmt), Fetched: time.Now().UTC(), URL: src.Place(), Bytes: int64(len(content)), SHA256: fmt.Sprintf("%x", sha256.Sum256(content)), Current: true}
	kept := filepath.Join(s.Dir, name, v.File)
	if err := atomicfile.WriteBytes(kept, 0o644, content); err != nil {
		return err
	}
	if v.Entries, v.Categories, err = it.try(ctx, kept, nil); err != nil {
		return errors.Join(err, os.Remove(kept))
	}
	st.URL, st.Versions = src.Place(), []Version{v}
	if err := s.save(name, st); err != nil {
		return err
	}
	return s.use(name, v.File)
}

func (s *Store) update(ctx context.Context, name string, it Item, st *State) (Change, error) {
	src, dir := it.Source, filepath.Join(s.Dir, name)
	old := st.inUse()
	f, err := os.CreateTemp(dir, "new-*.tmp")
	if err != nil {
		return Change{}, err
	}
	defer os.Remove(f.Name()) // gone already when it was taken
	defer f.Close()
	asked := *st
	if !s.fits(name, src, st) {
		asked = State{}
	}
	var d download
	err = s.retry(ctx, func(ctx context.Context) error {
		d, err = s.fetch(ctx, name, src, asked, f)
		return err
	})
	if err != nil {
		return Change{}, fmt.Errorf("fetching it: %w", err)
	}
	if d.unchanged && old != nil {
		return Change{Was: old.Entries, Version: *old}, nil
	}
	err = s.verify(ctx, src, d)
	if err == nil {
		err = s.signed(ctx, src, f)
	}
	if err != nil {
		return Change{}, fmt.Errorf("fetching it from %s: %w", src.Place(), err)
	}
	// Known already: the one in use, or one that somebody went back from.
	for _, v := range st.Versions {
		if v.SHA256 == d.sha256 && (v.Current || v.Left && old != nil) {
			st.ETag, st.LastModified = d.etag, d.lastModified
			return Change{Was: old.Entries, Version: *old}, nil
		}
	}
	v := Version{File: time.Now().UTC().Format(stampFmt), Fetched: time.Now().UTC(), URL: src.Place(), Modified: d.lastModified, Bytes: d.size, SHA256: d.sha256, Current: true}
	if v.Entries, v.Categories, err = it.try(ctx, f.Name(), old); err != nil {
		return Change{}, err
	}
	if err := errors.Join(f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return Change{}, err
	}
	if err := atomicfile.Rename(f.Name(), filepath.Join(dir, v.File)); err != nil {
		return Change{}, err
	}
	c := Change{Taken: true, Version: v}
	if old != nil {
		c.Was = old.Entries
		old.Current = false
	}
	st.Versions = slices.Insert(st.Versions, 0, v)
	// The version is on record before it is in use.
	if err := s.save(name, *st); err != nil {
		return Change{}, err
	}
	if err := s.use(name, v.File); err != nil {
		return Change{}, err
	}
	st.ETag, st.LastModified = d.etag, d.lastModified
	s.prune(name, st)
	return c, nil
}

// fits says whether the server may answer that nothing has changed: when what
// we have is from there, is still here, and is what the settings want.
func (s *Store) fits(name string, src Source, st *State) bool {
	v := st.inUse()
	if v == nil || v.URL != src.Place() || src.SHA256 != "" && v.SHA256 != src.SHA256 {
		return false
	}
	_, err := os.Stat(s.Path(name))
	return err == nil
}

// use makes the link to a version, at once.
func (s *Store) use(name, file string) error {
	tmp := s.Path(name) + ".tmp"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(file, tmp); err != nil {
		return err
	}
	return atomicfile.Rename(tmp, s.Path(name))
}

// prune removes all but the newest versions and the one in use.
func (s *Store) prune(name string, st *State) {
	older := 0
	st.Versions = slices.DeleteFunc(st.Versions, func(v Version) bool {
		if v.Current {
			return false
		}
		if older++; older <= kept {
			return false
		}
		err := os.Remove(filepath.Join(s.Dir, name, v.File))
		return err == nil || errors.Is(err, fs.ErrNotExist) // else on record until next time
	})
}

// Rollback takes the version before the one in use into use. The one that is
// left is not taken again when it is fetched; a newer one is.
func (s *Store) Rollback(name string) (Version, error) {
	unlock, err := s.lock(name)
	if err != nil {
		return Version{}, err
	}
	defer unlock()
	st, err := s.State(name)
	if err != nil {
		return Version{}, err
	}
	at := slices.IndexFunc(st.Versions, func(v Version) bool { return v.Current })
	for i := at + 1; at >= 0 && i < len(st.Versions); i++ {
		v := &st.Versions[i]
		if _, err := os.Stat(filepath.Join(s.Dir, name, v.File)); err != nil || v.Left {
			continue
		}
		st.Versions[at].Left = true
		if err := s.save(name, st); err != nil {
			return Version{}, err
		}
		return *v, s.use(name, v.File)
	}
	return Version{}, fmt.Errorf("%s has no older version to go back to", name)
}

// save writes the state so that it is there whole or as before.
func (s *Store) save(name string, st State) error {
	data, err := json.MarshalIndent(st, "", "\t")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(s.Dir, name, stateOf), 0o644, append(data, '\n'))
}

// lock takes the folder of a list for this process, so that the gateway and
// the command line do not update it at the same time.
func (s *Store) lock(name string) (unlock func(), err error) {
	dir := filepath.Join(s.Dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("%s is being updated by another process", name)
		}
		return nil, err
	}
	// What an update that was killed has left; none is at work now.
	left, _ := filepath.Glob(filepath.Join(dir, "new-*"))
	for _, l := range left {
		os.RemoveAll(l)
	}
	return func() { f.Close() }, nil
}

// Empty compiles a list without entries to dst, which stands in for one that
// has not been fetched yet: with its categories, so that rules can name them.
func (s *Store) Empty(ctx context.Context, name string, src Source, cfg list.Config, dst string) error {
	dir := filepath.Join(s.Dir, name, "empty")
	as := list.Config{Format: list.UT1, Path: setting.Source(dir)}
	folders := src.Categories
	if len(folders) == 0 {
		folders, as.Category = []string{"all"}, cmp.Or(cfg.Category, name)
	}
	for _, c := range folders {
		if err := os.MkdirAll(filepath.Join(dir, c), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, c, "domains"), nil, 0o644); err != nil {
			return err
		}
	}
	_, err := list.Compile(ctx, name, as, dst)
	return err
}

// Due says whether the list should be asked for now: never before, another
// address than the last time, or longer ago than src.Every and a part (in
// [0, 1]) of a tenth of it, so that many gateways do not ask in step. While
// there is a problem that is an hour, and while there is no version at all ten
// minutes, unless Every is less.
func (st State) Due(src Source, part float64, now time.Time) bool {
	every := src.Every
	switch {
	case st.inUse() == nil:
		every = min(every, 10*time.Minute)
	case st.Problem != "":
		every = min(every, time.Hour)
	}
	every += time.Duration(part * float64(every) / 10)
	return st.Checked.IsZero() || st.URL != src.Place() || now.Sub(st.Checked) >= every
}
