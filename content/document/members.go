package document

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"path"
	"strings"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"shuultuur/content/coding"
	"shuultuur/content/limit"
	"shuultuur/content/media"
)

// This file handles archives: ZIP, tar, gzip, zlib and zstd; RAR and 7z have files of their own. Members are read as they arrive, each like a separate body, and their names are
// text. Limits.Decoded limits their total size at any depth.

const (
	mostMembers  = 10_000 // in one archive
	zipLocal     = "PK\x03\x04"
	zipDirectory = "PK\x01\x02"
	zipEnd       = "PK\x05\x06"
	zipSigned    = "PK\x07\x08" // a data descriptor, or a part of a split archive
)

var (
	errMost      = errors.New("limit reached")
	errDeep      = errors.New("too many archives in each other")
	errGivenUp   = errors.New("given up")
	errEncrypted = errors.New("encrypted member")
	errMethod    = errors.New("unsupported compression method")
	errNoRoom    = errors.New("no memory for its window")
)

// A memberReader reads an archive that arrives in pieces. The readers of archives pull, so
// they run in a coroutine that suspends when it needs more.
type memberReader struct {
	source *Source
	left   []byte // of the current piece
	in     int64
	end    bool
	room   *int64 // decoded bytes left for all nested archives
	why    limit.Reason
	count  int // members that were read

	// An office file or book has a map of where its members are that may show text. Others are not
	// read.
	office map[int64]bool

	yield  func(struct{}) bool
	resume func() (struct{}, bool)
	stop   func()
}

func newMemberReader(s *Source) *memberReader {
	m := &memberReader{source: s, room: s.Room}
	if m.room == nil {
		left := s.Limits.Decoded
		m.room = &left
	}
	m.resume, m.stop = iter.Pull(m.run)
	return m
}

// Write implements [Reader].
func (m *memberReader) Write(p []byte) {
	if m.left = p; len(p) > 0 {
		m.resume()
	}
	m.left = nil
}

// Finish implements [Reader].
func (m *memberReader) Finish() {
	m.end = true
	m.resume()
	m.Close()
	if m.why != limit.AllRead {
		m.source.Outer.Stop(m.why)
	}
}

// Close implements [Reader]: it ends the coroutine.
func (m *memberReader) Close() { m.stop() }

// Read provides the input of the archive readers.
func (m *memberReader) Read(p []byte) (int, error) {
	for len(m.left) == 0 {
		if m.end {
			return 0, io.EOF
		}
		if !m.yield(struct{}{}) {
			return 0, errGivenUp
		}
	}
	n := copy(p, m.left)
	m.left = m.left[n:]
	m.in += int64(n)
	return n, nil
}

// run is the coroutine.
func (m *memberReader) run(yield func(struct{}) bool) {
	m.yield = yield
	r := bufio.NewReader(m)
	var err error
	switch head, _ := r.Peek(media.TarMagicAt + 5); {
	case bytes.HasPrefix(head, []byte("\x1F\x8B")):
		err = m.gzip(r)
	case coding.ByMagic(head) == coding.Deflate:
		err = m.zlib(r)
	case coding.ByMagic(head) == coding.Zstd:
		err = m.zstd(r)
	case bytes.HasPrefix(head, []byte("PK")):
		err = m.zip(r)
	case bytes.HasPrefix(head, []byte("#!")):
		if err = skipScript(r); err == nil {
			err = m.zip(r)
		}
	case bytes.HasPrefix(head, []byte("Rar!")):
		err = m.rar(r)
	case bytes.HasPrefix(head, []byte(sevenMark[:4])):
		err = m.sevenZip(r)
	case len(head) == media.TarMagicAt+5:
		err = m.tar(r)
	default:
		err = io.ErrUnexpectedEOF
	}
	m.note(err)
	// The bytes after an archive mean nothing, but must still be read.
	_, _ = io.Copy(io.Discard, m)
}

// note keeps the first reason why not everything was read.
func (m *memberReader) note(err error) {
	if m.why != limit.AllRead {
		return
	}
	switch {
	case err == nil, err == io.EOF, errors.Is(err, errGivenUp):
	case errors.Is(err, errMost):
		m.why = limit.TooLarge
	case errors.Is(err, errDeep):
		m.why = limit.Intricate
	case errors.Is(err, limit.ErrBomb):
		m.why = limit.Bomb
	case errors.Is(err, errEncrypted):
		m.why = limit.Encrypted
	case errors.Is(err, errNoRoom):
		m.why = limit.NoCapacity
	case errors.Is(err, errMethod), errors.Is(err, tar.ErrHeader):
		m.why = limit.UnsupportedType
	default:
		m.why = limit.Cut
	}
}

