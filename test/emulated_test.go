package test

import (
	"path/filepath"
	"runtime"
	"testing"

	"shuultuur/test/peer"
)

// TestTheSmallBuildFiltersOnOtherProcessors runs the program for small devices on processors of
// boards and routers: one with 32 bits, whose programs amd64 runs, and RISC-V in an emulator.
func TestTheSmallBuildFiltersOnOtherProcessors(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" || testing.Short() {
		t.Skip("this system runs no other programs, or the run is short")
	}
	for _, c := range []struct{ arch, emulator string }{{"386", ""}, {"riscv64", "qemu-riscv64-static"}} {
		t.Run(c.arch, func(t *testing.T) {
			dir := t.TempDir()
			program := filepath.Join(dir, "shuultuur")
			command := []string{program, "run"}
			if c.emulator != "" {
				command = append([]string{peer.Program(t, c.emulator)}, command...)
			}
			buildSmall(t, c.arch, program)
			w := newSmallWorld(t, dir)
			w.filters(peer.Command(t, command[0], append(command[1:], w.write("shuultuur.yaml", ""))...))
		})
	}
}
