package clock

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// today is what a right clock shows when a test begins.
var today = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// A machine has a clock that can be wrong, and a program that asks a guard once a minute.
type machine struct {
	t       *testing.T
	file    string
	newest  time.Time     // the newest thing that is stored
	age     time.Duration // since the test began
	wrong   time.Duration // how far the clock is ahead
	guard   *Guard
	believe bool
}

func start(t *testing.T, newest time.Time) *machine {
	m := &machine{t: t, newest: newest}
	m.restart()
	return m
}

// startWithFile is start for a test that starts the program again.
func startWithFile(t *testing.T, newest time.Time) *machine {
	m := &machine{t: t, newest: newest, file: filepath.Join(t.TempDir(), "clock")}
	m.restart()
	return m
}

func (m *machine) restart() {
	m.t.Helper()
	begin := m.age
	m.guard = New(Config{
		File:    m.file,
		Built:   today.Add(-30 * day),
		Wall:    func() time.Time { return today.Add(m.age + m.wrong) },
		Running: func() time.Duration { return m.age - begin + time.Hour },
	})
	m.check()
}

func (m *machine) check() {
	m.t.Helper()
	var err error
	if m.believe, err = m.guard.Check(func() (time.Time, error) { return m.newest, nil }); err != nil {
		m.t.Fatal(err)
	}
}

// run lets time pass.
func (m *machine) run(d time.Duration) {
	m.t.Helper()
	for end := m.age + d; m.age < end; {
		m.age += min(time.Minute, end-m.age)
		m.check()
	}
}

// want checks whether the clock is believed, and whether people are told why not.
func (m *machine) want(believe bool, why string) {
	m.t.Helper()
	p := m.guard.Problem()
	if m.believe != believe || !strings.Contains(p, why) || why == "" && p != "" {
		m.t.Fatalf("after %v with a clock %v ahead: believed %v, %q; want %v, %q", m.age, m.wrong, m.believe, p, believe, why)
	}
}

var steps = map[string]time.Duration{
	"an hour ahead": time.Hour, "an hour behind": -time.Hour, "a day ahead": day, "a day behind": -day,
	"a year ahead": year, "a year behind": -year, "1970": time.Unix(0, 0).Sub(today),
}

func TestAClockThatWasWrongForSecondsIsBelievedAgainAfterAnHour(t *testing.T) {
	for name, step := range steps {
		for _, running := range []time.Duration{time.Minute, 3 * time.Hour} {
			t.Run(name+" after "+running.String(), func(t *testing.T) {
				m := start(t, today.Add(-time.Minute))
				m.run(running)
				m.want(true, "")
				m.wrong = step
				m.run(10 * time.Second)
				m.want(false, "the clock is doubtful")
				if c := m.guard.Certain(); c.After(today.Add(m.age)) {
					t.Errorf("%v has come for sure, but it is %v", c, today.Add(m.age))
				}
				m.wrong = 0
				m.run(59 * time.Minute)
				m.want(false, "the clock is doubtful")
				if running < time.Hour && step < 0 {
					m.run(24 * time.Hour) // what it has to show is not known yet
				} else {
					m.run(2 * time.Minute)
				}
				m.want(true, "")
				if m.guard.Doubts() != 1 {
					t.Errorf("%d doubts are counted, want 1", m.guard.Doubts())
				}
			})
		}
	}
}

func TestAClockThatStaysMovedIsBelievedAfterADay(t *testing.T) {
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			m := start(t, today.Add(-time.Minute))
			m.run(3 * time.Hour)
			m.wrong = step
			m.run(12 * time.Hour)
			m.want(false, "the clock is doubtful")
			m.run(11 * time.Hour)
			m.want(false, "the clock is doubtful")
			m.run(time.Hour + saveEvery)
			possible := !m.guard.Now().Before(today.Add(-30 * day))
			m.want(possible, map[bool]string{false: "built later"}[possible])
			if !possible {
				m.run(25 * time.Hour)
				m.want(false, "built later")
			}
		})
	}
}

