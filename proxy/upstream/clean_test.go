package upstream

import "testing"

func TestHostsAreDialedAsTheyWereJudged(t *testing.T) {
	for in, want := range map[string]string{
		"Example.COM.": "example.com", "127.0.0.1": "127.0.0.1", "0x7F.1": "127.0.0.1", "2130706433": "127.0.0.1", "0177.0.0.1.": "127.0.0.1",
		"1.2.3.4.5": "1.2.3.4.5", "256.1.1.1": "256.1.1.1", "a.1b": "a.1b", "::FFFF:1.2.3.4": "1.2.3.4", "2001:DB8:0::1": "[2001:db8::1]",
	} {
		if got := string(appendClean(nil, in)); got != want {
			t.Errorf("appendClean(%q) = %q, want %q", in, got, want)
		}
	}
}
