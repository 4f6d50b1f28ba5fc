package release

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"
)

// A Build identifies this program.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"` // of the revision, RFC 3339
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// ThisBuild returns that of this program.
func ThisBuild() Build {
	b := Build{Version: Version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = s.Value
			case "vcs.time":
				b.Time = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	return b
}

func (b Build) String() string {
	s := b.Version
	if len(b.Revision) >= 12 {
		s += " (" + b.Revision[:12] + ")"
	}
	return s + ", " + b.Go + ", " + b.Platform
}

// Made returns the date of manual pages: that of the release, which packages set, or of the
// revision, so that the same program makes the same pages.
func (b Build) Made() time.Time {
	if n, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		return time.Unix(n, 0).UTC()
	}
	if t, err := time.Parse(time.RFC3339, b.Time); err == nil {
		return t
	}
	return time.Now().UTC()
}
