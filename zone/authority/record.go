//go:build !small

package authority

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/zone"
)

// A Field is a part of a record's data. The name of the field says which it is.
type Field struct {
	Name string
	kind kind
}

type kind uint8

const (
	word kind = iota
	address4
	address6
	host
	number8
	number16
	hexadecimal
	base64Data
	quoted
	rest // as in a zone file
)

// Types are the record types that have separate fields in the form, in the order of use.
// Records of other types have a single field, "data".
var Types = []string{"A", "AAAA", "CNAME", "MX", "TXT", "NS", "SRV", "CAA", "PTR", "TLSA", "DS", "DNSKEY", "SSHFP", "HTTPS", "SVCB", "DNAME"}

var fields = map[string][]Field{
	"A": {{"address", address4}}, "AAAA": {{"address", address6}},
	"CNAME": {{"target", host}}, "NS": {{"target", host}}, "PTR": {{"target", host}}, "DNAME": {{"target", host}},
	"MX":     {{"preference", number16}, {"target", host}},
	"TXT":    {{"text", quoted}},
	"SRV":    {{"priority", number16}, {"weight", number16}, {"port", number16}, {"target", host}},
	"CAA":    {{"flags", number8}, {"property", word}, {"value", quoted}},
	"TLSA":   {{"usage", number8}, {"selector", number8}, {"matching", number8}, {"digest", hexadecimal}},
	"DS":     {{"keytag", number16}, {"algorithm", number8}, {"digesttype", number8}, {"digest", hexadecimal}},
	"DNSKEY": {{"flags", number16}, {"protocol", number8}, {"algorithm", number8}, {"key", base64Data}},
	"SSHFP":  {{"algorithm", number8}, {"digesttype", number8}, {"digest", hexadecimal}},
	"HTTPS":  {{"priority", number16}, {"target", host}, {"parameters", rest}},
	"SVCB":   {{"priority", number16}, {"target", host}, {"parameters", rest}},
}

// Fields returns the fields of a record type.
func Fields(typ string) []Field {
	if f, ok := fields[typ]; ok {
		return f
	}
	return []Field{{"data", rest}}
}

// Numeric reports whether the field is a number.
func (f Field) Numeric() bool { return f.kind == number8 || f.kind == number16 }

// A FieldError is a mistake in one field of a record.
type FieldError struct {
	Field string // "name", "type", "ttl" or a field of the type
	Err   error
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }
func (e *FieldError) Unwrap() error { return e.Err }

func wrong(field, format string, args ...any) error {
	return &FieldError{field, fmt.Errorf(format, args...)}
}

// value checks the entered text and returns it as in a zone file.
func (f Field) value(s string) (string, error) {
	if f.kind == quoted {
		return quote(s), nil
	}
	s = strings.TrimSpace(s)
	if s == "" && f.kind != rest {
		return "", wrong(f.Name, "this field is empty")
	}
	switch f.kind {
	case address4, address6:
		a, err := netip.ParseAddr(s)
		switch {
		case err != nil || a.Zone() != "":
			return "", wrong(f.Name, "%q is not an address", s)
		case a.Is4() != (f.kind == address4):
			return "", wrong(f.Name, "%q is not an address of this type: A has IPv4 addresses, AAAA has IPv6 addresses", s)
		}
	case host:
		name, err := dns.Name(s)
		if err != nil {
			return "", wrong(f.Name, "%q is not a host name", s)
		}
		return dns.Text(name), nil
	case number8, number16:
		bits := 16
		if f.kind == number8 {
			bits = 8
		}
		if _, err := strconv.ParseUint(s, 10, bits); err != nil {
			return "", wrong(f.Name, "%q is not a number from 0 to %d", s, 1<<bits-1)
		}
	case hexadecimal:
		s = strings.Join(strings.Fields(s), "")
		if _, err := hex.DecodeString(s); err != nil {
			return "", wrong(f.Name, "%q is not in hexadecimal digits", s)
		}
	case base64Data:
		s = strings.Join(strings.Fields(s), "")
		if _, err := base64.StdEncoding.DecodeString(s); err != nil {
			return "", wrong(f.Name, "%q is not in Base64", s)
		}
	case word:
		if strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
			return "", wrong(f.Name, "%q is not a word of letters and digits", s)
		}
	}
	return s, nil
}

