package nameserver

import "time"

// A poller does nothing here: Windows tells a thread of its own about the network.
type poller struct{}

func newPoller() (*poller, error) { return &poller{}, nil }

func (*poller) poll(time.Time) {}

func (*poller) close() {}
