package setting

import "testing"

// TestAnAddressMeansTheSameInEveryForm: what a client's address is written like does not change whom a
// setting is about.
func TestAnAddressMeansTheSameInEveryForm(t *testing.T) {
	for text, want := range map[string]string{
		"10.1.2.3":                   "10.1.2.3",
		"::ffff:10.1.2.3":            "10.1.2.3",
		"::ffff:a01:203":             "10.1.2.3",
		"fe80::1":                    "fe80::1",
		"fe80::1%eth0":               "fe80::1",
		"::ffff:10.1.2.3%eth0":       "10.1.2.3",
		"2001:DB8:0:0::1":            "2001:db8::1",
		"":                           "",
		"fe80::1%":                   "",
		"10.1.2":                     "",
		"10.1.2.3:80":                "",
		"[fe80::1]":                  "",
		"a name":                     "",
		"::ffff:10.1.2.300":          "",
		"10.1.2.3%eth0":              "",
		"010.1.2.3":                  "",
		" 10.1.2.3":                  "",
		"fe80::1%eth0 and much more": "fe80::1", // a zone is any text
	} {
		a, err := Client(text)
		if got := a.String(); err == nil && got != want || (err != nil) != (want == "") {
			t.Errorf("Client(%q): got %v, %v; want %q", text, a, err, want)
		}
	}
	for text, want := range map[string]string{
		"10.0.0.0/8":              "10.0.0.0/8",
		"::ffff:10.0.0.0/104":     "10.0.0.0/8",
		"::ffff:0:0/96":           "0.0.0.0/0",
		"::ffff:0:0/95":           "", // bits beyond its mask
		"::/0":                    "::/0",
		"fe80::/10":               "fe80::/10",
		"fe80::%eth0/10":          "",
		"fe80::1%eth0":            "fe80::1/128",
		"::ffff:192.0.2.1":        "192.0.2.1/32",
		"10.0.0.1/8":              "",
		"10.0.0.0/33":             "",
		"10.0.0.0/":               "",
		"::ffff:10.0.0.0/8":       "",
		"2001:db8::/32":           "2001:db8::/32",
		"2001:db8:0:0:0:0:0:0/32": "2001:db8::/32",
	} {
		var n Network
		err := n.UnmarshalText([]byte(text))
		if err == nil && n.String() != want || (err != nil) != (want == "") {
			t.Errorf("network %q: got %v, %v; want %q", text, n, err, want)
		}
		var loose looseNetwork
		if err := loose.UnmarshalText([]byte(text)); want != "" && (err != nil || loose.String() != want) {
			t.Errorf("loose network %q: got %v, %v; want %q", text, loose, err, want)
		}
	}
}
