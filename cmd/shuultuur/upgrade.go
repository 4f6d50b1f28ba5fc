package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"shuultuur/cmd/shuultuur/process"
	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/gateway"
	"shuultuur/lib/datadir"
	"shuultuur/lib/handover"
)

const upgradeHelp = `
Has the running gateway of the settings in FILE (shuultuur.yaml when left out, or
those of the service where this folder has none) start the program that now stands where it was started from, and hand its
sockets over: no connection is refused and no query is lost. The old process
serves the clients that are connected until they leave, for an hour at most.
When the new program cannot start with the settings, it says why and everything
stays as it is. So does a container, which ends with its first process: it is
replaced by one of the new image.

SIGUSR2 does the same; so does SIGHUP when the program has changed.`

func upgrade(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "upgrade", "[-wait TIME] [-config FILE | FILE]", upgradeHelp)
	config := f.String("config", "", "settings `file`")
	wait := f.Duration("wait", 5*time.Minute, "how long the running gateway may `take` to answer")
	if status := parse(args, 0, 1); status >= 0 {
		return status
	}
	file, err := oneFile(*config, f.Arg(0))
	if err != nil {
		return fail(e, err)
	}
	file = askedFile(file)
	before, err := configuration.HolderOf(file)
	if errors.Is(err, datadir.ErrFree) {
		return fail(e, fmt.Errorf("%w; start it: shuultuur run %s", err, file))
	}
	if err != nil {
		return fail(e, err)
	}
	if err := process.AskToHandOver(before.Process); err != nil {
		return fail(e, fmt.Errorf("asking process %d to hand over: %w", before.Process, err))
	}
	late := time.After(*wait)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return fail(e, ctx.Err())
		case <-late:
			return fail(e, fmt.Errorf("process %d has not handed over within %s; its log may say why, and -wait waits longer", before.Process, *wait))
		case <-tick.C:
		}
		now, err := configuration.HolderOf(file)
		switch {
		case err != nil: // between two versions, or while it is written
			if !process.Alive(before.Process) {
				return fail(e, fmt.Errorf("process %d ended without a successor: %w", before.Process, err))
			}
		case now.Process != before.Process && now.Serving:
			fmt.Fprintf(e.stdout, "process %d serves; process %d finishes its connections\n", now.Process, before.Process)
			return 0
		case now.Refused > before.Refused:
			return fail(e, fmt.Errorf("%s; process %d goes on", now.Why, before.Process))
		}
	}
}

// A watcher handles signals and supervision of a running gateway.
type watcher struct {
	g    *gateway.Gateway
	log  *slog.Logger
	boss handover.Supervisor
	self handover.Program
	// signals that a gateway handles; unhandled, they would end the process.
	signals chan os.Signal
	// pipes takes the signal of a log that nobody reads any more, which would end the process; the
	// write fails instead. Nobody receives from it.
	pipes chan os.Signal
}

func newWatcher(log *slog.Logger) *watcher {
	w := &watcher{log: log, boss: handover.NewSupervisor(), self: handover.ThisProgram(), signals: make(chan os.Signal, 2), pipes: make(chan os.Signal, 1)}
	signal.Notify(w.signals, syscall.SIGHUP, process.HandOver)
	signal.Notify(w.pipes, syscall.SIGPIPE)
	return w
}

// follow handles signals until ctx ends. It calls left when another process has
// taken over.
func (w *watcher) follow(ctx context.Context, left func()) {
	defer signal.Stop(w.signals)
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-w.signals:
			if s == process.HandOver || w.self.Changed() {
				w.log.Info("handing over", "to", w.self.Path, "because", s.String())
				successor, err := w.g.Upgrade(ctx, w.self.Path, os.Args[1:])
				if err == nil {
					w.log.Info("another process serves; this one finishes its connections", "process", successor)
					left()
					return
				}
				w.log.Error("not upgraded; this process goes on", "error", err)
				if s == process.HandOver {
					continue
				}
			}
			_ = w.boss.Send("RELOADING=1")
			w.g.Hangup(ctx)
			_ = w.boss.Send("READY=1")
		}
	}
}

// prepareHandover prepares to replace the predecessor, which waits for a message: it
// checks that the settings are usable before it asks for the data folder.
// Without a predecessor, it does nothing.
func prepareHandover(ctx context.Context, file string, before *handover.Successor) error {
	if before == nil {
		return nil
	}
	_, drop, err := engine.Explain(ctx, file)
	if err != nil {
		before.Refuse(err)
		return err
	}
	drop()
	return before.ReportReady()
}
