package session

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/state"
)

// A report is an event as it was sent.
type report struct {
	kind  Kind
	point int
	id    string
	at    int // second in which it happened
	addr  netip.Prefix
	user  string
}

// A schedule is what happened at some access points, and in which order it was told.
type schedule struct {
	happened []report
	told     []report
}

// newSchedule lets devices come, move among addresses and go at access points that restart, and
// then loses, repeats and reorders what is told of it.
func newSchedule(r *rand.Rand, disorder bool) (s schedule) {
	type open struct {
		report
	}
	points, now, n := 1+r.IntN(3), 0, 0
	var sessions []open
	addr := func() netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + r.IntN(3))}), 32)
	}
	for range 4 + r.IntN(16) {
		now += 1 + r.IntN(20)
		at := r.IntN(len(sessions) + 1)
		e := report{kind: Begins, point: r.IntN(points), id: strconv.Itoa(n % 4), at: now, addr: addr(), user: fmt.Sprintf("user%d", n)}
		switch k := r.IntN(8); {
		case k == 0: // an access point restarts
			e = report{kind: Restarts, point: e.point, at: now}
			kept := sessions[:0]
			for _, o := range sessions {
				if o.point != e.point {
					kept = append(kept, o)
				}
			}
			sessions = kept
		case k < 4 && at < len(sessions): // a session goes on, perhaps at another address
			e = sessions[at].report
			e.kind, e.at = Continues, now
			if r.IntN(2) == 0 {
				e.addr = addr()
			}
			sessions[at].report = e
		case k < 6 && at < len(sessions):
			e = sessions[at].report
			e.kind, e.at = Ends, now
			sessions = append(sessions[:at], sessions[at+1:]...)
		default:
			taken := false
			for _, o := range sessions {
				taken = taken || o.point == e.point && o.id == e.id
			}
			if taken {
				continue
			}
			n++
			sessions = append(sessions, open{e})
		}
		s.happened = append(s.happened, e)
	}
	s.told = append(s.told, s.happened...)
	if !disorder {
		return s
	}
	for i := range s.told {
		switch r.IntN(6) {
		case 0: // late
			j := min(len(s.told)-1, i+1+r.IntN(5))
			s.told[i], s.told[j] = s.told[j], s.told[i]
		case 1: // twice
			s.told = append(s.told, s.told[i])
		}
	}
	for i := 0; i < len(s.told); i++ {
		if r.IntN(8) == 0 { // lost
			s.told = append(s.told[:i], s.told[i+1:]...)
		}
	}
	return s
}

// owner returns the user of an address by what has been told: the one of the latest report of
// it, unless it was told that this session has ended or moved since.
func owner(told []report, addr netip.Prefix) string {
	latest := report{at: -1}
	for _, e := range told {
		if (e.kind == Begins || e.kind == Continues) && e.addr == addr && e.at > latest.at {
			latest = e
		}
	}
	for _, e := range told {
		if e.point != latest.point || e.at <= latest.at {
			continue
		}
		switch {
		case e.kind == Restarts, e.id == latest.id && (e.kind == Ends || e.addr != addr || e.user != latest.user):
			return ""
		}
	}
	return latest.user
}

// TestRandomSchedulesNameNobodyWrong compares the table with a model, in any order of reports.
// Told in order and completely, it knows each owner; otherwise it may know nobody, but never
// another than the latest report names. SCHEDULES has another number than 3,000.
func TestRandomSchedulesNameNobodyWrong(t *testing.T) {
	rounds := 3000
	if n, err := strconv.Atoi(os.Getenv("SCHEDULES")); err == nil {
		rounds = n
	}
	synctest.Test(t, func(t *testing.T) {
		unknown, known := 0, 0
		for round := range rounds {
			r := rand.New(rand.NewPCG(uint64(round), 1))
			disorder := round%4 != 0
			s := newSchedule(r, disorder)
			table := New(noStore{}, slog.New(slog.DiscardHandler))
			begin := time.Now().Add(-time.Hour).Truncate(time.Second)
			for i, e := range s.told {
				by := Reporter{Sender: netip.MustParseAddr("10.0.0.1"), Name: fmt.Sprint("ap", e.point)}
				ev := Event{Kind: e.kind, By: by, ID: e.id, At: begin.Add(time.Duration(e.at) * time.Second), Dated: true, User: e.user, Until: time.Now().Add(time.Hour)}
				if e.kind != Restarts {
					ev.Nets = []netip.Prefix{e.addr}
				}
				if err := table.Change(&Change{Event: &ev})[0]; err != nil {
					t.Fatal(err)
				}
				for last := byte(1); last <= 3; last++ {
					a := netip.AddrFrom4([4]byte{192, 0, 2, last})
					got, want := "", owner(s.told[:i+1], netip.PrefixFrom(a, 32))
					if o := table.Lookup(a); o != nil {
						got = o.User
					}
					switch {
					case got == want && got != "":
						known++
					case got == "" && disorder:
						unknown++
					case got != want:
						t.Fatalf("schedule %d: after %+v, %v is %q's, the model says %q", round, s.told[:i+1], a, got, want)
					}
				}
			}
		}
		if known < unknown/4 {
			t.Errorf("an owner was known %d times and nobody %d times: the schedules show nothing", known, unknown)
		}
	})
}

// noStore keeps nothing.
type noStore struct{}

func (noStore) Issue(...state.Instruction) error   { return nil }
func (noStore) InForce(string) []state.Instruction { return nil }
