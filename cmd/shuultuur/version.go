package main

import (
	"context"
	"encoding/json"
	"fmt"

	released "shuultuur/lib/release"
)

// The linker sets these when packages are built: the version, and the time in RFC 3339.
var release, built string

const versionHelp = `
Prints the version of the program, the revision it was built from, and the
version of Go. With -json they are one object.`

func version(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "version", "[-json]", versionHelp)
	asJSON := f.Bool("json", false, "print an object")
	if status := parse(args, 0, 0); status >= 0 {
		return status
	}
	b := released.ThisBuild()
	if !*asJSON {
		fmt.Fprintf(e.stdout, "shuultuur %s\n", b)
		return 0
	}
	w := json.NewEncoder(e.stdout)
	w.SetIndent("", "  ")
	if err := w.Encode(b); err != nil {
		return fail(e, err)
	}
	return 0
}