func (m *memberReader) gzip(r *bufio.Reader) error {
	z, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	err = m.all(z.Name, z)
	if err == gzip.ErrHeader {
		return nil // ignore anything else after the last member
	}
	return err
}

// zlib reads input that begins like a zlib stream. Two bytes prove little: input whose
// beginning cannot be decompressed is not zlib.
func (m *memberReader) zlib(r *bufio.Reader) error {
	z, err := zlib.NewReader(r)
	if err != nil {
		return nil
	}
	first := bufio.NewReader(z)
	if _, err := first.Peek(1); err != nil && err != errGivenUp {
		return nil
	}
	return m.all("", first)
}

func (m *memberReader) zstd(r *bufio.Reader) error {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(coding.MaxWindow))
	if err != nil {
		return err
	}
	defer z.Close()
	return m.all("", z)
}

func (m *memberReader) tar(r *bufio.Reader) error {
	t := tar.NewReader(r)
	for range mostMembers {
		h, err := t.Next()
		if err != nil {
			return err
		}
		if err := m.member(h.Name, t); err != nil {
			return err
		}
	}
	return errMost
}

// zip reads the local headers (APPNOTE.TXT 4.3), because the directory at the end arrives too
// late, and members that it omits can still be unpacked.
func (m *memberReader) zip(r *bufio.Reader) error {
	for n := 0; ; n++ {
		var h [30]byte
		at := m.in - int64(r.Buffered())
		if _, err := io.ReadFull(r, h[:4]); err != nil {
			return coding.Unexpected(err)
		}
		switch sig := string(h[:4]); {
		case sig == zipDirectory && m.office != nil:
			return m.directory(r)
		case sig == zipDirectory, sig == zipEnd:
			return nil
		case n == 0 && (sig == zipSigned || sig == "PK00"):
			continue
		case sig != zipLocal:
			return io.ErrUnexpectedEOF
		case m.count > mostMembers:
			return errMost
		}
		if _, err := io.ReadFull(r, h[4:]); err != nil {
			return coding.Unexpected(err)
		}
		if err := m.zipMember(r, h[:], at); err != nil {
			return err
		}
	}
}

// directory reads the directory of a document, after its first signature (APPNOTE.TXT 4.3.12). By
// it programs find the parts: one that may show text must have been read as such.
func (m *memberReader) directory(r *bufio.Reader) error {
	for {
		var h [42]byte
		if _, err := io.ReadFull(r, h[:]); err != nil {
			return coding.Unexpected(err)
		}
		name := make([]byte, binary.LittleEndian.Uint16(h[24:]))
		if _, err := io.ReadFull(r, name); err != nil {
			return coding.Unexpected(err)
		}
		if at := int64(binary.LittleEndian.Uint32(h[38:])); mayShow(entryName(string(name))) && !m.office[at] {
			return io.ErrUnexpectedEOF
		}
		if _, err := r.Discard(int(binary.LittleEndian.Uint16(h[26:])) + int(binary.LittleEndian.Uint16(h[28:]))); err != nil {
			return coding.Unexpected(err)
		}
		var sig [4]byte
		if _, err := io.ReadFull(r, sig[:]); err != nil || string(sig[:]) != zipDirectory {
			return coding.Unexpected(err)
		}
	}
}

// mostScript is the length of the longest script in front of an archive, which runs or unpacks it.
const mostScript = 1 << 20

// skipScript goes to the first member behind a script.
func skipScript(r *bufio.Reader) error {
	for left := mostScript; left > 0; {
		p, err := r.Peek(max(len(zipLocal), min(r.Buffered(), left)))
		if err != nil {
			break
		}
		n := bytes.Index(p, []byte(zipLocal))
		found := n >= 0
		if !found {
			n = len(p) - len(zipLocal) + 1
		}
		_, _ = r.Discard(n) // they are here
		if left -= n; found {
			return nil
		}
	}
	return errMethod
}

