// Package event remembers what happened: one [Row] per transaction.
//
// Data moves one way. When a transaction is over, the server's owner makes a
// row of it ([From]) and hands it to the [Log] ([Log.Add]), which never
// blocks: each [Store] has a bounded queue of its own, and what does not fit is
// dropped and counted. [Log.Run] writes every queue to its store in batches,
// once a second or at 10,000 rows. A store that fails is tried again with
// growing pauses while its queue holds the rows; the others go on meanwhile.
//
// Stores live in the folders below: sqlite (the default, can be queried),
// jsonl (can be queried), squid and dansguardian (log files that existing
// programs read). [File] is what the last three have in common.
package event

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"shuultuur/filter"
)

// Longest texts a row keeps, in bytes. What is longer ends in "…": a client
// chooses URLs, and must not be able to fill the disk with one of 64 KiB.
const (
	maxURL      = 4096
	maxEvidence = 4096
	maxNote     = 1024
	maxShort    = 256   // host, user, method, media type, policy, rule, ID, category
	maxFindings = 16384 // all findings as JSON; those past it are counted in a last one
)

// A Row is what is kept of one transaction. Texts are as they came in: they
// may hold any byte, and who shows them must escape them.
type Row struct {
	Time     time.Time     // when the transaction was over, UTC, microseconds; minus Duration is its start
	Duration time.Duration // microseconds
	ID       string
	Client   netip.Addr // without zone; the zero Addr when not known
	User     string
	Policy   string
	Rule     string // "" when no rule fitted
	Method   string // of DNS the type of record
	URL      string // "" where only a host was asked for (DNS, TLS)
	Host     string
	Type     string // media type of the response: lower case, no parameters
	Category string // of the finding that decided
	Evidence string // of the finding that decided
	Findings string // all findings: a JSON array of filter.Finding, "" when there are none
	Note     string
	BytesIn  int64 // body bytes from the client
	BytesOut int64 // body bytes to the client
	Looked   int64 // wire bytes of the body that checks were shown
	Score    int   // of the finding that decided; where none did, the highest of all
	Status   int   // 0 when no answer was sent; of DNS the response code
	Port     uint16
	Proto    filter.Proto
	Action   filter.Action
	Learned  bool // the verdict was remembered, not worked out
}

// rowSize is what a row takes without its texts.
const rowSize = int(unsafe.Sizeof(Row{}))

// TextSize returns how many bytes of text the row holds.
func (r *Row) TextSize() int {
	return len(r.ID) + len(r.User) + len(r.Policy) + len(r.Rule) + len(r.Method) + len(r.URL) + len(r.Host) +
		len(r.Type) + len(r.Category) + len(r.Evidence) + len(r.Findings) + len(r.Note)
}

// Start returns when the transaction began.
func (r *Row) Start() time.Time { return r.Time.Add(-r.Duration) }

// Who says to a person whose transaction it was: "anna@10.1.2.3".
func (r *Row) Who() string {
	who := r.Client.String()
	if r.User != "" {
		who = r.User + "@" + who
	}
	return who
}

// Named adds to what says who a client is what its device is called, "" when
// that is not known: "10.1.2.3 (laptop)".
func Named(who, name string) string {
	if name == "" {
		return who
	}
	return who + " (" + name + ")"
}

// Why says to a person what decided, and what there is to note:
// "policy/rule (category score) [note]".
func (r *Row) Why() string {
	why := r.Rule
	if r.Policy != "" {
		why = r.Policy + "/" + r.Rule
	}
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
	return strings.TrimSuffix(why, "/")
}

// What is what was asked for: the URL, or the host where there is none.
func (r *Row) What() string { return cmp.Or(r.URL, r.Host) }

// From makes the row of a transaction that is over. t may be used again
// afterwards: strings of t are kept (strings do not change), except those of
// findings, which may lie in a list that is about to be closed; they and all
// byte slices are copied. A row without findings and with a common media type
// costs no allocation, any other row one.
func From(t *filter.Transaction) Row {
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
		Note:     cut(t.Note, maxNote),
		BytesIn:  t.BytesIn,
		BytesOut: t.BytesOut,
		Looked:   t.Looked,
		Status:   t.Status,
		Port:     t.Port,
		Proto:    t.Proto,
		Action:   t.Verdict.Action,
		Learned:  why.Learned,
	}
	if t.Request != nil {
		r.Method = cut(t.Request.Method, maxShort)
	}
	if t.Proto == filter.DNS && t.Type != 0 {
		r.Method = filter.RecordName(t.Type)
	}
	var typ []byte
	if t.Response != nil {
		typ = mediaType(t.Response.Get("Content-Type"))
		if r.Type = commonType(typ); r.Type != "" {
			typ = nil
		}
	}
	decided := why.Finding.Check != "" || why.Finding.Category != ""
	if len(typ) == 0 && len(t.Findings) == 0 && !decided {
		return r
	}
	r.keep(typ, &why.Finding, t.Findings)
	return r
}

