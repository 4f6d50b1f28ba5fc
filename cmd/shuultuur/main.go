// Command shuultuur is the filter between a network's people and the web.
//
// Each subcommand is one file here: a thin layer of flags over the packages below.
package main

import (
	"context"
	"os"

	"shuultuur/cmd/shuultuur/process"
	released "shuultuur/lib/release"
	"shuultuur/policy/timezone"
)

func main() {
	released.Linked, released.LinkedTime = release, built
	timezone.UseTZ()
	e := env{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, program: os.Args[0]}
	status, err := process.Run(func(ctx context.Context, log *os.File) int {
		if log != nil {
			e.stdout, e.stderr = log, log
		}
		return dispatch(ctx, e, os.Args[1:])
	})
	if err != nil {
		status = fail(e, err)
	}
	os.Exit(status)
}

// The parts of the help, in order.
const (
	daily    = "Every day"
	machine  = "The gateway and its settings"
	content  = "Lists, rules and zones"
	access   = "Accounts, keys and certificates"
	examine  = "For developers and measurements"
	ofShells = "Shells and manuals"
)

var parts = []string{daily, machine, content, access, examine, ofShells}

// commands returns all commands; help, completion and man pages are generated from
// this table.
func commands() []command {
	all := []command{
		{name: "status", part: daily, args: "[-json] [-config FILE]", what: "say how the gateway is: for how many devices it filters, and what is wrong", run: status},
		{name: "run", part: machine, args: "[FILE]", what: "start the gateway", run: run, here: ofProcess},
		{name: "upgrade", part: machine, args: "[FILE]", what: "replace the running program with a new one, without dropping anything", run: upgrade, here: ofProcess},
		{name: "check", part: machine, args: "[-running] [-json] [FILE]", what: "check the settings and report every mistake", run: inJSON(check)},
		{name: "why", part: daily, args: "[flags] URL [FILE]", what: "explain what would happen to a page", run: why},
		{name: "events", part: daily, args: "[flags] [FILTER]", what: "search the record of transactions", run: events, sub: eventsCommands(), both: true},
		{name: "setup", part: machine, args: "[-wait TIME] [-free-port53] [-config FILE]", what: "print the link to the first steps again, or where the pages are", run: setup},
		{name: "open", part: daily, args: "[-for TIME] [-end] SITE [WHO]", what: "open a site for a while, for somebody or for everybody", run: open},
		{name: "pause", part: daily, args: "[-json] [TIME [WHO]]", what: "pause filtering for a while", run: pause},
		{name: "resume", part: daily, args: "[WHO]", what: "end a pause", run: resume},
		{name: "cache", part: content, args: "COMMAND [arguments]", what: "show what the cache holds, fill it, empty it", run: cacheCommand, sub: cacheCommands()},
		{name: "init", part: machine, args: "DIR", what: "write the starter settings into a folder", run: initialise, here: ofFiles},
		{name: "list", part: content, args: "COMMAND [arguments]", what: "compile and search lists", run: lists, sub: listCommands()},
		{name: "account", part: access, args: "COMMAND [arguments]", what: "manage access to the admin pages and the API, and check the audit log", run: accountCommand, sub: accountCommands()},
		{name: "words", part: content, args: "[flags] FILE|URL", what: "show how phrase lists score a page, and which of their lines have no effect", run: wordsCommand, here: ofFiles},
		{name: "backup", part: machine, args: "[-config FILE] OUT", what: "write settings, accounts and keys into one file", run: backup},
		{name: "restore", part: machine, args: "[-config FILE] BACKUP", what: "restore a backup", run: restore, here: ofFiles},
		{name: "passwd", part: access, args: "[-file FILE] USER", what: "set a password for Basic authentication", run: passwd, here: ofKeys},
		{name: "ca", part: access, args: "COMMAND [flags]", what: "make and distribute the root certificate", run: ca, sub: caCommands()},
	}
	all = append(all, fullCommands()...)
	all = append(all, command{name: "version", part: machine, args: "[-json]", what: "print the version", run: version, here: ofProcess})
	return append(all, manualCommands()...)
}
