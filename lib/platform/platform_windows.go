package platform

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Errors of the network and of files, as the system returns them.
const (
	ECONNREFUSED  = windows.WSAECONNREFUSED
	ECONNRESET    = windows.WSAECONNRESET
	EPIPE         = windows.WSAECONNABORTED
	ENETUNREACH   = windows.WSAENETUNREACH
	EHOSTUNREACH  = windows.WSAEHOSTUNREACH
	EADDRINUSE    = windows.WSAEADDRINUSE
	EADDRNOTAVAIL = windows.WSAEADDRNOTAVAIL
	EAFNOSUPPORT  = windows.WSAEAFNOSUPPORT
	EACCES        = windows.WSAEACCES
	EMFILE        = windows.WSAEMFILE
	ENOBUFS       = windows.WSAENOBUFS
	ENOSPC        = windows.ERROR_DISK_FULL
)

// Lock waits for the exclusive lock of a file. Closing the file, or the end of the process,
// releases it.
func Lock(f *os.File) error { return lock(f, windows.LOCKFILE_EXCLUSIVE_LOCK) }

// TryLock is Lock without waiting, for a shared lock if shared is set. It returns ErrLocked
// when another process has a lock that excludes this one.
func TryLock(f *os.File, shared bool) error {
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if !shared {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := lock(f, how)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLocked
	}
	return err
}

// lock locks a byte far behind the end: other processes cannot read a locked part, and the
// content of a lock file is for all.
func lock(f *os.File, how uint32) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{OffsetHigh: math.MaxInt32})
}

// MapsWrites reports whether a mapped file shows what is written to it later, and may be renamed
// over and removed while it is mapped.
const MapsWrites = false

// Map returns the first size bytes of a file for reading. They are a copy: a file that is
// mapped could not be replaced here.
func Map(f *os.File, size int) ([]byte, error) {
	data := make([]byte, size)
	_, err := io.ReadFull(io.NewSectionReader(f, 0, int64(size)), data)
	return data, err
}

// Unmap releases what Map has returned.
func Unmap([]byte) error { return nil }

// Forget lets the system take the memory of whole pages of a mapped file.
func Forget([]byte) {}

// Read reads the bytes that have arrived at a socket. It returns ErrWait when
// nothing has.
func Read(socket uintptr, p []byte) (int, error) { return receive(socket, p, 0) }

// Peek is Read for bytes that stay there to be read.
func Peek(socket uintptr, p []byte) (int, error) { return receive(socket, p, windows.MSG_PEEK) }

// pollFD is WSAPOLLFD.
type pollFD struct {
	socket       windows.Handle
	want, events int16
}

const pollIn = 0x0100 // POLLRDNORM

var poll = windows.NewLazySystemDLL("ws2_32.dll").NewProc("WSAPoll")

// receive first polls the socket, because reading from a socket of Go waits on Windows.
func receive(socket uintptr, p []byte, flags uint32) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	one := pollFD{socket: windows.Handle(socket), want: pollIn}
	// A failure leaves events 0: the next regular read gets the error.
	_, _, _ = poll.Call(uintptr(unsafe.Pointer(&one)), 1, 0)
	if one.events == 0 {
		return 0, ErrWait
	}
	buf := windows.WSABuf{Len: uint32(min(len(p), math.MaxInt32)), Buf: &p[0]}
	var n uint32
	err := windows.WSARecv(windows.Handle(socket), &buf, 1, &n, &flags, nil, nil)
	return int(n), err
}

// Owner returns no owner: Windows has no numbers for users and groups.
func Owner(fs.FileInfo) (user, group int, ok bool) { return 0, 0, false }

// OfRoot returns false: Windows has no root.
func OfRoot(fs.FileInfo) bool { return false }

// Open reports whether others than the owner of a file may read or change it. Here the folder's
// access list decides, and the mode says nothing.
func Open(fs.FileMode) bool { return false }

// Files returns the limits of open files of this process. There are none here.
func Files() (soft, hard uint64, err error) { return math.MaxInt64, math.MaxInt64, nil }

// CPU returns the processor time that this process has used, user and system; 0 if that is not
// known.
func CPU() time.Duration {
	var started, ended, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(windows.CurrentProcess(), &started, &ended, &kernel, &user); err != nil {
		return 0
	}
	return time.Duration(ticks(kernel)+ticks(user)) * 100
}

// ticks are units of 100 ns.
func ticks(t windows.Filetime) int64 { return int64(t.HighDateTime)<<32 | int64(t.LowDateTime) }

// Writable returns an error if a path does not exist; who may write it is in access control lists,
// which only opening the file evaluates.
func Writable(path string) error {
	_, err := os.Stat(path)
	return err
}

// NoCores has nothing to do: a crash leaves no core file.
func NoCores() error { return nil }
