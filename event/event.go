// Package event records transactions: one [Row] for each transaction.
//
// When a transaction is over, the gateway makes a row of it ([NewRow]) and hands
// it to the [Log] ([Log.Add]), which never blocks: each [Store] has its own
// bounded queue, and rows that do not fit are dropped and counted. [Log.Run]
// writes every queue to its store in batches, once a second or at 10,000 rows.
// A store that fails is tried again at growing intervals while its queue holds
// the rows; the other stores go on meanwhile.
//
// Pages, reports and the command line read a record through a [Reader]. They
// say with a [Filter] which rows they want, in the language of [ParseFilter].
//
// Stores are the folders below: sqlite (the default), jsonl, postgres, clickhouse,
// squid and dansguardian. The first four are readers too; the last two write log
// files for existing programs. [File] is the common part of the text stores. Each
// store passes the tests in eventtest.
package event

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"shuultuur/filter"
	"shuultuur/lib/ascii"
	"shuultuur/lib/dns"
)

// Texts of a row are cut to these lengths, in bytes. A cut text ends in "…". Clients choose
// URLs, and must not be able to fill the disk with 64 KiB in each.
const (
	maxURL      = 4096
	maxEvidence = 4096
	maxNote     = 1024
	maxShort    = 256   // host, user, method, media type, policy, rule, ID, category and the like
	maxFindings = 16384 // all findings as JSON; if some do not fit, the last one counts them

	maxMonitored  = 4096 // names of monitoring rules as JSON
	maxSignatures = 256  // identifiers
)

// A Row is the record of one transaction. Its texts are as they arrived and may contain any
// byte: escape them before you show them.
type Row struct {
	Seq      int64         // place in the store that it was read from, rising in the order of recording; 0 in a new row
	Time     time.Time     // when the transaction ended, UTC, in microseconds; minus Duration it is the start
	Duration time.Duration // microseconds
	ID       string
	Client   netip.Addr // without zone; the zero Addr when unknown
	User     string
	Policy   string
	Rule     string // "" when no rule matched
	Method   string // for DNS the type of record
	URL      string // "" if only a host was requested (DNS, TLS)
	Host     string
	Type     string // media type of the response: lower case, no parameters
	Category string // of the finding that decided
	Evidence string // of the finding that decided
	Findings string // all findings: a JSON array of filter.Finding, "" when there are none
	Note     string
	BytesIn  int64 // body bytes from the client
	BytesOut int64 // body bytes to the client
	Score    int   // of the deciding finding, otherwise the highest of all
	Status   int   // 0 when no answer was sent; for DNS the response code
	Port     uint16
	Proto    filter.Proto
	Action   filter.Action
	Learned  bool // the verdict was stored by an earlier transaction
	RareValues
}

// A Codec writes an event as a line of text without NUL bytes, and reads it.
type Codec struct {
	Append func(dst []byte, r *Row) []byte
	Parse  func(line []byte) (Row, error)
}

// RareValues has the values that only some rows have.
type RareValues struct {
	HeadOut int64      // bytes of the head to the client
	Looked  int64      // wire bytes of the body that checks inspected
	Length  int64      // wire bytes of the whole body; 0 if unknown
	Server  netip.Addr // the address that the request was sent to
	Parent  bool       // Server is a parent proxy

	Source       string // how the user was identified: "basic"
	Unread       string // why a part of the body was not inspected
	Cache        string // what the cache did: "hit"
	Picture      string // result of the picture classifier
	Conversation string // ID of the transaction that this one is a message of
	Minutes      string // of use, by their distance from that in which it began: "0-3,7"; "": only that one, see Row.Used
	Monitored    string // names of the monitoring rules that matched: a JSON array, "" when there are none
	Signatures   string // identifiers of the signatures that matched: a JSON array of numbers, "" when there are none
}

// rowSize is the size of a row without its texts.
const rowSize = int(unsafe.Sizeof(Row{}))

