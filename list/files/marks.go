package files

import (
	"encoding/binary"
	"hash/crc32"
	"io"
)

// Marks are checksums of the beginnings of a file, of the lengths that [Marking] has: by them a file
// that was cut is told from one that was changed, without a copy of it.
type Marks []byte

// A Marking reads a file and makes its marks: of its first 8 bytes, and of every beginning that is an
// eighth longer than the one before.
type Marking struct {
	io.Reader
	Marks Marks
	sum   uint32
	read  int64
	next  int64 // where the next mark is; 0 before the first
}

// firstMark is the length of the shortest beginning that has a mark.
const firstMark = 8

// Read implements [io.Reader].
func (m *Marking) Read(to []byte) (int, error) {
	n, err := m.Reader.Read(to)
	m.next = max(m.next, firstMark)
	for part := to[:n]; len(part) > 0; {
		size := min(int64(len(part)), m.next-m.read)
		m.sum = crc32.Update(m.sum, crc32.IEEETable, part[:size])
		m.read, part = m.read+size, part[size:]
		if m.read == m.next {
			m.Marks = binary.BigEndian.AppendUint32(m.Marks, m.sum)
			m.next += m.next / 8
		}
	}
	return n, err
}

// Begins reports whether a file with marks m is, but for its last bytes, the beginning of one with the
// marks of.
func (m Marks) Begins(of Marks) bool {
	return len(m) > 0 && len(m) < len(of) && string(m) == string(of[:len(m)])
}
