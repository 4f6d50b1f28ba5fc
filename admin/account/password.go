package account

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"shuultuur/lib/tries"
)

// These set the cost of a password: 46 MiB, one pass. hashing bounds the total, so that
// guessing cannot use up the machine's memory.
const (
	hashMemory  = 46 << 10 // KiB
	hashTime    = 1
	hashThreads = 1
	saltSize    = 16
	keySize     = 32

	minPassword = 10  // characters
	maxPassword = 256 // bytes: longer ones only cost time
)

// hashing bounds the number of passwords hashed at once.
var hashing = make(chan struct{}, 2)

// common has passwords of at least ten characters that attackers try first.
var common = []string{"1234567890", "12345678910", "0123456789", "9876543210", "0987654321", "1q2w3e4r5t", "qwertyuiop", "password12", "password123", "password1234",
	"passw0rd123", "administrator", "iloveyou123", "letmein1234", "welcome123", "changeme123", "shuultuur1", "1111111111", "0000000000", "asdfghjkl1"}

func derive(password string, salt []byte, memory, time uint32, threads uint8, size uint32) []byte {
	hashing <- struct{}{}
	defer func() { <-hashing }()
	return argon2.IDKey([]byte(password), salt, time, memory, threads, size)
}

// CheckPassword returns why a password is not good enough for an account, or nil.
func CheckPassword(name, password string) error {
	switch n := utf8.RuneCountInString(password); {
	case n < minPassword:
		return fmt.Errorf("the password has %d characters: %d or more are needed", n, minPassword)
	case len(password) > maxPassword:
		return fmt.Errorf("the password is longer than %d bytes", maxPassword)
	}
	low := strings.ToLower(password)
	if strings.Trim(low, low[:1]) == "" || name != "" && strings.Contains(low, strings.ToLower(name)) && len(low)-len(name) < 6 {
		return errors.New("the password is too easy to guess: it repeats one character, or is the name")
	}
	for _, c := range common {
		if low == c {
			return errors.New("the password is among the most common ones")
		}
	}
	return nil
}

// hash returns the stored form of a password.
func hash(name, password string) (string, error) {
	if err := CheckPassword(name, password); err != nil {
		return "", err
	}
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // never fails
	key := derive(password, salt, hashMemory, hashTime, hashThreads, keySize)
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, hashMemory, hashTime, hashThreads, b64(salt), b64(key)), nil
}

// none is the hash of no password, so that a wrong name takes as long as a
// wrong password.
const none = "$argon2id$v=19$m=47104,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// verify reports whether a password matches its stored form.
func verify(kept, password string) bool {
	if len(password) > maxPassword {
		return false
	}
	ok := kept != ""
	if !ok {
		kept = none
	}
	parts := strings.Split(kept, "$")
	if len(parts) != 6 || parts[1] != "argon2id" {
		return false
	}
	var version int
	var memory, passes uint32
	var threads uint8
	if n, err := fmt.Sscanf(parts[2]+" "+parts[3], "v=%d m=%d,t=%d,p=%d", &version, &memory, &passes, &threads); n != 4 || err != nil || version != argon2.Version || memory > 1<<20 || passes == 0 || passes > 100 || threads == 0 {
		return false
	}
	salt, err1 := base64.RawStdEncoding.DecodeString(parts[4])
	want, err2 := base64.RawStdEncoding.DecodeString(parts[5])
	if err1 != nil || err2 != nil || len(want) < 16 || len(want) > 64 {
		return false
	}
	got := derive(password, salt, memory, passes, threads, uint32(len(want)))
	return subtle.ConstantTimeCompare(got, want) == 1 && ok
}

// These limit the wrong passwords and codes for one account. An attacker may use many
// addresses, so the limit for each address is not enough.
const (
	maxWrong   = 20
	wrongTime  = 15 * time.Minute
	maxGuessed = 10_000 // names that are counted
)

// guess begins a try to give the password or code of an account.
func (b *Book) guess(ctx context.Context, key string) (*tries.Try[string], error) {
	t, err := b.wrong.Begin(ctx, key)
	if errors.Is(err, tries.ErrTooMany) {
		err = ErrTooMany
	}
	return t, err
}