// TextSize returns the number of bytes of text in the row.
func (r *Row) TextSize() int {
	return len(r.ID) + len(r.User) + len(r.Policy) + len(r.Rule) + len(r.Method) + len(r.URL) + len(r.Host) +
		len(r.Type) + len(r.Category) + len(r.Evidence) + len(r.Findings) + len(r.Note) + len(r.Source) +
		len(r.Unread) + len(r.Cache) + len(r.Picture) + len(r.Conversation) + len(r.Minutes) + len(r.Monitored) + len(r.Signatures)
}

// Start returns when the transaction began.
func (r *Row) Start() time.Time { return r.Time.Add(-r.Duration) }

// Who names the client for a person: "anna@10.1.2.3".
func (r *Row) Who() string {
	who := r.Client.String()
	if r.User != "" {
		who = r.User + "@" + who
	}
	return who
}

// WithDeviceName adds the name of a device to the text that names a client: "10.1.2.3 (laptop)". It
// leaves the text alone if the name is "".
func WithDeviceName(who, name string) string {
	if name == "" {
		return who
	}
	return who + " (" + name + ")"
}

// Why explains the verdict to a person: "policy/rule (category score) [note]".
func (r *Row) Why() string {
	why := r.Policy
	if r.Policy != "" && r.Rule != "" {
		why += "/"
	}
	why += r.Rule
	if r.Category != "" {
		why += " (" + r.Category
		if r.Score != 0 {
			why += fmt.Sprintf(" %d", r.Score)
		}
		why += ")"
	}
	if r.Note != "" {
		why += " [" + r.Note + "]"
	}
	return strings.TrimSpace(why)
}

// What returns the URL, or the host if there is no URL.
func (r *Row) What() string { return cmp.Or(r.URL, r.Host) }

// NewRow returns the row of a completed transaction. t may be reused afterwards. The row shares
// the strings of t, except those of findings, which may point into a list that will be closed.
// From copies these and all byte slices. It allocates once; a row without findings and with a
// common media type needs no allocation.
func NewRow(t *filter.Transaction) Row {
	why := &t.Verdict.Reason
	r := Row{
		Time:     t.Start.Add(t.Duration).UTC().Truncate(time.Microsecond),
		Duration: t.Duration.Truncate(time.Microsecond),
		ID:       cut(t.ID, maxShort),
		Client:   t.Client.Addr.WithZone(""),
		User:     cut(t.Client.User, maxShort),
		Policy:   cut(why.Policy, maxShort),
		Rule:     cut(why.Rule, maxShort),
		URL:      cut(t.URL, maxURL),
		Host:     cut(t.Host, maxShort),
		Note:     cut(noteOf(t), maxNote),
		BytesIn:  t.BytesIn,
		BytesOut: t.BytesOut,
		Status:   t.Status,
		Port:     t.Port,
		Proto:    t.Proto,
		Action:   t.Verdict.Action,
		Learned:  why.Learned,
		RareValues: RareValues{
			HeadOut:      t.HeadOut,
			Looked:       t.Looked,
			Length:       t.Length,
			Server:       t.Server.WithZone(""),
			Parent:       t.Parent,
			Source:       cut(t.Client.Source, maxShort),
			Unread:       cut(t.Unread, maxShort),
			Cache:        cut(t.Cache, maxShort),
			Picture:      cut(t.Picture, maxShort),
			Conversation: cut(t.Conversation, maxShort),
		},
	}
	r.Minutes = minutesOf(t, &r)
	if t.Request != nil {
		r.Method = cut(t.Request.Method, maxShort)
	}
	if t.Proto == filter.DNS && t.Type != 0 {
		r.Method = dns.TypeName(t.Type)
	}
	var typ []byte
	if t.Response != nil {
		typ = mediaType(t.Response.Get("Content-Type"))
		if r.Type = commonType(typ); r.Type != "" {
			typ = nil
		}
	}
	decided := why.Finding.Check != "" || why.Finding.Category != ""
	if len(typ) == 0 && len(t.Findings) == 0 && !decided && len(t.Monitored) == 0 && len(t.Signatures) == 0 {
		return r
	}
	r.setTexts(typ, t)
	return r
}

