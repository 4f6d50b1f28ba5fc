package datadir

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAFolderBelongsToOne: a second process is refused and told why, one that only looks is
// not, and the key stays.
func TestAFolderBelongsToOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := HolderOf(dir); !errors.Is(err, ErrFree) {
		t.Errorf("HolderOf a missing folder: %v, want ErrFree", err)
	}
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "another gateway") {
		t.Errorf("a second process takes the folder: %v, want an error", err)
	}
	looks, err := Look(dir)
	if err != nil || !bytes.Equal(looks.Key, f.Key) || len(f.Key) != 32 {
		t.Errorf("a process that only looks: %v, or another key", err)
	}
	want := Holder{Process: os.Getpid(), Serving: true, Refused: 2, Why: "it is older"}
	if err := f.RecordHolder(want); err != nil {
		t.Fatal(err)
	}
	if got, err := HolderOf(dir); err != nil || got != want {
		t.Errorf("the holder is %+v, %v; want %+v", got, err, want)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := HolderOf(dir); !errors.Is(err, ErrFree) {
		t.Errorf("the holder after Close: %v, want ErrFree", err)
	}
	again, err := Open(dir)
	if err != nil || !bytes.Equal(again.Key, f.Key) {
		t.Fatalf("taking the folder after Close: %v, or another key", err)
	}
	again.Close()
}

// TestReadersFindANoteAtAnyTime, even while a shorter or longer one replaces it.
func TestReadersFindANoteAtAnyTime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.RecordHolder(Holder{Process: 1}); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() {
		var err error
		for i := range 2000 {
			err = errors.Join(err, f.RecordHolder(Holder{Process: 1, Why: strings.Repeat("x", i%3*50)}))
		}
		over <- err
	}()
	for {
		select {
		case err := <-over:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
		if h, err := HolderOf(dir); err != nil || h.Process != 1 {
			t.Errorf("the holder while the note is rewritten: %+v, %v", h, err)
			<-over
			return
		}
	}
}

// TestAKeyThatCannotBeUsed is neither replaced nor used.
func TestAKeyThatCannotBeUsed(t *testing.T) {
	for _, c := range []struct {
		name, key, want string
		mode            os.FileMode
	}{
		{"too short", "short", "5 bytes instead of 32", 0o600},
		{"others may read it", strings.Repeat("k", 32), "chmod 600", 0o644},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, KeyFile)
			if err := os.WriteFile(file, []byte(c.key), c.mode); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Open returned %v, want %q", err, c.want)
			}
			if key, err := os.ReadFile(file); err != nil || string(key) != c.key {
				t.Errorf("a key that cannot be used was replaced by %q: %v", key, err)
			}
			if _, err := HolderOf(dir); !errors.Is(err, ErrFree) {
				t.Errorf("the folder is still locked after the error: %v", err)
			}
		})
	}
}
