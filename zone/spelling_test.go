package zone

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	miekg "github.com/miekg/dns"

	"shuultuur/test/peer"
)

// spellings are lines of a zone file and what they say: "" for what no server should accept.
// differ says which peers judge otherwise, and why; see also zone/README.md.
var spellings = []struct{ text, want, differ string }{
	// Owners, origins, blanks, parentheses.
	{"www A 192.0.2.1", "www.x.test. A 192.0.2.1", ""},
	{"mx A 192.0.2.1", "mx.x.test. A 192.0.2.1", ""},
	{"$ORIGIN mx\nwww A 192.0.2.1", "www.mx.x.test. A 192.0.2.1", "kzonecheck: wants a final dot"},
	{"$ORIGIN mx.x.test.\n@ A 192.0.2.1", "mx.x.test. A 192.0.2.1", ""},
	{"$ORIGIN \"mx.x.test.\"\n@ A 192.0.2.1", "", ""},
	{"a A 192.0.2.1\n( www A 192.0.2.2 )", "a.x.test. A 192.0.2.1; www.x.test. A 192.0.2.2", "kzonecheck: wants the owner before a parenthesis"},
	{"(\nwww\nA\n192.0.2.2\n)", "www.x.test. A 192.0.2.2", "kzonecheck: wants the owner in the first line"},
	{"a A 192.0.2.1\n  A 192.0.2.2", "a.x.test. A 192.0.2.1; a.x.test. A 192.0.2.2", ""},
	{"a A 192.0.2.1\n\tIN 60 TXT x", `a.x.test. A 192.0.2.1; a.x.test. TXT "x"`, ""},
	{"a 60 IN A 192.0.2.1 ; comment ( \"", "a.x.test. A 192.0.2.1", ""},
	{"a A ( 192.0.2.1", "", ""},
	{"a A 192.0.2.1 )", "", ""},
	{"a A", "", ""},
	{"a 60", "", ""},
	{"a BOGUS 1", "", ""},
	{"a CH TXT x", "", ""},
	{"a..b A 192.0.2.1", "", ""},
	{`a\.b A 192.0.2.1`, `a\.b.x.test. A 192.0.2.1`, ""},
	{`\065bc A 192.0.2.1`, "abc.x.test. A 192.0.2.1", ""},
	{"\xc3\x89 A 192.0.2.1", `\195\137.x.test. A 192.0.2.1`, "kzonecheck: takes only ASCII"},
	{"caf\xe9 A 192.0.2.1\ncaf\xe8 A 192.0.2.2", `caf\233.x.test. A 192.0.2.1; caf\232.x.test. A 192.0.2.2`, "kzonecheck: takes only ASCII"},
	{"www.other. A 192.0.2.1", "nothing", ""},
	{"$BOGUS x", "", ""},
	// TTLs.
	{"a 1h30m A 192.0.2.1", "a.x.test. A 192.0.2.1", ""},
	{"a 1w2d3h4m5s A 192.0.2.1", "a.x.test. A 192.0.2.1", ""},
	{"a 4294967295 A 192.0.2.1", "a.x.test. A 192.0.2.1", ""},
	{"a 4294967296 A 192.0.2.1", "", ""},
	{"a 1x A 192.0.2.1", "", ""},
	{"$TTL 1D\na A 192.0.2.1", "a.x.test. A 192.0.2.1", ""},
	{"$TTL x\na A 192.0.2.1", "", ""},
	// $GENERATE, which Knot does not have.
	{"$GENERATE 1-2 h$ A 192.0.2.$", "h1.x.test. A 192.0.2.1; h2.x.test. A 192.0.2.2", "kzonecheck: no $GENERATE"},
	{"$GENERATE 1-3/2 h${10,4,d} 60 IN A 192.0.2.$", "h0011.x.test. A 192.0.2.1; h0013.x.test. A 192.0.2.3", "kzonecheck: no $GENERATE"},
	{`$GENERATE 1-1 h$ MX "0 ."`, "h1.x.test. MX 0 .", "kzonecheck: no $GENERATE"},
	{"$GENERATE 10-10 ${0,3,n} PTR h$$.x.test.", "a.0.x.test. PTR h$.x.test.", "kzonecheck: no $GENERATE"},
	{"$GENERATE 255-255 ${0,1,n} PTR h${0,2,X}", "f.f.x.test. PTR hFF.x.test.", "kzonecheck: no $GENERATE"},
	{"$GENERATE 2-1 h$ A 192.0.2.$", "", ""},
	{"$GENERATE 1-2 h$ A", "", ""},
	{"$GENERATE 1-2 h${0,1,q} A 192.0.2.$", "", ""},
	{"$GENERATE 1-2 a${-2,3} A 192.0.2.$", "a-01.x.test. A 192.0.2.1; a000.x.test. A 192.0.2.2", "kzonecheck: no $GENERATE"},
	{"$GENERATE 1-2 a${-2,3,x} A 192.0.2.$", "", "named-checkzone: writes negative numbers in 32 bits"},
	{"b TXT x\n$GENERATE 1-1 a$ A 192.0.2.$\n TXT y", `b.x.test. TXT "x"; a1.x.test. A 192.0.2.1; b.x.test. TXT "y"`, "kzonecheck: no $GENERATE"},
	// $INCLUDE.
	{"$INCLUDE inc", "inc.x.test. A 192.0.2.9", ""},
	{`$INCLUDE "inc"`, "inc.x.test. A 192.0.2.9", ""},
	{"$INCLUDE inc mx\nafter A 192.0.2.1", "inc.mx.x.test. A 192.0.2.9; after.x.test. A 192.0.2.1", "kzonecheck: wants a final dot"},
	{"$INCLUDE inc sub ; comment", "inc.sub.x.test. A 192.0.2.9", "kzonecheck: wants a final dot"},
	{"$INCLUDE missing", "", ""},
	// Texts.
	{`a TXT "a b" c "d\"e" \;f`, `a.x.test. TXT "a b" "c" "d\"e" ";f"`, ""},
	{`a TXT "\256"`, "", ""},
	{`a TXT \1`, "", ""},
	{`a TXT "open`, "", ""},
	{`a TXT ""`, `a.x.test. TXT ""`, ""},
	{`a HINFO "a" "b"`, `a.x.test. HINFO "a" "b"`, ""},
	{`a HINFO a b`, `a.x.test. HINFO "a" "b"`, ""},
	{`a HINFO "a" "b" "c"`, "", ""},
	{`a HINFO "a b"`, "", ""},
	{`a X25 "311061700956"`, `a.x.test. X25 311061700956`, "kzonecheck: does not know it"},
	{`a X25 311061700956`, `a.x.test. X25 311061700956`, "kzonecheck: does not know it"},
	{`a X25 31a1`, "", "kzonecheck: takes any text"},
	// Relays and gateways.
	{"a AMTRELAY 128 1 3 relay", `a.x.test. AMTRELAY \# 16 80830572656c61790178047465737400`, "kzonecheck: does not know it"},
	{"a AMTRELAY 10 0 1 192.0.2.1", `a.x.test. AMTRELAY \# 6 0a01c0000201`, "kzonecheck: does not know it"},
	{"a AMTRELAY 10 0 2 2001:db8::1", `a.x.test. AMTRELAY \# 18 0a0220010db8000000000000000000000001`, "kzonecheck: does not know it"},
	{"a AMTRELAY 0 0 0 .", `a.x.test. AMTRELAY \# 2 0000`, "kzonecheck: does not know it"},
	{"a AMTRELAY 0 0 1 2001:db8::1", "", ""},
	{"a AMTRELAY 0 2 1 192.0.2.1", "", ""},
	{"a IPSECKEY 10 1 2 192.0.2.1 AQID\nb A 192.0.2.1", "a.x.test. IPSECKEY 10 1 2 192.0.2.1 AQID; b.x.test. A 192.0.2.1", ""},
	{"a IPSECKEY 10 0 2 . AQ ID", "a.x.test. IPSECKEY 10 0 2 . AQID", "kzonecheck: wants the key in one piece"},
	{"a IPSECKEY 10 3 2 gw AQID", "a.x.test. IPSECKEY 10 3 2 gw.x.test. AQID", ""},
	{"a IPSECKEY 10 1 2 gw AQID", "", ""},
	// Types that few know.
	{"a WKS 192.0.2.1 tcp 25 80", `a.x.test. TYPE11 \# 16 c0000201060000004000000000000080`, "kzonecheck: does not know it"},
	{"a WKS 192.0.2.1 6 smtp", `a.x.test. TYPE11 \# 9 c00002010600000040`, "kzonecheck: does not know it"},
	{"a WKS 192.0.2.1 nothing 25", "", ""},
	{"a NSAP 0x47.0005", `a.x.test. TYPE22 \# 3 470005`, "kzonecheck: does not know it"},
	{"a NSAP 47", "", ""},
	{"a DSYNC CDS NOTIFY 5300 target", `a.x.test. TYPE66 \# 20 003b0114b4067461726765740178047465737400`, "named-checkzone, kzonecheck: do not know it yet"},
	{"a DSYNC CDS OTHER 5300 target", "", ""},
	{`a TYPE731 \# 3 abcdef`, `a.x.test. TYPE731 \# 3 abcdef`, ""},
	{`a A \# 4 c0000201`, `a.x.test. A 192.0.2.1`, ""},
	{`a A \# 3 c00002`, "", "kzonecheck: takes any length"},
	{`a TYPE731 \# 3 abcd`, "", ""},
	// Places.
	{"a LOC 52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m", "a.x.test. LOC 52 22 23.000 N 04 53 32.000 E -2m 0.00m 10000m 10m", ""},
	{"a LOC 42 21 N 71 06 W 24m", "a.x.test. LOC 42 21 0.000 N 71 06 0.000 W 24m 1m 10000m 10m", ""},
	{"a LOC 42 N 71 W 24", "a.x.test. LOC 42 00 0.000 N 71 00 0.000 W 24m 1m 10000m 10m", ""},
	{"a LOC 42 21 54.5 N 71 06 18 W -24m 30m", "a.x.test. LOC 42 21 54.500 N 71 06 18.000 W -24m 30m 10000m 10m", ""},
	{"a LOC 91 N 71 W 24m", "", ""},
	{"a LOC 42 60 N 71 W 24m", "", ""},
	{"a LOC 42 N 71 24m", "", ""},
	{"a LOC 42 N 71 W", "", ""},
	// Rewriting.
	{`a NAPTR 10 20 "S" "SIP+D2U" "" _sip`, `a.x.test. NAPTR 10 20 "S" "SIP+D2U" "" _sip.x.test.`, ""},
	{`a NAPTR 10 20 S SIP+D2U "" _sip`, `a.x.test. NAPTR 10 20 "S" "SIP+D2U" "" _sip.x.test.`, ""},
	{`a NAPTR 10 20 "u" "E2U+sip" "!^.*$!sip:a@b!" .`, `a.x.test. NAPTR 10 20 "u" "E2U+sip" "!^.*$!sip:a@b!" .`, ""},
	{`a NAPTR 10 20 S SIP+D2U ""`, "", ""},
	{`a NAPTR 10 20 "" "" "" _SIP`, `a.x.test. NAPTR 10 20 "" "" "" _SIP.x.test.`, ""},
	{`a NAPTR 10 "20" "" "" "" .`, "", ""},
	{`a NAPTR 70000 20 S SIP+D2U "" .`, "", ""},
	// Bitmaps.
	{"a NSEC b TXT A", "a.x.test. NSEC b.x.test. A TXT", ""},
	{"a NSEC b A TYPE1234", "a.x.test. NSEC b.x.test. A TYPE1234", ""},
	{"a NSEC b A NONSENSE", "", ""},
	{"a CSYNC 66 3 NS A", "a.x.test. CSYNC 66 3 A NS", ""},
	{"a NXT b TXT A", `a.x.test. NXT \# 13 01620178047465737400400080`, "kzonecheck: does not know it"},
	{`a NSEC "b" A`, "", ""},
	{"a NSEC3 1 0 1 - 2vptu5timamqttgl4luu9kg21e0aor3 A", "", ""},
	// What is missing is not zero.
	{"a SOA ns h 1 2 3 4", "", ""},
	{"a DS 12345 8 2", "", ""},
	{"a TLSA 3 1 1", "", ""},
	{"a SSHFP 1 1", "", ""},
	{"a DNSKEY 256 3 8", "", ""},
	{"a CERT PKIX 12345 RSASHA256", "", ""},
	{"a RRSIG A 8 2 3600 20301231000000 20201231000000 12345 x.test.", "", ""},
	{"a ZONEMD 1 1 1", "", ""},
	{"a APL", "a.x.test. APL", ""},
	// Digits of keys and digests.
	{"a DS 12345 8 2 @", "", ""},
	{"a DS 12345 8 1 00112233445566778899AABBCCDDEEFF00112233", "a.x.test. DS 12345 8 1 00112233445566778899AABBCCDDEEFF00112233", ""},
	{"a DS 12345 8 1 00112233445566778899AABBCCDDEEFF001122", "", ""},
	{"a DS 12345 8 2 00112233445566778899AABBCCDDEEFF00112233", "", ""},
	{"a CDS 12345 8 2 00112233445566778899AABBCCDDEEFF00112233", "", "kzonecheck: takes any length"},
	{"a CDS 0 0 0 00", "a.x.test. CDS 0 0 0 00", ""},
	{"a TLSA 3 1 1 abc", "", ""},
	{"a DNSKEY 256 3 8 AwEAAQ=", "", ""},
	{"a DNSKEY 256 3 8 AwEA AQ==", "a.x.test. DNSKEY 256 3 8 AwEAAQ==", ""},
	{"a OPENPGPKEY a..b", "", ""},
	// Rare types.
	{"a ISDN 15086 004", `a.x.test. ISDN "15086" "004"`, "kzonecheck: does not know it"},
	{"a ISDN 15086 004 5", "", ""},
	{`a GPOS "-32.6882" 116.8652 10.0`, `a.x.test. GPOS -32.6882 116.8652 10.0`, "kzonecheck: does not know it"},
	{"a GPOS 1 2", "", ""},
	{"a NID 10 14:4fff:ff20:ee64", "a.x.test. NID 10 0014:4fff:ff20:ee64", "kzonecheck: wants four digits"},
	{"a L64 10 2001:db8:1140:1000", "a.x.test. L64 10 2001:0DB8:1140:1000", "kzonecheck: wants four digits"},
	{"a L64 10 2001:db8::1000", "", ""},
	{"a L64 10 2001:db8:1140", "", ""},
	{"a A6 0 2001:db8::1", `a.x.test. TYPE38 \# 17 0020010db8000000000000000000000001`, "kzonecheck: does not know it"},
	{"a A6 64 ::1 b", `a.x.test. TYPE38 \# 19 40000000000000000101620178047465737400`, "kzonecheck: does not know it"},
	{"a A6 129 ::1 b", "", ""},
	{"a SINK 1 2 3 AQID", `a.x.test. TYPE40 \# 6 010203010203`, "kzonecheck: does not know it"},
	{`a DOA 0 1 2 "" AQID`, `a.x.test. TYPE259 \# 13 00000000000000010200010203`, "kzonecheck: does not know it"},
	{`a DOA 0 1 2 "" -`, `a.x.test. TYPE259 \# 10 00000000000000010200`, "kzonecheck: does not know it"},
	{"a WALLET x y", `a.x.test. TYPE262 \# 4 01780179`, "kzonecheck: does not know it"},
	{`a TYPE65535 \# 1 00`, `a.x.test. TYPE65535 \# 1 00`, ""},
	{`a TYPE250 \# 0`, "", "kzonecheck: takes it"},
	{`a OPT \# 0`, "", "kzonecheck: takes it"},
	{"a WKS 192.0.2.1 tcp -", "", ""},
	{"a LOC 42 N 71 W .", "", ""},
	// RFC 9460, appendix D.
	{"a HTTPS 0 foo.example.com.", "a.x.test. HTTPS 0 foo.example.com.", ""},
	{"a SVCB 1 .", "a.x.test. SVCB 1 .", ""},
	{"a SVCB 16 foo.example.com. port=53", `a.x.test. SVCB 16 foo.example.com. port="53"`, ""},
	{"a SVCB 1 foo.example.com. key667=hello", `a.x.test. SVCB 1 foo.example.com. key667="hello"`, ""},
	{`a SVCB 1 foo.example.com. key667="hello\210qoo"`, `a.x.test. SVCB 1 foo.example.com. key667="hello\210qoo"`, ""},
	{`a SVCB 1 foo.example.com. ipv6hint="2001:db8::1,2001:db8::53:1"`, `a.x.test. SVCB 1 foo.example.com. ipv6hint="2001:db8::1,2001:db8::53:1"`, ""},
	{"a SVCB 16 foo.example.org. alpn=h2,h3-19 mandatory=ipv4hint,alpn ipv4hint=192.0.2.1", `a.x.test. SVCB 16 foo.example.org. alpn="h2,h3-19" mandatory="ipv4hint,alpn" ipv4hint="192.0.2.1"`, ""},
	{"a SVCB 1 foo.example.com. key123=abc key123=def", "", ""},
	{"a SVCB 1 foo.example.com. mandatory", "", ""},
	{"a SVCB 1 foo.example.com. alpn", "", ""},
	{"a SVCB 1 foo.example.com. port", "", ""},
	{"a SVCB 1 foo.example.com. ipv4hint", "", ""},
	{"a SVCB 1 foo.example.com. ipv6hint", "", ""},
	{"a SVCB 1 foo.example.com. no-default-alpn=abc", "", ""},
	{"a SVCB 1 foo.example.com. mandatory=key123", "", "kzonecheck: does not look for it"},
	{"a SVCB 1 foo.example.com. mandatory=mandatory", "", ""},
	{"a SVCB 1 foo.example.com. mandatory=key123,key123 key123=abc", "", ""},
	{"a SVCB 1 foo.example.com. no-default-alpn", "", "kzonecheck: does not look for it"},
	{"a HTTPS 1 . alpn=h2 port=x", "", ""},
}

