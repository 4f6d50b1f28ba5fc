package main

import (
	"context"
	"fmt"
	"time"

	"shuultuur/cmd/shuultuur/terminal"
)

const statusHelp = `
Says in one sentence how the running gateway is: for how many devices it has
filtered in the last hour, since when it runs, and whether anything is wrong.
Problems, pauses and newer versions follow. The exit status is 0 when it serves
and nothing is wrong.`

func status(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "status", "[-json] [-config FILE]", statusHelp)
	config := f.String("config", "", "settings `file` of the gateway")
	asJSON := f.Bool("json", false, "print JSON")
	if status := parse(args, 0, 0); status >= 0 {
		return status
	}
	admin, err := e.gateway(*config)
	if err != nil {
		return fail(e, err)
	}
	s, err := admin.Status(ctx)
	if err != nil {
		return fail(e, err)
	}
	wrong := 0
	if !s.Ready || len(s.Problems) > 0 {
		wrong = 1
	}
	if *asJSON {
		return max(wrong, printJSON(e, s))
	}
	terminal.PrintStatus(e.stdout, terminal.InkFor(e.stdout), s, time.Now())
	return wrong
}

const openHelp = `
Opens SITE, a host with everything below it or a service such as youtube, above
lists and rules: for WHO, an address,
a network, a user or a group, or else for everybody. It holds for an hour, or
for TIME, such as 15m or 7d; "-for good" ends it only with -end, after which
lists and rules decide again. Limits, quotas and faulty certificates count as
ever. The page Exceptions has all that is open.`

func open(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "open", "[-for TIME] [-end] [-config FILE] SITE [WHO]", openHelp)
	config := f.String("config", "", "settings `file` of the gateway")
	length := f.String("for", "1h", "how long it is open, a `time` or \"good\"")
	end := f.Bool("end", false, "end what was opened, for the same SITE and WHO")
	if status := parse(args, 1, 2); status >= 0 {
		return status
	}
	admin, err := e.gateway(*config)
	if err != nil {
		return fail(e, err)
	}
	what := "open"
	if *end {
		what = "end"
	}
	done, err := admin.Rule(ctx, what, f.Arg(0), f.Arg(1), *length)
	if err != nil {
		return fail(e, err)
	}
	fmt.Fprintln(e.stdout, terminal.InkFor(e.stdout).Good(printable(terminal.Ruling(done, *end, time.Now()))))
	return 0
}
