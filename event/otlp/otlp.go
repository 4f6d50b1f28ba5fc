// Package otlp sends events to an OpenTelemetry collector, as log records or as spans
// (OTLP/HTTP with JSON, opentelemetry.io/docs/specs/otlp). Both name the same trace, whose ID
// is made of the event's ID.
//
// Data moves as follows: [Store.Write] turns a batch into requests of up to 1,000 events, or
// fewer where the collector says that a request is too large, and waits for the answers. The
// log keeps the batch if there is no answer, if the specification calls the status retryable
// (429, 502, 503, 504), or if a mistake in the settings causes the status. Any other refusal is
// final: the request is dropped and counted.
package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/lib/setting"
)

const (
	wait = 10 * time.Second // timeout of one request
	most = 1000             // events per request
)

// Config sets the OpenTelemetry collector to which events are sent.
type Config struct {
	To      string            `yaml:"to" secret:"url"`      // URL for log records, such as http://collector.example:4318/v1/logs
	Traces  string            `yaml:"traces" secret:"url"`  // URL for spans, such as http://collector.example:4318/v1/traces
	Headers map[string]string `yaml:"headers" secret:"yes"` // header fields of each request, such as Authorization
	CA      setting.File      `yaml:"ca"`                   // PEM file with the roots of the collector's certificate; default the system's
}

