package simulate

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxLine limits a line of a log in bytes. Longer ones are skipped.
const maxLine = 1 << 20

// unsized is the size of an object without one in the log.
const unsized = 16 << 10

// Read reads a log and numbers its objects. It recognises these formats line by line:
//
//   - squid's own: time, duration, client, result/status, bytes, method, URL
//   - combined and common, of web servers, with URLs or paths
//   - events, one JSON object per line, as written by "shuultuur events" and the store jsonl
//   - a trace: time, number of the object, size
//   - a trace of numbers only, 4 bytes each, big endian
//
// All may be compressed with gzip. Requests that a cache cannot answer (other methods than
// GET, errors of the proxy, tunnels) are counted as skipped. A log that breaks off, such as a
// compressed one that is still being written, is read as far as possible.
//
// base is put before paths without a host.
func Read(r io.Reader, temp, base string) (*Trace, error) {
	in := bufio.NewReaderSize(r, maxLine)
	if head, _ := in.Peek(2); len(head) == 2 && head[0] == 0x1f && head[1] == 0x8b {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("reading the log: %w", err)
		}
		in = bufio.NewReaderSize(z, maxLine)
	}
	if head, _ := in.Peek(2); string(head) == "\xff\xfe" || string(head) == "\xfe\xff" {
		return nil, errors.New("reading the log: it is UTF-16; convert it to UTF-8")
	}
	n, err := newNumberer(temp)
	if err != nil {
		return nil, err
	}
	if head, _ := in.Peek(64); bytes.IndexByte(head, 0) >= 0 && !isText(head) {
		err = n.numbers(in)
	} else {
		err = n.lines(in, strings.TrimSuffix(base, "/"))
	}
	if err != nil {
		n.drop()
		n.t.Close()
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	return n.finish()
}

// isText reports whether a log that begins with head has lines: a crash may have left
// zeros in it.
func isText(head []byte) bool {
	letters := 0
	for _, c := range head {
		if c >= ' ' && c < 0x7f || c == '\t' || c == '\r' || c == '\n' {
			letters++
		}
	}
	return 4*letters >= 3*len(head)
}

// numbers reads a trace of numbers.
func (n *numberer) numbers(in io.Reader) error {
	var b [4]byte
	for {
		switch _, err := io.ReadFull(in, b[:]); {
		case err == io.EOF:
			return nil
		case err != nil && n.t.Requests > 0:
			n.t.Broken = err.Error()
			return nil
		case err != nil:
			return err
		}
		if err := n.add(strconv.AppendUint(nil, uint64(binary.BigEndian.Uint32(b[:])), 10), unsized); err != nil {
			return err
		}
	}
}

func (n *numberer) lines(in *bufio.Reader, base string) error {
	for {
		line, err := in.ReadSlice('\n')
		if err == bufio.ErrBufferFull { // longer than any line with a URL
			for err == bufio.ErrBufferFull {
				_, err = in.ReadSlice('\n')
			}
			line = []byte("too long")
		}
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			url, size, ok := parse(line)
			if ok && base != "" && url[0] == '/' {
				url = append([]byte(base), url...)
			}
			if !ok {
				n.t.Skipped++
			} else if err := n.add(url, size); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil && n.t.Requests > 0:
			n.t.Broken = err.Error()
			return nil
		case err != nil:
			return err
		}
	}
}

// parse extracts URL and size from a line.
func parse(line []byte) (url []byte, size int64, ok bool) {
	if line[0] == '{' {
		return parseEvent(line)
	}
	if i := bytes.IndexByte(line, '"'); i >= 0 && bytes.IndexByte(line, '[') >= 0 {
		return parseCombined(line, i)
	}
	f := bytes.Fields(line)
	number := func(b []byte) (int64, bool) {
		v, err := strconv.ParseInt(string(b), 10, 64)
		return v, err == nil
	}
	if _, err := strconv.ParseFloat(string(f[0]), 64); err != nil { // all these formats begin with the time
		return nil, 0, false
	}
	switch {
	case len(f) == 3:
		size, ok = number(f[2])
		return f[1], max(size, 1), ok
	case len(f) >= 7:
		size, ok = number(f[4])
		_, status, _ := bytes.Cut(f[3], []byte("/"))
		return f[6], size, ok && string(f[5]) == "GET" && stored(string(status))
	}
	return nil, 0, false
}

// stored reports whether responses with a status are stored. A 304 concerns an object that is.
func stored(status string) bool {
	switch status {
	case "200", "203", "206", "300", "301", "304", "308", "404", "410":
		return true
	}
	return false
}

// parseCombined parses a line of a web server; i is the position of the first quoted string.
// That is the request, unless it precedes the time: then it is a user's name.
func parseCombined(line []byte, i int) (url []byte, size int64, ok bool) {
	request, rest := quoted(line[i+1:])
	if bytes.IndexByte(line[:i], '[') < 0 {
		j := bytes.IndexByte(rest, '"')
		if j < 0 {
			return nil, 0, false
		}
		request, rest = quoted(rest[j+1:])
	}
	f, after := bytes.Fields(request), bytes.Fields(rest)
	if len(f) < 2 || string(f[0]) != "GET" || len(after) < 2 || !stored(string(after[0])) {
		return nil, 0, false
	}
	size, err := strconv.ParseInt(string(after[1]), 10, 64)
	if err != nil && string(after[1]) != "-" {
		return nil, 0, false
	}
	return f[1], size, true
}

// quoted returns the string up to the first quote without a backslash before it, and the rest.
func quoted(b []byte) (text, rest []byte) {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return b[:i], b[i+1:]
		}
	}
	return nil, nil
}

// parseEvent parses an event.
func parseEvent(line []byte) (url []byte, size int64, ok bool) {
	var e struct {
		URL    string `json:"url"`
		Method string `json:"method"`
		Status int    `json:"status"`
		Out    int64  `json:"bytes_out"`
		Proto  string `json:"proto"`
	}
	if json.Unmarshal(line, &e) != nil || e.Method != "GET" || !stored(strconv.Itoa(e.Status)) || e.URL == "" {
		return nil, 0, false
	}
	return []byte(e.URL), e.Out, true
}