// minutesOf returns the minutes of use of a transaction as its row keeps them.
func minutesOf(t *filter.Transaction, r *Row) string {
	first := filter.MinuteOf(r.Start())
	only := filter.MinuteSpan{First: first, Last: first}
	if t.Minutes == nil && first == filter.MinuteOf(r.Time) || len(t.Minutes) == 1 && t.Minutes[0] == only {
		return "" // as of nearly all
	}
	used := slices.Clone(t.Used())
	for len(used) > 0 && used[0].Last < first { // a time of a row may be a microsecond later, and the clock may have been set
		used = used[1:]
	}
	if len(used) == 0 {
		return ""
	}
	if used[0].First = max(used[0].First, first); len(used) == 1 && used[0] == only {
		return ""
	}
	return used.Text(first)
}

// Used returns the minutes that count for the transaction, like [filter.Transaction.Used].
func (r *Row) Used() filter.Minutes {
	if r.Proto == filter.DNS || r.Action >= filter.Warn && !r.Server.IsValid() {
		return nil
	}
	first := filter.MinuteOf(r.Start())
	if r.Minutes != "" {
		if m, err := filter.ParseMinutes(r.Minutes, first); err == nil {
			return m
		}
	}
	return filter.Minutes{{First: first, Last: first}}
}

// setTexts copies the media type, the findings and other matches into one new
// string.
func (r *Row) setTexts(typ []byte, t *filter.Transaction) {
	decided, all := &t.Verdict.Reason.Finding, t.Findings
	category, evidence := cut(decided.Category, maxShort), cut(decided.Evidence, maxEvidence)
	n := len(typ) + len(category) + len(evidence) + 2 + 11*min(len(t.Signatures), maxSignatures)
	for i := range t.Monitored {
		n += len(t.Monitored[i].Rule) + 8
	}
	for i := range all {
		f := &all[i]
		n += len(f.Check) + len(f.Category) + len(f.Evidence) + 64
	}
	buf := make([]byte, 0, min(n, maxFindings+maxEvidence+3*maxShort+maxMonitored+11*maxSignatures))
	buf = ascii.AppendLower(buf, typ)
	a := len(buf)
	buf = append(buf, category...)
	b := len(buf)
	buf = append(buf, evidence...)
	c := len(buf)
	buf = appendFindings(buf, all)
	d := len(buf)
	buf = appendMonitored(buf, t.Monitored)
	e := len(buf)
	buf = appendSignatures(buf, t.Signatures)

	// Nothing writes to buf any more, so its bytes may serve as a string.
	s := unsafe.String(unsafe.SliceData(buf), len(buf))
	if len(typ) > 0 {
		r.Type = s[:a]
	}
	r.Category, r.Evidence, r.Findings = s[a:b], s[b:c], s[c:d]
	r.Monitored, r.Signatures = s[d:e], s[e:]
	r.Score = decided.Score
	if decided.Check == "" && decided.Category == "" {
		for i := range all {
			r.Score = max(r.Score, all[i].Score)
		}
	}
}

// appendFindings appends the findings as a JSON array, or nothing if there are
// none.
func appendFindings(dst []byte, all []filter.Finding) []byte {
	if len(all) == 0 {
		return dst
	}
	start := len(dst)
	dst = append(dst, '[')
	for i := range all {
		f := &all[i]
		mark := len(dst)
		dst = append(dst, `{"check":`...)
		dst = AppendJSON(dst, cut(f.Check, maxShort))
		dst = append(dst, `,"category":`...)
		dst = AppendJSON(dst, cut(f.Category, maxShort))
		dst = append(dst, `,"score":`...)
		dst = strconv.AppendInt(dst, int64(f.Score), 10)
		dst = append(dst, `,"evidence":`...)
		dst = AppendJSON(dst, cut(f.Evidence, maxEvidence))
		if f.Wrapped {
			dst = append(dst, `,"wrapped":true`...)
		}
		dst = append(dst, '}', ',')
		if len(dst)-start > maxFindings-96 {
			dst = append(dst[:mark], `{"check":"event","category":"cut","score":0,"evidence":"`...)
			dst = strconv.AppendInt(dst, int64(len(all)-i), 10)
			dst = append(dst, ` findings left out"},`...)
			break
		}
	}
	dst[len(dst)-1] = ']'
	return dst
}

