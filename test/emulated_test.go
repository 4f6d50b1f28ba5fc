package test

import (
	"flag"
	"path/filepath"
	"runtime"
	"testing"

	"shuultuur/test/peer"
)

// Each more takes minutes of processor time to build.
var processors = flag.Bool("processors", false, "run the small build of 32 bits, too")

// TestTheSmallBuildFiltersOnOtherProcessors runs the program for small devices on processors of
// boards and routers: RISC-V in an emulator, and with -processors one with 32 bits, whose programs
// amd64 runs.
func TestTheSmallBuildFiltersOnOtherProcessors(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" || testing.Short() {
		t.Skip("this system runs no other programs, or the run is short")
	}
	all := []struct{ arch, emulator string }{{"riscv64", "qemu-riscv64-static"}}
	if *processors {
		all = append(all, struct{ arch, emulator string }{"386", ""})
	}
	for _, c := range all {
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
