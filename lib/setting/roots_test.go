package setting

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRenewedFollowsItsFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	calls := 0
	read := func() (string, error) {
		calls++
		b, err := os.ReadFile(file)
		if err == nil && string(b) == "broken" {
			err = errors.New("broken")
		}
		return string(b), err
	}
	if _, err := Renew(read, File(file)); err == nil {
		t.Error("Renew of a missing file returns no error")
	}
	write("one")
	r, err := Renew(read, File(file), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ text, want string }{
		{"one", "one"}, {"second", "second"}, {"broken", "second"}, {"the third", "the third"},
	} {
		write(step.text)
		if got := r.Current(); got != step.want {
			t.Errorf("the file has %q: got %q, want %q", step.text, got, step.want)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	calls = 0
	for range 3 {
		if got := r.Current(); got != "the third" {
			t.Errorf("after the file was removed: got %q, want the third", got)
		}
	}
	if calls != 1 {
		t.Errorf("the missing file was read %d times, want once", calls)
	}
}

// TestACertificateThatCannotBeReadIsNamed uses one with a negative serial number, as Samba
// makes them.
func TestACertificateThatCannotBeReadIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"no certificate": "contains no certificate in PEM form",
		"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n": "contains a certificate that is not valid: x509: ",
	} {
		file := filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := File(file).Roots(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
