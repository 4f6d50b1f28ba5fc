package kafka

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"

	"shuultuur/event"
	"shuultuur/setting"
)

// A sasl authenticates (KIP-43, KIP-152).
type sasl struct {
	mechanism, user, password string
	hash                      func() hash.Hash // of SCRAM
	size                      int
}

// newSASL reads the settings. It returns nil if no user is set.
func newSASL(cfg event.Kafka) (*sasl, error) {
	s := &sasl{user: cfg.User, password: cfg.Password}
	switch cfg.Mechanism {
	case "plain":
		s.mechanism = "PLAIN"
		if !cfg.TLS && cfg.User != "" {
			return nil, setting.At("mechanism", errors.New("plain sends the password as it is: set tls, or use scram-sha-512"))
		}
	case "scram-sha-256":
		s.mechanism, s.hash, s.size = "SCRAM-SHA-256", sha256.New, sha256.Size
	case "", "scram-sha-512":
		s.mechanism, s.hash, s.size = "SCRAM-SHA-512", sha512.New, sha512.Size
	default:
		return nil, setting.At("mechanism", fmt.Errorf("%q is not one of plain, scram-sha-256 and scram-sha-512", cfg.Mechanism))
	}
	switch {
	case cfg.User == "" && (cfg.Password != "" || cfg.Mechanism != ""):
		return nil, setting.At("user", errors.New("is missing"))
	case cfg.User == "":
		return nil, nil
	case strings.ContainsRune(cfg.User+cfg.Password, 0):
		return nil, setting.At("user", errors.New("user and password must not contain zero bytes"))
	}
	return s, nil
}

// signIn authenticates a connection.
func (s *sasl) signIn(ctx context.Context, c *conn) error {
	res, err := c.call(ctx, handshakeKey, handshakeVersion, func(m *writer) { m.string(s.mechanism) })
	if err != nil {
		return err
	}
	code, known := res.i16(), []string(nil)
	for range res.count() {
		known = append(known, res.string())
	}
	if code != errorNone {
		return fmt.Errorf("%w: it knows %s", errorOf(code), strings.Join(known, ", "))
	}
	if s.hash == nil {
		_, err := authenticate(ctx, c, "\x00"+s.user+"\x00"+s.password)
		return err
	}
	return s.scram(ctx, c)
}

// authenticate sends one message of the mechanism and returns the answer.
func authenticate(ctx context.Context, c *conn, message string) (string, error) {
	res, err := c.call(ctx, authenticateKey, 0, func(m *writer) { m.bytes([]byte(message)) })
	if err != nil {
		return "", err
	}
	code, text, answer := res.i16(), res.string(), res.bytes()
	switch {
	case res.err != nil:
		return "", res.err
	case code != errorNone:
		return "", fmt.Errorf("%w: %s", errorOf(code), text)
	}
	return string(answer), nil
}

// scram authenticates by SCRAM (RFC 5802), and verifies that the broker knows
// the password.
func (s *sasl) scram(ctx context.Context, c *conn) error {
	nonce := rand.Text()
	first := "n=" + strings.NewReplacer("=", "=3D", ",", "=2C").Replace(s.user) + ",r=" + nonce
	challenge, err := authenticate(ctx, c, "n,,"+first)
	if err != nil {
		return err
	}
	final, signature, err := s.answer(first, nonce, challenge)
	if err != nil {
		return err
	}
	proof, err := authenticate(ctx, c, final)
	if err != nil {
		return err
	}
	text, ok := strings.CutPrefix(proof, "v=")
	text, _, _ = strings.Cut(text, ",")
	if got, err := base64.StdEncoding.DecodeString(text); !ok || err != nil || !hmac.Equal(got, signature) {
		return errors.New("the broker does not know the password: it may be a different broker")
	}
	return nil
}

// answer returns our answer to a challenge and the signature that the broker
// must return.
func (s *sasl) answer(first, nonce, challenge string) (final string, signature []byte, err error) {
	var both, salt string
	rounds := 0
	for part := range strings.SplitSeq(challenge, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "r":
			both = value
		case "s":
			salt = value
		case "i":
			rounds, _ = strconv.Atoi(value) // an invalid number becomes 0, which is refused below
		}
	}
	salted, err := base64.StdEncoding.DecodeString(salt)
	// The bound limits computing time; Kafka's brokers use 4096.
	if err != nil || len(salted) == 0 || !strings.HasPrefix(both, nonce) || len(both) == len(nonce) || rounds < 4096 || rounds > 1<<20 {
		return "", nil, fmt.Errorf("the broker sends an invalid challenge: %.100q", challenge)
	}
	password, err := pbkdf2.Key(s.hash, s.password, salted, rounds, s.size)
	if err != nil {
		return "", nil, err
	}
	sum := func(key []byte, text string) []byte {
		m := hmac.New(s.hash, key)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	client := sum(password, "Client Key")
	h := s.hash()
	h.Write(client)
	final = "c=biws,r=" + both
	all := first + "," + challenge + "," + final
	proof := bytes.Clone(client)
	for i, b := range sum(h.Sum(nil), all) {
		proof[i] ^= b
	}
	return final + ",p=" + base64.StdEncoding.EncodeToString(proof), sum(sum(password, "Server Key"), all), nil
}
