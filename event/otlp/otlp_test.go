package otlp

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/filter"
)

var row = event.Row{ID: "0abc", Time: time.Unix(1, 5000), Client: netip.MustParseAddr("10.0.0.7"), User: "anna", URL: "http://bet.example/\"\n\xff", Host: "bet.example", Status: 403, Action: filter.Block}

func TestACollectorGetsRecords(t *testing.T) {
	var got struct {
		ResourceLogs []struct {
			ScopeLogs []struct {
				LogRecords []struct {
					TimeUnixNano, SeverityText string
					Attributes                 []struct {
						Key   string
						Value struct{ StringValue, IntValue string }
					}
				}
			}
		}
	}
	field := ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		field = r.URL.Path + " " + r.Header.Get("Authorization")
		z, err := gzip.NewReader(r.Body)
		if err == nil {
			err = json.NewDecoder(z).Decode(&got)
		}
		if err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, "{}")
	}))
	defer srv.Close()
	s, err := Open(Config{To: srv.URL, Headers: map[string]string{"Authorization": "Bearer x"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Write(t.Context(), []event.Row{row, row}); err != nil {
		t.Fatal(err)
	}
	records := got.ResourceLogs[0].ScopeLogs[0].LogRecords
	if field != "/v1/logs Bearer x" || len(records) != 2 || records[0].TimeUnixNano != "1000005000" || records[0].SeverityText != "WARN" {
		t.Fatalf("the collector got Authorization and records %q, %+v", field, records)
	}
	all := map[string]string{}
	for _, a := range records[1].Attributes {
		all[a.Key] = a.Value.StringValue + a.Value.IntValue
	}
	for key, want := range map[string]string{"log.record.uid": "0abc", "client.address": "10.0.0.7", "url.full": "http://bet.example/\"\n\ufffd", "http.response.status_code": "403"} {
		if all[key] != want {
			t.Errorf("attribute %s is %q, want %q", key, all[key], want)
		}
	}
}

// TestRecordsKeepToTheSemanticConventions of events, lists and methods.
func TestRecordsKeepToTheSemanticConventions(t *testing.T) {
	for what, tt := range map[string]struct {
		row  event.Row
		want []string
	}{
		"a page":            {event.Row{Method: "GET", Type: "text/html"}, []string{`{"eventName":"shuultuur.transaction",`, `{"key":"http.response.header.content-type","value":{"arrayValue":{"values":[{"stringValue":"text/html"}]}}}`, `"http.request.method","value":{"stringValue":"GET"}`}},
		"an unknown method": {event.Row{Method: "BREW"}, []string{`"http.request.method","value":{"stringValue":"_OTHER"}`, `"http.request.method_original","value":{"stringValue":"BREW"}`}},
		"a name":            {event.Row{Method: "AAAA", Proto: filter.DNS}, []string{`"http.request.method","value":{"stringValue":"AAAA"}`}},
	} {
		got := string(appendRecord(nil, &tt.row))
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s lacks %s", what, got, want)
			}
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("%s: %s is not JSON", what, got)
		}
	}
}

