package nameserver

import (
	"fmt"
	"testing"
)

// TestAllAddressesMeanBothFamilies: "[::]" means what it means for the proxy, and nothing twice.
func TestAllAddressesMeanBothFamilies(t *testing.T) {
	for _, tt := range []struct {
		written []string
		want    string
	}{
		{[]string{":5353"}, "[0.0.0.0:5353 [::]:5353]"},
		{[]string{"[::]:5353"}, "[0.0.0.0:5353 [::]:5353]"},
		{[]string{"::"}, "[0.0.0.0:53 [::]:53]"},
		{[]string{"0.0.0.0:5353"}, "[0.0.0.0:5353]"},
		{[]string{"0.0.0.0:5353", "[::]:5353"}, "[0.0.0.0:5353 [::]:5353]"},
		{[]string{"[::]:5353", "0.0.0.0:5353", ":5353"}, "[0.0.0.0:5353 [::]:5353]"},
		{[]string{"[::]:5353", "0.0.0.0:53"}, "[0.0.0.0:5353 [::]:5353 0.0.0.0:53]"},
		{[]string{"[::ffff:127.0.0.1]:5353"}, "[127.0.0.1:5353]"},
		{[]string{"[fe80::1%eth0]:5353", "::1"}, "[[fe80::1%eth0]:5353 [::1]:53]"},
		{nil, "[]"},
	} {
		if got, err := addresses("listen", tt.written, 53); err != nil || fmt.Sprint(got) != tt.want {
			t.Errorf("%q: got %v, %v; want %s", tt.written, got, err, tt.want)
		}
	}
}
