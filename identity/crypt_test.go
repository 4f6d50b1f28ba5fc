package identity

import (
	"os/exec"
	"strings"
	"testing"
)

func TestHashesOfCrypt(t *testing.T) {
	for _, tt := range []struct{ password, hash string }{
		{"Hello world!", "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"},
		{"Hello world!", "$5$rounds=10000$saltstringsaltst$3xv.VbSHBb41AL9AvLeujZkZRBAwqFMz2.opqey6IcA"},
		{"Hello world!", "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1"},
		{"password", "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g="},
		{"", "{SHA}2jmj7l5rSw0yVb/vlWAYkK/YBwk="},
	} {
		h, err := parseHash(tt.hash)
		if err != nil {
			t.Fatalf("%s: %v", tt.hash, err)
		}
		if !h.matches([]byte(tt.password)) || h.matches([]byte(tt.password+"x")) || h.cost() == 0 {
			t.Errorf("%s is not the hash of %q", tt.hash, tt.password)
		}
	}
}

func TestHashesOfOpenSSL(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not installed here")
	}
	for _, kind := range []string{"-apr1", "-1", "-5", "-6"} {
		for _, password := range []string{"a", "secret", "a longer password than any digest is: 0123456789012345678901234567890123456789", "ключ"} {
			out, err := exec.Command(openssl, "passwd", kind, "-salt", "x1./yZ", password).Output()
			if err != nil {
				t.Skipf("openssl passwd %s: %v", kind, err)
			}
			h, err := parseHash(strings.TrimSpace(string(out)))
			if err != nil || !h.matches([]byte(password)) || h.matches([]byte(password[1:])) {
				t.Errorf("%s of %q: %s, %v", kind, password, out, err)
			}
		}
	}
}

func TestHashesThatAreNone(t *testing.T) {
	for _, s := range []string{"$apr1$", "$apr1$salt$short", "$apr1$longersalt9$0123456789012345678901", "$1$salt$0123456789012345678_01", "$5$rounds=10$s$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc8",
		"$5$rounds=99999999$s$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc8", "$6$s$x", "{SHA}x", "{SHA}", "{SSHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", "rl.3StKT.4T8M", "plain"} {
		if h, err := parseHash(s); err == nil {
			t.Errorf("%q is taken for a hash: %v", s, h)
		}
	}
}
