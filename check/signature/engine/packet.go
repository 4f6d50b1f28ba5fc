package engine

import (
	"net/netip"
	"time"

	"shuultuur/check/signature/rule"
)

// Try tries the rules on one packet, or with stream on a piece of a reassembled
// stream. The Tx is used once.
func (e *Engine) Try(tx *Tx, dir rule.Direction, stream bool, dst []Alert) []Alert {
	if tx.Flow.Passed {
		return dst
	}
	d := int(dir >> 1)
	w := e.work.Get().(*work)
	defer e.release(w)
	w.tx, w.e, w.dir = tx, e, dir
	tx.state = e.state
	tx.dir[d].at = rule.Complete
	tx.Packet.Stream = stream
	kind, tables := onPacket, e.packets[d]
	if stream {
		kind, tables = onStream, e.streams[d]
	}
	w.hits = append(w.hits[:0], e.alwaysP[d]...)
	for _, t := range tables {
		if !stream && t.streamed && tx.Packet.InStream {
			continue
		}
		scanned := 0
		w.prefilter(t, &scanned)
	}
	began := time.Now()
	for _, n := range sortUnique(w.hits) {
		k := e.rules[n]
		if k.kinds&kind == 0 || k.disabled.Load() || !stream && tx.Packet.InStream && k.kinds&onStream != 0 {
			continue
		}
		if time.Since(began) > messageTime {
			e.counters.OverMessage.add(1)
			break
		}
		if k.single && !w.first(k, int(n)) {
			continue
		}
		c := candidate{rule: n, dir: dir}
		dst = w.try(k, int(n), &c, dst)
		if tx.Flow.Passed {
			break
		}
	}
	return dst
}

// first says whether a rule that looks only at addresses is tried for the first
// time in this direction of the connection.
func (w *work) first(k *compiled, n int) bool {
	return w.applies(k) && w.tx.Flow.once(n, w.dir)
}

// Again returns a Tx of the same connection and message for Try.
func (tx *Tx) Again() *Tx {
	return &Tx{Flow: tx.Flow, Source: tx.Source, App: tx.App, L4: tx.L4, Client: tx.Client, Server: tx.Server, Now: tx.Now, Packet: tx.Packet, Info: tx.Info}
}

// HasStream says whether a rule looks at content outside any buffer.
func (e *Engine) HasStream(dir rule.Direction) bool { return len(e.streams[dir>>1]) > 0 }

// NeedsFiles says whether a rule asks for the digest or the size of files.
func (e *Engine) NeedsFiles() bool {
	for _, k := range e.rules {
		for _, x := range k.pre {
			switch x := x.(type) {
			case *hashed:
				return true
			case *rule.Integer:
				if x.Keyword == "filesize" {
					return true
				}
			}
		}
	}
	return false
}

// Has says whether a rule looks at messages of one of the protocols in a
// direction, at a step no earlier than at.
func (e *Engine) Has(app Proto, dir rule.Direction, at rule.Progress) bool {
	return e.wants[dir>>1][at]&app != 0
}

// note adds up what Has answers.
func (e *Engine) note(c *compiled) {
	app := c.app
	last := rule.Line
	for _, g := range c.groups {
		last = max(last, g.Buffer.Info().Progress)
		if app == 0 {
			switch g.Buffer.Info().Protocol {
			case "http":
				app |= HTTP1 | HTTP2
			case "http2":
				app |= HTTP2
			case "tls":
				app |= TLS
			case "dns":
				app |= DNS
			}
		}
		if g.Buffer == rule.Payload {
			last = max(last, rule.Body)
		}
	}
	for _, x := range c.Conditions {
		switch x := x.(type) {
		case *rule.Word, *rule.Lua:
			last = max(last, rule.Body)
		case *rule.Integer:
			if x.Keyword == "filesize" {
				last = max(last, rule.Body)
			}
		}
	}
	if app == 0 {
		app = HTTP1 | HTTP2
	}
	for d := range 2 {
		if c.dirs>>d&1 == 0 {
			continue
		}
		for p := rule.Line; p <= last; p++ {
			e.wants[d][p] |= app
		}
	}
}

// A Captured is a packet as scripts see it.
type Captured struct {
	Number          int
	Time            time.Time
	Src, Dst        netip.AddrPort
	Proto           uint8
	Payload, Packet []byte
}

// State returns what rules remember beyond a connection.
func (tx *Tx) State() *State { return tx.state }

// Variable returns what byte_extract or byte_math put into a slot for the rule
// that is being tried.
func (tx *Tx) Variable(i int) (uint64, bool) {
	if i >= len(tx.vars) {
		return 0, false
	}
	return tx.vars[i], true
}
