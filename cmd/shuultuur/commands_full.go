//go:build !small

package main

import "shuultuur/tool/importer"

// unknownHint is added to the error about an unknown command.
const unknownHint = ""

// fullCommands are the commands that the small build lacks.
func fullCommands() []command {
	return []command{
		{name: "demo", part: examine, args: "", what: "start an origin and the gateway, browse, print the verdicts", run: demo, here: ofProcess},
		{name: "settings", part: machine, args: "COMMAND [arguments]", what: "show and change the settings of a gateway, print their JSON schema", run: settingsCommand, sub: settingsCommands()},
		{name: "fleet", part: machine, args: "[offer NAME | more | back | key FILE]", what: "show a fleet, and offer it what this gateway decides by", run: fleetCommand},
		{name: "squid", part: access, args: "rewrite|acl|auth|group", what: "answer Squid, which starts it as a helper", run: squidCommand, here: ofProcess},
		{name: "import", part: machine, args: "PROGRAM PATH", what: "convert the settings of another filter, and report on its lists", run: importCommand, choices: importer.Names, here: ofFiles},
		{name: "load", part: examine, args: "COMMAND [arguments]", what: "put load on a server, or serve as the origin", run: loadCommand, sub: loadCommands(), here: ofLoad},
		{name: "replay", part: examine, args: "[flags] [FILE...]", what: "replay a log, judge it by other settings, or summarise it", run: replayCommand, here: ofFiles},
		{name: "zone", part: content, args: "COMMAND [arguments]", what: "check zone files, and copy them to and from Redis", run: zoneCommand, sub: zoneCommands()},
		{name: "rules", part: content, args: "COMMAND [arguments]", what: "read signature rules", run: rulesCommand, sub: rulesCommands()},
		{name: "model", part: content, args: "COMMAND [arguments]", what: "check and measure neural networks for pictures", run: modelCommand, sub: modelCommands()},
		{name: "doctor", part: machine, args: "[-config FILE] [-json]", what: "check this machine before it carries load", run: doctorCommand, here: ofMachine},
		{name: "profile", part: examine, args: "[-seconds N] | -live | -when LIMITS", what: "take and read profiles of a running gateway", run: profileCommand, sub: profileCommands(), both: true},
	}
}

// eventsCommands are the subcommands of "shuultuur events", besides the query
// itself.
func eventsCommands() []command {
	return []command{{name: "copy", args: "FROM TO [FILTER]", what: "copy the rows of one store to another", run: eventsCopy, here: ofFiles}}
}

// simulateCommands are the subcommands of "shuultuur cache" that need no
// gateway.
func simulateCommands() []command {
	return []command{{name: "simulate", args: "[flags] LOG", what: "say what caches of several sizes would have done with the requests of a log, and recommend settings", run: cacheSimulate, here: ofFiles}}
}

// compareCommands are the subcommands of "shuultuur list" that need no gateway.
func compareCommands() []command {
	return []command{
		{name: "diff", args: "[-format FORMAT] OLD NEW", what: diffHelp, run: diffLists, here: ofFiles},
		{name: "export", args: "redis [-layout 32|64] [-format FORMAT] LIST...", what: exportHelp, run: exportLists, here: ofFiles},
	}
}

// manualCommands write the files that packages contain besides the program.
func manualCommands() []command {
	return []command{
		{name: "completion", part: ofShells, args: "bash|zsh|fish|powershell", what: "print the completion script of a shell", run: completion, here: ofFiles},
		{name: "man", part: ofShells, args: "DIR", what: "write the manual pages", run: man, here: ofFiles},
	}
}
