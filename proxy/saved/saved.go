// Package saved has the files in which bodies wait for their verdict: what memory has no room for, and
// downloads that are kept for their client afterwards. A file is created for bytes that were claimed
// before, grows while it is written, and is read as the body of a response. Its name is removed from
// the file system at once, so that nothing is left when the program ends.
package saved

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
)

const (
	// KeptFor is how long a file is kept for its client.
	KeptFor = 10 * time.Minute
	// mostFiles is the number of files at a time: each is an open file.
	mostFiles = 256
	// Step is the number of further bytes that are claimed at a time if the length is unknown.
	Step = 4 << 20
)

// ErrFull reports that there is no room for a file, or for more of it.
var ErrFull = errors.New("no room to keep the download: proxy.downloads")

// Files counts the bytes in its files, and has those that are kept for clients. It is safe for
// concurrent use.
type Files struct {
	folder string
	most   int64 // limit for all files

	mu   sync.Mutex
	used int64
	open int // files
	of   map[string]*File
}

// Used returns the number of bytes that are claimed, and of open files.
func (s *Files) Used() (bytes int64, open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, s.open
}

// New returns an empty set of files in a folder, which have room for most bytes. It is made when the
// first file is.
func New(folder string, most int64) *Files { return &Files{folder: folder, most: most} }

// Claim takes n bytes, and reports whether there was room.
func (s *Files) Claim(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > s.most-s.used {
		return false
	}
	s.used += n
	return true
}

// Give returns bytes that were claimed and are not for a file.
func (s *Files) Give(n int64) {
	s.mu.Lock()
	s.used -= n
	s.mu.Unlock()
}

// A File holds a body, or its beginning. One goroutine writes it; when it is complete, any may read it.
type File struct {
	of   *Files
	f    *os.File
	size int64 // bytes in it
	held int64 // bytes claimed for it
	err  error // error of writing it

	Client filter.Client  // for whom it is kept
	Fields message.Fields // of the response with the download

	refs int // guarded by of.mu: 1 while it is kept, plus 1 for each client reading it
}

// Create makes an empty file, for which n bytes have been claimed.
func (s *Files) Create(n int64) (*File, error) {
	s.mu.Lock()
	full := s.open >= mostFiles
	if !full {
		s.open++
	}
	s.mu.Unlock()
	if full {
		return nil, ErrFull
	}
	err := os.MkdirAll(s.folder, 0o700)
	var f *os.File
	if err == nil {
		f, err = os.CreateTemp(s.folder, "download-")
	}
	if err != nil {
		s.mu.Lock()
		s.open--
		s.mu.Unlock()
		return nil, err
	}
	_ = os.Remove(f.Name()) // where open files keep their names, drop removes it
	return &File{of: s, f: f, held: n, refs: 1}, nil
}

// Write appends to the file.
func (f *File) Write(p []byte) (int, error) {
	if f.size+int64(len(p)) > f.held {
		more := max(int64(len(p)), Step)
		if !f.of.Claim(more) {
			return 0, ErrFull
		}
		f.held += more
	}
	n, err := f.f.Write(p)
	f.size += int64(n)
	if err != nil {
		f.err = err
		err = ErrFull
	}
	return n, err
}

// Drop releases one reference to the file.
func (f *File) Drop() {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.refs--; f.refs > 0 {
		return
	}
	f.f.Close()
	_ = os.Remove(f.f.Name())
	f.of.used -= f.held
	f.of.open--
}

// Size returns the number of bytes in the file.
func (f *File) Size() int64 { return f.size }

// Err returns the error of writing the file to the disk.
func (f *File) Err() error { return f.err }

// ReadAt implements [io.ReaderAt].
func (f *File) ReadAt(p []byte, off int64) (int, error) { return f.f.ReadAt(p, off) }

// Body returns the file as a body, which closes src with itself, unless src is nil.
func (f *File) Body(src io.Closer) *Body { return &Body{f: f, src: src} }

// Keep keeps the file for its client, and returns its key.
func (s *Files) Keep(f *File) (key string) {
	key = strings.ToLower(rand.Text())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string]*File{}
	}
	s.of[key] = f
	time.AfterFunc(KeptFor, func() {
		s.mu.Lock()
		delete(s.of, key)
		s.mu.Unlock()
		f.Drop()
	})
	return key
}

// Find returns the file under a key, nil if there is none for this client. The caller must drop it.
func (s *Files) Find(key string, c *filter.Client) *File {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.of[key]
	if f == nil || f.Client.Addr != c.Addr || f.Client.User != c.User {
		return nil
	}
	f.refs++
	return f
}

// A Body is a file as the body of a response.
type Body struct {
	f   *File
	off int64
	src io.Closer // source of the file, nil once it is closed
}

// File implements [message.FileBody].
func (b *Body) File() (*os.File, int64) { return b.f.f, b.off }

// Ready implements [message.Body].
func (b *Body) Ready(dst [][]byte) [][]byte { return dst }

// Skip implements [message.Body].
func (b *Body) Skip(n int) { b.off += int64(n) }

// Read implements [message.Body].
func (b *Body) Read(p []byte) (int, error) {
	if b.AtEnd() {
		return 0, io.EOF
	}
	n, err := b.f.f.ReadAt(p[:min(int64(len(p)), b.Remaining())], b.off)
	b.off += int64(n)
	return n, err
}

// Copy implements [message.Body].
func (b *Body) Copy(w io.Writer, most int64) (int64, error) {
	n, err := io.Copy(w, io.NewSectionReader(b.f.f, b.off, min(most, b.Remaining())))
	b.off += n
	return n, err
}

// Remaining implements [message.Body].
func (b *Body) Remaining() int64 { return b.f.size - b.off }

// AtEnd implements [message.Body].
func (b *Body) AtEnd() bool { return b.Remaining() == 0 }

// Trailer implements [message.Body].
func (b *Body) Trailer() message.Fields { return nil }

// Close implements [message.Body].
func (b *Body) Close() error {
	if b.src == nil {
		return nil
	}
	return b.src.Close()
}
