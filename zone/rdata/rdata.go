// Package rdata reads the data of records in zone files that the codec does not know, or reads otherwise
// than BIND, Knot and NSD, and finds what the codec lets pass.
package rdata

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	miekg "github.com/miekg/dns"

	"shuultuur/zone/entry"
)

func init() {
	// The codec takes the first bit of a relay's type, which is no part of it, for one, and loses
	// the relay. It writes the types of NXT as those of NSEC. As types that it does not know the
	// records stay as they are.
	delete(miekg.TypeToRR, miekg.TypeAMTRELAY)
	delete(miekg.TypeToRR, miekg.TypeNXT)
}

// readers make the data of types in wire form.
var readers = map[uint16]func(*fields) ([]byte, error){
	entry.WKS: readWKS, miekg.TypeHINFO: readHINFO, miekg.TypeX25: readX25, entry.NSAP: readNSAP, miekg.TypeLOC: readLOC,
	miekg.TypeNAPTR: readNAPTR, miekg.TypeIPSECKEY: readIPSECKEY, miekg.TypeNSEC: readNSEC, miekg.TypeNSEC3: readNSEC3,
	miekg.TypeCSYNC: readCSYNC, entry.DSYNC: readDSYNC, miekg.TypeAMTRELAY: readAMTRELAY, miekg.TypeNXT: readNXT,
	miekg.TypeISDN: readISDN, miekg.TypeGPOS: readGPOS, miekg.TypeUINFO: readUINFO, miekg.TypeNID: readLocator, miekg.TypeL64: readLocator,
	entry.A6: readA6, entry.SINK: readSINK, entry.DOA: readDOA, entry.WALLET: readTexts, entry.CLA: readTexts,
}

// fewest is the number of values that a record needs at least. The parser takes missing ones for
// zero or empty.
var fewest = map[uint16]int{
	miekg.TypeSOA: 7, miekg.TypeDS: 4, miekg.TypeCDS: 4, miekg.TypeTA: 4, miekg.TypeDLV: 4, miekg.TypeTLSA: 4, miekg.TypeSMIMEA: 4, miekg.TypeZONEMD: 4,
	miekg.TypeSSHFP: 3, miekg.TypeKEY: 4, miekg.TypeDNSKEY: 4, miekg.TypeCDNSKEY: 4, miekg.TypeRKEY: 4, miekg.TypeCERT: 4, miekg.TypeSIG: 9, miekg.TypeRRSIG: 9,
	miekg.TypeNSEC3PARAM: 4, miekg.TypeHIP: 3,
}

// Read makes the data of a type in wire form from its words. ok is false for a type that the codec reads
// itself. name reads a name.
func Read(typ uint16, words []entry.Token, name func(entry.Token) ([]byte, error)) (data []byte, ok bool, err error) {
	if read := readers[typ]; read != nil {
		data, err = read(&fields{name, words})
		return data, true, err
	}
	if len(words) < fewest[typ] {
		return nil, false, fmt.Errorf("%d values instead of at least %d", len(words), fewest[typ])
	}
	switch typ {
	case miekg.TypeSVCB, miekg.TypeHTTPS:
		err = checkService(words)
	case miekg.TypeDS, miekg.TypeCDS, miekg.TypeDLV, miekg.TypeTA:
		err = checkDigest(words)
	}
	return nil, false, err
}

// Plain reports whether data as the codec writes it is read back: other servers take more than Read does.
func Plain(typ uint16, data string) bool {
	switch {
	case readers[typ] != nil, typ == miekg.TypeSVCB, typ == miekg.TypeHTTPS:
		return false
	case fewest[typ] == 0:
		return true
	}
	var words []entry.Token
	for w := range strings.FieldsSeq(data) {
		words = append(words, entry.Token{Text: w})
	}
	_, _, err := Read(typ, words, nil)
	return err == nil
}

// fields are the words of record data that are still to be read.
type fields struct {
	named func(entry.Token) ([]byte, error) // reads a name
	rest  []entry.Token
}

// word reads a word that is no text and so has no quotes.
func (f *fields) word(what string) (entry.Token, error) {
	t, err := f.any(what)
	if err == nil && t.Quoted {
		err = fmt.Errorf("the %s %q has quotes", what, t.Text)
	}
	return t, err
}

