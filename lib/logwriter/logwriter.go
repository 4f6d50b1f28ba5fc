// Package logwriter writes a log that nobody has to read. What is written waits in memory, a
// goroutine writes it on, and what has no room is dropped and counted.
package logwriter

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// room is how much of the log waits for a reader; more is lost, and counted.
	room = 1 << 20
	// lastWait is how long the end of the program waits for a reader of the last lines.
	lastWait = time.Second
)

// A Writer is a log whose reader may stop reading, such as a stopped terminal or a full pipe,
// without holding up the program. A line says how much was dropped.
type Writer struct {
	to   io.Writer
	more chan struct{} // something waits, or nothing follows

	mu      sync.Mutex
	waiting bytes.Buffer
	lost    int // writes
	over    bool

	ended chan struct{}
}

// New returns a Writer to a log. Its goroutine ends with Close.
func New(to io.Writer) *Writer {
	l := &Writer{to: to, more: make(chan struct{}, 1), ended: make(chan struct{})}
	go l.run()
	return l
}

// Write takes one line of the log, or several. It never fails and never waits.
func (l *Writer) Write(p []byte) (int, error) {
	l.mu.Lock()
	if l.waiting.Len()+len(p) > room {
		l.lost++
	} else {
		l.waiting.Write(p)
	}
	l.mu.Unlock()
	l.wake()
	return len(p), nil
}

func (l *Writer) wake() {
	select {
	case l.more <- struct{}{}:
	default:
	}
}

func (l *Writer) run() {
	defer close(l.ended)
	var out bytes.Buffer
	for range l.more {
		l.mu.Lock()
		out, l.waiting = l.waiting, out
		lost, over := l.lost, l.over
		l.lost = 0
		l.mu.Unlock()
		if lost > 0 {
			fmt.Fprintf(&out, "time=%s level=WARN msg=\"nobody read the log, and lines of it are lost\" lines=%d\n", time.Now().Format("2006-01-02T15:04:05.000Z07:00"), lost)
		}
		_, _ = out.WriteTo(l.to) // without a log, the gateway goes on
		out.Reset()
		if over {
			return
		}
	}
}

// Close writes what waits, if the log is read within a second.
func (l *Writer) Close() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.wake()
	timer := time.NewTimer(lastWait)
	defer timer.Stop()
	select {
	case <-l.ended:
	case <-timer.C:
	}
}
