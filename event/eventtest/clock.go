package eventtest

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/lib/clock"
)

// Clock tests that a store forgets nothing by age while the clock may be wrong, and goes on when
// it is right. open opens a store that keeps rows for a time, if it deletes any.
func Clock(t *testing.T, deletes bool, open func(path string, keep time.Duration) (event.Store, error)) {
	const day = 24 * time.Hour
	dir := t.TempDir()
	for name, step := range map[string]time.Duration{
		"an hour ahead": time.Hour, "an hour behind": -time.Hour, "a day ahead": day, "a day behind": -day,
		"a year ahead": 365 * day, "a year behind": -365 * day, "1970": -time.Since(time.Unix(0, 0)),
	} {
		for _, long := range []time.Duration{10 * time.Second, 25 * time.Minute} {
			for _, how := range []string{"deleted", "anonymous"} {
				if how == "deleted" && !deletes {
					continue
				}
				t.Run(fmt.Sprintf("%s for %v, %s", name, long, how), func(t *testing.T) {
					c := clockTest{t: t, now: time.Now().UTC().Truncate(time.Second), path: filepath.Join(dir, fmt.Sprintf("%d-%d-%s", step, long, how)), deletes: how == "deleted"}
					c.start(open)
					c.wrong = step
					c.run(10*time.Second, time.Second)
					c.run(long-10*time.Second, 5*time.Minute)
					c.kept("with the wrong clock")
					if long > 10*time.Second {
						return
					}
					c.wrong = 0
					c.run(25*time.Minute, 5*time.Minute)
					c.kept("with the right clock again")
					c.run(40*time.Minute, 5*time.Minute)
					if named, rest := c.count(); named != 0 || rest != (map[bool]int{true: c.recent, false: c.recent + c.old})[c.deletes] {
						t.Errorf("an hour later %d old rows have names, and there are %d rows without and recent ones; want the old ones to be %s", named, rest, how)
					}
				})
			}
		}
	}
}

// A clockTest has a store with some rows that will be old in half an hour.
type clockTest struct {
	t           *testing.T
	path        string
	deletes     bool
	store       event.Store
	now         time.Time     // when the test began
	age         time.Duration // of the test, by a clock of its own
	wrong       time.Duration // how far the clock is ahead
	old, recent int           // rows
}

func (c *clockTest) start(open func(string, time.Duration) (event.Store, error)) {
	c.t.Helper()
	reopen := func(keep time.Duration) {
		var err error
		if c.store, err = open(c.path, keep); err != nil {
			c.t.Fatal(err)
		}
	}
	const long = 1000 * 24 * time.Hour
	reopen(long)
	end := c.now.AddDate(0, 0, -9).Truncate(24 * time.Hour) // stores may forget whole days
	old, recent := Rows(end.Add(-time.Minute), 50), Rows(c.now.Add(-10*time.Minute), 50)
	for i := range old {
		old[i].Time, old[i].User = end.Add(-time.Minute+time.Duration(i)*time.Millisecond), oldUser
		recent[i].Time = c.now.Add(-10*time.Minute + time.Duration(i)*time.Millisecond)
	}
	write(c.t, c.store, old)
	write(c.t, c.store, recent)
	shut(c.t, c.store)
	c.old, c.recent = len(old), len(recent)

	after := c.now.Sub(end) + 30*time.Minute
	if c.deletes {
		reopen(after)
	} else {
		reopen(long)
		c.store.(event.Anonymiser).Anonymise(after)
	}
	c.t.Cleanup(func() { shut(c.t, c.store) })
	c.store.(event.Ager).Mind(clock.New(clock.Config{
		Built:   c.now.AddDate(0, 0, -30),
		Wall:    func() time.Time { return c.now.Add(c.age + c.wrong) },
		Running: func() time.Duration { return c.age + time.Hour },
	}))
	c.run(time.Second, time.Second)
	c.kept("with the right clock")
}

// run lets time pass, with a row from time to time.
func (c *clockTest) run(d, step time.Duration) {
	c.t.Helper()
	for end := c.age + d; c.age < end; {
		c.age += min(step, end-c.age)
		if c.wrong < -30*24*time.Hour { // its rows would be old by what they say
			write(c.t, c.store, nil)
			continue
		}
		rows := Rows(c.now.Add(c.age+c.wrong), 1)
		rows[0].ID = fmt.Sprintf("at%v", c.age)
		write(c.t, c.store, rows)
		c.recent++
	}
}

// count returns the number of old rows with a name, and of other rows.
func (c *clockTest) count() (named, rest int) {
	c.t.Helper()
	for _, r := range collect(c.t, c.store.(event.Reader), event.Filter{}, event.Page{}) {
		if r.User == oldUser {
			named++
		} else {
			rest++
		}
	}
	return named, rest
}

func (c *clockTest) kept(when string) {
	c.t.Helper()
	if named, rest := c.count(); named != c.old || rest != c.recent {
		c.t.Fatalf("%s %d of %d old rows are as they were, and there are %d of %d recent ones", when, named, c.old, rest, c.recent)
	}
}
