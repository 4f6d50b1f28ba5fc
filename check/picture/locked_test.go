//go:build !small

package picture

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"

	"shuultuur/lib/picture"
)

func TestLockedListsAreEncryptedWhereTheyLie(t *testing.T) {
	b := photo(t, 1, 0)
	h, _, err := picture.PDQ(b)
	if err != nil {
		t.Fatal(err)
	}
	key := bytes.Repeat([]byte{7}, 32)
	file := list(t, "authority", "# of an authority\n"+h.String()+"\n")
	cfg := Config{Hashes: map[string]HashList{"law": {File: file, Locked: true}}}
	read := func() string {
		text, err := os.ReadFile(string(file))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if _, err := New(cfg, Parts{Key: key, Trial: true}); err != nil || !strings.Contains(read(), h.String()) {
		t.Fatalf("New on trial returned %v, and the file is now %q", err, read())
	}
	first, err := New(cfg, Parts{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	sealed := read()
	if strings.Contains(sealed, h.String()) || strings.Contains(sealed, "authority") || !strings.HasPrefix(sealed, lockedMagic) {
		t.Fatalf("New did not encrypt the file: %q", sealed)
	}
	unlocked := Config{Hashes: map[string]HashList{"law": {File: file}}} // "locked" removed
	for _, cfg := range []Config{cfg, unlocked} {
		again, err := New(cfg, Parts{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		if read() != sealed {
			t.Error("the file was encrypted again")
		}
		if got := again.Locked(); len(got) != 1 || got["law"] != sha256.Sum256([]byte("# of an authority\n"+h.String()+"\n")) || !again.Categories()[len(again.Categories())-1].Locked {
			t.Errorf("Locked returned %v", got)
		}
		if !bytes.Equal(again.known.revision, first.known.revision) {
			t.Error("what was remembered is lost when a list is encrypted")
		}
		found := find(t, again, b)
		if len(found) != 1 || found[0].Evidence != "list law" {
			t.Errorf("got %v, want the list's name and no more", found)
		}
		for _, line := range again.Explain(t.Context(), b) {
			if strings.Contains(line, string(file)) || strings.Contains(line, "distance") {
				t.Errorf("the explanation reveals of a locked list: %s", line)
			}
		}
	}
	for name, parts := range map[string]Parts{"no key": {}, "another key": {Key: bytes.Repeat([]byte{8}, 32)}} {
		if _, err := New(cfg, parts); err == nil {
			t.Errorf("with %s, New read the locked list", name)
		}
	}
	for name, text := range map[string]string{"cut": sealed[:len(sealed)-1], "changed": sealed[:len(sealed)-20] + string([]byte{sealed[len(sealed)-20] ^ 1}) + sealed[len(sealed)-19:], "head only": sealed[:40]} {
		if err := os.WriteFile(string(file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(cfg, Parts{Key: key}); err == nil {
			t.Errorf("%s: New read the damaged list", name)
		}
	}
}

func TestLockedListsOfAnySizeAreReadBack(t *testing.T) {
	key := []byte("k")
	for _, size := range []int{0, 1, pieceBytes - 1, pieceBytes, pieceBytes + 1, 3 * pieceBytes} {
		file := list(t, "l", strings.Repeat("#", size))
		if err := lock(string(file), key); err != nil {
			t.Fatal(err)
		}
		h, err := readHashes(HashList{File: file, Type: "md5"}, key)
		if size >= maxListLine && err != nil {
			continue // one line of that length is refused, after it was read
		}
		if err != nil || h.digest != sha256.Sum256(bytes.Repeat([]byte("#"), size)) {
			t.Errorf("reading a list of %d bytes: %v", size, err)
		}
	}
}

func TestMistakesInLockedListsAreNotQuoted(t *testing.T) {
	_, err := New(Config{Hashes: map[string]HashList{"law": {File: list(t, "l", "# x\nsecret\n"), Locked: true}}}, Parts{Key: []byte("k")})
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), ":2:") {
		t.Errorf("got %v, want the place and not what stands there", err)
	}
}

func FuzzOpenLocked(f *testing.F) {
	file := list(f, "l", "abc\n")
	if err := lock(string(file), []byte("k")); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(string(file))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, locked, err := openLocked(bytes.NewReader(b), []byte("k"))
		if err != nil || !locked {
			return
		}
		_, _ = fmt.Fscan(r, new(string)) // may fail, but not panic
	})
}
