// Package tap sends the queries and replies of the name server to a receiver of dnstap, over Frame
// Streams: those of clients, those that only want what zones of ours have, updates, and what the
// forwarder asks upstreams.
//
// The name server passes each message to a [Tap], which keeps a copy in a bounded queue and never waits.
// One goroutine sends them and connects again while the receiver is away; what does not fit into the
// queue meanwhile is dropped and counted.
package tap

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
)

// Place takes the place of a receiver apart: the path of a Unix socket, or tcp://HOST:PORT.
func Place(s string) (network, address string, err error) {
	if at, ok := strings.CutPrefix(s, "tcp://"); ok {
		if host, port, err := net.SplitHostPort(at); err == nil && host != "" && port != "" {
			return "tcp", at, nil
		}
	} else if path := strings.TrimPrefix(s, "unix://"); filepath.IsAbs(path) {
		return "unix", path, nil
	}
	return "", "", fmt.Errorf("%q is not the path of a socket such as /run/dnstap.sock, or an address such as tcp://192.0.2.1:6000", s)
}
