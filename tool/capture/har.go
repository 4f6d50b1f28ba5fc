package capture

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"

	"shuultuur/lib/suricata/rule"
	"shuultuur/tool/capture/pcap"
)

// maxMessages limits a HAR file or a file with one message.
const maxMessages = 256 << 20

// harLog is the part of a HAR file (version 1.2) that rules inspect.
type harLog struct {
	Log struct {
		Entries []struct {
			Started time.Time `json:"startedDateTime"`
			Address string    `json:"serverIPAddress"`
			Request struct {
				Method  string     `json:"method"`
				URL     string     `json:"url"`
				Version string     `json:"httpVersion"`
				Headers []harField `json:"headers"`
				Post    struct {
					Text string `json:"text"`
				} `json:"postData"`
			} `json:"request"`
			Response struct {
				Status  int        `json:"status"`
				Text    string     `json:"statusText"`
				Headers []harField `json:"headers"`
				Content struct {
					Text     string `json:"text"`
					Encoding string `json:"encoding"`
				} `json:"content"`
			} `json:"response"`
		} `json:"entries"`
	} `json:"log"`
}

type harField struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Messages tries the rules on data: a HAR file, or one request as sent, optionally followed by
// its response after a line "HTTP/…".
func (r *Run) Messages(data []byte) error {
	if len(data) > maxMessages {
		return fmt.Errorf("the file has more than %d MiB", maxMessages>>20)
	}
	client, server := netip.MustParseAddrPort("192.168.0.1:40000"), netip.MustParseAddrPort("192.0.2.1:80")
	if trim := bytes.TrimSpace(data); len(trim) > 0 && trim[0] == '{' {
		return r.har(trim, client, server)
	}
	request, response := data, []byte(nil)
	if bytes.HasPrefix(data, []byte("HTTP/")) {
		request, response = nil, data
	} else if i := bytes.Index(data, []byte("\nHTTP/")); i >= 0 {
		request, response = data[:i+1], data[i+1:]
	}
	if len(request) > 0 && !bytes.Contains(request, []byte("\n\n")) && !bytes.Contains(request, []byte("\n\r\n")) {
		request = append(bytes.Clone(request), "\r\n\r\n"...)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("the file is empty")
	}
	r.Exchange(client, server, time.Now(), request, response)
	return nil
}

// har tries the rules on the exchanges of a HAR file.
func (r *Run) har(data []byte, client, server netip.AddrPort) error {
	var h harLog
	if err := json.Unmarshal(data, &h); err != nil {
		return fmt.Errorf("the file is not a HAR file: %w", err)
	}
	for i := range h.Log.Entries {
		e := &h.Log.Entries[i]
		u, err := url.Parse(e.Request.URL)
		if err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		body := []byte(e.Response.Content.Text)
		if e.Response.Content.Encoding == "base64" {
			if body, err = base64.StdEncoding.DecodeString(e.Response.Content.Text); err != nil {
				return fmt.Errorf("entry %d: %w", i, err)
			}
		}
		to, post := serverOf(u, e.Address, server), []byte(e.Request.Post.Text)
		if hasStreams(e.Request.Version) {
			pseudo := []harField{{":method", e.Request.Method}, {":scheme", u.Scheme}, {":authority", u.Host}, {":path", u.RequestURI()}}
			exchangeFrames(r, client, to, e.Started, harFrames(pseudo, e.Request.Headers, post), harFrames([]harField{{":status", strconv.Itoa(e.Response.Status)}}, e.Response.Headers, body))
			continue
		}
		q := fmt.Sprintf("%s %s HTTP/1.1\r\n", e.Request.Method, u.RequestURI())
		s := fmt.Sprintf("HTTP/1.1 %d %s\r\n", e.Response.Status, e.Response.Text)
		request := harHead(q, e.Request.Headers, u.Host, len(post))
		response := harHead(s, e.Response.Headers, "", len(body))
		r.Exchange(client, to, e.Started, append(request, post...), append(response, body...))
	}
	return nil
}

// serverOf returns the address and port of an origin, as far as known.
func serverOf(u *url.URL, address string, usual netip.AddrPort) netip.AddrPort {
	addr, err := netip.ParseAddr(strings.Trim(address, "[]"))
	if err != nil {
		addr = usual.Addr()
	}
	port := usual.Port()
	if u.Scheme == "https" {
		port = 443
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		port = uint16(n)
	}
	return netip.AddrPortFrom(addr.WithZone(""), port)
}

