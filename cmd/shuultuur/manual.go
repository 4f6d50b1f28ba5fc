//go:build !small

package main

import (
	"context"
	"errors"
	"io"

	"shuultuur/lib/manual"
	released "shuultuur/lib/release"
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
		Name: "shuultuur", Summary: "filter between a network's people and the web", Version: b.Version, Made: b.Made(),
		Files:    [][2]string{{"/etc/shuultuur/shuultuur.yaml", "the settings of the service"}, {"/var/lib/shuultuur", "its data"}},
		Commands: pages(ctx, commands(), ""),
	}
	if err := p.WritePages(f.Arg(0)); err != nil {
		return fail(e, err)
	}
	return 0
}

const completionHelp = `
Prints what makes a shell complete commands, flags and files:

  bash  shuultuur completion bash > /usr/share/bash-completion/completions/shuultuur
  zsh   shuultuur completion zsh > /usr/share/zsh/site-functions/_shuultuur
  fish  shuultuur completion fish > /usr/share/fish/vendor_completions.d/shuultuur.fish

In PowerShell, the line goes into the file that $PROFILE names:

  shuultuur completion powershell | Out-String | Invoke-Expression`

func completion(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "completion", "bash|zsh|fish|powershell", completionHelp)
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	p := manual.Program{Name: "shuultuur", Commands: pages(ctx, commands(), "")}
	script, ok := p.Completion(f.Arg(0))
	if !ok {
		return fail(e, errors.New("completion exists for bash, zsh, fish and PowerShell, not for "+f.Arg(0)))
	}
	if _, err := io.WriteString(e.stdout, script); err != nil {
		return fail(e, err)
	}
	return 0
}
