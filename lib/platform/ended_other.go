//go:build !linux

package platform

// Ended reports whether the peer of a connected socket sends nothing more (ended), if all bytes
// before that were read, and whether the connection was reset (broken). It does not wait.
func Ended(socket uintptr) (ended, broken bool) {
	var b [1]byte
	switch n, err := Peek(socket, b[:]); err {
	case nil:
		return n == 0, false
	case ErrWait:
		return false, false
	}
	return true, true
}
