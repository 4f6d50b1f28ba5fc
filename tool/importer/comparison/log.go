package comparison

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"shuultuur/tool/importer"
	"shuultuur/whatif"
)

// newest is how many bytes of a log are read: those at its end.
const newest = 64 << 20

// openLog opens the log of a program whose configuration is at path, at the beginning of a line. If
// there is none, the error is [fs.ErrNotExist].
func openLog(program, path string) (*os.File, error) {
	file := findLog(program, path)
	if file == "" {
		return nil, fs.ErrNotExist
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("reading the log that %s names: %w", program, err)
	}
	if info, err := f.Stat(); err != nil || info.Size() == 0 {
		_ = f.Close()
		return nil, errors.Join(err, fs.ErrNotExist)
	}
	return f, nil
}

// findLog returns the log that the configuration at path names, or the usual one of an installed
// configuration; "" if there is none.
func findLog(program, path string) (file string) {
	p, _ := importer.ProgramOf(program)
	n := p.Log
	dir := path
	if exists(path) {
		dir = filepath.Dir(path)
	}
	if n.Beside != "" && exists(filepath.Join(dir, n.Beside)) {
		return filepath.Join(dir, n.Beside)
	}
	if n.Key != nil {
		_ = readTexts(path, func(text []byte) {
			if m := n.Key.FindSubmatch(text); m != nil && file == "" {
				file = string(m[1])
			}
		})
	}
	if abs, err := filepath.Abs(dir); file == "" && err == nil && (abs == "/etc/"+program || n.Usual != "" && strings.HasPrefix(abs, "/etc/"+program+"/")) {
		file = n.Usual
	}
	if file == "" || !exists(file) {
		return ""
	}
	return file
}

// logEntries yields the newest requests of a log.
func logEntries(ctx context.Context, f *os.File) iter.Seq2[whatif.Entry, error] {
	return func(yield func(whatif.Entry, error) bool) {
		r, err := end(f)
		if err != nil {
			yield(whatif.Entry{}, err)
			return
		}
		s := &whatif.Source{Files: []string{"-"}, Stdin: r}
		for e, err := range s.Entries(ctx) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// end returns the newest lines of a file.
func end(f *os.File) (io.Reader, error) {
	info, err := f.Stat()
	if err != nil || info.Size() <= newest {
		return f, err
	}
	if _, err := f.Seek(-newest, io.SeekEnd); err != nil {
		return nil, err
	}
	r := bufio.NewReader(f)
	_, err = r.ReadSlice('\n')
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.ReadSlice('\n')
	}
	return r, err
}
