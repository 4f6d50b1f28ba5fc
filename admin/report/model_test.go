//go:build !small

package report

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/lib/clock"
	"shuultuur/policy"
	"shuultuur/state"
	"shuultuur/test/peer"
	"shuultuur/test/race"
)

// A life is a week of some people at their devices: pages, long polls, films and tunnels, at once and over
// midnight, ended and begun anew by restarts. minutes is what it should cost: those in which something was
// sent or moved, each once for a person.
type life struct {
	*rand.Rand
	monday  time.Time
	engine  *policy.Engine
	rows    rows
	minutes map[string]map[int64]bool
}

// use is one request, as a server follows it. moves says whether something moves in a minute after the first.
func (l *life) use(user string, addr netip.Addr, start time.Time, took time.Duration, moves func() bool) {
	t := &filter.Transaction{Start: start, Proto: filter.TLS, Host: "a.example", Last: filter.Name, Client: filter.Client{User: user, Addr: addr}}
	if l.IntN(10) == 0 { // refused before anything was sent
		t.Verdict.Action = filter.Block
	} else {
		end := filter.MinuteOf(start.Add(took))
		var known filter.Transaction
		t.Follow(&known)
		for m := filter.MinuteOf(start); m <= end; m++ {
			moved := m == filter.MinuteOf(start) || moves()
			if moved {
				l.minutes[user][m] = true
				t.Minutes.Add(m)
			}
			if m < end { // the end is not the turn of a minute
				l.engine.Follow(&known, filter.Use{Minute: m, Moved: moved}, filter.MinuteTime(m+1).In(start.Location()))
			}
		}
	}
	t.Duration = took
	l.engine.Done(context.Background(), t)
	l.rows = append(l.rows, event.NewRow(t))
}

func (l *life) live(people map[string][]netip.Addr) {
	names := make([]string, 0, len(people))
	for user := range people {
		names = append(names, user)
		l.minutes[user] = map[int64]bool{}
	}
	slices.Sort(names)
	for range 4 + l.IntN(12) {
		user := names[l.IntN(len(names))]
		addr := people[user][l.IntN(len(people[user]))]
		start := l.monday.Add(time.Duration(l.Int64N(int64(7 * 24 * time.Hour))))
		switch took := time.Duration(l.Int64N(int64(3 * time.Hour))); l.IntN(4) {
		case 0: // a page
			l.use(user, addr, start, took%(90*time.Second), func() bool { return true })
		case 1: // polls, each of 55 s
			for range l.IntN(10) {
				l.use(user, addr, start, 55*time.Second, func() bool { return true })
				start = start.Add(55 * time.Second)
			}
		case 2: // a film, with a restart
			l.use(user, addr, start, took, func() bool { return true })
			l.use(user, addr, start.Add(took), took/4, func() bool { return true })
		case 3: // a tunnel that is silent for most of its time
			l.use(user, addr, start, took, func() bool { return l.IntN(5) == 0 })
		}
	}
	slices.SortStableFunc(l.rows, func(a, b event.Row) int { return a.Time.Compare(b.Time) })
}

// between counts a person's minutes in a period.
func (l *life) between(user string, since, until time.Time) (n int64) {
	for m := range l.minutes[user] {
		if at := filter.MinuteTime(m); !at.Before(since) && at.Before(until) {
			n++
		}
	}
	return n
}

// TestTenThousandWeeksOfUse: what a quota, a report and the record say is what was used.
func TestTenThousandWeeksOfUse(t *testing.T) {
	peer.NotQuick(t, "half a minute of a processor")
	race.Without(t)
	t.Parallel()
	people := map[string][]netip.Addr{}
	for i, user := range []string{"ann", "ben", "cem"} {
		people[user] = []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), netip.AddrFrom4([4]byte{10, 0, 1, byte(i)})}
	}
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	base, err := policy.New(policy.Config{{Name: "all", Quotas: []policy.Quota{{Time: policy.Duration(24 * time.Hour)}}}}, nil, policy.Parts{})
	if err != nil {
		t.Fatal(err)
	}
	for week := range 10_000 {
		monday := time.Date(2026, 1, 5+7*(week%52), 0, 0, 0, 0, zone)
		l := &life{Rand: rand.New(rand.NewPCG(uint64(week), 1)), monday: monday, engine: base.Counting(&state.PastUse{Now: monday}), minutes: map[string]map[int64]bool{}}
		l.live(people)
		for day := range 8 {
			since, until := clock.Day(monday, day), clock.Day(monday, day+1)
			if day == 7 { // the week
				since, until = monday, clock.Day(monday, 7)
			}
			r, err := Build(t.Context(), l.rows, Question{Since: since, Until: until})
			if err != nil {
				t.Fatal(err)
			}
			said := map[string]int64{}
			for _, p := range r.People {
				said[p.Name] = p.Minutes
			}
			for user, addrs := range people {
				want := l.between(user, since, until)
				if said[user] != want {
					t.Fatalf("week %d, day %d: the report has %d minutes of %s, want %d", week, day, said[user], user, want)
				}
				_, left := l.engine.Balance(t.Context(), "", &filter.Client{User: user, Addr: addrs[0]}, since.Add(12*time.Hour))
				if day < 7 && left[0].Used != want {
					t.Fatalf("week %d, day %d: the quota has %d minutes of %s, want %d", week, day, left[0].Used, user, want)
				}
			}
		}
	}
}
