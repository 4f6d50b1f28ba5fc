package admin

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"shuultuur/admin/account"
)

// A change is recorded in the audit log before it is made, and refused if it cannot be recorded.
// So every change has an entry, even after a crash or on a full disk. A change that then fails
// gets a second entry, with the status of the response.

const (
	maxRecorded  = 4096 // most bytes of a body that are recorded
	auditPerPage = 100
)

// secrets names the fields of forms that are never recorded.
var secrets = []string{"password", "old", "code", "token", "secret"}

// silent names the paths of changes that record themselves, contain only secrets, or change
// nothing.
var silent = []string{"/login", "/login/passkey", "/login/passkey/challenge", "/account/passkeys/challenge", "/settings/check", mcpPath}

// nameless has the paths of changes whose form is not recorded, because it names the person
// whose data was erased.
var nameless = []string{"/privacy/erase"}

// answer answers with a route, and records the request if it changes something.
func (s *Server) answer(r route, w http.ResponseWriter, q *http.Request) {
	if r.method == http.MethodGet || s.parts.Audit == nil || slices.Contains(silent, r.path) {
		r.handler(w, q)
		return
	}
	first, _ := io.ReadAll(io.LimitReader(q.Body, maxRecorded)) // the handler meets the error again
	q.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(first), q.Body), q.Body}
	action, details := r.method+" "+r.path, ""
	if !slices.Contains(nameless, r.path) {
		details = strings.TrimSpace(strings.TrimPrefix(q.URL.RequestURI(), r.path) + " " + formFields(q, first))
	}
	if err := s.record(q, action, 0, details); err != nil {
		w.Header().Set("Retry-After", "1")
		s.refuse(w, byAudit, http.StatusServiceUnavailable, "nothing is changed while it cannot be recorded: "+err.Error())
		return
	}
	seen := &statusRecorder{ResponseWriter: w}
	r.handler(seen, q)
	if seen.effectOnly {
		action += " (effect only)"
	}
	if seen.effectOnly || seen.status >= http.StatusBadRequest {
		_ = s.record(q, action, max(seen.status, http.StatusOK), "") // if it fails, /health reports it
	}
}

// record adds an entry to the audit log.
func (s *Server) record(q *http.Request, action string, status int, details string) error {
	if s.parts.Audit == nil {
		return nil
	}
	who := userOf(q)
	return s.parts.Audit.Add(account.Entry{By: who.Name, Role: who.Role, Via: who.Via, From: remote(q).String(), Action: action, Status: status, Details: details})
}

// formFields returns the fields of a body without secrets.
func formFields(q *http.Request, first []byte) string {
	kind, _, _ := mime.ParseMediaType(q.Header.Get("Content-Type"))
	if kind != "application/x-www-form-urlencoded" {
		if slices.Contains([]string{"/account/passkeys"}, q.URL.Path) {
			return ""
		}
		return string(first)
	}
	form, _ := url.ParseQuery(string(first)) // the readable part of it
	open := url.Values{}
	for k, v := range form {
		if slices.Contains(secrets, k) {
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

// Unwrap is for [http.ResponseController].
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// auditRoutes returns the routes of the audit log.
//
//	GET /audit?before=SEQ  its entries, the newest first; HTML or JSON
//	GET /audit/verify      whether its chain holds
func (p *Parts) auditRoutes() []route {
	if p.Audit == nil {
		return nil
	}
	page := pageOf("audit.html", p.Pause.notice)
	return []route{
		{"GET", "/audit", owner, func(w http.ResponseWriter, r *http.Request) {
			before, _ := strconv.ParseInt(r.URL.Query().Get("before"), 10, 64)
			all, err := p.Audit.Entries(before, auditPerPage)
			if err != nil || !isPage(r) {
				answer(w, all, err)
				return
			}
			v, err := p.Audit.Verify()
			if err != nil {
				v.Broken = err.Error()
			}
			d := struct {
				Entries []account.Entry
				Chain   account.Verification
				Older   int64
			}{all, v, 0}
			if len(all) == auditPerPage {
				d.Older = all[len(all)-1].Seq
			}
			writePage(w, page, http.StatusOK, d)
		}},
		{"GET", "/audit/verify", owner, func(w http.ResponseWriter, r *http.Request) {
			v, err := p.Audit.Verify()
			if err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			writeJSON(w, http.StatusOK, v)
		}},
	}
}