func (f *fields) any(what string) (entry.Token, error) {
	if len(f.rest) == 0 {
		return entry.Token{}, fmt.Errorf("the %s is missing", what)
	}
	t := f.rest[0]
	f.rest = f.rest[1:]
	return t, nil
}

func (f *fields) end() error {
	if len(f.rest) > 0 {
		return fmt.Errorf("%q is too much", f.rest[0].Text)
	}
	return nil
}

func (f *fields) number(what string, bits int) (uint64, error) {
	t, err := f.word(what)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(t.Text, 10, bits)
	if err != nil {
		return 0, fmt.Errorf("the %s %q is not a number of %d bits", what, t.Text, bits)
	}
	return n, nil
}

// text reads a character string (RFC 1035 section 3.3).
func (f *fields) text(what string) ([]byte, error) {
	t, err := f.any(what)
	if err != nil {
		return nil, err
	}
	var b []byte
	for i := 0; i < len(t.Text); i++ {
		c := t.Text[i]
		switch {
		case c == '\\' && t.Text[i+1] >= '0' && t.Text[i+1] <= '9':
			c, i = (t.Text[i+1]-'0')*100+(t.Text[i+2]-'0')*10+t.Text[i+3]-'0', i+3
		case c == '\\':
			i++
			c = t.Text[i]
		}
		b = append(b, c)
	}
	if len(b) > 255 {
		return nil, fmt.Errorf("the %s has more than 255 bytes", what)
	}
	return append([]byte{byte(len(b))}, b...), nil
}

func (f *fields) name(what string) ([]byte, error) {
	t, err := f.word(what)
	if err != nil {
		return nil, err
	}
	name, err := f.named(t)
	if err != nil {
		return nil, fmt.Errorf("the %s: %w", what, err)
	}
	return name, nil
}

// list reads types up to the end.
func (f *fields) list() (all []uint16, err error) {
	for len(f.rest) > 0 {
		t, err := f.word("type")
		if err != nil {
			return nil, err
		}
		n := entry.Type(strings.ToUpper(t.Text))
		if n == 0 {
			return nil, fmt.Errorf("%q is not a type of record", t.Text)
		}
		all = append(all, n)
	}
	return all, nil
}

// types reads the types of a bitmap, in any order (RFC 4034 section 4.1.2).
func (f *fields) types() ([]byte, error) {
	all, err := f.list()
	if err != nil {
		return nil, err
	}
	slices.Sort(all)
	var out []byte
	for len(all) > 0 {
		window := all[0] >> 8
		var bits [32]byte
		most := 0
		for len(all) > 0 && all[0]>>8 == window {
			low := int(all[0] & 255)
			bits[low/8] |= 0x80 >> (low % 8)
			most, all = low/8, all[1:]
		}
		out = append(out, byte(window), byte(most+1))
		out = append(out, bits[:most+1]...)
	}
	return out, nil
}

func readHINFO(f *fields) ([]byte, error) {
	cpu, err := f.text("CPU")
	if err != nil {
		return nil, err
	}
	system, err := f.text("operating system")
	return append(cpu, system...), errors.Join(err, f.end())
}

func readX25(f *fields) ([]byte, error) {
	n, err := f.text("address")
	if err == nil && (len(n) < 5 || bytes.ContainsFunc(n[1:], func(r rune) bool { return r < '0' || r > '9' })) {
		err = errors.New("the address is not at least four digits")
	}
	return n, errors.Join(err, f.end())
}

func readISDN(f *fields) ([]byte, error) {
	address, err := f.text("address")
	if err != nil || len(f.rest) == 0 {
		return address, err
	}
	part, err := f.text("subaddress")
	return append(address, part...), errors.Join(err, f.end())
}

func readGPOS(f *fields) (out []byte, err error) {
	for _, what := range []string{"longitude", "latitude", "altitude"} {
		s, err := f.text(what)
		if err != nil {
			return nil, err
		}
		out = append(out, s...)
	}
	return out, f.end()
}

func readUINFO(f *fields) ([]byte, error) {
	s, err := f.text("information")
	return s, errors.Join(err, f.end())
}

func readTexts(f *fields) (out []byte, err error) {
	for len(f.rest) > 0 {
		s, err := f.text("text")
		if err != nil {
			return nil, err
		}
		out = append(out, s...)
	}
	return out, nil
}

