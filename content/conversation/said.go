package conversation

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"shuultuur/content/media"
	"shuultuur/lib/ascii"
)

// Limits of what is read of a message of text.
const (
	mostSaid  = 4 << 10
	mostAsked = 1 << 10 // of an object behind the first message
	shortRun  = 24      // characters of a coding that hide the beginning of a connection
	mostRun   = 512
	mostRuns  = 4
	mostPairs = 64 // members of an object
)

// saidIn returns what connection a text asks for or carries, "" for none: a request of HTTP, a target
// that is all of the first message, one in an object of JSON, or bytes in base64 or hexadecimal that
// begin a connection.
func saidIn(p []byte, first bool) (category, evidence string) {
	p = p[:min(len(p), mostSaid)]
	name, ok := requestIn(p)
	switch p = bytes.TrimSpace(p); {
	case ok:
		return Tunnel, "HTTP" + to(name)
	case bytes.HasPrefix(p, []byte("SSH-2.0-")):
		return Tunnel, "SSH"
	case bytes.Contains(p, []byte("webrtc-datachannel")) && !bytes.Contains(p, []byte("m=audio")) && !bytes.Contains(p, []byte("m=video")):
		return Channel, "an offer of a data channel of WebRTC"
	case first && isTarget(p):
		return Tunnel, fmt.Sprintf("a connection to %.260q", p)
	}
	if at := media.JSONStart(p); at >= 0 && mayAsk(p[at:], first) {
		if category, evidence = askedIn(p[at:], first); category != "" {
			return category, evidence
		}
	}
	for range mostRuns {
		from, to := codedRun(p)
		if from < 0 {
			break
		}
		if inner := decodedRun(p[from:min(to, from+mostRun)]); inner != nil {
			if category, evidence = carried(inner, first, true); category != "" {
				return category, evidence + ", as text,"
			}
		}
		p = p[to:]
	}
	return "", ""
}

// isTarget reports whether p is the name or address of a host with a port, and nothing more.
func isTarget(p []byte) bool {
	for _, scheme := range [...]string{"tcp", "udp", "tls", "ssl", "connect"} { // "tcp://", "CONNECT "
		if ascii.HasPrefixLower(p, scheme) && len(p) > len(scheme)+3 {
			p = bytes.TrimLeft(p[len(scheme):], ":/ ")
			break
		}
	}
	i := bytes.LastIndexByte(p, ':')
	if i < 4 || len(p)-i < 3 || len(p)-i > 6 || bytes.IndexByte(p[:i], '.') < 0 {
		return false
	}
	for _, c := range p[i+1:] {
		if c < '0' || c > '9' {
			return false
		}
	}
	return isHost(p[:i]) && bytes.IndexByte(p[:i], ':') < 0
}

// mayAsk reports whether an object has the members by which askedIn knows what it asks for.
func mayAsk(p []byte, first bool) bool {
	if !first && len(p) > mostAsked {
		return false
	}
	return containsEnd(p, "port") || containsEnd(p, "eaders") && bytes.Contains(p, []byte("://"))
}

// containsEnd reports whether a name ends with end, in letters of either case.
func containsEnd(p []byte, end string) bool {
	for {
		i := bytes.IndexByte(p, '"')
		if i < 0 {
			return false
		}
		if i >= len(end) && ascii.EqualLower(p[i-len(end):i], end) {
			return true
		}
		p = p[i+1:]
	}
}

// askedIn returns what an object asks a server for: a connection to a host and a port, or a request with
// fields to an absolute address.
func askedIn(p []byte, first bool) (category, evidence string) {
	d := json.NewDecoder(bytes.NewReader(p))
	var host, port, address string
	var fields, asks bool
	depth, name, pairs := 0, "", 0
	object := []bool{}
	for pairs < mostPairs {
		tok, err := d.Token()
		if err != nil {
			break
		}
		inObject := depth > 0 && object[depth-1]
		if inObject && name == "" {
			if s, ok := tok.(string); ok {
				name = strings.ToLower(s)
				pairs++
				continue
			}
		}
		key := name
		name = ""
		switch v := tok.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				if depth++; depth > 3 {
					return "", ""
				}
				object = append(object[:depth-1], v == '{')
				fields = fields || v == '{' && strings.HasSuffix(key, "headers")
				continue
			}
			depth--
			continue
		case string:
			switch {
			case isOpen(v):
				asks = true
			case inObject && isHostKey(key) && isHost([]byte(v)) && strings.Contains(v, "."):
				host = v
			case inObject && strings.HasSuffix(key, "port") && len(v) > 1 && len(v) < 6 && strings.Trim(v, "0123456789") == "":
				port = v
			case inObject && depth == 1 && isAbsolute(v):
				address = v
			}
		case float64:
			if inObject && strings.HasSuffix(key, "port") && v > 0 && v < 65536 {
				port = fmt.Sprint(v)
			}
		}
	}
	switch {
	case host != "" && port != "" && (asks || first):
		return Tunnel, fmt.Sprintf("a connection to %.260q", host+":"+port)
	case address != "" && fields && (asks || first):
		return Bare, fmt.Sprintf("a request for %.200q", address)
	}
	return "", ""
}

func isOpen(s string) bool {
	switch strings.ToLower(s) {
	case "connect", "open", "tcp", "udp", "dial", "tunnel", "proxy", "socket", "stream", "fetch", "request":
		return true
	}
	return false
}

func isHostKey(key string) bool {
	for _, end := range [...]string{"host", "hostname", "addr", "address", "ip", "dst", "dest", "destination", "target", "server"} {
		if strings.HasSuffix(key, end) {
			return true
		}
	}
	return false
}

func isAbsolute(s string) bool {
	for _, scheme := range [...]string{"http://", "https://", "ws://", "wss://"} {
		if strings.HasPrefix(s, scheme) {
			return true
		}
	}
	return false
}

// isCode says which characters are of base64 or hexadecimal.
var isCode = func() (t [256]bool) {
	for i := range t {
		c := byte(i)
		t[i] = ascii.IsAlnum(c) || c == '+' || c == '/' || c == '-' || c == '_'
	}
	return t
}()

// codedRun returns where characters of base64 or hexadecimal are, that are enough to hide something; -1
// for nowhere. Of each so many characters one is looked at, until it is of a code.
func codedRun(p []byte) (from, to int) {
	for at := shortRun - 1; at < len(p); at += shortRun {
		if !isCode[p[at]] {
			continue
		}
		for from = at; from > 0 && isCode[p[from-1]]; from-- {
		}
		for to = at + 1; to < len(p) && isCode[p[to]]; to++ {
		}
		if to-from >= shortRun {
			return from, to
		}
		at = to
	}
	return -1, 0
}

// decodedRun decodes a run, nil if it is no coding.
func decodedRun(p []byte) []byte {
	if len(bytes.Trim(p, "0123456789abcdefABCDEF")) == 0 {
		out := make([]byte, len(p)/2)
		if _, err := hex.Decode(out, p[:len(p)&^1]); err == nil {
			return out
		}
	}
	if len(p)%4 == 1 {
		p = p[:len(p)-1]
	}
	e := base64.RawStdEncoding
	if bytes.IndexByte(p, '-') >= 0 || bytes.IndexByte(p, '_') >= 0 {
		e = base64.RawURLEncoding
	}
	out := make([]byte, 0, mostRun)
	out, err := e.AppendDecode(out, p)
	if err != nil {
		return nil
	}
	return out
}
