package dns

import (
	"fmt"
	"strconv"
	"strings"
)

// Types of records and classes that the program treats by name (RFC 1035 and
// the IANA registry).
const (
	TypeA      = 1
	TypeNS     = 2
	TypeCNAME  = 5
	TypeSOA    = 6
	TypePTR    = 12
	TypeHINFO  = 13
	TypeMX     = 15
	TypeTXT    = 16
	TypeAAAA   = 28
	TypeSRV    = 33
	TypeDNAME  = 39
	TypeOPT    = 41
	TypeDS     = 43
	TypeRRSIG  = 46
	TypeNSEC   = 47
	TypeDNSKEY = 48
	TypeNSEC3  = 50
	TypeTLSA   = 52
	TypeSVCB   = 64
	TypeHTTPS  = 65
	TypeTSIG   = 250
	TypeIXFR   = 251
	TypeAXFR   = 252
	TypeANY    = 255
	TypeCAA    = 257

	ClassIN = 1
	ClassCH = 3
)

// Response codes; those above 15 need an OPT record.
const (
	RcodeSuccess   = 0
	RcodeFormErr   = 1
	RcodeServFail  = 2
	RcodeNXDomain  = 3
	RcodeNotImp    = 4
	RcodeRefused   = 5
	RcodeNotAuth   = 9
	RcodeBadVers   = 16
	RcodeBadCookie = 23
)

// Extended DNS Errors, RFC 8914 section 4.
const (
	EDEStale            = 3
	EDEIndeterminate    = 5
	EDEBlocked          = 15
	EDEProhibited       = 18
	EDEStaleNXDomain    = 19
	EDENotAuthoritative = 20
	EDENoReachable      = 22
	EDENetwork          = 23
)

// types are the types of records that people write by name.
var types = map[string]uint16{
	"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "HINFO": 13, "MX": 15, "TXT": 16, "RP": 17, "AFSDB": 18,
	"SIG": 24, "KEY": 25, "AAAA": 28, "LOC": 29, "SRV": 33, "NAPTR": 35, "KX": 36, "CERT": 37, "DNAME": 39,
	"OPT": 41, "APL": 42, "DS": 43, "SSHFP": 44, "IPSECKEY": 45, "RRSIG": 46, "NSEC": 47, "DNSKEY": 48, "DHCID": 49,
	"NSEC3": 50, "NSEC3PARAM": 51, "TLSA": 52, "SMIMEA": 53, "HIP": 55, "CDS": 59, "CDNSKEY": 60,
	"OPENPGPKEY": 61, "CSYNC": 62, "ZONEMD": 63, "SVCB": 64, "HTTPS": 65, "SPF": 99, "EUI48": 108, "EUI64": 109,
	"TSIG": 250, "IXFR": 251, "AXFR": 252, "ANY": 255, "URI": 256, "CAA": 257, "TA": 32768, "DLV": 32769,
}

// typeNames are the names of the types, for the range of numbers that nearly
// all of them are in.
var typeNames = func() (names [258]string) {
	for name, n := range types {
		if int(n) < len(names) {
			names[n] = name
		}
	}
	return names
}()

// Type reads a type of record: its name in any case, or "TYPE65" (RFC 3597
// section 5).
func Type(s string) (uint16, error) {
	up := strings.ToUpper(s)
	if t, ok := types[up]; ok {
		return t, nil
	}
	if n, ok := strings.CutPrefix(up, "TYPE"); ok {
		if v, err := strconv.ParseUint(n, 10, 16); err == nil && v > 0 {
			return uint16(v), nil
		}
	}
	return 0, fmt.Errorf(`%q is not a type of record; write it like "AAAA", "HTTPS" or "TYPE65"`, s)
}

// TypeName returns the name of a record type, or "TYPE65" if it has none.
func TypeName(t uint16) string {
	switch {
	case int(t) < len(typeNames) && typeNames[t] != "":
		return typeNames[t]
	case t == types["TA"]:
		return "TA"
	case t == types["DLV"]:
		return "DLV"
	}
	return "TYPE" + strconv.Itoa(int(t))
}

var rcodes = [...]string{
	"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH", "NOTZONE",
	16: "BADVERS", "BADKEY", "BADTIME", "BADMODE", "BADNAME", "BADALG", "BADTRUNC", "BADCOOKIE",
}

// RcodeName returns the name of a response code, or "RCODE24" if it has none.
func RcodeName(n uint16) string {
	if int(n) < len(rcodes) && rcodes[n] != "" {
		return rcodes[n]
	}
	return "RCODE" + strconv.Itoa(int(n))
}

var errorNames = [...]string{
	"Other", "Unsupported DNSKEY Algorithm", "Unsupported DS Digest Type", "Stale Answer", "Forged Answer",
	"DNSSEC Indeterminate", "DNSSEC Bogus", "Signature Expired", "Signature Not Yet Valid", "DNSKEY Missing",
	"RRSIGs Missing", "No Zone Key Bit Set", "NSEC Missing", "Cached Error", "Not Ready", "Blocked", "Censored",
	"Filtered", "Prohibited", "Stale NXDOMAIN Answer", "Not Authoritative", "Not Supported", "No Reachable Authority",
	"Network Error", "Invalid Data", "Signature Expired before Valid", "Too Early", "Unsupported NSEC3 Iterations Value",
	"Unable to conform to policy", "Synthesized",
}

// ErrorName returns the name of an Extended DNS Error, or its number.
func ErrorName(n uint16) string {
	if int(n) < len(errorNames) {
		return errorNames[n]
	}
	return strconv.Itoa(int(n))
}
