package main

import (
	"context"
	"fmt"
	"time"

	"shuultuur/admin/nodes"
	"shuultuur/cmd/shuultuur/terminal"
	"shuultuur/fleet/bundle"
)

const fleetHelp = `
Shows which node of a fleet runs which bundle, and how it fares. "offer NAME"
has the desk offer what it decides by, to one node in a hundred first; "more"
gives that to more nodes now, "back" offers the bundle before again. "key FILE"
makes the key that signs bundles, and prints the public one for the nodes.`

func fleetCommand(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "fleet", "[-json] [-config FILE] [offer NAME | more | back | key FILE]", fleetHelp)
	config := f.String("config", "", "settings `file` of the gateway")
	asJSON := f.Bool("json", false, "print JSON")
	reason := f.String("reason", "", "`why` the bundle is offered")
	all := f.Bool("all", false, "offer it to all nodes at once")
	if status := parse(args, 0, 2); status >= 0 {
		return status
	}
	if n, known := map[string]int{"key": 2, "offer": 2, "more": 1, "back": 1, "": 0}[f.Arg(0)]; !known || n != f.NArg() {
		return reportMistake(e, f, "write offer NAME, more, back, key FILE or nothing")
	}
	if f.Arg(0) == "key" {
		public, err := bundle.MakeKey(f.Arg(1))
		if err != nil {
			return fail(e, err)
		}
		fmt.Fprintln(e.stdout, public)
		return 0
	}
	admin, err := e.gateway(*config)
	if err != nil {
		return fail(e, err)
	}
	var shown nodes.Fleet
	switch f.Arg(0) {
	case "offer":
		shown, err = admin.Offer(ctx, f.Arg(1), *reason, *all)
	case "more", "back":
		shown, err = admin.Share(ctx, f.Arg(0) == "more")
	default:
		shown, err = admin.Fleet(ctx)
	}
	if err != nil {
		return fail(e, err)
	}
	if *asJSON {
		return printJSON(e, shown)
	}
	terminal.PrintFleet(e.stdout, terminal.InkFor(e.stdout), &shown, time.Now())
	return 0
}
