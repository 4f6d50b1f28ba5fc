package transfer

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"os"
	"strings"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
	"shuultuur/zone"
)

// KeyConfig is a secret shared with another server (TSIG, RFC 8945), in base64 as printed by
// tsig-keygen and keymgr.
type KeyConfig struct {
	Name      string `yaml:"name"`
	Algorithm string `yaml:"algorithm,omitempty"` // default: hmac-sha256
	Secret    string `yaml:"secret,omitempty" secret:"yes"`
	// SecretFile is a file with the secret that others cannot read, instead of Secret.
	SecretFile setting.File `yaml:"secret-file,omitempty"`
}

// A Key is a decoded secret.
type Key struct {
	name      []byte // wire form, lower case
	algorithm []byte // the same
	text      string // the name in presentation form
	hash      func() hash.Hash
	secret    []byte
}

// Name returns the key's name, fully qualified and in lower case.
func (k *Key) Name() string { return k.text }

// Keys are secrets by name.
type Keys map[string]*Key

// algorithms are the untruncated ones of RFC 8945 section 6, except HMAC-MD5, which it
// forbids.
var algorithms = map[string]func() hash.Hash{
	"hmac-sha1":   sha1.New,
	"hmac-sha224": sha256.New224,
	"hmac-sha256": sha256.New,
	"hmac-sha384": sha512.New384,
	"hmac-sha512": sha512.New,
}

// minSecret is the minimum length of a secret, in bytes.
const minSecret = 16

// NewKeys reads the secrets.
func NewKeys(config []KeyConfig) (Keys, error) {
	keys := Keys{}
	for i, c := range config {
		k, err := newKey(c)
		if err != nil {
			return nil, setting.At(fmt.Sprintf("[%d]", i), err)
		}
		if keys[k.text] != nil {
			return nil, setting.At(fmt.Sprintf("[%d].name", i), fmt.Errorf("there are two keys called %q", c.Name))
		}
		keys[k.text] = k
	}
	return keys, nil
}

func newKey(c KeyConfig) (*Key, error) {
	if _, ok := miekg.IsDomainName(c.Name); !ok || c.Name == "" || c.Name == "." {
		return nil, setting.At("name", fmt.Errorf("%q is not a domain name such as \"to-secondary.example.\"", c.Name))
	}
	name := strings.TrimSuffix(strings.ToLower(c.Algorithm), ".")
	if name == "" {
		name = "hmac-sha256"
	}
	newHash, ok := algorithms[name]
	if !ok {
		return nil, setting.At("algorithm", fmt.Errorf("%q is not one of hmac-sha1, hmac-sha224, hmac-sha256, hmac-sha384, hmac-sha512", c.Algorithm))
	}
	secret, at := c.Secret, "secret"
	switch {
	case c.Secret != "" && c.SecretFile != "":
		return nil, setting.At("secret-file", errors.New("the secret is given too: remove one of the two"))
	case c.SecretFile != "":
		at = "secret-file"
		info, err := os.Stat(string(c.SecretFile))
		if err != nil {
			return nil, setting.At(at, err)
		}
		if mode := info.Mode().Perm(); mode&0o027 != 0 {
			return nil, setting.At(at, fmt.Errorf("mode %04o of %q lets others read it; chmod 600 it", mode, c.SecretFile))
		}
		b, err := os.ReadFile(string(c.SecretFile))
		if err != nil {
			return nil, setting.At(at, err)
		}
		secret = strings.TrimSpace(string(b))
	}
	b, err := base64.StdEncoding.DecodeString(secret)
	if err != nil {
		return nil, setting.At(at, errors.New("the secret is not base64; make one with: openssl rand -base64 32"))
	}
	if len(b) < minSecret {
		return nil, setting.At(at, fmt.Errorf("the secret has %d bytes, at least %d are needed; make one with: openssl rand -base64 32", len(b), minSecret))
	}
	k := &Key{text: zone.Canonical(c.Name), hash: newHash, secret: b}
	if k.name, err = dns.Name(c.Name); err != nil {
		return nil, setting.At("name", err)
	}
	if k.algorithm, err = dns.Name(name); err != nil {
		return nil, setting.At("algorithm", err)
	}
	return k, nil
}