// appendMonitored appends the names of the rules as a JSON array, or nothing if
// there are none.
func appendMonitored(dst []byte, all []filter.Reason) []byte {
	if len(all) == 0 {
		return dst
	}
	start := len(dst)
	dst = append(dst, '[')
	for i := range all {
		mark := len(dst)
		dst = append(AppendJSON(dst, cut(all[i].Rule, maxShort)), ',')
		if len(dst)-start > maxMonitored {
			dst = dst[:mark]
			break
		}
	}
	dst[len(dst)-1] = ']'
	return dst
}

// appendSignatures appends the identifiers as a JSON array, or nothing if there
// are none.
func appendSignatures(dst []byte, all []uint32) []byte {
	for i, id := range all[:min(len(all), maxSignatures)] {
		c := byte(',')
		if i == 0 {
			c = '['
		}
		dst = strconv.AppendUint(append(dst, c), uint64(id), 10)
	}
	if len(all) > 0 {
		dst = append(dst, ']')
	}
	return dst
}

// cut returns s, or its first bytes and "…" if it is longer than n bytes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n -= len("…")
	for n > 0 && s[n]&0xc0 == 0x80 { // not inside a UTF-8 sequence
		n--
	}
	return s[:n] + "…"
}

// mediaType returns a Content-Type without parameters and white space.
func mediaType(v []byte) []byte {
	for i, c := range v {
		if c == ';' || c == ',' {
			v = v[:i]
			break
		}
	}
	for len(v) > 0 && (v[0] == ' ' || v[0] == '\t') {
		v = v[1:]
	}
	for len(v) > 0 && (v[len(v)-1] == ' ' || v[len(v)-1] == '\t') {
		v = v[:len(v)-1]
	}
	return v[:min(len(v), maxShort)]
}

// commonType returns v as a constant when it is one of the media types that make up nearly all
// traffic, so that they need no allocation.
func commonType(v []byte) string {
	switch string(v) {
	case "text/html":
		return "text/html"
	case "text/css":
		return "text/css"
	case "text/plain":
		return "text/plain"
	case "text/javascript":
		return "text/javascript"
	case "text/xml":
		return "text/xml"
	case "application/javascript":
		return "application/javascript"
	case "application/x-javascript":
		return "application/x-javascript"
	case "application/json":
		return "application/json"
	case "application/xml":
		return "application/xml"
	case "application/octet-stream":
		return "application/octet-stream"
	case "application/pdf":
		return "application/pdf"
	case "application/zip":
		return "application/zip"
	case "image/png":
		return "image/png"
	case "image/jpeg":
		return "image/jpeg"
	case "image/gif":
		return "image/gif"
	case "image/webp":
		return "image/webp"
	case "image/avif":
		return "image/avif"
	case "image/svg+xml":
		return "image/svg+xml"
	case "image/x-icon":
		return "image/x-icon"
	case "font/woff2":
		return "font/woff2"
	case "video/mp4":
		return "video/mp4"
	case "audio/mpeg":
		return "audio/mpeg"
	}
	return ""
}

// noteOf returns the notes on the client's identity and on the transaction.
func noteOf(t *filter.Transaction) string {
	if t.Client.Note != "" && t.Note != "" {
		return t.Client.Note + "; " + t.Note
	}
	return t.Client.Note + t.Note
}