func TestACollectorGetsSpansOfTheSameTraces(t *testing.T) {
	type ids struct{ TraceID, SpanID string }
	var got struct {
		ResourceLogs []struct {
			ScopeLogs []struct{ LogRecords []ids }
		}
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []struct {
					ids
					Name, StartTimeUnixNano, EndTimeUnixNano string
					Kind                                     int
					Status                                   struct{ Code int }
					Attributes                               []any
				}
			}
		}
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		z, err := gzip.NewReader(r.Body)
		if err == nil {
			err = json.NewDecoder(z).Decode(&got)
		}
		if err != nil {
			t.Errorf("%s: %v", r.URL, err)
		}
		if r.URL.Path == "/v1/traces" {
			_, _ = io.WriteString(w, `{"partialSuccess":{"rejectedSpans":"1"}}`)
		}
	}))
	defer srv.Close()
	failed := row
	failed.ID, failed.Status, failed.Duration, failed.Method = "0abd", 502, time.Millisecond, "GET"
	cfg := Config{To: srv.URL, Traces: srv.URL}
	logs, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	spans, err := OpenTraces(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer spans.Close()
	if err := logs.Write(t.Context(), []event.Row{row, failed}); err != nil {
		t.Fatal(err)
	}
	err = spans.Write(t.Context(), []event.Row{row, failed})
	if r, ok := errors.AsType[*event.Refused](err); !ok || r.Rows != 1 {
		t.Errorf("Write returned %v, want a final refusal", err)
	}
	records, all := got.ResourceLogs[0].ScopeLogs[0].LogRecords, got.ResourceSpans[0].ScopeSpans[0].Spans
	if len(all) != 2 || len(records) != 2 || all[0].ids != records[0] || all[1].ids != records[1] || all[0].ids == all[1].ids || len(all[0].TraceID) != 32 || len(all[0].SpanID) != 16 {
		t.Fatalf("spans %+v and records %+v do not name the same traces", all, records)
	}
	if s := all[1]; s.Name != "GET" || s.Kind != 2 || s.StartTimeUnixNano != "999005000" || s.EndTimeUnixNano != "1000005000" || s.Status.Code != 2 || len(s.Attributes) == 0 || all[0].Status.Code != 0 {
		t.Errorf("the spans are %+v", all)
	}
}

func TestRowsThatACollectorRefusesAreDropped(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		fails  bool
		final  bool
	}{
		{200, `{}`, false, false},
		{200, `not JSON`, false, false},
		{200, `{"partialSuccess":{"rejectedLogRecords":"1","errorMessage":"too old"}}`, true, true},
		{400, "bad", true, true},
		{401, "who", true, false},
		{429, "slow", true, false},
		{503, "later", true, false},
		{302, "", true, false},
		{413, "large", true, true},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.body)
		}))
		s, err := Open(Config{To: srv.URL + "/v1/logs"})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Write(t.Context(), []event.Row{row})
		if _, final := errors.AsType[*event.Refused](err); (err != nil) != tt.fails || final != tt.final {
			t.Errorf("answer %d %s: Write returned %v", tt.status, tt.body, err)
		}
		s.Close()
		srv.Close()
	}
}

// TestACollectorGetsNoMoreThanItTakes: a collector accepts at most 100 events in a request. Of
// 2,500 events, it gets all but the one that is too large by itself.
func TestACollectorGetsNoMoreThanItTakes(t *testing.T) {
	got := map[string]bool{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		b, _ := io.ReadAll(z)
		all := regexp.MustCompile(`"row-\d+"`).FindAllString(string(b), -1)
		if len(all) > 100 || strings.Contains(string(b), `"row-77"`) {
			w.WriteHeader(413)
			return
		}
		for _, id := range all {
			got[id] = true
		}
	}))
	defer srv.Close()
	s, err := Open(Config{To: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows := make([]event.Row, 2500)
	for i := range rows {
		rows[i] = row
		rows[i].ID = fmt.Sprintf("row-%d", i)
	}
	err = s.Write(t.Context(), rows)
	if r, ok := errors.AsType[*event.Refused](err); !ok || r.Of(len(rows)) != 1 || len(got) != 2499 {
		t.Errorf("%d events arrived, %v; want 2499 and one refused", len(got), err)
	}
}

func TestWrongSettingsAreRefused(t *testing.T) {
	for want, cfg := range map[string]Config{
		"is not a collector":  {To: "tcp://collector:4317"},
		"the name of a field": {To: "http://c", Headers: map[string]string{"a b": "c"}},
		"no such file":        {To: "https://c", CA: "/does/not/exist"},
	} {
		if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func FuzzString(f *testing.F) {
	f.Add("a\"\\\x00\xff\u2028")
	f.Fuzz(func(t *testing.T, s string) {
		var back string
		if err := json.Unmarshal(appendString(nil, s), &back); err != nil || back != strings.ToValidUTF8(s, "\ufffd") && len(back) < len(strings.ToValidUTF8(s, "\ufffd")) {
			t.Errorf("appendString(%q) reads %q, %v", s, back, err)
		}
	})
}
