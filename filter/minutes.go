package filter

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Minutes are minutes of use: those in which a request began that was sent to its origin, and those in
// which bytes of it moved. Quotas, reports and the record count them alike: a minute counts once for a
// person, whatever else they do in it. They are in order, and numbered from the beginning of 1970; a
// minute begins at the same moment in every time zone.
type Minutes []MinuteSpan

// A MinuteSpan is minutes in a row.
type MinuteSpan struct{ First, Last int64 }

// maxSpans bounds the minutes of one transaction: days of a tunnel in which something moves now and then.
// Later minutes do not count.
const maxSpans = 4000

// MinuteOf returns the number of the minute of a time.
func MinuteOf(t time.Time) int64 {
	s := t.Unix()
	if s < 0 {
		s -= 59
	}
	return s / 60
}

// MinuteTime returns the beginning of a minute.
func MinuteTime(minute int64) time.Time { return time.Unix(60*minute, 0) }

// Add adds a minute.
func (m *Minutes) Add(minute int64) {
	all := *m
	i := len(all) // nearly always a minute comes after the others
	for i > 0 && all[i-1].First > minute {
		i--
	}
	switch after := i > 0 && minute <= all[i-1].Last+1; {
	case after && minute <= all[i-1].Last:
	case after && i < len(all) && all[i].First == minute+1:
		all[i-1].Last = all[i].Last
		*m = slices.Delete(all, i, i+1)
	case after:
		all[i-1].Last = minute
	case i < len(all) && all[i].First == minute+1:
		all[i].First = minute
	case len(all) >= maxSpans:
	case i == len(all):
		*m = append(all, MinuteSpan{minute, minute})
	default:
		*m = slices.Insert(all, i, MinuteSpan{minute, minute})
	}
}

// All yields the minutes in order.
func (m Minutes) All() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for _, s := range m {
			for at := s.First; at <= s.Last; at++ {
				if !yield(at) {
					return
				}
			}
		}
	}
}

// Text writes the minutes by their distance from first: "0-3,7".
func (m Minutes) Text(first int64) string {
	var b []byte
	for i, s := range m {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, s.First-first, 10)
		if s.Last > s.First {
			b = strconv.AppendInt(append(b, '-'), s.Last-first, 10)
		}
	}
	return string(b)
}

// maxDistance bounds a minute of a text: a year, since a record may be damaged.
const maxDistance = 366 * 24 * 60

// ParseMinutes reads what [Minutes.Text] has written.
func ParseMinutes(text string, first int64) (m Minutes, err error) {
	last := int64(-1)
	for part := range strings.SplitSeq(text, ",") {
		a, b, span := strings.Cut(part, "-")
		if !span {
			b = a
		}
		from, err1 := strconv.ParseUint(a, 10, 32)
		to, err2 := strconv.ParseUint(b, 10, 32)
		if err1 != nil || err2 != nil || int64(from) <= last || to < from || to > maxDistance || len(m) == maxSpans {
			return nil, fmt.Errorf("%q are not minutes; they are written like \"0-3,7\"", text)
		}
		last = int64(to)
		m = append(m, MinuteSpan{first + int64(from), first + last})
	}
	return m, nil
}

// Used returns the minutes that count for the transaction. The server says which, if it lasts; of a short
// one they are those of its beginning and, if bytes moved, of its end. A transaction that was refused
// before its request left has none, nor has a question for a name.
func (t *Transaction) Used() Minutes {
	switch {
	case t.Proto == DNS, t.Verdict.Final() && !t.Server.IsValid():
		return nil
	case t.Minutes != nil:
		return t.Minutes
	}
	m := Minutes{{MinuteOf(t.Start), MinuteOf(t.Start)}}
	if t.BytesIn+t.BytesOut > 0 && t.Duration > 0 {
		m.Add(MinuteOf(t.Start.Add(t.Duration)))
	}
	return m
}

// A Use is what a transaction that goes on has used since it was last looked at.
type Use struct {
	Minute int64 // in which that was
	Moved  bool  // whether bytes moved
	Bytes  int64
}

// A Follower is a [Decider] that follows transactions which go on: long answers, streams, tunnels.
type Follower interface {
	// Follow counts what t has used, and judges it again now, by what is known of it. It returns why
	// it may not go on, "" if it may. t was made by [Transaction.Follow], and only Follow changes it.
	Follow(t *Transaction, used Use, now time.Time) (ends string)
}

// Follow makes to what a Follower needs to know of t, which may change meanwhile. Evidence is left out.
func (t *Transaction) Follow(to *Transaction) {
	found := append(to.Findings[:0], t.Findings...)
	for i := range found {
		found[i].Evidence, found[i].Page = "", nil
	}
	*to = Transaction{
		ID: t.ID, Start: t.Start, Proto: t.Proto, Client: t.Client, JA4: t.JA4, TLS: t.TLS, Host: t.Host, Port: t.Port, Terse: true,
		URL: t.URL, Request: t.Request, Response: t.Response, Searched: t.Searched, Last: t.Last, Findings: found, Verdict: t.Verdict,
	}
	to.Server = t.Server
}
