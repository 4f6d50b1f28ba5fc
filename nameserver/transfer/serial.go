package transfer

import (
	"time"

	"github.com/miekg/dns"
	"github.com/zeebo/xxh3"

	"shuultuur/nameserver/zone"
)

// How the serial of a zone is made; the setting "serial".
const (
	Keep      = "keep"      // as the source has it
	Increment = "increment" // one more whenever something changed
	UnixTime  = "unixtime"  // the seconds since 1970 when something changed
)

// A stamp remembers what serial a zone had with what contents.
type stamp struct {
	known    bool
	serial   uint32
	contents [2]uint64
}

// next gives z with the serial to serve it by. It is z itself when nothing has
// to be changed. mark counts as contents: how the zone is signed. anew says that
// the contents count as changed: signatures are made anew.
func (s *stamp) next(z *zone.Zone, policy string, mark uint64, anew bool, now time.Time) *zone.Zone {
	at := -1
	sum := [2]uint64{mark}
	var buf []byte
	for i, rr := range z.Records {
		if soa, ok := rr.(*dns.SOA); ok {
			at = i
			soa := *soa
			soa.Serial = 0
			rr = &soa
		}
		if policy == Keep {
			continue
		}
		wire, err := pack(rr, &buf)
		if err != nil {
			continue // who compiles the zone says what is wrong
		}
		h := xxh3.Hash128(wire)
		sum[0] += h.Hi
		sum[1] += h.Lo
	}
	if at < 0 {
		return z
	}
	source := z.Records[at].(*dns.SOA).Serial
	serial := source
	switch {
	case policy == Keep:
	case s.known && sum == s.contents && !anew && !newer(source, s.serial):
		serial = s.serial
	default:
		if policy == UnixTime {
			serial = unixTime(source, now)
		}
		if s.known && !newer(serial, s.serial) {
			serial = s.serial + 1
		}
	}
	*s = stamp{true, serial, sum}
	if serial == source {
		return z
	}
	soa := *z.Records[at].(*dns.SOA)
	soa.Serial = serial
	out := *z
	out.Records = append([]dns.RR(nil), z.Records...)
	out.Records[at] = &soa
	return &out
}

// unixTime is a serial that has only the clock to grow by: what was served
// before a restart is not known after it. A source's serial that is larger than
// the time, such as a date with two digits, grows by the hours since 2025.
func unixTime(source uint32, now time.Time) uint32 {
	serial := uint32(now.Unix())
	if !newer(source, serial) {
		return serial
	}
	since := now.Sub(time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC))
	return source + uint32(max(0, since/time.Hour))
}
