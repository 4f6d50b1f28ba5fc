package intercept

import "testing"

func TestJA3IsTheHelloInDecimal(t *testing.T) {
	h := &Hello{Legacy: 0x303, Versions: []uint16{0x304}, Ciphers: []uint16{4865, 4866}, Extensions: []uint16{0, 11, 10}, Groups: []uint16{29, 23}, Points: []byte{0}}
	if got, want := h.JA3(), "771,4865-4866,0-11-10,29-23,0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := (&Hello{Legacy: 0x301}).JA3(), "769,,,,"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
