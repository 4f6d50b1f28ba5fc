package sign_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/zone/sign"
)

func TestKeyFilesOfBind(t *testing.T) {
	for _, algorithm := range []string{"RSASHA256", "ECDSAP256SHA256", "ECDSAP384SHA384", "ED25519"} {
		dir := t.TempDir()
		base := strings.TrimSpace(tool(t, "dnssec-keygen", "-q", "-a", algorithm, "-b", "2048", "-f", "KSK", "-K", dir, "example.com"))
		if err := os.Chmod(filepath.Join(dir, base+".private"), 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := sign.Load(filepath.Join(dir, base+".key"))
		if err != nil {
			t.Fatalf("%s: %v", algorithm, err)
		}
		if k.Name() != base {
			t.Errorf("%s: Name() = %q, BIND has %q", algorithm, k.Name(), base)
		}
		want := tool(t, "dnssec-dsfromkey", "-2", filepath.Join(dir, base))
		if got := k.DS().String(); strings.Join(strings.Fields(strings.Replace(got, "\t3600\t", " ", 1)), " ") != strings.ToLower(strings.TrimSpace(want)) &&
			!strings.EqualFold(strings.Join(strings.Fields(strings.Replace(got, "\t3600\t", " ", 1)), " "), strings.TrimSpace(want)) {
			t.Errorf("%s: DS() = %s, BIND has %s", algorithm, got, want)
		}
	}
}

func TestBindReadsOurKeyFiles(t *testing.T) {
	for _, algorithm := range sign.Algorithms() {
		dir := t.TempDir()
		k, err := sign.Generate("example.com", algorithm, true)
		if err != nil {
			t.Fatal(err)
		}
		path, err := k.Write(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{path, strings.TrimSuffix(path, ".key") + ".private"} {
			info, err := os.Stat(p)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v, want 0600", p, info.Mode())
			}
		}
		if _, err := k.Write(dir); err == nil {
			t.Error("Write overwrote a key")
		}
		// BIND signs a zone with them, and its own verifier takes it.
		zoneFile := filepath.Join(dir, "zone")
		text := "example.com. 300 SOA ns hostmaster 1 2 3 4 5\nexample.com. 300 NS ns.example.net.\n"
		if err := os.WriteFile(zoneFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		tool(t, "dnssec-signzone", "-z", "-S", "-K", dir, "-d", dir, "-o", "example.com", zoneFile)
	}
}

// redinsKeys makes the two texts that redins keeps in Redis.
func redinsKeys(t *testing.T, ksk bool) (public, private string) {
	t.Helper()
	k, err := sign.Generate("example.com", "ecdsap256sha256", ksk)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path, err := k.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(strings.TrimSuffix(path, ".key") + ".private")
	if err != nil {
		t.Fatal(err)
	}
	return k.DNSKEY.String(), string(b)
}

func TestKeysOfRedins(t *testing.T) {
	public, private := redinsKeys(t, false)
	for name, text := range map[string]string{"lines": private, "folded": strings.ReplaceAll(private, "\n", `\n`)} {
		k, err := sign.Parse(public, text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if k.KSK() || k.Algorithm != miekg.ECDSAP256SHA256 {
			t.Errorf("%s: got key %v, want an ECDSA P-256 ZSK", name, k)
		}
	}
}

func TestBadKeysAreRefused(t *testing.T) {
	public, private := redinsKeys(t, true)
	other, _ := redinsKeys(t, true)
	for name, tt := range map[string]struct{ public, private, want string }{
		"nothing":        {"", "", "not a DNSKEY record"},
		"not a key":      {"example.com. 300 IN A 192.0.2.1", private, "not a DNSKEY record"},
		"another's half": {other, private, "not that of the public key"},
		"SHA-1":          {strings.Replace(public, "257 3 13", "257 3 5", 1), private, "keys of algorithm 5 (RSASHA1) are not supported"},
		"revoked":        {strings.Replace(public, "257 3 13", "385 3 13", 1), private, "revoked"},
		"not a zone key": {strings.Replace(public, "257 3 13", "1 3 13", 1), private, "not a zone key"},
		"protocol":       {strings.Replace(public, "257 3 13", "257 4 13", 1), private, "protocol 3"},
		"no private":     {public, "", "the private key"},
		"zero":           {public, "Private-key-format: v1.3\nAlgorithm: 13 (ECDSAP256SHA256)\nPrivateKey: AAAA\n", "the private key"},
		"bad time":       {public, private + "Activate: tomorrow\n", `"tomorrow" is not a time`},
	} {
		if _, err := sign.Parse(tt.public, tt.private); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: Parse returned %v, want %q", name, err, tt.want)
		}
	}
	dir := t.TempDir()
	k, err := sign.Generate("example.com", "ed25519", true)
	if err != nil {
		t.Fatal(err)
	}
	path, err := k.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o604, 0o644, 0o620, 0o666} {
		if err := os.Chmod(strings.TrimSuffix(path, ".key")+".private", mode); err != nil {
			t.Fatal(err)
		}
		if _, err := sign.Load(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("Load of a key file with mode %v: got %v, want advice to chmod", mode, err)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	k, err := sign.Generate("example.com", "ecdsap256sha256", true)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(k.DNSKEY.String(), "Private-key-format: v1.3\nAlgorithm: 13 (ECDSAP256SHA256)\nPrivateKey: GU6SnQ/Ou+xC5RumuIUIuJZteXT2z0O/ok1s38Et6mQ=\n")
	f.Add("example.com. IN DNSKEY 257 3 15 l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4=",
		"Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\nPrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=\n")
	f.Add("example.com. IN DNSKEY 256 3 8 AwEAAcw5QLr0IjC0wKbGoBPQv4qmeqHy9mvL5qGQTuaG5TSrNqEAR6b/qvxDx6my4JmEmjUPA1JeEI9YfTUieMr2UZflu7aIbZFLw0vqiYrywCGrCHXLalOrEOmrvAxLvq4vHtuTlH7JIszzYBSes8g1vle6KG7xXiP3U86ls3RjKlDX",
		"Private-key-format: v1.3\nAlgorithm: 8 (RSASHA256)\nModulus: AQ==\nPublicExponent: AQAB\nPrivateExponent: AQ==\nPrime1: AQ==\nPrime2: AQ==\n")
	f.Fuzz(func(t *testing.T, public, private string) {
		k, err := sign.Parse(public, private)
		if err == nil && k.KeyTag() != k.Tag {
			t.Errorf("Tag is %d, but KeyTag() = %d", k.Tag, k.KeyTag())
		}
	})
}

func TestRingKeepsSignersWhoseKeysStay(t *testing.T) {
	ring, err := sign.NewRing(sign.Config{Denial: sign.Compact})
	if err != nil {
		t.Fatal(err)
	}
	zskPub, zskPriv := redinsKeys(t, false)
	kskPub, kskPriv := redinsKeys(t, true)
	folded := strings.ReplaceAll(zskPriv, "\n", `\n`)
	one, err := ring.Signer("example.com", zskPub, folded, kskPub, kskPriv)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ring.Signer("Example.com.", zskPub, folded, kskPub, kskPriv)
	if err != nil || again != one {
		t.Errorf("the same keys gave another signer, or the error %v", err)
	}
	if ds := one.DS(time.Now()); len(ds) != 1 {
		t.Errorf("DS: got %v, want one for the KSK only", ds)
	}
	other, err := ring.Signer("example.com", zskPub, folded, "", "")
	if err != nil || other == one {
		t.Errorf("other keys gave the same signer, or the error %v", err)
	}
	if _, err := ring.Signer("example.com", zskPub, kskPriv); err == nil {
		t.Error("Signer accepted a public and a private key that do not match")
	}
}
