package source

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"shuultuur/lib/atomicfile"
	"shuultuur/lib/datadir"
	"shuultuur/lib/platform"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/list/files"
)

const (
	kept     = 3            // older versions kept beside the one in use
	current  = "current"    // the link to the version in use
	stateOf  = "state.json" // file of a list's state
	seenFile = "seen"       // a download whose effect was shown, see [Store.Newer]
	keepSeen = 15 * time.Minute
	// trialTime bounds how long reading a version may take: five million names take seconds.
	trialTime = 10 * time.Minute
	stampFmt  = "20060102T150405.000000000Z"

	// wholeAfter is how long the word of a server that nothing has changed is enough.
	wholeAfter = 7 * 24 * time.Hour
)

// A Store keeps fetched content, in a folder for each list.
type Store struct {
	Dir    string
	Client *http.Client
	// Progress, if not nil, is called with how many bytes of a list have arrived, and of how
	// many; -1 if unknown.
	Progress func(name string, done, total int64)

	wait time.Duration // before the second attempt
	turn chan struct{} // holds an element while a version is tried; nil: any number at once
}

// In returns the store in the gateway's data folder.
func In(data string, client *http.Client) *Store {
	return &Store{Dir: filepath.Join(data, "sources"), Client: client}
}

// A State describes a fetched list.
type State struct {
	Checked      time.Time // when its server was last asked, successfully or not
	Problem      string    // why the last update failed, or ""
	Failures     int       `json:",omitempty"` // updates in a row that failed
	Later        time.Time `json:",omitzero"`  // before which the server does not want to be asked
	Awaited      time.Time `json:",omitzero"`  // since when there is no version to use; zero if there is one
	Whole        time.Time `json:",omitzero"`  // when the server last gave its content, and not only its word that it is unchanged
	URL          string    // the first address of the list
	From         string    `json:",omitempty"` // the address to which the next two belong
	ETag         string
	LastModified string
	Busy         map[string]time.Time `json:",omitempty"` // before which an address does not want to be asked
	Refused      map[string]refusal   `json:",omitempty"` // by address
	// Format and Categories are those of the first version from this URL. Later versions are read
	// in that format, and name no others.
	Format     list.FormatName `json:",omitempty"`
	Categories []string        `json:",omitempty"`
	Versions   []Version       // newest first
	Seen       *preview        `json:",omitempty"` // what was fetched to be looked at
}

// A preview describes a download that was looked at and not yet used.
type preview struct {
	At  time.Time
	URL string
	download
}

// IsOld reports whether something was looked at so long ago that it is fetched again.
func (p *preview) IsOld() bool { return p != nil && time.Since(p.At).Abs() > keepSeen }

// A Version is one content of a list.
type Version struct {
	File     string // in the folder of the list
	Fetched  time.Time
	URL      string // where it came from
	Modified string // from the server, "" if it gave none
	Bytes    int64
	SHA256   string
	Key      string `json:",omitempty"` // that has signed it, as the settings had it
	Entries  int    // of all kinds
	Lines    int    `json:",omitempty"` // with content; 0 for a version of an older release
	Refused  int    `json:",omitempty"` // of these lines
	// Categories of the list; none are kept if there are more than 1,000.
	Categories []string `json:",omitempty"`
	Left       bool     // rolled back from, and not to be used again
	Current    bool     `json:"-"`
}

// Path returns the file that the list called name is compiled from. It is a link, and missing
// while nothing has been fetched.
func (s *Store) Path(name string) string { return filepath.Join(s.Dir, name, current) }

// State returns the state of the list called name.
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
		return State{}, &badState{fmt.Errorf("reading %s: %w; it is written again when the list is fetched", file, err)}
	}
	inUse, _ := os.Readlink(s.Path(name)) // missing: no version is in use
	for i := range st.Versions {
		v := &st.Versions[i]
		if v.File != filepath.Base(v.File) || v.File == current {
			return State{}, &badState{fmt.Errorf("reading %s: %q is not a file of this folder; it is written again when the list is fetched", file, v.File)}
		}
		v.Current = v.File == inUse
	}
	return st, nil
}

// A badState is a damaged state. The next update writes a new one.
type badState struct{ error }

// stateOrNew returns the state of the list called name, a new one if it is damaged.
func (s *Store) stateOrNew(name string) (State, error) {
	st, err := s.State(name)
	if bad := (*badState)(nil); errors.As(err, &bad) {
		return State{}, nil
	}
	return st, err
}

