package find

import (
	"strconv"
	"strings"
)

// split returns the number and the unit of a length such as 15m.
func split(long string) (n int, unit string) {
	i := strings.IndexFunc(long, func(r rune) bool { return r < '0' || r > '9' })
	if i < 0 {
		return 0, ""
	}
	n, _ = strconv.Atoi(long[:i])
	return n, long[i:]
}

// inWords writes a length of time for people.
func (s *search) inWords(long string) string {
	n, unit := split(long)
	number := strconv.Itoa(n)
	switch {
	case unit == "m":
		return s.t.Say("{number} minutes", "number", number)
	case unit == "h" && n == 1:
		return s.t.Say("1 hour")
	case unit == "h":
		return s.t.Say("{number} hours", "number", number)
	case unit == "d" && n == 1:
		return s.t.Say("1 day")
	}
	return s.t.Say("{number} days", "number", number)
}
