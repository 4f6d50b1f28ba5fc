package clock

import "time"

// InForce reports whether a stored moment until which something counts lies ahead of now, and no
// further than its kind allows: longest, and what two right clocks may differ. One further ahead is a
// fault of the clock, which is wrong now or was when the moment was stored; what counts until then does
// not count while that is so, and nothing is lost if the clock comes back.
func InForce(until, now time.Time, longest time.Duration) bool {
	left := until.Sub(now)
	return left > 0 && left <= longest+Tolerance
}