// keep copies the media type and what the findings say into one new string.
func (r *Row) keep(typ []byte, decided *filter.Finding, all []filter.Finding) {
	category, evidence := cut(decided.Category, maxShort), cut(decided.Evidence, maxEvidence)
	n := len(typ) + len(category) + len(evidence) + 2
	for i := range all {
		f := &all[i]
		n += len(f.Check) + len(f.Category) + len(f.Evidence) + 64
	}
	buf := make([]byte, 0, min(n, maxFindings+maxEvidence+3*maxShort))
	buf = appendLower(buf, typ)
	a := len(buf)
	buf = append(buf, category...)
	b := len(buf)
	buf = append(buf, evidence...)
	c := len(buf)
	buf = appendFindings(buf, all)

	// buf is not written to from here on, so it may be a string as it is.
	s := unsafe.String(unsafe.SliceData(buf), len(buf))
	if len(typ) > 0 {
		r.Type = s[:a]
	}
	r.Category, r.Evidence, r.Findings = s[a:b], s[b:c], s[c:]
	r.Score = decided.Score
	if decided.Check == "" && decided.Category == "" {
		for i := range all {
			r.Score = max(r.Score, all[i].Score)
		}
	}
}

// appendFindings appends the findings as a JSON array, nothing when there are
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

// cut returns s, or the first bytes of it and "…" when it is longer than n.
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

// commonType returns v as a constant when it is one of the media types that
// make up nearly all traffic, so that they cost no allocation.
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

func appendLower(dst, v []byte) []byte {
	for _, c := range v {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// A Store keeps rows. One goroutine writes; a queryable store may be queried
// by others at the same time.
type Store interface {
	// Name is what metrics and messages call the store: "sqlite".
	Name() string
	// Write keeps all rows or none: after an error the same rows are given
	// again. It must not hold on to rows. It is called with no rows once a
	// minute or so in quiet times, for upkeep.
	Write(ctx context.Context, rows []Row) error
	Close() error
}

// A Querier is a store that can be asked.
type Querier interface {
	// Query yields the rows that f lets through, in the order they were
	// recorded, newest first when f says so. After an error nothing follows.
	Query(ctx context.Context, f Filter) iter.Seq2[Row, error]
}

// A Filter says which rows are wanted. A zero field lets everything through.
type Filter struct {
	Since, Until time.Time  // Since <= Time < Until
	Client       netip.Addr // exactly
	User         string     // exactly
	Host         string     // the host itself or a subdomain of it
	Action       string     // "block"; "" for all
	Policy       string     // exactly
	Category     string     // of the deciding finding, exactly
	Text         string     // part of URL, host, rule, evidence, note or ID; ASCII letters in any case
	Limit        int        // at most so many rows; 0 means all
	Newest       bool       // newest first
}

// A Tally counts rows that have something in common.
type Tally struct {
	Name    string `json:"name"` // what they have in common
	Events  int    `json:"events"`
	Blocked int    `json:"blocked"`          // of them with the action block
	Called  string `json:"called,omitempty"` // how people call a client, where that is known
}

// Sums are what the rows of a span of time have in common, the most frequent
// first. Rows that have none of it are left out.
type Sums struct {
	All        Tally
	Clients    []Tally
	Blocked    []Tally // hosts of rows with the action block
	Categories []Tally // of the finding that decided
}

// Match says whether f lets r through. Limit and order are not looked at.
func (f *Filter) Match(r *Row) bool {
	switch {
	case !f.Since.IsZero() && r.Time.Before(f.Since):
	case !f.Until.IsZero() && !r.Time.Before(f.Until):
	case f.Client.IsValid() && f.Client != r.Client:
	case f.User != "" && f.User != r.User:
	case f.Policy != "" && f.Policy != r.Policy:
	case f.Category != "" && f.Category != r.Category:
	case f.Action != "" && f.Action != r.Action.String():
	case f.Host != "" && !under(r.Host, f.Host):
	case f.Text != "" && !f.matchText(r):
	default:
		return true
	}
	return false
}

func (f *Filter) matchText(r *Row) bool {
	for _, s := range [...]string{r.URL, r.Host, r.Rule, r.Evidence, r.Note, r.ID} {
		if containsFold(s, f.Text) {
			return true
		}
	}
	return false
}

// under says whether host is domain or lies in it.
func under(host, domain string) bool {
	rest, ok := strings.CutSuffix(host, domain)
	return ok && (rest == "" || rest[len(rest)-1] == '.')
}

// containsFold is strings.Contains with ASCII letters equal in either case,
// which is what SQLite's LIKE does too.
func containsFold(s, part string) bool {
	for i := 0; i+len(part) <= len(s); i++ {
		j := 0
		for j < len(part) && lower(s[i+j]) == lower(part[j]) {
			j++
		}
		if j == len(part) {
			return true
		}
	}
	return false
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
