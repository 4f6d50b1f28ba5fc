// Package jsonl keeps events as JSON lines: one object per line, UTF-8.
//
// The keys are stable. Those of empty texts, zero numbers and false are left
// out, except time, proto, action and the three that every program wants
// (client, host, status):
//
//	time         RFC 3339 UTC with microseconds: when the transaction was over
//	id           identifier, as on the block page
//	proto        http, tls or dns
//	client       address; "" when not known
//	user
//	source       how the user is known: basic
//	policy, rule
//	action       pass, allow, warn, block or redirect
//	learned      true when the verdict was remembered from an earlier transaction
//	method, url
//	host, port
//	status       what the client got; 0 when no answer was sent
//	type         media type
//	bytes_in     body bytes from the client
//	bytes_out    body bytes to the client
//	head_out     bytes of the head to the client
//	looked       bytes of the body that checks inspected
//	length       bytes of the whole body
//	duration_us  microseconds from the first byte of the question to the last of the answer
//	server       address that the request was sent to
//	parent       true when that is a parent proxy
//	score, category, evidence   of the finding that decided
//	findings     array of {check, category, score, evidence}
//	note
//	unread       why a part of the body was not inspected
//	cache        what the cache did: hit, miss
//	picture      what the classifier of pictures said
//	conversation id of the transaction that this one is a message of
//	minutes      of use, by their distance from that in which it began: 0-3,7; that one alone if it is absent
//	monitored    array of the names of monitoring rules that matched
//	signatures   array of the identifiers of signatures that matched
//
// [event.File] writes and rotates the file; this package has the line and its
// reader.
package jsonl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"time"

	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/lib/clock"
	"shuultuur/lib/release"
	"shuultuur/lib/setting"
)

// A Store appends to a file of JSON lines.
type Store struct {
	*event.File
	Reader
	most     int64 // bytes of the file; 0: no bound
	clock    *clock.Guard
	nameless nameless
}

// Bound sets the size in bytes at which the file is renamed to PATH.1,
// replacing the previous one. It is for devices on which nothing else rotates
// the file.
func (s *Store) Bound(n int64) { s.most = n }

// Write implements [event.Store].
func (s *Store) Write(ctx context.Context, rows []event.Row) error {
	if err := s.forgetClients(ctx, len(rows)); err != nil {
		return fmt.Errorf("anonymise old lines of event log %q: %w", s.Reader, err)
	}
	if err := s.rotate(); err != nil {
		return fmt.Errorf("rotate event log: %w", err)
	}
	return s.File.Write(ctx, rows)
}

// rotate renames this file if it has reached its bound.
func (s *Store) rotate() error {
	path := string(s.Reader)
	if s.most == 0 {
		return nil
	}
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() || st.Size() < s.most {
		return nil // if it does not exist, something else moved it
	}
	if err := os.Rename(path, path+".1"); err != nil {
		return err
	}
	return s.Reopen()
}

// Kind is the kind of these logs.
var Kind = event.Kind{Store: "jsonl", Entry: regexp.MustCompile(`^\{"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d`)}

// Path is the setting of the store: the name of its file.
type Path string

// smallLog is the size in bytes at which the small build rotates its log; there are at most two
// such files.
const smallLog = 8 << 20

// Open implements [event.Setting].
func (p Path) Open(o event.Opening) ([]event.Store, error) {
	return o.OpenFile(string(p), Kind.Check, func(path string) (event.Store, error) {
		s, err := Open(path)
		if err == nil && release.Small {
			s.Bound(smallLog)
		}
		return s, err
	})
}

// Look implements [event.Readable].
func (p Path) Look(o event.Opening) (event.Reader, func() error, error) {
	return Reader(setting.Path(o.Data, string(p))), func() error { return nil }, nil
}

// Place implements [event.Placed].
func (p Path) Place() string { return string(p) }

// Open opens or makes the file at path.
func Open(path string) (*Store, error) {
	f, err := event.OpenFile(Kind, path, AppendLine)
	if err != nil {
		return nil, err
	}
	return &Store{File: f, Reader: Reader(path)}, nil
}

const timeForm = "2006-01-02T15:04:05.000000Z"

// Codec is for stores that keep events as lines.
var Codec = event.Codec{Append: AppendLine, Parse: ParseLine}

