package configuration

import (
	"testing"

	"shuultuur/lib/setting"
)

// TestWhereThisMachineFindsThePages: programs of this machine ask the first address, which speaks TLS only
// where others reach it.
func TestWhereThisMachineFindsThePages(t *testing.T) {
	for _, c := range []struct {
		admin []setting.Address
		want  string
	}{
		{nil, ""},
		{[]setting.Address{"127.0.0.1:8081"}, "http://127.0.0.1:8081"},
		{[]setting.Address{"127.0.0.1:8081", "192.168.1.20:8443"}, "http://127.0.0.1:8081"},
		{[]setting.Address{"192.168.1.20:8443", "127.0.0.1:8081"}, "https://192.168.1.20:8443"},
		{[]setting.Address{":8443"}, "https://localhost:8443"},
	} {
		s := &Settings{Listen: Listen{Admin: c.admin}}
		if got := s.AdminURL(); got != c.want {
			t.Errorf("%q: %q, want %q", c.admin, got, c.want)
		}
	}
}
