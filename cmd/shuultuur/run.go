package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"shuultuur/gateway"
)

const runHelp = `
Starts the gateway and serves until interrupted (SIGINT, SIGTERM); requests in
flight are finished and all events written. SIGHUP takes changed settings and
lists into use, as does a change of a file by itself; a file with mistakes
changes nothing.

Without -config it uses shuultuur.yaml in this folder, or else writes the
starter settings into data/starter and uses them.`

func run(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "run", "[-config FILE] [-keylog FILE] [-cores]", runHelp)
	config := f.String("config", "", "settings `file`")
	keys := f.String("keylog", "", "write the keys of intercepted connections to `file`, with which all of them can be read: for debugging alone")
	cores := f.Bool("cores", false, "let a crash leave a core file, with the keys of the root and of connections in it")
	if status := parse(args); status >= 0 {
		return status
	}
	if f.NArg() > 0 {
		f.Usage()
		return 2
	}
	if !*cores {
		if err := noCores(); err != nil {
			return fail(e, fmt.Errorf("keeping keys out of core files (-cores goes without): %w", err))
		}
	}
	file, starter, err := settingsFile(*config)
	if err != nil {
		return fail(e, err)
	}
	log := slog.New(slog.NewTextHandler(e.stderr, nil))
	g, err := gateway.New(ctx, file, log)
	if err != nil {
		return fail(e, err)
	}
	if *keys != "" {
		w, err := os.OpenFile(*keys, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return fail(e, fmt.Errorf("opening the key log: %w", err))
		}
		defer w.Close()
		g.LogKeys(w)
		log.Warn("THE KEYS OF ALL INTERCEPTED CONNECTIONS ARE WRITTEN TO A FILE; whoever reads it can read what clients send and get. Delete it when you are done", "file", *keys)
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	reloads := make(chan struct{})
	rctx, stop := context.WithCancel(ctx)
	go func() {
		defer close(reloads)
		for {
			select {
			case <-rctx.Done():
				return
			case <-hangup:
				g.Hangup(rctx)
			}
		}
	}()
	log.Info("serving", "proxy", g.ProxyAddr(), "admin", g.AdminAddr(), "settings", file)
	if starter {
		welcome(e, g, file)
	}
	err = g.Run(ctx)
	stop()
	<-reloads
	if err != nil {
		return fail(e, err)
	}
	log.Info("stopped")
	return 0
}

// settingsFile returns the settings to use and whether they are the starter's.
func settingsFile(config string) (file string, starter bool, err error) {
	if config != "" {
		return config, false, nil
	}
	const here = "shuultuur.yaml"
	if _, err := os.Stat(here); err == nil {
		return here, false, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", false, err
	}
	dir := filepath.Join("data", "starter")
	if err := gateway.WriteStarter(dir); err != nil {
		return "", false, fmt.Errorf("writing the starter settings: %w", err)
	}
	return filepath.Join(dir, here), true, nil
}

func welcome(e env, g *gateway.Gateway, file string) {
	fmt.Fprintf(e.stdout, `
Shuultuur is running on the starter settings, %[3]s.

Point a browser's HTTP proxy at %[1]s, or try:

  curl -x http://%[1]s http://example.com/
  curl -x http://%[1]s http://ads.doubleclick.net/         blocked, by list
  dig @%[4]s ads.doubleclick.net                  the same by name
  shuultuur why http://www.bet365.com/                      what would happen, and why
  shuultuur events -config %[3]s      what happened
  curl http://%[2]s/metrics

"shuultuur demo" needs no internet. "shuultuur init DIR" writes these settings
where you want to change them. Ctrl-C ends.

`, g.ProxyAddr(), g.AdminAddr(), file, digAddr(g))
}

// digAddr is where names are asked for, as dig(1) takes it.
func digAddr(g *gateway.Gateway) string { return strings.Replace(g.DNSAddr(), ":", " -p ", 1) }

func quiet(e env) *slog.Logger {
	return slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

const checkHelp = `
Reads the settings and every file they name, compiles the lists, and names each
mistake by file, line and key. Nothing is started and nothing that runs is
touched. The exit status is 0 when the gateway could start with them.`

func check(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "check", "[-config FILE]", checkHelp)
	config := f.String("config", "shuultuur.yaml", "settings `file`")
	if status := parse(args); status >= 0 {
		return status
	}
	engine, closeEngine, err := gateway.Explain(ctx, *config)
	if err != nil {
		fmt.Fprintln(e.stderr, err)
		return 1
	}
	defer closeEngine()
	engine.Print(e.stdout)
	fmt.Fprintf(e.stdout, "%s: good\n", *config)
	return 0
}

const initHelp = `
Writes the starter settings with their lists and phrases into DIR, for you to
change. Files that are there already stay as they are.`

func initialise(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "init", "DIR", initHelp)
	if status := parse(args); status >= 0 {
		return status
	}
	if f.NArg() != 1 {
		f.Usage()
		return 2
	}
	if err := gateway.WriteStarter(f.Arg(0)); err != nil {
		return fail(e, err)
	}
	file := filepath.Join(f.Arg(0), "shuultuur.yaml")
	fmt.Fprintf(e.stdout, "wrote %s; start with: shuultuur run -config %s\n", file, file)
	return 0
}
