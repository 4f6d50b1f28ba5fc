package web

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"shuultuur/admin/account"
)

// A change is recorded in the audit log before it is made, and refused if it cannot be recorded.
// So every change has an entry, even after a crash or on a full disk. A change that then fails
// gets a second entry, with the status of the response.

// maxRecorded is how many bytes of a body are recorded.
const maxRecorded = 4096

// secrets names the fields of forms that are never recorded.
var secrets = []string{"password", "old", "code", "token", "secret"}

// silent names the paths of changes that record themselves, contain only secrets, or change
// nothing.
var silent = []string{"/login", "/login/passkey", "/login/passkey/challenge", "/login/invited", "/account/passkeys/challenge", "/settings/check", MCPPath, ViewPath}

// nameless has the paths of changes whose form is not recorded, because it names the person
// whose data was erased.
var nameless = []string{"/privacy/erase"}

// answer answers with a route, and records the request if it changes something.
func (s *Site) answer(r Route, w http.ResponseWriter, q *http.Request) {
	if r.Method != http.MethodGet {
		defer s.tasks.expire()
	}
	if r.Method == http.MethodGet || s.Audit == nil || slices.Contains(silent, r.Path) {
		r.Handler(w, q)
		return
	}
	first, _ := io.ReadAll(io.LimitReader(q.Body, maxRecorded)) // the handler meets the error again
	q.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(first), q.Body), q.Body}
	action, details := r.Method+" "+r.Path, ""
	if !slices.Contains(nameless, r.Path) {
		details = strings.TrimSpace(strings.TrimPrefix(q.URL.RequestURI(), r.Path) + " " + formFields(q, first))
	}
	if err := s.Record(q, action, 0, details); err != nil {
		w.Header().Set("Retry-After", "1")
		s.Refuse(w, ByAudit, http.StatusServiceUnavailable, "nothing is changed while it cannot be recorded: "+err.Error())
		return
	}
	seen := &statusRecorder{ResponseWriter: w}
	r.Handler(seen, q)
	if seen.effectOnly {
		action += " (effect only)"
	}
	if seen.effectOnly || seen.status >= http.StatusBadRequest {
		_ = s.Record(q, action, max(seen.status, http.StatusOK), "") // if it fails, /health reports it
	}
}

// Record adds an entry to the audit log.
func (s *Site) Record(q *http.Request, action string, status int, details string) error {
	if s.Audit == nil {
		return nil
	}
	who := UserOf(q)
	return s.Audit.Add(account.Entry{By: who.Name, Role: who.Role, Via: who.Via, From: Remote(q).String(), Action: action, Status: status, Details: details})
}

// formFields returns the fields of a body without secrets.
func formFields(q *http.Request, first []byte) string {
	kind, _, _ := mime.ParseMediaType(q.Header.Get("Content-Type"))
	if kind != "application/x-www-form-urlencoded" {
		if slices.Contains([]string{"/account/passkeys", "/system/restore"}, q.URL.Path) { // secrets, or bytes that nobody reads
			return ""
		}
		return string(first)
	}
	form, _ := url.ParseQuery(string(first)) // the readable part of it
	open := url.Values{}
	for k, v := range form {
		if slices.Contains(secrets, k) || strings.HasPrefix(k, "v.") { // values of settings are in their history
			v = []string{"…"}
		}
		open[k] = v
	}
	text, err := url.QueryUnescape(open.Encode())
	if err != nil {
		text = open.Encode()
	}
	return text[:min(len(text), maxRecorded)]
}

// A statusRecorder remembers the status of an answer.
type statusRecorder struct {
	http.ResponseWriter
	status     int
	effectOnly bool // it changed nothing
}

func (s *statusRecorder) WriteHeader(status int) {
	if s.status == 0 {
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

// ChangedNothing notes for the audit log that an answer only said what a change would do.
func ChangedNothing(w http.ResponseWriter) {
	if s, ok := w.(*statusRecorder); ok {
		s.effectOnly = true
	}
}

// Unwrap is for [http.ResponseController].
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }
