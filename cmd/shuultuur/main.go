// Command shuultuur is the filter between a network's people and the web.
//
// Each subcommand is one file here: a thin layer of flags over the rooms below.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	_ "time/tzdata" // schedules name time zones, and a small box may have no zone files
)

// A command is one subcommand. run returns the exit status: 0 done, 1 it did
// not work or the answer is no, 2 the call was wrong.
type command struct {
	name, args, what string
	run              func(ctx context.Context, env env, args []string) int
}

// env is what a command may touch of the world, so that tests can stand in.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer
}

var commands = []command{
	{"run", "[-config FILE]", "start the gateway", run},
	{"check", "[-config FILE]", "look at the settings and name every mistake", check},
	{"why", "[flags] URL [FILE]", "say what would happen to a page, and why", why},
	{"events", "[flags]", "ask the record of transactions", events},
	{"pause", "[TIME [WHO]]", "let filtering rest for a while", pause},
	{"resume", "[WHO]", "end a pause", resume},
	{"demo", "", "start an origin and the gateway, browse, print the verdicts", demo},
	{"init", "DIR", "write the starter settings into a folder", initialise},
	{"list", "compile|look ...", "compile lists, look a name up in them", lists},
	{"import", "PROGRAM PATH", "make settings of another filter's, and report on its lists", importCommand},
	{"passwd", "[-file FILE] USER", "set a password for Basic authentication", passwd},
	{"ca", "init|export|rotate ...", "make and hand out the root certificate", ca},
	{"load", "http|dns|origin|...", "put load on a server, or be the server", loadCommand},
	{"replay", "[flags] [FILE...]", "send a log again, ask what if, count what is in it", replayCommand},
	{"zone", "check|load|export|...", "look at zone files, put them into Redis and back", zoneCommand},
	{"doctor", "[-config FILE] [-json]", "look at this machine before it carries load", doctorCommand},
	{"profile", "[-seconds N] | -live", "take profiles of a running gateway and read them", profileCommand},
	{"version", "", "print the version", version},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := dispatch(ctx, env{os.Stdin, os.Stdout, os.Stderr}, os.Args[1:])
	stop()
	os.Exit(status)
}

func dispatch(ctx context.Context, e env, args []string) int {
	if len(args) == 0 {
		usage(e.stderr)
		return 2
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		usage(e.stdout)
		return 0
	}
	for _, c := range commands {
		if c.name == args[0] {
			return c.run(ctx, e, args[1:])
		}
	}
	fmt.Fprintf(e.stderr, "shuultuur: there is no command %q; \"shuultuur help\" lists them\n", args[0])
	return 2
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Shuultuur filters what a network's people get from the web.\n\nUsage: shuultuur COMMAND [arguments]\n\n")
	for _, c := range commands {
		fmt.Fprintf(w, "  %-8s %-24s %s\n", c.name, c.args, c.what)
	}
	fmt.Fprint(w, "\n\"shuultuur COMMAND -h\" says more.\n")
}

// flags returns a flag set for the command called name whose help says what
// it does, and a parse function: status is -1 when the command may go on.
func flags(e env, name, args, what string) (*flag.FlagSet, func([]string) int) {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(e.stderr)
	f.Usage = func() {
		fmt.Fprintf(f.Output(), "Usage: shuultuur %s %s\n\n%s\n", name, args, strings.TrimSpace(what))
		any := false
		f.VisitAll(func(*flag.Flag) { any = true })
		if any {
			fmt.Fprint(f.Output(), "\n")
			f.PrintDefaults()
		}
	}
	return f, func(a []string) int {
		for _, x := range a {
			if x == "-h" || x == "-help" || x == "--help" {
				f.SetOutput(e.stdout)
			}
		}
		switch err := f.Parse(a); {
		case errors.Is(err, flag.ErrHelp):
			return 0
		case err != nil:
			return 2
		}
		return -1
	}
}

// fail prints err as the command's answer and returns the status for it.
func fail(e env, err error) int {
	fmt.Fprintf(e.stderr, "shuultuur: %v\n", err)
	return 1
}

func version(_ context.Context, e env, args []string) int {
	_, parse := flags(e, "version", "", "Prints the version of the program and of Go.")
	if status := parse(args); status >= 0 {
		return status
	}
	v, rev := "devel", ""
	info, ok := debug.ReadBuildInfo()
	if ok {
		if info.Main.Version != "" && info.Main.Version != "(devel)" {
			v = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				rev = " (" + s.Value[:12] + ")"
			}
		}
		fmt.Fprintf(e.stdout, "shuultuur %s%s, %s\n", v, rev, info.GoVersion)
		return 0
	}
	fmt.Fprintf(e.stdout, "shuultuur %s\n", v)
	return 0
}
