package doctor

import (
	"os"
	"testing"
	"time"
)

func TestTextsOfProc(t *testing.T) {
	for in, want := range map[string]int64{
		"sockets: used 200\nTCP: inuse 5 orphan 0 tw 37 alloc 7 mem 1\nUDP: inuse 2 mem 0\n": 37,
		"TCP: inuse 5 orphan 0\n": -1,
		"TCP: tw\n":               -1,
		"TCP: tw x\n":             -1,
		"":                        -1,
	} {
		got, err := sockstat(in)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("sockstat(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
	if got, err := memTotal("MemTotal:       16384 kB\nMemFree: 1 kB\n"); err != nil || got != 16<<20 {
		t.Errorf("memTotal: got %d, %v, want 16 MiB", got, err)
	}
	if _, err := memTotal("MemFree: 1 kB\n"); err == nil {
		t.Error("memTotal without MemTotal: got no error")
	}
}

func TestWhatThisProcessHasWritten(t *testing.T) {
	before, err := ThisMachine{}.Written(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if before.Bytes < 0 || before.In < 0 || before.In > time.Hour {
		t.Errorf("%+v of a process that has just begun", before)
	}
	const after = " S 1 1 1 0 -1 4194560 100 0 0 0 1 1 0 0 20 0 1 0 5000 0 0"
	for stat, want := range map[string]time.Duration{"7 (shuultuur)" + after: 50 * time.Second, "7 (a) S 1 (b)" + after: 50 * time.Second, "7 (x) S 1": -1, "": -1} {
		got, err := runsFor(stat, "100.00 7.00\n")
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %v, %v; want %v", stat, got, err, want)
		}
	}
	if _, err := writeBytes("rchar: 1\nwchar: 2\n"); err == nil {
		t.Error("no count of bytes written: got no error")
	}
}
