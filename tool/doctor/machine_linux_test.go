package doctor

import "testing"

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
