package sqlite

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"shuultuur/lib/platform"
)

// magic begins every database of SQLite; the version of our schema follows at versionAt.
const (
	magic      = "SQLite format 3\x00"
	versionAt  = 60
	headerSize = 100
)

// errNoDatabase is errForeign for a file that is no database at all, or no longer.
var errNoDatabase = fmt.Errorf("%w", errForeign)

var errForeign = errors.New("it is not a database of events, and stays as it is: name another file, or move this one away")

// Check returns the error that [Open] would for a file, as far as that is known without writing.
// It opens no file for writing and creates none: neither the database nor the files that SQLite
// keeps beside it.
func Check(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = platform.Writable(filepath.Dir(path))
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("it is not a file: name one")
	default:
		if err = platform.Writable(path); err == nil && info.Size() > 0 {
			err = recognise(path)
		}
	}
	if err != nil {
		return fmt.Errorf("open event database %q: %w", path, err)
	}
	return nil
}

// recognise returns an error for a file that is no database of events.
func recognise(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var head [headerSize]byte
	if n, err := f.ReadAt(head[:], 0); n < headerSize || string(head[:len(magic)]) != magic {
		if err != nil && n == 0 {
			return err
		}
		return errNoDatabase
	}
	if v := int64(binary.BigEndian.Uint32(head[versionAt:])); v > version {
		return checkVersion(v)
	}
	// An immutable file is read without its write-ahead log and its locks, which would be written.
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&immutable=1")
	if err != nil {
		return err
	}
	defer db.Close()
	var all, ours int
	err = db.QueryRow("SELECT count(*), count(CASE WHEN name = 'event' THEN 1 END) FROM sqlite_schema WHERE type = 'table'").Scan(&all, &ours)
	if err == nil && all > 0 && ours == 0 {
		return errForeign
	}
	return nil // another process may be writing: opening the database finds faults in it
}
