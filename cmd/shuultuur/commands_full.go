//go:build !small

package main

// fullCommands are those that the small build lacks.
func fullCommands() []command {
	return []command{
		{name: "import", args: "PROGRAM PATH", what: "make settings of another filter's, and report on its lists", run: importCommand},
		{name: "load", args: "http|dns|origin|...", what: "put load on a server, or be the server", run: loadCommand},
		{name: "replay", args: "[flags] [FILE...]", what: "send a log again, ask what if, count what is in it", run: replayCommand},
		{name: "zone", args: "COMMAND [arguments]", what: "look at zone files, put them into Redis and back", run: zoneCommand, sub: zoneCommands()},
		{name: "rules", args: "COMMAND [arguments]", what: "read signature rules", run: rulesCommand, sub: rulesCommands()},
		{name: "model", args: "COMMAND [arguments]", what: "look at neural networks for pictures", run: modelCommand, sub: modelCommands()},
		{name: "doctor", args: "[-config FILE] [-json]", what: "look at this machine before it carries load", run: doctorCommand},
		{name: "profile", args: "[-seconds N] | -live", what: "take profiles of a running gateway and read them", run: profileCommand},
	}
}

// eventsCommands are what "shuultuur events" has beside the question itself.
func eventsCommands() []command {
	return []command{{name: "copy", args: "FROM TO [FILTER]", what: "copy the rows of one store to another", run: eventsCopy}}
}
