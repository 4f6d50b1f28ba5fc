package markup

import (
	"testing"
	"time"
)

// A state that reads nothing and does not end is a fault of this package. It must not hang.
func TestReadersWithoutProgressEnd(t *testing.T) {
	var x Scanner
	x.Reset(nil, false)
	if x.st = 255; !ends(func() { x.Write([]byte("abc")) }) || !x.page.lost {
		t.Errorf("lost %v, want that the rest is lost", x.page.lost)
	}
	q := quotes{st: 255}
	if !ends(func() { q.write(&x.page.out, []byte("abc")) }) || !q.lost {
		t.Errorf("lost %v, want that the rest is lost", q.lost)
	}
}

// ends reports whether f ends within seconds.
func ends(f func()) bool {
	done := make(chan bool)
	go func() { f(); close(done) }()
	select {
	case <-done:
		return true
	case <-time.After(10 * time.Second):
		return false
	}
}
