package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"shuultuur/admin/remote"
	"shuultuur/cmd/shuultuur/arguments"
	"shuultuur/cmd/shuultuur/terminal"
	"shuultuur/lib/manual"
)

// A command is one subcommand. run returns the exit status: 0 success, 1 failure
// or a negative answer, 2 wrong usage. It first declares its flags with [flags]
// and parses them. Help, manual pages and completion are generated from the
// declarations.
type command struct {
	name, args, what string
	part             string // heading of the part of the help that it is in
	run              func(ctx context.Context, env env, args []string) int
	sub              []command       // its own subcommands
	both             bool            // it can also run without a subcommand
	choices          func() []string // values of its first argument, for completion, if args does not name them
	here             string          // why it works only on this machine; "" if it can ask another gateway with -at
}

// These are the reasons why commands work only on this machine.
const (
	ofProcess = "it is about the program or process of this machine"
	ofFiles   = "it reads and writes files of this machine"
	ofKeys    = "keys and passwords stay on the machine that uses them"
	ofShelf   = "the admin address does not change rules that are fetched; the gateway fetches them by itself"
	ofLoad    = "it sends requests itself"
	ofMachine = `it examines this machine; "check -running" reports the problems of another gateway`
)

// start runs the command with its full name for the gateway of e.
func (c command) start(ctx context.Context, e env, name string, args []string) int {
	if e.at != nil && c.here != "" {
		fmt.Fprintf(e.stderr, "%s: -at: %q works on this machine alone: %s\n", cmp.Or(e.program, "shuultuur"), name, c.here)
		return 2
	}
	return c.run(ctx, e, args)
}

// remoteCommands returns the names of commands that accept -at.
func remoteCommands(all []command, above string) (names []string) {
	for _, c := range all {
		switch name := above + c.name; {
		case c.here != "":
		case c.sub != nil:
			names = append(names, remoteCommands(c.sub, name+" ")...)
			if c.both {
				names = append(names, name)
			}
		default:
			names = append(names, name)
		}
	}
	return names
}

// env is a command's access to the outside, which tests can replace.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	program        string            // its name at the start, "" for shuultuur
	at             *remote.Client    // client of the gateway given by -at; nil for the one in the settings
	inJSON         bool              // -json is a flag of the command, which inJSON obeys
	describe       func(manual.Page) // set to collect the command's declarations; the command then does nothing
}

