package event

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

var scores = Kind{"test", regexp.MustCompile(`^\d`)}

func scoreLine(dst []byte, r *Row) []byte {
	return append(strconv.AppendInt(dst, int64(r.Score), 10), '\n')
}

func TestReopenWritesToTheNewFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f, err := OpenFile(scores, path, scoreLine)
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
	f, err := OpenFile(scores, path, scoreLine)
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
	if _, err := OpenFile(scores, path, scoreLine); err == nil {
		t.Error("OpenFile returns no error for a file without lines")
	}
	if st, err := os.Stat(path); err != nil || st.Size() != MaxLine+100_000 {
		t.Errorf("OpenFile changed a file without lines: %v, %v", st, err)
	}
}

// TestOnlyLogsAreOpened: a file that another program wrote keeps every byte, and Check says before
// what opening would.
func TestOnlyLogsAreOpened(t *testing.T) {
	kind := Kind{"test", regexp.MustCompile(`^\d{4} `)}
	for _, c := range []struct{ name, text, left, why string }{
		{"nothing", "", "", ""},
		{"whole lines", "1234 a\n5678 b\n", "1234 a\n5678 b\n", ""},
		{"a torn line", "1234 a\n5678 ", "1234 a\n", ""},
		{"a line torn in its first bytes", "1234 a\n5", "1234 a\n", ""},
		{"nothing but a torn line", "1234 a", "", ""},
		{"a key", "\x8a\x01binary of thirty-two bytes\x00", "", "does not begin like a log of the kind test"},
		{"a number", "4711", "", "does not begin like"},
		{"text with lines", "listen: {}\nevents: {}\n", "", "does not begin like"},
		{"an empty line", "\n1234 a\n", "", "does not begin like"},
		{"a log with something else at its end", "1234 a\nprecious", "", "has no end"},
	} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		checked := kind.Check(path)
		if got, _ := os.ReadFile(path); string(got) != c.text {
			t.Errorf("%s: Check changed it to %q", c.name, got)
		}
		f, err := OpenFile(kind, path, scoreLine)
		if err == nil {
			f.Close()
		}
		if c.why != "" {
			c.left = c.text
		}
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) || fmt.Sprint(checked) != fmt.Sprint(err) {
			t.Errorf("%s: opening it: %v; checking it: %v; want %q", c.name, err, checked, c.why)
		}
		if got, _ := os.ReadFile(path); string(got) != c.left {
			t.Errorf("%s: opening it left %q, want %q", c.name, got, c.left)
		}
	}
	for name, path := range map[string]string{"a folder": t.TempDir(), "a file in no folder": filepath.Join(t.TempDir(), "none", "log"), "a file below a file": filepath.Join(os.Args[0], "log")} {
		if err := kind.Check(path); err == nil {
			t.Errorf("%s can be a log", name)
		}
	}
}

func TestWriteToADevice(t *testing.T) {
	f, err := OpenFile(scores, os.DevNull, scoreLine)
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
