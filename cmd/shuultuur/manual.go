//go:build !small

package main

import (
	released "shuultuur/lib/release"

	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"time"

	"shuultuur/lib/manual"
)

const manHelp = `
Writes a manual page for the program and one for each command into DIR, for
man(1): man -l DIR/shuultuur.1. Packages install them.`

func man(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "man", "DIR", manHelp)
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	b := released.ThisBuild()
	p := manual.Program{
		Name: "shuultuur", Summary: "filter between a network's people and the web", Version: b.Version, Made: madeOn(b),
		Files:    [][2]string{{"/etc/shuultuur/shuultuur.yaml", "the settings of the service"}, {"/var/lib/shuultuur", "its data"}},
		Commands: pages(ctx, commands(), ""),
	}
	if err := p.WritePages(f.Arg(0)); err != nil {
		return fail(e, err)
	}
	return 0
}

// madeOn returns the date of manual pages: that of the release, which packages set, or of
// the revision, so that the same program makes the same pages.
func madeOn(b released.Build) time.Time {
	if n, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		return time.Unix(n, 0).UTC()
	}
	if t, err := time.Parse(time.RFC3339, b.Time); err == nil {
		return t
	}
	return time.Now().UTC()
}

const completionHelp = `
Prints what makes a shell complete commands, flags and files:

  bash  shuultuur completion bash > /usr/share/bash-completion/completions/shuultuur
  zsh   shuultuur completion zsh > /usr/share/zsh/site-functions/_shuultuur
  fish  shuultuur completion fish > /usr/share/fish/vendor_completions.d/shuultuur.fish`

func completion(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "completion", "bash|zsh|fish", completionHelp)
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	p := manual.Program{Name: "shuultuur", Commands: pages(ctx, commands(), "")}
	script, ok := p.Completion(f.Arg(0))
	if !ok {
		return fail(e, errors.New("completion exists for bash, zsh and fish, not for "+f.Arg(0)))
	}
	if _, err := io.WriteString(e.stdout, script); err != nil {
		return fail(e, err)
	}
	return 0
}
