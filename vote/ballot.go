package vote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/mail"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/idna"
)

// A ballot is one vote as a client sends it.
type ballot struct {
	ID      string `json:"id"`
	Vote    string `json:"vote"`
	Token   string `json:"token"`
	URL     string `json:"url"`
	Comment string `json:"comment"`
	Mail    string `json:"mail"`
}

// Limits of a request.
const (
	// MaxBody is the largest request body in bytes.
	MaxBody = 1 << 20
	// MaxBatch is the most votes that one request may carry.
	MaxBatch = 1000
	maxKey   = 255 // bytes of an Idempotency-Key
)

// A refusal is an error with the status of the answer.
type refusal struct {
	status int
	err    error
	retry  time.Duration
}

func (r *refusal) Error() string { return r.err.Error() }

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status: status, err: fmt.Errorf(format, args...)}
}

// readBallots reads the body of a request. single reports that it was one vote
// and not a list.
func readBallots(contentType string, body []byte) (all []ballot, single bool, err *refusal) {
	if strings.ContainsAny(contentType, "; ") || strings.ToLower(contentType) != contentType {
		if ctype, _, err := mime.ParseMediaType(contentType); err == nil {
			contentType = ctype
		}
	}
	switch contentType {
	case "application/json":
		return readJSON(body)
	case "application/x-www-form-urlencoded":
		v, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, true, refuse(400, "the form cannot be read: %w", err)
		}
		return []ballot{{v.Get("id"), v.Get("vote"), v.Get("token"), v.Get("url"), v.Get("comment"), v.Get("mail")}}, true, nil
	}
	return nil, true, refuse(http.StatusUnsupportedMediaType, "send application/json or application/x-www-form-urlencoded")
}

func readJSON(body []byte) (all []ballot, single bool, _ *refusal) {
	var err error
	if single = !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte{'['}); single {
		all = make([]ballot, 1)
		err = json.Unmarshal(body, &all[0])
	} else {
		err = json.Unmarshal(body, &all)
	}
	switch {
	case err != nil:
		return nil, single, refuse(400, "the votes cannot be read: %w", err)
	case len(all) == 0:
		return nil, single, refuse(400, "there is no vote")
	case len(all) > MaxBatch:
		return nil, single, refuse(http.StatusRequestEntityTooLarge, "%d votes at once, at most %d are taken", len(all), MaxBatch)
	}
	return all, single, nil
}

// A Voter is the client that sends a vote.
type Voter struct {
	Addr   string
	User   string // empty if the client has not logged in
	Groups []string
	Same   bool   // reports that the vote came from the address that its token names
	Host   string // the Host of a request that came through the proxy
}

// vote makes a vote from a ballot. key is the Idempotency-Key of the request,
// made distinct for each of its votes.
func (s *Server) vote(b *ballot, from *Voter, key string, now time.Time) (v Vote, _ *refusal) {
	kind, err := ParseKind(b.Vote)
	if err != nil {
		return v, refuse(400, "%w", err)
	}
	v = Vote{Kind: kind, At: now, Comment: strings.TrimSpace(b.Comment), Mail: b.Mail, Node: s.node}
	switch {
	case len(v.Comment) > maxComment:
		return v, refuse(400, "the comment has %d bytes, at most %d are taken", len(v.Comment), maxComment)
	case len(v.Mail) > maxMail || v.Mail != "" && !isMail(v.Mail):
		return v, refuse(400, "%.80q is not a mail address", v.Mail)
	}
	switch {
	case b.Token != "":
		if v.Event, err = s.sealer.Open(b.Token, now); err != nil {
			return v, refuse(http.StatusForbidden, "%w", err)
		}
		if bad := tokenFault(&v.Event, b.URL, from); bad != nil {
			return v, bad
		}
	case kind == Wrong:
		return v, refuse(http.StatusForbidden, "a vote that something is blocked by mistake needs the token of the block page")
	default:
		if err := v.Event.setTarget(b.URL); err != nil {
			return v, refuse(400, "%w", err)
		}
		v.Event.At, v.Event.Client, v.Event.User, v.Event.Groups = now, from.Addr, from.User, from.Groups
	}
	if s.login && v.Event.User == "" {
		return v, refuse(http.StatusForbidden, "only users who have logged in may vote here")
	}
	switch {
	case b.ID != "":
		if v.ID, err = ParseID(b.ID); err != nil {
			return v, refuse(400, "%w", err)
		}
	case key != "":
		// A second vote with this key gets its own identifier: it is acknowledged, so
		// it must not count as a repetition of the first.
		v.ID = namedID("key", v.Voter(), key, v.Kind.String(), v.Event.Ref, v.Event.URL)
	case b.Token != "": // one event has one vote of each kind
		v.ID, _ = v.Occasion()
	default:
		return v, refuse(400, "a vote needs an id (a UUID) or a request an Idempotency-Key, so that it counts once when it is sent again")
	}
	return v, nil
}

// tokenFault returns the reason why a token may not be used for a vote: a token is
// signed for one event of one client. Addresses are compared only if the proxy
// saw both, because others may send votes for their users.
func tokenFault(e *Event, about string, from *Voter) *refusal {
	plain := func(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }
	other := func() *refusal {
		return refuse(http.StatusForbidden, "the token is that of another page: it says that %.100q was blocked", e.Host)
	}
	if from.Host != "" && plain(from.Host) != plain(e.Host) {
		return other()
	}
	if about != "" {
		var named Event
		if err := named.setTarget(about); err != nil {
			return refuse(400, "%w", err)
		}
		if named.Host != plain(e.Host) {
			return other()
		}
	}
	if from.User != "" && e.User != "" && from.User != e.User || from.Same && from.User == "" && e.User == "" && from.Addr != e.Client {
		return refuse(http.StatusForbidden, "the token is that of another client; load the page anew and vote again")
	}
	return nil
}

func isMail(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s && !strings.ContainsAny(s, "\r\n")
}

// setTarget sets host and URL from the text that a client sent.
func (e *Event) setTarget(text string) error {
	if text == "" || len(text) > maxURL {
		return errors.New("a vote names what it is about: url has a host name or URL of at most 2048 bytes")
	}
	full := text
	if !strings.Contains(full, "://") {
		full = "http://" + full
	}
	u, err := url.Parse(full)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%.100q is neither a host name nor a URL of http or https", text)
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if net.ParseIP(host) == nil && !plainName(host) {
		ascii, err := idna.Lookup.ToASCII(host)
		if err != nil || !plainName(ascii) {
			return fmt.Errorf("%.100q is not a host name", host)
		}
		host = ascii
	}
	if u.User != nil { // the reviewer must not see a password
		u.User = nil
		full = u.String()
	}
	e.Host, e.URL = host, full
	return nil
}

// plainName reports whether s is a host name of ASCII letters, digits, hyphens
// and underscores, with a dot.
func plainName(s string) bool {
	if len(s) == 0 || len(s) > 253 {
		return false
	}
	label := 0
	for n := range len(s) {
		switch c := s[n]; {
		case c == '.':
			if label == 0 {
				return false
			}
			label = 0
			continue
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
		default:
			return false
		}
		if label++; label > 63 {
			return false
		}
	}
	return label > 0
}