// readLocator reads the data of NID and L64 (RFC 6742): four groups of up to four hexadecimal digits.
func readLocator(f *fields) ([]byte, error) {
	preference, err := f.number("preference", 16)
	if err != nil {
		return nil, err
	}
	t, err := f.word("locator")
	if err != nil {
		return nil, err
	}
	out := binary.BigEndian.AppendUint16(nil, uint16(preference))
	groups := strings.Split(t.Text, ":")
	for _, g := range groups {
		n, err := strconv.ParseUint(g, 16, 16)
		if err != nil || len(g) > 4 || len(groups) != 4 {
			return nil, fmt.Errorf("%q is not four groups of hexadecimal digits", t.Text)
		}
		out = binary.BigEndian.AppendUint16(out, uint16(n))
	}
	return out, f.end()
}

// readA6 reads the end of an IPv6 address, whose beginning a name has (RFC 2874).
func readA6(f *fields) ([]byte, error) {
	prefix, err := f.number("length of the prefix", 8)
	if err != nil {
		return nil, err
	}
	if prefix > 128 {
		return nil, fmt.Errorf("the prefix has %d bits instead of at most 128", prefix)
	}
	out := []byte{byte(prefix)}
	if prefix < 128 {
		t, err := f.word("address")
		if err != nil {
			return nil, err
		}
		a, err := netip.ParseAddr(t.Text)
		if err != nil || !a.Is6() || a.Zone() != "" {
			return nil, fmt.Errorf("%q is not an IPv6 address", t.Text)
		}
		end := a.AsSlice()[prefix/8:]
		end[0] &= 0xff >> (prefix % 8)
		out = append(out, end...)
	}
	if prefix > 0 {
		name, err := f.name("name of the prefix")
		if err != nil {
			return nil, err
		}
		out = append(out, name...)
	}
	return out, f.end()
}

func readSINK(f *fields) ([]byte, error) {
	var out []byte
	for _, what := range []string{"meaning", "coding", "subcoding"} {
		n, err := f.number(what, 8)
		if err != nil {
			return nil, err
		}
		out = append(out, byte(n))
	}
	data, err := f.base64("data")
	return append(out, data...), err
}

func readDOA(f *fields) ([]byte, error) {
	var out []byte
	for _, what := range []string{"enterprise", "type"} {
		n, err := f.number(what, 32)
		if err != nil {
			return nil, err
		}
		out = binary.BigEndian.AppendUint32(out, uint32(n))
	}
	location, err := f.number("location", 8)
	if err != nil {
		return nil, err
	}
	media, err := f.text("media type")
	if err != nil {
		return nil, err
	}
	out = append(append(out, byte(location)), media...)
	if len(f.rest) == 1 && f.rest[0].Text == "-" && !f.rest[0].Quoted {
		return out, nil
	}
	if len(f.rest) == 0 {
		return nil, errors.New("the data is missing")
	}
	data, err := f.base64("data")
	return append(out, data...), err
}

func readNSAP(f *fields) ([]byte, error) {
	t, err := f.word("address")
	if err != nil {
		return nil, err
	}
	digits, ok := strings.CutPrefix(strings.ToLower(t.Text), "0x")
	b, err := hex.DecodeString(strings.NewReplacer(".", "", "+", "").Replace(digits))
	if !ok || err != nil || len(b) == 0 {
		return nil, fmt.Errorf("%q is not 0x and hexadecimal digits in pairs", t.Text)
	}
	return b, f.end()
}

func readWKS(f *fields) ([]byte, error) {
	t, err := f.word("address")
	if err != nil {
		return nil, err
	}
	addr, err := netip.ParseAddr(t.Text)
	if err != nil || !addr.Is4() {
		return nil, fmt.Errorf("%q is not an IPv4 address", t.Text)
	}
	if t, err = f.word("protocol"); err != nil {
		return nil, err
	}
	network := strings.ToLower(t.Text)
	protocol, err := strconv.ParseUint(network, 10, 8)
	switch {
	case err == nil:
		network = map[uint64]string{6: "tcp", 17: "udp"}[protocol]
	case network == "tcp":
		protocol = 6
	case network == "udp":
		protocol = 17
	default:
		return nil, fmt.Errorf("%q is not tcp, udp or the number of a protocol", t.Text)
	}
	var bits []byte
	for len(f.rest) > 0 {
		if t, err = f.word("service"); err != nil {
			return nil, err
		}
		port, err := strconv.ParseUint(t.Text, 10, 16)
		if err != nil {
			n, err := net.LookupPort(network, strings.ToLower(t.Text))
			if err != nil || n == 0 || network == "" {
				return nil, fmt.Errorf("%q is neither a port nor a known service", t.Text)
			}
			port = uint64(n)
		}
		for int(port/8) >= len(bits) {
			bits = append(bits, 0)
		}
		bits[port/8] |= 0x80 >> (port % 8)
	}
	return append(append(addr.AsSlice(), byte(protocol)), bits...), nil
}

