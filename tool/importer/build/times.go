package build

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// BlockedTimes returns the times outside those in which AdGuard Home
// permits blocked services, or nil if it never does.
func BlockedTimes(all map[string]any, prefix string) policy.Schedule {
	zone := input.Plain(all[prefix+"time_zone"])
	if zone == "Local" {
		zone = ""
	}
	var when policy.Schedule
	paused := false
	for _, day := range []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"} {
		start, end := moment(all[prefix+day+".start"]), moment(all[prefix+day+".end"])
		if end <= start {
			when = append(when, policy.Window{Days: day, Zone: zone})
			continue
		}
		paused = true
		var hours []string
		if start > 0 {
			hours = append(hours, "00:00-"+clock(start))
		}
		if end < 24*time.Hour {
			hours = append(hours, clock(end)+"-24:00")
		}
		if len(hours) > 0 {
			when = append(when, policy.Window{Days: day, Hours: strings.Join(hours, ","), Zone: zone})
		}
	}
	if !paused {
		return nil
	}
	if len(when) == 0 { // they are permitted at all times
		return policy.Schedule{{Days: "mon", Hours: "00:00-00:01", Zone: zone}}
	}
	return when
}

// moment reads a time of day: a duration, or milliseconds as a number.
func moment(v any) time.Duration {
	text := input.Plain(v)
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(n) * time.Millisecond
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > 24*time.Hour {
		return 0
	}
	return d
}

func clock(d time.Duration) string {
	return fmt.Sprintf("%02d:%02d", int(d.Hours()), int(d.Minutes())%60)
}

// AtMost converts a duration of at most most.
func AtMost(ours string, d, most time.Duration, to *setting.Duration) *report.Note {
	if d > most {
		*to = setting.Duration(most)
		return report.Differs(ours, fmt.Sprintf("at most %v", setting.Duration(most)))
	}
	*to = setting.Duration(d)
	return report.Same(ours)
}

// TakeTime converts a number of units, at most most.
func TakeTime(value, ours string, unit, most time.Duration, to *setting.Duration) *report.Note {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil || n == 0 {
		return report.ByHand(ours, fmt.Sprintf("%q is no time", value))
	}
	return AtMost(ours, time.Duration(n)*unit, most, to)
}

const Week = 7 * 24 * time.Hour
