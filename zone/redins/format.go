package redins

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
)

// A Schema is a layout of zones in Redis.
type Schema string

const (
	// Redins stores a zone in one hash, with a field for each name.
	Redins Schema = "redins"
	// Z42 stores one string for each name and type.
	Z42 Schema = "z42"
)

// Limits of values. A larger value, or a set to select from with more records, is refused.
const (
	maxValue  = 1 << 20
	maxChoice = 256
)

// Names of types: fields in the JSON of a name (lower case), parts of keys in z42's layout
// (upper case). DNAME and RR are our additions.
var typeNames = []string{"A", "AAAA", "CNAME", "TXT", "NS", "MX", "SRV", "CAA", "PTR", "TLSA", "DS", "ANAME", "DNAME", "RR"}

// An rrset has the fields that the JSON of all types has in common.
type rrset struct {
	TTL     uint32            `json:"ttl,omitempty"`
	Records []json.RawMessage `json:"records"`
}

// An addressSet is the JSON of A and AAAA.
type addressSet struct {
	TTL     uint32            `json:"ttl,omitempty"`
	Records []json.RawMessage `json:"records"`
	Filter  *filterJSON       `json:"filter,omitempty"`
	Health  *healthJSON       `json:"health_check,omitempty"`
}

type filterJSON struct {
	Count string `json:"count,omitempty"`
	Order string `json:"order,omitempty"`
	Geo   string `json:"geo_filter,omitempty"`
}

type healthJSON struct {
	Enable   bool   `json:"enable"`
	Protocol string `json:"protocol,omitempty"`
	URI      string `json:"uri,omitempty"`
	Port     int    `json:"port,omitempty"`
	Timeout  int    `json:"timeout,omitempty"` // milliseconds
	Up       int    `json:"up_count,omitempty"`
	Down     int    `json:"down_count,omitempty"`
}

type addressJSON struct {
	IP      string    `json:"ip"`
	Country countries `json:"country,omitempty"`
	ASN     asns      `json:"asn,omitempty"`
	Weight  int64     `json:"weight,omitempty"`
}

// countries and asns are one value or a list.
type (
	countries []string
	asns      []uint32
)

func (c *countries) UnmarshalJSON(b []byte) (err error) { *c, err = scalarOrList[string](b); return }
func (a *asns) UnmarshalJSON(b []byte) (err error)      { *a, err = scalarOrList[uint32](b); return }

func scalarOrList[T any](b []byte) ([]T, error) {
	if b[0] == '[' {
		var list []T
		err := json.Unmarshal(b, &list)
		return list, err
	}
	if bytes.Equal(b, []byte("null")) {
		return nil, nil
	}
	one := make([]T, 1)
	err := json.Unmarshal(b, &one[0])
	return one, err
}

type cnameJSON struct {
	TTL  uint32 `json:"ttl,omitempty"`
	Host string `json:"host"`
}

type anameJSON struct {
	Location string `json:"location"`
	Proxied  bool   `json:"proxied,omitempty"` // in old data; ignored
}

type ptrJSON struct {
	TTL    uint32 `json:"ttl,omitempty"`
	Domain string `json:"domain"`
}

type textJSON struct {
	Text string `json:"text"`
}

type nsJSON struct {
	Host string `json:"host"`
}

type mxJSON struct {
	Host       string `json:"host"`
	Preference uint16 `json:"preference"`
}

type srvJSON struct {
	Target   string `json:"target"`
	Priority uint16 `json:"priority"`
	Weight   uint16 `json:"weight"`
	Port     uint16 `json:"port"`
}

type caaJSON struct {
	Tag   string `json:"tag"`
	Value string `json:"value"`
	Flag  uint8  `json:"flag"`
}

type tlsaJSON struct {
	Usage        uint8  `json:"usage"`
	Selector     uint8  `json:"selector"`
	MatchingType uint8  `json:"matching_type"`
	Certificate  string `json:"certificate"`
}

type dsJSON struct {
	KeyTag     uint16 `json:"key_tag"`
	Algorithm  uint8  `json:"algorithm"`
	DigestType uint8  `json:"digest_type"`
	Digest     string `json:"digest"`
}

type configJSON struct {
	DomainID  string   `json:"domain_id,omitempty"`
	SOA       *soaJSON `json:"soa,omitempty"`
	DNSSEC    bool     `json:"dnssec"`
	Flattened bool     `json:"cname_flattening"`
}

type soaJSON struct {
	NS      string  `json:"ns"`
	MBox    string  `json:"MBox"`
	TTL     uint32  `json:"ttl"`
	Refresh uint32  `json:"refresh"`
	Retry   uint32  `json:"retry"`
	Expire  uint32  `json:"expire"`
	MinTTL  uint32  `json:"minttl"`
	Serial  *uint32 `json:"serial,omitempty"`
}

// decode reads JSON into v. unknown names a field that v lacks, which is not fatal.
func decode(b []byte, v any) (unknown string, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err = d.Decode(v); err == nil {
		if d.More() {
			return "", errors.New("more than one JSON value")
		}
		return "", nil
	}
	first := err.Error()
	if err = json.Unmarshal(b, v); err == nil {
		_, name, _ := strings.Cut(first, "unknown field ")
		return name, nil
	}
	return "", jsonError(err)
}

