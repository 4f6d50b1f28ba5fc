package simulate

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/zeebo/xxh3"
)

// A Trace is a log with numbers instead of URLs: a file of records of 8 bytes, number and size
// of an object. Objects are numbered from 0.
type Trace struct {
	Requests, Bytes, Objects, Footprint, Skipped int64
	Broken                                       string // why the log breaks off, "" if it does not

	once int64 // objects requested once
	file *os.File
}

// Close removes the trace.
func (t *Trace) Close() error {
	err := t.file.Close()
	return errors.Join(err, os.Remove(t.file.Name()))
}

// eachRequest calls f for every request.
func (t *Trace) eachRequest(ctx context.Context, f func(id uint32, size int64)) error {
	in := bufio.NewReaderSize(io.NewSectionReader(t.file, 0, t.Requests*8), 1<<20)
	var b [8]byte
	for i := range t.Requests {
		if i&0xffff == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return fmt.Errorf("reading the numbered log: %w", err)
		}
		f(binary.LittleEndian.Uint32(b[:]), int64(binary.LittleEndian.Uint32(b[4:])))
	}
	return nil
}

// parts is the number of files to which requests are distributed by the hash of their URL.
// Only the URLs of one part are in memory at a time, as hashes of 128 bits, so that 15 million
// take less than 100 MB.
const parts = 16

// A numberer numbers objects. First every request goes to the part of its URL. Then each part
// is read, its objects are numbered, and each number is stored at the request's position in
// the trace.
type numberer struct {
	files [parts]*os.File
	out   [parts]*bufio.Writer
	t     *Trace
}

// rawSize is the size of a request before it is numbered: position in the trace, hash, size.
const rawSize = 8 + 16 + 4

func newNumberer(temp string) (*numberer, error) {
	n := &numberer{t: &Trace{}}
	create := func() (f *os.File, err error) {
		if f, err = os.CreateTemp(temp, "shuultuur-simulate-"); err != nil {
			return nil, fmt.Errorf("sorting the log: %w", err)
		}
		return f, nil
	}
	var err error
	if n.t.file, err = create(); err != nil {
		return nil, err
	}
	for i := range n.files {
		if n.files[i], err = create(); err != nil {
			n.drop()
			return nil, errors.Join(err, n.t.Close())
		}
		n.out[i] = bufio.NewWriterSize(n.files[i], 256<<10)
	}
	return n, nil
}

// add adds a request.
func (n *numberer) add(url []byte, size int64) error {
	h := xxh3.Hash128(url)
	var b [rawSize]byte
	le := binary.LittleEndian
	le.PutUint64(b[:], uint64(n.t.Requests))
	le.PutUint64(b[8:], h.Lo)
	le.PutUint64(b[16:], h.Hi)
	le.PutUint32(b[24:], uint32(min(max(size, 1), 1<<32-1)))
	n.t.Requests++
	_, err := n.out[h.Hi>>60].Write(b[:])
	return err
}

// drop removes the files of the parts.
func (n *numberer) drop() {
	for _, f := range n.files {
		if f != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}
}

// finish numbers the objects. The size of an object is that of its first request: later ones
// may be for a part, or answered "not modified".
func (n *numberer) finish() (*Trace, error) {
	defer n.drop()
	t := n.t
	if err := t.file.Truncate(t.Requests * 8); err != nil {
		return nil, errors.Join(fmt.Errorf("sorting the log: %w", err), t.Close())
	}
	for i := range n.files {
		err := n.out[i].Flush()
		if err == nil {
			err = n.part(n.files[i])
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("sorting the log: %w", err), t.Close())
		}
	}
	return t, nil
}

// part numbers the objects of one part.
func (n *numberer) part(f *os.File) error {
	type object struct {
		id, size uint32
		again    bool
	}
	t := n.t
	seen := map[xxh3.Uint128]*object{}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	in := bufio.NewReaderSize(f, 256<<10)
	le := binary.LittleEndian
	var b [rawSize]byte
	var rec [8]byte
	for {
		if _, err := io.ReadFull(in, b[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		h := xxh3.Uint128{Lo: le.Uint64(b[8:]), Hi: le.Uint64(b[16:])}
		o := seen[h]
		if o == nil {
			o = &object{id: uint32(t.Objects), size: le.Uint32(b[24:])}
			seen[h] = o
			t.Objects++
			t.once++
			t.Footprint += int64(o.size)
		} else if !o.again {
			o.again = true
			t.once--
		}
		t.Bytes += int64(o.size)
		le.PutUint32(rec[:], o.id)
		le.PutUint32(rec[4:], o.size)
		if _, err := t.file.WriteAt(rec[:], int64(le.Uint64(b[:]))*8); err != nil {
			return err
		}
	}
}