// inUse returns the version in use, or nil.
func (st *State) inUse() *Version {
	i := slices.IndexFunc(st.Versions, func(v Version) bool { return v.Current })
	if i < 0 {
		return nil
	}
	return &st.Versions[i]
}

// A Change is the result of an update.
type Change struct {
	Updated bool // there is a new version in use
	Was     int  // entries before
	Version      // in use now
}

// Update fetches a newer version of the item called name and puts it into use if it is good.
// After an error the version in use stays, and the State has the error.
func (s *Store) Update(ctx context.Context, name string, it Item) (Change, error) {
	unlock, err := s.lock(name)
	if err != nil {
		return Change{}, err
	}
	defer unlock()
	st, err := s.stateOrNew(name)
	if err != nil {
		return Change{}, err
	}
	st.noteSource(it.Source)
	if now := time.Now().UTC(); (st.inUse() == nil || it.Damaged && it.InUse == "") && (st.Awaited.IsZero() || st.Awaited.After(now)) {
		st.Awaited = now
		if err := s.save(name, st); err != nil { // its server may take long to answer
			return Change{}, err
		}
	}
	c, err := s.update(ctx, name, it, &st)
	if err == nil {
		st.Awaited = time.Time{}
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w", it.kind(), name, err)
		err = openError{err}
		if ctx.Err() != nil {
			return c, err // cancelled, which says nothing about the list
		}
		st.Problem = err.Error()
		if st.Failures++; unreached(err) {
			st.Failures = min(st.Failures, 3) // nobody was troubled, and the network may be back any time
		}
	} else {
		st.Problem, st.Failures = "", 0
	}
	st.Checked, st.Later = time.Now().UTC(), time.Time{}
	var busy busyError
	if errors.As(err, &busy) {
		st.Later = st.Checked.Add(busy.after)
	}
	return c, errors.Join(err, s.save(name, st))
}

// Seed puts a file into use as the first version of the item called name, as if it had just
// been fetched. An item with versions stays unchanged.
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
	c, err := it.try(ctx, kept, nil)
	if err != nil {
		return errors.Join(err, os.Remove(kept))
	}
	v.describe(c)
	st.noteSource(src)
	st.fix(c)
	st.Awaited = time.Time{}
	st.Versions = []Version{v}
	if err := s.save(name, st); err != nil {
		return err
	}
	return s.use(name, v.File)
}

