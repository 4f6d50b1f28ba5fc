package intercept

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"encoding/xml"
	"fmt"
	"math/big"
	"strings"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"shuultuur/lib/release"
)

// formats are the formats of Export, by their usual file extensions.
var formats = []string{"pem", "der", "p12", "mobileconfig"}

// Formats returns the names of the formats that Export knows.
func Formats() []string { return append([]string(nil), formats...) }

// Export returns the root's certificate, never its key, for clients:
//   - pem: text, for Unix systems and Firefox
//   - der: for Windows and Android
//   - p12: a PKCS#12 trust store, for Java and programs that want one; the
//     only format with a password
//   - mobileconfig: a profile for iOS and macOS
func (r *Root) Export(format, password string) ([]byte, error) {
	switch format {
	case "pem":
		return pemCertificate(r.Certificate), nil
	case "der":
		return bytes.Clone(r.Certificate.Raw), nil
	case "p12":
		if release.Small {
			return nil, release.Lacks("PKCS#12")
		}
		b, err := pkcs12.Modern2023.EncodeTrustStore([]*x509.Certificate{r.Certificate}, password)
		if err != nil {
			return nil, fmt.Errorf("write a PKCS#12 trust store: %w", err)
		}
		return b, nil
	case "mobileconfig":
		return r.profile()
	}
	return nil, fmt.Errorf("format %q: must be one of %s", format, strings.Join(formats, ", "))
}

// FromPKCS12 returns what a PKCS#12 file (RFC 7292) has for a server: its certificate with the
// authorities that signed it, and its private key, both in PEM. The file says how often its
// password is hashed, which may take hours, so more than 5,000,000 times are refused. Parts that
// only the password decrypts may ask for more: it gives up after limit, and the hashing of these
// goes on until the program ends.
func FromPKCS12(data []byte, password string, limit time.Duration) (certificates, key []byte, err error) {
	var (
		private     any
		cert        *x509.Certificate
		authorities []*x509.Certificate
	)
	if n := iterations(data, 0); n > maxIterations {
		return nil, nil, fmt.Errorf("it asks for too many iterations: %d, of at most %d; export it again with fewer", n, maxIterations)
	}
	done := make(chan error, 1)
	go func() {
		var err error
		private, cert, authorities, err = pkcs12.DecodeChain(data, password)
		done <- err
	}()
	select {
	case err = <-done:
	case <-time.After(limit):
		return nil, nil, fmt.Errorf("decrypting it takes more than %v; it asks for too many iterations", limit)
	}
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range append([]*x509.Certificate{cert}, authorities...) {
		certificates = append(certificates, pemCertificate(c)...)
	}
	return certificates, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// maxIterations is the most times that a password is hashed. Programs choose 2,000 to 1,000,000.
const maxIterations = 5_000_000

// iterations returns how often the parts of a PKCS#12 file that are not encrypted ask for a
// password to be hashed: it adds up the integers that follow a salt.
func iterations(der []byte, depth int) (n int64) {
	salted := false
	for len(der) > 0 && depth < 32 {
		var v asn1.RawValue
		rest, err := asn1.Unmarshal(der, &v)
		if err != nil {
			return n
		}
		plain := v.Class == asn1.ClassUniversal && !v.IsCompound
		if v.IsCompound || plain && v.Tag == asn1.TagOctetString {
			n += iterations(v.Bytes, depth+1)
		} else if plain && v.Tag == asn1.TagInteger && salted {
			n += new(big.Int).SetBytes(v.Bytes[:min(len(v.Bytes), 5)]).Int64()
		}
		salted, der = plain && v.Tag == asn1.TagOctetString, rest
	}
	return n
}

// Fingerprints returns the SHA-256 and SHA-1 of a certificate in the form in which systems
// show them, for people to compare: upper case, with colons.
func Fingerprints(c *x509.Certificate) (sha256Sum, sha1Sum string) {
	long, short := sha256.Sum256(c.Raw), sha1.Sum(c.Raw)
	return colons(long[:]), colons(short[:])
}

func colons(b []byte) string {
	return strings.ReplaceAll(fmt.Sprintf("% X", b), " ", ":")
}

// profile returns an Apple configuration profile. Its identifiers are derived from the
// certificate, so that installing it again replaces it.
func (r *Root) profile() ([]byte, error) {
	var name bytes.Buffer
	if err := xml.EscapeText(&name, []byte(r.Certificate.Subject.CommonName)); err != nil {
		return nil, fmt.Errorf("write a profile: %w", err)
	}
	return []byte(strings.NewReplacer(
		"{name}", name.String(),
		"{certificate}", base64.StdEncoding.EncodeToString(r.Certificate.Raw),
		"{inner}", uuid("certificate", r.Certificate.Raw),
		"{outer}", uuid("profile", r.Certificate.Raw),
	).Replace(profileText)), nil
}

// uuid returns a UUID of version 8 (RFC 9562 section 5.8) derived from what and of.
func uuid(what string, of []byte) string {
	h := sha256.New()
	h.Write([]byte(what))
	h.Write(of)
	b := h.Sum(nil)
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%X-%X-%X-%X-%X", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

const profileText = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>PayloadContent</key>
	<array>
		<dict>
			<key>PayloadCertificateFileName</key>
			<string>root.cer</string>
			<key>PayloadContent</key>
			<data>{certificate}</data>
			<key>PayloadDisplayName</key>
			<string>{name}</string>
			<key>PayloadIdentifier</key>
			<string>shuultuur.root.{inner}</string>
			<key>PayloadType</key>
			<string>com.apple.security.root</string>
			<key>PayloadUUID</key>
			<string>{inner}</string>
			<key>PayloadVersion</key>
			<integer>1</integer>
		</dict>
	</array>
	<key>PayloadDescription</key>
	<string>Lets this device trust the web filter of its network.</string>
	<key>PayloadDisplayName</key>
	<string>{name}</string>
	<key>PayloadIdentifier</key>
	<string>shuultuur.profile.{outer}</string>
	<key>PayloadRemovalDisallowed</key>
	<false/>
	<key>PayloadType</key>
	<string>Configuration</string>
	<key>PayloadUUID</key>
	<string>{outer}</string>
	<key>PayloadVersion</key>
	<integer>1</integer>
</dict>
</plist>
`
