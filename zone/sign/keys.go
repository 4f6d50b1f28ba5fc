package sign

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/atomicfile"
)

// A Key is a DNSKEY with its private key.
type Key struct {
	*miekg.DNSKEY
	Tag uint16 // RFC 4034 appendix B

	private crypto.Signer

	// When the key is in the zone, and when it signs; a zero time means no bound. These are the
	// times in BIND's key files.
	publish, activate, inactive, remove time.Time
	// When the parent is asked for its DS (CDS and CDNSKEY, RFC 7344), and when the DS was seen
	// there.
	syncPublish, syncDelete, dsPublish time.Time
	// predecessor is the tag of the key that it replaces, 0 if there is none.
	predecessor uint16

	file  string      // the file it was read from
	owner os.FileInfo // a file with the owner for files of this key
}

// KSK reports whether the key signs the other keys (the Secure Entry Point flag, RFC 4034
// section 2.1.1).
func (k *Key) KSK() bool { return k.Flags&miekg.SEP != 0 }

// published and active report the state of the key at a time.
func (k *Key) published(now time.Time) bool {
	return !now.Before(k.publish) && (k.remove.IsZero() || now.Before(k.remove))
}

func (k *Key) active(now time.Time) bool {
	return k.published(now) && !now.Before(k.activate) && (k.inactive.IsZero() || now.Before(k.inactive))
}

// synced reports whether the parent is asked for the key's DS. A successor has to wait until a
// time is set.
func (k *Key) synced(now time.Time) bool {
	if k.predecessor != 0 && k.syncPublish.IsZero() {
		return false
	}
	return !now.Before(k.syncPublish) && (k.syncDelete.IsZero() || now.Before(k.syncDelete))
}

// Algorithms returns the names of the algorithms for new keys: the two that RFC 8624
// recommends for signing and that keep answers small.
func Algorithms() []string { return []string{"ecdsap256sha256", "ed25519"} }

// Generate makes a key for the zone origin, with an algorithm of [Algorithms]. A ksk signs the
// other keys, or the whole zone when it is the only key.
func Generate(origin, algorithm string, ksk bool) (*Key, error) {
	if _, ok := miekg.IsDomainName(origin); !ok {
		return nil, fmt.Errorf("generate a key: %q is not a domain name", origin)
	}
	flags := uint16(miekg.ZONE)
	if ksk {
		flags |= miekg.SEP
	}
	record := &miekg.DNSKEY{
		Hdr:   miekg.RR_Header{Name: miekg.CanonicalName(origin), Rrtype: miekg.TypeDNSKEY, Class: miekg.ClassINET, Ttl: 3600},
		Flags: flags, Protocol: 3,
	}
	bits := 256
	switch strings.ToLower(algorithm) {
	case "ecdsap256sha256", "13":
		record.Algorithm = miekg.ECDSAP256SHA256
	case "ed25519", "15":
		record.Algorithm = miekg.ED25519
	default:
		return nil, fmt.Errorf("generate a key: algorithm %q is not one of %s", algorithm, strings.Join(Algorithms(), ", "))
	}
	for {
		private, err := record.Generate(bits)
		if err != nil {
			return nil, fmt.Errorf("generate a key for %q: %w", origin, err)
		}
		// Some software cannot distinguish a tag of zero from no tag.
		if tag := record.KeyTag(); tag != 0 {
			return &Key{DNSKEY: record, Tag: tag, private: private.(crypto.Signer)}, nil
		}
	}
}

// Name returns BIND's name for the key's files, without their ending:
// "Kexample.com.+013+02371".
func (k *Key) Name() string {
	return fmt.Sprintf("K%s+%03d+%05d", strings.ReplaceAll(k.Hdr.Name, "/", "_"), k.Algorithm, k.Tag)
}

// MakeKeys makes keys for a zone in a folder, which is made if need be: one that the parent zone knows
// and one that signs the records, or one for both. It returns their files.
func MakeKeys(dir, origin, algorithm string, single bool) (files []string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the keys: %w", err)
	}
	kinds := []bool{true, false}
	if single {
		kinds = kinds[:1]
	}
	for _, ksk := range kinds {
		k, err := Generate(origin, algorithm, ksk)
		if err != nil {
			return files, err
		}
		file, err := k.Write(dir)
		if err != nil {
			return files, fmt.Errorf("keeping a key: %w", err)
		}
		files = append(files, file)
	}
	return files, nil
}

