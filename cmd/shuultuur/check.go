package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"shuultuur/admin/remote"
	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/lib/datadir"
	"shuultuur/lib/handover"
)

const checkHelp = `
Reads the settings in FILE (shuultuur.yaml when left out, or those of the
service where this folder has none) and every file they
name, compiles the lists, and names each mistake by file, line and key. Nothing
is started and nothing that runs is touched. The exit status is 0 when the
gateway could start with them.

With -as, FILE is checked as if it were that file, beside which relative paths
are: for tools that check a copy before they put it into place.

With -running it asks instead whether the gateway of these settings runs and
accepts connections, as health checks do. With -at, the gateway elsewhere says
whether it could use FILE and what that would have altered in the last day; or
with -running, whether it serves and what it finds wrong.`

func check(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "check", "[-running] [-as FILE] [-config FILE | FILE]", checkHelp)
	config := f.String("config", "", "settings `file`")
	running := f.Bool("running", false, "check whether the gateway runs")
	as := f.String("as", "", "the `file` whose place it is to take")
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
	s, err := configuration.ReadAs(file, cmp.Or(*as, file))
	if err != nil {
		fmt.Fprintln(e.stderr, e.named(err.Error()))
		return 1
	}
	engine, closeEngine, err := engine.Try(ctx, s)
	if err != nil {
		fmt.Fprintln(e.stderr, e.named(err.Error()))
		return 1
	}
	defer closeEngine()
	if err := datadir.Check(string(engine.Settings.Data)); err != nil { // a newer program has used it
		return fail(e, err)
	}
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
func tellEffect(e env, s *remote.SaveResult) {
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
	if errors.Is(err, remote.ErrOff) {
		s, failed := configuration.Read(file)
		if failed != nil {
			return fail(e, failed)
		}
		err = nil
		for _, a := range s.Listen.Proxy {
			if !handover.Accepts(ctx, string(a)) {
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