// TSIG error codes, RFC 8945 section 3. BADTRUNC is for truncated MACs, which we do not
// accept.
const (
	badSig   = 16
	badKey   = 17
	badTime  = 18
	badTrunc = 22
)

// fudge is the permitted difference of clocks, in seconds (RFC 8945 section 10).
const fudge = 300

// A record is a parsed TSIG record.
type record struct {
	at        int    // offset in its message
	name      []byte // wire form, lower case
	algorithm []byte
	time      uint64 // seconds since 1970, 48 bits
	fudge     uint16
	mac       []byte
	id        uint16
	code      uint16
	other     []byte
}

var errTSIG = errors.New("a TSIG record that cannot be read")

// readTSIG parses the TSIG record that begins at at and must end msg.
func readTSIG(msg []byte, at int) (record, error) {
	r := record{at: at}
	name, off, err := dns.ReadName(nil, msg, at)
	if err != nil || off+10 > len(msg) {
		return r, errTSIG
	}
	r.name = name
	if binary.BigEndian.Uint16(msg[off:]) != miekg.TypeTSIG || binary.BigEndian.Uint16(msg[off+2:]) != miekg.ClassANY {
		return r, errTSIG
	}
	end := off + 10 + int(binary.BigEndian.Uint16(msg[off+8:]))
	if end != len(msg) {
		return r, errTSIG
	}
	if r.algorithm, off, err = dns.ReadName(nil, msg, off+10); err != nil || off+10 > end {
		return r, errTSIG
	}
	r.time = uint64(binary.BigEndian.Uint16(msg[off:]))<<32 | uint64(binary.BigEndian.Uint32(msg[off+2:]))
	r.fudge = binary.BigEndian.Uint16(msg[off+6:])
	n := int(binary.BigEndian.Uint16(msg[off+8:]))
	off += 10
	if off+n+6 > end {
		return r, errTSIG
	}
	r.mac = msg[off : off+n]
	off += n
	r.id, r.code = binary.BigEndian.Uint16(msg[off:]), binary.BigEndian.Uint16(msg[off+2:])
	n = int(binary.BigEndian.Uint16(msg[off+4:]))
	off += 6
	if off+n != end {
		return r, errTSIG
	}
	r.other = msg[off:end]
	return r, nil
}

// findTSIG returns the offset of the TSIG record of a message, 0 if it has none. It is the
// last record of the additional section.
func findTSIG(msg []byte) (int, error) {
	if len(msg) < 12 {
		return 0, errShort
	}
	off, err := dns.SkipQuestions(msg)
	if err != nil {
		return 0, errShort
	}
	total := 0
	for i := 6; i < 12; i += 2 {
		total += int(binary.BigEndian.Uint16(msg[i:]))
	}
	for i := range total {
		x, err := dns.ReadRecord(msg, off)
		if err != nil {
			return 0, errShort
		}
		off = x.End
		if x.Type != miekg.TypeTSIG {
			continue
		}
		if i != total-1 || off != len(msg) || binary.BigEndian.Uint16(msg[10:]) == 0 {
			return 0, errTSIG
		}
		return x.Owner, nil
	}
	return 0, nil
}

var errShort = errors.New("a message that ends too early")

