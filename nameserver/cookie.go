package nameserver

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// Server cookies as in RFC 9018, so that servers of different vendors behind
// one address accept each other's: version 1, three reserved bytes, time, and
// SipHash-2-4 over the client's cookie, these and its address.

const (
	cookieLen = 24 // the client's 8 bytes and ours
	cookieNew = 1800
	cookieOld = 3600
	cookieAhd = 300
)

// checkCookie reports whether a cookie is ours for this client and not expired,
// and whether it is too young to be renewed. now is in seconds since 1970.
func checkCookie(key *[16]byte, cookie []byte, client netip.Addr, now uint32) (good, young bool) {
	if len(cookie) != cookieLen || cookie[8] != 1 {
		return false, false
	}
	age := int32(now - binary.BigEndian.Uint32(cookie[12:])) // serial arithmetic, section 4.3
	if age > cookieOld || age < -cookieAhd {
		return false, false
	}
	var want [cookieLen]byte
	copy(want[:16], cookie)
	sealCookie(key, &want, client)
	if string(want[16:]) != string(cookie[16:]) {
		return false, false
	}
	return true, age < cookieNew
}

// makeCookie makes a cookie for the client's eight bytes.
func makeCookie(key *[16]byte, to *[cookieLen]byte, cookie []byte, client netip.Addr, now uint32) {
	copy(to[:8], cookie)
	to[8], to[9], to[10], to[11] = 1, 0, 0, 0
	binary.BigEndian.PutUint32(to[12:], now)
	sealCookie(key, to, client)
}

// sealCookie sets the last eight bytes to the hash of the first sixteen and the
// address.
func sealCookie(key *[16]byte, c *[cookieLen]byte, client netip.Addr) {
	var in [32]byte
	n := copy(in[:], c[:16])
	if client.Is4() {
		a := client.As4()
		n += copy(in[n:], a[:])
	} else {
		a := client.As16()
		n += copy(in[n:], a[:])
	}
	binary.LittleEndian.PutUint64(c[16:], siphash(key, in[:n]))
}

// siphash is SipHash-2-4 (Aumasson and Bernstein, 2012).
func siphash(key *[16]byte, in []byte) uint64 {
	k0, k1 := binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:])
	v0, v1, v2, v3 := k0^0x736f6d6570736575, k1^0x646f72616e646f6d, k0^0x6c7967656e657261, k1^0x7465646279746573
	round := func() {
		v0 += v1
		v1 = bits.RotateLeft64(v1, 13) ^ v0
		v0 = bits.RotateLeft64(v0, 32)
		v2 += v3
		v3 = bits.RotateLeft64(v3, 16) ^ v2
		v0 += v3
		v3 = bits.RotateLeft64(v3, 21) ^ v0
		v2 += v1
		v1 = bits.RotateLeft64(v1, 17) ^ v2
		v2 = bits.RotateLeft64(v2, 32)
	}
	last := uint64(len(in)) << 56
	for ; len(in) >= 8; in = in[8:] {
		m := binary.LittleEndian.Uint64(in)
		v3 ^= m
		round()
		round()
		v0 ^= m
	}
	for i, c := range in {
		last |= uint64(c) << (8 * i)
	}
	v3 ^= last
	round()
	round()
	v0 ^= last
	v2 ^= 0xff
	for range 4 {
		round()
	}
	return v0 ^ v1 ^ v2 ^ v3
}
