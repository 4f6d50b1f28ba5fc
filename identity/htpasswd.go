package identity

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
)

// Limits of a password file. Those on hashes bound the cost of a login: bcrypt
// at cost 16 takes some seconds.
const (
	maxFile       = 16 << 20
	maxName       = 255
	maxCost       = 16
	maxArgonKiB   = 256 << 10
	maxArgonTime  = 16
	maxArgonLanes = 16
)

// A passwordHash is a hashed password of the file.
type passwordHash interface {
	matches(password []byte) bool
	cost() uint64 // relative work of a comparison, for hashes of one kind
}

// An account is a line of the password file.
type account struct {
	name   string
	hash   passwordHash // nil for an account of a directory
	groups []string     // from the directory, sorted
	stamp  string       // of the password in a file; another password has another
}

func readFile(path string) (map[string]*account, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the password file: %w", err)
	}
	defer f.Close()
	return parseAccounts(path, io.LimitReader(f, maxFile+1))
}

// parseAccounts reads a password file. It skips empty lines and comments (#). A
// mistake names the line, never the password.
func parseAccounts(path string, r io.Reader) (map[string]*account, error) {
	accounts := map[string]*account{}
	lines := bufio.NewScanner(r)
	size := 0
	for n := 1; lines.Scan(); n++ {
		if size += len(lines.Bytes()) + 1; size > maxFile {
			return nil, fmt.Errorf("%s:%d: the password file has more than %d bytes", path, n, maxFile)
		}
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		a, err := parseAccount(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if accounts[a.name] != nil {
			return nil, fmt.Errorf("%s:%d: user %q is there already", path, n, a.name)
		}
		accounts[a.name] = a
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the password file %s: %w", path, err)
	}
	if len(accounts) == 0 {
		return nil, fmt.Errorf(`%s: the password file has no users; add one with "htpasswd -B %s NAME"`, path, path)
	}
	return accounts, nil
}

func parseAccount(line string) (*account, error) {
	name, text, ok := strings.Cut(line, ":")
	if !ok {
		return nil, errors.New(`a line is "name:hash"; this one has no colon`)
	}
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, fmt.Errorf("%.300q cannot be a user's name: it is empty, has control characters or more than %d bytes", name, maxName)
	}
	h, err := parseHash(text)
	if err != nil {
		return nil, fmt.Errorf("the password of %q: %w", name, err)
	}
	sum := sha256.Sum256([]byte(text))
	return &account{name: name, hash: h, stamp: hex.EncodeToString(sum[:6])}, nil
}

func parseHash(s string) (passwordHash, error) {
	switch {
	case strings.HasPrefix(s, "$2a$"), strings.HasPrefix(s, "$2b$"), strings.HasPrefix(s, "$2y$"):
		return parseBcrypt(s)
	case strings.HasPrefix(s, "$argon2id$"):
		return parseArgon2id(s)
	case strings.HasPrefix(s, "$apr1$"):
		return parseMD5Crypt(s, "$apr1$")
	case strings.HasPrefix(s, "$1$"):
		return parseMD5Crypt(s, "$1$")
	case strings.HasPrefix(s, "$5$"), strings.HasPrefix(s, "$6$"):
		return parseSHACrypt(s)
	case strings.HasPrefix(s, "{SHA}"):
		return parseSHA1(s)
	}
	if len(s) == 13 && strings.Trim(s, cryptAlphabet) == "" {
		return nil, errors.New(`it is a hash of the old crypt(3) (DES), to which eight characters are the whole password; set a new one with "htpasswd -B"`)
	}
	return nil, errors.New(`it is not hashed in a way that is known; make it with "htpasswd -B"`)
}

// CheckLine reports why a line of a password file, name and hash, cannot be used.
func CheckLine(line string) error {
	_, err := parseAccount(line)
	return err
}

type bcryptHash []byte

