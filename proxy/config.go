package proxy

import (
	"fmt"
	"math"
	"net/netip"
	"time"

	"shuultuur/filter"
	"shuultuur/proxy/exchange"
	"shuultuur/proxy/upstream"
	"shuultuur/setting"
)

// Config has the settings of a Proxy. The zero value of each field means its
// default; "off" is no limit, where nothing else is said.
type Config struct {
	// Via adds a Via field to requests: "off" none, which is the default, "on"
	// one with the name "shuultuur", anything else one with that name. A name of
	// one's own also finds loops through proxies of others. Many servers send
	// nothing compressed to a request with Via.
	Via string `yaml:"via"`
	// ViaResponses does the same for responses.
	ViaResponses string `yaml:"via-responses"`
	// Trusted lists networks whose PROXY protocol header and X-Forwarded-For
	// are believed.
	Trusted setting.Networks `yaml:"trusted"`
	// ConnectPorts are the ports CONNECT may ask for: ports, ranges ("1-99") or
	// "any". Default 443 and 8443.
	ConnectPorts setting.OneOrMore[string] `yaml:"connect-ports"`
	// SafePorts are the ports that requests for plain HTTP may go to, in the
	// same form. A server of another protocol might take the body of a request
	// for its own commands. Default: see defaultSafePorts.
	SafePorts setting.OneOrMore[string] `yaml:"safe-ports"`

	Connections setting.Count `yaml:"connections"` // at once, per listener; default 8192, fewer where the limit of open files is low
	PerClient   setting.Count `yaml:"per-client"`  // connections of one address at once; default: any number, but a quarter of Connections is kept for addresses that have few
	Requests    setting.Count `yaml:"requests"`    // requests worked on at once, until their response begins, fewer when processors do not keep up; default 2048
	Queue       setting.Count `yaml:"queue"`       // requests that wait for their turn; default Connections

	Idle     setting.Duration `yaml:"idle"`      // client connection between requests; default 60s
	HeadTime setting.Duration `yaml:"head-time"` // from a request's first byte to the end of its head; default 15s
	Total    setting.Duration `yaml:"total"`     // a whole request; default off
	Tunnel   setting.Duration `yaml:"tunnel"`    // silence of a tunnel; default 10m
	Drain    setting.Duration `yaml:"drain"`     // what requests in flight get on stop, off is nothing; default 30s

	Upstream upstream.Config `yaml:",inline"`
	Exchange exchange.Config `yaml:",inline"`
}

// limits are a Config's numbers, defaults filled in.
type limits struct {
	connections, perClient, requests, queue, head           int
	queueTime, idle, headTime, total, answer, tunnel, drain time.Duration
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
		tunnel:      c.Tunnel.Or(10 * time.Minute),
		drain:       c.Drain.Or(30 * time.Second),
	}
	l.queue = countOr(c.Queue, l.connections) // their memory is spent anyway
	return l
}

// anyNumber of connections of one address: what is left of the others'.
const anyNumber = math.MaxInt32 - 1

// countOr returns a limit: def when it was left out, a number that is never
// reached when it is off.
func countOr(c setting.Count, def int) int {
	if n := c.Or(def); n > 0 {
		return n
	}
	return math.MaxInt32
}

// Reachable says whether a proxy with these settings connects to the host and
// port of t. A host that is a name is not looked up.
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