// named returns text with the name by which the program was started, so that
// commands in it can be typed as printed.
func (e env) named(text string) string {
	if e.program == "" || e.program == "shuultuur" {
		return text
	}
	var pairs []string
	for _, c := range append(commands(), command{name: "COMMAND"}, command{name: "help"}) {
		pairs = append(pairs, "shuultuur "+c.name, e.program+" "+c.name)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// open opens a file, "-" for standard input.
func (e env) open(file string) (io.ReadCloser, error) {
	if file == "-" {
		return io.NopCloser(e.stdin), nil
	}
	return os.Open(file)
}

// read reads a file of at most so many bytes, "-" for standard input.
func (e env) read(file string, most int64) ([]byte, error) {
	in, err := e.open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s is larger than %d MiB", file, most>>20)
	}
	return data, err
}

func dispatch(ctx context.Context, e env, args []string) int {
	if len(args) == 0 {
		usage(e, e.stderr)
		return 2
	}
	e, args, err := readAt(e, args)
	if err != nil {
		fmt.Fprintf(e.stderr, "%s: %v\n", cmp.Or(e.program, "shuultuur"), err)
		return 2
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		if len(args) == 1 && e.at != nil {
			fmt.Fprintf(e.stdout, "With -at, these commands ask the gateway at %s:\n\n  %s\n", e.at.URL, strings.Join(remoteCommands(commands(), ""), "\n  "))
			return 0
		}
		if len(args) > 1 {
			return dispatch(ctx, e, append(args[1:], "-h"))
		}
		usage(e, e.stdout)
		return 0
	case "-version", "--version":
		args = append([]string{"version"}, args[1:]...)
	}
	return choose(ctx, e, "", commands(), args)
}

// choose runs the command that args names.
func choose(ctx context.Context, e env, group string, all []command, args []string) int {
	for _, c := range all {
		if c.name == args[0] {
			return c.start(ctx, e, strings.TrimSpace(group+" "+c.name), args[1:])
		}
	}
	name, hint := strings.TrimSpace(group+" "+args[0]), commandHint(args[0], all)
	if hint == "" {
		hint = unknownHint
	}
	fmt.Fprintf(e.stderr, "%s: there is no command %q%s; \"%s help\" lists them\n",
		cmp.Or(e.program, "shuultuur"), name, hint, strings.TrimSpace(cmp.Or(e.program, "shuultuur")+" "+group))
	return 2
}

// group runs a subcommand of a command.
func group(ctx context.Context, e env, name, what string, all []command, args []string) int {
	if e.describe == nil && len(args) > 0 {
		switch first := args[0]; {
		case first == "help":
			args[0] = "-h"
		case !strings.HasPrefix(first, "-"):
			return choose(ctx, e, name, all, args)
		}
	}
	if e.describe == nil {
		what = strings.Trim(table(all)+"\n"+strings.TrimSpace(what), "\n")
	}
	f, parse := flags(e, name, "COMMAND [arguments]", what)
	if status := parse(args, 0, -1); status >= 0 {
		return status
	}
	f.Usage()
	return 2
}

// table lists commands, one per line.
func table(all []command) string {
	var b strings.Builder
	for _, c := range all {
		fmt.Fprintf(&b, "  %-10s %-29s %s\n", c.name, c.args, c.summary())
	}
	return b.String()
}

// summary returns a one-line description of a command.
func (c command) summary() string {
	s, _, _ := strings.Cut(strings.Join(strings.Fields(c.what), " "), ". ")
	return strings.TrimSuffix(s, ".")
}

// commandHint returns a hint that names the command that a misspelt one resembles, or "".
func commandHint(name string, all []command) string {
	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	return arguments.Hint(name, names)
}

func usage(e env, w io.Writer) {
	fmt.Fprintf(w, "Shuultuur filters what a network's people get from the web.\n\nUsage: %s COMMAND [arguments]\n\n", cmp.Or(e.program, "shuultuur"))
	ink, all := terminal.InkFor(w), commands()
	for _, part := range parts {
		in := slices.DeleteFunc(slices.Clone(all), func(c command) bool { return c.part != part })
		if len(in) > 0 {
			fmt.Fprintf(w, "%s\n%s\n", ink.Strong(part), table(in))
		}
	}
	fmt.Fprint(w, e.named("\"shuultuur COMMAND -h\" says more. \"-at URL\" in front of a command asks the gateway\nwith that admin address, with the token in SHUULTUUR_TOKEN; \"-at URL help\" lists\nthose that can.\n"))
}

// A parser parses the arguments of a command. Flags may be anywhere; the number
// of other arguments must be between count[0] and count[1], without limit for
// -1 or if count is empty. The status is -1 if the command may continue.
type parser func(args []string, count ...int) (status int)

// flags returns a flag set for the command name, whose help is what, and its
// parser.
func flags(e env, name, args, what string) (*flag.FlagSet, parser) {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(e.stderr)
	program := cmp.Or(e.program, "shuultuur")
	if e.inJSON {
		f.Bool("json", false, "print one JSON object: whether it is good, what is said, and the mistakes")
	}
	f.Usage = func() {
		fmt.Fprintf(f.Output(), "Usage: %s %s %s\n\n%s\n", program, name, args, e.named(strings.Trim(what, "\n")))
		if x := terminal.Examples[name]; x != "" {
			fmt.Fprintf(f.Output(), "\nFor example:\n  %s %s\n", program, x)
		}
		any := false
		f.VisitAll(func(*flag.Flag) { any = true })
		if any {
			fmt.Fprint(f.Output(), "\n")
			f.PrintDefaults()
		}
	}
	return f, func(a []string, count ...int) int {
		least, most := 0, -1
		if len(count) == 2 {
			least, most = count[0], count[1]
		}
		if e.describe != nil {
			e.describe(manual.Page{Name: name, Args: args, What: what, Example: terminal.Examples[name], Flags: f})
			return 0
		}
		whole := f.Usage
		f.Usage = func() { // only after a mistake: the whole help would hide the message
			fmt.Fprintf(e.stderr, "%s%s %s -h names the flags\n", arguments.MeantFlag(f, a), program, name)
		}
		for _, x := range a {
			if x == "-h" || x == "-help" || x == "--help" {
				f.SetOutput(e.stdout)
				f.Usage = whole
			}
		}
		err := arguments.Parse(f, a)
		f.Usage = whole
		switch {
		case errors.Is(err, flag.ErrHelp):
			return 0
		case err != nil:
			return 2
		}
		wrong := ""
		switch n := f.NArg(); {
		case n < least:
			wrong = "an argument is missing"
		case most >= 0 && n > most:
			wrong = fmt.Sprintf("%q is one argument too many", f.Arg(most))
		default:
			return -1
		}
		fmt.Fprintf(e.stderr, "%s %s: %s; usage: %[1]s %[2]s %[4]s\n", program, name, wrong, args)
		return 2
	}
}

// fail prints err and returns the exit status for it.
func fail(e env, err error) int {
	fmt.Fprintf(e.stderr, "%s: %v\n", cmp.Or(e.program, "shuultuur"), e.named(err.Error()))
	return 1
}

// finish returns the exit status for err, which it prints; 0 for none.
func finish(e env, err error) int {
	if err != nil {
		return fail(e, err)
	}
	return 0
}

// reportMistake reports a mistake that neither the flags nor the number of arguments show.
func reportMistake(e env, f *flag.FlagSet, why string) int {
	fmt.Fprintf(e.stderr, "%s %s: %s; %[1]s %[2]s -h says more\n", cmp.Or(e.program, "shuultuur"), f.Name(), why)
	return 2
}

// printJSON prints a value for programs.
func printJSON(e env, v any) int {
	if err := terminal.JSON(e.stdout, v); err != nil {
		return fail(e, err)
	}
	return 0
}

// inJSON returns the command run with the flag -json, which makes one object of what it prints.
func inJSON(run func(context.Context, env, []string) int) func(context.Context, env, []string) int {
	return func(ctx context.Context, e env, args []string) int {
		e.inJSON = true
		rest := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "-json" || a == "--json" })
		if e.describe != nil || len(rest) == len(args) {
			return run(ctx, e, args)
		}
		var out, errs strings.Builder
		then := e
		then.stdout, then.stderr = &out, &errs
		status := run(ctx, then, rest)
		if status == 2 { // it was called in a wrong way
			fmt.Fprint(e.stderr, errs.String())
			return status
		}
		return max(status, printJSON(e, terminal.NewOutcome(status, out.String(), errs.String())))
	}
}

// pages returns the pages of commands, each followed by those of its
// subcommands.
func pages(ctx context.Context, all []command, above string) (found []manual.Page) {
	for _, c := range all {
		p := manual.Page{Args: c.args, What: c.what}
		if c.run != nil {
			c.run(ctx, env{stdout: io.Discard, stderr: io.Discard, describe: func(described manual.Page) { p = described }}, nil)
		}
		p.Name, p.Summary = above+c.name, c.summary()
		if c.choices != nil {
			p.Choices = c.choices()
		}
		found = append(found, p)
		found = append(found, pages(ctx, c.sub, p.Name+" ")...)
	}
	return found
}