// AppendLine appends the line of r.
func AppendLine(dst []byte, r *event.Row) []byte {
	dst = append(dst, `{"time":"`...)
	dst = r.Time.UTC().AppendFormat(dst, timeForm)
	dst = append(dst, '"')
	dst = text(dst, `,"id":`, r.ID)
	dst = append(dst, `,"proto":"`...)
	dst = append(dst, r.Proto.String()...)
	dst = append(dst, `","client":"`...)
	if r.Client.IsValid() {
		dst = r.Client.AppendTo(dst)
	}
	dst = append(dst, '"')
	dst = text(dst, `,"user":`, r.User)
	dst = text(dst, `,"policy":`, r.Policy)
	dst = text(dst, `,"rule":`, r.Rule)
	dst = append(dst, `,"action":"`...)
	dst = append(dst, r.Action.String()...)
	dst = append(dst, '"')
	if r.Learned {
		dst = append(dst, `,"learned":true`...)
	}
	dst = text(dst, `,"method":`, r.Method)
	dst = text(dst, `,"url":`, r.URL)
	dst = append(dst, `,"host":`...)
	dst = event.AppendJSON(dst, r.Host)
	dst = number(dst, `,"port":`, int64(r.Port))
	dst = append(dst, `,"status":`...)
	dst = strconv.AppendInt(dst, int64(r.Status), 10)
	dst = text(dst, `,"type":`, r.Type)
	dst = number(dst, `,"bytes_in":`, r.BytesIn)
	dst = number(dst, `,"bytes_out":`, r.BytesOut)
	dst = number(dst, `,"head_out":`, r.HeadOut)
	dst = number(dst, `,"looked":`, r.Looked)
	dst = number(dst, `,"length":`, r.Length)
	dst = number(dst, `,"duration_us":`, r.Duration.Microseconds())
	if r.Server.IsValid() {
		dst = append(dst, `,"server":"`...)
		dst = append(r.Server.AppendTo(dst), '"')
	}
	if r.Parent {
		dst = append(dst, `,"parent":true`...)
	}
	dst = number(dst, `,"score":`, int64(r.Score))
	dst = text(dst, `,"category":`, r.Category)
	dst = text(dst, `,"evidence":`, r.Evidence)
	if r.Findings != "" {
		dst = append(dst, `,"findings":`...)
		dst = append(dst, r.Findings...)
	}
	dst = text(dst, `,"note":`, r.Note)
	dst = r.AppendTexts(dst)
	return append(dst, '}', '\n')
}

func text(dst []byte, key, v string) []byte {
	if v == "" {
		return dst
	}
	return event.AppendJSON(append(dst, key...), v)
}

func number(dst []byte, key string, v int64) []byte {
	if v == 0 {
		return dst
	}
	return strconv.AppendInt(append(dst, key...), v, 10)
}

// line has the members of a line.
type line struct {
	Time     time.Time `json:"time"`
	ID       string    `json:"id"`
	Proto    string    `json:"proto"`
	Client   string    `json:"client"`
	User     string    `json:"user"`
	Policy   string    `json:"policy"`
	Rule     string    `json:"rule"`
	Action   string    `json:"action"`
	Learned  bool      `json:"learned"`
	Method   string    `json:"method"`
	URL      string    `json:"url"`
	Host     string    `json:"host"`
	Port     uint16    `json:"port"`
	Status   int       `json:"status"`
	Type     string    `json:"type"`
	BytesIn  int64     `json:"bytes_in"`
	BytesOut int64     `json:"bytes_out"`
	transfer
	Duration int64           `json:"duration_us"`
	Score    int             `json:"score"`
	Category string          `json:"category"`
	Evidence string          `json:"evidence"`
	Findings json.RawMessage `json:"findings"`
	Note     string          `json:"note"`
	event.MoreTexts
}

type transfer struct {
	HeadOut int64      `json:"head_out"`
	Looked  int64      `json:"looked"`
	Length  int64      `json:"length"`
	Server  netip.Addr `json:"server"`
	Parent  bool       `json:"parent"`
}

// ParseLine reads a line that AppendLine wrote. It skips unknown keys, so that
// files of newer programs can be read.
func ParseLine(b []byte) (event.Row, error) {
	var l line
	if err := json.Unmarshal(b, &l); err != nil {
		return event.Row{}, fmt.Errorf("event line: %w", err)
	}
	r := event.Row{
		Time: l.Time.UTC(), Duration: time.Duration(l.Duration) * time.Microsecond, ID: l.ID, User: l.User,
		Policy: l.Policy, Rule: l.Rule, Method: l.Method, URL: l.URL, Host: l.Host, Type: l.Type,
		Category: l.Category, Evidence: l.Evidence, Note: l.Note, BytesIn: l.BytesIn, BytesOut: l.BytesOut,
		Score: l.Score, Status: l.Status, Port: l.Port, Learned: l.Learned,
	}
	r.Findings = event.RawText(l.Findings)
	r.HeadOut, r.Looked, r.Length, r.Server, r.Parent = l.HeadOut, l.transfer.Looked, l.Length, l.Server, l.Parent
	l.MoreTexts.Set(&r.RareValues)
	if l.Client != "" {
		a, err := netip.ParseAddr(l.Client)
		if err != nil {
			return event.Row{}, fmt.Errorf("event line: client %q is not an address", l.Client)
		}
		r.Client = a
	}
	for r.Proto.String() != l.Proto {
		if r.Proto++; r.Proto > filter.DNS {
			return event.Row{}, fmt.Errorf("event line: %q is not a protocol", l.Proto)
		}
	}
	for r.Action.String() != l.Action {
		if r.Action++; r.Action > filter.Redirect {
			return event.Row{}, fmt.Errorf("event line: %q is not an action", l.Action)
		}
	}
	return r, nil
}

// A Reader answers questions about the file at a path, which any process may
// write.
type Reader string

