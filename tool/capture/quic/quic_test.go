package quic

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"testing"
)

var id = []byte("\x83\x94\xc8\xf0\x3e\x51\x57\x08")

// TestKeysAreThoseOfTheStandards has the examples of RFC 9001 A.1 and RFC 9369 A.1.
func TestKeysAreThoseOfTheStandards(t *testing.T) {
	for _, x := range []struct {
		version uint32
		prefix  string
		iv      string
	}{{Version1, "quic ", "fa044b2f42a3fd3b46fb255c"}, {Version2, "quicv2 ", "91f73e2351d8fa91660e909f"}} {
		k, err := derive(x.version, id)
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(k[0].iv); got != x.iv {
			t.Errorf("version %x: the vector is %s, want %s", x.version, got, x.iv)
		}
	}
}

// varint writes an integer in two bytes.
func varint(n int) []byte { return []byte{0x40 | byte(n>>8), byte(n)} }

// crypto makes a frame with part of a hello.
func crypto(at int, data string) string {
	return "\x06" + string(varint(at)) + string(varint(len(data))) + data
}

// sealed makes a protected Initial packet of a side.
func sealed(t *testing.T, version uint32, from int, frames string) []byte {
	t.Helper()
	all, err := derive(version, id)
	if err != nil {
		t.Fatal(err)
	}
	k := all[from]
	first := byte(0xc1)
	if version == Version2 {
		first = 0xd1
	}
	head := append([]byte{first, byte(version >> 24), byte(version >> 16), byte(version >> 8), byte(version), 8}, id...)
	head = append(head, 0, 0) // no other identifier, no token
	head = append(head, varint(2+len(frames)+16)...)
	full := append(slices.Clone(head), 0, 5) // packet number 5
	nonce := slices.Clone(k.iv)
	nonce[len(nonce)-1] ^= 5
	body := k.aead.Seal(nil, nonce, []byte(frames), full)
	var mask [16]byte
	k.head.Encrypt(mask[:], body[2:18])
	full[0] ^= mask[0] & 0x0f
	full[len(full)-2] ^= mask[1]
	full[len(full)-1] ^= mask[2]
	return append(full, body...)
}

const hello = "\x01\x00\x00\x08abcdefgh"

// TestHellosAreFound reads hellos however their pieces are spread over packets.
func TestHellosAreFound(t *testing.T) {
	s := func(frames string) []byte { return sealed(t, Version1, 0, frames) }
	for name, x := range map[string]struct {
		datagrams [][]byte
		want      string
		err       error // of the last packet
	}{
		"whole":                 {[][]byte{s(crypto(0, hello))}, hello, nil},
		"version 2":             {[][]byte{sealed(t, Version2, 0, crypto(0, hello))}, hello, nil},
		"a draft":               {[][]byte{sealed(t, 0xff00001d, 0, crypto(0, hello))}, hello, nil},
		"behind padding":        {[][]byte{s("\x00\x00\x01" + crypto(0, hello) + "\x00")}, hello, nil},
		"behind an answer":      {[][]byte{s("\x02\x05\x00\x00\x05" + crypto(0, hello))}, hello, nil},
		"two pieces":            {[][]byte{s(crypto(0, hello[:5]) + crypto(5, hello[5:]))}, hello, nil},
		"in another order":      {[][]byte{s(crypto(5, hello[5:]) + crypto(0, hello[:5]))}, hello, nil},
		"pieces that overlap":   {[][]byte{s(crypto(0, hello[:7]) + crypto(3, hello[3:]))}, hello, nil},
		"two datagrams":         {[][]byte{s(crypto(0, hello[:5])), s(crypto(5, hello[5:]))}, hello, nil},
		"two packets":           {[][]byte{append(s(crypto(0, hello[:5])), s(crypto(5, hello[5:]))...)}, hello, nil},
		"a piece is missing":    {[][]byte{s(crypto(5, hello[5:]))}, "", nil},
		"nothing":               {[][]byte{s("\x00\x00\x00\x00")}, "", nil},
		"the end of all":        {[][]byte{s("\x1c\x00\x00\x00")}, "", nil},
		"changed":               {[][]byte{append(s(crypto(0, hello))[:40], make([]byte, 8)...)}, "", ErrFrames},
		"an unknown frame":      {[][]byte{s("\x1f" + crypto(0, hello))}, "", ErrFrames},
		"a frame that is cut":   {[][]byte{s("\x06\x40\x00\x40\x20abc")}, "", ErrFrames},
		"beyond all limits":     {[][]byte{s("\x06\x80\x01\x00\x00\x01x")}, "", ErrLong},
		"of the other side":     {[][]byte{sealed(t, Version1, 1, crypto(0, hello))}, "", ErrSealed},
		"of an unknown version": {[][]byte{slices.Concat([]byte{0xc0, 9, 9, 9, 9, 8}, id, []byte{0, 0, 0x40, 0x20}, make([]byte, 32))}, "", ErrSealed},
	} {
		var c Conn
		got := ""
		var last Packet
		for _, d := range x.datagrams {
			for _, last = range c.Read(d, 0) {
				got += string(last.Hello)
			}
		}
		if got != x.want || !errors.Is(last.Err, x.err) || x.err == nil && last.Err != nil {
			t.Errorf("%s: the hello is %q and the error %v, want %q and %v", name, got, last.Err, x.want, x.err)
		}
		if c.Done(0) != (x.want != "") {
			t.Errorf("%s: done is %v", name, c.Done(0))
		}
	}
}

func TestOtherPacketsAreKnown(t *testing.T) {
	long := func(first byte, version uint32) []byte {
		return slices.Concat([]byte{first, byte(version >> 24), byte(version >> 16), byte(version >> 8), byte(version), 8}, id, []byte{0, 2, 'x', 'y'})
	}
	for _, x := range []struct {
		packet []byte
		want   Kind
	}{{long(0xe0, Version1), Handshake}, {long(0xd0, Version1), ZeroRTT}, {long(0xf0, Version1), Retry}, {long(0xc0, Version2), Retry},
		{long(0xf0, Version2), Handshake}, {long(0xe0, Version2), ZeroRTT}, {long(0xc0, 0), Negotiation}, {[]byte{0x40, 1, 2}, Short}} {
		var c Conn
		if got := c.Read(x.packet, 0); len(got) != 1 || got[0].Kind != x.want {
			t.Errorf("%x is %+v, want the kind %d", x.packet, got, x.want)
		}
	}
	if first := append(sealed(t, Version1, 0, crypto(0, hello)), make([]byte, 1200)...); !Is(first) || Is(first[:1199]) || Is(bytes.Repeat([]byte{0x40}, 1300)) {
		t.Error("the beginning of a connection")
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("\xc0\x00\x00\x00\x01\x08abcdefgh\x00\x00\x40\x20"+string(make([]byte, 32))), 0)
	f.Fuzz(func(t *testing.T, b []byte, from int) {
		var c Conn
		c.Read(b, from&1)
		var p Packet
		c.frames(&p, b, 0)
	})
}
