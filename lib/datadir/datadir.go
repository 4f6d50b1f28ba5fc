// Package datadir manages the folder in which a gateway keeps its data. The folder belongs to
// one process at a time: a lock tells other processes, and names the owner for the command
// that requests an upgrade. The key in the folder signs tokens that clients return, and
// survives a restart. A format file lets older and newer programs recognise the format.
package datadir

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"shuultuur/lib/atomicfile"
	"shuultuur/lib/platform"
)

// KeyFile is the name of the signing key in the folder.
const KeyFile = "secret.key"

// lockFile is locked while a gateway runs, and describes it.
const lockFile = "lock"

// A Folder is the data folder of this process.
type Folder struct {
	Dir  string
	Key  []byte   // 32 bytes; signs tokens that clients return
	lock *os.File // nil: another process may have the folder
}

// Open creates the folder and its key if needed, and locks the folder for this process, so that
// two gateways do not write to the same files.
//
// A folder in a newer format than this program knows is refused before anything is written.
// One in an older format is migrated.
func Open(dir string) (*Folder, error) {
	f := &Folder{Dir: dir}
	if err := f.Take(); err != nil {
		return nil, err
	}
	var err error
	if f.Key, err = key(filepath.Join(dir, KeyFile)); errors.Is(err, fs.ErrNotExist) {
		f.Key = newKey()
		err = atomicfile.WriteBytes(filepath.Join(dir, KeyFile), 0o600, f.Key)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Look reads the key of a folder that another process may have, and writes nothing. A folder
// without a key, or that does not exist yet, gets one that is forgotten.
func Look(dir string) (*Folder, error) {
	f := &Folder{Dir: dir}
	if err := Check(dir); err != nil {
		return nil, err
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("the data folder %s is a file: name a folder", dir)
	}
	var err error
	if f.Key, err = key(filepath.Join(dir, KeyFile)); errors.Is(err, fs.ErrNotExist) {
		f.Key, err = newKey(), nil
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Take locks the folder for this process, creating it if needed, and migrates it to the
// current format. The lock ends with the process, however that ends.
func (f *Folder) Take() error {
	if err := Check(f.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(f.Dir, 0o750); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(f.Dir, lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	if err := platform.TryLock(lock, false); err != nil {
		lock.Close()
		if errors.Is(err, platform.ErrLocked) {
			err = fmt.Errorf("%s is in use by another gateway; give this one a data folder of its own", f.Dir)
		}
		return err
	}
	f.lock = lock
	if err := f.Migrate(); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.RecordHolder(Holder{Process: os.Getpid()})
}

func newKey() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails (crypto/rand)
	return key
}

// key reads the signing key.
func key(file string) ([]byte, error) {
	key, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the signing key: %w", err)
	}
	if len(key) != 32 {
		return nil, fmt.Errorf("%s: the signing key has %d bytes instead of 32; delete the file and a new one is made", file, len(key))
	}
	info, err := os.Stat(file)
	if err != nil || !platform.Open(info.Mode()) {
		return key, err
	}
	// A file system without modes, such as FAT, gives the folder to one user by its mount.
	if dir, err := os.Stat(filepath.Dir(file)); err != nil || platform.Open(dir.Mode()) {
		return nil, fmt.Errorf("%s: others may read the signing key (mode %04o); chmod 600 it, or where the file system has no modes, mount it with umask=077 and the gateway's user (uid=)", file, info.Mode().Perm())
	}
	return key, nil
}

// Close unlocks the folder.
func (f *Folder) Close() error {
	lock := f.lock
	if f.lock = nil; lock == nil {
		return nil
	}
	return lock.Close()
}

// A Holder describes the process that uses a data folder, from its lock.
type Holder struct {
	Process int    `json:"process"`           // process ID
	Serving bool   `json:"serving"`           // it accepts clients
	Refused int64  `json:"refused,omitempty"` // failed upgrades
	Why     string `json:"why,omitempty"`     // why the last one failed
}

// RecordHolder records who uses the folder, for the command that requests an upgrade. It does nothing
// unless this process has taken the folder.
func (f *Folder) RecordHolder(h Holder) error {
	if f.lock == nil {
		return nil
	}
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	info, err := f.lock.Stat()
	if err != nil {
		return fmt.Errorf("noting who uses the data folder: %w", err)
	}
	// One write overwrites everything, so the file always has a note.
	b = append(b, bytes.Repeat([]byte(" "), max(0, int(info.Size())-len(b)-1))...)
	_, err = f.lock.WriteAt(append(b, '\n'), 0)
	return err
}

// readNote reads the holder of a folder from its lock. A note counts only if it is read twice
// alike, because it may be read while half written.
func readNote(lock *os.File, h *Holder) error {
	var last []byte
	for end := time.Now().Add(time.Second); ; {
		b, err := io.ReadAll(io.NewSectionReader(lock, 0, 64<<10))
		if err != nil {
			return err
		}
		*h = Holder{}
		err = json.Unmarshal(b, h)
		if err == nil && bytes.Equal(b, last) || time.Now().After(end) {
			return err
		}
		last = b
	}
}

// ErrFree says that no gateway uses a data folder.
var ErrFree = errors.New("no gateway runs with these settings")

// HolderOf returns who uses the data folder dir.
func HolderOf(dir string) (h Holder, err error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, ErrFree
	}
	if err != nil {
		return h, err
	}
	defer f.Close()
	if err := platform.TryLock(f, true); err == nil {
		return h, ErrFree
	}
	if err := readNote(f, &h); err != nil {
		return h, fmt.Errorf("%s does not say which process uses it (%w); is that one older than the command \"upgrade\"? Restart it once", path, err)
	}
	return h, nil
}
