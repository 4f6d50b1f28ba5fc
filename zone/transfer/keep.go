package transfer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/zeebo/xxh3"

	"shuultuur/lib/atomicfile"
	"shuultuur/lib/wait"
	"shuultuur/zone/sign"
)

// A kept is the data that a published zone needs to continue after a restart: its serial,
// its signatures, the served version and the differences that led to it. Each zone has a
// file, written as a whole:
//
//	magic     "shuultuur zone journal 1\n"
//	name      origin and view
//	stamp     known serial, and the hash of the contents it stands for
//	parts     1 byte: 1 there are signatures, 2 there is a version
//	          signatures as sign.Signatures has them
//	          SOA record, number of records, records
//	          number of differences, and for each
//	          from, to, old SOA record, new one, records gone, records come
//	checksum  XXH3-128 of all before
//
// Integers are big endian; strings and lists of records are preceded by their length (4
// bytes).
type storedZone struct {
	id         id
	stamp      stamp
	signatures *sign.Signatures
	current    *content
	journal    journal
}

const (
	magic = "shuultuur zone journal 1\n"

	hasSignatures = 1
	hasVersion    = 2

	checksum = 16
	// maxKept bounds the file: a zone of the largest size, twice.
	maxKept = 2*maxZone + 1<<20

	// settle is how long a change waits for others before it is written.
	settle = 5 * time.Second
	// share is the shortest pause between writes, as a multiple of the time that writing took.
	share     = 20
	saveAgain = time.Minute
)

// writeTo writes all of r.
func (r *storedZone) writeTo(w io.Writer) error {
	sum := xxh3.New()
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 64<<10)
	var b []byte
	text := func(s []byte) { b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...) }
	b = append(b, magic...)
	text([]byte(r.id.origin))
	text([]byte(r.id.view))
	b = binary.BigEndian.AppendUint32(b, r.stamp.serial)
	b = binary.BigEndian.AppendUint64(b, r.stamp.contents[0])
	b = binary.BigEndian.AppendUint64(b, r.stamp.contents[1])
	parts := byte(0)
	if r.signatures != nil {
		parts |= hasSignatures
	}
	if r.current != nil {
		parts |= hasVersion
	}
	b = append(b, parts)
	if _, err := out.Write(b); err != nil {
		return err
	}
	if r.signatures != nil {
		if _, err := r.signatures.WriteTo(out); err != nil {
			return err
		}
	}
	if v := r.current; v != nil {
		b = b[:0]
		text(v.soa)
		size := 0
		for wire := range v.records() {
			size += len(wire)
		}
		if int64(size) > maxZone {
			return fmt.Errorf("its records take %d bytes; a saved zone has at most %d", size, maxZone)
		}
		if _, err := out.Write(binary.BigEndian.AppendUint32(b, uint32(size))); err != nil {
			return err
		}
		for wire := range v.records() {
			if _, err := out.Write(wire); err != nil {
				return err
			}
		}
		b = b[:0]
		b = binary.BigEndian.AppendUint32(b, uint32(len(r.journal)))
		for _, d := range r.journal {
			b = binary.BigEndian.AppendUint32(b, d.from)
			b = binary.BigEndian.AppendUint32(b, d.to)
			text(d.oldSOA)
			text(d.newSOA)
			text(bytes.Join(d.gone, nil))
			text(bytes.Join(d.come, nil))
		}
		if _, err := out.Write(b); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	end := sum.Sum128().Bytes()
	_, err := w.Write(end[:])
	return err
}

var errEnds = errors.New("it ends too soon")

// A reader parses a kept; after a mistake it returns nothing more.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n > len(r.b) {
		r.err = errors.Join(r.err, errEnds)
		return make([]byte, min(n, 8))
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) uint32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }
func (r *reader) uint64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

// text returns a copy, so that b can be freed.
func (r *reader) text() []byte {
	n := int(r.uint32())
	if r.err != nil || n > len(r.b) {
		r.err = errors.Join(r.err, errEnds)
		return nil
	}
	return bytes.Clone(r.take(n))
}

// records returns the offsets of successive records.
func (r *reader) records(b []byte) (starts []uint32) {
	for at := 0; at < len(b); {
		starts = append(starts, uint32(at))
		for at < len(b) && b[at] != 0 {
			at += 1 + int(b[at])
		}
		if at+11 > len(b) {
			r.err = errors.Join(r.err, errEnds)
			return nil
		}
		at += 11 + int(binary.BigEndian.Uint16(b[at+9:]))
		if at > len(b) {
			r.err = errors.Join(r.err, errEnds)
			return nil
		}
	}
	return append(starts, uint32(len(b)))
}

// slices returns the records one by one.
func (r *reader) slices() (list [][]byte) {
	b := r.text()
	starts := r.records(b)
	for i := 1; i < len(starts); i++ {
		list = append(list, b[starts[i-1]:starts[i]])
	}
	return list
}

// readKept reads the output of writeTo.
func readKept(b []byte) (*storedZone, error) {
	if !bytes.HasPrefix(b, []byte(magic)) {
		return nil, errors.New("it is not a journal in this format")
	}
	if len(b) < len(magic)+checksum {
		return nil, errEnds
	}
	end := len(b) - checksum
	if sum := xxh3.Hash128(b[:end]).Bytes(); !bytes.Equal(sum[:], b[end:]) {
		return nil, errors.New("its checksum is wrong")
	}
	return parseKept(b[len(magic):end])
}

