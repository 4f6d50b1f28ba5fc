package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"shuultuur/gateway"
	"shuultuur/importer"
)

const importHelp = `
Makes settings of those of another filter, and a report of what was carried
over, what was not and why, and of every line of its lists that is dead, twice
there, shadowed or does not compile. Lists stay where they are; those that have
to be converted are copied.

e2guardian DIR     the folder of e2guardian.conf
dansguardian DIR   the folder of dansguardian.conf
squidguard FILE    squidGuard.conf
pihole DIR         the folder of gravity.db, or of an export
adguardhome FILE   AdGuardHome.yaml
blocky FILE        config.yml
unbound FILE       unbound.conf, or a file it includes
dnsmasq FILE       dnsmasq.conf, or a file it includes
squid FILE         squid.conf: its http_access lines
privoxy FILE       user.action, or another file of actions
technitium FILE    the answer of its API to settings/get
nextdns FILE       a profile as its API gives it
opnsense FILE      config.xml

The exit status is 1 when the settings do not pass "shuultuur check".`

func importCommand(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "import", "[flags] PROGRAM PATH", importHelp)
	to := f.String("to", "shuultuur", "`folder` for the settings, the report and converted lists")
	compare := f.String("compare", "", "run this `log` of the other program through the settings made, and say which verdicts differ")
	lint := f.Bool("lint", false, "print the report alone and write nothing")
	if status := parse(args, 2, 2); status >= 0 {
		return status
	}
	rest := f.Args()
	if !slices.Contains(importer.Programs(), rest[0]) {
		fmt.Fprintf(e.stderr, "%s import: %q is not a program that is known; known are %s\n", cmp.Or(e.program, "shuultuur"), rest[0], strings.Join(importer.Programs(), ", "))
		return 2
	}
	if *lint && *compare != "" {
		return fail(e, errors.New("-lint writes no settings to compare with; leave out one of -lint and -compare"))
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
	_, done, err := gateway.Explain(ctx, file)
	if err != nil {
		return fail(e, fmt.Errorf("the settings need a hand before they can be used:\n%w", err))
	}
	done()
	fmt.Fprintf(e.stdout, e.named("They are good: shuultuur run %s\n"), file)
	if *compare != "" {
		return replayCommand(ctx, e, []string{"-offline", "-config", file, *compare})
	}
	return 0
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
	return finishText(e, r.Text)
}

func finishText(e env, write func(io.Writer) error) int {
	if err := write(e.stdout); err != nil {
		return fail(e, err)
	}
	return 0
}
