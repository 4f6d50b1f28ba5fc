package event

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func scoreLine(dst []byte, r *Row) []byte {
	return append(strconv.AppendInt(dst, int64(r.Score), 10), '\n')
}

func TestReopenWritesToTheNewFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f, err := OpenFile("test", path, scoreLine)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write := func(n int) {
		t.Helper()
		if err := f.Write(t.Context(), []Row{{Score: n}}); err != nil {
			t.Fatal(err)
		}
	}
	write(1)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write(2)
	if err := f.Reopen(); err != nil {
		t.Fatal(err)
	}
	write(3)
	for name, want := range map[string]string{path + ".1": "1\n2\n", path: "3\n"} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v, want %q", name, got, err, want)
		}
	}
}

func TestReopenWhileWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f, err := OpenFile("test", path, scoreLine)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 100 {
			if err := f.Write(t.Context(), make([]Row, 1000)); err != nil {
				t.Error(err)
			}
		}
	})
	for range 100 {
		if err := f.Reopen(); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Count(string(b), "0\n"), 100_000; got != want || f.Torn() != 0 {
		t.Errorf("after reopening: %d lines, %d bytes torn; want %d lines and none torn", got, f.Torn(), want)
	}
}

func TestFileThatIsNoLogIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "movie")
	if err := os.WriteFile(path, make([]byte, MaxLine+100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile("test", path, scoreLine); err == nil {
		t.Error("OpenFile returns no error for a file without lines")
	}
	if st, err := os.Stat(path); err != nil || st.Size() != MaxLine+100_000 {
		t.Errorf("OpenFile changed a file without lines: %v, %v", st, err)
	}
}

func TestWriteToADevice(t *testing.T) {
	f, err := OpenFile("test", os.DevNull, scoreLine)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Write(t.Context(), make([]Row, 10)); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
