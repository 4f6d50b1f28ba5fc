package document

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"unicode/utf16"

	"github.com/nwaples/rardecode/v2"

	"shuultuur/content/coding"
)

// This file handles RAR archives (technotes of RAR 4 and 5). It reads their blocks, with the names of
// members and what is stored without compression. From the first compressed member on, a library
// reads the rest.

const (
	rar4Mark = "Rar!\x1A\x07\x00"
	rar5Mark = "Rar!\x1A\x07\x01\x00"

	rar4Main, rar4File, rar4End                = 0x73, 0x74, 0x7B
	rar5Main, rar5File, rar5Encrypted, rar5End = 1, 2, 4, 5
	rar4Stored                                 = 0x30

	rarWindow = 64 << 20 // memory of the decoder, which archives may ask for
)

// errCompressed says that a member is compressed. Its header is the last one read.
var errCompressed = errors.New("compressed member")

// A rarReader reads the blocks of an archive.
type rarReader struct {
	*memberReader
	in    *bufio.Reader
	block []byte // the header of the current block
	main  []byte // that of the archive
	name  string // of the first compressed member
}

// rar reads the blocks of an archive.
func (m *memberReader) rar(r *bufio.Reader) error {
	mark, _ := r.Peek(len(rar5Mark))
	x := &rarReader{memberReader: m, in: r}
	block := x.rar5Block
	switch {
	case bytes.HasPrefix(mark, []byte(rar4Mark)):
		mark, block = mark[:len(rar4Mark)], x.rar4Block
	case !bytes.HasPrefix(mark, []byte(rar5Mark)):
		return errMethod
	}
	mark = bytes.Clone(mark)
	if _, err := r.Discard(len(mark)); err != nil {
		return err
	}
	for range mostMembers {
		end, err := block(r)
		if err == errCompressed {
			return x.compressed(io.MultiReader(bytes.NewReader(mark), bytes.NewReader(x.main), bytes.NewReader(x.block), r))
		}
		if err != nil {
			return coding.Unexpected(err)
		}
		if end {
			return nil
		}
	}
	return errMost
}

// compressed reads an archive of which the members before the first compressed one were left out.
func (m *rarReader) compressed(in io.Reader) (err error) {
	if memory := m.source.Limits.Memory; memory != nil {
		if !memory.Acquire(rarWindow) {
			return errNoRoom
		}
		defer memory.Release(rarWindow)
	}
	defer func() { // what is damaged must end nothing but its own reading
		if p := recover(); p != nil {
			err = io.ErrUnexpectedEOF
		}
	}()
	r, err := rardecode.NewReader(in, rardecode.MaxDictionarySize(rarWindow))
	if err != nil {
		m.addName(m.name)
		return rarError(err)
	}
	for n := range mostMembers {
		h, err := r.Next()
		switch {
		case err != nil && n == 0:
			m.addName(m.name)
		case err == nil && !h.IsDir:
			err = m.member(h.Name, r)
		}
		if err != nil && !errors.Is(err, rardecode.ErrBadFileChecksum) {
			return rarError(err)
		}
	}
	return errMost
}

// rarError returns what an error of the library means here.
func rarError(err error) error {
	switch {
	case errors.Is(err, rardecode.ErrArchiveEncrypted), errors.Is(err, rardecode.ErrArchivedFileEncrypted):
		return errEncrypted
	case errors.Is(err, rardecode.ErrDictionaryTooLarge), errors.Is(err, rardecode.ErrUnknownDecoder), errors.Is(err, rardecode.ErrUnsupportedDecoder), errors.Is(err, rardecode.ErrUnknownVersion), errors.Is(err, rardecode.ErrMultiVolume):
		return errMethod
	}
	return err
}

