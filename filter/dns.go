package filter

import (
	"fmt"
	"strconv"
	"strings"
)

// Names is what a policy says to name servers.
type Names struct {
	// Answer is how a refused name is answered.
	Answer Answer
	// Error is the Extended DNS Error (RFC 8914) of a refusal: Blocked (15),
	// Censored (16) or Filtered (17); 0 is Blocked.
	Error uint16
	// NoHTTP3 and NoECH take the alpn h3 and encrypted client hellos out of
	// HTTPS and SVCB records, so that browsers come by ways that can be seen.
	NoHTTP3, NoECH bool
	// OwnDNS lets browsers and devices use encrypted DNS of their own: the
	// names by which they ask for leave are answered like any other.
	OwnDNS bool
}

// An Answer is how a name server refuses a name.
type Answer uint8

const (
	Usual    Answer = iota // as the settings of the name server say
	NXDomain               // there is no such name
	NoData                 // there is nothing of this type
	Zero                   // 0.0.0.0 and ::
	Sinkhole               // the address of a server with a page that says why
	Refused
)

var answers = [...]string{"", "nxdomain", "nodata", "zero", "sinkhole", "refused"}

func (a Answer) String() string { return answers[int(a)%len(answers)] }

// UnmarshalText reads an answer as the settings name it.
func (a *Answer) UnmarshalText(text []byte) error {
	for i, s := range answers[1:] {
		if s == string(text) {
			*a = Answer(i + 1)
			return nil
		}
	}
	return fmt.Errorf("%q is none of nxdomain, nodata, zero, sinkhole and refused", text)
}

// recordTypes are the types of records people write by name.
var recordTypes = map[string]uint16{
	"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "HINFO": 13, "MX": 15, "TXT": 16, "RP": 17, "AFSDB": 18,
	"SIG": 24, "KEY": 25, "AAAA": 28, "LOC": 29, "SRV": 33, "NAPTR": 35, "KX": 36, "CERT": 37, "DNAME": 39,
	"APL": 42, "DS": 43, "SSHFP": 44, "IPSECKEY": 45, "RRSIG": 46, "NSEC": 47, "DNSKEY": 48, "DHCID": 49,
	"NSEC3": 50, "NSEC3PARAM": 51, "TLSA": 52, "SMIMEA": 53, "HIP": 55, "CDS": 59, "CDNSKEY": 60,
	"OPENPGPKEY": 61, "CSYNC": 62, "ZONEMD": 63, "SVCB": 64, "HTTPS": 65, "SPF": 99, "EUI48": 108, "EUI64": 109,
	"IXFR": 251, "AXFR": 252, "ANY": 255, "URI": 256, "CAA": 257, "TA": 32768, "DLV": 32769,
}

// RecordType reads a type of DNS record: its name, or "TYPE65" (RFC 3597).
func RecordType(s string) (uint16, error) {
	up := strings.ToUpper(s)
	if t, ok := recordTypes[up]; ok {
		return t, nil
	}
	if n, ok := strings.CutPrefix(up, "TYPE"); ok {
		if v, err := strconv.ParseUint(n, 10, 16); err == nil && v > 0 {
			return uint16(v), nil
		}
	}
	return 0, fmt.Errorf(`%q is not a type of record; write it like "AAAA", "HTTPS" or "TYPE65"`, s)
}

// RecordName is the name of a type of DNS record, or "TYPE65".
func RecordName(t uint16) string {
	for name, n := range recordTypes {
		if n == t {
			return name
		}
	}
	return "TYPE" + strconv.Itoa(int(t))
}

var rcodes = [...]string{"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH", "NOTZONE"}

// RcodeName is the name of a response code of DNS, or "RCODE23".
func RcodeName(n uint16) string {
	if int(n) < len(rcodes) {
		return rcodes[n]
	}
	return "RCODE" + strconv.Itoa(int(n))
}
