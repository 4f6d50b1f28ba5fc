package clients

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"shuultuur/identity/session"
)

// A session that cannot be written to disk is refused with the reason, and the
// client is asked to retry.
func TestSessionsThatAreNotKeptAreSentAgain(t *testing.T) {
	full := errors.New("the disk is full")
	s := &Sessions{
		Start: func(all ...session.Session) error {
			if len(all) == 0 {
				return nil
			}
			return full
		},
		End: func(all ...session.EndRequest) (int, error) {
			if len(all) == 0 {
				return 0, nil
			}
			return 0, full
		},
	}
	for _, body := range []string{`{"address": "10.1.2.3", "user": "anna"}`, `{"address": "10.1.2.3", "action": "stop"}`} {
		w := httptest.NewRecorder()
		s.post(w, httptest.NewRequest("POST", "/api/sessions", strings.NewReader(body)))
		if w.Code != 503 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "full") {
			t.Errorf("%s: status %d, %v, %q; want 503 with Retry-After and the reason", body, w.Code, w.Header(), w.Body)
		}
	}
}

// A body that parsers may interpret differently changes nothing: its author has made a mistake,
// and the last of two users may not be the right one.
func TestAmbiguousJSONIsRefused(t *testing.T) {
	started := 0
	s := &Sessions{
		Start: func(all ...session.Session) error { started += len(all); return nil },
		End:   func(...session.EndRequest) (int, error) { return 0, nil },
	}
	for body, want := range map[string]string{
		`{"address": "10.1.2.3", "user": "anna"}`:                                        "",
		`[{"address": "10.1.2.3", "user": "anna"}, {"address": "10.1.2.4", "user":"b"}]`: "",
		`{"address": "10.1.2.3", "user": "user"}`:                                        "",
		`{"address": "10.1.2.3", "user": "anna", "user": "ben"}`:                         `"user" occurs twice`,
		`{"address": "10.1.2.3", "user": "anna", "\u0075ser": "anna"}`:                   `"user" occurs twice`,
		`{"address": "10.1.2.3", "User": "anna", "user": "ben"}`:                         `"user" occurs twice`,
		`[{"address": "10.1.2.3", "groups": ["a"], "groups": []}]`:                       `"groups" occurs twice`,
		`{"address": "10.1.2.3", "user": "anna"} {"address": "10.1.2.4"}`:                "follows",
		`{"address": "10.1.2.3", "user": "anna"}]`:                                       "follows",
		`{"address": "10.1.2.3", "user": "anna"`:                                         "unexpected EOF",
		``:                                                                               "unexpected EOF",
	} {
		started = 0
		w := httptest.NewRecorder()
		s.post(w, httptest.NewRequest("POST", "/api/sessions", strings.NewReader(body)))
		if want == "" && w.Code == 200 && started > 0 {
			continue
		}
		if want == "" || w.Code != 400 || started != 0 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: status %d, %q, %d sessions started; want %q", body, w.Code, w.Body, started, want)
		}
	}
}
