// Package clock says whether the wall clock may be believed when something is done by it that
// cannot be undone, such as deleting what is old.
//
// A [Guard] compares each reading with what it knows: the time since the last reading, by a
// clock that nobody sets; the last time that was believed, which it keeps in a file; the newest
// thing that its owner has stored, as long as there is no such file; the clock of a server; and
// the date of the program. A reading that does not fit makes the clock doubtful. It is believed
// again after it has run steadily for an hour, if it came back to what it would have shown
// without the step; otherwise after a day. So a machine that was off for months goes on by
// itself, and people have a day in which to see that a clock is wrong. Time counts while the
// program runs, over any number of starts.
package clock

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"shuultuur/lib/atomicfile"
	"shuultuur/lib/platform"
	"shuultuur/lib/release"
)

const (
	// Tolerance is how far two clocks that are both right may differ, and how far one may be
	// moved without a doubt.
	Tolerance = 5 * time.Minute

	// off is how long a machine may have been off without a doubt. One that starts with an hour
	// to a week more on its clock waits for an hour without a complaint: it was probably off, but
	// its clock may be about to be set.
	off = 7 * 24 * time.Hour

	soon  = time.Hour      // until a clock is believed that came back, or was off
	later = 24 * time.Hour // until any other clock is believed

	saveEvery    = 30 * time.Minute // what a restart may forget
	compareEvery = time.Minute      // between two looks at a server's clock
)

// Config says what a guard compares. Zero values mean the clocks of the system, the date of the
// program, and no file.
type Config struct {
	File    string               // where a guard keeps what it knows
	Log     *slog.Logger         // what is told when a doubt begins and ends
	Built   time.Time            // no right clock shows less
	Wall    func() time.Time     // the clock in question
	Running func() time.Duration // since any moment; it is never set
}

// known is what a guard keeps in its file.
type known struct {
	Good   time.Time     `json:"good"`             // the last reading that was believed
	Last   time.Time     `json:"last,omitzero"`    // the last reading, if it is not believed
	Need   time.Duration `json:"need,omitempty"`   // how long the clock has to run steadily; 0: it is believed
	Steady time.Duration `json:"steady,omitempty"` // how long it has
	Why    string        `json:"why,omitempty"`    // what is wrong; "": nothing, but it is too early to say
}

// A Guard judges the wall clock. The nil Guard believes it.
type Guard struct {
	cfg Config

	mu       sync.Mutex
	read     bool // whether the file was read
	now      known
	last     time.Time     // last reading of the clock in this process
	at       time.Duration // when that was
	goodAt   time.Duration // when Good was read, if anchored
	anchored bool          // the clock was believed for an hour in this process, so Good tells what it has to show
	saved    time.Duration // when the file was written
	unsaved  error         // why it could not be
	server   string        // what is wrong between the clock and that of a server
	compared time.Time     // when they were compared, by the clock that nobody sets
	doubts   uint64
}

// New returns a guard. It reads no file before the first Check.
func New(cfg Config) *Guard {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Built.IsZero() {
		cfg.Built = release.Built().Add(-later) // the clock of the builder may have been ahead
	}
	if cfg.Wall == nil {
		cfg.Wall = time.Now
	}
	if cfg.Running == nil {
		begin := time.Now()
		cfg.Running = func() time.Duration { return time.Since(begin) + platform.Suspended() }
	}
	return &Guard{cfg: cfg}
}

// Now returns what the wall clock shows.
func (g *Guard) Now() time.Time {
	if g == nil {
		return time.Now()
	}
	return g.cfg.Wall()
}

