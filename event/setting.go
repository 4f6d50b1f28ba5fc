package event

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"shuultuur/lib/setting"
)

// A Setting is what the settings have under the key of a store: a value that is not the zero
// value of its type. The folder of each store declares its own; the table of them is in
// event/record.
type Setting interface {
	// Open opens the stores that the setting names, mostly one. On trial it finds the mistakes
	// that it otherwise would, and returns no store that it had to write for.
	Open(o Opening) ([]Store, error)
}

// A Readable is a [Setting] whose store can be asked beside a running gateway.
type Readable interface {
	// Look opens the store for reading. The returned function closes it.
	Look(o Opening) (Reader, func() error, error)
}

// A Placed is a [Setting] whose store keeps a file or a folder.
type Placed interface {
	// Place returns its path, which may be relative to the data folder; "" if it is elsewhere.
	Place() string
}

// An Opening is what stores are opened with besides their settings.
type Opening struct {
	Data  string        // folder of the gateway; relative paths are below it
	Keep  time.Duration // age at which rows are deleted
	Trial bool          // open nothing for writing, and create nothing
	Lines Codec         // for stores that keep events as lines of text
	Every time.Duration // time between two batches
}

// OpenFile opens the store that keeps the named file. On trial it only checks the file; the data
// folder need not exist yet.
func (o Opening) OpenFile(name string, check func(path string) error, open func(path string) (Store, error)) ([]Store, error) {
	path := setting.Path(o.Data, name)
	if o.Trial {
		if _, err := os.Stat(o.Data); errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) == filepath.Clean(o.Data) {
			return nil, nil
		}
		return nil, check(path)
	}
	return Only(open(path))
}

// Only returns the one store of a setting.
func Only[S Store](s S, err error) ([]Store, error) {
	if err != nil {
		return nil, err
	}
	return []Store{s}, nil
}
