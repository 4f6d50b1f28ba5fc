package cache

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/lib/message"
	"shuultuur/test/data"
)

// This file runs the public tests for HTTP caches (http-tests/cache-tests), in the format of
// its tests/schema.json. Its client and origin are on both sides of a cache, in a bubble whose
// clock jumps over the pauses. Tests of 1xx responses are left to the proxy, which forwards
// them.

type suiteTest struct {
	ID          string         `json:"id"`
	Kind        string         `json:"kind"`
	DependsOn   []string       `json:"depends_on"`
	BrowserOnly bool           `json:"browser_only"`
	CDNOnly     bool           `json:"cdn_only"`
	Requests    []suiteRequest `json:"requests"`
}

type suiteRequest struct {
	Method         string     `json:"request_method"`
	Headers        [][]any    `json:"request_headers"`
	Body           *string    `json:"request_body"`
	Query          string     `json:"query_arg"`
	Filename       string     `json:"filename"`
	PauseAfter     bool       `json:"pause_after"`
	Disconnect     bool       `json:"disconnect"`
	MagicLocations bool       `json:"magic_locations"`
	MagicIMS       bool       `json:"magic_ims"`
	RFC850         []string   `json:"rfc850date"`
	Status         []any      `json:"response_status"`
	Response       [][]any    `json:"response_headers"`
	ResponseBody   *string    `json:"response_body"`
	ResponsePause  float64    `json:"response_pause"`
	CheckBody      *bool      `json:"check_body"`
	Type           string     `json:"expected_type"`
	Expected       *int       `json:"expected_status"`
	Request        []any      `json:"expected_request_headers"`
	RequestMissing []any      `json:"expected_request_headers_missing"`
	Want           []any      `json:"expected_response_headers"`
	Missing        []any      `json:"expected_response_headers_missing"`
	Text           *string    `json:"expected_response_text"`
	WantMethod     string     `json:"expected_method"`
	Setup          bool       `json:"setup"`
	SetupTests     []string   `json:"setup_tests"`
	Interim        []any      `json:"interim_responses"`
	raw            rawMessage // distinguishes null from absent
}

type rawMessage map[string]json.RawMessage

func (q *suiteRequest) UnmarshalJSON(b []byte) error {
	type plain suiteRequest
	if err := json.Unmarshal(b, (*plain)(q)); err != nil {
		return err
	}
	return json.Unmarshal(b, &q.raw)
}

func (q *suiteRequest) has(key string) bool { return q.raw[key] != nil }

// errSetup is a failure of a precondition of a test.
var errSetup = errors.New("setup")

func (q *suiteRequest) failed(member, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if q.Setup || member == "" || slices.Contains(q.SetupTests, member) {
		return errors.Join(errSetup, err)
	}
	return err
}

