//go:build unix

package process

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// HandOver asks a gateway to start its successor.
const HandOver = syscall.SIGUSR2

// AskToHandOver sends HandOver to a process.
func AskToHandOver(process int) error { return syscall.Kill(process, HandOver) }

// Alive reports whether a process runs.
func Alive(process int) bool { return syscall.Kill(process, 0) == nil }

// Run calls f with a context that ends when the user or the service manager ends the process, and
// returns its exit status. log is where f writes, nil for its own output.
func Run(f func(ctx context.Context, log *os.File) int) (status int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return f(ctx, nil), nil
}