// Write writes the key to folder dir as two files in BIND's format, NAME.key and NAME.private,
// both readable only by their owner, and returns the path of the first. It does not overwrite
// files.
func (k *Key) Write(dir string) (string, error) {
	base := filepath.Join(dir, k.Name())
	private := k.PrivateKeyString(k.private)
	if private == "" {
		return "", fmt.Errorf("write the key %q: its private half cannot be written", base)
	}
	// BIND signs with a key only when its file has a time.
	now := time.Now()
	if k.publish.IsZero() {
		k.publish, k.activate = now, now
	}
	private += "Created: " + now.UTC().Format(keyTime) + "\n" + k.timings()
	role := "zone-signing key"
	if k.KSK() {
		role = "key-signing key"
	}
	public := fmt.Sprintf("; This is a %s, keyid %d, for %s\n%s\n", role, k.Tag, k.Hdr.Name, k.DNSKEY)
	if err := k.writeNew(base+".private", private); err != nil {
		return "", err
	}
	if err := k.writeNew(base+".key", public); err != nil {
		return "", err
	}
	return base + ".key", nil
}

func (k *Key) writeNew(path, text string) error {
	err := atomicfile.Create(path, 0o600, func(f *os.File) error {
		if k.owner != nil {
			if err := chown(f, k.owner); err != nil {
				return err
			}
		}
		_, err := f.WriteString(text)
		return err
	})
	if err != nil {
		return fmt.Errorf("write a key: %w", err)
	}
	return nil
}

// maxKeyText bounds a key's text, in bytes: an RSA key of 4096 bits takes 4 KiB.
const maxKeyText = 64 << 10

// Load reads a key. path is its .key file, its .private file, or their common name. It refuses
// a private file that others than its owner and the owner's group may read, or that the group
// may write.
func Load(path string) (*Key, error) {
	base := Base(path)
	public, err := readBounded(base + ".key")
	if err != nil {
		return nil, fmt.Errorf("read the key %q: %w", path, err)
	}
	info, err := os.Stat(base + ".private")
	if err != nil {
		return nil, fmt.Errorf("read the key %q: %w", path, err)
	}
	if mode := info.Mode().Perm(); mode&0o027 != 0 {
		return nil, fmt.Errorf("read the key %q: mode %04o lets others read it; chmod 600 it (and make a new key if others may have read it)", base+".private", mode)
	}
	private, err := readBounded(base + ".private")
	if err != nil {
		return nil, fmt.Errorf("read the key %q: %w", path, err)
	}
	k, err := Parse(public, private)
	if err != nil {
		return nil, fmt.Errorf("read the key %q: %w", path, err)
	}
	k.file, k.owner = base+".private", info
	return k, nil
}

func readBounded(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKeyText+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxKeyText {
		return "", fmt.Errorf("%q is longer than %d bytes, too long for a key", path, maxKeyText)
	}
	return string(b), nil
}

