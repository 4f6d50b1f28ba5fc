package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"shuultuur/engine/starter"
	"shuultuur/gateway"
	"shuultuur/lib/handover"
	"shuultuur/lib/logwriter"
	"shuultuur/lib/platform"
)

const runHelp = `
Starts the gateway and serves until interrupted (SIGINT, SIGTERM); requests in
flight are finished and all events written. SIGHUP takes changed settings and
lists into use, as does a change of a file by itself; a file with mistakes
changes nothing.

Without FILE it uses shuultuur.yaml in this folder, or else writes the
starter settings into data/starter and uses them.`

func run(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "run", "[-keylog FILE] [-cores] [FILE]", runHelp)
	config := f.String("config", "", "settings `file`")
	keys := f.String("keylog", "", "write the keys of intercepted connections to `file`, which can then be decrypted: only for debugging")
	cores := f.Bool("cores", false, "let a crash leave a core file, with the keys of the root and of connections in it")
	if status := parse(args, 0, 1); status >= 0 {
		return status
	}
	if !*cores {
		if err := platform.NoCores(); err != nil {
			return fail(e, fmt.Errorf("keeping keys out of core files (-cores goes without): %w", err))
		}
	}
	given, err := oneFile(*config, f.Arg(0))
	if err != nil {
		return fail(e, err)
	}
	file, isStarter, err := settingsFile(given)
	if err != nil {
		return fail(e, err)
	}
	lines := logwriter.New(e.stderr)
	defer lines.Close()
	e.stderr = lines
	log := slog.New(slog.NewTextHandler(e.stderr, nil))
	w := newWatcher(log)
	limitMemory(log)
	sockets, before, err := handover.Inherit()
	if err != nil {
		return fail(e, err)
	}
	if err := prepareHandover(ctx, file, before); err != nil {
		return fail(e, err)
	}
	g, err := gateway.New(sockets.With(ctx), file, log)
	if err != nil {
		if before != nil {
			before.Refuse(err)
		}
		return fail(e, err)
	}
	w.g = g
	fmt.Fprint(e.stdout, g.OfferSetup(ctx, gateway.SetupOffer{Topics: starter.Topics(), Unchanged: starter.IsUnchanged, Compose: starter.Compose}))
	teach(g)
	for _, name := range sockets.Unused() {
		log.Warn("this process received a socket that the settings do not name; it is closed", "socket", name)
	}
	if *keys != "" {
		to, err := os.OpenFile(*keys, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return fail(e, fmt.Errorf("opening the key log: %w", err))
		}
		defer to.Close()
		g.LogKeys(to)
		log.Warn("THE KEYS OF ALL INTERCEPTED CONNECTIONS ARE WRITTEN TO A FILE; whoever reads it can read what clients send and receive. Delete it when you are done", "file", *keys)
	}
	log.Info("serving", "proxy", g.ProxyAddr(), "admin", g.AdminAddr(), "settings", file)
	if isStarter && before == nil {
		fmt.Fprintf(e.stdout, e.named(starter.Welcome), g.ProxyAddr(), g.AdminAddr(), file, strings.Replace(g.DNSAddr(), ":", " -p ", 1))
	}
	if status := serve(ctx, e, w, before); status != 0 || !g.StartsAgain() {
		return status
	}
	return run(ctx, e, args)
}

// serve runs the gateway, and reports its state to the supervisor and to the
// predecessor.
func serve(ctx context.Context, e env, w *watcher, before *handover.Successor) int {
	watch, unwatch := context.WithCancel(ctx)
	defer unwatch()
	if err := w.boss.Send(fmt.Sprintf("MAINPID=%d\nREADY=1\nSTATUS=serving %s", os.Getpid(), w.g.ProxyAddr())); err != nil {
		w.log.Warn(err.Error())
	}
	if before != nil {
		if err := before.ReportServing(); err != nil {
			w.log.Warn(err.Error())
		}
	}
	var left atomic.Bool
	followed := make(chan struct{})
	fctx, stop := context.WithCancel(ctx)
	go func() {
		defer close(followed)
		w.follow(fctx, func() { left.Store(true); unwatch() })
	}()
	go remark(watch, w.g)
	go w.boss.Watch(watch, func() bool { return handover.Accepts(watch, w.g.ProxyAddr()) })
	err := w.g.Run(ctx)
	if !left.Load() && !w.g.StartsAgain() {
		_ = w.boss.Send("STOPPING=1")
	}
	stop()
	<-followed
	if err != nil {
		return fail(e, err)
	}
	w.log.Info("stopped")
	return 0
}

// limitMemory has the collector keep to the memory that control groups allow, unless the environment
// says how much: the kernel would end the process for what the collector could have freed.
func limitMemory(log *slog.Logger) {
	limit := platform.MemoryLimit()
	if limit == 0 || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetMemoryLimit(limit / 10 * 9) // the rest is for what the collector does not count, such as sockets
	log.Info("the memory of this process is limited", "bytes", limit)
}
