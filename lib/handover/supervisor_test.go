package handover

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestSupervisorHearsStateAndSignsOfLife(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "2000000") // the first notification does not wait for half the interval
	t.Setenv("WATCHDOG_PID", "")
	s := NewSupervisor()
	if err := s.Send("READY=1"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go s.Watch(ctx, func() bool { return true })
	b := make([]byte, 100)
	for _, want := range []string{"READY=1", "WATCHDOG=1", "WATCHDOG=1"} {
		n, err := l.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(b[:n]); got != want {
			t.Errorf("the supervisor got %q, want %q", got, want)
		}
	}
}

func TestWithoutSupervisorNothingIsSent(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := NewSupervisor().Send("READY=1"); err != nil {
		t.Error(err)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "gone"))
	if err := NewSupervisor().Send("READY=1"); err == nil {
		t.Error("sending to a missing socket returns no error")
	}
}

func TestASupervisorMayGoAndReturn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	t.Setenv("NOTIFY_SOCKET", path)
	s := NewSupervisor()
	for range 2 {
		l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send("READY=1"); err != nil {
			t.Errorf("while it is there: %v", err)
		}
		l.Close()
		os.Remove(path)
		if err := s.Send("READY=1"); err == nil {
			t.Error("nobody is there, and sending returns no error")
		}
	}
}
