package proxy

import (
	"fmt"
	"math"
	"net/netip"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/proxy/exchange"
	"shuultuur/proxy/upstream"
)

// Config are the settings of a Proxy. The zero value of each field means its default; "off"
// means no limit unless stated otherwise.
type Config struct {
	// Via adds a Via field to requests: "off" (the default) adds none, "on" one with the name
	// "shuultuur", any other value one with that name. A unique name also detects loops
	// through other proxies. Many servers send uncompressed responses to requests with Via.
	Via string `yaml:"via"`
	// ViaResponses does the same for responses.
	ViaResponses string `yaml:"via-responses"`
	// Trusted lists networks whose PROXY protocol header and X-Forwarded-For are trusted.
	Trusted setting.Networks `yaml:"trusted"`
	// ConnectPorts are the permitted ports of CONNECT: ports, ranges ("1-99") or "any".
	// Default 443 and 8443.
	ConnectPorts setting.OneOrMore[string] `yaml:"connect-ports"`
	// SafePorts are the permitted ports of requests in plain HTTP, in the same form. A server
	// of another protocol might execute the body of a request as commands. Default: see
	// defaultSafePorts.
	SafePorts setting.OneOrMore[string] `yaml:"safe-ports"`

	Connections setting.Count `yaml:"connections"` // concurrent, per listener; default 8192, fewer if the limit of open files is low
	PerClient   setting.Count `yaml:"per-client"`  // concurrent, of one address; default unlimited, but a quarter of Connections is reserved for addresses that have few
	Requests    setting.Count `yaml:"requests"`    // requests in progress, until their response begins or they have waited for their origin for the policy's patience; fewer if the processors are overloaded; default 2048
	Queue       setting.Count `yaml:"queue"`       // requests that wait for their turn; default Connections

	Idle     setting.Duration `yaml:"idle"`      // of a client connection between requests; default 60s
	HeadTime setting.Duration `yaml:"head-time"` // from a request's first byte to the end of its head; default 15s
	Total    setting.Duration `yaml:"total"`     // a whole request; default off
	Tunnel   setting.Duration `yaml:"tunnel"`    // silence in a tunnel; default 10m
	Drain    setting.Duration `yaml:"drain"`     // time for requests in flight on stop; off means none; default 30s

	Upstream upstream.Config `yaml:",inline"`
	Exchange exchange.Config `yaml:",inline"`
}

// limits are the numbers in a Config, with defaults.
type limits struct {
	connections, perClient, requests, queue, head   int
	queueTime, idle, headTime, total, answer, drain time.Duration
}

// limits returns the numbers of c.
func (c *Config) limits() limits {
	l := limits{
		connections: countOr(c.Connections, 8192),
		perClient:   countOr(c.PerClient, anyNumber),
		requests:    countOr(c.Requests, 2048),
		head:        int(c.Upstream.Head.Or(upstream.DefaultHead)),
		queueTime:   c.Exchange.QueueTime.Or(exchange.DefaultQueueTime),
		idle:        c.Idle.Or(60 * time.Second),
		headTime:    c.HeadTime.Or(15 * time.Second),
		total:       c.Total.Or(0),
		answer:      c.Upstream.Answer.Or(upstream.DefaultAnswer),
		drain:       c.Drain.Or(30 * time.Second),
	}
	l.queue = countOr(c.Queue, l.connections) // their memory is already in use
	return l
}

// anyNumber means any number of connections of one address, except those reserved for others.
const anyNumber = math.MaxInt32 - 1

// countOr returns a limit: def if it was omitted, a number that is never reached if it is off.
func countOr(c setting.Count, def int) int {
	if n := c.Or(def); n > 0 {
		return n
	}
	return math.MaxInt32
}

// Reachable reports whether a proxy with these settings connects to the host and port of t. It
// does not resolve names.
func (c *Config) Reachable(t *filter.Transaction) error {
	if t.Request != nil && t.Request.Scheme == "https" {
		ports, err := newPorts("connect-ports", c.ConnectPorts, "443", "8443")
		if err != nil {
			return err
		}
		if !ports.has(t.Port) {
			return fmt.Errorf("tunnels to port %d are not allowed: proxy.connect-ports", t.Port)
		}
	} else if ports, err := newPorts("safe-ports", c.SafePorts, defaultSafePorts[:]...); err != nil {
		return err
	} else if t.Request != nil && !ports.has(t.Port) {
		return fmt.Errorf("requests to port %d are not allowed: proxy.safe-ports", t.Port)
	}
	if a, err := netip.ParseAddr(t.Host); err == nil {
		if err := c.Upstream.Reachable(netip.AddrPortFrom(a, t.Port)); err != nil {
			return fmt.Errorf("%w: proxy.private", err)
		}
	}
	return nil
}
