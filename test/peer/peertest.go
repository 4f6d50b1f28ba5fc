// Package peertest runs foreign programs beside a test: servers to compare with, and tools that
// judge our output. They end with the test, and with the test's process when that is killed.
//
// A test that needs a program and finds none is skipped and names the package to install;
// test/setup.sh installs it on Debian. "make quick" sets SHUULTUUR_QUICK, and then the same calls
// skip the test whether or not the program is there.
package peer

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// NotQuick skips the test under "make quick". what completes the sentence "it needs".
// [Program], [Python] and [NewPostgres] call it; other tests do if they need a program in
// another way, the network, or minutes of building.
func NotQuick(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("SHUULTUUR_QUICK") != "" {
		t.Skip(`"make quick" leaves it out: it needs ` + what)
	}
}

// Program returns the path of the first of names that is installed. It also looks into the sbin
// folders of Debian, which not every PATH has.
func Program(t testing.TB, names ...string) string {
	t.Helper()
	NotQuick(t, names[0])
	for _, name := range names {
		for _, dir := range []string{"", "/usr/sbin/", "/usr/local/sbin/"} {
			if path, err := exec.LookPath(dir + name); err == nil {
				return path
			}
		}
	}
	t.Skipf(`%s is not installed; "make test" installs it where Debian has it`, names[0])
	return ""
}

// Built returns the path of a program that test/setup.sh builds where Debian has none.
func Built(t testing.TB, name string) string {
	t.Helper()
	cached, _ := os.UserCacheDir() // an empty path finds nothing
	if file := filepath.Join(cached, "shuultuur-test", "bin", name); os.Getenv("SHUULTUUR_QUICK") == "" {
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	return Program(t, name)
}

// Python returns a Python that has the packages modules: the one that SHUULTUUR_PYTHON names,
// the one that test/setup.sh installs, or the system's.
func Python(t testing.TB, modules ...string) string {
	t.Helper()
	NotQuick(t, "Python")
	cached, _ := os.UserCacheDir() // an empty path finds nothing
	for _, name := range []string{os.Getenv("SHUULTUUR_PYTHON"), filepath.Join(cached, "shuultuur-test", "python", "bin", "python3"), "python3"} {
		if name != "" && exec.Command(name, "-c", "import "+strings.Join(modules, ", ")).Run() == nil {
			return name
		}
	}
	t.Skipf(`no Python has %s; "make test" installs one`, strings.Join(modules, ", "))
	return ""
}

// Command makes a command that is killed when this process ends, however it ends. Linux kills
// it when the thread that started it ends, so no goroutine may end while it is locked to one.
func Command(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	return command(Program(t, name), args...)
}

func command(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.SysProcAttr = withParent()
	cmd.WaitDelay = 5 * time.Second // for processes that the command starts itself
	return cmd
}

// Start starts a server that writes to the test's output, and ends it with the test.
func Start(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	return start(t, command(Program(t, name), args...))
}

func start(t testing.TB, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", cmd.Path, err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		late := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		_ = cmd.Wait() // the exit status does not matter
	})
	return cmd
}

// Port returns a port of 127.0.0.1 that was free a moment ago, for UDP and TCP. It is below the
// ports that the system gives to programs that ask for any (on Linux from 32768), so that no
// other test gets it meanwhile.
func Port(t testing.TB) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 15000+rand.N(17000))
		u, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", addr)
		u.Close()
		if err != nil {
			continue
		}
		l.Close()
		_, port, _ := net.SplitHostPort(addr)
		return port
	}
	t.Fatal("no port is free")
	return ""
}
