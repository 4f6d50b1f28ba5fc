package dns

import (
	"encoding/base64"
	"encoding/hex"
	"net/netip"
	"strconv"
	"time"
)

// AppendData appends the data of a record of msg in the form of zone files.
// Types without their own form here, and damaged data, get the form of unknown
// types (RFC 3597 section 5).
func AppendData(dst, msg []byte, x Record) []byte {
	if x.Data > x.End || x.End > len(msg) {
		return dst
	}
	t := text{dst: dst, msg: msg[:x.End], off: x.Data}
	switch x.Type {
	case TypeA, TypeAAAA:
		t.address(x.Type)
	case TypeNS, TypeCNAME, TypePTR, TypeDNAME:
		t.name()
	case TypeMX:
		t.numbers(2)
		t.name()
	case TypeSRV:
		t.numbers(2, 2, 2)
		t.name()
	case TypeSOA:
		t.name()
		t.name()
		t.numbers(4, 4, 4, 4, 4)
	case TypeTXT, TypeHINFO:
		for t.off < len(t.msg) && !t.bad {
			t.quoted(t.take(int(t.number(1))))
		}
	case TypeCAA:
		t.numbers(1)
		t.word(t.take(int(t.number(1))))
		t.quoted(t.take(len(t.msg) - t.off))
	case TypeDS:
		t.numbers(2, 1, 1)
		t.hex(len(t.msg) - t.off)
	case TypeTLSA:
		t.numbers(1, 1, 1)
		t.hex(len(t.msg) - t.off)
	case TypeDNSKEY:
		t.numbers(2, 1, 1)
		t.word(base64.StdEncoding.AppendEncode(nil, t.take(len(t.msg)-t.off)))
	case TypeRRSIG:
		t.word([]byte(TypeName(uint16(t.number(2)))))
		t.numbers(1, 1, 4)
		t.date()
		t.date()
		t.numbers(2)
		t.name()
		t.word(base64.StdEncoding.AppendEncode(nil, t.take(len(t.msg)-t.off)))
	default:
		t.bad = true
	}
	if !t.bad && t.off == len(t.msg) {
		return t.dst
	}
	data := msg[x.Data:x.End]
	dst = append(dst, `\# `...)
	dst = strconv.AppendInt(dst, int64(len(data)), 10)
	if len(data) == 0 {
		return dst
	}
	return hex.AppendEncode(append(dst, ' '), data)
}

// A text writes the data of a record, field by field.
type text struct {
	dst, msg []byte
	off      int  // of the next field in msg
	bad      bool // the data ends early
	begun    bool // a field has been written
}

func (t *text) take(n int) []byte {
	if n < 0 || t.off+n > len(t.msg) {
		t.bad = true
		return nil
	}
	t.off += n
	return t.msg[t.off-n : t.off]
}

func (t *text) number(size int) (v uint64) {
	for _, b := range t.take(size) {
		v = v<<8 | uint64(b)
	}
	return v
}

// space separates fields.
func (t *text) space() {
	if t.begun {
		t.dst = append(t.dst, ' ')
	}
	t.begun = true
}

func (t *text) word(w []byte) {
	t.space()
	t.dst = append(t.dst, w...)
}

func (t *text) numbers(sizes ...int) {
	for _, n := range sizes {
		t.space()
		t.dst = strconv.AppendUint(t.dst, t.number(n), 10)
	}
}

func (t *text) hex(n int) {
	t.space()
	t.dst = hex.AppendEncode(t.dst, t.take(n))
}

func (t *text) date() {
	t.space()
	t.dst = time.Unix(int64(t.number(4)), 0).UTC().AppendFormat(t.dst, "20060102150405")
}

func (t *text) name() {
	var buf [maxName]byte
	name, end, err := ReadName(buf[:0], t.msg, t.off)
	if err != nil {
		t.bad = true
		return
	}
	t.off = end
	t.space()
	t.dst = AppendText(t.dst, name)
}

func (t *text) address(typ uint16) {
	n := 4
	if typ == TypeAAAA {
		n = 16
	}
	if a, ok := netip.AddrFromSlice(t.take(n)); ok {
		t.dst = a.AppendTo(t.dst)
	}
}

// quoted writes a character string (RFC 1035 section 5.1).
func (t *text) quoted(s []byte) {
	t.space()
	t.dst = append(t.dst, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			t.dst = append(t.dst, '\\', c)
		case c < ' ' || c > '~':
			t.dst = append(t.dst, '\\', '0'+c/100, '0'+c/10%10, '0'+c%10)
		default:
			t.dst = append(t.dst, c)
		}
	}
	t.dst = append(t.dst, '"')
}