func readNAPTR(f *fields) ([]byte, error) {
	order, err := f.number("order", 16)
	if err != nil {
		return nil, err
	}
	preference, err := f.number("preference", 16)
	if err != nil {
		return nil, err
	}
	out := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, uint16(order)), uint16(preference))
	for _, what := range []string{"flags", "service", "expression"} {
		s, err := f.text(what)
		if err != nil {
			return nil, err
		}
		out = append(out, s...)
	}
	name, err := f.name("replacement")
	return append(out, name...), errors.Join(err, f.end())
}

// relay reads the address of a gateway or a relay, of a kind: 0 none, 1 IPv4, 2 IPv6, 3 a name.
func (f *fields) relay(what string, kind uint64) ([]byte, error) {
	if kind == 3 {
		return f.name(what)
	}
	t, err := f.word(what)
	if err != nil {
		return nil, err
	}
	a, err := netip.ParseAddr(t.Text)
	switch {
	case kind == 0 && t.Text == ".":
		return nil, nil
	case kind == 1 && err == nil && a.Is4(), kind == 2 && err == nil && a.Is6() && a.Zone() == "":
		return a.AsSlice(), nil
	case kind > 3:
		return nil, fmt.Errorf("the type %d of the %s is not one of 0 to 3", kind, what)
	}
	return nil, fmt.Errorf("the %s %q is not of type %d", what, t.Text, kind)
}

func readIPSECKEY(f *fields) ([]byte, error) {
	var n [3]uint64
	for i, what := range []string{"precedence", "type of the gateway", "algorithm"} {
		var err error
		if n[i], err = f.number(what, 8); err != nil {
			return nil, err
		}
	}
	gateway, err := f.relay("gateway", n[1])
	if err != nil {
		return nil, err
	}
	key, err := f.base64("key")
	return append(append([]byte{byte(n[0]), byte(n[1]), byte(n[2])}, gateway...), key...), err
}

// base64 reads the remaining words as one.
func (f *fields) base64(what string) ([]byte, error) {
	var b strings.Builder
	for len(f.rest) > 0 {
		t, err := f.word(what)
		if err != nil {
			return nil, err
		}
		b.WriteString(t.Text)
	}
	data, err := base64.StdEncoding.DecodeString(b.String())
	if err != nil {
		return nil, fmt.Errorf("the %s is not base64", what)
	}
	return data, nil
}

func readAMTRELAY(f *fields) ([]byte, error) {
	precedence, err := f.number("precedence", 8)
	if err != nil {
		return nil, err
	}
	discovery, err := f.number("discovery bit", 1)
	if err != nil {
		return nil, err
	}
	kind, err := f.number("type of the relay", 7)
	if err != nil {
		return nil, err
	}
	relay, err := f.relay("relay", kind)
	return append([]byte{byte(precedence), byte(discovery<<7 | kind)}, relay...), errors.Join(err, f.end())
}

func readDSYNC(f *fields) ([]byte, error) {
	t, err := f.word("type")
	if err != nil {
		return nil, err
	}
	typ := entry.Type(strings.ToUpper(t.Text))
	if typ == 0 {
		return nil, fmt.Errorf("%q is not a type of record", t.Text)
	}
	if t, err = f.word("scheme"); err != nil {
		return nil, err
	}
	scheme := uint64(1)
	if !strings.EqualFold(t.Text, "NOTIFY") {
		if scheme, err = strconv.ParseUint(t.Text, 10, 8); err != nil {
			return nil, fmt.Errorf("%q is neither NOTIFY nor the number of a scheme", t.Text)
		}
	}
	port, err := f.number("port", 16)
	if err != nil {
		return nil, err
	}
	target, err := f.name("target")
	out := append(binary.BigEndian.AppendUint16(nil, typ), byte(scheme))
	return append(binary.BigEndian.AppendUint16(out, uint16(port)), target...), errors.Join(err, f.end())
}

