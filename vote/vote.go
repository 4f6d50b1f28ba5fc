// Package vote accepts clients' votes on sites that are blocked or should be: "this
// is blocked by mistake", "this is dangerous".
//
// Data moves through it as follows. A block page contains a token ([Sealer]) with the
// blocked URL, the client and the reason. A client returns it with its vote to a
// [Server], which checks the vote, adds it to a durable log (package ingest) and
// acknowledges it when it is on disk. A [Drain] reads the log in batches and gives them
// to a [Sink]: to the database (package store), which counts each identifier once; to
// another node over HTTP; or to a stream in Redis or NATS, from which another node fills
// its own log. The [Desk] shows cases that wait for a decision and carries decisions out.
//
// A batch is given to a sink until the sink accepts it, and the log keeps it until then;
// identifiers are unique in the database. So every acknowledged vote counts exactly once,
// whatever fails in between.
package vote

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"shuultuur/text"
)

// A Kind is the opinion in a vote.
type Kind uint8

// The meanings of votes.
const (
	Wrong     Kind = 1 // it is blocked and should not be
	Dangerous Kind = 2 // it is not blocked and should be
)

func (k Kind) String() string {
	switch k {
	case Wrong:
		return "wrong"
	case Dangerous:
		return "dangerous"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// ParseKind reads the form that [Kind.String] writes. "" is Wrong.
func ParseKind(s string) (Kind, error) {
	switch s {
	case "wrong", "":
		return Wrong, nil
	case "dangerous":
		return Dangerous, nil
	}
	return 0, fmt.Errorf(`%.40q is not a vote; write "wrong" or "dangerous"`, s)
}

// An ID names a vote. A client makes it, so that a vote that is sent twice counts
// once.
type ID [16]byte

// String writes an identifier as a UUID (RFC 9562, section 4).
func (id ID) String() string { return string(id.append(nil)) }

func (id ID) append(dst []byte) []byte {
	for n, part := range [...][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
		if n > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, part)
	}
	return dst
}

// ParseID reads a UUID.
func ParseID(s string) (id ID, err error) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, notUUID(s)
	}
	var digits [32]byte
	at := 0
	for n := range len(s) {
		if n != 8 && n != 13 && n != 18 && n != 23 {
			digits[at] = s[n]
			at++
		}
	}
	if _, err := hex.Decode(id[:], digits[:]); err != nil {
		return ID{}, notUUID(s)
	}
	if id == nilID || id == maxID { // sent by many clients that have made none
		return ID{}, fmt.Errorf("%s names no vote; make a new UUID for each", s)
	}
	return id, nil
}

// Special UUIDs (RFC 9562, sections 5.9 and 5.10).
var (
	nilID ID
	maxID = ID{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}
)

func notUUID(s string) error { return fmt.Errorf("%.40q is not a UUID", s) }

