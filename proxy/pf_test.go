package proxy

import (
	"encoding/hex"
	"net/netip"
	"testing"
)

func TestPFIsAskedInItsOwnWords(t *testing.T) {
	if diocNatLook != 0xc04c4417 { // as FreeBSD's headers give it
		t.Errorf("diocNatLook = %#x, want 0xc04c4417", diocNatLook)
	}
	for _, tt := range []struct{ client, us, question, answer, meant string }{
		{"10.77.1.2:50000", "127.0.0.1:3129",
			"0a4d0102000000000000000000000000" + "7f000001000000000000000000000000" + "00000000000000000000000000000000" + "00000000000000000000000000000000" + "c3500c3900000000" + "02060200",
			"0a4d0102000000000000000000000000" + "7f000001000000000000000000000000" + "0a4d0102000000000000000000000000" + "c0000207000000000000000000000000" + "c3500c39c35001bb" + "02060200",
			"192.0.2.7:443"},
		{"[fd77:1::2]:50000", "[::1]:3129",
			"fd770001000000000000000000000002" + "00000000000000000000000000000001" + "00000000000000000000000000000000" + "00000000000000000000000000000000" + "c3500c3900000000" + "1c060200",
			"fd770001000000000000000000000002" + "00000000000000000000000000000001" + "fd770001000000000000000000000002" + "20010db8000000000000000000000007" + "c3500c39c3500050" + "1c060200",
			"[2001:db8::7]:80"},
	} {
		q := newNatLook(netip.MustParseAddrPort(tt.client), netip.MustParseAddrPort(tt.us))
		if got := hex.EncodeToString(q[:]); got != tt.question {
			t.Errorf("%s: the request to pf is %s, want %s", tt.client, got, tt.question)
		}
		b, err := hex.DecodeString(tt.answer)
		if err != nil {
			t.Fatal(err)
		}
		q = natLook(b)
		if got := q.destination(); got != netip.MustParseAddrPort(tt.meant) {
			t.Errorf("destination for %s: got %s, want %s", tt.client, got, tt.meant)
		}
	}
}
