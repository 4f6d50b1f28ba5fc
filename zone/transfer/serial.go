package transfer

import (
	"slices"
	"time"

	miekg "github.com/miekg/dns"
	"github.com/zeebo/xxh3"

	"shuultuur/zone"
)

// How to make the serial of a zone; the setting "serial".
const (
	Keep      = "keep"      // the serial of the source
	Increment = "increment" // plus one when something changed
	UnixTime  = "unixtime"  // the seconds since 1970 at a change
)

// A stamp relates a serial to the contents that had it.
type stamp struct {
	known    bool
	serial   uint32
	contents [2]uint64
}

// next returns z with the serial to serve it with, or z itself if that is unchanged. mark is
// part of the contents: how the zone is signed. anew counts the contents as changed, for new
// signatures.
func (s *stamp) next(z *zone.Zone, policy string, mark uint64, anew bool, now time.Time) *zone.Zone {
	at := slices.IndexFunc(z.Records, isSOA)
	if at < 0 {
		return z // compiling the zone reports the mistake
	}
	sum := [2]uint64{mark}
	if policy != Keep {
		add(&sum, z.Records, 1)
	}
	soa := s.step(z.Records[at].(*miekg.SOA), policy, sum, anew, now)
	if soa == z.Records[at] {
		return z
	}
	out := *z
	out.Records = append([]miekg.RR(nil), z.Records...)
	out.Records[at] = soa
	return &out
}

// change returns the SOA record of a zone after some records, including soa, were replaced.
func (s *stamp) change(soa *miekg.SOA, policy string, gone, come []miekg.RR, now time.Time) *miekg.SOA {
	sum := s.contents
	if policy != Keep {
		add(&sum, gone, ^uint64(0))
		add(&sum, come, 1)
	}
	return s.step(soa, policy, sum, false, now)
}

// step advances to other contents, or the same.
func (s *stamp) step(soa *miekg.SOA, policy string, sum [2]uint64, anew bool, now time.Time) *miekg.SOA {
	serial := soa.Serial
	switch {
	case policy == Keep:
	case s.known && sum == s.contents && !anew && !newer(soa.Serial, s.serial):
		serial = s.serial
	default:
		if policy == UnixTime {
			serial = unixTime(soa.Serial, now)
		}
		if s.known && !newer(serial, s.serial) {
			serial = s.serial + 1
		}
	}
	*s = stamp{true, serial, sum}
	if serial == soa.Serial {
		return soa
	}
	out := *soa
	out.Serial = serial
	return &out
}

func isSOA(rr miekg.RR) bool { return rr.Header().Rrtype == miekg.TypeSOA }

// add adds the hashes of records, times n, to a sum that does not depend on their order. The
// serial of an SOA record is not part of it.
func add(sum *[2]uint64, records []miekg.RR, n uint64) {
	var buf []byte
	for _, rr := range records {
		if soa, ok := rr.(*miekg.SOA); ok {
			soa := *soa
			soa.Serial = 0
			rr = &soa
		}
		wire, err := zone.Pack(rr, &buf)
		if err != nil {
			continue // compiling the zone reports the mistake
		}
		h := xxh3.Hash128(wire)
		sum[0] += n * h.Hi
		sum[1] += n * h.Lo
	}
}

// unixTime returns a serial for when only the clock tells: after a restart the version served
// before is unknown. A source's serial that exceeds the time, such as a date with two digits,
// grows by the hours since 2025.
func unixTime(source uint32, now time.Time) uint32 {
	serial := uint32(now.Unix())
	if !newer(source, serial) {
		return serial
	}
	since := now.Sub(time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC))
	return source + uint32(max(0, since/time.Hour))
}