// Newer fetches a newer version of the item called name, and hands its file to look. It reports
// whether there is a newer version. The version in use stays. An Update in the next 15 minutes
// uses the same file, so that what was looked at comes into use and is fetched once.
func (s *Store) Newer(ctx context.Context, name string, it Item, look func(file string) error) (bool, error) {
	unlock, err := s.lock(name)
	if err != nil {
		return false, err
	}
	defer unlock()
	st, err := s.stateOrNew(name)
	if err != nil {
		return false, err
	}
	st.noteSource(it.Source)
	f, err := os.CreateTemp(filepath.Join(s.Dir, name), "new-*.tmp")
	if err != nil {
		return false, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	v, d, err := s.newer(ctx, name, it, &st, f, false)
	if err != nil {
		return false, openError{err}
	}
	if v == nil {
		return false, nil
	}
	file := filepath.Join(s.Dir, name, seenFile)
	if err := os.Rename(f.Name(), file); err != nil {
		return false, err
	}
	st.Seen = &preview{time.Now().UTC(), it.Source.Place(), d}
	if err := s.save(name, st); err != nil {
		return false, err
	}
	return true, look(file)
}

// Seen returns the file that was looked at last, if an Update from src would use it.
func (s *Store) Seen(name string, src Source) (file string, ok bool) {
	st, err := s.State(name)
	file = filepath.Join(s.Dir, name, seenFile)
	if err != nil || st.Seen == nil || st.Seen.URL != src.Place() || st.Seen.IsOld() {
		return "", false
	}
	return file, files.CheckDigest(file, st.Seen.SHA256) == nil
}

// reusePreview copies what was looked at into f, if it is what a fetch of src would give.
func (s *Store) reusePreview(name string, src Source, st *State, f *os.File) (d download, ok bool) {
	k := st.Seen
	if k == nil || k.URL != src.Place() || k.IsOld() {
		return d, false
	}
	from, err := os.Open(filepath.Join(s.Dir, name, seenFile))
	if err != nil {
		return d, false
	}
	defer from.Close()
	n, err := io.Copy(f, from)
	return k.download, err == nil && n == k.Size
}

// noteSource notes where the next version comes from.
func (st *State) noteSource(src Source) {
	if st.URL != src.Place() {
		st.URL, st.From, st.ETag, st.LastModified = src.Place(), "", "", ""
		st.Busy, st.Refused = nil, nil
		st.Format, st.Categories = "", nil
	}
}

// fix keeps what the first version is taken for.
func (st *State) fix(c Content) {
	if st.Format == "" {
		st.Format, st.Categories = c.As, c.Categories
	}
}

func (v *Version) describe(c Content) {
	v.Entries, v.Lines, v.Refused, v.Categories = c.Entries, c.Lines, c.Bad, c.Categories
}

// tryVersion tries what was fetched, unless it is known already.
func (s *Store) tryVersion(ctx context.Context, name string, it Item, st *State, f *os.File, d download) (*Version, error) {
	src, old := it.Source, st.inUse()
	if err := files.CheckContent(f.Name()); err != nil {
		return nil, fmt.Errorf("fetching it from %s: %w", src.here(), err)
	}
	lost := old != nil && s.damaged(name, old) != nil
	// Known already: the one in use, or one that was rolled back from.
	for _, k := range st.Versions {
		if k.SHA256 == d.SHA256 && (k.Current && !lost || k.Left && old != nil) {
			st.From, st.ETag, st.LastModified = d.From, d.ETag, d.LastModified
			return nil, nil
		}
	}
	v := &Version{File: time.Now().UTC().Format(stampFmt), Fetched: time.Now().UTC(), URL: src.Place(), Modified: d.LastModified, Bytes: d.Size, SHA256: d.SHA256, Current: true}
	if s.turn != nil {
		select {
		case s.turn <- struct{}{}:
			defer func() { <-s.turn }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	limited, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	c, err := it.try(limited, f.Name(), old)
	switch {
	case err != nil && ctx.Err() == nil && limited.Err() != nil:
		return nil, fmt.Errorf("reading it takes longer than %v; refused", trialTime)
	case err != nil:
		return nil, err
	}
	v.describe(c)
	st.fix(c)
	return v, nil
}

func (s *Store) update(ctx context.Context, name string, it Item, st *State) (Change, error) {
	dir := filepath.Join(s.Dir, name)
	old := st.inUse()
	f, err := os.CreateTemp(dir, "new-*.tmp")
	if err != nil {
		return Change{}, err
	}
	defer os.Remove(f.Name()) // already renamed if it was taken
	defer f.Close()
	v, d, err := s.newer(ctx, name, it, st, f, true)
	if err == nil && st.Seen != nil {
		err = os.Remove(filepath.Join(dir, seenFile))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	st.Seen = nil
	if err != nil {
		return Change{}, err
	}
	if v == nil {
		return Change{Was: old.Entries, Version: *old}, nil
	}
	if err := errors.Join(f.Chmod(0o644), atomicfile.Sync(f), f.Close()); err != nil {
		return Change{}, err
	}
	if err := atomicfile.Rename(f.Name(), filepath.Join(dir, v.File)); err != nil {
		return Change{}, err
	}
	c := Change{Updated: true, Version: *v}
	if old != nil {
		c.Was = old.Entries
		old.Current = false
		if s.damaged(name, old) != nil { // nobody can return to it
			st.Versions = slices.DeleteFunc(st.Versions, func(k Version) bool { return k.File == old.File })
		}
	}
	st.Versions = slices.Insert(st.Versions, 0, *v)
	// The version is recorded before it is in use.
	if err := s.save(name, *st); err != nil {
		return Change{}, err
	}
	if err := s.use(name, v.File); err != nil {
		return Change{}, err
	}
	s.removeUnrecorded(name, st)
	st.From, st.ETag, st.LastModified = d.From, d.ETag, d.LastModified
	s.prune(name, st)
	return c, nil
}

// mayStayUnchanged reports whether the server may answer that nothing has changed: our version
// is from there, still exists, and meets the settings.
func (s *Store) mayStayUnchanged(name string, src Source, st *State) bool {
	v := st.inUse()
	if v == nil || v.URL != src.Place() || src.SHA256 != "" && v.SHA256 != src.SHA256 || src.key != nil && v.Key != src.key.text {
		return false
	}
	_, err := os.Stat(s.Path(name))
	return err == nil
}

// use changes the link to a version, atomically.
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

// prune removes all versions except the newest and the one in use.
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
		return err == nil || errors.Is(err, fs.ErrNotExist) // otherwise it stays recorded until next time
	})
}

// removeUnrecorded removes versions that the state does not have: those that were damaged, and those
// of a state that was.
func (s *Store) removeUnrecorded(name string, st *State) {
	entries, _ := os.ReadDir(filepath.Join(s.Dir, name))
	for _, e := range entries {
		_, err := time.Parse(stampFmt, e.Name())
		if err == nil && e.Type().IsRegular() && !slices.ContainsFunc(st.Versions, func(v Version) bool { return v.File == e.Name() }) {
			os.Remove(filepath.Join(s.Dir, name, e.Name()))
		}
	}
}

// Rollback puts the version before the one in use into use. The abandoned one is not used
// again when it is fetched; a newer one is.
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
	v, err := s.older(name, &st)
	if err != nil {
		return Version{}, err
	}
	st.inUse().Left = true
	if err := s.save(name, st); err != nil {
		return Version{}, err
	}
	return *v, s.use(name, v.File)
}