// jsonError removes Go terms from an error of encoding/json.
func jsonError(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		if wrong.Field != "" {
			return fmt.Errorf("%q cannot be a JSON %s", wrong.Field, wrong.Value)
		}
		return fmt.Errorf("this cannot be a JSON %s", wrong.Value)
	}
	return fmt.Errorf("not JSON: %w", err)
}

// host makes the target of a record fully qualified.
func host(s string) (string, error) {
	if s == "" {
		return "", errors.New("the host is empty")
	}
	wire, err := dns.Name(s)
	if err != nil {
		return "", err
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return dns.Text(wire), nil // in punycode
	}
	return miekg.Fqdn(s), nil
}

// record makes a record of type typ from its JSON.
func record(h miekg.RR_Header, b []byte) (rr miekg.RR, unknown string, err error) {
	switch h.Rrtype {
	case miekg.TypeTXT:
		var v textJSON
		unknown, err = decode(b, &v)
		return &miekg.TXT{Hdr: h, Txt: split255(v.Text)}, unknown, err
	case miekg.TypeNS:
		var v nsJSON
		if unknown, err = decode(b, &v); err == nil {
			v.Host, err = host(v.Host)
		}
		return &miekg.NS{Hdr: h, Ns: v.Host}, unknown, err
	case miekg.TypeMX:
		var v mxJSON
		if unknown, err = decode(b, &v); err == nil {
			v.Host, err = host(v.Host)
		}
		return &miekg.MX{Hdr: h, Preference: v.Preference, Mx: v.Host}, unknown, err
	case miekg.TypeSRV:
		var v srvJSON
		if unknown, err = decode(b, &v); err == nil {
			v.Target, err = host(v.Target)
		}
		return &miekg.SRV{Hdr: h, Priority: v.Priority, Weight: v.Weight, Port: v.Port, Target: v.Target}, unknown, err
	case miekg.TypeCAA:
		var v caaJSON
		if unknown, err = decode(b, &v); err == nil && v.Tag == "" {
			err = errors.New("the tag is empty; it is issue, issuewild or iodef")
		}
		return &miekg.CAA{Hdr: h, Flag: v.Flag, Tag: v.Tag, Value: v.Value}, unknown, err
	case miekg.TypeTLSA:
		var v tlsaJSON
		unknown, err = decode(b, &v)
		return &miekg.TLSA{Hdr: h, Usage: v.Usage, Selector: v.Selector, MatchingType: v.MatchingType, Certificate: v.Certificate}, unknown, err
	case miekg.TypeDS:
		var v dsJSON
		unknown, err = decode(b, &v)
		return &miekg.DS{Hdr: h, KeyTag: v.KeyTag, Algorithm: v.Algorithm, DigestType: v.DigestType, Digest: v.Digest}, unknown, err
	}
	return nil, "", fmt.Errorf("type %s has no records of this form", miekg.TypeToString[h.Rrtype])
}

// single makes the record of a type whose JSON is not a list.
func single(h miekg.RR_Header, b []byte) (rr miekg.RR, ttl uint32, unknown string, err error) {
	if h.Rrtype == miekg.TypePTR {
		var v ptrJSON
		if unknown, err = decode(b, &v); err == nil {
			v.Domain, err = host(v.Domain)
		}
		return &miekg.PTR{Hdr: h, Ptr: v.Domain}, v.TTL, unknown, err
	}
	var v cnameJSON
	if unknown, err = decode(b, &v); err == nil {
		v.Host, err = host(v.Host)
	}
	if h.Rrtype == miekg.TypeDNAME {
		return &miekg.DNAME{Hdr: h, Target: v.Host}, v.TTL, unknown, err
	}
	return &miekg.CNAME{Hdr: h, Target: v.Host}, v.TTL, unknown, err
}

// packs reports whether a record can be packed, which also checks hexadecimal data, lengths
// and escapes.
func packs(rr miekg.RR) error {
	n := miekg.Len(rr)
	if n > 65535 {
		return fmt.Errorf("a record of %d bytes does not fit a message", n)
	}
	_, err := miekg.PackRR(rr, make([]byte, n+64), 0, nil, false)
	if err != nil {
		return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "dns: "))
	}
	return nil
}

// split255 splits text into the strings of a TXT record, each 255 bytes except the last. The
// text may have escapes as in a zone file ("\\", "\"", "\032"), as in redins; none is split.
func split255(s string) []string {
	var all []string
	start, n := 0, 0
	for i := 0; i < len(s); {
		if n == 255 {
			all = append(all, s[start:i])
			start, n = i, 0
		}
		n++
		i += escape(s[i:])
	}
	return append(all, s[start:])
}

// escape returns the bytes of the first character of a text.
func escape(s string) int {
	switch {
	case s[0] != '\\' || len(s) == 1:
		return 1
	case len(s) >= 4 && digit(s[1]) && digit(s[2]) && digit(s[3]):
		return 4
	}
	return 2
}

func digit(b byte) bool { return '0' <= b && b <= '9' }

// address parses the IP of an A or AAAA record.
func address(s string, typ uint16) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil || a.Zone() != "":
		return a, fmt.Errorf("ip %q: not an address", s)
	case typ == miekg.TypeA && !a.Is4():
		return a, fmt.Errorf("ip %q: an A record has an IPv4 address", s)
	case typ == miekg.TypeAAAA && !a.Is6():
		return a, fmt.Errorf("ip %q: an AAAA record has an IPv6 address", s)
	}
	return a, nil
}
