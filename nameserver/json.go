package nameserver

import (
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strconv"

	"shuultuur/lib/dns"
)

// mediaTypeJSON is the media type of JSON answers in the form used by public
// resolvers.
const mediaTypeJSON = "application/dns-json"

// readJSON appends the query described by the parameters of a URL: name, type
// (by name or number, default A), do and cd.
func readJSON(dst []byte, name, query string) (msg []byte, status int) {
	wire, err := dns.Name(name)
	if err != nil {
		return dst, http.StatusBadRequest
	}
	typ := uint16(dns.TypeA)
	if text := parameter(query, "type"); text != "" {
		if n, err := strconv.ParseUint(text, 10, 16); err == nil {
			typ = uint16(n)
		} else if typ, err = dns.Type(text); err != nil {
			return dst, http.StatusBadRequest
		}
	}
	msg = dns.AppendQuery(dst, wire, typ, maxMessage)
	if q := msg[len(dst):]; isTrue(parameter(query, "cd")) {
		q[3] |= 0x10
	}
	if isTrue(parameter(query, "do")) {
		msg[len(msg)-4] |= 0x80 // of the flags in the OPT record
	}
	return msg, http.StatusOK
}

func isTrue(s string) bool { return s == "1" || s == "true" }

// A jsonReply is a DNS message in JSON.
type jsonReply struct {
	Status     int          `json:"Status"`
	TC         bool         `json:"TC"`
	RD         bool         `json:"RD"`
	RA         bool         `json:"RA"`
	AD         bool         `json:"AD"`
	CD         bool         `json:"CD"`
	Question   []jsonRecord `json:"Question"`
	Answer     []jsonRecord `json:"Answer,omitempty"`
	Authority  []jsonRecord `json:"Authority,omitempty"`
	Additional []jsonRecord `json:"Additional,omitempty"`
	Comment    string       `json:"Comment,omitempty"` // an Extended DNS Error
}

type jsonRecord struct {
	Name string  `json:"name"`
	Type uint16  `json:"type"`
	TTL  *uint32 `json:"TTL,omitempty"`
	Data *string `json:"data,omitempty"`
}

// appendJSON appends a reply as JSON.
func appendJSON(dst, msg []byte) []byte {
	flags := binary.BigEndian.Uint16(msg[2:])
	r := jsonReply{
		Status: int(flags & 15), TC: flags&0x200 != 0, RD: flags&0x100 != 0, RA: flags&0x80 != 0, AD: flags&0x20 != 0, CD: flags&0x10 != 0,
		Question: []jsonRecord{},
	}
	var buf [256]byte
	off := 12
	if binary.BigEndian.Uint16(msg[4:]) > 0 {
		if name, end, err := dns.ReadName(buf[:0], msg, off); err == nil && end+4 <= len(msg) {
			r.Question = append(r.Question, jsonRecord{Name: dns.Text(name), Type: binary.BigEndian.Uint16(msg[end:])})
			off = end + 4
		}
	}
	for i, section := range []*[]jsonRecord{&r.Answer, &r.Authority, &r.Additional} {
		for range binary.BigEndian.Uint16(msg[6+2*i:]) {
			x, err := dns.ReadRecord(msg, off)
			if err != nil {
				return marshalled(dst, &r)
			}
			if x.Type == dns.TypeOPT {
				r.Status |= int(msg[x.TTLAt]) << 4
				r.Comment = comment(msg[x.Data:x.End])
			} else if name, _, err := dns.ReadName(buf[:0], msg, off); err == nil {
				ttl, data := x.TTL, string(dns.AppendData(nil, msg, x))
				*section = append(*section, jsonRecord{dns.Text(name), x.Type, &ttl, &data})
			}
			off = x.End
		}
	}
	return marshalled(dst, &r)
}

func marshalled(dst []byte, r *jsonReply) []byte {
	b, err := json.Marshal(r)
	if err != nil { // cannot fail: there are only strings and numbers
		return dst
	}
	return append(dst, b...)
}

const optionEDE = 15

// comment returns the Extended DNS Error in the options of an OPT record as
// readable text.
func comment(options []byte) string {
	for len(options) >= 4 {
		code, n := binary.BigEndian.Uint16(options), int(binary.BigEndian.Uint16(options[2:]))
		if 4+n > len(options) {
			return ""
		}
		if v := options[4 : 4+n]; code == optionEDE && n >= 2 {
			s := "EDE " + strconv.Itoa(int(binary.BigEndian.Uint16(v))) + " (" + dns.ErrorName(binary.BigEndian.Uint16(v)) + ")"
			if n > 2 {
				s += ": " + string(v[2:])
			}
			return s
		}
		options = options[4+n:]
	}
	return ""
}
