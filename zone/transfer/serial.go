package transfer

import (
	"slices"
	"time"

	miekg "github.com/miekg/dns"
	"github.com/zeebo/xxh3"

	"shuultuur/zone"
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

// change gives the SOA record of a zone in which some records take the place of
// others, soa among them.
func (s *stamp) change(soa *miekg.SOA, policy string, gone, come []miekg.RR, now time.Time) *miekg.SOA {
	sum := s.contents
	if policy != Keep {
		add(&sum, gone, ^uint64(0))
		add(&sum, come, 1)
	}
	return s.step(soa, policy, sum, false, now)
}

// step goes on to other contents, or the same.
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

// add adds the hashes of records, times n, to a sum that their order does not
// matter to. The serial of a SOA record is none of its contents.
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
