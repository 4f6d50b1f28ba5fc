package admin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"shuultuur/event"
	"shuultuur/event/jsonl"
	"shuultuur/filter"
	"shuultuur/identity/session"
	"shuultuur/policy"
)

// A Client asks a gateway that runs, at its admin address.
type Client struct {
	URL   string // http://host:port, "" for a gateway without an admin address
	Token string // "" for none
	Cert  string // file of the one certificate that is trusted; "" for the system's
}

// ErrOff reports that there is no admin address to ask.
var ErrOff = errors.New("the admin address is switched off, so the gateway cannot be asked; set listen.admin")

// Each answer that a client reads is bounded. A page of events has maxRows of them.
const (
	maxAnswer     = 1 << 20
	maxPageOfRows = 64 << 10 * maxRows
)

// Pause pauses filtering for who, for a length of time (a duration, or
// "tomorrow"). It resumes filtering if length is "0s", and changes nothing if
// it is "". It returns the pauses that are in force afterwards.
func (c Client) Pause(ctx context.Context, who, length string) (all []policy.Pause, err error) {
	method, body := http.MethodGet, ""
	if length != "" {
		method, body = http.MethodPost, url.Values{"who": {who}, "for": {length}}.Encode()
	}
	err = c.ask(ctx, method, "/pause", body, &all)
	return all, err
}

// Sessions returns the session of an address, or none.
func (c Client) Sessions(ctx context.Context, addr netip.Addr) (all []session.Session, err error) {
	err = c.ask(ctx, http.MethodGet, "/api/sessions?"+url.Values{"address": {addr.String()}}.Encode(), "", &all)
	return all, err
}

// CacheLook returns the stored object for a URL, as JSON; fields are request
// header fields in the form "NAME: VALUE".
func (c Client) CacheLook(ctx context.Context, u string, fields []string) (l json.RawMessage, err error) {
	err = c.ask(ctx, http.MethodGet, "/cache/look?"+url.Values{"url": {u}, "field": fields}.Encode(), "", &l)
	return l, err
}

// CachePurge removes objects of a kind from the cache: url, prefix, host, tag or
// category.
func (c Client) CachePurge(ctx context.Context, kind, value string) error {
	var done map[string]string
	return c.ask(ctx, http.MethodPost, "/cache/purge", url.Values{"kind": {kind}, "value": {value}}.Encode(), &done)
}

// Quotas asks for the remainders of a client's quotas in a policy.
func (c Client) Quotas(ctx context.Context, policy string, addr netip.Addr, user string) ([]filter.Balance, error) {
	var answer Quotas
	err := c.ask(ctx, http.MethodGet, "/quotas?"+url.Values{"policy": {policy}, "client": {addr.String()}, "user": {user}}.Encode(), "", &answer)
	return answer.Quotas, err
}

// TLS returns the TLS settings of the client; nil trusts the system's roots.
func (c Client) TLS() (*tls.Config, error) {
	if c.Cert == "" {
		return nil, nil
	}
	return trustOne(c.Cert)
}

// trustOne trusts the certificate in a file under any name: the gateway of these
// settings has it.
func trustOne(file string) (*tls.Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the admin address: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%q contains no certificate in PEM form", file)
	}
	return &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(s tls.ConnectionState) error {
		if !bytes.Equal(s.PeerCertificates[0].Raw, block.Bytes) {
			return fmt.Errorf("the admin address shows a certificate other than that in %q", file)
		}
		return nil
	}}, nil
}

// Why asks for the decision on a URL. client, user, groups (separated by commas)
// and as may be "".
func (c Client) Why(ctx context.Context, u, client, user, groups, as string) (x *Explanation, err error) {
	q := url.Values{"url": {u}, "client": {client}, "user": {user}, "groups": {groups}, "as": {as}}
	err = c.ask(ctx, http.MethodGet, "/why?"+q.Encode(), "", &x)
	return x, err
}

