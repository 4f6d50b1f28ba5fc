package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"shuultuur/admin"
	"shuultuur/atomicfile"
	"shuultuur/configuration"
	"shuultuur/engine"
	"shuultuur/gateway"
	"shuultuur/handover"
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
		if err := noCores(); err != nil {
			return fail(e, fmt.Errorf("keeping keys out of core files (-cores goes without): %w", err))
		}
	}
	given, err := oneFile(*config, f.Arg(0))
	if err != nil {
		return fail(e, err)
	}
	file, starter, err := settingsFile(given)
	if err != nil {
		return fail(e, err)
	}
	log := slog.New(slog.NewTextHandler(e.stderr, nil))
	w := newWatcher(log)
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
	if starter && before == nil {
		welcome(e, g, file)
		offerSetup(e, g, file)
	}
	return serve(ctx, e, w, before)
}

// serve runs the gateway, and reports its state to the supervisor and to the
// predecessor.
func serve(ctx context.Context, e env, w *watcher, before *handover.Successor) int {
	watch, unwatch := context.WithCancel(ctx)
	defer unwatch()
	if err := w.boss.send(fmt.Sprintf("MAINPID=%d\nREADY=1\nSTATUS=serving %s", os.Getpid(), w.g.ProxyAddr())); err != nil {
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
	go w.boss.watch(watch, func() bool { return accepts(watch, w.g.ProxyAddr()) })
	err := w.g.Run(ctx)
	if !left.Load() {
		_ = w.boss.send("STOPPING=1")
	}
	stop()
	<-followed
	if err != nil {
		return fail(e, err)
	}
	w.log.Info("stopped")
	return 0
}

// settingsFile returns the settings to use, and whether they are the starter
// settings.
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
	if err := writeStarter(dir); err != nil {
		return "", false, fmt.Errorf("writing the starter settings: %w", err)
	}
	return filepath.Join(dir, here), true, nil
}

func welcome(e env, g *gateway.Gateway, file string) {
	fmt.Fprintf(e.stdout, e.named(`
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

`), g.ProxyAddr(), g.AdminAddr(), file, digAddr(g))
}

// offerSetup prints the link to the first steps, unless the settings were
// already changed.
func offerSetup(e env, g *gateway.Gateway, file string) {
	now, err := os.ReadFile(file)
	if starter, _ := starterFiles.ReadFile("starter/shuultuur.yaml"); err != nil || !bytes.Equal(now, starter) {
		return
	}
	link := g.OfferSetup(gateway.SetupOffer{Topics: setupTopics(), Compose: compose, Steps: func(a admin.Answers) []string { return setupSteps(a, g.ProxyAddr(), g.DNSAddr()) }})
	if link != "" {
		fmt.Fprintf(e.stdout, "Set it up in a browser, with this link that is good once:\n\n  %s\n\n", link)
	}
}

// digAddr returns the name server's address in the syntax of dig(1).
func digAddr(g *gateway.Gateway) string { return strings.Replace(g.DNSAddr(), ":", " -p ", 1) }

func quiet(e env) *slog.Logger {
	return slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

const checkHelp = `
Reads the settings in FILE (shuultuur.yaml when left out, or those of the
service where this folder has none) and every file they
name, compiles the lists, and names each mistake by file, line and key. Nothing
is started and nothing that runs is touched. The exit status is 0 when the
gateway could start with them.

With -running it asks instead whether the gateway of these settings runs and
accepts connections, as health checks do. With -at, the gateway elsewhere says
whether it could use FILE and what that would have altered in the last day; or
with -running, whether it serves and what it finds wrong.`

func check(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "check", "[-running] [-config FILE | FILE]", checkHelp)
	config := f.String("config", "", "settings `file`")
	running := f.Bool("running", false, "check whether the gateway runs")
	if status := parse(args, 0, 1); status >= 0 {
		return status
	}
	file, err := oneFile(*config, f.Arg(0))
	if err != nil {
		return fail(e, err)
	}
	file = askedFile(file)
	if e.at != nil {
		return checkThere(ctx, e, file, *running)
	}
	if *running {
		return checkRunning(ctx, e, file)
	}
	engine, closeEngine, err := engine.Explain(ctx, file)
	if err != nil {
		fmt.Fprintln(e.stderr, e.named(err.Error()))
		return 1
	}
	defer closeEngine()
	engine.Print(e.stdout)
	if err := engine.Expectations(ctx); err != nil {
		fmt.Fprintln(e.stderr, e.named(err.Error()))
		return 1
	}
	fmt.Fprintf(e.stdout, "%s: good\n", file)
	return 0
}

