package identity

import (
	"encoding/binary"
	"net/netip"
	"testing"
)

func TestNeighboursAreRead(t *testing.T) {
	attribute := func(kind uint16, value ...byte) []byte {
		b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
		b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
		return b
	}
	good := append(attribute(neighbourMAC, 2, 0, 0, 0, 0, 1), attribute(neighbourAddr, 10, 0, 0, 1)...)
	if addr, mac := neighbourOf(append(attribute(9, 1, 2, 3), good...)); addr != netip.MustParseAddr("10.0.0.1") || mac != "02:00:00:00:00:01" {
		t.Errorf("a neighbour is %v, %q", addr, mac)
	}
	for i := range good { // any part of it is read without a fault
		neighbourOf(good[:i])
	}
	if addr, _ := neighbourOf([]byte{0, 0, 1, 0}); addr.IsValid() {
		t.Error("an attribute of no size is read")
	}
	if _, err := neighbours(); err != nil {
		t.Errorf("the neighbours of this machine: %v", err)
	}
}