// LoadDir reads all keys of zone origin in a folder: the files called
// "K" + origin + "+ALG+TAG.private".
func LoadDir(dir, origin string) ([]*Key, error) {
	files, err := keysIn(dir, origin)
	if err != nil {
		return nil, err
	}
	keys := make([]*Key, 0, len(files))
	for _, file := range files {
		k, err := Load(file)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// keysIn lists the private files of a zone's keys in a folder.
func keysIn(dir, origin string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the keys of %q: %w", origin, err)
	}
	prefix := "K" + strings.ReplaceAll(miekg.CanonicalName(origin), "/", "_") + "+"
	var files []string
	for _, e := range entries {
		name := strings.ToLower(e.Name())
		if strings.HasPrefix(name, strings.ToLower(prefix)) && strings.HasSuffix(name, ".private") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("read the keys of %q: %q has no file %s….private: %w", origin, dir, prefix, fs.ErrNotExist)
	}
	return files, nil
}

// Parse makes a key from two texts: a DNSKEY record in presentation form and BIND's
// private-key text. In both, a line may end with a backslash and an n, as in Redis. The keys
// must match.
func Parse(public, private string) (*Key, error) {
	if len(public) > maxKeyText || len(private) > maxKeyText {
		return nil, fmt.Errorf("a key of %d bytes; a key has at most %d", len(public)+len(private), maxKeyText)
	}
	public, private = unfold(public), unfold(private)
	zp := miekg.NewZoneParser(strings.NewReader(public), ".", "")
	zp.SetDefaultTTL(3600)
	rr, _ := zp.Next()
	if err := zp.Err(); err != nil {
		return nil, fmt.Errorf("the public key: %w", err)
	}
	record, ok := rr.(*miekg.DNSKEY)
	if !ok {
		return nil, errors.New("the public key is not a DNSKEY record like \"example.com. 3600 IN DNSKEY 257 3 13 …\"")
	}
	if err := usable(record); err != nil {
		return nil, err
	}
	record.Hdr.Name = miekg.CanonicalName(record.Hdr.Name)
	p, err := privateKey(record, private)
	if err != nil {
		return nil, err
	}
	k := &Key{DNSKEY: record, Tag: record.KeyTag(), private: p}
	if err := k.times(private); err != nil {
		return nil, err
	}
	return k, k.verifyPair()
}

func unfold(s string) string { return strings.ReplaceAll(s, `\n`, "\n") }

// usable refuses keys that cannot sign a zone, and algorithms that validators no longer accept
// (RFC 8624 section 3.1).
func usable(k *miekg.DNSKEY) error {
	switch k.Algorithm {
	case miekg.RSASHA256, miekg.RSASHA512, miekg.ECDSAP256SHA256, miekg.ECDSAP384SHA384, miekg.ED25519:
	default:
		return fmt.Errorf("keys of algorithm %d (%s) are not supported: use 13 (ECDSAP256SHA256) or 15 (ED25519); 8, 10 and 14 can be imported",
			k.Algorithm, miekg.AlgorithmToString[k.Algorithm])
	}
	if k.Flags&miekg.ZONE == 0 {
		return fmt.Errorf("a DNSKEY with flags %d is not a zone key; flags are 256 (ZSK) or 257 (KSK)", k.Flags)
	}
	if k.Flags&miekg.REVOKE != 0 {
		return fmt.Errorf("a DNSKEY with flags %d is revoked", k.Flags)
	}
	if k.Protocol != 3 {
		return fmt.Errorf("a DNSKEY has protocol 3, not %d (RFC 4034 section 2.1.2)", k.Protocol)
	}
	return nil
}

// privateKey parses BIND's text and verifies the conditions of the crypto packages.
func privateKey(record *miekg.DNSKEY, text string) (crypto.Signer, error) {
	p, err := record.ReadPrivateKey(strings.NewReader(text), "private key")
	if err != nil {
		return nil, fmt.Errorf("the private key: %w; it must have lines like \"Private-key-format: v1.3\" and \"Algorithm: …\"", err)
	}
	switch key := p.(type) {
	case *ecdsa.PrivateKey:
		curve, size := elliptic.P256(), 32
		if record.Algorithm == miekg.ECDSAP384SHA384 {
			curve, size = elliptic.P384(), 48
		}
		if key.D == nil || key.D.Sign() <= 0 || key.D.BitLen() > size*8 { //nolint:staticcheck // how the codec gives it
			return nil, errors.New("the private key is not a number of its curve")
		}
		sound, err := ecdsa.ParseRawPrivateKey(curve, key.D.FillBytes(make([]byte, size))) //nolint:staticcheck // as above
		if err != nil {
			return nil, fmt.Errorf("the private key: %w", err)
		}
		return sound, nil
	case ed25519.PrivateKey:
		if len(key) != ed25519.PrivateKeySize {
			return nil, fmt.Errorf("the private key has %d bytes, not %d", len(key), ed25519.PrivateKeySize)
		}
		return key, nil
	case *rsa.PrivateKey:
		if key.N == nil || key.N.BitLen() < 1024 || key.N.BitLen() > 4096 {
			return nil, errors.New("RSA keys have 1024 to 4096 bits (RFC 5702 section 2)")
		}
		for _, prime := range key.Primes {
			if prime == nil || prime.Sign() <= 0 {
				return nil, errors.New("the private key lacks a prime")
			}
		}
		if key.D == nil || len(key.Primes) != 2 {
			return nil, errors.New("the private key lacks its exponent or a prime")
		}
		if err := key.Validate(); err != nil {
			return nil, fmt.Errorf("the private key: %w", err)
		}
		key.Precompute()
		return key, nil
	}
	return nil, fmt.Errorf("the private key is of an unknown kind: %T", p)
}

// keyTime is the form of times in BIND's key files, in UTC.
const keyTime = "20060102150405"

// times parses the times of a key from BIND's text: lines such as "Activate: 20260102030405",
// in UTC.
func (k *Key) times(text string) error {
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		if strings.TrimSpace(name) == "Predecessor" {
			tag, err := strconv.ParseUint(strings.TrimSpace(value), 10, 16)
			if err != nil {
				return fmt.Errorf("the private key: Predecessor %q is not a key tag", strings.TrimSpace(value))
			}
			k.predecessor = uint16(tag)
			continue
		}
		at := k.timing(strings.TrimSpace(name))
		if at == nil {
			continue
		}
		t, err := time.Parse(keyTime, strings.TrimSpace(value))
		if err != nil {
			return fmt.Errorf("the private key: %s %q is not a time such as 20260102030405", name, strings.TrimSpace(value))
		}
		*at = t
	}
	return nil
}