func parseBcrypt(s string) (passwordHash, error) {
	if len(s) != 60 {
		return nil, fmt.Errorf("a bcrypt hash has 60 characters, this one %d", len(s))
	}
	for _, c := range []byte(s[7:]) {
		if c != '.' && c != '/' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return nil, errors.New("the bcrypt hash holds a character that is not of its alphabet")
		}
	}
	h := bcryptHash(s)
	cost, err := bcrypt.Cost(h)
	if err != nil {
		return nil, err
	}
	if cost > maxCost {
		return nil, fmt.Errorf("bcrypt cost %d takes too long; at most %d is used", cost, maxCost)
	}
	return h, nil
}

func (h bcryptHash) matches(password []byte) bool {
	return bcrypt.CompareHashAndPassword(h, password) == nil
}

func (h bcryptHash) cost() uint64 {
	n, _ := bcrypt.Cost(h)
	return 1 << n
}

type argon2idHash struct {
	memory, time uint32
	lanes        uint8
	salt, sum    []byte
}

// parseArgon2id reads the PHC string format,
// $argon2id$v=19$m=65536,t=3,p=4$salt$sum.
func parseArgon2id(s string) (passwordHash, error) {
	part := strings.Split(s, "$")
	if len(part) != 6 || part[2] != "v=19" {
		return nil, errors.New(`an Argon2id hash is "$argon2id$v=19$m=…,t=…,p=…$salt$sum"`)
	}
	var h argon2idHash
	var m, t, p uint32
	if n, err := fmt.Sscanf(part[3], "m=%d,t=%d,p=%d", &m, &t, &p); err != nil || n != 3 || part[3] != fmt.Sprintf("m=%d,t=%d,p=%d", m, t, p) {
		return nil, fmt.Errorf("Argon2id parameters %q cannot be read", part[3])
	}
	if t < 1 || t > maxArgonTime || p < 1 || p > maxArgonLanes || m < 8*p || m > maxArgonKiB {
		return nil, fmt.Errorf("Argon2id parameters %q: m is at most %d, t %d, p %d, and m at least 8 p", part[3], maxArgonKiB, maxArgonTime, maxArgonLanes)
	}
	h.memory, h.time, h.lanes = m, t, uint8(p)
	var err1, err2 error
	h.salt, err1 = base64.RawStdEncoding.Strict().DecodeString(part[4])
	h.sum, err2 = base64.RawStdEncoding.Strict().DecodeString(part[5])
	if err1 != nil || err2 != nil || len(h.salt) < 8 || len(h.salt) > 64 || len(h.sum) < 16 || len(h.sum) > 64 {
		return nil, errors.New("the Argon2id salt (8 to 64 bytes) or sum (16 to 64 bytes) is not right; both are base64 without padding")
	}
	return &h, nil
}

func (h *argon2idHash) matches(password []byte) bool {
	sum := argon2.IDKey(password, h.salt, h.time, h.memory, h.lanes, uint32(len(h.sum)))
	return subtle.ConstantTimeCompare(sum, h.sum) == 1
}

func (h *argon2idHash) cost() uint64 { return uint64(h.memory) * uint64(h.time) }

// credentials decodes a Proxy-Authorization of the Basic scheme (RFC 7617) into
// dst; name and password are slices of dst, or of a copy. They are in UTF-8, whatever the client
// has sent.
func credentials(dst, field []byte) (name, password []byte, ok bool) {
	scheme, rest, found := bytes.Cut(field, []byte(" "))
	rest = bytes.TrimSpace(rest)
	if !found || !bytes.EqualFold(scheme, []byte("basic")) || base64.StdEncoding.DecodedLen(len(rest)) > len(dst) {
		return nil, nil, false
	}
	n, err := base64.StdEncoding.Decode(dst, rest)
	if err != nil {
		return nil, nil, false
	}
	if !utf8.Valid(dst[:n]) { // the encoding of clients that know no charset
		latin := make([]byte, 0, 2*n)
		for _, c := range dst[:n] {
			latin = utf8.AppendRune(latin, rune(c))
		}
		dst, n = latin, len(latin)
	}
	name, password, ok = bytes.Cut(dst[:n], []byte(":"))
	return name, password, ok && len(name) > 0
}
