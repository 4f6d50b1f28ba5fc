package document

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/md5"
	"crypto/rc4"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
)

// This file decrypts PDF with an empty password, which readers open without asking (ISO
// 32000-1 section 7.6; ISO 32000-2 section 7.6.4).

// pdfPadding pads a password (section 7.6.3.3, algorithm 2).
const pdfPadding = "\x28\xBF\x4E\x5E\x4E\x75\x8A\x41\x64\x00\x4E\x56\xFF\xFA\x01\x08\x2E\x2E\x00\xB6\xD0\x68\x3E\x80\x2F\x0C\xA9\xFE\x64\x53\x69\x7A"

// A pdfCipher is the encryption of the strings, or the streams, in a document.
type pdfCipher uint8

const (
	pdfPlain  pdfCipher = iota
	pdfRC4              // a key for each object
	pdfAES              // the same
	pdfAES256           // one key
)

// A pdfCrypt decrypts one document.
type pdfCrypt struct {
	key              []byte
	strings, streams pdfCipher
}

// newPDFCrypt reads the encryption dictionary d of a document whose first identifier is id. It
// returns nil if an empty password does not open it.
func newPDFCrypt(r *pdfReader, d pdfDict, id []byte) *pdfCrypt {
	number := func(name pdfName, missing int) int {
		if f, ok := r.resolve(d[name]).(float64); ok {
			return int(f)
		}
		return missing
	}
	text := func(name pdfName) []byte {
		s, _ := r.resolve(d[name]).([]byte)
		return s
	}
	if filter := r.resolve(d["Filter"]); filter != pdfName("Standard") {
		return nil
	}
	c := &pdfCrypt{strings: pdfRC4, streams: pdfRC4}
	size, revision := number("Length", 40)/8, number("R", 0)
	switch number("V", 0) {
	case 1:
		size = 5
	case 2, 3:
	case 4, 5:
		size = 16
		c.streams, c.strings = r.cipher(d, "StmF"), r.cipher(d, "StrF")
	default:
		return nil
	}
	o, u := text("O"), text("U")
	if revision >= 5 {
		return c.open256(u, text("UE"), revision)
	}
	if len(o) < 32 || len(u) < 16 || size < 5 || size > 16 {
		return nil
	}
	h := md5.New()
	h.Write([]byte(pdfPadding))
	h.Write(o[:32])
	h.Write(binary.LittleEndian.AppendUint32(nil, uint32(int64(number("P", 0)))))
	h.Write(id)
	if metadata, ok := r.resolve(d["EncryptMetadata"]).(pdfWord); ok && metadata == "false" && revision >= 4 {
		h.Write([]byte{0xFF, 0xFF, 0xFF, 0xFF})
	}
	key := h.Sum(nil)
	if revision >= 3 {
		for range 50 {
			sum := md5.Sum(key[:size])
			key = sum[:]
		}
	}
	c.key = key[:size]
	if !c.opens(u, id, revision) {
		return nil
	}
	return c
}

// cipher returns the cipher of the crypt filter that d names under key.
func (r *pdfReader) cipher(d pdfDict, key pdfName) pdfCipher {
	name, _ := r.resolve(d[key]).(pdfName)
	switch r.resolve(r.dict(r.dict(d["CF"])[name])["CFM"]) {
	case pdfName("V2"):
		return pdfRC4
	case pdfName("AESV2"):
		return pdfAES
	case pdfName("AESV3"):
		return pdfAES256
	}
	return pdfPlain
}

// opens reports whether the key is right (algorithms 4 and 5).
func (c *pdfCrypt) opens(u, id []byte, revision int) bool {
	if revision < 3 {
		return bytes.Equal(rc4Of(c.key, []byte(pdfPadding)), u[:min(len(u), 32)])
	}
	sum := md5.Sum(append([]byte(pdfPadding), id...))
	p := sum[:]
	key := make([]byte, len(c.key))
	for i := range byte(20) {
		for k := range key {
			key[k] = c.key[k] ^ i
		}
		p = rc4Of(key, p)
	}
	return bytes.Equal(p, u[:16])
}

// open256 decrypts the 256-bit key in ue (ISO 32000-2, algorithm 2.A).
func (c *pdfCrypt) open256(u, ue []byte, revision int) *pdfCrypt {
	if len(u) < 48 || len(ue) < 32 {
		return nil
	}
	hash := func(salt []byte) []byte {
		sum := sha256.Sum256(salt)
		if revision == 5 {
			return sum[:]
		}
		return pdfHash(sum[:])
	}
	if !bytes.Equal(hash(u[32:40]), u[:32]) {
		return nil
	}
	b, err := aes.NewCipher(hash(u[40:48]))
	if err != nil {
		return nil
	}
	c.key = make([]byte, 32)
	cipher.NewCBCDecrypter(b, make([]byte, 16)).CryptBlocks(c.key, ue[:32])
	return c
}

// pdfHash is algorithm 2.B for an empty password.
func pdfHash(k []byte) []byte {
	for i := 0; ; i++ {
		p := bytes.Repeat(k, 64)
		b, err := aes.NewCipher(k[:16])
		if err != nil {
			return nil
		}
		cipher.NewCBCEncrypter(b, k[16:32]).CryptBlocks(p, p)
		sum := 0
		for _, c := range p[:16] {
			sum += int(c)
		}
		switch sum % 3 {
		case 0:
			s := sha256.Sum256(p)
			k = s[:]
		case 1:
			s := sha512.Sum384(p)
			k = s[:]
		default:
			s := sha512.Sum512(p)
			k = s[:]
		}
		if last := p[len(p)-1]; i >= 63 && int(last) <= i-31 {
			return k[:32]
		}
	}
}

func rc4Of(key, p []byte) []byte {
	out := make([]byte, len(p))
	if c, err := rc4.NewCipher(key); err == nil {
		c.XORKeyStream(out, p)
	}
	return out
}

// undo decrypts p, which belongs to object n of a generation.
func (c *pdfCrypt) undo(how pdfCipher, p []byte, n, generation int) []byte {
	if how == pdfPlain {
		return p
	}
	key := c.key
	if how != pdfAES256 {
		in := append(bytes.Clone(key), byte(n), byte(n>>8), byte(n>>16), byte(generation), byte(generation>>8))
		if how == pdfAES {
			in = append(in, "sAlT"...)
		}
		sum := md5.Sum(in)
		key = sum[:min(len(key)+5, 16)]
	}
	if how == pdfRC4 {
		return rc4Of(key, p)
	}
	b, err := aes.NewCipher(key)
	if err != nil || len(p) < 32 {
		return nil
	}
	out := make([]byte, (len(p)-16)&^15)
	cipher.NewCBCDecrypter(b, p[:16]).CryptBlocks(out, p[16:16+len(out)])
	if pad := int(out[len(out)-1]); pad <= 16 {
		out = out[:len(out)-pad]
	}
	return out
}

// value decrypts the strings in v, which belong to object n.
func (c *pdfCrypt) value(v any, n, generation int) any {
	switch v := v.(type) {
	case []byte:
		return c.undo(c.strings, v, n, generation)
	case []any:
		for i := range v {
			v[i] = c.value(v[i], n, generation)
		}
	case pdfDict:
		for key := range v {
			v[key] = c.value(v[key], n, generation)
		}
	}
	return v
}
