package list

import (
	"fmt"
	"os"

	"shuultuur/lib/platform"
)

// The text of a large list goes to an unnamed file beside the new list, chunk by chunk while
// the sources are read, and is mapped afterwards. The system can reclaim that memory, so that
// compiling needs memory only for the entries.

// heapChunks bounds the chunks of text in memory: 12 MiB, and one for each part.
const heapChunks = 12 << 20 / textChunk

// A spill is such a file, in which each chunk has its final place. The zero spill has no file
// yet.
type spill struct {
	dir  string // "" keeps everything in memory
	file *os.File
	end  int    // end of the last chunk, in chunks
	data []byte // mapped
}

// put writes a full chunk.
func (s *spill) put(i int, chunk *[textChunk]byte) error {
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "text-*.tmp")
		if err != nil {
			return fmt.Errorf("making a file for the entries: %w", err)
		}
		s.file = f
		_ = os.Remove(f.Name()) // Windows removes no open file: close does it
	}
	if _, err := s.file.WriteAt(chunk[:], int64(i)*textChunk); err != nil {
		return fmt.Errorf("saving the entries: %w", err)
	}
	s.end = max(s.end, i+1)
	return nil
}

// get maps the chunks that put has written, and enters them where text is nil.
func (s *spill) get(text []*[textChunk]byte) (err error) {
	if s.end == 0 {
		return nil
	}
	s.data, err = platform.Map(s.file, s.end*textChunk)
	if err != nil {
		return fmt.Errorf("mapping the entries: %w", err)
	}
	for i, chunk := range text {
		if chunk == nil {
			text[i] = (*[textChunk]byte)(s.data[i*textChunk:])
		}
	}
	return nil
}

func (s *spill) close() {
	if s.data != nil {
		_ = platform.Unmap(s.data)
	}
	if s.file != nil {
		s.file.Close()
		_ = os.Remove(s.file.Name()) // it is gone already but on Windows
	}
	*s = spill{}
}

const (
	textChunk = 4 << 10   // at least the longest key
	blockLen  = 204       // entries in 4 KiB
	maxInFile = 1<<32 - 1 // lines, and bytes of text
)