// Check reads the clock and reports whether it is believed. Call it often, at least once a
// minute: a step is seen only by a later reading. newest returns the time of the newest thing
// that is stored, zero if there is none; it is asked if nothing else is known. Nothing stored
// proves nothing, so the clock is not believed then.
func (g *Guard) Check(newest func() (time.Time, error)) (believed bool, err error) {
	if g == nil {
		return true, nil
	}
	var from time.Time
	if g.ignorant() {
		if from, err = newest(); err != nil || from.IsZero() {
			return false, err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now.Good.IsZero() {
		g.now.Good = from
	}
	// Without its monotonic part, which would hide steps.
	now, at := g.cfg.Wall().Round(0), g.cfg.Running()
	before := g.now
	switch {
	case g.last.IsZero():
		g.judge(now, at, true)
		before = known{} // a doubt of the last process is told again
	case !near(now, g.last.Add(at-g.at)):
		g.judge(now, at, false)
	default:
		g.now.Steady += at - g.at
	}
	g.last, g.at = now, at
	g.conclude(now, at)
	g.tell(before)
	changed := g.now.Need != before.Need || g.now.Why != before.Why || before.Last.IsZero() != g.now.Last.IsZero()
	if changed || g.saved == 0 || at-g.saved >= saveEvery {
		g.save(at)
	}
	return g.now.Need == 0, nil
}

// ignorant reports whether the guard knows no time that was believed.
func (g *Guard) ignorant() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.read && g.cfg.File != "" {
		b, err := os.ReadFile(g.cfg.File)
		if err == nil && json.Unmarshal(b, &g.now) != nil {
			g.now = known{} // a damaged file is as good as none
		}
	}
	g.read = true
	return g.now.Good.IsZero()
}

// judge decides what a reading after a start or a step is worth.
func (g *Guard) judge(now time.Time, at time.Duration, start bool) {
	should := g.now.Good // what it has to show, or a time before that
	if g.anchored {
		should = should.Add(at - g.goodAt)
	}
	doubtful := g.now.Need > 0
	switch {
	case now.Before(g.cfg.Built):
		g.doubt(later, "it shows %s, but this program was built later", form(now))
	case g.anchored && near(now, should):
		g.doubt(soon, "it showed %s for a while", form(g.last))
	case doubtful && follows(now, g.now.Last) && (g.now.Last.After(should) || !follows(now, should)):
		// The clock that is doubted goes on.
	case g.anchored:
		g.doubt(later, "it was set from %s to %s while the program ran", form(should), form(now))
	case now.Before(should.Add(-Tolerance)):
		g.doubt(later, "it shows %s, but the last time known is %s", form(now), form(should))
	case now.After(should.Add(off)):
		g.doubt(later, "it shows %s, but the last time known is %s, %d days before", form(now), form(should), int(now.Sub(should)/(24*time.Hour)))
	case !start:
		g.doubt(soon, "it was set from %s to %s while the program ran", form(g.last.Add(at-g.at)), form(now))
	case doubtful || now.After(should.Add(soon)):
		g.doubt(soon, "")
	default:
		g.now.Steady = 0
	}
}

func (g *Guard) doubt(need time.Duration, why string, values ...any) {
	g.now.Need, g.now.Steady, g.now.Why = need, 0, fmt.Sprintf(why, values...)
}

// conclude believes the clock if it has run steadily for long enough.
func (g *Guard) conclude(now time.Time, at time.Duration) {
	if now.Before(g.cfg.Built) {
		g.now.Steady = 0 // that is impossible, however long it lasts
	}
	if g.now.Last = now; g.now.Steady < g.now.Need {
		return
	}
	g.anchored = g.anchored || g.now.Steady >= soon
	g.now = known{Good: now, Steady: g.now.Steady}
	g.goodAt = at
}

// tell logs when a doubt begins and ends.
func (g *Guard) tell(before known) {
	switch was, is := before.Need > 0, g.now.Need > 0; {
	case is && g.now.Why != "" && g.now.Why != before.Why:
		if before.Why == "" {
			g.doubts++
		}
		g.cfg.Log.Warn("the clock is doubtful: nothing is deleted or made anonymous by age", "because", g.now.Why, "until", "it has run steadily for "+round(g.now.Need-g.now.Steady))
	case is && !was:
		g.cfg.Log.Info("the program was off for a while: nothing is deleted or made anonymous by age for an hour, since the clock may be set", "time", form(g.now.Good))
	case was && !is:
		g.cfg.Log.Info("the clock is believed: what is old is deleted and made anonymous again", "time", form(g.now.Good))
	}
}

// save writes what is known to the file. Without it, a restart forgets it, so the fault is shown.
func (g *Guard) save(at time.Duration) {
	g.saved = at
	if g.cfg.File == "" {
		return
	}
	kept := g.now
	if kept.Need == 0 {
		kept.Steady = 0
	}
	b, err := json.Marshal(&kept)
	if err == nil {
		err = atomicfile.WriteBytes(g.cfg.File, 0o640, append(b, '\n'))
	}
	if g.unsaved = err; err != nil {
		g.saved = at - saveEvery + time.Minute
	}
}

// CheckWith is [Guard.Check] for what is stored on a server: its clock has to show the same time.
// The server is asked for it at most once a minute.
func (g *Guard) CheckWith(newest, server func() (time.Time, error)) (believed bool, err error) {
	if believed, err = g.Check(newest); err != nil || !believed || g == nil {
		return believed, err
	}
	g.mu.Lock()
	agrees, due := g.server == "", time.Since(g.compared) >= compareEvery
	g.mu.Unlock()
	if !due {
		return agrees, nil
	}
	at, err := server()
	if err != nil {
		return false, err
	}
	agrees = g.Agree(at)
	g.mu.Lock()
	g.compared = time.Now()
	g.mu.Unlock()
	return agrees, nil
}

// Agree compares the clock with that of a server, and reports whether they show the same time.
// Time does not end a difference: one of the two has to be set right.
func (g *Guard) Agree(server time.Time) bool {
	if g == nil {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.server
	if now := g.cfg.Wall(); !near(now.Round(0), server) {
		g.server = fmt.Sprintf("it shows %s, but the clock of the database shows %s", form(now), form(server))
		if was == "" {
			g.doubts++
			g.cfg.Log.Warn("the clock is doubtful: nothing is deleted or made anonymous by age", "because", g.server, "until", "both show the same time")
		}
		return false
	}
	if g.server = ""; was != "" {
		g.cfg.Log.Info("the clock and that of the database show the same time: what is old is deleted and made anonymous again")
	}
	return true
}

// Certain returns a time that has come for sure: what the clock shows if it is believed, or else
// the last time that was believed, and the time since if that is known.
func (g *Guard) Certain() time.Time {
	if g == nil {
		return time.Now()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.cfg.Wall()
	if g.now.Need == 0 && near(now.Round(0), g.last.Add(g.cfg.Running()-g.at)) {
		return now
	}
	should := g.now.Good
	if g.anchored {
		should = should.Add(g.cfg.Running() - g.goodAt)
	}
	if should.Before(now) {
		return should
	}
	return now
}

// Problem says what is wrong with the clock, and when it is believed again; "" if nothing is.
func (g *Guard) Problem() string {
	if g == nil {
		return ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	const stopped = "the clock is doubtful, so nothing is deleted or made anonymous by age: "
	switch {
	case g.server != "":
		return stopped + g.server + "; set right the one that is wrong"
	case g.now.Need > 0 && g.now.Why != "" && g.last.Before(g.cfg.Built):
		return stopped + g.now.Why + "; set it right"
	case g.now.Need > 0 && g.now.Why != "":
		return stopped + g.now.Why + "; set it right if it is wrong: it is believed after it has run steadily for another " + round(g.now.Need-g.now.Steady)
	case g.unsaved != nil:
		return fmt.Sprintf("a wrong clock would not be noticed after a restart, since %q cannot be written: %v", g.cfg.File, g.unsaved)
	}
	return ""
}

// Doubtful reports whether [Guard.Problem] names a doubt.
func (g *Guard) Doubtful() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.server != "" || g.now.Need > 0 && g.now.Why != ""
}

// Doubts returns how often the clock became doubtful.
func (g *Guard) Doubts() uint64 {
	if g == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.doubts
}

// near reports whether two times are the same as far as clocks tell.
func near(a, b time.Time) bool { return a.Sub(b).Abs() <= Tolerance }

// follows reports whether a clock that showed before may show now after the machine was off.
func follows(now, before time.Time) bool {
	return !now.Before(before.Add(-Tolerance)) && !now.After(before.Add(off))
}

func form(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// round returns a duration in minutes.
func round(d time.Duration) string {
	return (d + time.Minute - 1).Truncate(time.Minute).String()
}