// checkThere asks the gateway elsewhere whether it could use the settings in file, or with
// running how it is.
func checkThere(ctx context.Context, e env, file string, running bool) int {
	if running {
		h, err := e.at.Health(ctx)
		if err != nil {
			return fail(e, err)
		}
		for _, p := range h.Problems {
			fmt.Fprintln(e.stdout, printable(p))
		}
		if !h.Ready {
			return fail(e, fmt.Errorf("the gateway at %s does not serve: it starts or drains", e.at.URL))
		}
		fmt.Fprintln(e.stdout, "the gateway runs")
		return 0
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fail(e, err)
	}
	s, err := e.at.SaveSettings(ctx, text, "", "")
	if err != nil {
		fmt.Fprintln(e.stderr, printable(err.Error()))
		return 1
	}
	tellEffect(e, s)
	fmt.Fprintf(e.stdout, "%s: good\n", file)
	return 0
}

// tellEffect prints the effect that settings would have had.
func tellEffect(e env, s *admin.SaveResult) {
	if s.Note != "" {
		fmt.Fprintln(e.stdout, printable(s.Note))
	}
	if s.Effect == nil {
		return
	}
	fmt.Fprintln(e.stdout, s.Effect.Summary())
	for _, c := range s.Effect.Changes {
		fmt.Fprintf(e.stdout, "%8d  %s -> %s  policy %s, category %s, rule %s  %s\n", c.Count, c.Was, c.Is, printable(c.Policy), printable(c.Category), printable(c.Rule), printable(strings.Join(c.Examples, " ")))
	}
}

// oneFile returns the settings file from the flag or the argument.
func oneFile(flag, arg string) (string, error) {
	if flag != "" && arg != "" && flag != arg {
		return "", fmt.Errorf("two settings files, %q and %q: name one", flag, arg)
	}
	return cmp.Or(flag, arg), nil
}

// checkRunning asks the admin address of the gateway. If there is none, it
// connects to the first address of the proxy.
func checkRunning(ctx context.Context, e env, file string) int {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	running, err := configuration.Client(file)
	if err != nil {
		return fail(e, err)
	}
	_, err = running.Pause(ctx, "", "")
	if errors.Is(err, admin.ErrOff) {
		s, failed := configuration.Read(file)
		if failed != nil {
			return fail(e, failed)
		}
		err = nil
		for _, a := range s.Listen.Proxy {
			if !accepts(ctx, string(a)) {
				err = fmt.Errorf("nothing accepts connections at %s", a)
			}
		}
	}
	if err != nil {
		return fail(e, err)
	}
	fmt.Fprintln(e.stdout, "the gateway runs")
	return 0
}

const initHelp = `
Writes the starter settings with their lists and phrases into DIR, for you to
change. Files that are there already stay as they are.`

func initialise(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "init", "[-data DIR] DIR", initHelp)
	data := f.String("data", "", "`folder` for what the program writes, if not data beside the settings")
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	file := filepath.Join(f.Arg(0), "shuultuur.yaml")
	_, there := os.Stat(file)
	if err := writeStarter(f.Arg(0)); err != nil {
		return fail(e, err)
	}
	if *data != "" && errors.Is(there, fs.ErrNotExist) {
		if err := setData(file, *data); err != nil {
			return fail(e, err)
		}
	}
	fmt.Fprintf(e.stdout, e.named("wrote %s; start with: shuultuur run %s\n"), file, file)
	return 0
}

// setData sets the data folder in newly written settings.
func setData(file, dir string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text = bytes.Replace(text, []byte("data: ./data "), []byte("data: "+strconv.Quote(dir)+" "), 1)
	return atomicfile.WriteBytes(file, 0o644, text)
}

// accepts reports whether a connection to addr can be made.
func accepts(ctx context.Context, addr string) bool {
	d := net.Dialer{Timeout: 5 * time.Second}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	c.Close()
	return true
}
