package exchange

import (
	"bytes"
	"strings"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/proxy/held"
	"shuultuur/proxy/saved"
)

// This file keeps bodies that checks must know to their end. Such a body is released only when
// it was judged as a whole. What memory has no room for goes to a file, within proxy.downloads
// and proxy.inspected. A body that cannot be kept passes piece by piece as it is judged; the
// checks report it as unread first, so that rules decide whether it passes.

// A store has the beginning of a body in a file.
type store struct {
	file  *saved.File
	room  *saved.Room // claimed but not yet for a file
	end   int64       // position up to which the body is, or was, in the file
	at    int64       // position up to which the reader has read it
	block []byte      // for the reader
	after [][]byte    // released and in memory, to be read after the file
}

// left returns the number of stored bytes before a position that were not read.
func (s *store) left(to int64) int64 { return max(0, min(to, s.end)-s.at) }

// read makes the next stored bytes before a position ready.
func (s *store) read(i *Inspector, to int64, ready *message.MemoryBody) error {
	if s.block == nil {
		s.block = i.budget.Block(held.Large)
	}
	n, err := s.file.ReadAt(s.block[:min(held.Large, s.left(to))], s.at)
	if n == 0 {
		return err
	}
	s.at += int64(n)
	ready.Set(s.block[:n])
	return nil
}

// take returns the file to an owner who reads the stored bytes from there; nil if there is none.
func (s *store) take() *saved.File {
	f := s.file
	s.file, s.at = nil, s.end
	return f
}

func (s *store) free(i *Inspector) {
	if s.file != nil {
		s.file.Drop()
	}
	if s.room != nil {
		s.room.Give()
	}
	if s.block != nil {
		i.budget.Free(s.block)
	}
	clear(s.after)
	*s = store{after: s.after[:0]}
}

// keep tells the checks, before they are asked first, whether the body is kept for them.
func (b *inspection) keep() {
	_, done, _, _ := b.state()
	_, of, _ := b.content.Inspected()
	switch {
	case !done && b.isEndless():
		return
	case of > b.x.in.decoded:
		b.content.Wait.PassOn(content.TooLarge)
		return
	}
	b.content.Wait.Keep(b.pieces)
}

// isEndless reports whether the body may have no end: pictures that replace one another, lines of an
// upload, sound and video without an announced length. Nothing in it can be started, because it is
// what its label says.
func (b *inspection) isEndless() bool {
	b.mu.Lock()
	known := b.left >= 0
	first := b.hold.Slices(nil, 0, b.hold.End)
	b.mu.Unlock()
	h := b.content.Head()
	switch {
	case h.IsStream():
		return len(first) > 0 && bytes.HasPrefix(bytes.TrimLeft(first[0], "\r\n"), []byte("--"))
	case known:
		return false
	case h.Lines():
		return b.stage == filter.RequestBody
	}
	return isMedia(h.Type()) && isMedia(b.content.SniffedType())
}

func isMedia(typ string) bool {
	return strings.HasPrefix(typ, "audio/") || strings.HasPrefix(typ, "video/")
}

// pieces returns the bytes shown to the checks, from the first.
func (b *inspection) pieces(yield func([]byte, error) bool) {
	if f := b.store.file; f != nil {
		block := b.x.in.budget.Block(held.Large)
		defer b.x.in.budget.Free(block)
		for at := int64(0); at < b.store.end; {
			n, err := f.ReadAt(block[:min(held.Large, b.store.end-at)], at)
			if n == 0 {
				yield(nil, err)
				return
			}
			if at += int64(n); !yield(block[:n], nil) {
				return
			}
		}
	}
	b.mu.Lock()
	rest := b.hold.Slices(nil, b.store.end, b.seen)
	b.mu.Unlock()
	for _, p := range rest {
		if !yield(p, nil) {
			return
		}
	}
}

// storeMore moves the body up to a position, to which it was judged, to the file. If that is
// impossible, the body is judged again, as one that passes on.
func (b *inspection) storeMore(end int64) {
	why := content.AllRead
	if end >= b.x.in.decoded {
		why = content.TooLarge
	} else if err := b.write(end); err != nil {
		why = content.NoCapacity
		b.x.in.counters[downloadsFull].Add(1)
		b.note(err.Error())
	}
	if why != content.AllRead {
		b.content.Wait.PassOn(why)
		b.judged, b.awaited = 0, false
		return
	}
	b.mu.Lock()
	b.most = b.x.in.held + held.Large // the last block stays until it is full
	if b.trickles {
		b.first = b.keepFirst(b.first)
	}
	b.mu.Unlock()
	b.drop(end)
}

// write appends the body up to a position to the file.
func (b *inspection) write(end int64) error {
	s, files := &b.store, b.x.in.saved
	if files == nil {
		return saved.ErrFull
	}
	if s.file == nil {
		if s.room == nil {
			b.mu.Lock()
			n := end + max(b.left, 0)
			b.mu.Unlock()
			if s.room = files.Claim(&b.t.Client, n); s.room == nil {
				return saved.ErrFull
			}
		}
		f, err := s.room.Create()
		if err != nil {
			return err
		}
		s.file, s.room = f, nil
	}
	b.mu.Lock()
	b.vec = b.hold.Slices(b.vec[:0], s.end, end)
	b.mu.Unlock()
	defer clear(b.vec)
	for _, p := range b.vec {
		if _, err := s.file.Write(p); err != nil {
			return err
		}
		s.end += int64(len(p))
	}
	return nil
}

// passOn tells the checks that the body is released before its end.
func (b *inspection) passOn() {
	if b.content.Wait.Kept() {
		b.content.Wait.PassOn(content.AllRead)
	}
}
