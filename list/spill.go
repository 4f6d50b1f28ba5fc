package list

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The text of a large list goes to a file without a name beside the list that
// is made, chunk by chunk while the sources are read, and is mapped when all of
// them have been: memory that the system can take back, so that what compiling
// needs for an entry is the entry.

// heapChunks is how many chunks of text stay in memory: 16 MiB.
const heapChunks = 64

// A spill is such a file. The zero spill is none yet.
type spill struct {
	dir    string // "" keeps everything in memory
	file   *os.File
	chunks int
	data   []byte // mapped
}

// put takes a full chunk and returns an empty one with the same memory.
func (s *spill) put(chunk []byte) ([]byte, error) {
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "text-*.tmp")
		if err != nil {
			return nil, fmt.Errorf("making a file for the entries: %w", err)
		}
		s.file = f
		if err := os.Remove(f.Name()); err != nil {
			return nil, err
		}
	}
	if _, err := s.file.WriteAt(chunk[:textChunk], int64(s.chunks)*textChunk); err != nil {
		return nil, fmt.Errorf("putting the entries aside: %w", err)
	}
	s.chunks++
	return chunk[:0], nil
}

// get maps the chunks that put has taken.
func (s *spill) get() (chunks [][]byte, err error) {
	if s.chunks == 0 {
		return nil, nil
	}
	s.data, err = unix.Mmap(int(s.file.Fd()), 0, s.chunks*textChunk, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping the entries: %w", err)
	}
	for i := range s.chunks {
		chunks = append(chunks, s.data[i*textChunk:][:textChunk:textChunk])
	}
	return chunks, nil
}

func (s *spill) close() {
	if s.data != nil {
		unix.Munmap(s.data)
	}
	if s.file != nil {
		s.file.Close()
	}
	*s = spill{}
}
