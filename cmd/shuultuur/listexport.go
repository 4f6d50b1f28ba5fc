//go:build !small

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"shuultuur/cmd/shuultuur/arguments"
	"shuultuur/cmd/shuultuur/entries"
	"shuultuur/list/export"
)

const exportHelp = `
Writes lists, sources or compiled ones, to the standard output as Redis
commands, for other programs that look categories up there:

  shuultuur list export redis ads.txt | redis-cli --pipe

With -layout 32 a name is XXH32 of it in eight hexadecimal digits: the key is 0x
and the first four, the field the last four, the value the category. Names that
share a hash share a category, so some harmless names have one: how many, by a
count, is said on the standard error.

With -layout 64 it is XXH64 in sixteen digits: the key is 0x and the first four,
the field the other twelve, the value the category, a space and the name. Who
compares the name is never wrong.

Exceptions, networks, expressions and rules of ad blockers do not fit into
either; how many exceptions were left out is said.`

func exportLists(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "list export", "redis [-layout 32|64] [-format FORMAT] LIST...", exportHelp)
	layout := f.Int("layout", 32, "`bits` of the hash: 32, as others have it, or 64, exact")
	format := f.String("format", "", "`format` of sources")
	if status := parse(args, 2, -1); status >= 0 {
		return status
	}
	if form := f.Arg(0); form != "redis" {
		fmt.Fprintf(e.stderr, "%s list export: %q is not a form that lists are written in%s; there is redis\n", cmp.Or(e.program, "shuultuur"), form, arguments.Hint(form, []string{"redis"}))
		return 2
	}
	if *layout != 32 && *layout != 64 {
		return reportMistake(e, f, "-layout is 32 or 64")
	}
	x := export.NewRedis(e.stdout, *layout)
	for _, path := range f.Args()[1:] {
		l, err := entries.Open(ctx, *format, path)
		if err != nil {
			return fail(e, err)
		}
		err = x.Add(ctx, l)
		if err := errors.Join(err, l.Close()); err != nil {
			return fail(e, err)
		}
	}
	if err := x.Flush(); err != nil {
		return fail(e, err)
	}
	x.Report(e.stderr)
	return 0
}
