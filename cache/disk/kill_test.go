package disk

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// TestMain makes the test binary also the process that writes until it is killed.
func TestMain(m *testing.M) {
	dir := os.Getenv("SHUULTUUR_TEST_WRITE")
	if dir == "" {
		os.Exit(m.Run())
	}
	s, err := Open(dir, 4<<20)
	if err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	from, _ := strconv.Atoi(os.Getenv("SHUULTUUR_TEST_FROM"))
	os.Stdout.WriteString("open\n")
	for i := from; ; i++ {
		n := i % 300
		if i%7 == 0 {
			if s.Remove(key(n)) != nil {
				os.Exit(1)
			}
			continue
		}
		b := content(n, 2000)
		if s.Put(key(n), []byte("meta "+strconv.Itoa(n)), [][]byte{b[:1000], b[1000:]}) != nil {
			os.Exit(1)
		}
	}
}

// TestKilledWhileWriting: a process killed at any moment leaves no wrong byte.
func TestKilledWhileWriting(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(1, 9))
	rounds := 6
	if testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), "SHUULTUUR_TEST_WRITE="+dir, "SHUULTUUR_TEST_FROM="+strconv.Itoa(r.IntN(1000)))
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(r.IntN(20_000)) * time.Microsecond)
		c.Process.Kill()
		c.Wait()
		s, err := Open(dir, 4<<20)
		if err != nil {
			t.Fatalf("round %d: opening the store after a kill: %v", round, err)
		}
		for i := range 300 {
			get(t, s, i, 2000)
		}
		s.Close()
	}
}
