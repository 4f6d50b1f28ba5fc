package state

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func kept(t testing.TB, dir string) *Memory {
	t.Helper()
	s, err := Open(Config{}, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*Memory)
}

func fill(t testing.TB, m *Memory) {
	t.Helper()
	until := time.Now().Add(time.Hour)
	m.Put(t.Context(), number(1), []byte("verdict"), time.Hour)
	m.Put(t.Context(), number(2), []byte("short"), time.Nanosecond)
	m.Count(t.Context(), []Count{
		{Key: number(1), Until: until, Add: 42},
		{Key: number(2), Until: until, Set: true, Member: 700},
		{Key: number(2), Until: until, Set: true, Member: 3},
		{Key: number(3), Window: time.Hour, Add: 5},
	})
}

func TestARestartForgetsNothing(t *testing.T) {
	dir := t.TempDir()
	m := kept(t, dir)
	fill(t, m)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m = kept(t, dir)
	defer m.Close()
	if v, ok := m.Get(t.Context(), number(1)); !ok || string(v) != "verdict" {
		t.Errorf("the verdict after a restart: %q, %v", v, ok)
	}
	if v, ok := m.Get(t.Context(), number(2)); ok {
		t.Errorf("an expired verdict came back as %q", v)
	}
	counts := []Count{
		{Key: number(1), Until: time.Now().Add(time.Hour)},
		{Key: number(2), Until: time.Now().Add(time.Hour), Set: true, Member: 3},
		{Key: number(3), Window: time.Hour},
	}
	m.Count(t.Context(), counts)
	if counts[0].Sum != 42 || counts[1].Sum != 2 || counts[2].Sum < 4 {
		t.Errorf("sums %d, %d, %d; want 42, 2, 5", counts[0].Sum, counts[1].Sum, counts[2].Sum)
	}
}

func TestADamagedFileIsNotUsed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "state.bin")
	m := kept(t, dir)
	fill(t, m)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		bad := append([]byte(nil), whole...)
		bad[i] ^= 0x10
		for _, b := range [][]byte{bad, whole[:i]} {
			if err := os.WriteFile(file, b, 0o600); err != nil {
				t.Fatal(err)
			}
			m := kept(t, dir)
			if _, ok := m.Get(t.Context(), number(1)); ok || m.Stats().Counters != 0 {
				t.Fatalf("a file damaged at byte %d of %d is used", i, len(whole))
			}
			m.file = ""
			m.Close()
		}
	}
}

func FuzzFile(f *testing.F) {
	dir := f.TempDir()
	m := kept(f, dir)
	fill(f, m)
	if err := m.Close(); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "state.bin"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		if err := parseFile(b, func(byte, [16]byte, time.Time, []byte) { n++ }); err != nil && n > 0 {
			t.Errorf("parseFile passed on %d records of a damaged file", n)
		}
	})
}

func FuzzPart(f *testing.F) {
	f.Add("12")
	f.Add("\x01\x80")
	f.Fuzz(func(t *testing.T, value string) {
		for _, c := range []*counter{{}, {own: new([setWords]uint64), all: new([setWords]uint64)}} {
			if n := c.merge([]byte(value)); c.all != nil && n != 0 {
				t.Errorf("merging the malformed part %q added %d", value, n)
			}
		}
	})
}
