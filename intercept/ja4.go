package intercept

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// JA4 returns the client's JA4 fingerprint: the public form of FoxIO's
// "JA4: TLS Client Fingerprinting" for TLS over TCP, as
// t13d1516h2_8daaf6152771_e5627efa2ab1. It is 36 characters long. Clients of
// one kind and version have the same one, whatever order they send things in.
func (h *Hello) JA4() string {
	b := make([]byte, 0, 36)
	b = append(b, 't')
	b = append(b, ja4Version(h.Version())...)
	if h.named {
		b = append(b, 'd')
	} else {
		b = append(b, 'i')
	}
	b = appendCount(b, len(h.Ciphers))
	b = appendCount(b, len(h.Extensions))
	b = appendEnds(b, h.Protocols)

	ciphers := slices.Sorted(slices.Values(h.Ciphers))
	b = appendHash(append(b, '_'), ciphers, nil)

	// The first part covers these two.
	exts := slices.DeleteFunc(slices.Clone(h.Extensions), func(e uint16) bool {
		return e == extServerName || e == extProtocols
	})
	slices.Sort(exts)
	return string(appendHash(append(b, '_'), exts, h.Signatures))
}

func ja4Version(v uint16) string {
	switch v {
	case 0x0304:
		return "13"
	case 0x0303:
		return "12"
	case 0x0302:
		return "11"
	case 0x0301:
		return "10"
	case 0x0300:
		return "s3"
	case 0x0002:
		return "s2"
	}
	return "00"
}

func appendCount(b []byte, n int) []byte {
	n = min(n, 99)
	return append(b, byte('0'+n/10), byte('0'+n%10))
}

// appendEnds appends the first and last character of the first protocol, or of its bytes in
// hex if one of the two is neither letter nor digit.
func appendEnds(b []byte, protocols []string) []byte {
	if len(protocols) == 0 || protocols[0] == "" {
		return append(b, "00"...)
	}
	p := protocols[0]
	first, last := p[0], p[len(p)-1]
	if alphanumeric(first) && alphanumeric(last) {
		return append(b, first, last)
	}
	const digits = "0123456789abcdef"
	return append(b, digits[first>>4], digits[last&15])
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// appendHash appends the first 12 hex digits of the SHA-256 of a list, followed by a second
// list if there is one.
func appendHash(b []byte, list, second []uint16) []byte {
	if len(list) == 0 {
		return append(b, "000000000000"...)
	}
	text := appendHex(make([]byte, 0, 512), list)
	if len(second) > 0 {
		text = appendHex(append(text, '_'), second)
	}
	sum := sha256.Sum256(text)
	return hex.AppendEncode(b, sum[:6])
}

func appendHex(b []byte, list []uint16) []byte {
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = hex.AppendEncode(b, []byte{byte(v >> 8), byte(v)})
	}
	return b
}
