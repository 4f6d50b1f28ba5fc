package whatif

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
)

// forms are the supported formats, in the order in which they are tried if none is given.
var forms = [...]string{"adguardhome", "jsonl", "squid", "combined", "dansguardian", "dnsmasq", "unbound", "blocky", "nextdns", "technitium", "technitium-log", "har"}

const (
	maxLine     = 1 << 20 // longer lines are counted as broken and skipped
	maxExamples = 5       // broken lines that are remembered
	tried       = 50      // lines by which the format is recognised
)

var (
	// errNoRequest reports a well formed line without a request.
	errNoRequest = errors.New("not a request")
	errNoHost    = errors.New(`a path without a host; name it with -base http://HOST`)
	errLongLine  = fmt.Errorf("longer than %d bytes", maxLine)
)

// A Source reads log files one after another. A file is a path, or "-" for Stdin; it may be
// compressed with gzip.
type Source struct {
	Files []string
	Form  string         // "" to detect it from the first lines of each file
	Base  string         // put before a path without a host
	Zone  *time.Location // of logs without a time zone; nil means Local
	Stdin io.Reader

	in          Input
	read, total atomic.Int64 // bytes of the files on disk
}

// Input describes the log. It is part of every report.
type Input struct {
	Files    []string `json:"files"`
	Lines    int64    `json:"lines"`    // non-empty ones; entries of a HAR file
	Requests int64    `json:"requests"` // that could be read
	Other    int64    `json:"other"`    // well formed, but not a request
	Broken   int64    `json:"broken"`
	Examples []string `json:"examples,omitempty"` // first broken lines: file:line: the mistake
	Cut      []string `json:"cut,omitempty"`      // files whose rest could not be read, and why: such as a truncated gzip file
}

// CheckComplete returns an error that names the files whose rest could not be read.
func (in *Input) CheckComplete() error {
	if len(in.Cut) == 0 {
		return nil
	}
	return fmt.Errorf("the report covers only part of the log: %s", strings.Join(in.Cut, "; "))
}

// Input returns a description of the part that was read so far.
func (s *Source) Input() Input { return s.in }

// Progress returns how many bytes were read, of how many; the total is 0 if unknown. It is
// safe for concurrent use.
func (s *Source) Progress() (done, total int64) { return s.read.Load(), s.total.Load() }

// Entries yields the requests of all files. An error is that of opening or reading, or of ctx;
// nothing follows it.
func (s *Source) Entries(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := s.sumSizes(); err != nil {
			yield(Entry{}, err)
			return
		}
		for _, name := range s.Files {
			more, err := s.file(ctx, name, func(e Entry) bool { return yield(e, nil) })
			if err != nil {
				yield(Entry{}, err)
			}
			if err != nil || !more {
				return
			}
		}
	}
}

// sumSizes adds up the sizes for the progress bar, and so detects missing files before hours of
// work.
func (s *Source) sumSizes() error {
	if s.Form != "" && !slices.Contains(forms[:], s.Form) {
		return fmt.Errorf("form %q is not one of %s", s.Form, strings.Join(forms[:], ", "))
	}
	total := int64(0)
	known := true
	for _, name := range s.Files {
		if name == "-" {
			known = false
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return fmt.Errorf("reading a log: %w", err)
		}
		if info.IsDir() {
			return fmt.Errorf("reading a log: %q is a folder", name)
		}
		known = known && info.Mode().IsRegular()
		total += info.Size()
	}
	if known {
		s.total.Store(total)
	}
	return nil
}

// A countingReader counts the bytes read, for the progress bar.
type countingReader struct {
	r io.Reader
	n *atomic.Int64
}

