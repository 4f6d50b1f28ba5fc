package atomicfile

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Damaged returns why a file looks damaged beside a copy of what it was, and not changed: it is
// empty, it is the beginning of the copy and ends in the middle of a line or has less than half of it,
// it has control characters and was a text, as after a crash, or it is now a page in HTML, as a server
// answers that does not have the file. It says only what is certain: without a copy or a file there is no error.
func Damaged(file, copy string) error {
	is, err := os.Stat(file)
	if err != nil || !is.Mode().IsRegular() || is.Size() > maxCopied {
		return nil
	}
	was, err := os.Stat(copy)
	if err != nil || !was.Mode().IsRegular() || was.Size() == 0 || was.Size() == is.Size() && was.ModTime().Equal(is.ModTime()) {
		return nil
	}
	if is.Size() == 0 {
		return fmt.Errorf("%s is empty, and had %d bytes when it was good; if nothing is to be in it, write a comment into it", file, was.Size())
	}
	now, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	before, err := os.ReadFile(copy)
	if err != nil || bytes.Equal(now, before) {
		return nil
	}
	text := bytes.IndexFunc(before, isControl) < 0
	if at := bytes.IndexFunc(now, isControl); text && at >= 0 {
		return fmt.Errorf("%s:%d: it has bytes such as 0x%02x, and was a text when it was good", file, 1+bytes.Count(now[:at], []byte("\n")), now[at])
	}
	if isHTML(now) && !isHTML(before) {
		return fmt.Errorf("%s:1: it is a page in HTML, and was not when it was good", file)
	}
	switch rest, begins := bytes.CutPrefix(before, now); {
	case begins && (!text || now[len(now)-1] != '\n' && rest[0] != '\n' && rest[0] != '\r'):
		return fmt.Errorf("%s is cut short: it has the first %d bytes of the %d that it had when it was good, and ends in the middle of a line", file, len(now), len(before))
	case begins && len(now) < len(before)/2 && bytes.Count(rest, []byte("\n")) >= fewestCut:
		return fmt.Errorf("%s is cut short: it has the first %d bytes of the %d that it had when it was good; if that is right, delete %s and reload", file, len(now), len(before), copy)
	}
	return nil
}

// fewestCut is how many lines must be gone from the end of a text for it to look cut at the end of a
// line: people take out a few.
const fewestCut = 10

// isControl reports whether no text has such a character, nor a byte of the same value in any charset
// that includes ASCII.
func isControl(r rune) bool { return r < ' ' && (r < '\a' || r > '\r') && r != '\x1b' }

func isHTML(text []byte) bool {
	begin := bytes.ToLower(bytes.TrimLeft(text[:min(len(text), 512)], "\ufeff \t\r\n"))
	return bytes.HasPrefix(begin, []byte("<!doctype html")) || bytes.HasPrefix(begin, []byte("<html"))
}

// Damaged returns why a file, or one in a folder, looks damaged beside its copy; see [Damaged].
func (c Copies) Damaged(file string) (damage error) {
	at := c.at(file)
	_ = filepath.WalkDir(at, func(path string, d fs.DirEntry, err error) error { // without copies there is nothing to compare
		if err == nil && d.Type().IsRegular() {
			if rest, below := bytes.CutPrefix([]byte(path), []byte(at)); below {
				damage = Damaged(file+string(rest), path)
			}
		}
		if err != nil || damage != nil {
			return fs.SkipAll
		}
		return nil
	})
	return damage
}