// hasStreams reports whether the version of a message in a HAR file is HTTP/2 or HTTP/3, which
// programs spell in many ways. Rules inspect both as HTTP/2.
func hasStreams(version string) bool {
	v := strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(version), "http/"), "h")
	return strings.HasPrefix(v, "2") || strings.HasPrefix(v, "3")
}

// harFrames writes a message as HTTP/2 frames of the first stream. Bodies in HAR files are
// already decoded.
func harFrames(pseudo, fields []harField, body []byte) []byte {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	add := func(name, value string) {
		_ = e.WriteField(hpack.HeaderField{Name: name, Value: value}) // a Buffer accepts everything
	}
	for _, f := range pseudo {
		add(f.Name, f.Value)
	}
	for _, f := range fields {
		switch name := strings.ToLower(f.Name); name {
		case "content-length", "transfer-encoding", "content-encoding", "connection", "host":
		default:
			if !strings.HasPrefix(name, ":") {
				add(name, f.Value)
			}
		}
	}
	const endHeaders, endStream = 4, 1
	frame := func(out []byte, kind, flags byte, p []byte) []byte {
		n := len(p)
		return append(append(out, byte(n>>16), byte(n>>8), byte(n), kind, flags, 0, 0, 0, 1), p...)
	}
	flags := byte(endHeaders)
	if len(body) == 0 {
		flags |= endStream
	}
	out := frame(nil, 1, flags, block.Bytes())
	for len(body) > 0 {
		n := min(len(body), 1<<14)
		if flags = 0; n == len(body) {
			flags = endStream
		}
		out, body = frame(out, 0, flags, body[:n]), body[n:]
	}
	return out
}

// harHead writes a head. Bodies in HAR files are already decoded.
func harHead(line string, fields []harField, host string, length int) []byte {
	b := bytes.NewBufferString(line)
	for _, f := range fields {
		switch name := string(bytes.ToLower([]byte(f.Name))); {
		case name == "content-length", name == "transfer-encoding", name == "content-encoding", len(name) > 0 && name[0] == ':':
			continue
		case name == "host":
			host = ""
		}
		b.WriteString(f.Name + ": " + f.Value + "\r\n")
	}
	if host != "" {
		b.WriteString("Host: " + host + "\r\n")
	}
	if length > 0 {
		b.WriteString("Content-Length: " + strconv.Itoa(length) + "\r\n")
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

// newConnection makes a connection without packets.
func newConnection(r *Run, client, server netip.AddrPort, at time.Time, name string) *flow {
	r.now = at
	f := &flow{client: client, server: server, proto: 6, first: at, last: at, appName: name}
	f.state = tcpEstablished
	f.packets = [2]int64{1, 1}
	r.current, r.flow = &packet{time: at, proto: 6, src: client, dst: server, link: pcap.Unknown}, f
	return f
}

// Exchange tries the rules on one HTTP exchange as sent. Either part may be empty.
func (r *Run) Exchange(client, server netip.AddrPort, at time.Time, request, response []byte) {
	f := newConnection(r, client, server, at, "http")
	h := newHTTP1(r, f)
	f.app, r.current.payload = h, request
	for d, b := range [][]byte{request, response} {
		dir := rule.Direction(1 << d)
		r.dir = dir
		if len(b) > 0 {
			r.bytes(f, dir, b, 0)
		}
		h.end(dir)
		r.flushRaw(f, dir)
		r.inspectMessages(rule.Both)
	}
}

// exchangeFrames tries the rules on one HTTP/2 exchange, in frames.
func exchangeFrames(r *Run, client, server netip.AddrPort, at time.Time, request, response []byte) {
	f := newConnection(r, client, server, at, "http2")
	h := newHTTP2(r, f)
	f.app, r.current.payload = h, request
	for d, b := range [][]byte{request, response} {
		r.dir = rule.Direction(1 << d)
		r.bytes(f, r.dir, b, 0)
		r.flushRaw(f, r.dir)
		r.inspectMessages(rule.Both)
	}
	h.end(rule.Both)
	r.inspectMessages(rule.Both)
}

// IsCapture reports whether a file begins like pcap or pcapng.
func IsCapture(b []byte) bool {
	for _, magic := range []string{"\xd4\xc3\xb2\xa1", "\xa1\xb2\xc3\xd4", "\x4d\x3c\xb2\xa1", "\xa1\xb2\x3c\x4d", "\x0a\x0d\x0d\x0a"} {
		if bytes.HasPrefix(b, []byte(magic)) {
			return true
		}
	}
	return false
}
