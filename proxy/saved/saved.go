// Package saved has the files in which bodies wait for their verdict: what memory has no room for, and
// downloads that are kept for their client afterwards. A file is created for bytes that were claimed
// before, grows while it is written, and is read as the body of a response. Its name is removed from
// the file system at once, so that nothing is left when the program ends.
package saved

import (
	"crypto/rand"
	"errors"
	"io"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/fair"
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
//
// An address, and a user at any of them, may hold three times what it leaves to others: the first three
// quarters of all, the next one three quarters of the rest. So none takes what others have to have, and
// a single client can keep a large download.
type Files struct {
	folder string
	most   int64 // limit for all files

	mu   sync.Mutex
	all  usage
	each map[holder]usage
	of   map[string]*File
}

// A usage is what is held.
type usage struct {
	bytes int64
	files int64
}

// A holder is an address, as [fair.Client] has it, or a user.
type holder struct {
	addr netip.Addr
	user string
}

// leaves is how many times as much as it leaves to others a client may hold.
const leaves = 3

// New returns an empty set of files in a folder, which have room for most bytes. It is made when the
// first file is.
func New(folder string, most int64) *Files {
	return &Files{folder: folder, most: most, each: map[holder]usage{}}
}

// Used returns the number of bytes that are claimed, and of open files.
func (s *Files) Used() (bytes int64, open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.bytes, int(s.all.files)
}

// take takes room for holders, unless one of them has its share.
func (s *Files) take(by []holder, more usage) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	fits := func(has, more, all, most int64) bool {
		return more == 0 || has+more <= leaves*(most-all-more)
	}
	for _, h := range by {
		has := s.each[h]
		if !fits(has.bytes, more.bytes, s.all.bytes, s.most) || !fits(has.files, more.files, s.all.files, mostFiles) {
			return false
		}
	}
	s.add(by, more.bytes, more.files)
	return true
}

// add counts what holders have more, or less. s.mu is held.
func (s *Files) add(by []holder, bytes, files int64) {
	s.all.bytes += bytes
	s.all.files += files
	for _, h := range by {
		u := s.each[h]
		u.bytes += bytes
		u.files += files
		if u == (usage{}) {
			delete(s.each, h)
		} else {
			s.each[h] = u
		}
	}
}

// A Room is claimed and not yet a file's. Create makes the file, or Give returns the room.
type Room struct {
	of    *Files
	by    []holder
	bytes int64
}

// Claim takes n bytes for a client. It returns nil if there is no room, or if the client has its share.
func (s *Files) Claim(c *filter.Client, n int64) *Room {
	r := &Room{of: s, by: []holder{{addr: fair.Client(c.Addr)}}, bytes: n}
	if c.User != "" {
		r.by = append(r.by, holder{user: c.User})
	}
	if !s.take(r.by, usage{bytes: n}) {
		return nil
	}
	return r
}

// Give returns the room.
func (r *Room) Give() {
	r.of.mu.Lock()
	r.of.add(r.by, -r.bytes, 0)
	r.of.mu.Unlock()
}

// A File holds a body, or its beginning. One goroutine writes it; when it is complete, any may read it.
type File struct {
	room Room // what is claimed for it
	f    *os.File
	size int64 // bytes in it
	err  error // error of writing it

	Client filter.Client  // for whom it is kept
	Fields message.Fields // of the response with the download

	refs int // guarded by room.of.mu: 1 while it is kept, plus 1 for each client reading it
}

// Create makes an empty file in the room. After an error, the room is still to be given.
func (r *Room) Create() (*File, error) {
	s := r.of
	if !s.take(r.by, usage{files: 1}) {
		return nil, ErrFull
	}
	err := os.MkdirAll(s.folder, 0o700)
	var f *os.File
	if err == nil {
		f, err = os.CreateTemp(s.folder, "download-")
	}
	if err != nil {
		s.mu.Lock()
		s.add(r.by, 0, -1)
		s.mu.Unlock()
		return nil, err
	}
	_ = os.Remove(f.Name()) // where open files keep their names, drop removes it
	return &File{room: *r, f: f, refs: 1}, nil
}

// Write appends to the file.
func (f *File) Write(p []byte) (int, error) {
	if r := &f.room; f.size+int64(len(p)) > r.bytes {
		more := max(int64(len(p)), Step)
		if !r.of.take(r.by, usage{bytes: more}) {
			return 0, ErrFull
		}
		r.bytes += more
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
	s := f.room.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.refs--; f.refs > 0 {
		return
	}
	f.f.Close()
	_ = os.Remove(f.f.Name())
	s.add(f.room.by, -f.room.bytes, -1)
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
