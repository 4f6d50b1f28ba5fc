package identity

import (
	"encoding/base64"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"shuultuur/lib/setting"
)

func TestParseAccountsNamesTheLine(t *testing.T) {
	const bcrypt = "$2y$05$abcdefghijklmnopqrstuuxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
	const salt, sum = "c2FsdHNhbHQ", "AAAAAAAAAAAAAAAAAAAAAA"
	tests := map[string]struct{ text, want string }{
		"no colon":            {"anna", "f:1: a line is"},
		"no name":             {"# c\n\n:" + bcrypt, "f:3: "},
		"plain text":          {"anna:secret", `f:1: the password of "anna": it is not hashed in a way that is known`},
		"DES":                 {"anna:rl.3StKT.4T8M", "to which eight characters are the whole password"},
		"MD5":                 {"anna:$apr1$x$y", "a hash of this kind"},
		"SHA-1":               {"anna:{SHA}x", "no SHA-1"},
		"short bcrypt":        {"anna:$2y$05$abc", "has 60 characters"},
		"bcrypt takes days":   {"anna:$2y$31" + bcrypt[6:], "cost 31 takes too long"},
		"foreign characters":  {"anna:$2y$05$" + strings.Repeat("~", 53), "alphabet"},
		"twice":               {"anna:" + bcrypt + "\nanna:" + bcrypt, `f:2: user "anna" is there already`},
		"empty":               {"# nobody\n", "has no users"},
		"Argon2i":             {"anna:$argon2i$v=19$m=64,t=1,p=1$" + salt + "$" + sum, "not hashed in a way that is known"},
		"Argon2 of old":       {"anna:$argon2id$v=16$m=64,t=1,p=1$" + salt + "$" + sum, "an Argon2id hash is"},
		"Argon2 with 4 TiB":   {"anna:$argon2id$v=19$m=4294967295,t=1,p=1$" + salt + "$" + sum, "m is at most"},
		"Argon2, no lanes":    {"anna:$argon2id$v=19$m=64,t=1,p=0$" + salt + "$" + sum, "m is at most"},
		"Argon2, short salt":  {"anna:$argon2id$v=19$m=64,t=1,p=1$c2Fs$" + sum, "salt (8 to 64 bytes)"},
		"Argon2, odd numbers": {"anna:$argon2id$v=19$m=+64,t=1,p=1$" + salt + "$" + sum, "cannot be read"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parseAccounts("f", strings.NewReader(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("parsing the password file: %v, want an error with %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error contains the password: %v", err)
			}
		})
	}
}

func FuzzHtpasswd(f *testing.F) {
	f.Add("anna:$2y$05$abcdefghijklmnopqrstuuxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", []byte("Basic YW5uYTpzZWNyZXQ="))
	f.Add("anna:$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA\n# x", []byte("basic  Og=="))
	f.Add("anna:{SHA}x\r\n\x00:y", []byte("Basic"))
	f.Fuzz(func(t *testing.T, text string, field []byte) {
		accounts, err := parseAccounts("f", strings.NewReader(text))
		if (err == nil) == (len(accounts) == 0) {
			t.Errorf("got %d accounts and the error %v, want either", len(accounts), err)
		}
		for name, a := range accounts {
			if name != a.name || name == "" || strings.Contains(name, ":") {
				t.Errorf("the account of %q has the name %q", name, a.name)
			}
			if a.hash.cost() == 0 {
				t.Errorf("the hash of %q has no cost", name)
			}
		}
		var buf [64]byte
		name, password, ok := credentials(buf[:], field)
		if ok && (len(name) == 0 || len(name)+len(password)+1 > 2*len(buf)) {
			t.Errorf("credentials returned the name %q and the password %q", name, password)
		}
	})
}

// TestLongNamesInLatin1AreWrongOnes: in UTF-8 they are longer than what the client has sent.
func TestLongNamesInLatin1AreWrongOnes(t *testing.T) {
	id := newIdentity(t, Config{Basic: &Basic{File: setting.File(passwordFile(t, "anna:"+bcryptOf(t, "secret")))}})
	for n := range maxSecret + 16 {
		if n > 8 && n < maxSecret/2-8 {
			continue
		}
		for _, sent := range []string{strings.Repeat("\xff", n) + ":secret", "anna:" + strings.Repeat("\xff", n)} {
			_, err := id.Identify(t.Context(), netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}), []byte("Basic "+base64.StdEncoding.EncodeToString([]byte(sent))))
			if _, ok := errors.AsType[*Challenge](err); !ok {
				t.Errorf("%d letters: %v, want a challenge", n, err)
			}
		}
	}
}

func TestBasicCredentialsAreReadInLatin1Too(t *testing.T) {
	for _, sent := range []string{"J\u00fcrgen:p\u00e4ss:w\u00f6rd", "J\xfcrgen:p\xe4ss:w\xf6rd"} {
		var buf [64]byte
		name, password, ok := credentials(buf[:], []byte("Basic "+base64.StdEncoding.EncodeToString([]byte(sent))))
		if !ok || string(name) != "J\u00fcrgen" || string(password) != "p\u00e4ss:w\u00f6rd" {
			t.Errorf("%q: got %q, %q, %v", sent, name, password, ok)
		}
	}
}