// quote writes a text as strings of at most 255 bytes.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		if i > 0 && i%255 == 0 {
			b.WriteString(`" "`)
		}
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\%03d`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// unquote joins the strings of a record's data.
func unquote(s string) string {
	var b strings.Builder
	inside := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			inside = !inside
		case c == '\\' && i+3 < len(s) && digits(s[i+1:i+4]):
			n, _ := strconv.Atoi(s[i+1 : i+4])
			b.WriteByte(byte(n))
			i += 3
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case inside || c != ' ':
			b.WriteByte(c)
		}
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

func digits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// A Record is a record of a zone for a person.
type Record struct {
	ID   string `json:"id"`   // of this record as it is
	Name string `json:"name"` // relative to the zone, "@" for its origin
	TTL  uint32 `json:"ttl"`
	Type string `json:"type"`
	Data string `json:"data"`

	rr miekg.RR
}

// record describes a record.
func record(rr miekg.RR, origin string) Record {
	h := rr.Header()
	return Record{Name: relative(h.Name, origin), TTL: h.Ttl, Type: miekg.Type(h.Rrtype).String(), Data: strings.TrimPrefix(rr.String(), h.String()), ID: digest(rr.String()), rr: rr}
}

func relative(name, origin string) string {
	name = zone.Canonical(name)
	if name == origin {
		return "@"
	}
	return strings.TrimSuffix(name, "."+strings.TrimPrefix(origin, "."))
}

// Fields returns the fields of the record's type, or "data" if fields would lose something,
// such as texts divided elsewhere than after 255 bytes.
func (r *Record) Fields() []Field {
	all := Fields(r.Type)
	if last := all[len(all)-1]; last.kind == quoted {
		text := r.Data[max(strings.IndexByte(r.Data, '"'), 0):]
		if quote(unquote(text)) != text {
			return Fields("")
		}
	}
	return all
}

// Values returns the data of the record by field.
func (r *Record) Values() map[string]string {
	all := map[string]string{}
	left := r.Data
	for _, f := range r.Fields() {
		var v string
		switch f.kind {
		case quoted:
			v, left = unquote(left), ""
		case rest, hexadecimal, base64Data:
			v, left = left, ""
		default:
			v, left, _ = strings.Cut(left, " ")
		}
		all[f.Name] = v
	}
	return all
}

// maxData bounds the data of one record as entered.
const maxData = 64 << 10

// parse makes a record from entered values. get returns a field by its name; "data" replaces
// the fields of the type. ttl is used if no TTL is entered.
func parse(origin string, get func(string) string, ttl uint32) (miekg.RR, error) {
	typ := strings.ToUpper(strings.TrimSpace(get("type")))
	number, ok := miekg.StringToType[typ]
	switch {
	case !ok && !strings.HasPrefix(typ, "TYPE"):
		return nil, wrong("type", "%q is not a record type", typ)
	case slices.Contains([]uint16{miekg.TypeRRSIG, miekg.TypeNSEC, miekg.TypeNSEC3, miekg.TypeNone, miekg.TypeANY, miekg.TypeAXFR, miekg.TypeIXFR, miekg.TypeOPT, miekg.TypeTSIG}, number) && ok:
		return nil, wrong("type", "records of type %s are not entered by hand", typ)
	}
	owner := strings.ToLower(strings.TrimSpace(get("name")))
	switch name, err := ownerOf(owner, origin); {
	case err != nil:
		return nil, err
	default:
		owner = name
	}
	if s := strings.TrimSpace(get("ttl")); s != "" {
		n, err := strconv.ParseUint(s, 10, 31)
		if err != nil {
			return nil, wrong("ttl", "%q is not a number of seconds", s)
		}
		ttl = uint32(n)
	}
	data, last := get("data"), "data"
	if data == "" {
		var parts []string
		for _, f := range Fields(typ) {
			v, err := f.value(get(f.Name))
			if err != nil {
				return nil, err
			}
			last = f.Name
			parts = append(parts, v)
		}
		data = strings.Join(parts, " ")
	}
	switch {
	case len(data) > maxData:
		return nil, wrong(last, "%d bytes are too many; a record has at most %d", len(data), maxData)
	case strings.ContainsAny(data, "\r\n"):
		return nil, wrong(last, "the data of a record is one line")
	}
	rr, err := miekg.NewRR(fmt.Sprintf("%s %d IN %s %s", owner, ttl, typ, data))
	if err != nil {
		_, what, _ := strings.Cut(err.Error(), "dns: ")
		what, _, _ = strings.Cut(what, " at line: ")
		return nil, &FieldError{last, errors.New(what)}
	}
	if rr == nil || rr.Header().Rrtype == miekg.TypeNone {
		return nil, wrong(last, "this field is empty")
	}
	if _, err := zone.Pack(rr, new([]byte)); err != nil {
		return nil, &FieldError{last, err}
	}
	return rr, nil
}

// ownerOf returns the full name of an entered one: relative to the zone, "@", or with a final
// dot.
func ownerOf(name, origin string) (string, error) {
	full := name
	switch {
	case name == "@" || name == "" || name+"." == origin:
		return origin, nil
	case !strings.HasSuffix(name, "."):
		full = name + "." + strings.TrimPrefix(origin, ".")
	}
	wire, err := dns.Name(full)
	if err != nil || strings.ContainsAny(name, " \t\r\n\"();$") {
		return "", wrong("name", "%q is not a name of this zone, such as www, * or @", name)
	}
	apex, err := dns.Name(origin)
	if err != nil || !dns.Within(wire, apex) {
		return "", wrong("name", "%s is not in the zone %s", full, origin)
	}
	return dns.Text(wire), nil
}