// rarMember reads a member of size bytes if it is stored, and continues after it.
func (m *rarReader) rarMember(r *bufio.Reader, name string, size int64, stored, encrypted bool) error {
	in := &io.LimitedReader{R: r, N: size}
	switch {
	case encrypted:
		m.addName(name)
		m.note(errEncrypted)
	case !stored:
		m.name = name
		return errCompressed
	default:
		if err := m.member(name, in); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	if in.N > 0 {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func (m *rarReader) rar4Block(r *bufio.Reader) (end bool, err error) {
	var h [7]byte // CRC, type, flags, size
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return false, err
	}
	typ, flags, size := h[2], binary.LittleEndian.Uint16(h[3:]), int(binary.LittleEndian.Uint16(h[5:]))
	if size < len(h) {
		return false, io.ErrUnexpectedEOF
	}
	p := make([]byte, size-len(h))
	if _, err := io.ReadFull(r, p); err != nil {
		return false, err
	}
	if m.block = append(append(m.block[:0], h[:]...), p...); typ == rar4Main {
		m.main = bytes.Clone(m.block)
	}
	switch {
	case typ == rar4End:
		return true, nil
	case typ == rar4Main && flags&0x80 != 0:
		return false, errEncrypted
	case typ != rar4File:
		if flags&0x8000 == 0 || len(p) < 4 {
			return false, nil
		}
		return false, discard(r, int64(binary.LittleEndian.Uint32(p)))
	}
	const fixed = 25
	if len(p) < fixed {
		return false, io.ErrUnexpectedEOF
	}
	packed, method, n := int64(binary.LittleEndian.Uint32(p)), p[18], int(binary.LittleEndian.Uint16(p[19:]))
	name := p[fixed:]
	if flags&0x100 != 0 { // sizes of eight bytes
		if len(name) < 8 {
			return false, io.ErrUnexpectedEOF
		}
		packed |= int64(binary.LittleEndian.Uint32(name)) << 32
		name = name[8:]
	}
	if n > len(name) || packed < 0 {
		return false, io.ErrUnexpectedEOF
	}
	return false, m.rarMember(r, rar4Name(name[:n], flags&0x200 != 0), packed, method == rar4Stored, flags&4 != 0)
}

// rar4Name decodes a name: bytes, a zero, and then data for converting these to UTF-16.
func rar4Name(p []byte, wide bool) string {
	plain, coded, ok := bytes.Cut(p, []byte{0})
	if !wide || !ok || len(coded) == 0 {
		return string(plain)
	}
	high, coded := uint16(coded[0])<<8, coded[1:]
	var out []uint16
	next := func() (c byte) {
		if len(coded) > 0 {
			c, coded = coded[0], coded[1:]
		}
		return c
	}
	low := func() (c uint16) {
		if len(out) < len(plain) {
			c = uint16(plain[len(out)])
		}
		return c
	}
	for len(coded) > 0 && len(out) < len(p) {
		flags := next()
		for shift := 6; shift >= 0 && len(coded) > 0; shift -= 2 {
			switch flags >> shift & 3 {
			case 0:
				out = append(out, uint16(next()))
			case 1:
				out = append(out, high|uint16(next()))
			case 2:
				c := uint16(next())
				out = append(out, uint16(next())<<8|c)
			default:
				n := next()
				add, from := uint16(0), uint16(0)
				if n&0x80 != 0 {
					add, from = uint16(next()), high
				}
				for k := int(n&0x7F) + 2; k > 0; k-- {
					out = append(out, (low()+add)&0xFF|from)
				}
			}
		}
	}
	return string(utf16.Decode(out))
}

func (m *rarReader) rar5Block(r *bufio.Reader) (end bool, err error) {
	crc, err := r.Peek(4)
	if err != nil {
		return false, err
	}
	m.block = append(m.block[:0], crc...)
	if _, err := r.Discard(4); err != nil {
		return false, err
	}
	size, err := binary.ReadUvarint(r)
	if err != nil {
		return false, err
	}
	if size > 2<<20 { // larger ones are not headers
		return false, io.ErrUnexpectedEOF
	}
	p := make([]byte, size)
	if _, err := io.ReadFull(r, p); err != nil {
		return false, err
	}
	m.block = append(binary.AppendUvarint(m.block, size), p...)
	number := func() (v uint64) {
		v, n := binary.Uvarint(p)
		p = p[max(0, n):]
		return v
	}
	typ, flags, data, extra := number(), number(), int64(0), uint64(0)
	if flags&1 != 0 {
		extra = number()
	}
	if flags&2 != 0 {
		data = int64(number() & (1<<62 - 1))
	}
	switch typ {
	case rar5End:
		return true, nil
	case rar5Main:
		m.main = bytes.Clone(m.block)
		return false, discard(r, data)
	case rar5Encrypted:
		return false, errEncrypted
	case rar5File:
	default:
		return false, discard(r, data)
	}
	of := number()
	number() // size
	number() // attributes
	skip := 0
	if of&2 != 0 {
		skip += 4
	}
	if of&4 != 0 {
		skip += 4
	}
	p = p[min(skip, len(p)):]
	method := number()
	number() // system
	n := number()
	if n > uint64(len(p)) {
		return false, io.ErrUnexpectedEOF
	}
	name := string(p[:n])
	return false, m.rarMember(r, name, data, method>>7&7 == 0, rar5IsEncrypted(p[n:], extra))
}

// rar5IsEncrypted reports whether a record in the extra area of a file is that of encryption.
func rar5IsEncrypted(p []byte, extra uint64) bool {
	if extra < uint64(len(p)) {
		p = p[uint64(len(p))-extra:]
	}
	for len(p) > 0 {
		size, n := binary.Uvarint(p)
		if n <= 0 || size == 0 || size > uint64(len(p)-n) {
			return false
		}
		if typ, k := binary.Uvarint(p[n:]); k > 0 && typ == 1 {
			return true
		}
		p = p[n+int(size):]
	}
	return false
}

func discard(r io.Reader, n int64) error {
	if _, err := io.CopyN(io.Discard, r, n); err != nil {
		return coding.Unexpected(err)
	}
	return nil
}