func readNSEC(f *fields) ([]byte, error) {
	next, err := f.name("next name")
	if err != nil {
		return nil, err
	}
	types, err := f.types()
	return append(next, types...), err
}

// readNXT reads the forerunner of NSEC (RFC 2535 section 5.2), which has one bitmap of types up to 127.
func readNXT(f *fields) ([]byte, error) {
	next, err := f.name("next name")
	if err != nil {
		return nil, err
	}
	types, err := f.list()
	var bits []byte
	for _, t := range types {
		if t > 127 {
			return nil, fmt.Errorf("type %d is over 127", t)
		}
		for int(t/8) >= len(bits) {
			bits = append(bits, 0)
		}
		bits[t/8] |= 0x80 >> (t % 8)
	}
	return append(next, bits...), err
}

func readNSEC3(f *fields) ([]byte, error) {
	var n [3]uint64
	for i, what := range []string{"algorithm", "flags", "iterations"} {
		var err error
		if n[i], err = f.number(what, []int{8, 8, 16}[i]); err != nil {
			return nil, err
		}
	}
	t, err := f.word("salt")
	if err != nil {
		return nil, err
	}
	var salt []byte
	if t.Text != "-" {
		if salt, err = hex.DecodeString(t.Text); err != nil || len(salt) > 255 {
			return nil, fmt.Errorf("the salt %q is not hexadecimal", t.Text)
		}
	}
	if t, err = f.word("next hash"); err != nil {
		return nil, err
	}
	digits := base32.HexEncoding.WithPadding(base32.NoPadding)
	hash, err := digits.DecodeString(strings.ToUpper(t.Text))
	// Bits that are left over mean that a digit is missing.
	if err != nil || len(hash) == 0 || len(hash) > 255 || digits.EncodeToString(hash) != strings.ToUpper(t.Text) {
		return nil, fmt.Errorf("the next hash %q is not base32", t.Text)
	}
	types, err := f.types()
	out := binary.BigEndian.AppendUint16([]byte{byte(n[0]), byte(n[1])}, uint16(n[2]))
	out = append(append(out, byte(len(salt))), salt...)
	out = append(append(out, byte(len(hash))), hash...)
	return append(out, types...), err
}

func readCSYNC(f *fields) ([]byte, error) {
	serial, err := f.number("serial", 32)
	if err != nil {
		return nil, err
	}
	flags, err := f.number("flags", 16)
	if err != nil {
		return nil, err
	}
	types, err := f.types()
	out := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(nil, uint32(serial)), uint16(flags))
	return append(out, types...), err
}

// readLOC reads a place (RFC 1876 section 3). Minutes and seconds may be left out, and so may
// what follows the altitude.
func readLOC(f *fields) ([]byte, error) {
	latitude, err := f.angle("latitude", 90, 'N', 'S')
	if err != nil {
		return nil, err
	}
	longitude, err := f.angle("longitude", 180, 'E', 'W')
	if err != nil {
		return nil, err
	}
	t, err := f.word("altitude")
	if err != nil {
		return nil, err
	}
	altitude, err := centimetres(t.Text)
	if altitude += 100000_00; err != nil || altitude < 0 || altitude > math.MaxUint32 {
		return nil, fmt.Errorf("the altitude %q is not between -100000m and 42849672.95m", t.Text)
	}
	out := []byte{0, 0x12, 0x16, 0x13} // 1m, 10000m, 10m
	for i := 1; i < 4 && len(f.rest) > 0; i++ {
		t, _ := f.word("size")
		v, err := centimetres(t.Text)
		if err != nil || v < 0 || v > 90000000_00 {
			return nil, fmt.Errorf("the size or precision %q is not between 0 and 90000000m", t.Text)
		}
		exponent := byte(0)
		for ; v > 9; v /= 10 {
			exponent++
		}
		out[i] = byte(v)<<4 | exponent
	}
	for _, v := range []uint32{latitude, longitude, uint32(altitude)} {
		out = binary.BigEndian.AppendUint32(out, v)
	}
	return out, f.end()
}