// Events yields the transactions that a filter in the language of
// [event.ParseFilter] wants, newest first, at most limit, or all if it is 0. Rows
// that the token's owner may not see are left out.
func (c Client) Events(ctx context.Context, filter string, limit int) iter.Seq2[event.Row, error] {
	return func(yield func(event.Row, error) bool) {
		path := "/events?" + url.Values{"filter": {filter}}.Encode()
		for n := 0; path != ""; {
			data, head, err := c.send(ctx, asking{method: http.MethodGet, path: path}, 2*maxAsk, maxPageOfRows)
			if err != nil {
				yield(event.Row{}, err)
				return
			}
			for line := range bytes.Lines(data) {
				r, err := jsonl.ParseLine(line)
				if err != nil {
					err = fmt.Errorf("reading the answer of %s/events: %w", c.URL, err)
				}
				if n++; !yield(r, err) || err != nil || n == limit {
					return
				}
			}
			path = nextPage(head.Get("Link"))
		}
	}
}

// nextPage returns the path of the next page of events from a Link field (RFC
// 8288, in the form that our routes write), or "".
func nextPage(link string) string {
	path, ok := strings.CutSuffix(link, `>; rel="next"`)
	if path, ok = strings.CutPrefix(path, "<"); !ok || !strings.HasPrefix(path, "/events?") {
		return ""
	}
	return path
}

func (c Client) ask(ctx context.Context, method, path, body string, answer any) error {
	return c.askFor(ctx, method, path, body, 5*time.Second, answer)
}

// askFor is ask with a longer time limit.
func (c Client) askFor(ctx context.Context, method, path, body string, patience time.Duration, answer any) error {
	data, _, err := c.send(ctx, asking{method: method, path: path, body: body}, patience, maxAnswer)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("reading the answer of %s%s: %w", c.URL, path, err)
	}
	return nil
}

// An asking is one request.
type asking struct {
	method, path, body string
	kind               string // media type of the body; "" for a form
	match              string // If-Match, "" for none
}

// A refusal is an answer that is not 200.
type refusal struct {
	status int
	body   []byte
}

func (e *refusal) Error() string {
	return "the gateway says: " + strings.TrimSpace(string(e.body[:min(len(e.body), maxAnswer)]))
}

// send returns the body of an answer, of at most so many bytes, and its head.
func (c Client) send(ctx context.Context, m asking, patience time.Duration, most int) ([]byte, http.Header, error) {
	if c.URL == "" {
		return nil, nil, ErrOff
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, m.method, c.URL+m.path, strings.NewReader(m.body))
	if err != nil {
		return nil, nil, err
	}
	q.Header.Set("Content-Type", cmp.Or(m.kind, "application/x-www-form-urlencoded"))
	if m.match != "" {
		q.Header.Set("If-Match", m.match)
	}
	if c.Token != "" {
		q.Header.Set("Authorization", "Bearer "+c.Token)
	}
	t := &http.Transport{DisableKeepAlives: true} // asks the gateway itself, not by a proxy
	if t.TLSClientConfig, err = c.TLS(); err != nil {
		return nil, nil, err
	}
	r, err := (&http.Client{Transport: t}).Do(q)
	if err != nil {
		return nil, nil, fmt.Errorf("asking the gateway at its admin address, does it run? %w", err)
	}
	defer r.Body.Close()
	data, err := io.ReadAll(io.LimitReader(r.Body, int64(most)+1))
	if err != nil {
		return nil, nil, err
	}
	if r.StatusCode == http.StatusNotFound && strings.TrimSpace(string(data)) == "404 page not found" { // as http.ServeMux says
		name, _, _ := strings.Cut(strings.TrimPrefix(q.URL.Path, "/"), "/")
		return nil, nil, fmt.Errorf("the gateway at %s has no %s: its settings lack it, or this is not an admin address", c.URL, name)
	}
	if r.StatusCode != http.StatusOK {
		return nil, nil, &refusal{r.StatusCode, data}
	}
	if len(data) > most {
		return nil, nil, fmt.Errorf("the answer of %s is longer than %d MiB", c.URL, most>>20)
	}
	return data, r.Header, nil
}
