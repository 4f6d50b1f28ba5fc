package logwriter

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// A gate passes what is written to it once it is open.
type gate struct {
	open chan struct{}
	bytes.Buffer
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	return g.Buffer.Write(p)
}

// TestALogThatNobodyReadsHoldsUpNothing: writes return, what has room arrives in order when it is
// read, and the rest is counted.
func TestALogThatNobodyReadsHoldsUpNothing(t *testing.T) {
	g := &gate{open: make(chan struct{})}
	l := New(g)
	line := strings.Repeat("x", 999) + "\n"
	const lines = 3000
	for range lines {
		if n, err := l.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	close(g.open)
	l.Close()
	got := strings.SplitAfter(g.String(), "\n")
	whole := 0
	for whole < len(got) && got[whole] == line {
		whole++
	}
	if whole < room/len(line)-1 || whole > 2*room/len(line)+1 {
		t.Errorf("%d lines arrived, want those that fit", whole)
	}
	var lost int
	for _, rest := range got[whole:] {
		if _, after, ok := strings.Cut(rest, "lines="); ok {
			for _, c := range strings.TrimSpace(after) {
				lost = 10*lost + int(c-'0')
			}
		}
	}
	if whole+lost != lines {
		t.Errorf("%d lines arrived and %d are said to be lost, of %d", whole, lost, lines)
	}
}

func TestTheEndOfALog(t *testing.T) {
	var all bytes.Buffer
	l := New(&all)
	_, _ = io.WriteString(l, "last words\n")
	l.Close()
	if all.String() != "last words\n" {
		t.Errorf("the log has %q", all.String())
	}
	stuck := New(&gate{open: make(chan struct{})})
	_, _ = io.WriteString(stuck, "never read\n")
	begun := time.Now()
	if stuck.Close(); time.Since(begun) > 10*lastWait {
		t.Error("the end of the program waits for a log that nobody reads")
	}
	gone := New(writerFunc(func([]byte) (int, error) { return 0, errors.New("gone") }))
	_, _ = io.WriteString(gone, "nowhere\n")
	gone.Close()
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
