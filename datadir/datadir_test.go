package datadir

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAFolderBelongsToOne: a second one is refused and told why, one that only
// looks is not, and the key stays.
func TestAFolderBelongsToOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := HolderOf(dir); !errors.Is(err, ErrFree) {
		t.Errorf("without a folder: %v", err)
	}
	f, err := Open(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, true); err == nil || !strings.Contains(err.Error(), "another gateway") {
		t.Errorf("the second: %v", err)
	}
	looks, err := Open(dir, false)
	if err != nil || !bytes.Equal(looks.Key, f.Key) || len(f.Key) != 32 {
		t.Errorf("one that looks: %v", err)
	}
	want := Holder{Process: os.Getpid(), Serving: true, Refused: 2, Why: "it is older"}
	if err := f.Say(want); err != nil {
		t.Fatal(err)
	}
	if got, err := HolderOf(dir); err != nil || got != want {
		t.Errorf("the holder: got %+v %v, want %+v", got, err, want)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := HolderOf(dir); !errors.Is(err, ErrFree) {
		t.Errorf("after the end: %v", err)
	}
	again, err := Open(dir, true)
	if err != nil || !bytes.Equal(again.Key, f.Key) {
		t.Fatalf("the next: %v", err)
	}
	again.Close()
}

// TestAKeyThatCannotBeUsed is neither replaced nor used.
// TestWhoAsksFindsANoteAtAnyTime: also while it is written anew, shorter or longer.
func TestWhoAsksFindsANoteAtAnyTime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	f, err := Open(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Say(Holder{Process: 1}); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() {
		var err error
		for i := range 2000 {
			err = errors.Join(err, f.Say(Holder{Process: 1, Why: strings.Repeat("x", i%3*50)}))
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
			t.Errorf("%+v, %v", h, err)
			<-over
			return
		}
	}
}

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
			if _, err := Open(dir, true); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if key, err := os.ReadFile(file); err != nil || string(key) != c.key {
				t.Errorf("the key is %q now: %v", key, err)
			}
			if _, err := HolderOf(dir); !errors.Is(err, ErrFree) {
				t.Errorf("the folder is still taken: %v", err)
			}
		})
	}
}
