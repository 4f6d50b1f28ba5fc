package account

import (
	"os"
	"path/filepath"
	"testing"
)

// damages are what can happen to a small file.
var damages = map[string]func(data []byte) []byte{
	"halved":      func(data []byte) []byte { return data[:len(data)/2] },
	"emptied":     func([]byte) []byte { return nil },
	"zeros":       func(data []byte) []byte { return make([]byte, len(data)) },
	"a bit":       func(data []byte) []byte { data[0] ^= 1; return data },
	"an object":   func([]byte) []byte { return []byte("{}") },
	"nothing":     func([]byte) []byte { return []byte("null") },
	"a list":      func([]byte) []byte { return []byte("[1]") },
	"no accounts": func([]byte) []byte { return []byte(`{"accounts":[]}`) },
}

func damage(t *testing.T, file string, do func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, do(data), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func aside(t *testing.T, file string) int {
	t.Helper()
	all, err := filepath.Glob(file + ".damaged-*")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// Accounts come back from their last copy, at a start, while the gateway runs, and before a change.
// Without accounts this machine would be an owner.
func TestDamagedAccountsComeBack(t *testing.T) {
	for name, do := range damages {
		for when, use := range map[string]func(b *Book, dir string) error{
			"a start":         func(_ *Book, dir string) error { _, err := Open(dir, nil); return err },
			"while it runs":   func(b *Book, _ string) error { _, err := b.Any(); return err },
			"before a change": func(b *Book, _ string) error { return b.Add("cleo", Viewer, nil, "") },
		} {
			t.Run(name+"/"+when, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				b, err := Open(dir, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, who := range []string{"anna", "ben"} {
					if err := b.Add(who, Owner, nil, ""); err != nil {
						t.Fatal(err)
					}
				}
				damage(t, b.file(), do)
				if err := use(b, dir); err != nil {
					t.Fatal(err)
				}
				again, err := Open(dir, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, who := range []string{"anna", "ben"} {
					if a, err := again.One(who); err != nil || a.Role != Owner {
						t.Errorf("%s: %+v, %v", who, a, err)
					}
				}
				if n := aside(t, b.file()); n != 1 {
					t.Errorf("%d files were set aside, want the damaged one", n)
				}
			})
		}
	}
}

func TestDamagedAccountsWithoutACopyAreRefused(t *testing.T) {
	b, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Add("anna", Owner, nil, ""); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{b.file(), b.lastFile()} {
		damage(t, file, damages["halved"])
	}
	if _, err := Open(b.dir, nil); err == nil {
		t.Error("accounts that cannot be read are no accounts")
	}
}

func TestAnOlderProgramHasKeptNoCopy(t *testing.T) {
	b, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Add("anna", Owner, nil, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(b.lastFile()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(b.dir, nil); err != nil {
		t.Fatal(err)
	}
	damage(t, b.file(), damages["halved"])
	if again, err := Open(b.dir, nil); err != nil {
		t.Error(err)
	} else if _, err := again.One("anna"); err != nil {
		t.Error(err)
	}
}

// Sessions are only remembered: everybody signs in again.
func TestDamagedSessionsBeginAnew(t *testing.T) {
	for name, do := range damages {
		if name == "nothing" {
			continue // which is a file without sessions
		}
		t.Run(name, func(t *testing.T) {
			b, err := Open(t.TempDir(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Add("anna", Owner, nil, ""); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Begin("anna", "password", Origin{}); err != nil {
				t.Fatal(err)
			}
			damage(t, b.sessionFile(), do)
			again, err := Open(b.dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			if all := again.Sessions(""); len(all) != 0 || aside(t, b.sessionFile()) != 1 {
				t.Errorf("sessions %v, %d files set aside", all, aside(t, b.sessionFile()))
			}
			if _, err := again.Begin("anna", "password", Origin{}); err != nil {
				t.Error(err)
			}
		})
	}
}
