package doctor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

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

// Written implements Machine, see proc_pid_io(5).
func (ThisMachine) Written(process int) (w Written, err error) {
	dir := filepath.Join("/proc", strconv.Itoa(process))
	counts, err := readSmall(filepath.Join(dir, "io"))
	if err != nil {
		return w, err
	}
	stat, err := readSmall(filepath.Join(dir, "stat"))
	if err != nil {
		return w, err
	}
	up, err := readSmall("/proc/uptime")
	if err != nil {
		return w, err
	}
	if w.Bytes, err = writeBytes(counts); err != nil {
		return w, err
	}
	w.In, err = runsFor(stat, up)
	return w, err
}

func writeBytes(io string) (int64, error) {
	for line := range strings.Lines(io) {
		if n, ok := strings.CutPrefix(line, "write_bytes:"); ok {
			return strconv.ParseInt(strings.TrimSpace(n), 10, 64)
		}
	}
	return 0, errors.New("the kernel does not count what a process writes")
}

// ticks is the unit of times in /proc/PID/stat, the same on all processors that Go knows.
const ticks = 100

// runsFor returns how long a process has run, by its line in /proc/PID/stat and by /proc/uptime. The name
// of the program may contain anything, and ends at the last parenthesis.
func runsFor(stat, uptime string) (time.Duration, error) {
	const started = 22 - 3 // field 22 of all, of which the first three end behind the name and the state
	words, up := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]), strings.Fields(uptime)
	if len(words) <= started || len(up) == 0 {
		return 0, errors.New("/proc does not say when the process started")
	}
	at, err := strconv.ParseUint(words[started], 10, 63)
	if err != nil {
		return 0, err
	}
	now, err := strconv.ParseFloat(up[0], 64)
	if err != nil {
		return 0, err
	}
	return max(0, time.Duration((now-float64(at)/ticks)*float64(time.Second))), nil
}

// mmc is the number of the driver of SD cards and of memory soldered in their place.
const mmc = 179

func isCard(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) == nil && unix.Major(uint64(st.Dev)) == mmc
}
