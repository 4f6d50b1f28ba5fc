package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/intercept"
	released "shuultuur/lib/release"
)

// TestCommandsOfTheRootWorkAsPrinted runs the commands that "ca init" and "ca
// install" print, in the folder in which they were printed.
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
			if out := words[len(words)-1]; out != rootFile { // operating systems are set up from other folders
				_ = os.Remove(out) // the file need not exist
			}
			run(words...)
		}
	}
	for _, s := range intercept.Install() {
		b, err := os.ReadFile(filepath.Base(s.File))
		if err != nil || bytes.Contains(b, []byte("PRIVATE KEY")) {
			t.Errorf("%s: %v, or it has a private key", s.File, err)
		}
	}
	run("show")
	run("rotate")
	run("show")
}

// TestEveryPrintedExportWorks: the commands that "ca install" prints, run in order in one
// folder, write the files that their steps name.
func TestEveryPrintedExportWorks(t *testing.T) {
	for _, name := range []string{"root.pem", "keys/school.pem"} {
		t.Run(name, func(t *testing.T) { exportAsPrinted(t, name) })
	}
}

func exportAsPrinted(t *testing.T, name string) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("keys", 0o700); err != nil {
		t.Fatal(err)
	}
	status, out, errs := callAs(t, "ca", "init", "-file", name)
	if status != 0 {
		t.Fatalf("making an authority: status %d: %s", status, errs)
	}
	install, found := "", false
	if _, install, found = strings.Cut(out, `"./filter ca install`); !found {
		t.Fatalf("ca init does not print the command ca install: %s", out)
	}
	install, _, _ = strings.Cut(install, `"`)
	_, out, _ = callAs(t, append([]string{"ca", "install"}, strings.Fields(install)...)...)
	n := 0
	for line := range strings.Lines(out) {
		if args, printed := strings.CutPrefix(strings.TrimSpace(line), "./filter "); printed {
			n++
			if released.Small && strings.Contains(args, "p12") {
				continue // the small build lacks the command
			}
			if status, _, errs := callAs(t, strings.Fields(args)...); status != 0 {
				t.Errorf("%s: status %d, %s", args, status, errs)
			}
		}
	}
	if n < 8 {
		t.Errorf("found only %d commands in\n%s", n, out)
	}
	for file, begins := range map[string]string{"root.pem": "-----BEGIN CERTIFICATE", "root.crt": "-----BEGIN CERTIFICATE", "root.cer": "0\x82", "root.mobileconfig": "<?xml"} {
		if text, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(text), begins) {
			t.Errorf("%s begins with %.20q, %v", file, text, err)
		}
	}
	if status, _, errs := callAs(t, "ca", "export", "-file", name, "-format", "der", "-o", "root.crt"); status != 1 || !strings.Contains(errs, "already exists") {
		t.Errorf("exporting over another file: status %d, %s", status, errs)
	}
}