// OlderVersion returns the file of the version that Rollback would put into use.
func (s *Store) OlderVersion(name string) (string, error) {
	st, err := s.State(name)
	if err != nil {
		return "", err
	}
	v, err := s.older(name, &st)
	if err != nil {
		return "", err
	}
	return filepath.Join(s.Dir, name, v.File), nil
}

// older returns the version before the one in use.
func (s *Store) older(name string, st *State) (*Version, error) {
	at := slices.IndexFunc(st.Versions, func(v Version) bool { return v.Current })
	for i := at + 1; at >= 0 && i < len(st.Versions); i++ {
		v := &st.Versions[i]
		if !v.Left && s.damaged(name, v) == nil {
			return v, nil
		}
	}
	return nil, fmt.Errorf("%s has no older version", name)
}

// save writes the state atomically.
func (s *Store) save(name string, st State) error {
	data, err := json.MarshalIndent(st, "", "\t")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(s.Dir, name, stateOf), 0o644, append(data, '\n'))
}

// lock locks the folder of a list for this process, so that the gateway and the command line
// do not update it at the same time.
func (s *Store) lock(name string) (unlock func(), err error) {
	dir := filepath.Join(s.Dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := platform.TryLock(f, false); err != nil {
		f.Close()
		if errors.Is(err, platform.ErrLocked) {
			err = fmt.Errorf("%s is being updated by another process", name)
		}
		return nil, err
	}
	// Leftovers of a killed update; none is running now.
	left, _ := filepath.Glob(filepath.Join(dir, "new-*"))
	for _, l := range left {
		os.RemoveAll(l)
	}
	return func() {
		f.Close()
		datadir.GiveToOwner(s.Dir)
	}, nil
}

// Empty compiles a list without entries to dst, in place of one that was not fetched yet. It
// has the list's categories, so that rules can name them.
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

// Times between attempts to fetch an item.
const (
	firstAgain = 5 * time.Second // while there is no version; twice as long after each failure, up to:
	lastAgain  = 10 * time.Minute
	badAgain   = time.Hour // while the newest version cannot be had or used
)

// Due reports whether to fetch the list now: it was never fetched, its URL has changed, or
// src.Every has passed, a quarter of it or half an hour more or less by part (in [0, 1]), so that many
// gateways do not fetch in step. While there is a problem the interval is an hour, and while there is no
// version seconds at first, unless Every is less. A server that wants to be asked later is. A
// time in the future was a fault of the clock.
func (st State) Due(src Source, part float64, now time.Time) bool {
	if st.Checked.IsZero() || st.URL != src.Place() {
		return true
	}
	return !st.isLater(now) && (now.Before(st.Checked) || now.Sub(st.Checked) >= st.interval(src, part))
}

// isLater reports whether the server does not want to be asked now.
func (st State) isLater(now time.Time) bool {
	left := st.Later.Sub(now)
	return left > 0 && left <= pauseAtMost
}

// interval returns the time from one attempt to the next.
func (st State) interval(src Source, part float64) time.Duration {
	every := src.Every
	switch {
	case st.inUse() == nil && st.Failures > 0:
		every = min(every, lastAgain, firstAgain<<min(st.Failures-1, 10))
	case st.inUse() == nil:
		every = min(every, lastAgain)
	case st.Problem != "":
		every = min(every, badAgain)
	}
	spread := every / 2
	if every >= time.Hour {
		spread = max(spread, time.Hour)
	}
	return every - spread/2 + time.Duration(part*float64(spread))
}
