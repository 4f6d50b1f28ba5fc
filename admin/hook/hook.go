// Package hook runs a program of the administrator's when the settings were
// saved, for example to commit, copy or announce them.
//
// The program is a file beside the settings with their name and ".saved"
// appended. No setting names it: whoever may change the settings on a page must
// not be able to choose a program to run.
package hook

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"shuultuur/lib/ascii"
)

const (
	patience = 30 * time.Second
	most     = 2000 // bytes of its output that are repeated
)

// Path returns the program for a settings file.
func Path(file string) string { return file + ".saved" }

// Run runs the program of a file of settings, if there is one, in the folder
// of the file, whose name it gets as its argument. SHUULTUUR_BY and
// SHUULTUUR_REASON say who saved and why.
func Run(ctx context.Context, file, by, reason string) error {
	path, err := filepath.Abs(Path(file))
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("the settings are saved, but %s cannot be run: %w", path, err)
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o100 == 0:
		return fmt.Errorf("the settings are saved, but %s is not a program: make it executable with chmod 755", path)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("the settings are saved, but %s is not run, because others may write it: use chmod 755", path)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, filepath.Base(file)) //nolint:gosec // it lies where only the administrator writes
	cmd.Dir = filepath.Dir(path)
	cmd.Env = append(os.Environ(), "SHUULTUUR_BY="+variable(by), "SHUULTUUR_REASON="+variable(reason))
	cmd.WaitDelay = time.Second
	output := &prefixWriter{}
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("it took longer than %v", patience)
		}
		return fmt.Errorf("the settings are saved, but %s failed: %w: %s", path, err, strings.ToValidUTF8(strings.TrimSpace(string(output.kept)), ""))
	}
	return nil
}

// variable keeps what somebody typed from ending the variable or adding lines to
// a message.
func variable(s string) string {
	return ascii.OneLine(strings.ReplaceAll(s, "\x00", " "))
}

// prefixWriter keeps the beginning of a program's output. It is no bytes.Buffer, which
// would read all of it.
type prefixWriter struct{ kept []byte }

func (s *prefixWriter) Write(b []byte) (int, error) {
	s.kept = append(s.kept, b[:min(len(b), most-len(s.kept))]...)
	return len(b), nil
}
