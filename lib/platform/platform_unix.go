//go:build unix

package platform

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Errors of the network and of files, as the system returns them.
const (
	ECONNREFUSED  = syscall.ECONNREFUSED
	ECONNRESET    = syscall.ECONNRESET
	EPIPE         = syscall.EPIPE
	ENETUNREACH   = syscall.ENETUNREACH
	EHOSTUNREACH  = syscall.EHOSTUNREACH
	EADDRINUSE    = syscall.EADDRINUSE
	EADDRNOTAVAIL = syscall.EADDRNOTAVAIL
	EAFNOSUPPORT  = syscall.EAFNOSUPPORT
	EACCES        = syscall.EACCES
	EMFILE        = syscall.EMFILE
	ENOBUFS       = syscall.ENOBUFS
	ENOSPC        = syscall.ENOSPC
)

// Lock waits for the exclusive lock of a file. Closing the file, or the end of the process,
// releases it.
func Lock(f *os.File) error { return flock(f, unix.LOCK_EX) }

// TryLock is Lock without waiting, for a shared lock if shared is set. It returns ErrLocked
// when another process has a lock that excludes this one.
func TryLock(f *os.File, shared bool) error {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	err := flock(f, how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

// MapsWrites reports whether a mapped file shows later writes, and may be renamed over and
// removed while it is mapped.
const MapsWrites = true

// Map returns the first size bytes of a file for reading, mapped into memory.
func Map(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
}

// Unmap releases memory that Map has returned.
func Unmap(data []byte) error { return unix.Munmap(data) }

// Forget lets the system take the memory of whole pages of a mapped file.
func Forget(data []byte) {
	_ = unix.Madvise(data, unix.MADV_DONTNEED) // the memory may also stay
}

// Read reads the bytes that have arrived at a socket that does not block, as all of Go's.
// It returns ErrWait when nothing has.
func Read(socket uintptr, p []byte) (int, error) {
	for {
		switch n, err := syscall.Read(int(socket), p); err {
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, ErrWait
		default:
			return max(n, 0), err
		}
	}
}

// Peek is Read for bytes that stay there to be read.
func Peek(socket uintptr, p []byte) (int, error) {
	for {
		switch n, _, err := syscall.Recvfrom(int(socket), p, syscall.MSG_PEEK|syscall.MSG_DONTWAIT); err {
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, ErrWait
		default:
			return max(n, 0), err
		}
	}
}

// Owner returns the user and group that own a file; ok is false if they are unknown.
func Owner(info fs.FileInfo) (user, group int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), int(st.Gid), true
}

// OfRoot reports whether a file or folder belongs to root and a file has no other name.
func OfRoot(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Uid == 0 && (info.IsDir() || info.Mode().IsRegular() && st.Nlink == 1)
}

// Open reports whether others than the owner of a file may read or change it.
func Open(mode fs.FileMode) bool { return mode.Perm()&0o077 != 0 }

// Files returns the limits of open files of this process.
func Files() (soft, hard uint64, err error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, 0, err
	}
	return uint64(l.Cur), uint64(l.Max), nil //nolint:gosec,unconvert // signed on some systems
}

// CPU returns the processor time that this process has used, user and system; 0 if that is not
// known.
func CPU() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Writable returns an error if this process may not write to a file or, for a folder, in it. It
// opens nothing.
func Writable(path string) error {
	if err := unix.Access(path, unix.W_OK); err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}