// variables returns the data that a MAC covers besides the message: all of the record for the
// first of a stream, only the times for later ones (RFC 8945 section 5.3.1).
func (r *record) variables(timers bool) []byte {
	var b []byte
	if !timers {
		b = append(b, r.name...)
		b = append(b, 0, miekg.ClassANY, 0, 0, 0, 0)
		b = append(b, r.algorithm...)
	}
	b = append(b, byte(r.time>>40), byte(r.time>>32))
	b = binary.BigEndian.AppendUint32(b, uint32(r.time))
	b = binary.BigEndian.AppendUint16(b, r.fudge)
	if !timers {
		b = binary.BigEndian.AppendUint16(b, r.code)
		b = binary.BigEndian.AppendUint16(b, uint16(len(r.other)))
		b = append(b, r.other...)
	}
	return b
}

// unsigned returns msg as it was before the record was added.
func (r *record) unsigned(msg []byte) []byte {
	b := bytes.Clone(msg[:r.at])
	binary.BigEndian.PutUint16(b, r.id)
	binary.BigEndian.PutUint16(b[10:], binary.BigEndian.Uint16(b[10:])-1)
	return b
}

// append appends the record to msg and counts it.
func (r *record) append(msg []byte) []byte {
	msg = append(msg, r.name...)
	msg = append(msg, 0, byte(miekg.TypeTSIG), 0, miekg.ClassANY, 0, 0, 0, 0, 0, 0)
	at := len(msg)
	msg = append(msg, r.algorithm...)
	msg = append(msg, byte(r.time>>40), byte(r.time>>32))
	msg = binary.BigEndian.AppendUint32(msg, uint32(r.time))
	msg = binary.BigEndian.AppendUint16(msg, r.fudge)
	msg = binary.BigEndian.AppendUint16(msg, uint16(len(r.mac)))
	msg = append(msg, r.mac...)
	msg = binary.BigEndian.AppendUint16(msg, r.id)
	msg = binary.BigEndian.AppendUint16(msg, r.code)
	msg = binary.BigEndian.AppendUint16(msg, uint16(len(r.other)))
	msg = append(msg, r.other...)
	binary.BigEndian.PutUint16(msg[at-2:], uint16(len(msg)-at))
	binary.BigEndian.PutUint16(msg[10:], binary.BigEndian.Uint16(msg[10:])+1)
	return msg
}

// A session signs or verifies the messages of one exchange. Each MAC covers the previous one.
type session struct {
	key   *Key
	prior []byte // the previous MAC: of the request, then of the last signed message
	later bool   // a message was signed already: cover only the times
	loose hash.Hash
	count int // messages since the last MAC
}

// mac returns the MAC of msg, which has no TSIG record, with r's variables.
func (s *session) mac(msg []byte, r *record) []byte {
	h := s.loose
	if h == nil {
		h = s.begin()
	}
	h.Write(msg)
	h.Write(r.variables(s.later))
	return h.Sum(nil)
}

func (s *session) begin() hash.Hash {
	h := hmac.New(s.key.hash, s.key.secret)
	if s.prior != nil {
		h.Write([]byte{byte(len(s.prior) >> 8), byte(len(s.prior))})
		h.Write(s.prior)
	}
	return h
}

// sign appends a TSIG record to msg. code is the error of the request, or 0; with badTime,
// asked is the time in the request (RFC 8945 section 5.2.3).
func (s *session) sign(msg []byte, now time.Time, code uint16, asked uint64) []byte {
	r := record{
		name: s.key.name, algorithm: s.key.algorithm, time: uint64(now.Unix()), fudge: fudge,
		id: binary.BigEndian.Uint16(msg), code: code,
	}
	if code == badTime {
		r.other = binary.BigEndian.AppendUint32([]byte{byte(r.time >> 40), byte(r.time >> 32)}, uint32(r.time))
		r.time = asked
	}
	r.mac = s.mac(msg, &r)
	s.prior, s.later, s.loose = r.mac, true, nil
	return r.append(msg)
}

// maxLoose bounds the successive messages without a MAC (RFC 8945 section 5.3.1).
const maxLoose = 99

