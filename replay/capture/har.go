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
	"time"
)

// maxMessages bounds a HAR file or a file with one message.
const maxMessages = 256 << 20

// harLog is as much of a HAR file (version 1.2) as rules look at.
type harLog struct {
	Log struct {
		Entries []struct {
			Started time.Time `json:"startedDateTime"`
			Request struct {
				Method  string     `json:"method"`
				URL     string     `json:"url"`
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

// Messages tries the rules on data: a HAR file, or one request as sent, which
// its response may follow after a line "HTTP/…".
func (r *Run) Messages(data []byte) error {
	if len(data) > maxMessages {
		return fmt.Errorf("it has more than %d MiB", maxMessages>>20)
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
		return errors.New("it is empty")
	}
	r.Exchange(client, server, time.Now(), request, response)
	return nil
}

// har tries the rules on the exchanges of a HAR file.
func (r *Run) har(data []byte, client, server netip.AddrPort) error {
	var h harLog
	if err := json.Unmarshal(data, &h); err != nil {
		return fmt.Errorf("it is not a HAR file: %w", err)
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
		q := fmt.Sprintf("%s %s HTTP/1.1\r\n", e.Request.Method, u.RequestURI())
		s := fmt.Sprintf("HTTP/1.1 %d %s\r\n", e.Response.Status, e.Response.Text)
		request := harHead(q, e.Request.Headers, u.Host, len(e.Request.Post.Text))
		response := harHead(s, e.Response.Headers, "", len(body))
		r.Exchange(client, server, e.Started, append(request, e.Request.Post.Text...), append(response, body...))
	}
	return nil
}

// harHead writes a head. Bodies in HAR files have no codings any more.
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

// IsCapture says whether the first bytes of a file are those of pcap or pcapng.
func IsCapture(b []byte) bool {
	for _, magic := range []string{"\xd4\xc3\xb2\xa1", "\xa1\xb2\xc3\xd4", "\x4d\x3c\xb2\xa1", "\xa1\xb2\x3c\x4d", "\x0a\x0d\x0d\x0a"} {
		if bytes.HasPrefix(b, []byte(magic)) {
			return true
		}
	}
	return false
}
