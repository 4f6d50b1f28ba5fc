package release

import (
	"runtime/debug"
	"time"
)

// LinkedTime is when the program was built, in RFC 3339, set like [Linked].
var LinkedTime string

// sources is a date that no build of these sources precedes.
const sources = "2026-11-01T00:00:00Z"

// Built returns a time that no right clock shows to this program any more: when it was built or
// its revision recorded, as far as that is known.
func Built() time.Time {
	built, _ := time.Parse(time.RFC3339, sources) // a constant
	texts := []string{LinkedTime}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.time" {
				texts = append(texts, s.Value)
			}
		}
	}
	for _, text := range texts {
		if t, err := time.Parse(time.RFC3339, text); err == nil && t.After(built) {
			built = t
		}
	}
	return built
}
