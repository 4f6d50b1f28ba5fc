package handover

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Messages between the two programs, one per line. Any other line of the
// successor is the reason why it does not take over.
const (
	able    = "able"    // the successor: settings and files are good
	yours   = "yours"   // the predecessor: no process uses the data folder any more
	serving = "serving" // the successor: I accept connections
)

// patience is how long the successor may take for each step. Compiling large
// lists takes minutes on small machines.
const patience = 10 * time.Minute

// A Successor lets a process talk to the program that it replaces.
type Successor struct{ in, out *os.File }

// ReportReady reports that this process can start, and waits until the data folder is
// free.
func (s *Successor) ReportReady() error {
	if err := s.send(able); err != nil {
		return err
	}
	line, err := bufio.NewReader(io.LimitReader(s.in, 1<<10)).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != yours {
		return fmt.Errorf("the old program does not hand over: %q, %w", line, err)
	}
	return nil
}

// ReportServing reports that this process serves. The predecessor then stops
// accepting.
func (s *Successor) ReportServing() error {
	defer s.in.Close()
	defer s.out.Close()
	return s.send(serving)
}

// Refuse reports why this process does not take over.
func (s *Successor) Refuse(why error) {
	_ = s.send(strings.Join(strings.Fields(why.Error()), " "))
	s.in.Close()
	s.out.Close()
}

func (s *Successor) send(line string) error {
	if _, err := fmt.Fprintln(s.out, line); err != nil {
		return fmt.Errorf("telling the old program %q: %w", line, err)
	}
	return nil
}

var errContainer = errors.New("this process is the first of its container, which ends with it: replace the container by one of the new image (docker compose pull && docker compose up -d; kubectl rollout restart)")

// Start starts the next program with all open sockets, and waits until it
// serves. It calls release in between: when release returns, the data folder
// belongs to the next program. released reports whether it was called, which
// matters after an error. The started process outlives this one.
func (s *Sockets) Start(ctx context.Context, program string, args []string, release func()) (pid int, released bool, err error) {
	if !passes {
		return 0, false, errors.New("this system passes no sockets from one program to the next: stop the old program and start the new one")
	}
	if os.Getpid() == 1 {
		return 0, false, errContainer
	}
	sockets, names := s.duplicates()
	defer func() {
		for _, fd := range sockets {
			discard(fd)
		}
	}()
	theirIn, in, err := os.Pipe()
	if err != nil {
		return 0, false, err
	}
	defer in.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		theirIn.Close()
		return 0, false, err
	}
	defer out.Close()
	attr := &syscall.ProcAttr{Files: slices.Concat([]uintptr{0, 1, 2}, sockets, []uintptr{theirIn.Fd(), theirOut.Fd()})}
	for _, v := range os.Environ() {
		// The main process must notify the watchdog.
		if !strings.HasPrefix(v, "WATCHDOG_PID=") {
			attr.Env = append(attr.Env, v)
		}
	}
	attr.Env = append(attr.Env, environment+"="+strings.Join(names, ";"))
	// os/exec would use files, and so make the sockets blocking in this process
	// too. Then it could neither time out nor close them.
	pid, _, err = syscall.StartProcess(program, append([]string{program}, args...), attr)
	theirIn.Close()
	theirOut.Close()
	if err != nil {
		return 0, false, fmt.Errorf("starting %s: %w", program, err)
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return 0, false, fmt.Errorf("looking for %s, process %d: %w", program, pid, err)
	}
	defer func() {
		if err != nil {
			_ = process.Kill()
		}
		go func() { _, _ = process.Wait() }() // prevents a zombie while this process lives
	}()
	stop := context.AfterFunc(ctx, func() { out.Close() })
	defer stop()
	lines := bufio.NewReader(io.LimitReader(out, 64<<10))
	if err := expect(out, lines, able); err != nil {
		return 0, false, err
	}
	release()
	if _, err := fmt.Fprintln(in, yours); err != nil {
		return 0, true, fmt.Errorf("telling the new program to go on: %w", err)
	}
	return pid, true, expect(out, lines, serving)
}

// expect reads a line and compares it with the wanted one.
func expect(from *os.File, lines *bufio.Reader, want string) error {
	_ = from.SetReadDeadline(time.Now().Add(patience))
	line, err := lines.ReadString('\n')
	line = strings.TrimSpace(line)
	switch {
	case line == want:
		return nil
	case line != "":
		return errors.New(line)
	case errors.Is(err, io.EOF):
		return errors.New("the new program ended without a reply; it may be too old to take over, or a different program")
	}
	return fmt.Errorf("waiting for the new program: %w", err)
}

// duplicates returns descriptors of the open sockets, which the caller must
// close, and their names.
func (s *Sockets) duplicates() (fds []uintptr, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.open {
		raw, err := h.SyscallConn()
		if err != nil {
			continue
		}
		_ = raw.Control(func(fd uintptr) { // fails if it was closed meanwhile
			if own, err := duplicate(fd); err == nil {
				fds, names = append(fds, own), append(names, h.name)
			}
		})
	}
	return fds, names
}
