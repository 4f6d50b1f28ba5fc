package zone

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"shuultuur/lib/atomicfile"
)

// copies are the last good copies of zone files, used at a start when a file is bad or
// missing. Each is a zone file without includes, in a folder of the gateway, named after the
// original path. "" is no folder.
type copies struct{ folder string }

// path returns the path of the copy of a zone file.
func (c copies) path(of string) string {
	if abs, err := filepath.Abs(of); err == nil {
		of = abs
	}
	return filepath.Join(c.folder, FileName(of))
}

// has reports whether a zone file has a copy.
func (c copies) has(of string) bool {
	_, err := os.Stat(c.path(of))
	return c.folder != "" && err == nil
}

// zoneFilesIn lists the zone files that were in a folder when they were copied.
func (c copies) zoneFilesIn(folder string) (files []string) {
	if c.folder == "" {
		return nil
	}
	if abs, err := filepath.Abs(folder); err == nil {
		folder = abs
	}
	entries, err := os.ReadDir(c.folder)
	if err != nil {
		return nil // there are no copies
	}
	for _, e := range entries {
		if of, err := url.PathUnescape(e.Name()); err == nil && filepath.Dir(of) == folder {
			files = append(files, of)
		}
	}
	return files
}

// read reads the copy of a source, and returns its time.
func (c copies) read(s *source) (*Zone, time.Time, error) {
	if c.folder == "" {
		return nil, time.Time{}, os.ErrNotExist
	}
	f, err := os.Open(c.path(string(s.Path)))
	if err != nil {
		return nil, time.Time{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, time.Time{}, err
	}
	z, err := Read(bufio.NewReader(f), s.Origin, "") // without a file name, so that it cannot include files
	if err != nil {
		return nil, time.Time{}, err
	}
	z.View, z.Clients = s.View, s.Clients
	return z, info.ModTime(), nil
}

// damaged returns why the file of a source looks damaged beside its copy, although it can be read:
// half a zone is a zone without half its names. Files with includes are copied in another form.
func (c copies) damaged(s *source) error {
	if c.folder == "" || len(s.stamps) > 1 {
		return nil
	}
	return atomicfile.Damaged(string(s.Path), c.path(string(s.Path)))
}

// write copies the file of a source, unless the copy is current or the file has changed since
// it was read.
func (c copies) write(s *source) error {
	if c.folder == "" {
		return nil
	}
	latest := time.Time{}
	for _, st := range s.stamps {
		if st.time.After(latest) {
			latest = st.time
		}
	}
	path := c.path(string(s.Path))
	if info, err := os.Stat(path); err == nil && info.ModTime().Equal(latest) {
		return nil
	}
	if err := os.MkdirAll(c.folder, 0o750); err != nil {
		return err
	}
	err := atomicfile.Write(path, 0o600, func(f *os.File) error {
		err := s.copyTo(f)
		if err == nil {
			err = os.Chtimes(f.Name(), latest, latest)
		}
		return err
	})
	if errors.Is(err, errChanged) {
		return nil // it will be read and copied again
	}
	return err
}

var errChanged = errors.New("the file has changed")

// copyTo writes the zone as it was read: the file itself, or if it has includes, its records.
func (s *source) copyTo(w io.Writer) error {
	paths := make([]string, len(s.stamps))
	for i, st := range s.stamps {
		paths[i] = st.path
	}
	if len(paths) == 1 {
		f, err := os.Open(paths[0])
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := io.Copy(w, f); err != nil {
			return err
		}
	} else {
		z, err := ReadFile(string(s.Path), s.Origin)
		if err != nil {
			return err
		}
		out := bufio.NewWriter(w)
		for _, rr := range z.Records {
			if _, err := fmt.Fprintln(out, RecordText(rr)); err != nil {
				return err
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	if !same(stampsOf(paths), s.stamps) {
		return errChanged
	}
	return nil
}

// remove deletes the copy of a source.
func (c copies) remove(s *source) {
	if c.folder != "" {
		_ = os.Remove(c.path(string(s.Path))) // it may not exist
	}
}
