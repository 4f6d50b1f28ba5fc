package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	released "shuultuur/release"
)

// release is the version, set by the linker when packages are built from a tag.
var release string

func init() { released.Linked = release }

// A build identifies this program.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"` // of the revision, RFC 3339
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: released.Version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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

func (b build) String() string {
	s := "shuultuur " + b.Version
	if len(b.Revision) >= 12 {
		s += " (" + b.Revision[:12] + ")"
	}
	return s + ", " + b.Go + ", " + b.Platform
}

const versionHelp = `
Prints the version of the program, the revision it was built from, and the
version of Go. With -json they are one object.`

func version(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "version", "[-json]", versionHelp)
	asJSON := f.Bool("json", false, "print an object")
	if status := parse(args, 0, 0); status >= 0 {
		return status
	}
	b := thisBuild()
	if !*asJSON {
		fmt.Fprintln(e.stdout, b)
		return 0
	}
	w := json.NewEncoder(e.stdout)
	w.SetIndent("", "  ")
	if err := w.Encode(b); err != nil {
		return fail(e, err)
	}
	return 0
}
