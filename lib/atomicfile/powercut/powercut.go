// Package powercut shows what a power failure may leave of a folder.
//
// A [Disk] follows the files below a folder. What was written and not synced may be on the disk or not,
// sector by sector and in any order: [Disk.Cut] chooses at random for each sector which of its contents
// since the last sync of the file is there, for each file how long it is, and for the names in all folders
// how many of the changes since the last sync of a folder are. It writes a folder with what it chose. A
// file system keeps its changes of names in order, as a journal does; contents have none.
//
// The Disk sees a write when it is told to look ([Disk.Look]), and at each sync of this process that goes
// through package atomicfile.
package powercut

import (
	"bytes"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"shuultuur/lib/atomicfile"
)

const sector = 512

// A Disk follows a folder.
type Disk struct {
	t    testing.TB
	root string

	// Synced, if set, is called around each sync below the folder: before it has any effect, and after.
	Synced func()

	mu    sync.Mutex
	files []*file
	names []map[string]*file // of all files by path: as they were synced, and after each change since
}

// A file is followed for as long as a name may lead to it.
type file struct {
	open  *os.File // keeps its number from being used again
	info  fs.FileInfo
	now   []byte
	mode  fs.FileMode
	older map[int][][]byte // contents that a sector had since the last sync, the synced one first
	sizes []int            // that the file had since then
}

// Follow follows the folder root until the test, or stop, ends it. Only one Disk is followed at a time.
func Follow(t testing.TB, root string) (d *Disk, stop func()) {
	d = &Disk{t: t, root: root}
	d.mu.Lock()
	d.look()
	for _, f := range d.files {
		f.sync()
	}
	d.names = d.names[len(d.names)-1:]
	d.mu.Unlock()
	atomicfile.Watch(d.around)
	stop = sync.OnceFunc(func() {
		atomicfile.Watch(nil)
		for _, f := range d.files {
			f.open.Close()
		}
	})
	t.Cleanup(stop)
	return d, stop
}

// around is called for every sync of the process.
func (d *Disk) around(f *os.File, sync func() error) error {
	info, err := f.Stat()
	if err != nil {
		return sync()
	}
	d.mu.Lock()
	d.look()
	at := len(d.names) - 1
	d.mu.Unlock()
	d.said()
	if err := sync(); err != nil {
		return err
	}
	d.mu.Lock()
	if info.IsDir() {
		d.names = d.names[at:]
	} else {
		for _, known := range d.files {
			if os.SameFile(known.info, info) {
				known.sync()
			}
		}
	}
	d.mu.Unlock()
	d.said()
	return nil
}

func (d *Disk) said() {
	if d.Synced != nil {
		d.Synced()
	}
}

// sync makes durable what was last seen of the file.
func (f *file) sync() {
	f.older, f.sizes = map[int][][]byte{}, []int{len(f.now)}
}

// Look notes what was written since the last time.
func (d *Disk) Look() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.look()
}

// look notes the names and contents of all files. The caller holds mu.
func (d *Disk) look() {
	names := map[string]*file{}
	err := filepath.WalkDir(d.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		f := d.known(info)
		if f == nil {
			opened, err := os.Open(path)
			if err != nil {
				return err
			}
			if info, err = opened.Stat(); err != nil {
				return err
			}
			f = &file{open: opened, info: info, mode: info.Mode().Perm(), older: map[int][][]byte{}, sizes: []int{0}}
			d.files = append(d.files, f)
		}
		name, err := filepath.Rel(d.root, path)
		names[name] = f
		return err
	})
	if err != nil {
		d.t.Errorf("looking at the disk: %v", err)
		return
	}
	if n := len(d.names); n == 0 || !maps.Equal(d.names[n-1], names) {
		d.names = append(d.names, names)
	}
	for _, f := range d.files {
		if err := f.look(); err != nil {
			d.t.Errorf("looking at the disk: %v", err)
		}
	}
}

func (d *Disk) known(info fs.FileInfo) *file {
	for _, f := range d.files {
		if os.SameFile(f.info, info) {
			return f
		}
	}
	return nil
}

// look notes what has changed in a file.
func (f *file) look() error {
	info, err := f.open.Stat()
	if err != nil {
		return err
	}
	next := make([]byte, info.Size())
	n, err := f.open.ReadAt(next, 0)
	if n < len(next) && err != nil {
		next = next[:n] // it has become shorter meanwhile
	}
	for at := 0; at < max(len(next), len(f.now)); at += sector {
		was, is := part(f.now, at), part(next, at)
		if !bytes.Equal(was, is) {
			f.older[at] = append(f.older[at], was)
		}
	}
	if len(next) != f.sizes[len(f.sizes)-1] {
		f.sizes = append(f.sizes, len(next))
	}
	f.now = next
	return nil
}

// part returns a sector, with zeros behind the end of the file.
func part(b []byte, at int) []byte {
	s := make([]byte, sector)
	if at < len(b) {
		copy(s, b[at:])
	}
	return s
}

// Cut writes what a power failure leaves at this moment into the folder to, which it makes.
func (d *Disk) Cut(r *rand.Rand, to string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.look()
	names := d.names[r.IntN(len(d.names))]
	// A disk that wrote nothing, or all, is as likely as one that wrote some of it.
	kind := r.IntN(4)
	err := os.MkdirAll(to, 0o750)
	for name, f := range names {
		path := filepath.Join(to, name)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o750)
		}
		if err == nil {
			err = os.WriteFile(path, f.left(r, kind), f.mode)
		}
	}
	if err != nil {
		d.t.Errorf("writing what a power failure leaves: %v", err)
	}
}

// left returns what is left of a file.
func (f *file) left(r *rand.Rand, kind int) []byte {
	size := len(f.now)
	switch {
	case kind == 0:
		size = f.sizes[0]
	case kind > 1:
		size = f.sizes[r.IntN(len(f.sizes))]
	}
	b := make([]byte, size)
	for at := 0; at < size; at += sector {
		was := f.older[at]
		s := part(f.now, at)
		switch {
		case len(was) == 0:
		case kind == 0:
			s = was[0]
		case kind > 1:
			if n := r.IntN(len(was) + 1); n < len(was) {
				s = was[n]
			}
		}
		copy(b[at:], s)
	}
	return b
}