// zipMember reads the bytes after the fixed part of a local header, which is at a position.
func (m *memberReader) zipMember(r *bufio.Reader, h []byte, at int64) error {
	flags, method := binary.LittleEndian.Uint16(h[6:]), binary.LittleEndian.Uint16(h[8:])
	size := int64(binary.LittleEndian.Uint32(h[18:]))
	names := make([]byte, int(binary.LittleEndian.Uint16(h[26:]))+int(binary.LittleEndian.Uint16(h[28:])))
	if _, err := io.ReadFull(r, names); err != nil {
		return coding.Unexpected(err)
	}
	name, extra := names[:binary.LittleEndian.Uint16(h[26:])], names[binary.LittleEndian.Uint16(h[26:]):]
	if size == 1<<32-1 {
		size = zip64Size(extra, binary.LittleEndian.Uint32(h[22:]) == 1<<32-1)
	}
	if m.office != nil && m.shows(string(name)) {
		m.office[at] = true
	}
	later := flags&8 != 0 // the sizes follow the member
	if flags&1 != 0 {
		if m.shows(string(name)) {
			m.addName(string(name))
			m.note(errEncrypted)
		}
		return skipMember(r, size, later)
	}
	var err error
	switch {
	case method == 8 && later:
		if err = m.member(string(name), flate.NewReader(r)); err == nil {
			err = skipDescriptor(r)
		}
		return err
	case method == 0 && later:
		if err = m.member(string(name), &storedReader{in: r}); err == nil {
			err = skipDescriptor(r)
		}
		return err
	case method == 0:
		in := io.LimitReader(r, size)
		if err = m.member(string(name), in); err == nil && in.(*io.LimitedReader).N > 0 {
			err = io.ErrUnexpectedEOF
		}
		return err
	case method == 8 || method == 12 && !later:
		in := io.LimitReader(r, size)
		if d := flate.NewReader(in); method == 8 {
			err = m.member(string(name), d)
		} else {
			err = m.member(string(name), bzip2.NewReader(in))
		}
		if err == nil {
			_, err = io.Copy(io.Discard, in)
		}
		return err
	}
	if m.shows(string(name)) {
		m.addName(string(name))
		m.note(errMethod)
	}
	return skipMember(r, size, later)
}

// zip64Size returns the packed size in an extra field (APPNOTE.TXT 4.5.3), which follows the other one
// if both are there.
func zip64Size(p []byte, both bool) int64 {
	at := 0
	if both {
		at = 8
	}
	for len(p) >= 4 {
		id, n := binary.LittleEndian.Uint16(p), int(binary.LittleEndian.Uint16(p[2:]))
		if p = p[4:]; n > len(p) {
			break
		}
		if id == 1 && n >= at+8 {
			return int64(binary.LittleEndian.Uint64(p[at:]) & (1<<62 - 1))
		}
		p = p[n:]
	}
	return 1<<32 - 1
}

// skipMember skips a member that cannot be read.
func skipMember(r *bufio.Reader, size int64, later bool) error {
	if later && size == 0 {
		return errMethod // the position of the next member is unknown
	}
	if _, err := io.CopyN(io.Discard, r, size); err != nil {
		return coding.Unexpected(err)
	}
	if later {
		return skipDescriptor(r)
	}
	return nil
}

// A storedReader reads a member that is stored, whose size follows it. Its end is a descriptor with a
// signature and the right size, after which something else begins.
type storedReader struct {
	in *bufio.Reader
	n  uint64
}

// Read implements [io.Reader].
func (s *storedReader) Read(p []byte) (int, error) {
	if _, err := s.in.Peek(1); err != nil {
		return 0, coding.Unexpected(err)
	}
	here, _ := s.in.Peek(min(len(p), s.in.Buffered()))
	n := bytes.Index(here, []byte(zipSigned[:1]))
	switch {
	case n < 0:
		n = len(here)
	case n == 0 && s.atEnd():
		return 0, io.EOF
	case n == 0:
		n = 1
	}
	copy(p, here[:n])
	_, err := s.in.Discard(n)
	s.n += uint64(n)
	return n, err
}

// atEnd reports whether a descriptor is here.
func (s *storedReader) atEnd() bool {
	d, _ := s.in.Peek(26)
	if len(d) < 18 || string(d[:4]) != zipSigned {
		return false
	}
	short := uint64(binary.LittleEndian.Uint32(d[8:])) == s.n && uint64(binary.LittleEndian.Uint32(d[12:])) == s.n && string(d[16:18]) == "PK"
	return short || len(d) == 26 && binary.LittleEndian.Uint64(d[8:]) == s.n && binary.LittleEndian.Uint64(d[16:]) == s.n && string(d[24:]) == "PK"
}