func TestSpellings(t *testing.T) {
	file := filepath.Join(spellingFolder(t), "x.zone")
	for _, c := range spellings {
		writeSpelling(t, file, c.text)
		z, err := ReadFile(file, "x.test.")
		var got []string
		if err == nil {
			for _, rr := range z.Records[3:] {
				h := rr.Header()
				if x, ok := rr.(*miekg.RFC3597); ok {
					got = append(got, fmt.Sprintf(`%s %s \# %d %s`, h.Name, typeName(h.Rrtype), len(x.Rdata)/2, x.Rdata))
					continue
				}
				got = append(got, strings.Join(strings.Fields(h.Name+" "+typeName(h.Rrtype)+" "+strings.TrimPrefix(rr.String(), h.String())), " "))
			}
			if len(got) == 0 {
				got = []string{"nothing"}
			}
		}
		if s := strings.Join(got, "; "); s != c.want {
			t.Errorf("%q is read as %q (%v), want %q", c.text, s, err, c.want)
		}
	}
}

// TestRecordsOfOthersAreReadBack: another server may take data that we refuse in a file.
func TestRecordsOfOthersAreReadBack(t *testing.T) {
	for typ, data := range map[string]string{
		"DS": "0001080200", "CDS": "00010802", "TLSA": "030101", "DNSKEY": "01000308", "SSHFP": "0101", "ZONEMD": "000000010101", "SVCB": "000100000400047f000001",
		"ISDN": "0131", "NID": "000a00000000000000ff", "TYPE262": "0161", "TYPE38": "8000", "APL": "", "TYPE65534": "00",
	} {
		rr, err := miekg.NewRR(fmt.Sprintf(`a.x.test. 60 IN %s \# %d %s`, typ, len(data)/2, data))
		if err != nil {
			t.Fatalf("%s: %v", typ, err)
		}
		text := RecordText(rr)
		z, err := Read(strings.NewReader(text+"\n"), "x.test.", "")
		if err != nil || len(z.Records) != 1 {
			t.Errorf("%s: %q: %v", typ, text, err)
			continue
		}
		var was, is miekg.RFC3597
		if err := errors.Join(was.ToRFC3597(rr), is.ToRFC3597(z.Records[0])); err != nil || was.Rdata != is.Rdata {
			t.Errorf("%s: %q is read as %s, not %s (%v)", typ, text, is.Rdata, was.Rdata, err)
		}
	}
}

// TestSpellingsAgreeWithPeers has the checkers of other servers judge the same.
func TestSpellingsAgreeWithPeers(t *testing.T) {
	dir := spellingFolder(t)
	file := filepath.Join(dir, "x.zone")
	for _, p := range []struct {
		name string
		args []string
	}{
		{"named-checkzone", []string{"-i", "none", "-k", "ignore", "-n", "ignore", "-w", dir, "x.test", file}},
		{"kzonecheck", []string{"-d", "off", "-o", "x.test.", file}},
	} {
		t.Run(p.name, func(t *testing.T) {
			peer.Program(t, p.name)
			for _, c := range spellings {
				if strings.Contains(c.differ, p.name) {
					continue
				}
				writeSpelling(t, file, c.text)
				cmd := peer.Command(t, p.name, p.args...)
				cmd.Dir = dir
				if out, failed := cmd.CombinedOutput(); (failed == nil) != (c.want != "") {
					t.Errorf("%q: %v, and we want %q:\n%s", c.text, failed, c.want, out)
				}
			}
		})
	}
}

func spellingFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "inc"), []byte("inc A 192.0.2.9\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func writeSpelling(t *testing.T, file, text string) {
	t.Helper()
	text = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.53\n" + text + "\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