// verify verifies the next message of a stream of answers and returns it without its TSIG
// record. Not every message has one; whole reports whether all messages so far are covered.
func (s *session) verify(msg []byte, now time.Time) (plain []byte, whole bool, err error) {
	at, err := findTSIG(msg)
	if err != nil {
		return nil, false, err
	}
	if at == 0 {
		if !s.later {
			return nil, false, fmt.Errorf("the answer is not signed, but key %q was used for the question", s.key.text)
		}
		if s.count++; s.count > maxLoose {
			return nil, false, fmt.Errorf("%d messages in a row without a signature", s.count)
		}
		if s.loose == nil {
			s.loose = s.begin()
		}
		s.loose.Write(msg)
		return msg, false, nil
	}
	r, err := readTSIG(msg, at)
	if err != nil {
		return nil, false, err
	}
	switch {
	case !bytes.Equal(r.name, s.key.name) || !bytes.Equal(r.algorithm, s.key.algorithm):
		return nil, false, errors.New("the answer is signed with another key than the question")
	case r.code != 0 && len(r.mac) == 0:
		return nil, false, fmt.Errorf("the other server refuses key %q: %s", s.key.text, codeName(r.code))
	}
	plain = r.unsigned(msg)
	if !hmac.Equal(s.mac(plain, &r), r.mac) {
		return nil, false, fmt.Errorf("the signature with key %q is wrong: do both sides have the same secret?", s.key.text)
	}
	if r.code != 0 {
		return nil, false, fmt.Errorf("the other server refuses key %q: %s", s.key.text, codeName(r.code))
	}
	if !r.isCurrent(now) {
		return nil, false, fmt.Errorf("the signature is of %s, and it is %s: is a clock wrong?",
			time.Unix(int64(r.time), 0).UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	s.prior, s.later, s.loose, s.count = bytes.Clone(r.mac), true, nil, 0
	return plain, true, nil
}

func (r *record) isCurrent(now time.Time) bool {
	d := int64(r.time) - now.Unix()
	return -int64(r.fudge) <= d && d <= int64(r.fudge)
}

func codeName(code uint16) string {
	switch code {
	case badSig:
		return "BADSIG"
	case badKey:
		return "BADKEY"
	case badTime:
		return "BADTIME"
	case badTrunc:
		return "BADTRUNC"
	}
	return fmt.Sprintf("error %d", code)
}

// authenticate verifies a request, whose TSIG record begins at at. code is 0 if it is valid;
// key is nil if no key can sign an answer.
func (keys Keys) authenticate(msg []byte, at int, now time.Time) (key *Key, r record, code uint16, err error) {
	r, err = readTSIG(msg, at)
	if err != nil {
		return nil, r, 0, err
	}
	for _, k := range keys {
		if bytes.Equal(k.name, r.name) && bytes.Equal(k.algorithm, r.algorithm) {
			key = k
		}
	}
	if key == nil {
		return nil, r, badKey, nil
	}
	want := (&session{key: key}).mac(r.unsigned(msg), &r)
	if len(r.mac) < len(want) && len(r.mac) >= max(10, len(want)/2) && hmac.Equal(want[:len(r.mac)], r.mac) {
		return key, r, badTrunc, nil
	}
	if !hmac.Equal(want, r.mac) {
		return nil, r, badSig, nil
	}
	if !r.isCurrent(now) {
		return key, r, badTime, nil
	}
	return key, r, 0, nil
}

// answer appends the TSIG record of an answer to a request that authenticate has read.
func (r *record) answer(key *Key, code uint16, reply []byte, now time.Time) []byte {
	if key == nil { // an error that cannot be signed
		out := record{
			name: r.name, algorithm: r.algorithm, time: uint64(now.Unix()), fudge: fudge,
			id: binary.BigEndian.Uint16(reply), code: code,
		}
		return out.append(reply)
	}
	s := session{key: key, prior: bytes.Clone(r.mac)}
	return s.sign(reply, now, code, r.time)
}