// angle reads degrees, minutes and seconds and a direction, as thousandths of a second.
func (f *fields) angle(what string, most uint64, plus, minus byte) (uint32, error) {
	var sum uint64
	for i, unit := range []uint64{3600_000, 60_000, 1000} {
		t, err := f.word(what)
		if err != nil {
			return 0, err
		}
		if up := strings.ToUpper(t.Text); i > 0 && (up == string(plus) || up == string(minus)) {
			f.rest = append([]entry.Token{t}, f.rest...)
			break
		}
		limit := []uint64{most, 59, 59}[i]
		whole, part, _ := strings.Cut(t.Text, ".")
		n, err := strconv.ParseUint(whole, 10, 16)
		if err != nil || n > limit || part != "" && i < 2 || len(part) > 3 {
			return 0, fmt.Errorf("the %s has %q, which is not a number up to %d", what, t.Text, limit)
		}
		sum += n * unit
		if part != "" {
			n, err := strconv.ParseUint((part + "00")[:3], 10, 16)
			if err != nil {
				return 0, fmt.Errorf("the %s has %q, which is not a number", what, t.Text)
			}
			sum += n
		}
	}
	t, err := f.word("direction of the " + what)
	if err != nil {
		return 0, err
	}
	if sum > most*3600_000 {
		return 0, fmt.Errorf("the %s is more than %d degrees", what, most)
	}
	switch strings.ToUpper(t.Text) {
	case string(plus):
		return uint32(1<<31 + sum), nil
	case string(minus):
		return uint32(1<<31 - sum), nil
	}
	return 0, fmt.Errorf("the %s has %q instead of %c or %c", what, t.Text, plus, minus)
}

// centimetres reads metres with up to two decimals.
func centimetres(s string) (int64, error) {
	s = strings.TrimSuffix(strings.TrimSuffix(s, "m"), "M")
	negative := strings.HasPrefix(s, "-")
	whole, part, _ := strings.Cut(strings.TrimLeft(s, "-+"), ".")
	if whole == "" || len(part) > 2 {
		return 0, errors.New("not metres with up to two decimals")
	}
	n, err := strconv.ParseUint(whole+(part + "00")[:2], 10, 40)
	if negative {
		return -int64(n), err
	}
	return int64(n), err
}

// checkService finds what RFC 9460 forbids in the parameters of SVCB and HTTPS records. rest is
// the whole data.
func checkService(rest []entry.Token) error {
	given := map[string]string{}
	for i := 2; i < len(rest); i++ {
		text := rest[i].Text
		for i+1 < len(rest) && rest[i+1].Joined {
			i++
			text += rest[i].Text
		}
		key, value, _ := strings.Cut(text, "=")
		key = strings.ToLower(key)
		if _, twice := given[key]; twice {
			return fmt.Errorf("%s is given twice", key)
		}
		given[key] = value
		switch key {
		case "mandatory", "alpn", "port", "ipv4hint", "ipv6hint":
			if value == "" {
				return fmt.Errorf("%s has no value", key)
			}
		case "no-default-alpn":
			if value != "" {
				return fmt.Errorf("%s has a value", key)
			}
		}
	}
	if _, ok := given["no-default-alpn"]; ok && given["alpn"] == "" {
		return errors.New("no-default-alpn needs alpn")
	}
	seen := map[string]bool{}
	if given["mandatory"] == "" {
		return nil
	}
	for key := range strings.SplitSeq(strings.ToLower(given["mandatory"]), ",") {
		_, ok := given[key]
		switch {
		case key == "mandatory" || key == "key0":
			return errors.New("mandatory names itself")
		case seen[key]:
			return fmt.Errorf("mandatory names %s twice", key)
		case !ok:
			return fmt.Errorf("mandatory names %s, which is missing", key)
		}
		seen[key] = true
	}
	return nil
}

// checkDigest finds digests of DS records of a length that their type does not have.
func checkDigest(words []entry.Token) error {
	n := 0
	for _, t := range words[3:] {
		n += len(t.Text)
	}
	want := map[string]int{"1": 20, "2": 32, "4": 48}[strings.TrimLeft(words[2].Text, "0")]
	if want > 0 && n != 2*want {
		return fmt.Errorf("a digest of type %s has %d bytes, not %d digits", words[2].Text, want, n)
	}
	return nil
}
