package authority

import "time"

// mostRepeats bounds how many updates are remembered.
const mostRepeats = 100_000

// made are the answers to signed updates whose signatures still hold, by signature. Whoever has
// recorded one could send it again when the zone has changed since; the client itself sends it again
// when an answer is lost. Both get the same answer, and the zone stays as it is. A token of
// [Authority.writing] guards it.
type made struct {
	answers map[string]madeAnswer
	next    time.Time // when what is over is removed
}

type madeAnswer struct {
	rcode int
	until time.Time
}

// of returns the answer to an update that was made before.
func (m *made) of(signature string) (rcode int, ok bool) {
	a, ok := m.answers[signature]
	return a.rcode, ok
}

// note remembers an answer as long as the signature holds.
func (m *made) note(signature string, rcode int, until, now time.Time) {
	if now.After(m.next) {
		for s, a := range m.answers {
			if now.After(a.until) {
				delete(m.answers, s)
			}
		}
		m.next = now.Add(time.Minute)
	}
	if signature != "" && len(m.answers) < mostRepeats {
		m.answers[signature] = madeAnswer{rcode, until}
	}
}
