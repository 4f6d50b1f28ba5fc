package state

import (
	"net/netip"
	"time"

	"shuultuur/lib/suricata/rule"
)

type countKey struct {
	gid, sid uint32
	kind     byte
	flow     *Flow
	a, b     netip.Addr
}

type count struct {
	start time.Time
	n     int
	next  int       // of backoff
	until time.Time // of rate_filter
	seen  map[uint16]struct{}
}

// track returns the key of a threshold's count.
func (o *Occurrence) track(how string, kind byte) countKey {
	k := countKey{gid: o.GID, sid: o.SID, kind: kind}
	src, dst := o.Src.Addr(), o.Dst.Addr()
	switch how {
	case "by_src":
		k.a = src
	case "by_dst":
		k.b = dst
	case "by_both":
		k.a, k.b = src, dst
		if k.b.Less(k.a) {
			k.a, k.b = k.b, k.a
		}
	case "by_flow":
		k.flow = o.Flow
	}
	return k
}

// allow counts a match for a threshold, and reports whether it alerts and whether the action of
// the rule applies. Matches that only a limit hides act; those before a count is reached do not.
func (s *State) allow(t *rule.Threshold, o *Occurrence, kind byte) (alerts, acts bool) {
	k, now := o.track(t.Track, kind), o.Now
	sh := &s.shard[hash(k.a, k.b, k.sid)]
	sh.Lock()
	defer sh.Unlock()
	c := sh.counts[k]
	window := time.Duration(t.Seconds) * time.Second
	if c == nil {
		if len(sh.counts) >= maxEntries {
			for old, v := range sh.counts { // delete a random one to make room
				delete(sh.counts, old)
				_ = v
				break
			}
		}
		c = &count{start: now}
		sh.counts[k] = c
	} else if t.Type != "backoff" && t.Type != "rate_filter" && now.Sub(c.start) >= window {
		*c = count{start: now}
	}
	if t.UniqueOn != "" {
		if c.seen == nil {
			c.seen = map[uint16]struct{}{}
		}
		port := o.Src.Port()
		if t.UniqueOn == "dst_port" {
			port = o.Dst.Port()
		}
		if _, twice := c.seen[port]; !twice {
			c.seen[port] = struct{}{}
			c.n++
		}
		return c.n > t.Count, c.n > t.Count
	}
	c.n++
	switch t.Type {
	case "limit":
		return c.n <= t.Count, true
	case "threshold":
		if c.n >= t.Count {
			c.n = 0
			return true, true
		}
		return false, false
	case "both":
		return c.n == t.Count, c.n >= t.Count
	case "detection_filter":
		return c.n > t.Count, c.n > t.Count
	case "backoff":
		if c.next == 0 {
			c.next = t.Count
		}
		if c.n == c.next {
			c.next *= max(2, t.Multiplier)
			return true, true
		}
		return false, c.n >= t.Count
	case "rate_filter":
		if now.Before(c.until) {
			return true, true
		}
		if now.Sub(c.start) >= window {
			c.start, c.n = now, 1
		}
		if c.n > t.Count {
			c.until = now.Add(time.Duration(t.Timeout) * time.Second)
			if t.Timeout == 0 {
				c.until = now.AddDate(100, 0, 0)
			}
			c.n = 0
			c.start = now
			return true, true
		}
		return false, true
	}
	return true, true
}
