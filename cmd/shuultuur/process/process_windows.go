package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/windows/svc"
)

// HandOver asks a gateway to start its successor. Windows never sends it.
const HandOver = syscall.Signal(12)

// AskToHandOver would send HandOver to a process.
func AskToHandOver(int) error {
	return errors.New("Windows passes no sockets from one program to the next: restart the service (Restart-Service Shuultuur)")
}

// Alive reports whether a process runs.
func Alive(process int) bool {
	p, err := os.FindProcess(process) // opens the process here
	if err != nil {
		return false
	}
	_ = p.Release()
	return true
}

// Run calls f with a context that ends when the user or the service manager ends the process, and
// returns its exit status. log is where f writes, nil for its own output: a service has none.
func Run(f func(ctx context.Context, log *os.File) int) (status int, err error) {
	if is, err := svc.IsWindowsService(); err != nil || !is {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return f(ctx, nil), nil
	}
	log, err := serviceLog()
	if err != nil {
		return 1, err
	}
	defer log.Close()
	s := &service{run: f, log: log}
	if err := svc.Run("", s); err != nil { // the name counts only where services share a process
		return 1, fmt.Errorf("running as a service: %w", err)
	}
	return s.status, nil
}

// mostLog is the size in bytes at which a start moves the log of the service aside.
const mostLog = 16 << 20

// serviceLog opens shuultuur.log beside the program, since a service has no standard error.
func serviceLog() (*os.File, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(filepath.Dir(program), "shuultuur.log")
	if info, err := os.Stat(path); err == nil && info.Size() > mostLog {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// A service is a command line that Windows starts and stops.
type service struct {
	run    func(context.Context, *os.File) int
	log    *os.File
	status int
}

// Execute implements svc.Handler.
func (s *service) Execute(_ []string, requests <-chan svc.ChangeRequest, changes chan<- svc.Status) (bool, uint32) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan int, 1)
	go func() { done <- s.run(ctx, s.log) }()
	changes <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	for {
		select {
		case s.status = <-done:
			return true, uint32(s.status)
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				changes <- r.CurrentStatus
			case svc.Stop, svc.Shutdown:
				changes <- svc.Status{State: svc.StopPending}
				stop()
			}
		}
	}
}
