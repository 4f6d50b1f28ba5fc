package proxy

import (
	"math"

	"shuultuur/lib/platform"
)

// A client connection needs two descriptors, one for the client and one for the origin. Lists,
// stores, listeners and the name server need others.
const (
	filesPerConnection = 2
	otherFiles         = 256
)

// limitFiles lowers the number of connections to the number that the limit of open files
// permits, and logs that: a process without descriptors cannot serve any client.
func (p *Proxy) limitFiles() {
	limit, _, err := platform.Files()
	if err != nil {
		p.log.Warn("the limit of open files is unknown", "error", err)
		return
	}
	files := int64(min(limit, math.MaxInt64))
	room := int(min(connectionsFor(files), math.MaxInt32))
	if p.connections > room && p.connections != math.MaxInt32 {
		p.log.Warn("the limit of open files is too low for the connections that the settings allow: raise it (systemd: LimitNOFILE, elsewhere: ulimit -n)",
			"files", files, "wanted", int64(p.connections)*filesPerConnection+otherFiles, "connections", p.connections, "allowed", room)
	}
	p.connections = min(p.connections, room)
}

// connectionsFor returns the number of connections for which so many files suffice.
func connectionsFor(files int64) int64 {
	return max((files-otherFiles)/filesPerConnection, files/(2*filesPerConnection), 1)
}