// parseKept parses the bytes between magic and checksum.
func parseKept(b []byte) (*storedZone, error) {
	r := &reader{b: b}
	rec := &storedZone{id: id{string(r.text()), string(r.text())}}
	rec.stamp = stamp{true, r.uint32(), [2]uint64{r.uint64(), r.uint64()}}
	parts := r.take(1)[0]
	if r.err == nil && parts&hasSignatures != 0 {
		rec.signatures, r.b, r.err = sign.ReadSignatures(r.b)
	}
	if r.err == nil && parts&hasVersion != 0 {
		v := &version{serial: rec.stamp.serial, soa: r.text(), arena: r.text()}
		v.starts = r.records(v.arena)
		if r.err == nil {
			v.sort()
		}
		rec.current = &content{serial: v.serial, soa: v.soa, kept: v}
		for n := r.uint32(); n > 0 && r.err == nil; n-- {
			d := &difference{from: r.uint32(), to: r.uint32(), oldSOA: r.text(), newSOA: r.text(), gone: r.slices(), come: r.slices()}
			d.size = len(d.oldSOA) + len(d.newSOA)
			for _, wire := range d.gone {
				d.size += len(wire)
			}
			for _, wire := range d.come {
				d.size += len(wire)
			}
			rec.journal = append(rec.journal, d)
		}
	}
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%d bytes follow its end", len(r.b))
	}
	if r.err != nil {
		return nil, r.err
	}
	return rec, nil
}

// keptFile returns the path of a zone's file.
func (s *Server) keptFile(n id) string { return s.file(n, ".journal") }

// isKept reports whether a zone is kept: it is signed here or may be fetched.
func (s *Server) isKept(origin string, signer *sign.Signer) bool {
	return s.folder != "" && (signer != nil || s.wanted(origin))
}

// restore continues a zone that is not served yet from before a restart. The caller holds
// e.publishing.
func (s *Server) restore(e *entry, signer *sign.Signer, now time.Time) {
	if e.restored || !s.isKept(e.id.origin, signer) {
		return
	}
	e.restored = true
	file := s.keptFile(e.id)
	rec, err := loadKept(file, e.id)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		s.log.Error("the saved state of a zone cannot be used: it is signed again, and secondaries fetch all of it",
			"zone", e.id.origin, "view", e.id.view, "file", file, "error", err)
		return
	}
	e.stamp = rec.stamp
	if signer != nil && rec.signatures != nil {
		signer.Restore(e.id.view, rec.signatures, now)
		e.kept = rec.signatures
	}
	s.mu.Lock()
	e.current, e.journal = rec.current, rec.journal
	s.mu.Unlock()
}

func loadKept(file string, n id) (*storedZone, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxKept {
		return nil, fmt.Errorf("it has %d bytes; a saved zone has at most %d", info.Size(), int64(maxKept))
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	rec, err := readKept(b)
	if err != nil {
		return nil, err
	}
	if rec.id != n {
		return nil, fmt.Errorf("it is for zone %q, view %q", rec.id.origin, rec.id.view)
	}
	return rec, nil
}

// keepFiles writes the files of changed zones, with a delay of seconds, until ctx ends. Save then
// writes the rest.
func (s *Server) keepFiles(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.unsaved:
		}
		if wait.For(ctx, settle) != nil {
			return
		}
		begun := time.Now()
		pause := saveAgain
		if s.Save() {
			pause = min(share*time.Since(begun), saveAgain)
		} else {
			wakeUp(s.unsaved)
		}
		if wait.For(ctx, pause) != nil {
			return
		}
	}
}

// Save writes the data that changed zones need after a restart: serials, signatures,
// differences. It reports whether all could be written; failures are logged. Run does the same
// seconds after a change; call Save at the end.
func (s *Server) Save() bool {
	s.mu.Lock()
	all := make([]*entry, 0, len(s.entries))
	for _, e := range s.entries {
		all = append(all, e)
	}
	s.mu.Unlock()
	s.saving.Lock()
	defer s.saving.Unlock()
	ok := true
	for _, e := range all {
		if err := s.saveOne(e); err != nil {
			ok = false
			s.log.Error("the state of a zone cannot be saved: after a restart it would be signed again, and secondaries would fetch all of it",
				"zone", e.id.origin, "view", e.id.view, "error", err)
		}
	}
	return ok
}

// saveOne writes the file of a zone if it changed. The caller holds s.saving.
func (s *Server) saveOne(e *entry) error {
	e.publishing.Lock()
	changed := e.changed
	e.changed = false
	s.mu.Lock()
	rec := &storedZone{e.id, e.stamp, e.kept, e.current, e.journal}
	s.mu.Unlock()
	e.publishing.Unlock()
	if !changed {
		return nil
	}
	file := s.keptFile(e.id)
	err := os.MkdirAll(s.folder, 0o750)
	if err == nil {
		err = atomicfile.Write(file, 0o600, func(f *os.File) error { return rec.writeTo(f) })
	}
	if err != nil {
		e.publishing.Lock()
		e.changed = true
		e.publishing.Unlock()
		return err
	}
	s.mu.Lock()
	gone := s.entries[e.id] == nil
	s.mu.Unlock()
	if gone { // removed in the meantime
		return os.Remove(file)
	}
	return nil
}
