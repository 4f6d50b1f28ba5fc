package wait

import (
	"net/http"
	"strconv"
	"time"
)

// Asked returns how long the fields of an answer ask us to wait (Retry-After, RFC 9110, 10.2.3), 0 if
// they do not say. They may name a moment, which is one of the server's own clock if they have that,
// too.
func Asked(h http.Header, now time.Time) time.Duration {
	said := h.Get("Retry-After")
	if n, err := strconv.ParseUint(said, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	at, err := http.ParseTime(said)
	if err != nil {
		return 0
	}
	if theirs, err := http.ParseTime(h.Get("Date")); err == nil {
		now = theirs
	}
	return max(0, at.Sub(now))
}
