package engine

import (
	"fmt"
	"slices"
	"strings"

	"shuultuur/lib/suricata/index"
	"shuultuur/lib/suricata/match"
	"shuultuur/lib/suricata/rule"
)

// needsPacket reports whether a condition can only be tested on a packet.
func needsPacket(c rule.Condition, packets []string) bool {
	switch c := c.(type) {
	case *rule.Integer:
		return !ofMessage(c.Keyword) && slices.Contains(packets, strings.TrimSuffix(c.Keyword, ".raw"))
	case *rule.Word:
		return !ofMessage(c.Keyword) && slices.Contains(packets, c.Keyword)
	case *rule.Event:
		return c.Kind != "app-layer-event"
	}
	return false
}

// ofMessage reports whether a keyword that is for captures only is about a message, not a packet.
func ofMessage(keyword string) bool {
	return strings.HasPrefix(keyword, "ftp") || strings.HasPrefix(keyword, "ssh.")
}

// needsMessage reports whether a condition is tested on a message.
func needsMessage(c rule.Condition) bool {
	switch c := c.(type) {
	case *rule.Integer:
		return !strings.HasPrefix(c.Keyword, "flow.") && c.Keyword != "dsize"
	case *rule.Event:
		return c.Kind == "app-layer-event"
	case *rule.Word:
		return c.Keyword != "app-layer-protocol"
	case *digestMatcher:
		return true
	}
	return false
}

// place determines the kinds of data and the directions in which the rule is tried.
func (b *builder) place(c *compiledRule) {
	c.Dirs = c.flow.Direction
	if c.Dirs == 0 {
		c.Dirs = rule.Both
	}
	framed := false
	payload, message, packet := false, c.Hook != "" && c.app != 0, false
	for i := range c.Groups {
		g := &c.Groups[i]
		info := g.Buffer.Info()
		switch {
		case g.Buffer == rule.Payload:
			payload = true
		case g.Buffer.Framed():
			framed = true
		case info.Packet:
			packet = true
		case g.Buffer == rule.IPSrc || g.Buffer == rule.IPDst:
		default:
			message = true
		}
		if !c.Exchange && info.Direction != rule.Both && c.flow.Direction == 0 {
			c.Dirs &= info.Direction
		}
	}
	needs := append(slices.Clone(c.pre), c.last...)
	for _, x := range needs {
		switch {
		case needsPacket(x, c.Packet):
			packet = true
		case needsMessage(x):
			message = true
			if i, ok := x.(*rule.Integer); ok && c.flow.Direction == 0 && strings.HasPrefix(i.Keyword, "urilen") {
				c.Dirs &= rule.ToServer
			}
		}
		if s, ok := x.(*rule.Lua); ok && b.e.scripts[s] != nil && b.e.scripts[s].Message() && c.app != 0 {
			message = true
			if !c.Exchange && c.flow.Direction == 0 {
				c.Dirs &= b.e.scripts[s].Directions()
			}
		}
	}
	switch {
	case framed:
		c.Kinds = index.OnFrame
	case message:
		c.Kinds = index.OnMessage
	case payload && !packet && c.Proto != "tcp-pkt" && !c.flow.NoStream:
		c.Kinds = index.OnStream
		if c.Proto != "tcp-stream" && !c.flow.OnlyStream {
			c.Kinds |= index.OnPacket
		}
	default:
		c.Kinds = index.OnPacket
	}
	c.Single = c.app == 0 && c.Kinds == index.OnPacket && !payload && !packet && len(c.pre) == 0 && len(c.last) == 0 && c.flow == (rule.Flow{})
	if c.Exchange {
		c.Dirs = rule.Both
	}
	slices.SortStableFunc(c.Groups, func(a, b match.Group) int { return int(a.Buffer.Info().Progress) - int(b.Buffer.Info().Progress) })
}

// hooks are rule hooks by name.
var hooks = map[string]struct {
	dir rule.Direction
	at  rule.Progress
}{
	"request_started": {rule.ToServer, rule.NotStarted}, "request_line": {rule.ToServer, rule.Line},
	"request_headers": {rule.ToServer, rule.Headers}, "request_body": {rule.ToServer, rule.Body},
	"request_trailer": {rule.ToServer, rule.Trailer}, "request_complete": {rule.ToServer, rule.Complete},
	"response_started": {rule.ToClient, rule.NotStarted}, "response_line": {rule.ToClient, rule.Line},
	"response_headers": {rule.ToClient, rule.Headers}, "response_body": {rule.ToClient, rule.Body},
	"response_trailer": {rule.ToClient, rule.Trailer}, "response_complete": {rule.ToClient, rule.Complete},
	"client_in_progress": {rule.ToServer, rule.NotStarted}, "client_hello_done": {rule.ToServer, rule.Line},
	"client_cert_done": {rule.ToServer, rule.Headers}, "client_handshake_done": {rule.ToServer, rule.Headers},
	"client_finished": {rule.ToServer, rule.Complete}, "server_in_progress": {rule.ToClient, rule.NotStarted},
	"server_hello": {rule.ToClient, rule.Line}, "server_cert_done": {rule.ToClient, rule.Headers},
	"server_hello_done": {rule.ToClient, rule.Headers}, "server_handshake_done": {rule.ToClient, rule.Headers},
	"server_finished": {rule.ToClient, rule.Complete}, "all": {rule.Both, rule.NotStarted}, "flow_start": {rule.Both, rule.NotStarted},
}

func (b *builder) hook(c *compiledRule) error {
	if c.Hook == "" {
		return nil
	}
	h, ok := hooks[c.Hook]
	if !ok {
		return fmt.Errorf("there is no hook %q; use request_line, request_headers, request_body, request_complete, or response_line and so on", c.Hook)
	}
	if h.dir != rule.Both {
		c.flow.Direction = h.dir
	}
	c.hook = h.at
	return nil
}
