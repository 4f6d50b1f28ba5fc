package nameserver

import "time"

// A poller does nothing: Windows notifies a separate thread about the network.
type poller struct{}

func newPoller() (*poller, error) { return &poller{}, nil }

func (*poller) poll(time.Time) {}

func (*poller) close() {}
