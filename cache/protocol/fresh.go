// Package protocol has the rules of RFC 9111 (HTTP caching) as functions without state:
// which responses may be stored, how long they are fresh, which of them fits a request, and
// how a response from the origin changes them.
//
// [Storable] decides whether a response from the origin may be stored, and [Describe] derives
// its [Facts] from the fields about time. For a later request, [Facts.Judge] decides whether
// the stored response may be used; if not, [Conditions] validates it. [Variant] identifies the
// variant for a request, [Freshen] applies a 304, and [Answer] applies a client's own
// conditions and ranges to a stored response.
package protocol

import (
	"bytes"
	"time"

	"shuultuur/lib/clock"
	"shuultuur/lib/message"
)

// heuristicShare and heuristicMost limit how long a response is fresh that does not say so: a
// tenth of the time since it was modified, as RFC 9111 section 4.2.2 proposes, and at most a
// day.
const (
	heuristicShare = 10
	heuristicMost  = 24 * time.Hour
)

// Facts are the properties of a stored response that concern time. They do not change: answers
// for a given time are computed from them.
type Facts struct {
	Status   int
	Control  Directives
	Received time.Time     // when the response came
	Age      time.Duration // its age then (corrected_initial_age, RFC 9111 section 4.2.3)
	Lifetime time.Duration // how long it is fresh, from age 0
	// Heuristic says that Lifetime is a guess.
	Heuristic bool
	Date      time.Time // of the Date field, or Received
	Modified  time.Time // of Last-Modified; zero if absent
	Tag       []byte    // the entity tag as sent, nil if absent
}

// Describe returns the facts of a response, given the times of request and response.
func Describe(s *message.Response, sent, received time.Time) Facts {
	f := Facts{Status: s.Status, Control: Control(s.Fields), Received: received, Tag: s.Get("ETag")}
	date, dated := Date(s.Get("Date"))
	if !dated {
		date = received.Truncate(time.Second)
	}
	f.Date = date
	f.Modified, _ = Date(s.Get("Last-Modified"))
	f.Age = initialAge(s.Fields, date, sent, received)
	f.Lifetime, f.Heuristic = lifetime(s, &f)
	return f
}

// initialAge returns the age of a response on arrival (RFC 9111 section 4.2.3).
func initialAge(fields message.Fields, date, sent, received time.Time) time.Duration {
	apparent := max(0, received.Sub(date).Truncate(time.Second))
	value := time.Duration(0)
	if v := fields.Get("Age"); v != nil {
		first, _, _ := bytes.Cut(v, []byte(",")) // the first of several applies (section 5.1)
		value, _ = Seconds(bytes.Trim(first, " \t"))
	}
	return max(apparent, value+received.Sub(sent))
}

// lifetime returns how long a response is fresh (RFC 9111 section 4.2.1) in a shared cache.
func lifetime(s *message.Response, f *Facts) (d time.Duration, heuristic bool) {
	switch {
	case f.Control.SMaxAge >= 0:
		return f.Control.SMaxAge, false
	case f.Control.MaxAge >= 0:
		return f.Control.MaxAge, false
	case s.Has("Expires"):
		return max(0, expires(s.Fields, f.Date)), false
	case !Heuristic(s.Status) && !f.Control.Public, f.Modified.IsZero():
		return 0, false
	}
	return min(max(0, f.Date.Sub(f.Modified)/heuristicShare), heuristicMost), true
}

// expires returns the time from date to Expires: 0 if several fields differ or it is not a
// date.
func expires(fields message.Fields, date time.Time) time.Duration {
	var at time.Time
	for i := range fields {
		if !is(fields[i].Name, "expires") {
			continue
		}
		t, ok := Date(fields[i].Value)
		if !ok || !at.IsZero() && !at.Equal(t) {
			return 0
		}
		at = t
	}
	return min(at.Sub(date), longest)
}

