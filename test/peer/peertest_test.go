package peer

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

func TestQuickLeavesOutForeignPrograms(t *testing.T) {
	t.Setenv("SHUULTUUR_QUICK", "1")
	for name, need := range map[string]func(t testing.TB){
		"program":  func(t testing.TB) { Program(t, "sleep") },
		"server":   func(t testing.TB) { Start(t, "sleep", "1000") },
		"Python":   func(t testing.TB) { Python(t, "os") },
		"Postgres": func(t testing.TB) { NewPostgres(t) },
	} {
		skipped := false
		t.Run(name, func(t *testing.T) {
			defer func() { skipped = t.Skipped() }()
			need(t)
		})
		if !skipped {
			t.Errorf("%s: the test is not skipped", name)
		}
	}
}

func TestProgramEndsWithTheTest(t *testing.T) {
	t.Setenv("SHUULTUUR_QUICK", "") // or sleep, which every system has, is not started
	var cmd *exec.Cmd
	t.Run("inner", func(t *testing.T) { cmd = Start(t, "sleep", "1000") })
	if cmd.ProcessState == nil {
		t.Error("the program runs on after its test ended")
	}
}

func TestProgramEndsWithAKilledTest(t *testing.T) {
	t.Setenv("SHUULTUUR_QUICK", "")
	if os.Getenv("PEERTEST_KILLED") != "" {
		cmd := Command(t, "sleep", "1000")
		cmd.Stdout = os.Stdout
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("ready\n")
		_ = cmd.Wait()
		return
	}
	if runtime.GOOS != "linux" && runtime.GOOS != "freebsd" {
		t.Skip("this system sends no signal when a parent dies; Linux and FreeBSD do")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProgramEndsWithAKilledTest$")
	cmd.Env = append(os.Environ(), "PEERTEST_KILLED=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the killed process wrote %q: %v", line, err)
	}
	_ = cmd.Process.Kill()
	gone := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, r) // ends when no process has the pipe any more
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Error("the program runs on after the process that started it was killed")
	}
	_ = cmd.Wait()
}

func TestPortIsFreeForBoth(t *testing.T) {
	addr := "127.0.0.1:" + Port(t)
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	u, err := net.ListenPacket("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	u.Close()
}
