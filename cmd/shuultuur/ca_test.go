package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/intercept"
)

// TestCommandsOfTheRootWorkAsPrinted runs what "ca init" and "ca install" print,
// in the folder in which it was printed.
func TestCommandsOfTheRootWorkAsPrinted(t *testing.T) {
	t.Chdir(t.TempDir())
	run := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if status := ca(t.Context(), env{stdout: &out, stderr: &out}, args); status != 0 {
			t.Fatalf("ca %s: status %d: %s", strings.Join(args, " "), status, &out)
		}
		return out.String()
	}
	if output := run("init"); !strings.Contains(output, "root-key.pem") {
		t.Errorf("init says %s", output)
	}
	for line := range strings.Lines(run("install")) {
		if args, ok := strings.CutPrefix(strings.TrimSpace(line), "shuultuur ca "); ok {
			words := strings.Fields(args)
			if out := words[len(words)-1]; out != rootFile { // systems are not set up from one folder
				_ = os.Remove(out) // which need not be there
			}
			run(words...)
		}
	}
	for _, s := range intercept.Install() {
		b, err := os.ReadFile(filepath.Base(s.File))
		if err != nil || bytes.Contains(b, []byte("PRIVATE KEY")) {
			t.Errorf("%s: %v, or a key in it", s.File, err)
		}
	}
	run("show")
	run("rotate")
	run("show")
}
