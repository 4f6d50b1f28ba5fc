package proxy

import (
	"log/slog"
	"math"

	"shuultuur/lib/platform"
)

// A client connection needs two descriptors, one for the client and one for the origin. Lists,
// stores, listeners and the name server need others.
const (
	filesPerConnection = 2
	otherFiles         = 256
)

// limitFiles returns how many of the wanted connections the limit of open files permits, and logs if
// they are fewer: a process without descriptors cannot serve any client.
func limitFiles(wanted int, log *slog.Logger) int {
	limit, _, err := platform.Files()
	if err != nil {
		log.Warn("the limit of open files is unknown", "error", err)
		return wanted
	}
	files := int64(min(limit, math.MaxInt64))
	room := int(min(connectionsFor(files), math.MaxInt32))
	if wanted > room && wanted != math.MaxInt32 {
		log.Warn("the limit of open files is too low for the connections that the settings allow: raise it (systemd: LimitNOFILE, elsewhere: ulimit -n)",
			"files", files, "wanted", int64(wanted)*filesPerConnection+otherFiles, "connections", wanted, "allowed", room)
	}
	return min(wanted, room)
}

// connectionsFor returns the number of connections for which so many files suffice.
func connectionsFor(files int64) int64 {
	return max((files-otherFiles)/filesPerConnection, files/(2*filesPerConnection), 1)
}
