//go:build !small

package main

// fullCommands are those that the small build lacks.
func fullCommands() []command {
	return []command{
		{name: "import", args: "PROGRAM PATH", what: "convert the settings of another filter, and report on its lists", run: importCommand},
		{name: "load", args: "http|dns|origin|...", what: "put load on a server, or serve as the origin", run: loadCommand},
		{name: "replay", args: "[flags] [FILE...]", what: "replay a log, judge it by other settings, or summarise it", run: replayCommand},
		{name: "zone", args: "COMMAND [arguments]", what: "check zone files, and copy them to and from Redis", run: zoneCommand, sub: zoneCommands()},
		{name: "rules", args: "COMMAND [arguments]", what: "read signature rules", run: rulesCommand, sub: rulesCommands()},
		{name: "model", args: "COMMAND [arguments]", what: "check and measure neural networks for pictures", run: modelCommand, sub: modelCommands()},
		{name: "doctor", args: "[-config FILE] [-json]", what: "check this machine before it carries load", run: doctorCommand},
		{name: "profile", args: "[-seconds N] | -live", what: "take and read profiles of a running gateway", run: profileCommand},
	}
}

// eventsCommands are what "shuultuur events" has beside the question itself.
func eventsCommands() []command {
	return []command{{name: "copy", args: "FROM TO [FILTER]", what: "copy the rows of one store to another", run: eventsCopy}}
}
