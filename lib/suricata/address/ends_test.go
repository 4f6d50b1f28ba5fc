package address

import (
	"net/netip"
	"strings"
	"testing"

	"shuultuur/lib/suricata/rule"
)

// TestARuleNamesItsEnds compares connections with the headers of rules. The connection goes
// from a client at 10.1.2.3:1000 to a server at 192.0.2.7:443.
func TestARuleNamesItsEnds(t *testing.T) {
	vars, ports := Groups()
	vars["OURS"] = "[10.0.0.0/8,!10.9.0.0/16]"
	ports["WEB"] = "[80,443,8000:8100]"
	p := NewParser(vars, ports)
	client, server := netip.MustParseAddrPort("10.1.2.3:1000"), netip.MustParseAddrPort("192.0.2.7:443")
	for header, want := range map[string]bool{
		"any any any any":                            true,
		"10.1.2.3 any any any":                       true,
		"10.1.2.4 any any any":                       false,
		"$OURS any any any":                          true,
		"!$OURS any any any":                         false,
		"[10.9.0.0/16,!10.1.0.0/16] any any any":     false,
		"10.0.0.0/255.0.0.0 any any any":             true,
		"10.1.2.0-10.1.2.9 any any any":              true,
		"10.1.2.4-10.1.2.9 any any any":              false,
		"$HOME_NET any $EXTERNAL_NET any":            true,
		"$EXTERNAL_NET any $HOME_NET any":            false,
		"[2001:db8::/32,10.0.0.0/8] any any any":     true,
		"any 1000 any $WEB":                          true,
		"any 1001: any any":                          false,
		"any :1000 any !80":                          true,
		"any any any ![$WEB,22]":                     false,
		"any any any [400:500,!443]":                 false,
		"[[10.0.0.0/8,!10.1.2.3],$OURS] any any any": true,
	} {
		f := strings.Fields(header)
		e, err := p.Ends(&rule.Header{Src: f[0], SrcPort: f[1], Dst: f[2], DstPort: f[3]})
		if err != nil {
			t.Errorf("%s: %v", header, err)
			continue
		}
		if got := e.Match(client, server, true); got != want {
			t.Errorf("%s matches: %v, want %v", header, got, want)
		}
	}
}

func TestMistakesInGroupsAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.300": "is not an address", "$NOWHERE": "is not set", "10.0.0.9-10.0.0.1": "is not a range", "!any": "leaves no address", "$LOOP": "nested too deeply",
	} {
		vars := map[string]string{"X": text, "LOOP": "$LOOP"}
		if err := CheckGroups(vars, nil, map[string]string{"X": text}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the group %s of addresses: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{"http": "is not a port", "90:80": "ends before it begins", "!any": "leaves no port", "$P": "is not set", "1:x": "is not a port"} {
		if err := CheckGroups(nil, nil, nil, map[string]string{"X": text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the group %s of ports: %v, want %s", text, err, want)
		}
	}
	if _, err := NewParser(nil, nil).Ends(&rule.Header{Src: "x", SrcPort: "y", Dst: "any", DstPort: "any"}); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("a header with two mistakes: %v", err)
	}
}
