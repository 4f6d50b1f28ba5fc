// Package protocol has the rules of RFC 9111 (HTTP caching) as functions
// without state: what may be stored, how long it is fresh, which stored
// response fits a request, and what an answer from the origin changes.
//
// Data moves so. A response from the origin is asked for with [Storable]; where
// it may be stored, [Describe] works out once what its fields say about time
// ([Facts]). A later request is compared with the facts by [Facts.Judge], which
// says whether the stored response may be used, and if not whether it can be
// validated ([Conditions]). [Select] finds which variant fits a request
// ([Variant]), [Freshen] is what a 304 changes, [Answer] is what a client's own
// conditions and ranges make of a stored response.
package protocol

import (
	"bytes"
	"time"

	"shuultuur/message"
)

// heuristicShare and heuristicMost bound how long a response is fresh that says
// nothing about it: a tenth of the time since it was modified, as RFC 9111,
// 4.2.2 proposes, and at most a day.
const (
	heuristicShare = 10
	heuristicMost  = 24 * time.Hour
)

// Facts are what a stored response says about time. They do not change: what is
// asked at a time now is worked out from them.
type Facts struct {
	Status   int
	Control  Directives
	Received time.Time     // when the response came
	Age      time.Duration // how old it was then (corrected_initial_age, RFC 9111, 4.2.3)
	Lifetime time.Duration // how long it is fresh, counted from an age of 0
	// Heuristic says that Lifetime is a guess.
	Heuristic bool
	Date      time.Time // of the Date field, or Received
	Modified  time.Time // of Last-Modified; zero when there is none
	Tag       []byte    // the entity tag as it was sent, nil when there is none
}

// Describe returns the facts of a response to a request that was sent and
// answered at these times.
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

// initialAge is the age of a response when it came (RFC 9111, 4.2.3).
func initialAge(fields message.Fields, date, sent, received time.Time) time.Duration {
	apparent := max(0, received.Sub(date).Truncate(time.Second))
	value := time.Duration(0)
	if v := fields.Get("Age"); v != nil {
		first, _, _ := bytes.Cut(v, []byte(",")) // of several the first counts (5.1)
		value, _ = Seconds(bytes.Trim(first, " \t"))
	}
	return max(apparent, value+received.Sub(sent))
}

// lifetime is how long a response is fresh (RFC 9111, 4.2.1) in a shared cache.
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

// expires is the time from date to that of Expires: 0 where several fields
// differ or it is not a date.
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

// Heuristic says whether a response with this status may be fresh although
// nothing says how long (RFC 9110, 15.1). 206 is stored by what is known of the
// whole.
func Heuristic(status int) bool {
	switch status {
	case 200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501:
		return true
	}
	return false
}

// understood says whether the status is one whose rules for caching we know
// (RFC 9111, 3): those of RFC 9110, 304 excepted, which is never stored.
func understood(status int) bool {
	switch {
	case status >= 200 && status <= 206, status >= 300 && status <= 303, status == 307, status == 308,
		status >= 400 && status <= 417, status == 421, status == 422, status == 426, status >= 500 && status <= 505:
		return true
	}
	return false
}

// AgeAt is how old the response is at a time (current_age).
func (f *Facts) AgeAt(now time.Time) time.Duration {
	return f.Age + max(0, now.Sub(f.Received))
}

// Left is how long it is still fresh: negative when it is stale.
func (f *Facts) Left(now time.Time) time.Duration { return f.Lifetime - f.AgeAt(now) }

// Expires is when the response becomes stale.
func (f *Facts) Expires() time.Time { return f.Received.Add(f.Lifetime - f.Age) }

// strict says that a stale response must never be used without validation.
// s-maxage implies proxy-revalidate (5.2.2.10).
func (f *Facts) strict() bool {
	c := &f.Control
	return c.MustRevalidate || c.ProxyRevalidate || c.SMaxAge >= 0 || c.NoCache
}

// A Use is what may be done with a stored response.
type Use uint8

const (
	Fresh      Use = iota // it answers the request
	Refresh               // it answers the request, and is validated meanwhile
	Revalidate            // the origin has to be asked first
)

// Judge says what may be done with the stored response for a request with the
// directives q (RFC 9111, 4 and 5.2.1).
func (f *Facts) Judge(q *Directives, now time.Time) Use {
	if f.Control.NoCache || q.NoCache || q.NoStore {
		return Revalidate
	}
	age, left := f.AgeAt(now), f.Left(now)
	// max-stale permits that much more than max-age (RFC 9111, 5.2.1.2).
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

// Serves says whether the stored response may be sent although it is stale,
// because the origin cannot be asked or has failed (RFC 9111, 4.2.4; RFC 5861,
// 4). offline is for how long that may be where nothing is said about it.
func (f *Facts) Serves(q *Directives, now time.Time, offline time.Duration) bool {
	if f.strict() || q.NoCache || q.NoStore || q.MaxAge >= 0 || q.MinFresh >= 0 {
		return false
	}
	for _, d := range [...]time.Duration{f.Control.StaleIfError, q.StaleIfError, offline} {
		if d > 0 && -f.Left(now) <= d {
			return true
		}
	}
	return false
}

// Failed says whether a status stands for an error of the origin, in which a
// stale response is better (RFC 5861, 4).
func Failed(status int) bool {
	return status == 500 || status >= 502 && status <= 504
}

// is compares a field name with one in lower case.
func is(name []byte, lower string) bool {
	return len(name) == len(lower) && message.EqualName(name, lower)
}
