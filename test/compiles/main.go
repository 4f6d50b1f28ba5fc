// Command compiles says whether the program compiles for other systems: "compiles freebsd/arm64
// windows/amd64". It reads the source of the program and of all it imports and checks the types
// for each target, in a tenth of the time that the compiler takes. It writes nothing but what it
// found.
package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	failed := false
	for _, target := range os.Args[1:] {
		system, arch, _ := strings.Cut(target, "/")
		program, err := packages.Load(&packages.Config{
			Mode: packages.LoadAllSyntax,
			Env:  append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch),
		}, "./cmd/shuultuur")
		switch {
		case err != nil:
			fmt.Fprintf(os.Stderr, "compiles: loading the program for %s: %v\n", target, err)
			failed = true
		case packages.PrintErrors(program) > 0:
			fmt.Fprintf(os.Stderr, "compiles: the program does not compile for %s\n", target)
			failed = true
		default:
			fmt.Println("compiles for " + target)
		}
	}
	if failed {
		os.Exit(1)
	}
}
