package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"shuultuur/test/peer"
)

// TestKernelsOfArm64AgreeWithPlainGo runs, in an emulator, the tests that compare NEON
// instructions with plain Go, and those of text that ends anywhere.
func TestKernelsOfArm64AgreeWithPlainGo(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || runtime.GOARCH == "arm64" || testing.Short() {
		t.Skip("this system cannot emulate another, runs the tests themselves, or the run is short")
	}
	emulator := peer.Program(t, "qemu-aarch64-static")
	for _, c := range []struct{ folder, tests string }{
		{"content", "FuzzText"},
		{"content/markup", "EightBytes|Pieces"},
		{"content/prose", "Vectors|FuzzNormalise"},
		{"lib/neural", "AllKernels"},
	} {
		folder := filepath.Join("..", filepath.FromSlash(c.folder))
		program := filepath.Join(t.TempDir(), "test")
		build := exec.Command("go", "test", "-vet=off", "-c", "-o", program, ".")
		build.Dir = folder
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=arm64")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building the tests of %s for arm64: %v\n%s", c.folder, err, out)
		}
		run := peer.Command(t, emulator, program, "-test.run", c.tests)
		run.Dir = folder
		if out, err := run.CombinedOutput(); err != nil || strings.Contains(string(out), "no tests to run") {
			t.Errorf("the tests of %s for arm64: %v\n%s", c.folder, err, out)
		}
	}
}
