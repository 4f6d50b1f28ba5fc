package handover

import (
	"os"
	"os/exec"
	"path/filepath"
)

// A Program is the executable file of a process, as it was when the process began.
type Program struct {
	Path string
	was  os.FileInfo
}

// ThisProgram returns the one of this process.
func ThisProgram() Program {
	path, err := os.Executable()
	if err != nil { // without /proc
		if path, err = exec.LookPath(os.Args[0]); err != nil {
			return Program{}
		}
		if path, err = filepath.Abs(path); err != nil {
			return Program{}
		}
	}
	info, _ := os.Stat(path)
	return Program{path, info}
}

// Changed reports whether the file has been replaced.
func (p Program) Changed() bool {
	now, err := os.Stat(p.Path)
	return err == nil && p.was != nil && (!os.SameFile(now, p.was) || now.Size() != p.was.Size() || !now.ModTime().Equal(p.was.ModTime()))
}
