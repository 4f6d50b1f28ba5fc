// Command report runs all tests for "make test": first under the race detector, then those of
// the benchmarks' module, then without the detector the tests whose result it changes (tests of
// allocations). It prints a line for each package
// and the output of failed tests. A few tests that failed run again, alone: browsers and other
// servers do not always keep up with a busy machine. It ends with the tests that passed only then,
// and with those that were skipped in all runs, and why.
//
// Events of "go test -json" move from the go command through a [run], which prints, to the list
// of skipped tests.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

func main() {
	ok, err := all(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// all runs the tests of the named packages, or of ./... if none is named.
func all(packages []string, out io.Writer) (ok bool, err error) {
	whole := len(packages) == 0
	if whole {
		packages = append(slowest[:], "./...")
	}
	r := newRun(out)
	if err := r.test(way{".", []string{"-race", unwatched, "-vet=all"}}, packages...); err != nil {
		return false, err
	}
	if whole {
		if err := r.test(way{"bench", []string{"-vet=all"}}, "./..."); err != nil {
			return false, err
		}
	}
	changed, err := changedByRace(".")
	if err != nil {
		return false, err
	}
	fmt.Fprintln(out, "\nTests that the race detector changes, without it:")
	var names, dirs []string
	for _, dir := range slices.Sorted(maps.Keys(changed)) {
		names, dirs = append(names, changed[dir]...), append(dirs, "./"+dir)
	}
	// One run for all tests lets the go command build one package while it tests another. It
	// also runs a test of the same name in another of these packages.
	if err := r.test(way{".", []string{"-vet=off", "-run", "^(" + strings.Join(names, "|") + ")$"}}, dirs...); err != nil {
		return false, err
	}
	if err := r.again(); err != nil {
		return false, err
	}
	r.summary()
	return !r.hopeless && len(r.lost) == 0, nil
}

// slowest names the packages that take longest. They begin first. They mostly wait for other
// programs, and meanwhile others are built and tested.
var slowest = [...]string{"./test"}

// A test is a test of a package; its name is "" for the package itself.
type test struct{ pkg, name string }

// A way is a module's folder and the flags with which "go test" runs in it.
type way struct {
	dir   string
	flags []string
}

type run struct {
	out     io.Writer
	output  map[test][]string // output of tests that are running
	skipped map[test]string   // and why
	passed  map[test]bool

	way      way          // of the tests that are running
	lost     map[test]way // tests, without the names of their parts, that failed
	alone    []test       // those of them that passed alone
	hopeless bool         // something failed that is no matter of load: a build, a data race, a panic
}

func newRun(out io.Writer) *run {
	return &run{out: out, output: map[test][]string{}, skipped: map[test]string{}, passed: map[test]bool{}, lost: map[test]way{}}
}

// an event is a line of "go test -json" (go doc test2json).
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// timeout ends the tests of a package that hangs. It is no measure of speed: those of the folder
// test start browsers and other servers one after the other, and take twice as long on a machine
// that others use.
const timeout = "60m"

// unwatched leaves SQLite, which is C translated to Go with memory of its own, out of the race
// detector: its tests take a quarter of the time, and a race in our use of it is still seen.
const unwatched = "-gcflags=modernc.org/...=-race=false"

// test runs "go test". It tests one package more at once than there are processors, because many tests
// wait for other programs. A failed test is no error.
func (r *run) test(how way, packages ...string) error {
	r.way = how
	cmd := exec.Command("go", slices.Concat([]string{"test", "-json", "-timeout", timeout, "-p", strconv.Itoa(runtime.NumCPU() + 1)}, how.flags, packages)...)
	cmd.Dir, cmd.Stderr = how.dir, r.out
	if !slices.Contains(how.flags, "-race") {
		// The detector needs C. Without it, packages are compiled as test/cross.sh compiled them.
		cmd.Args = append(cmd.Args, "-trimpath")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := r.read(pipe); err != nil {
		return errors.Join(err, cmd.Wait())
	}
	if err := cmd.Wait(); err != nil && len(r.lost) == 0 {
		r.hopeless = true
	}
	return nil
}

// mostAgain is how many tests run again: if more failed, it is no matter of load.
const mostAgain = 4

// again runs the tests that failed once more, each alone.
func (r *run) again() error {
	if r.hopeless || len(r.lost) > mostAgain {
		return nil
	}
	for t, how := range maps.Clone(r.lost) {
		delete(r.lost, t)
		fmt.Fprintf(r.out, "\n%s of %s, alone:\n", t.name, t.pkg)
		how.flags = append(slices.Clone(how.flags), "-run", "^"+t.name+"$")
		if err := r.test(how, t.pkg); err != nil {
			return err
		}
		if _, failed := r.lost[t]; !failed && !r.hopeless {
			r.alone = append(r.alone, t)
		}
	}
	return nil
}

func (r *run) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				_, _ = r.out.Write(line) // of the go command itself
			} else {
				r.take(&e)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *run) take(e *event) {
	t := test{e.Package, e.Test}
	switch e.Action {
	case "output":
		if t.name != "" {
			r.output[t] = append(r.output[t], e.Output)
		} else if !strings.HasPrefix(e.Output, "PASS") && !strings.Contains(e.Output, "[no test files]") {
			fmt.Fprint(r.out, e.Output)
		}
		r.hopeless = r.hopeless || noLoad.MatchString(e.Output)
		return
	case "build-output":
		fmt.Fprint(r.out, e.Output)
		return
	case "pass":
		r.passed[t] = true
	case "skip":
		if t.name != "" {
			r.skipped[t] = reason(r.output[t])
		}
	case "build-fail":
		r.hopeless = true
	case "fail":
		fmt.Fprint(r.out, strings.Join(r.output[t], ""))
		if t.name != "" {
			t.name, _, _ = strings.Cut(t.name, "/")
			r.lost[t] = r.way
			t.name = e.Test
		} else if r.printUnended(t.pkg) || !r.hasLost(t.pkg) {
			r.hopeless = true
		}
	default:
		return
	}
	delete(r.output, t)
}

// noLoad finds what a busy machine is no reason for.
var noLoad = regexp.MustCompile(`^(panic: |fatal error: |\s*WARNING: DATA RACE)|race detected`)

// hasLost reports whether tests of a package failed.
func (r *run) hasLost(pkg string) bool {
	for t := range r.lost {
		if t.pkg == pkg {
			return true
		}
	}
	return false
}

// printUnended prints the output of a package's tests that did not end because the package ran out
// of time, or because of a panic, and reports whether there are any.
func (r *run) printUnended(pkg string) (any bool) {
	for t, output := range r.output {
		if t.pkg == pkg && t.name != "" {
			fmt.Fprint(r.out, strings.Join(output, ""))
			delete(r.output, t)
			any = true
		}
	}
	return any
}

var place = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// reason is the last output of a test before it was skipped.
func reason(output []string) string {
	for _, s := range slices.Backward(output) {
		if at := place.FindString(s); at != "" {
			return strings.TrimSpace(s[len(at):])
		}
	}
	return "no reason given"
}

// summary prints the tests that passed only alone, and those that were skipped whenever they were run.
func (r *run) summary() {
	if len(r.alone) > 0 {
		fmt.Fprintf(r.out, "\nTests that failed beside others and passed alone: %d\n", len(r.alone))
		for _, t := range r.alone {
			fmt.Fprintf(r.out, "  %s %s\n", t.pkg, t.name)
		}
	}
	var lines []string
	for t, why := range r.skipped {
		if !r.passed[t] {
			lines = append(lines, fmt.Sprintf("  %s %s: %s\n", t.pkg, t.name, why))
		}
	}
	slices.Sort(lines)
	fmt.Fprintf(r.out, "\nSkipped tests: %d\n%s", len(lines), strings.Join(lines, ""))
}

var (
	function = regexp.MustCompile(`^func (?:\([^)]*\) )?(\w+)`)
	changes  = regexp.MustCompile(`AllocsPerRun|race\.(On|Without)`)
)

// changedByRace returns by folder the names of tests below dir that count allocations or ask
// whether the race detector is on. If a helper does, all tests of its file count.
func changedByRace(dir string) (map[string][]string, error) {
	all := map[string][]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at := filepath.Dir(path)
		all[at] = append(all[at], changedIn(string(text))...)
		if len(all[at]) == 0 {
			delete(all, at)
		}
		return nil
	})
	return all, err
}

func changedIn(text string) (names []string) {
	var tests []string
	in, helper := "", false
	for line := range strings.Lines(text) {
		if m := function.FindStringSubmatch(line); m != nil {
			if in = m[1]; strings.HasPrefix(in, "Test") {
				tests = append(tests, in)
			}
		}
		switch {
		case in == "" || !changes.MatchString(line):
		case strings.HasPrefix(in, "Test"):
			names = append(names, in)
		case !strings.HasPrefix(in, "Benchmark") && !strings.HasPrefix(in, "Fuzz"):
			helper = true
		}
	}
	if helper {
		return tests
	}
	return slices.Compact(names)
}