// suiteDate converts a header value that is a number of seconds from now to a date.
func suiteDate(name string, v any, now time.Time, q *suiteRequest) string {
	n, ok := v.(float64)
	if !ok {
		return fmt.Sprint(v)
	}
	switch strings.ToLower(name) {
	case "date", "expires", "last-modified", "if-modified-since", "if-unmodified-since":
		at := now.Add(time.Duration(n) * time.Second).UTC()
		if slices.Contains(q.RFC850, strings.ToLower(name)) {
			return at.Format("Monday, 02-Jan-06 15:04:05 GMT")
		}
		return at.Format("Mon, 02 Jan 2006 15:04:05 GMT")
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// A suiteOrigin is the server of one test.
type suiteOrigin struct {
	test *suiteTest
	seen []suiteSeen
}

type suiteSeen struct {
	num    int
	method string
	fields message.Fields
	sent   message.Fields // fields of the response that must arrive
}

func (o *suiteOrigin) RoundTrip(_ context.Context, m *message.Request) (*message.Response, error) {
	num, _ := strconv.Atoi(string(m.Get("Req-Num")))
	q := &o.test.Requests[num-1]
	if q.ResponsePause > 0 {
		time.Sleep(time.Duration(q.ResponsePause * float64(time.Second)))
	}
	status := 200
	if len(q.Status) > 0 {
		status = int(q.Status[0].(float64))
	}
	if strings.HasSuffix(q.Type, "validated") {
		status = 999
		for _, h := range [...][2]string{{"Last-Modified", "If-Modified-Since"}, {"ETag", "If-None-Match"}} {
			previous := ""
			if len(o.seen) > 0 {
				for _, r := range o.test.Requests[num-2].Response {
					if strings.EqualFold(r[0].(string), h[0]) {
						previous = suiteDate(h[0], r[1], suiteNow(o.seen[len(o.seen)-1].sent), q)
					}
				}
			}
			if v := m.Get(h[1]); v != nil && previous != "" && string(v) == previous {
				status = 304
			}
		}
	}
	now := time.Now()
	s := &message.Response{Status: status, Reason: []byte("X"), Proto: 11}
	base := string(m.Path)
	s.Fields.Add("Server-Base-Url", base)
	s.Fields.Add("Server-Request-Count", strconv.Itoa(len(o.seen)+1))
	s.Fields.Add("Client-Request-Count", strconv.Itoa(num))
	s.Fields.Add("Server-Now", strconv.FormatInt(now.UnixMilli(), 10))
	seen := suiteSeen{num: num, method: m.Method}
	for _, f := range m.Fields {
		seen.fields = append(seen.fields, message.Field{Name: bytes.Clone(f.Name), Value: bytes.Clone(f.Value)})
	}
	for _, h := range q.Response {
		name := h[0].(string)
		v := suiteDate(name, h[1], now, q)
		if l := strings.ToLower(name); q.MagicLocations && (l == "location" || l == "content-location") {
			if v = base + "/" + v; h[1] == "" {
				v = base
			}
		}
		s.Fields.Add(name, v)
		if len(h) < 3 || h[2] == true {
			seen.sent.Add(name, v)
		}
	}
	seen.sent.Add("Server-Now", string(s.Get("Server-Now")))
	if !s.Has("Date") {
		s.Fields.Add("Date", now.UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT"))
	}
	if !s.Has("Content-Type") {
		s.Fields.Add("Content-Type", "text/plain")
	}
	o.seen = append(o.seen, seen)
	var nums []string
	for _, r := range o.seen {
		nums = append(nums, strconv.Itoa(r.num))
	}
	s.Fields.Add("Request-Numbers", strings.Join(nums, " "))
	if q.Disconnect {
		return nil, io.ErrUnexpectedEOF
	}
	body := new(message.MemoryBody)
	if status != 204 && status != 304 && m.Method != "HEAD" {
		text := "uuid"
		if q.ResponseBody != nil {
			text = *q.ResponseBody
		}
		if n, err := strconv.Atoi(string(s.Get("Content-Length"))); err == nil {
			text = text[:min(n, len(text))] + strings.Repeat("x", max(0, n-len(text)))
		}
		body.Set([]byte(text))
		s.Length = int64(len(text))
	}
	s.Body = body
	return s, nil
}

func suiteNow(f message.Fields) time.Time {
	ms, _ := strconv.ParseInt(string(f.Get("Server-Now")), 10, 64)
	return time.UnixMilli(ms)
}

// suiteResponse is the client's response.
type suiteResponse struct {
	status int
	fields message.Fields
	text   string
	err    error
}

// joined returns all values of a field, joined as by a client.
func (r *suiteResponse) joined(name string) (string, bool) {
	var all []string
	for _, f := range r.fields {
		if strings.EqualFold(string(f.Name), name) {
			all = append(all, string(f.Value))
		}
	}
	return strings.Join(all, ", "), all != nil
}

// running returns a cache in memory that runs until stop is called.
func running(t *testing.T) (c *Cache, stop func()) {
	t.Helper()
	c, err := New(Config{}, Parts{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	return c, func() { end(); <-ended }
}

// run runs one test and returns the failure.
func (st *suiteTest) run(t *testing.T) error {
	c, stop := running(t)
	defer stop()
	o := &suiteOrigin{test: st}
	front := c.InFrontOf(o)
	var responses []*suiteResponse
	for i := range st.Requests {
		r := st.ask(front, i, responses)
		responses = append(responses, r)
		if r.err == nil || r.status != 0 {
			if err := st.Requests[i].check(i+1, r); err != nil {
				return err
			}
		}
		if st.Requests[i].PauseAfter {
			time.Sleep(3 * time.Second)
		}
		synctest.Wait()
	}
	return st.checkOrigin(o, responses)
}

func (st *suiteTest) ask(front *RoundTripper, i int, before []*suiteResponse) *suiteResponse {
	q := &st.Requests[i]
	m := &message.Request{Method: "GET", Form: message.Absolute, Scheme: "http", Host: []byte("127.0.0.1"), Port: 8000, Proto: 11}
	if q.Method != "" {
		m.Method = q.Method
	}
	path := "/test/uuid"
	if q.Filename != "" {
		path += "/" + q.Filename
	}
	if q.Query != "" {
		path += "?" + q.Query
	}
	m.Path = []byte(path)
	m.Fields.Add("Pragma", "foo")
	m.Fields.Add("Cache-Control", "nothing-to-see-here")
	for _, h := range q.Headers {
		name, now := h[0].(string), time.Now()
		if q.MagicIMS && i > 0 {
			now = suiteNow(before[i-1].fields)
		}
		m.Fields.Add(name, suiteDate(name, h[1], now, q))
	}
	m.Fields.Add("Test-ID", st.ID)
	m.Fields.Add("Req-Num", strconv.Itoa(i+1))
	if q.Body != nil {
		body := new(message.MemoryBody)
		body.Set([]byte(*q.Body))
		m.Body, m.Length = body, int64(len(*q.Body))
	}
	s, err := front.RoundTrip(context.Background(), m)
	if err != nil {
		return &suiteResponse{status: 502, err: err}
	}
	r := &suiteResponse{status: s.Status}
	connection := s.Fields.ConnectionNames()
	for _, f := range s.Fields {
		if !message.HopByHop(f.Name) && !message.NameIn(connection, f.Name) {
			r.fields = append(r.fields, message.Field{Name: bytes.Clone(f.Name), Value: bytes.Clone(f.Value)})
		}
	}
	b, err := io.ReadAll(s.Body)
	s.Body.Close()
	r.text, r.err = string(b), err
	return r
}

// check compares the client's response with the expected one.
func (q *suiteRequest) check(num int, r *suiteResponse) error {
	count, has := r.joined("Server-Request-Count")
	n, _ := strconv.Atoi(count)
	switch {
	case q.Type == "cached" && !(r.status == 304 && !has) && (!has || n >= num):
		return q.failed("expected_type", "response %d does not come from the cache", num)
	case q.Type == "not_cached" && n != num:
		return q.failed("expected_type", "response %d comes from the cache", num)
	}
	switch {
	case q.has("expected_status"):
		if q.Expected != nil && r.status != *q.Expected {
			return q.failed("expected_status", "status of response %d is %d, not %d", num, r.status, *q.Expected)
		}
	case len(q.Status) > 0:
		if want := int(q.Status[0].(float64)); r.status != want {
			return q.failed("", "status of response %d is %d, not %d", num, r.status, want)
		}
	case r.status == 999:
		return q.failed("expected_type", "request %d should have been conditional", num)
	case r.status != 200:
		return q.failed("", "status of response %d is %d, not 200", num, r.status)
	}
	for _, w := range q.Want {
		if err := q.checkField(num, r, w); err != nil {
			return err
		}
	}
	for _, w := range q.Missing {
		name, value := w, any(nil)
		if pair, ok := w.([]any); ok {
			name, value = pair[0], pair[1]
		}
		v, has := r.joined(fmt.Sprint(name))
		if has && (value == nil || strings.Contains(v, fmt.Sprint(value))) {
			return q.failed("expected_response_headers_missing", "response %d has %s: %s", num, name, v)
		}
	}
	switch {
	case q.CheckBody != nil && !*q.CheckBody:
	case q.has("expected_response_text"):
		if q.Text != nil && r.text != *q.Text {
			return q.failed("expected_response_text", "response %d is %q, not %q", num, r.text, *q.Text)
		}
	case q.ResponseBody != nil:
		if r.text != *q.ResponseBody {
			return q.failed("", "response %d is %q, not %q", num, r.text, *q.ResponseBody)
		}
	case r.status != 204 && r.status != 304 && q.Method != "HEAD" && r.text != "uuid":
		return q.failed("", "response %d is %q", num, r.text)
	}
	return nil
}

func (q *suiteRequest) checkField(num int, r *suiteResponse, want any) error {
	fail := func(format string, args ...any) error {
		return q.failed("expected_response_headers", format, args...)
	}
	w, ok := want.([]any)
	if !ok {
		w = []any{want}
	}
	name := w[0].(string)
	v, has := r.joined(name)
	switch {
	case !has:
		return fail("response %d lacks %s", num, name)
	case len(w) == 1:
	case len(w) == 3 && w[1] == ">":
		if n, _ := strconv.ParseFloat(v, 64); n <= w[2].(float64) {
			return fail("%s of response %d is %s, not more than %v", name, num, v, w[2])
		}
	case len(w) == 3:
		if other, _ := r.joined(w[2].(string)); v != other {
			return fail("%s of response %d is %s, not %s", name, num, v, other)
		}
	default:
		if e := suiteDate(name, w[1], suiteNow(r.fields), q); v != e {
			return fail("%s of response %d is %q, not %q", name, num, v, e)
		}
	}
	return nil
}

// checkOrigin compares the requests to the origin with the expected ones.
func (st *suiteTest) checkOrigin(o *suiteOrigin, responses []*suiteResponse) error {
	at := 0
	for i := range st.Requests {
		q, num := &st.Requests[i], i+1
		if q.Type == "cached" {
			continue
		}
		if at >= len(o.seen) {
			if q.Type == "not_cached" || strings.HasSuffix(q.Type, "validated") || q.Request != nil {
				return q.failed("expected_type", "request %d did not reach the origin", num)
			}
			continue
		}
		seen := o.seen[at]
		at++
		switch {
		case q.Type == "not_cached" && seen.num != num:
			return q.failed("expected_type", "response %d comes from the cache", num)
		case q.Type == "etag_validated" && !seen.fields.Has("If-None-Match"):
			return q.failed("expected_type", "request %d has no If-None-Match", num)
		case q.Type == "lm_validated" && !seen.fields.Has("If-Modified-Since"):
			return q.failed("expected_type", "request %d has no If-Modified-Since", num)
		case q.WantMethod != "" && seen.method != q.WantMethod:
			return q.failed("expected_method", "request %d has method %s", num, seen.method)
		}
		for _, w := range q.Request {
			pair, ok := w.([]any)
			if !ok {
				pair = []any{w}
			}
			v := seen.fields.Get(pair[0].(string))
			if v == nil || len(pair) > 1 && string(v) != fmt.Sprint(pair[1]) {
				return q.failed("expected_request_headers", "%v of request %d is %q", pair, num, v)
			}
		}
		for _, f := range seen.sent {
			if n := string(f.Name); strings.EqualFold(n, "date") || n == "Server-Now" {
				continue
			}
			sent := suiteResponse{fields: seen.sent}
			want, _ := sent.joined(string(f.Name))
			if got, _ := responses[i].joined(string(f.Name)); got != want {
				return q.failed("", "%s of response %d is %q, not %q", f.Name, num, got, want)
			}
		}
	}
	return nil
}

func TestPublicSuite(t *testing.T) {
	text, err := os.ReadFile(data.Path(t, "..", "tools", "cache-tests", "tests", "tests.json"))
	if err != nil {
		t.Fatal(err)
	}
	var suites []struct{ Tests []suiteTest }
	if err := json.Unmarshal(text, &suites); err != nil {
		t.Fatal(err)
	}
	results := map[string]error{}
	var tests []*suiteTest
	for i := range suites {
		for j := range suites[i].Tests {
			st := &suites[i].Tests[j]
			if st.BrowserOnly || st.CDNOnly || slices.ContainsFunc(st.Requests, func(q suiteRequest) bool { return q.Interim != nil }) {
				continue
			}
			tests = append(tests, st)
			synctest.Test(t, func(t *testing.T) { results[st.ID] = st.run(t) })
		}
	}
	passed := map[string]int{}
	all := map[string]int{}
	for _, st := range tests {
		kind := st.Kind
		if kind == "" {
			kind = "required"
		}
		all[kind]++
		if results[st.ID] == nil {
			passed[kind]++
		} else if kind != "check" {
			// A security gateway refuses a request that this test wants forwarded.
			t.Errorf("%s %s: %v", kind, st.ID, results[st.ID])
		}
	}
	for kind, n := range all {
		t.Logf("%s: %d of %d passed", kind, passed[kind], n)
	}
	if all["required"] < 100 {
		t.Errorf("only %d required tests were run, want at least 100", all["required"])
	}
}