// namedID returns the identifier of a vote without a UUID, made from another
// name such as the key of its request. The UUID has version 8 (RFC 9562, section
// 5.8).
func namedID(parts ...string) (id ID) {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.AppendUvarint(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	copy(id[:], h.Sum(nil))
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}

// An Event describes a block: the URL, the client and the reason.
type Event struct {
	Ref      string // identifier of the transaction; "" when there was none
	At       time.Time
	Client   string // address
	User     string
	Groups   []string
	Host     string
	URL      string
	Policy   string
	Rule     string
	Check    string
	Category string
	Entry    string // the list line, phrase or signature that was found
}

// A Vote is a client's opinion on an Event.
type Vote struct {
	ID      ID
	Kind    Kind
	At      time.Time // when it was taken
	Event   Event
	Comment string // why
	Mail    string // address and language for the answer, see [MailTo]; "" for none
	Node    string // which took it
}

// Limits of texts in a vote, in bytes.
const (
	maxURL     = 2048
	maxComment = 2000
	maxMail    = 254
	maxAnswer  = maxMail + 40 // with a language
	maxText    = 500
)

const mailLanguage = "?language="

// MailTo is where the answer to a vote goes, with the language of the voter's
// browser.
func MailTo(addr string, t *text.Texts) string {
	if addr == "" || t == nil {
		return addr
	}
	return addr + mailLanguage + t.Lang
}

// MailOf decodes an address that [MailTo] has made.
func MailOf(to string) (addr, language string) {
	i := strings.LastIndex(to, mailLanguage)
	if i < 0 {
		return to, ""
	}
	return to[:i], to[i+len(mailLanguage):]
}

// Remedy returns the change that would answer the vote. It is equal for all votes
// that one change would answer: the list line, phrase or signature that was
// found, or else the host.
func (v *Vote) Remedy() string {
	e := &v.Event
	switch {
	case v.Kind == Dangerous:
		return "block " + e.Host
	case v.ForTime():
		return "time for " + v.Voter() // nobody else's
	case v.ForHours():
		return "time for " + v.Voter() + " at " + e.Host
	case e.Entry == "":
		return strings.TrimSpace(e.Check + "/" + e.Category + " " + e.Host)
	}
	return e.Check + "/" + e.Category + ": " + e.Entry
}

// ForTime reports whether the vote asks for more time: a quota of minutes was used up.
func (v *Vote) ForTime() bool { return v.Kind == Wrong && isQuota(v.Event.Check, v.Event.Category) }

// Schedule is the check of an event that a rule with hours blocked, whatever else the rule asks for.
const Schedule = "schedule"

// ForHours reports whether the vote is about a site that is closed at certain hours.
func (v *Vote) ForHours() bool { return v.Kind == Wrong && v.Event.Check == Schedule }

// RemedyKey returns a number for a remedy.
func RemedyKey(remedy string) int64 { return int64(xxh3.HashString(remedy)) }

// Voter returns the user who voted, or else the address.
func (v *Vote) Voter() string {
	if v.Event.User != "" {
		return v.Event.User
	}
	return v.Event.Client
}

// Occasion returns an identifier of event and kind for a vote with a token: a
// client that was blocked once may vote once on it. ok is false for a vote
// without a token.
func (v *Vote) Occasion() (id ID, ok bool) {
	e := &v.Event
	if e.Ref == "" {
		return id, false
	}
	return namedID("event", e.Ref, e.URL, strconv.FormatInt(e.At.UnixMilli(), 10), v.Kind.String()), true
}

const format = 1 // the first byte of an encoded vote

// Append encodes a vote. Texts that are too long are cut.
func (v *Vote) Append(dst []byte) []byte {
	dst = append(dst, format, byte(v.Kind))
	dst = append(dst, v.ID[:]...)
	dst = binary.AppendVarint(dst, v.At.UnixMilli())
	dst = appendText(dst, v.Comment, maxComment)
	dst = appendText(dst, v.Mail, maxAnswer)
	dst = appendText(dst, v.Node, maxText)
	return v.Event.append(dst)
}

func appendText(dst []byte, s string, most int) []byte {
	s = cut(s, most)
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// cut returns a text of at most that many bytes, without invalid UTF-8.
func cut(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "")
}

// maxGroups is how many groups of a client are kept.
const maxGroups = 50

func (e *Event) append(dst []byte) []byte {
	dst = binary.AppendVarint(dst, e.At.UnixMilli())
	for _, s := range e.texts() {
		most := maxText
		if s == &e.URL {
			most = maxURL
		}
		dst = appendText(dst, *s, most)
	}
	groups := e.Groups[:min(len(e.Groups), maxGroups)]
	dst = binary.AppendUvarint(dst, uint64(len(groups)))
	for _, g := range groups {
		dst = appendText(dst, g, maxText)
	}
	return dst
}

func (e *Event) texts() [10]*string {
	return [...]*string{&e.Ref, &e.Client, &e.User, &e.Host, &e.URL, &e.Policy, &e.Rule, &e.Check, &e.Category, &e.Entry}
}

var errVote = errors.New("not an encoded vote")

// Parse reads the form that [Vote.Append] writes.
func Parse(b []byte) (v Vote, err error) {
	if len(b) < 18 || b[0] != format {
		return v, errVote
	}
	v.Kind = Kind(b[1])
	copy(v.ID[:], b[2:18])
	r := decoder{b: b[18:]}
	v.At = time.UnixMilli(r.number())
	v.Comment, v.Mail, v.Node = r.text(), r.text(), r.text()
	v.Event = r.event()
	if r.bad || len(r.b) > 0 || v.Kind != Wrong && v.Kind != Dangerous {
		return Vote{}, errVote
	}
	return v, nil
}

type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) number() int64 {
	n, size := binary.Varint(d.b)
	if size <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) text() string {
	n, size := binary.Uvarint(d.b)
	if size <= 0 || n > uint64(len(d.b)-size) {
		d.bad, d.b = true, nil
		return ""
	}
	s := string(d.b[size : size+int(n)])
	d.b = d.b[size+int(n):]
	return s
}

func (d *decoder) event() (e Event) {
	e.At = time.UnixMilli(d.number())
	for _, s := range e.texts() {
		*s = d.text()
	}
	n, size := binary.Uvarint(d.b)
	if size <= 0 || n > maxGroups {
		d.bad = true
		return e
	}
	d.b = d.b[size:]
	for range n {
		e.Groups = append(e.Groups, d.text())
	}
	return e
}
