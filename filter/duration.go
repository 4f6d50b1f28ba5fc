package filter

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Duration is a length of time in the settings: what time.ParseDuration
// reads, and days before that ("1d", "1d12h").
type Duration time.Duration

// UnmarshalText reads such a length, which is not negative.
func (d *Duration) UnmarshalText(text []byte) error {
	s := string(text)
	rest, days := s, time.Duration(0)
	if n, after, ok := strings.Cut(s, "d"); ok {
		i, err := strconv.ParseUint(n, 10, 16)
		if err != nil {
			return badDuration(s)
		}
		days, rest = time.Duration(i)*24*time.Hour, after
	}
	v := time.Duration(0)
	if rest != "" || s == "" {
		var err error
		if v, err = time.ParseDuration(rest); err != nil || v < 0 {
			return badDuration(s)
		}
	}
	if v += days; v < 0 {
		return badDuration(s)
	}
	*d = Duration(v)
	return nil
}

func badDuration(s string) error {
	return fmt.Errorf(`%q is not a length of time; write it like "30m", "1h30m" or "7d"`, s)
}
