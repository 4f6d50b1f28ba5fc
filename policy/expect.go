package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/clock"
	"shuultuur/lib/setting"
	"shuultuur/policy/schedule"
)

// An Expectation is a verdict that a policy has to reach. The settings are checked against it
// at each save, so that a change that opens or closes too much is noticed before it is in use.
type Expectation struct {
	URL setting.OneOrMore[string] `yaml:"url"` // requested URLs; each has to meet the expectation
	// As is the client: an address, a user or a group, or else the name of a policy. Default:
	// any client that this policy covers.
	As string `yaml:"as" names:"people"`
	Is string `yaml:"is"` // pass or allow (equivalent here), warn, block or redirect
	// At is the time: "10:30", or "mon 10:30" for one day of the week. Default: now.
	At string `yaml:"at"`
}

const maxExpectations = 1000 // per policy, counting each URL

// check finds mistakes.
func (x *Expectation) check() error {
	switch {
	case len(x.URL) == 0:
		return setting.At("url", errors.New("nothing to look up: write a URL or the name of a host"))
	case !slices.Contains([]string{"pass", "allow", "warn", "block", "redirect"}, x.Is):
		return setting.At("is", fmt.Errorf("%q cannot be expected: write pass, warn, block or redirect", x.Is))
	}
	_, err := x.Moment(time.Now())
	return setting.At("at", err)
}

func checkExpectations(all []Expectation) error {
	n := 0
	for i := range all {
		if err := all[i].check(); err != nil {
			return setting.At(fmt.Sprintf("[%d]", i), err)
		}
		if n += len(all[i].URL); n > maxExpectations {
			return fmt.Errorf("there are more than %d expectations", maxExpectations)
		}
	}
	return nil
}

// Moment returns the latest time before now that At names.
func (x *Expectation) Moment(now time.Time) (time.Time, error) {
	if x.At == "" {
		return now, nil
	}
	bad := fmt.Errorf(`%q is not a time; write it like "10:30" or "mon 10:30"`, x.At)
	f := strings.Fields(x.At)
	if len(f) == 0 || len(f) > 2 {
		return now, bad
	}
	minutes, err := schedule.ParseClock(f[len(f)-1])
	if err != nil || minutes == 24*60 {
		return now, bad
	}
	back := 0
	if len(f) == 2 {
		day, ok := schedule.ParseDay(f[0])
		if !ok {
			return now, bad
		}
		back = int(now.Weekday()-day+7) % 7
	}
	y, m, d := now.Date()
	at := clock.Moment(y, m, d-back, minutes, now.Location())
	if at.After(now) {
		at = clock.Moment(y, m, d-back-7, minutes, now.Location())
	}
	return at, nil
}

// Meets reports whether a verdict is as expected.
func (x *Expectation) Meets(a filter.Action) bool {
	if a == filter.Pass || a == filter.Allow {
		return x.Is == "pass" || x.Is == "allow"
	}
	return a.String() == x.Is
}
