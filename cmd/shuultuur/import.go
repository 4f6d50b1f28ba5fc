//go:build !small

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"shuultuur/cmd/shuultuur/arguments"
	"shuultuur/tool/importer"
	"shuultuur/tool/importer/comparison"
)

const importHelp = `
Makes settings of those of another filter, and a report of what was carried
over, what was not and why, and of every line of its lists that is dead, twice
there, shadowed or does not compile. Lists stay where they are; those that have
to be converted are copied.
`

// importText is the help of the command, with all programs.
func importText() string {
	text := importHelp
	for _, p := range importer.Programs {
		text += fmt.Sprintf("%-18s %s\n", p.Name+" "+p.Path, p.Reads)
	}
	return text + "\nThe exit status is 1 when the settings do not pass \"shuultuur check\", and 3 when they\nallow something that was refused; the report begins with what that is."
}

func importCommand(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "import", "[flags] PROGRAM PATH", importText())
	beside := f.Bool("beside", false, "start the result at once, beside the other program: on its ports and 10000 more, until it is stopped")
	to := f.String("to", "shuultuur", "`folder` for the settings, the report and converted lists")
	compare := f.String("compare", "", "run this `log` of the other program through its own rules (or the verdicts in the log, if the rules are unknown) and through the new settings, and list different verdicts")
	lint := f.Bool("lint", false, "print only the report and write nothing")
	if status := parse(args, 2, 2); status >= 0 {
		return status
	}
	rest := f.Args()
	if !slices.Contains(importer.Names(), rest[0]) {
		fmt.Fprintf(e.stderr, "%s import: %q is not a program that is known%s; known are %s\n", cmp.Or(e.program, "shuultuur"), rest[0], arguments.Hint(rest[0], importer.Names()), strings.Join(importer.Names(), ", "))
		return 2
	}
	if *lint && (*compare != "" || *beside) {
		return fail(e, errors.New("-lint writes no settings to compare with or to start; leave out -lint, or -compare and -beside"))
	}
	if *lint {
		return lintImport(ctx, e, rest[0], rest[1])
	}
	r, err := importer.Run(ctx, rest[0], rest[1], *to)
	if err != nil {
		return fail(e, err)
	}
	file := filepath.Join(*to, importer.SettingsFile)
	fmt.Fprintf(e.stdout, "%s\nSettings: %s\nReport: %s, %s\n", r.Summary(), file, filepath.Join(*to, "report.txt"), filepath.Join(*to, "report.html"))
	for _, d := range r.Demands {
		fmt.Fprintln(e.stdout, e.named(d))
	}
	ours, asked, done, err := judge(ctx, file, comparison.Nobody)
	if err != nil {
		return fail(e, fmt.Errorf("the settings need a hand before they can be used:\n%w", err))
	}
	ours.Refuses = refusals(asked)
	err = comparison.Run(ctx, rest[0], rest[1], *to, ours, r)
	done()
	if err = cmp.Or(err, r.Write(*to)); err != nil {
		return fail(e, err)
	}
	for _, c := range r.Comparisons {
		fmt.Fprintln(e.stdout, strings.Join(c.Lines(), "\n"))
	}
	fmt.Fprint(e.stdout, r.Consequences(fmt.Sprintf(e.named("They are good: shuultuur run %s\n"), file)))
	if *compare != "" {
		return cmp.Or(compareImport(ctx, e, rest[0], rest[1], file, *compare), r.Status())
	}
	if *beside {
		return runBeside(ctx, e, file)
	}
	return r.Status()
}

// compareImport judges the requests of a log by the other program's rules and by ours.
func compareImport(ctx context.Context, e env, program, path, file, log string) int {
	r := replayFlags{config: file, offline: true, examples: 3, outcome: true, nobody: netip.MustParseAddr("127.0.0.1")}
	r.source.Files, r.source.Stdin = []string{log}, e.stdin
	old, unknown, done, err := comparison.Rules(ctx, program, path, r.nobody)
	if err != nil {
		return fail(e, err)
	}
	defer done()
	r.old = old
	for _, u := range unknown {
		fmt.Fprintf(e.stdout, "not tried: %s\n", u)
	}
	if err := r.run(ctx, e); err != nil {
		return fail(e, err)
	}
	return 0
}

// runBeside starts the gateway with other ports than in the settings, so that the imported
// program can continue to run.
func runBeside(ctx context.Context, e env, file string) int {
	moved := filepath.Join(filepath.Dir(file), "beside.yaml")
	lines, err := importer.WithOtherPorts(file, moved)
	if err != nil {
		return fail(e, err)
	}
	for _, l := range lines {
		fmt.Fprintln(e.stdout, l)
	}
	return run(ctx, e, []string{moved})
}

func lintImport(ctx context.Context, e env, program, path string) int {
	dir, err := os.MkdirTemp("", "shuultuur-import-")
	if err != nil {
		return fail(e, err)
	}
	defer os.RemoveAll(dir)
	r, err := importer.Run(ctx, program, path, dir)
	if err != nil {
		return fail(e, err)
	}
	return cmp.Or(finishText(e, r.Text), r.Status())
}

func finishText(e env, write func(io.Writer) error) int {
	if err := write(e.stdout); err != nil {
		return fail(e, err)
	}
	return 0
}