// timeFields returns the times of a key with their names in BIND's files.
func (k *Key) timeFields() []keyTiming {
	return []keyTiming{
		{"Publish", &k.publish}, {"Activate", &k.activate}, {"Inactive", &k.inactive}, {"Delete", &k.remove},
		{"DSPublish", &k.dsPublish}, {"SyncPublish", &k.syncPublish}, {"SyncDelete", &k.syncDelete},
	}
}

type keyTiming struct {
	name string
	at   *time.Time
}

// timing returns a time of a key by its name, nil if there is no such time.
func (k *Key) timing(name string) *time.Time {
	for _, t := range k.timeFields() {
		if t.name == name {
			return t.at
		}
	}
	return nil
}

// timings returns the lines of a private file with the key's times.
func (k *Key) timings() string {
	var b strings.Builder
	for _, t := range k.timeFields() {
		if !t.at.IsZero() {
			fmt.Fprintf(&b, "%s: %s\n", t.name, t.at.UTC().Format(keyTime))
		}
	}
	if k.predecessor != 0 {
		fmt.Fprintf(&b, "Predecessor: %d\n", k.predecessor)
	}
	return b.String()
}

// verifyPair verifies that public and private key match, by signing.
func (k *Key) verifyPair() error {
	rrsig := &miekg.RRSIG{
		Hdr:         miekg.RR_Header{Name: k.Hdr.Name, Rrtype: miekg.TypeRRSIG, Class: miekg.ClassINET},
		TypeCovered: miekg.TypeDNSKEY, Algorithm: k.Algorithm, Labels: uint8(miekg.CountLabel(k.Hdr.Name)),
		OrigTtl: k.Hdr.Ttl, SignerName: k.Hdr.Name, KeyTag: k.Tag, Inception: 1, Expiration: 2,
	}
	set, err := canonical([]miekg.RR{k.DNSKEY}, new([]byte))
	if err != nil {
		return err
	}
	data, err := k.signature(rrsig, set)
	if err != nil {
		return fmt.Errorf("the private key does not sign: %w", err)
	}
	rrsig.Signature = base64.StdEncoding.EncodeToString(data)
	if err := rrsig.Verify(k.DNSKEY, []miekg.RR{k.DNSKEY}); err != nil {
		return fmt.Errorf("the private key is not that of the public key with tag %d: %w", k.Tag, err)
	}
	return nil
}

// sign returns the signature of text in the form of RRSIG: RFC 3110, RFC 6605 or RFC 8080.
func (k *Key) sign(text []byte) ([]byte, error) {
	var hash crypto.Hash
	switch k.Algorithm {
	case miekg.ED25519:
		return k.private.Sign(rand.Reader, text, crypto.Hash(0))
	case miekg.RSASHA256, miekg.ECDSAP256SHA256:
		hash = crypto.SHA256
	case miekg.ECDSAP384SHA384:
		hash = crypto.SHA384
	case miekg.RSASHA512:
		hash = crypto.SHA512
	}
	h := hash.New()
	h.Write(text)
	private, ok := k.private.(*ecdsa.PrivateKey)
	if !ok {
		return k.private.Sign(rand.Reader, h.Sum(nil), hash)
	}
	r, s, err := ecdsa.Sign(rand.Reader, private, h.Sum(nil))
	if err != nil {
		return nil, err
	}
	size := private.Curve.Params().BitSize / 8
	signature := make([]byte, 2*size)
	r.FillBytes(signature[:size])
	s.FillBytes(signature[size:])
	return signature, nil
}

// DS returns the key's record for the parent zone (SHA-256, RFC 4509).
func (k *Key) DS() *miekg.DS { return k.ToDS(miekg.SHA256) }

// sortKeys sorts keys in an order that is the same at each load.
func sortKeys(keys []*Key) {
	slices.SortFunc(keys, func(a, b *Key) int {
		if a.Flags != b.Flags {
			return int(b.Flags) - int(a.Flags)
		}
		if a.Algorithm != b.Algorithm {
			return int(a.Algorithm) - int(b.Algorithm)
		}
		return bytes.Compare([]byte(a.PublicKey), []byte(b.PublicKey))
	})
}
