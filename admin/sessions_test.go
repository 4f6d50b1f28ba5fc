package admin

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"shuultuur/identity/session"
)

// A session that the disk does not take is refused with the reason, and the client
// is told to come back.
func TestSessionsThatAreNotKeptAreSentAgain(t *testing.T) {
	full := errors.New("the disk is full")
	s := &Sessions{
		Start: func(all ...session.Session) error {
			if len(all) == 0 {
				return nil
			}
			return full
		},
		End: func(all ...session.Ended) (int, error) {
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
			t.Errorf("%s: %d %v %q, want 503 with Retry-After and the reason", body, w.Code, w.Header(), w.Body)
		}
	}
}
