//go:build !small

package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"shuultuur/engine"
	"shuultuur/engine/configuration"
)

// What the tests have in common that import generated configurations, and ask the program that they are for
// and the result the same.

// generated returns how many configurations are tried, and the number of the first: CONFIGURATIONS in the
// environment, or count, and SEED, or 0.
func generated(count int) (n, seed int) {
	if n, err := strconv.Atoi(os.Getenv("CONFIGURATIONS")); err == nil {
		count = n
	}
	seed, _ = strconv.Atoi(os.Getenv("SEED"))
	return count, seed
}

// openFolder lets every user into a folder for temporary files: servers change theirs.
func openFolder(t *testing.T, dir string) {
	t.Helper()
	for d := dir; len(d) > len(os.TempDir()); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
}

// listensWithin reports whether a server listens at an address before a time has passed.
func listensWithin(addr string, most time.Duration) bool {
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return true
		}
	}
	return false
}

// An importResult is what an import has made.
type importResult struct {
	engine   *engine.Engine
	settings *configuration.Settings
	report   []byte
	closes   bool // the report says that something is refused that was not
	done     func()
}

// importResultOf imports the configuration of a program. It returns nil and fails the test if that is
// refused; of names the configuration, and text is what it has.
func importResultOf(t *testing.T, program, path, of, text string) *importResult {
	t.Helper()
	to := filepath.Join(t.TempDir(), "new")
	var said bytes.Buffer
	if status := importCommand(t.Context(), env{stdout: &said, stderr: &said}, []string{program, path, "-to", to}); status != 0 {
		t.Errorf("%s: status %d: %s\n%s", of, status, &said, text)
		return nil
	}
	var x importResult
	var err error
	if x.report, err = os.ReadFile(filepath.Join(to, "report.txt")); err != nil {
		t.Fatal(err)
	}
	x.closes = !bytes.Contains(x.report, []byte("Refused now, and allowed before: nothing"))
	if x.settings, err = configuration.Read(filepath.Join(to, "shuultuur.yaml")); err != nil {
		t.Fatal(err)
	}
	if x.engine, x.done, err = engine.Explain(t.Context(), filepath.Join(to, "shuultuur.yaml")); err != nil {
		t.Fatal(err)
	}
	return &x
}