// Heuristic reports whether a response with this status may be fresh without a stated lifetime
// (RFC 9110 section 15.1). 206 is stored by the facts of the whole.
func Heuristic(status int) bool {
	switch status {
	case 200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501:
		return true
	}
	return false
}

// knowsStatus reports whether we know the caching rules of a status (RFC 9111 section 3): those
// in RFC 9110 except 304, which is never stored.
func knowsStatus(status int) bool {
	switch {
	case status >= 200 && status <= 206, status >= 300 && status <= 303, status == 307, status == 308,
		status >= 400 && status <= 417, status == 421, status == 422, status == 426, status >= 500 && status <= 505:
		return true
	}
	return false
}

// AgeAt returns the age of the response at a time (current_age). One that was received later than now was
// received by a wrong clock, so nobody knows its age: it counts as old.
func (f *Facts) AgeAt(now time.Time) time.Duration {
	since := now.Sub(f.Received)
	if since < -clock.Tolerance {
		since = -since
	}
	return f.Age + max(0, since)
}

// FreshFor returns how long it is still fresh: negative if it is stale.
func (f *Facts) FreshFor(now time.Time) time.Duration { return f.Lifetime - f.AgeAt(now) }

// Expires returns when the response becomes stale.
func (f *Facts) Expires() time.Time { return f.Received.Add(f.Lifetime - f.Age) }

// strict reports whether a stale response must never be used without validation. s-maxage
// implies proxy-revalidate (section 5.2.2.10).
func (f *Facts) strict() bool {
	c := &f.Control
	return c.MustRevalidate || c.ProxyRevalidate || c.SMaxAge >= 0 || c.NoCache
}

// A Use is how a stored response may be used.
type Use uint8

const (
	Fresh      Use = iota // it answers the request
	Refresh               // it answers the request, and is validated in the background
	Revalidate            // the origin must be asked first
)

// Judge returns how the stored response may be used for a request with the directives q (RFC
// 9111 sections 4 and 5.2.1).
func (f *Facts) Judge(q *Directives, now time.Time) Use {
	if f.Control.NoCache || q.NoCache || q.NoStore {
		return Revalidate
	}
	age, left := f.AgeAt(now), f.FreshFor(now)
	// max-stale extends max-age (RFC 9111 section 5.2.1.2).
	if q.MaxAge >= 0 && age > q.MaxAge && age-q.MaxAge > q.MaxStale && !(f.Control.Immutable && left > 0 && q.MaxAge == 0) {
		return Revalidate
	}
	if q.MinFresh >= 0 && left < q.MinFresh {
		return Revalidate
	}
	switch {
	case left > 0:
		return Fresh
	case f.strict():
		return Revalidate
	case q.MaxStale >= 0 && -left <= q.MaxStale:
		return Fresh
	case f.Control.StaleWhileRevalidate > 0 && -left <= f.Control.StaleWhileRevalidate:
		return Refresh
	}
	return Revalidate
}

// MayServeStale reports whether the stored response may be sent although it is stale, because the
// origin is unreachable or has failed (RFC 9111 section 4.2.4; RFC 5861 section 4). offline is
// the time limit if the response has none.
func (f *Facts) MayServeStale(q *Directives, now time.Time, offline time.Duration) bool {
	if f.strict() || q.NoCache || q.NoStore || q.MaxAge >= 0 || q.MinFresh >= 0 {
		return false
	}
	for _, d := range [...]time.Duration{f.Control.StaleIfError, q.StaleIfError, offline} {
		if d > 0 && -f.FreshFor(now) <= d {
			return true
		}
	}
	return false
}

// Failed reports whether a status is an error of the origin, to which a stale response is
// preferable (RFC 5861 section 4).
func Failed(status int) bool {
	return status == 500 || status >= 502 && status <= 504
}

// is reports whether a field name equals one in lower case.
func is(name []byte, lower string) bool {
	return len(name) == len(lower) && message.EqualName(name, lower)
}
