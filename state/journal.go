package state

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"shuultuur/lib/atomicfile"
)

// A journal is the file of instructions, one JSON object per line. The last line for each key
// counts. A truncated or damaged line is skipped, because the others are worth keeping, and the file is
// never empty once it was made.
type journal struct {
	path    string
	lines   int
	damaged bool // when it was opened
	out     *os.File
}

// maxJournal bounds the file, in bytes.
const maxJournal = 1 << 30

// openJournal reads the file, which need not exist. The file's modification time is when this
// node last agreed with the others.
func openJournal(path string, log *slog.Logger) (j *journal, all []*keptInstruction, agreed time.Time, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &journal{path: path}, nil, time.Time{}, nil
	}
	if err != nil {
		return nil, nil, agreed, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, agreed, err
	}
	all, damaged, err := readJournal(io.LimitReader(f, maxJournal))
	if err != nil {
		return nil, nil, agreed, fmt.Errorf("%s: %w", path, err)
	}
	if damaged > 0 || info.Size() == 0 {
		log.Error("the file of instructions is damaged; what can be read of it is in use", "file", path, "lines", damaged)
		if err := atomicfile.CopyAside(path); err != nil {
			return nil, nil, agreed, err
		}
	}
	return &journal{path: path, lines: len(all), damaged: damaged > 0 || info.Size() == 0}, all, info.ModTime(), nil
}

// agrees records that this node agrees with the others.
func (j *journal) agrees(now time.Time) error {
	err := os.Chtimes(j.path, now, now)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// readJournal reads lines.
func readJournal(r io.Reader) (all []*keptInstruction, damaged int, err error) {
	lines := bufio.NewReaderSize(r, 8*maxInstruction) // JSON may escape one byte as six
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case err == nil:
		case errors.Is(err, bufio.ErrBufferFull):
			damaged++
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = lines.ReadSlice('\n')
			}
			continue
		case errors.Is(err, io.EOF):
			if len(bytes.TrimSpace(line)) > 0 {
				damaged++
			}
			return all, damaged, nil
		default:
			return nil, 0, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		t := new(keptInstruction)
		if json.Unmarshal(line, t) != nil || t.Check() != nil {
			damaged++
			continue
		}
		all = append(all, t)
	}
}

// append writes instructions and syncs them to disk.
func (j *journal) append(all []*keptInstruction) error {
	if len(all) == 0 {
		return nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, t := range all {
		if err := enc.Encode(t); err != nil {
			return err
		}
	}
	if j.out == nil {
		f, err := os.OpenFile(j.path, os.O_APPEND|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			// The name of a new file has to be on the disk, too.
			if err = j.rewrite(nil); err == nil {
				f, err = os.OpenFile(j.path, os.O_APPEND|os.O_WRONLY, 0o600)
			}
		}
		if err != nil {
			return err
		}
		j.out = f
		// End a line that a crash has truncated.
		if end, err := f.Seek(0, io.SeekEnd); err == nil && end > 0 {
			b = *bytes.NewBuffer(append([]byte("\n"), b.Bytes()...))
		}
	}
	if _, err := j.out.Write(b.Bytes()); err != nil {
		return errors.Join(err, j.close())
	}
	if err := atomicfile.Sync(j.out); err != nil {
		return errors.Join(err, j.close())
	}
	j.lines += len(all)
	return nil
}

// rewrite replaces the file by one with only the entries that count.
func (j *journal) rewrite(all map[name]*keptInstruction) error {
	if err := j.close(); err != nil {
		return err
	}
	err := atomicfile.Write(j.path, 0o600, func(f *os.File) error {
		w := bufio.NewWriter(f)
		enc := json.NewEncoder(w)
		if len(all) == 0 {
			fmt.Fprintln(w) // Flush returns the error
		}
		for _, t := range all {
			if err := enc.Encode(t); err != nil {
				return err
			}
		}
		return w.Flush()
	})
	if err == nil {
		j.lines = len(all)
	}
	return err
}

func (j *journal) close() error {
	f := j.out
	if j.out = nil; f == nil {
		return nil
	}
	return f.Close()
}
