//go:build unix

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// handOver asks a gateway to start its successor.
const handOver = syscall.SIGUSR2

// askToHandOver sends handOver to a process.
func askToHandOver(process int) error { return syscall.Kill(process, handOver) }

// alive reports whether a process runs.
func alive(process int) bool { return syscall.Kill(process, 0) == nil }

// start runs a command line until the user or the service manager ends it, and returns its
// exit status.
func start(e env, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return dispatch(ctx, e, args)
}
