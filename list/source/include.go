package source

import (
	"bufio"
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"shuultuur/list/adblock"
	"shuultuur/list/files"
)

// Bounds of what a list of an ad blocker includes.
const (
	mostIncludes = 100
	deepest      = 5 // lists that a list is included by
)

// An includer writes a list with those that it includes in the place of the lines that name them.
type includer struct {
	s     *Store
	name  string
	src   Source
	dir   string
	w     *bufio.Writer
	seen  map[string]bool
	n     int
	left  int64 // bytes that may still be included
	taken bool  // something was included
}

// include replaces the lines of f that name other lists by those lists. A line that leads to another
// server, repeats a list or exceeds a bound stays, and is reported when the list is read. A checksum
// or a signature is of the list alone, so such a list includes nothing.
func (s *Store) include(ctx context.Context, name string, it Item, d download, f *os.File) (download, error) {
	src := it.Source
	if !it.Includes || src.SHA256 != "" || src.Sums != "" || src.key != nil {
		return d, nil
	}
	at, err := url.Parse(src.address())
	if err != nil {
		return d, permanentError{err}
	}
	text, err := textOf(f)
	if text == nil || err != nil {
		return d, err
	}
	out, err := os.CreateTemp(filepath.Dir(f.Name()), "new-*.tmp")
	if err != nil {
		return d, permanentError{err}
	}
	defer os.Remove(out.Name())
	defer out.Close()
	x := &includer{s: s, name: name, src: src, dir: filepath.Dir(f.Name()), w: bufio.NewWriter(out), seen: map[string]bool{at.String(): true}, left: src.Limit}
	if err := x.write(ctx, text, at, 0); err != nil || !x.taken {
		return d, err
	}
	if err := x.w.Flush(); err != nil {
		return d, permanentError{err}
	}
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		return d, permanentError{err}
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return d, permanentError{err}
	}
	if err := f.Truncate(0); err != nil {
		return d, permanentError{err}
	}
	long, short := sha256.New(), md5.New()
	if d.Size, err = io.Copy(io.MultiWriter(f, long, short), out); err != nil {
		return d, permanentError{err}
	}
	d.SHA256, d.MD5 = hex.EncodeToString(long.Sum(nil)), hex.EncodeToString(short.Sum(nil))
	d.ETag, d.LastModified = "", "" // of one of several files, which says nothing about the others
	return d, nil
}

// textOf returns the text of a file that includes others, nil for one that includes none, or is none
// of an ad blocker.
func textOf(f *os.File) (io.Reader, error) {
	open := func() (*bufio.Reader, error) {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, permanentError{err}
		}
		r, err := files.Unpack(f)
		if err != nil {
			return nil, nil //nolint:nilerr // the trial says it
		}
		return bufio.NewReaderSize(r, files.MaxLine), nil
	}
	br, err := open()
	if br == nil || err != nil {
		return nil, err
	}
	if head, _ := br.Peek(512); files.IsTar(head) || bytes.HasPrefix(head, []byte("PK\x03\x04")) {
		return nil, nil
	}
	for begins := true; ; {
		line, err := br.ReadSlice('\n')
		if _, ok := adblock.Included(bytes.TrimSpace(line)); ok && begins {
			return open()
		}
		if begins = err == nil; err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, nil
		}
	}
}

// write writes the list at an address, and what it includes.
func (x *includer) write(ctx context.Context, r io.Reader, at *url.URL, depth int) error {
	br, ok := r.(*bufio.Reader)
	if !ok || br.Size() < files.MaxLine {
		br = bufio.NewReaderSize(r, files.MaxLine)
	}
	if bom, _ := br.Peek(3); depth > 0 && string(bom) == "\ufeff" {
		br.Discard(3)
	}
	var blocks adblock.Conditions
	for begins := true; ; {
		line, err := br.ReadSlice('\n')
		if begins {
			done, failed := x.directive(ctx, &blocks, line, at, depth)
			if failed != nil {
				return failed
			}
			if done {
				line = nil
			}
		}
		if depth > 0 {
			if x.left -= int64(len(line)); x.left < 0 {
				return permanentError{fmt.Errorf("what it includes is more than the limit of %d bytes", x.src.Limit)}
			}
		}
		if _, err := x.w.Write(line); err != nil {
			return permanentError{err}
		}
		if begins = err == nil; err == io.EOF {
			return x.end(&blocks, depth)
		}
		if err != nil && err != bufio.ErrBufferFull {
			return permanentError{err}
		}
	}
}

// directive reads a line about blocks or another list. It reports whether the line is done.
func (x *includer) directive(ctx context.Context, blocks *adblock.Conditions, line []byte, at *url.URL, depth int) (done bool, err error) {
	line = bytes.TrimSpace(line)
	if named, ok := adblock.Included(line); ok {
		if !blocks.Hold() {
			return false, nil
		}
		return x.follow(ctx, named, at, depth)
	}
	_, wrong := blocks.Read(line)
	// A block ends in the list in which it begins.
	return depth > 0 && wrong != nil && !bytes.HasPrefix(line, []byte("!#if")), nil
}

// end ends a list that was included, so that what follows it stays as it is.
func (x *includer) end(blocks *adblock.Conditions, depth int) error {
	if depth == 0 {
		return nil
	}
	x.w.WriteByte('\n')
	for blocks.Open() {
		x.w.WriteString("!#endif\n")
		blocks.Read([]byte("!#endif"))
	}
	return nil
}

// follow includes the list that a line of the list at an address names. It reports false if the
// line is out of bounds, or if the server has no such list; the rest of the list is usable. A server that
// cannot be asked now is an error, so that the version in use stays.
func (x *includer) follow(ctx context.Context, named string, at *url.URL, depth int) (bool, error) {
	ref, err := url.Parse(named)
	if err != nil {
		return false, nil //nolint:nilerr // the line is reported
	}
	to := at.ResolveReference(ref)
	to.Fragment = ""
	switch key := to.String(); {
	case ref.User != nil || !strings.EqualFold(to.Host, at.Host) || to.Scheme != at.Scheme && (to.Scheme != "https" || at.Scheme != "http"):
		return false, nil
	case x.seen[key] || x.n >= mostIncludes || depth >= deepest:
		return false, nil
	default:
		x.seen[key] = true
	}
	x.n++
	f, err := os.CreateTemp(x.dir, "new-*.tmp")
	if err != nil {
		return false, permanentError{err}
	}
	defer os.Remove(f.Name())
	defer f.Close()
	src := x.src
	src.URL, src.mirror, src.Limit, src.stays = to.String(), "", x.left, true
	_, err = x.s.fetch(ctx, x.name, src, validators{}, f)
	var busy busyError
	switch {
	case err != nil && (!isFinal(err) || errors.As(err, &busy) || ctx.Err() != nil):
		return false, fmt.Errorf("fetching %s, which it includes: %w", src.here(), err)
	case err != nil || files.CheckContent(f.Name()) != nil:
		return false, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return false, permanentError{err}
	}
	r, err := files.Unpack(f)
	if err != nil {
		return false, nil //nolint:nilerr // the line is reported
	}
	br := bufio.NewReaderSize(r, files.MaxLine)
	if head, _ := br.Peek(512); files.IsTar(head) || bytes.HasPrefix(head, []byte("PK\x03\x04")) {
		return false, nil
	}
	x.taken = true
	return true, x.write(ctx, br, to, depth+1)
}
