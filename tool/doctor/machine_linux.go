package doctor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// readSmall reads a file of /proc or /sys.
func readSmall(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return string(b), err
}

// Kernel implements Machine.
func (ThisMachine) Kernel(name string) (string, error) {
	s, err := readSmall(filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/")))
	return strings.TrimSpace(s), err
}

// TimeWait implements Machine: /proc/net/sockstat counts both IP versions.
func (ThisMachine) TimeWait() (int64, error) {
	s, err := readSmall("/proc/net/sockstat")
	if err != nil {
		return 0, err
	}
	return sockstat(s)
}

func sockstat(s string) (int64, error) {
	for line := range strings.Lines(s) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "TCP:" {
			continue
		}
		for i := 1; i+1 < len(words); i += 2 {
			if words[i] == "tw" {
				return strconv.ParseInt(words[i+1], 10, 64)
			}
		}
	}
	return 0, errors.New("/proc/net/sockstat has no count of TIME_WAIT")
}

// Synchronised implements Machine, see adjtimex(2).
func (ThisMachine) Synchronised() (bool, error) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return false, fmt.Errorf("adjtimex: %w", err)
	}
	return state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0, nil
}

// Entropy implements Machine.
func (ThisMachine) Entropy() (bool, error) {
	_, err := unix.Getrandom(make([]byte, 16), unix.GRND_NONBLOCK)
	if errors.Is(err, unix.EAGAIN) {
		return false, nil
	}
	return err == nil, err
}

// Memory implements Machine. Control groups above that of the process may limit it, too;
// containers set the limit of the process's own group.
func (ThisMachine) Memory() (int64, error) {
	s, err := readSmall("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	have, err := memTotal(s)
	if err != nil {
		return 0, err
	}
	for _, dir := range ownGroups() {
		limit, err := readSmall(filepath.Join(dir, "memory.max"))
		if err != nil {
			continue // not version 2, or the root group, which has no limit
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(limit), 10, 64); err == nil {
			have = min(have, n)
		}
	}
	return have, nil
}

// ownGroups returns the folders of this process's control group and of its
// parents.
func ownGroups() []string {
	const root = "/sys/fs/cgroup"
	dirs := []string{root}
	s, err := readSmall("/proc/self/cgroup")
	if err != nil {
		return dirs
	}
	for line := range strings.Lines(s) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::/")
		for ok && path != "" && path != "." {
			dirs = append(dirs, filepath.Join(root, path))
			path = filepath.Dir(path)
		}
	}
	return dirs
}

func memTotal(s string) (int64, error) {
	for line := range strings.Lines(s) {
		var kb int64
		if _, err := fmt.Sscanf(line, "MemTotal: %d kB", &kb); err == nil {
			return kb << 10, nil
		}
	}
	return 0, errors.New("/proc/meminfo has no MemTotal")
}