func TestAClockIsComparedWithTheLastTimeKnownAtAStart(t *testing.T) {
	for _, tt := range []struct {
		name  string
		off   time.Duration // how long the machine is off
		wrong time.Duration
		wait  time.Duration // until the clock is believed
		why   string
	}{
		{"a restart", time.Minute, 0, 0, ""},
		{"a night", 9 * time.Hour, 0, time.Hour, ""},
		{"a restart with a clock a day ahead", time.Minute, day, time.Hour, ""},
		{"a weekend", 64 * time.Hour, 0, time.Hour, ""},
		{"a hundred days", 100 * day, 0, day, "100 days before"},
		{"a clock a year ahead", time.Minute, year, day, "365 days before"},
		{"a clock a day behind", time.Minute, -day, day, "the last time known"},
		{"a clock a little behind", time.Minute, -2 * time.Minute, 0, ""},
	} {
		for _, by := range []string{"the file", "what is stored"} {
			t.Run(tt.name+" by "+by, func(t *testing.T) {
				m := startWithFile(t, today)
				m.run(2 * time.Minute)
				m.newest = today.Add(m.age)
				if by != "the file" {
					if err := os.WriteFile(m.file, []byte("{damaged"), 0o640); err != nil {
						t.Fatal(err)
					}
				}
				m.age += tt.off
				m.wrong = tt.wrong
				m.restart()
				m.want(tt.wait == 0, tt.why)
				if tt.wait > 0 {
					m.run(tt.wait - time.Minute)
					m.want(false, tt.why)
					m.run(2 * time.Minute)
					m.want(true, "")
				}
			})
		}
	}
}

// TestAMachineThatRunsForHoursADayBelievesItsClockInTheEnd: the hours add up.
func TestAMachineThatRunsForHoursADayBelievesItsClockInTheEnd(t *testing.T) {
	m := startWithFile(t, today)
	m.run(3 * time.Hour)
	m.age += 100 * day
	days := 0
	for m.restart(); !m.believe && days < 10; days++ {
		m.want(false, "100 days before")
		m.run(8 * time.Hour)
		if !m.believe {
			m.age += 16 * time.Hour
			m.restart()
		}
	}
	if days != 3 {
		t.Errorf("it took %d days of eight hours, want 3", days)
	}
}

func TestARestartEndsNoDoubt(t *testing.T) {
	m := startWithFile(t, today)
	m.run(2 * time.Hour)
	m.wrong = year
	m.run(time.Hour)
	m.restart()
	m.want(false, "was set from 2027-03-01T14:01:00Z to 2028-02-29T14:01:00Z")
	m.run(22 * time.Hour)
	m.want(false, "was set from")
	m.run(time.Hour + saveEvery)
	m.want(true, "")
}

// TestAClockThatIsSetAtBootWaitsAnHour: a board without a clock starts in 1970, or when it was
// last on, until the network tells the time.
func TestAClockThatIsSetAtBootWaitsAnHour(t *testing.T) {
	for name, wrong := range map[string]time.Duration{"1970": time.Unix(0, 0).Sub(today), "when it was last on": -9 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			m := startWithFile(t, today)
			m.run(3 * time.Hour)
			m.age += 9 * time.Hour
			m.wrong = wrong
			m.restart()
			m.run(30 * time.Second)
			m.wrong = 0
			m.check()
			m.want(false, "was set from")
			m.run(61 * time.Minute)
			m.want(true, "")
		})
	}
}

func TestTwoClocksHaveToAgree(t *testing.T) {
	m := start(t, today)
	if !m.guard.Agree(today.Add(4 * time.Minute)) {
		t.Error("four minutes are a difference")
	}
	if m.guard.Agree(today.Add(-time.Hour)) {
		t.Error("an hour is none")
	}
	m.want(true, "the clock of the database shows 2027-03-01T11:00:00Z")
	if !m.guard.Agree(today) {
		t.Error("the same time is a difference")
	}
	m.want(true, "")
}

// TestNothingStoredProvesNothing: a store that is empty gives no clock credit.
func TestNothingStoredProvesNothing(t *testing.T) {
	m := start(t, time.Time{})
	m.want(false, "")
	m.newest = today
	m.run(time.Minute)
	m.want(true, "")
}

func TestAFileThatCannotBeWrittenIsTold(t *testing.T) {
	m := startWithFile(t, today)
	m.file = filepath.Join(m.file, "file", "in", "file")
	m.restart()
	m.want(true, "cannot be written")
}

func TestTheNilGuardBelievesTheClock(t *testing.T) {
	var g *Guard
	if ok, err := g.Check(nil); !ok || err != nil || !g.Agree(time.Time{}) || g.Problem() != "" || time.Since(g.Certain()) > time.Minute {
		t.Error("the nil guard doubts")
	}
}
