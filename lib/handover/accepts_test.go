package handover

import (
	"net"
	"testing"
)

// TestALostAddressIsNoReasonToRestart: the program is well, and serves at its other addresses.
func TestALostAddressIsNoReasonToRestart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	there := l.Addr().String()
	for _, tt := range []struct {
		addr string
		want bool
	}{{there, true}, {"", true}, {"192.0.2.77:8080", true}} {
		if got := Accepts(t.Context(), tt.addr); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.addr, got, tt.want)
		}
	}
	l.Close()
	if Accepts(t.Context(), there) {
		t.Error("nobody listens there, but that is taken for well")
	}
}
