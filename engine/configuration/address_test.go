package configuration

import (
	"strings"
	"testing"
)

// TestSettingsMoveToAnotherAddress: the address of the other machine is replaced wherever it is written
// as a whole, and nothing else is.
func TestSettingsMoveToAnotherAddress(t *testing.T) {
	const text = "listen: {proxy: 198.51.100.7:8080, admin: 127.0.0.1:8081, transparent: '0.0.0.0:3129', sinkhole: [\"198.51.100.7:80\"]}\n" +
		"# 198.51.100.7, and 198.51.100.70 and 8198.51.100.7 are others\ndns: {listen: ['198.51.100.7:53']}\nidentity: {groups: {x: [198.51.100.7/32, 198.51.100.71]}}\n"
	for name, tt := range map[string]struct{ text, to, want, fault string }{
		"one":             {text, "10.0.0.1", strings.NewReplacer("8198.51.100.7 ", "8198.51.100.7 ", "198.51.100.70", "198.51.100.70", "198.51.100.71", "198.51.100.71", "198.51.100.7", "10.0.0.1").Replace(text), ""},
		"as it is":        {text, "", text, ""},
		"nothing to do":   {"listen: {proxy: 127.0.0.1:1}\n", "10.0.0.1", "listen: {proxy: 127.0.0.1:1}\n", ""},
		"several":         {"listen: {proxy: [198.51.100.7:1, 198.51.100.8:1]}\n", "10.0.0.1", "", "several"},
		"no address":      {text, "here", "", "not an address"},
		"of other family": {text, "2001:db8::1", "", "family"},
		"IPv6":            {"listen: {proxy: '[2001:db8::7]:8080'}\n", "2001:db8::1", "listen: {proxy: '[2001:db8::1]:8080'}\n", ""},
	} {
		got, err := Readdress([]byte(tt.text), tt.to)
		if tt.fault != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%s: got %q, %v; want an error with %q", name, got, err, tt.fault)
			}
			continue
		}
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: got\n%s%v; want\n%s", name, got, err, tt.want)
		}
	}
}