func (c countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// file yields the requests of one file and reports whether more are wanted.
func (s *Source) file(ctx context.Context, name string, yield func(Entry) bool) (more bool, err error) {
	in := s.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return false, fmt.Errorf("reading a log: %w", err)
		}
		defer f.Close()
		in = f
	}
	if in == nil {
		in = strings.NewReader("")
	}
	s.in.Files = append(s.in.Files, name)
	br := bufio.NewReaderSize(countingReader{in, &s.read}, maxLine)
	// A short file cannot be peeked at completely, which is not an error.
	if magic, _ := br.Peek(2); string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(br)
		if err != nil {
			return false, fmt.Errorf("reading %q: %w", name, err)
		}
		defer z.Close()
		br = bufio.NewReaderSize(z, maxLine)
	}
	if mark, _ := br.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = br.Discard(3)
	}
	form := s.Form
	if form == "" {
		head, _ := br.Peek(64 << 10)
		if form = s.detectFormat(head); form == "" {
			return false, fmt.Errorf("%s: the first lines match none of the formats %s; name one with -format", name, strings.Join(forms[:], ", "))
		}
	}
	if form == "har" {
		return s.har(ctx, name, &allowance{r: br, most: maxHAREntry}, yield)
	}
	return s.lines(ctx, name, br, s.parser(form), yield)
}

// parser returns the parser of lines in a format.
func (s *Source) parser(form string) func(string) (Entry, error) {
	zone := s.Zone
	if zone == nil {
		zone = time.Local
	}
	switch form {
	case "adguardhome":
		return parseAdGuardHome
	case "dnsmasq":
		now := time.Now()
		return func(l string) (Entry, error) { return parseDnsmasq(l, zone, now) }
	case "unbound":
		return unboundParser()
	case "jsonl":
		return parseEvent
	case "squid":
		return parseSquid
	case "combined":
		return func(l string) (Entry, error) { return parseCombined(l, s.Base) }
	}
	if expr := queryLogs[form]; expr != nil {
		return func(l string) (Entry, error) { return parseQuery(l, expr, zone) }
	}
	return func(l string) (Entry, error) { return parseDansGuardian(l, zone) }
}

// detectFormat returns the format of most of the first lines, "" if they have none.
func (s *Source) detectFormat(head []byte) string {
	if looksLikeHAR(head) {
		return "har"
	}
	best, most, seen := "", 0, 0
	for _, form := range forms[:len(forms)-1] {
		parse, fit := s.parser(form), 0
		seen = 0
		for line := range bytes.Lines(head) {
			if line = bytes.TrimSpace(line); len(line) == 0 {
				continue
			}
			if seen++; seen > tried {
				break
			}
			if _, err := parse(string(line)); err == nil || errors.Is(err, errNoRequest) || errors.Is(err, errNoHost) {
				fit++
			}
		}
		if fit > most {
			best, most = form, fit
		}
	}
	if seen == 0 {
		return "jsonl" // an empty file has no requests in any format
	}
	return best
}

// countLine counts the result for a line and reports whether it is a request.
func (s *Source) countLine(name, mark string, n int64, err error) bool {
	switch {
	case err == nil:
		s.in.Requests++
		return true
	case errors.Is(err, errNoRequest):
		s.in.Other++
		return false
	}
	s.in.Broken++
	if len(s.in.Examples) < maxExamples {
		s.in.Examples = append(s.in.Examples, fmt.Sprintf("%s%s%d: %v", name, mark, n, err))
	}
	return false
}

// lines reads a file line by line.
func (s *Source) lines(ctx context.Context, name string, br *bufio.Reader, parse func(string) (Entry, error), yield func(Entry) bool) (bool, error) {
	for n := int64(1); ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return false, ctx.Err()
		}
		line, err := br.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = br.ReadSlice('\n')
			}
			s.in.Lines++
			s.countLine(name, ":", n, errLongLine)
			line = nil
		}
		if line = bytes.TrimRight(line, "\r\n"); len(bytes.TrimSpace(line)) > 0 {
			s.in.Lines++
			e, bad := parse(string(line))
			if s.countLine(name, ":", n, bad) && !yield(e) {
				return false, nil
			}
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			// The lines before it count, and so do the other files.
			s.in.Cut = append(s.in.Cut, fmt.Sprintf("reading %q: line %d and the rest cannot be read: %v", name, n, err))
			return true, nil
		}
	}
}
