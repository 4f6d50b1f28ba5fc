package doctor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Kernel implements Machine for settings that are numbers.
func (ThisMachine) Kernel(name string) (string, error) {
	b, err := unix.SysctlRaw(name)
	if errors.Is(err, unix.ENOENT) {
		return "", fmt.Errorf("sysctl %s: %w", name, fs.ErrNotExist)
	}
	if err != nil {
		return "", fmt.Errorf("sysctl %s: %w", name, err)
	}
	switch len(b) {
	case 4:
		return strconv.FormatInt(int64(int32(binary.NativeEndian.Uint32(b))), 10), nil
	case 8:
		return strconv.FormatUint(binary.NativeEndian.Uint64(b), 10), nil
	}
	return "", fmt.Errorf("sysctl %s: %d bytes, not a number", name, len(b))
}

// tcpTimeWait is TCPS_TIME_WAIT of netinet/tcp_fsm.h.
const tcpTimeWait = 10

// TimeWait implements Machine: the kernel keeps a count for each TCP state.
func (ThisMachine) TimeWait() (int64, error) {
	b, err := unix.SysctlRaw("net.inet.tcp.states")
	if err != nil {
		return 0, fmt.Errorf("sysctl net.inet.tcp.states: %w", err)
	}
	if len(b) < 8*(tcpTimeWait+1) {
		return 0, fmt.Errorf("sysctl net.inet.tcp.states: %d bytes", len(b))
	}
	return int64(binary.NativeEndian.Uint64(b[8*tcpTimeWait:])), nil
}

// Synchronised implements Machine. The value is a struct ntptimeval
// (sys/timex.h): a timespec, three longs, and the state, TIME_ERROR being 5.
func (ThisMachine) Synchronised() (bool, error) {
	b, err := unix.SysctlRaw("kern.ntp_pll.gettime")
	if err != nil {
		return false, fmt.Errorf("sysctl kern.ntp_pll.gettime: %w", err)
	}
	if len(b) < 44 {
		return false, fmt.Errorf("sysctl kern.ntp_pll.gettime: %d bytes", len(b))
	}
	return binary.NativeEndian.Uint32(b[40:]) != 5, nil
}

// Entropy implements Machine. GRND_NONBLOCK is 1.
func (ThisMachine) Entropy() (bool, error) {
	var b [16]byte
	_, _, errno := unix.Syscall(unix.SYS_GETRANDOM, uintptr(unsafe.Pointer(&b)), uintptr(len(b)), 1)
	if errno == unix.EAGAIN {
		return false, nil
	}
	if errno != 0 {
		return false, fmt.Errorf("getrandom: %w", errno)
	}
	return true, nil
}

// Memory implements Machine.
func (m ThisMachine) Memory() (int64, error) {
	s, err := m.Kernel("hw.physmem")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(s, 10, 64)
}

// Written implements Machine.
func (ThisMachine) Written(int) (Written, error) { return Written{}, errors.ErrUnsupported }

func isCard(string) bool { return false }