// Query reads the file from its beginning, or from its end if the newest rows come first. It
// does not search rotated files. A line that cannot be read ends the query with an error that
// names its position; an unfinished last line is ignored. The Seq of a row is the offset of its
// line's end.
func (path Reader) Query(ctx context.Context, f event.Filter, p event.Page) iter.Seq2[event.Row, error] {
	return func(yield func(event.Row, error) bool) {
		left := p.Limit
		for r, err := range path.rows(ctx, p) {
			if err != nil {
				yield(event.Row{}, fmt.Errorf("query events: %w", err))
				return
			}
			if !f.Match(&r) {
				continue
			}
			if !yield(r, nil) {
				return
			}
			if left--; left == 0 {
				return
			}
		}
	}
}

// Count reads the whole file once for all questions.
func (path Reader) Count(ctx context.Context, questions ...event.Question) ([][]event.Tally, error) {
	c, err := event.NewCounter(questions)
	if err != nil {
		return nil, err
	}
	for r, err := range path.rows(ctx, event.Page{}) {
		if err != nil {
			return nil, fmt.Errorf("count events: %w", err)
		}
		c.Add(&r)
	}
	return c.Tallies(), nil
}

// rows yields every row after p.After. The caller applies the limit of p.
func (path Reader) rows(ctx context.Context, p event.Page) iter.Seq2[event.Row, error] {
	return func(yield func(event.Row, error) bool) {
		file, err := os.Open(string(path))
		if err != nil {
			yield(event.Row{}, err)
			return
		}
		defer file.Close()
		st, err := file.Stat()
		if err != nil {
			yield(event.Row{}, err)
			return
		}
		size, after := st.Size(), p.After
		if after > size {
			after = 0 // the file was rotated since
		}
		lines := forward(file, after, size)
		if p.Newest {
			if after > 0 {
				size = after - 1 // an unfinished last line is ignored
			}
			lines = backward(file, size)
		}
		for at, b := range lines {
			r, err := parseAt(ctx, at, b)
			if err != nil {
				yield(event.Row{}, fmt.Errorf("%q: %w", string(path), err))
				return
			}
			r.Seq = at + int64(len(b.line)) + 1
			if !yield(r, nil) {
				return
			}
		}
	}
}

// parseAt parses the line at offset at.
func parseAt(ctx context.Context, at int64, b lineOrError) (event.Row, error) {
	if err := ctx.Err(); err != nil {
		return event.Row{}, err
	}
	if b.err != nil {
		return event.Row{}, fmt.Errorf("byte %d: %w", at, b.err)
	}
	r, err := ParseLine(b.line)
	if err != nil {
		return event.Row{}, fmt.Errorf("byte %d: %w", at, err)
	}
	return r, nil
}

type lineOrError struct {
	line []byte // without its end; valid until the next one
	err  error
}

const blockSize = 64 << 10

var errLong = fmt.Errorf("line longer than %d bytes", event.MaxLine)

// forward yields the complete lines of r from offset at on, first to last, with
// their offsets.
func forward(r io.ReaderAt, at, size int64) iter.Seq2[int64, lineOrError] {
	return func(yield func(int64, lineOrError) bool) {
		var buf []byte // unread part of the file, from offset at
		read := at
		for read < size {
			n := min(blockSize, size-read)
			have := len(buf)
			buf = append(buf, make([]byte, n)...)
			if k, err := r.ReadAt(buf[have:], read); int64(k) < n {
				if err != io.EOF { // end of file: it was truncated meanwhile
					yield(read, lineOrError{err: err})
				}
				return
			}
			read += n
			rest := buf
			for {
				i := bytes.IndexByte(rest, '\n')
				if i < 0 {
					break
				}
				if !yield(at, lineOrError{line: rest[:i]}) {
					return
				}
				rest = rest[i+1:]
				at += int64(i) + 1
			}
			if len(rest) > event.MaxLine {
				yield(at, lineOrError{err: errLong})
				return
			}
			buf = buf[:copy(buf, rest)]
		}
	}
}

// backward yields the complete lines of r, last to first.
func backward(r io.ReaderAt, size int64) iter.Seq2[int64, lineOrError] {
	return func(yield func(int64, lineOrError) bool) {
		var buf []byte    // the file from offset at to the line yielded last
		complete := false // buf ends with a complete line
		for at := size; at > 0; {
			n := min(blockSize, at)
			at -= n
			block := make([]byte, n, int(n)+len(buf))
			if k, err := r.ReadAt(block, at); int64(k) < n {
				if err != io.EOF {
					yield(at, lineOrError{err: err})
				}
				return
			}
			buf = append(block, buf...)
			for {
				i := bytes.LastIndexByte(buf, '\n')
				if i < 0 {
					break
				}
				if complete && !yield(at+int64(i)+1, lineOrError{line: buf[i+1:]}) {
					return
				}
				buf, complete = buf[:i], true
			}
			if len(buf) > event.MaxLine {
				yield(at, lineOrError{err: errLong})
				return
			}
		}
		if complete {
			yield(0, lineOrError{line: buf})
		}
	}
}
