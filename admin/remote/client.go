// Package remote asks a gateway that runs, at its admin address. Commands use it; each method is a
// request whose answer is bounded.
package remote

import (
	"bufio"
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
	"strconv"
	"strings"
	"time"

	"shuultuur/admin/clients"
	"shuultuur/admin/events"
	"shuultuur/admin/exception"
	"shuultuur/admin/system"
	"shuultuur/admin/web"
	"shuultuur/admin/why"
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

// Every answer that a client reads is bounded. A page of events has at most maxRows.
const (
	maxAnswer     = 1 << 20
	maxPageOfRows = 64 << 10 * events.MaxRows
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
	var answer clients.Quotas
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

// trustOne trusts the certificate in a file under any name, because the gateway of these
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
func (c Client) Why(ctx context.Context, u, client, user, groups, as string) (x *why.Explanation, err error) {
	q := url.Values{"url": {u}, "client": {client}, "user": {user}, "groups": {groups}, "as": {as}}
	err = c.ask(ctx, http.MethodGet, "/why?"+q.Encode(), "", &x)
	return x, err
}

// Events yields the transactions that a filter in the language of
// [event.ParseFilter] wants, newest or oldest first, at most limit, or all if it is
// 0. Rows that the token's owner may not see are left out.
func (c Client) Events(ctx context.Context, filter string, limit int, oldest bool) iter.Seq2[event.Row, error] {
	q := url.Values{"filter": {filter}}
	if oldest {
		q.Set("order", "oldest")
	}
	return func(yield func(event.Row, error) bool) {
		n := 0
		for path := "/events?" + q.Encode(); path != ""; {
			rows, next, err := c.eventPage(ctx, path)
			for _, r := range rows {
				if n++; !yield(r, nil) || n == limit {
					return
				}
			}
			if err != nil {
				yield(event.Row{}, err)
				return
			}
			path = next
		}
	}
}

// eventPage returns a page of events, and the path of the next one, "" for none.
func (c Client) eventPage(ctx context.Context, path string) (rows []event.Row, next string, err error) {
	data, head, err := c.send(ctx, clientRequest{method: http.MethodGet, path: path}, 2*web.MaxAsk, maxPageOfRows)
	if err != nil {
		return nil, "", err
	}
	for line := range bytes.Lines(data) {
		r, err := jsonl.ParseLine(line)
		if err != nil {
			return rows, "", fmt.Errorf("reading the answer of %s/events: %w", c.URL, err)
		}
		rows = append(rows, r)
	}
	return rows, nextPage(head.Get("Link")), nil
}

// Top returns the n most frequent values of a field.
func (c Client) Top(ctx context.Context, filter, by string, n int) (all []event.Tally, err error) {
	q := url.Values{"filter": {filter}, "by": {by}, "top": {strconv.Itoa(n)}}
	data, _, err := c.send(ctx, clientRequest{method: http.MethodGet, path: "/events?" + q.Encode()}, 2*web.MaxAsk, maxPageOfRows)
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	return all, err
}

// Follow yields the transactions that a filter wants as they are recorded, until ctx ends. If
// the stream skips some, because there are many or because it is interrupted, Follow requests
// them.
func (c Client) Follow(ctx context.Context, filter string) iter.Seq2[event.Row, error] {
	return func(yield func(event.Row, error) bool) {
		f := follower{Client: c, filter: filter, yield: yield}
		for failures := 0; ; {
			err := f.stream(ctx)
			_, refused := errors.AsType[*refusal](err)
			switch {
			case ctx.Err() != nil || errors.Is(err, errEnough):
				return
			case err == nil:
				failures = 0
			case refused || f.began == "" || failures == mostFailures:
				yield(event.Row{}, err)
				return
			default: // a connection that ends may lose a request
				failures++
			}
		}
	}
}

// A follower follows the record.
type follower struct {
	Client
	filter string
	yield  func(event.Row, error) bool
	began  string // Date of the first stream, "" before it
	last   int64  // place of the last row; 0: there was none
}

var errEnough = errors.New("no more rows are wanted")

// mostFailures is how many streams in a row may fail.
const mostFailures = 3

// stream reads one stream to its end.
func (f *follower) stream(ctx context.Context) error {
	r, err := f.open(ctx, clientRequest{method: http.MethodGet, path: web.LivePath + "?" + url.Values{"filter": {f.filter}, "form": {"json"}}.Encode()})
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(r.Body, maxAnswer)) // at most as many as exist
		return &refusal{r.StatusCode, text}
	}
	if f.began != "" {
		if err := f.catchUp(ctx); err != nil {
			return err
		}
	} else if at, err := http.ParseTime(r.Header.Get("Date")); err == nil {
		f.began = at.UTC().Format(time.RFC3339)
	}
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, maxAnswer)
	var place int64
	for kind := ""; lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case name == "id":
			place, _ = strconv.ParseInt(value, 10, 64)
		case name == "event":
			kind = value
		case name == "data" && kind == "failed":
			return errors.New("the gateway says: " + value)
		case name == "data" && kind == "skipped":
			err = f.catchUp(ctx)
		case name == "data" && place > f.last:
			err = f.take([]byte(value), place)
		case name == "":
			kind = ""
		}
		if err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("reading the answer of %s%s: a line has more than %d bytes", f.URL, web.LivePath, maxAnswer)
	}
	return nil // if the gateway is there, another stream continues where this one ended
}

