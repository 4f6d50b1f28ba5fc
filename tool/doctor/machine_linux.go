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

	"shuultuur/lib/platform"
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

// Memory implements Machine.
func (ThisMachine) Memory() (int64, error) {
	s, err := readSmall("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	have, err := memTotal(s)
	if limit := platform.MemoryLimit(); err == nil && limit > 0 {
		have = min(have, limit)
	}
	return have, err
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