// Open implements [event.Setting]: log records, spans or both. It does not connect.
func (c *Config) Open(event.Opening) (all []event.Store, err error) {
	if c.To != "" || c.Traces == "" {
		if all, err = event.Only(Open(*c)); err != nil {
			return nil, err
		}
	}
	if c.Traces != "" {
		s, err := OpenTraces(*c)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// A Store sends events to one collector.
type Store struct {
	url     string
	signal  *signal
	headers map[string]string
	client  *setting.Renewed[*http.Client]
	host    string
	buf     []byte
	zipped  bytes.Buffer
	zip     *gzip.Writer
}

// A signal is the form in which events are sent.
type signal struct {
	name, path               string
	resources, scopes, items string // JSON keys
	appendItem               func(dst []byte, r *event.Row) []byte
}

var (
	logs   = signal{"otlp", "/v1/logs", "resourceLogs", "scopeLogs", "logRecords", appendRecord}
	traces = signal{"otlp-traces", "/v1/traces", "resourceSpans", "scopeSpans", "spans", appendSpan}
)

// Open reads the settings of a store that sends log records. It does not
// connect.
func Open(cfg Config) (*Store, error) { return open(cfg, &logs, "to", cfg.To) }

// OpenTraces reads the settings of a store that sends spans. It does not
// connect.
func OpenTraces(cfg Config) (*Store, error) { return open(cfg, &traces, "traces", cfg.Traces) }

func open(cfg Config, as *signal, key, to string) (*Store, error) {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, setting.At(key, fmt.Errorf(`%q is not a collector; write it like "http://collector.example:4318%s"`, to, as.path))
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = as.path
	}
	s := &Store{url: u.String(), signal: as, headers: cfg.Headers, zip: gzip.NewWriter(nil)}
	for name, value := range cfg.Headers {
		if strings.TrimSpace(name) == "" || strings.ContainsAny(name, " :\r\n") || strings.ContainsAny(value, "\r\n") {
			return nil, setting.At("headers", fmt.Errorf("%q is not the name of a field, or its value has line breaks", name))
		}
	}
	if s.client, err = setting.Renew(func() (*http.Client, error) { return newClient(cfg.CA) }, cfg.CA); err != nil {
		return nil, setting.At("ca", err)
	}
	s.host, _ = os.Hostname() // empty when it is not known
	return s, nil
}

// newClient makes a client that trusts the certificates in a file, or the
// system's.
func newClient(ca setting.File) (*http.Client, error) {
	roots, err := ca.Roots()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 2, IdleConnTimeout: time.Minute,
		DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext} // short, so that a restarted collector is soon tried again
	if roots != nil {
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: transport, Timeout: wait, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// Name implements [event.Store].
func (s *Store) Name() string { return s.signal.name }

// Close implements [event.Store].
func (s *Store) Close() error {
	s.client.Current().CloseIdleConnections()
	return nil
}

// Write implements [event.Store].
func (s *Store) Write(ctx context.Context, rows []event.Row) error {
	if len(rows) == 0 {
		return nil
	}
	refused := &event.Refused{}
	for part := range slices.Chunk(rows, most) {
		switch err := s.send(ctx, part); {
		case refused.Add(err, len(part)):
		case err != nil:
			return fmt.Errorf("send %d events to the collector %s: %w", len(rows), s.url, err)
		}
	}
	if refused.Rows > 0 {
		return fmt.Errorf("send %d events to the collector %s: %w", len(rows), s.url, refused)
	}
	return nil
}

// send sends rows in one request, or in smaller ones if the collector finds it
// too large.
func (s *Store) send(ctx context.Context, rows []event.Row) error {
	s.buf = s.appendRequest(s.buf[:0], rows)
	s.zipped.Reset()
	s.zip.Reset(&s.zipped)
	_, _ = s.zip.Write(s.buf) // into memory
	_ = s.zip.Close()
	err := s.post(ctx)
	if !errors.Is(err, errTooLarge) || len(rows) == 1 {
		return err
	}
	refused := &event.Refused{}
	for part := range slices.Chunk(rows, (len(rows)+1)/2) {
		if err := s.send(ctx, part); err != nil && !refused.Add(err, len(part)) {
			return err
		}
	}
	if refused.Rows > 0 {
		return refused
	}
	return nil
}

var errTooLarge = errors.New("the request is too large for it")

func (s *Store) post(ctx context.Context) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(s.zipped.Bytes()))
	if err != nil {
		return err
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Content-Encoding", "gzip")
	q.Header.Set("User-Agent", "shuultuur")
	for name, value := range s.headers {
		q.Header.Set(name, value)
	}
	res, err := s.client.Current().Do(q)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	switch {
	case res.StatusCode/100 == 2:
		return rejected(text)
	case res.StatusCode == http.StatusRequestEntityTooLarge:
		return &event.Refused{Err: fmt.Errorf("%w: %.200q", errTooLarge, text)}
	case res.StatusCode == 408, res.StatusCode == 429, res.StatusCode >= 502 && res.StatusCode <= 504,
		// The others are caused by mistakes in settings, which an administrator
		// will correct.
		res.StatusCode/100 == 3, res.StatusCode == 401, res.StatusCode == 403, res.StatusCode == 404, res.StatusCode == 405, res.StatusCode == 407:
		return fmt.Errorf("status %d: %.200q", res.StatusCode, text)
	}
	return &event.Refused{Err: fmt.Errorf("status %d: %.200q", res.StatusCode, text)}
}

// rejected returns the error for a batch that the collector accepted in part.
func rejected(text []byte) error {
	var answer struct {
		PartialSuccess struct {
			RejectedLogRecords json.Number `json:"rejectedLogRecords"`
			RejectedSpans      json.Number `json:"rejectedSpans"`
			ErrorMessage       string      `json:"errorMessage"`
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(text, &answer) != nil { // the answer may have any content
		return nil
	}
	rejected := answer.PartialSuccess.RejectedLogRecords.String() + answer.PartialSuccess.RejectedSpans.String()
	if n, err := strconv.ParseUint(strings.Trim(rejected, `"`), 10, 32); err == nil && n > 0 {
		return &event.Refused{Err: errors.New(strconv.FormatUint(n, 10) + " of them: " + answer.PartialSuccess.ErrorMessage), Rows: int(n)}
	}
	return nil
}

// appendRequest appends an ExportLogsServiceRequest or ExportTraceServiceRequest.
func (s *Store) appendRequest(dst []byte, rows []event.Row) []byte {
	dst = fmt.Appendf(dst, `{"%s":[{"resource":{"attributes":[`, s.signal.resources)
	dst = appendText(dst, "service.name", "shuultuur")
	if s.host != "" {
		dst = appendText(append(dst, ','), "host.name", s.host)
	}
	dst = fmt.Appendf(dst, `]},"%s":[{"scope":{"name":"shuultuur.event"},"%s":[`, s.signal.scopes, s.signal.items)
	for i := range rows {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = s.signal.appendItem(dst, &rows[i])
	}
	return append(dst, `]}]}]}`...)
}

// appendTrace appends the IDs of the trace and the span of an event.
func appendTrace(dst []byte, r *event.Row) []byte {
	sum := sha256.Sum256([]byte(r.ID))
	return fmt.Appendf(dst, `"traceId":"%x","spanId":"%x"`, sum[:16], sum[16:24])
}

// appendSpan appends a Span of the kind server, from the first byte of the
// request to the last of the response.
func appendSpan(dst []byte, r *event.Row) []byte {
	dst = append(appendTrace(append(dst, '{'), r), `,"kind":2,"name":`...)
	name := r.Method
	if name == "" {
		name = r.Proto.String()
	}
	dst = appendString(dst, name)
	dst = strconv.AppendInt(append(dst, `,"startTimeUnixNano":"`...), r.Start().UnixNano(), 10)
	dst = strconv.AppendInt(append(dst, `","endTimeUnixNano":"`...), r.Time.UnixNano(), 10)
	dst = appendAttributes(append(dst, '"'), r)
	if r.Status >= 500 && r.Proto != filter.DNS { // the client's error, not the server's
		dst = append(dst, `,"status":{"code":2}`...)
	}
	return append(dst, '}')
}

// appendRecord appends a LogRecord.
func appendRecord(dst []byte, r *event.Row) []byte {
	number, text := "9", "INFO"
	if r.Action >= filter.Warn {
		number, text = "13", "WARN"
	}
	dst = strconv.AppendInt(append(dst, `{"eventName":"shuultuur.transaction","timeUnixNano":"`...), r.Time.UnixNano(), 10)
	dst = append(append(append(append(append(dst, `","severityNumber":`...), number...), `,"severityText":"`...), text...), `","body":{"stringValue":`...)
	what := r.URL
	if what == "" {
		what = r.Host
	}
	dst = appendString(dst, r.Action.String()+" "+what)
	dst = appendAttributes(appendTrace(append(dst, '}', ','), r), r)
	return append(dst, '}')
}

// methods are those that the semantic conventions know.
var methods = [...]string{"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"}

// appendAttributes appends the attributes of an event. Names follow the
// semantic conventions if these define one.
func appendAttributes(dst []byte, r *event.Row) []byte {
	dst = append(dst, `,"attributes":[`...)
	dst = appendText(dst, "log.record.uid", r.ID)
	client := ""
	if r.Client.IsValid() {
		client = r.Client.String()
	}
	method, original := r.Method, ""
	if r.Proto == filter.HTTP && method != "" && !slices.Contains(methods[:], method) {
		method, original = "_OTHER", method
	}
	if r.Type != "" {
		dst = append(appendString(append(dst, `,{"key":"http.response.header.content-type","value":{"arrayValue":{"values":[{"stringValue":`...), r.Type), `}]}}}`...)
	}
	for _, p := range [...]struct{ key, value string }{
		{"event.name", "shuultuur.transaction"}, {"shuultuur.action", r.Action.String()}, {"client.address", client}, {"user.name", r.User},
		{"shuultuur.policy", r.Policy}, {"shuultuur.rule", r.Rule}, {"shuultuur.category", r.Category}, {"shuultuur.evidence", r.Evidence},
		{"http.request.method", method}, {"http.request.method_original", original}, {"url.full", r.URL}, {"server.address", r.Host},
		{"network.protocol.name", r.Proto.String()}, {"shuultuur.note", r.Note},
	} {
		if p.value != "" {
			dst = appendText(append(dst, ','), p.key, p.value)
		}
	}
	for _, p := range [...]struct {
		key   string
		value int64
	}{
		{"server.port", int64(r.Port)}, {"http.response.status_code", int64(r.Status)}, {"shuultuur.score", int64(r.Score)},
		{"http.request.body.size", r.BytesIn}, {"http.response.body.size", r.BytesOut}, {"shuultuur.duration_us", r.Duration.Microseconds()},
	} {
		if p.value != 0 {
			dst = append(append(append(dst, `,{"key":"`...), p.key...), `","value":{"intValue":"`...)
			dst = append(strconv.AppendInt(dst, p.value, 10), `"}}`...)
		}
	}
	return append(dst, ']')
}

func appendText(dst []byte, key, value string) []byte {
	dst = append(append(append(dst, `{"key":"`...), key...), `","value":{"stringValue":`...)
	return append(appendString(dst, value), "}}"...)
}

// appendString appends a JSON string. Invalid UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"', r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < ' ':
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