// take passes a row on.
func (f *follower) take(line []byte, place int64) error {
	row, err := jsonl.ParseLine(line)
	if err != nil {
		return fmt.Errorf("reading the answer of %s%s: %w", f.URL, web.LivePath, err)
	}
	if f.last = place; !f.yield(row, nil) {
		return errEnough
	}
	return nil
}

// catchUp asks for the rows after the last one.
func (f *follower) catchUp(ctx context.Context) error {
	q := url.Values{"filter": {f.filter}, "order": {"oldest"}, "after": {strconv.FormatInt(f.last, 10)}}
	if f.last == 0 {
		q.Set("filter", strings.TrimSpace(f.filter+" since:"+f.began))
	}
	for path := "/events?" + q.Encode(); path != ""; {
		rows, next, err := f.eventPage(ctx, path)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if !f.yield(r, nil) {
				return errEnough
			}
		}
		if u, err := url.Parse(next); err == nil && next != "" {
			f.last, _ = strconv.ParseInt(u.Query().Get("after"), 10, 64)
		}
		path = next
	}
	return nil
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
	data, _, err := c.send(ctx, clientRequest{method: method, path: path, body: body}, patience, maxAnswer)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("reading the answer of %s%s: %w", c.URL, path, err)
	}
	return nil
}

// A clientRequest is one request.
type clientRequest struct {
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

// open sends a request and returns the answer, whatever its status.
func (c Client) open(ctx context.Context, m clientRequest) (*http.Response, error) {
	if c.URL == "" {
		return nil, ErrOff
	}
	q, err := http.NewRequestWithContext(ctx, m.method, c.URL+m.path, strings.NewReader(m.body))
	if err != nil {
		return nil, err
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
		return nil, err
	}
	r, err := (&http.Client{Transport: t}).Do(q)
	if err != nil {
		return nil, fmt.Errorf("asking the gateway at its admin address, does it run? %w", err)
	}
	return r, nil
}

// send returns the body of an answer, at most a number of bytes, and its head.
func (c Client) send(ctx context.Context, m clientRequest, patience time.Duration, most int) ([]byte, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := c.open(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	defer r.Body.Close()
	data, err := io.ReadAll(io.LimitReader(r.Body, int64(most)+1))
	if err != nil {
		return nil, nil, err
	}
	if r.StatusCode == http.StatusNotFound && strings.TrimSpace(string(data)) == "404 page not found" { // in the words of http.ServeMux
		name, _, _ := strings.Cut(strings.TrimPrefix(r.Request.URL.Path, "/"), "/")
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

// A Status is how a gateway is.
type Status struct {
	system.Health
	Devices int            `json:"devices"` // that asked for anything in the last hour; -1 if there is no record
	Paused  []policy.Pause `json:"paused,omitempty"`
}

// maxDevices is how many devices are counted.
const maxDevices = 100_000

// Status returns how the gateway is. A token that may read the health alone gets no devices (-1) and no
// pauses.
func (c Client) Status(ctx context.Context) (*Status, error) {
	h, err := c.Health(ctx)
	if err != nil {
		return nil, err
	}
	s := &Status{Health: h, Devices: -1}
	if all, err := c.Top(ctx, "since:1h", "client", maxDevices); err == nil {
		s.Devices = len(all)
	}
	if s.Paused, err = c.Pause(ctx, "", ""); err != nil {
		s.Paused = nil
	}
	return s, nil
}

// Setup says how the first steps are reached, or where the pages are if they are over. It waits for a
// gateway that is starting.
func (c Client) Setup(ctx context.Context, wait time.Duration) (said string, err error) {
	var answer struct {
		Links []string `json:"links"`
		Pages string   `json:"pages"`
	}
	for end := time.Now().Add(wait); ; {
		if err = c.ask(ctx, "GET", "/setup/link", "", &answer); err == nil || time.Now().After(end) || ctx.Err() != nil {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	for _, link := range answer.Links {
		said += "Set it up: " + link + "\n"
	}
	if err == nil && said == "" {
		said = "It is set up. The pages are at " + answer.Pages + "\n"
	}
	return said, err
}

// Rule opens a site for who, "" for everybody, for a length of time, "good" for good; or what is "end",
// and lists and rules decide about it again. It returns the decision that is in force then.
func (c Client) Rule(ctx context.Context, what, site, who, length string) (policy.Decision, error) {
	form := url.Values{"what": {what}, "site": {site}, "who": {who}}
	if what != "end" && length != "good" {
		form.Set("for", length)
	}
	var all []policy.Decision
	if err := c.ask(ctx, http.MethodPost, "/rulings", form.Encode(), &all); err != nil {
		return policy.Decision{}, err
	}
	site = exception.SiteIn(site)
	for _, d := range all {
		if d.Site == site && d.Who == who {
			return d, nil
		}
	}
	if what == "end" {
		return policy.Decision{Site: site, Who: who}, nil
	}
	return policy.Decision{}, fmt.Errorf("the gateway has taken the decision about %s, but does not list it: look at its page of exceptions", site)
}
