package main

import (
	"context"
	"fmt"

	"shuultuur/gateway"
)

const setupHelp = `
Prints the link to the first steps again, while nobody has an account and the
settings are those of the start; afterwards, where the pages are. -free-port53 moves systemd-resolved or dnsmasq aside, which have the port of name
servers on many machines. It puts them back if this machine finds no names then.`

func setup(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "setup", "[-wait TIME] [-free-port53] [-config FILE]", setupHelp)
	config := f.String("config", "", "settings `file` of the gateway")
	wait := f.Duration("wait", 0, "wait this `time` for a gateway that is starting")
	free := f.Bool("free-port53", false, "move aside what has port 53")
	if status := parse(args, 0, 0); status >= 0 {
		return status
	}
	var said string
	admin, err := e.gateway(*config)
	switch {
	case *free:
		said, err = gateway.FreePort53Here(ctx)
	case err == nil:
		said, err = admin.Setup(ctx, *wait)
	}
	if err != nil {
		return fail(e, err)
	}
	fmt.Fprint(e.stdout, said)
	return 0
}