// skipDescriptor reads the sizes after a member (APPNOTE.TXT 4.3.9). They have four or eight
// bytes, with or without a signature.
func skipDescriptor(r *bufio.Reader) error {
	p, err := r.Peek(4)
	if err != nil {
		return coding.Unexpected(err)
	}
	signed := 0
	if string(p) == zipSigned {
		signed = 4
	}
	for _, n := range [...]int{signed + 12, signed + 20} {
		if p, _ = r.Peek(n + 2); len(p) == n+2 && string(p[n:]) == "PK" {
			_, err = r.Discard(n)
			return err
		}
	}
	return io.ErrUnexpectedEOF
}

// shows reports whether a member may show text.
func (m *memberReader) shows(name string) bool { return m.office == nil || mayShow(entryName(name)) }

// addName adds the name of a member to the text. Those of a document's parts are not shown.
func (m *memberReader) addName(name string) {
	if m.office != nil {
		return
	}
	f := m.source.Out
	f.Blank()
	f.WriteUTF8(name)
	f.Flush()
	f.Blank()
}

// all reads what a compressed file holds: a package in it is the file itself.
func (m *memberReader) all(name string, r io.Reader) error { return m.read(name, r, m.source.Packed) }

// member reads one member of several.
func (m *memberReader) member(name string, r io.Reader) error {
	if m.source.Packed != nil && inPackage(name) {
		*m.source.Packed = true
	}
	return m.read(name, r, nil)
}

// read reads one member, which sets packed if it is a software package.
func (m *memberReader) read(name string, r io.Reader, packed *bool) error {
	if !m.shows(name) {
		return m.pass(entryName(name), r)
	}
	m.count++
	h, office := memberHead(name), isDocument(name) && path.Ext(strings.ToLower(name)) == ".xml"
	if m.office != nil && path.Ext(entryName(name)) == ".xml" {
		h, office = media.Describe("application/xhtml+xml; charset=utf-8", ""), true
	}
	if !office {
		m.addName(name)
	}
	p := m.source.Outer.Open(h, Inside{Out: m.source.Out, Room: m.room, Packed: packed, Office: office})
	if p == nil && m.source.Deepest {
		m.note(errDeep)
	}
	in := r
	if m.office != nil && isNumbers(entryName(name)) {
		in = io.LimitReader(r, max(0, *m.room-m.source.Limits.Decoded/2))
	}
	err := m.copy(p, in)
	if p != nil {
		if why := p.Close(); why != limit.AllRead && why != limit.UnsupportedType && m.why == limit.AllRead {
			m.why = why
		}
	}
	m.source.Out.Blank()
	if err != nil || in == r {
		return err
	}
	if n, _ := io.CopyN(io.Discard, r, 1); n > 0 {
		m.note(errMost)
	}
	return m.pass(entryName(name), r)
}

// pass passes a part of a document that shows no text, such as a picture. It counts as work only.
func (m *memberReader) pass(name string, r io.Reader) error {
	if name == encryptedPackage || name == encryptionList && listsText(r) {
		m.note(errEncrypted)
	}
	var block [16 << 10]byte
	for {
		k, err := r.Read(block[:])
		switch {
		case m.source.Work.Spend(k):
			return limit.ErrTookTooLong
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

func (m *memberReader) copy(p Part, r io.Reader) error {
	var block [16 << 10]byte
	lim := &m.source.Limits
	for out := int64(0); ; {
		k, err := r.Read(block[:])
		out += int64(k)
		*m.room -= int64(k)
		switch {
		case m.source.Work.Spend(k):
			return limit.ErrTookTooLong
		case *m.room < 0:
			return errMost
		case out > limit.BombFloor && out/int64(lim.Ratio) > m.in:
			return limit.ErrBomb
		}
		if p != nil {
			p.Write(block[:k])
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// memberHead returns the description of a member by its name; its first bytes determine the
// rest.
func memberHead(name string) *media.Head {
	switch path.Ext(strings.ToLower(name)) {
	case ".xml", ".xhtml", ".ncx", ".opf", ".svg", ".rels":
		if isDocument(name) {
			return media.Describe("application/xhtml+xml; charset=utf-8", "")
		}
	case ".htm", ".html":
		return media.Describe("text/html", "")
	case ".eml":
		return media.Describe("message/rfc822", "")
	case ".json", ".ndjson", ".jsonl":
		return media.Describe("application/json", "")
	case ".css":
		return media.Describe("text/css", "")
	case ".js", ".mjs":
		return media.Describe("text/javascript", "")
	}
	return &media.Head{}
}
