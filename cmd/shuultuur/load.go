//go:build !small

package main

import (
	"context"

	"shuultuur/tool/load"
)

const loadHelp = `
Load generators report what they measured, as text, JSON or a page. They send to
this machine alone unless -allow names another host.`

func loadCommand(ctx context.Context, e env, args []string) int {
	return group(ctx, e, "load", loadHelp, loadCommands(), args)
}

// loadCommands are the subcommands of "shuultuur load".
func loadCommands() (all []command) {
	for _, c := range load.Commands() {
		all = append(all, command{name: c.Name, args: c.Args, what: c.What, run: func(ctx context.Context, e env, args []string) int {
			f, parse := flags(e, "load "+c.Name, c.Args, c.What)
			run := c.Flags(f)
			if c.Abbreviated {
				whole, err := load.Expand(f, args)
				if err != nil {
					return fail(e, err)
				}
				args = whole
			}
			if status := parse(args, c.Least, c.Most); status >= 0 {
				return status
			}
			if err := run(ctx, f.Args(), e.stdout, e.stderr); err != nil {
				return fail(e, err)
			}
			return 0
		}})
	}
	return all
}
