package admin

import (
	"bytes"
	_ "embed"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"shuultuur/admin/account"
)

// A change is written into the audit log after it was made, with its status. When
// the log cannot be written, nothing is changed until it can.

const (
	maxRecorded  = 4096 // bytes of a body that are recorded
	auditPerPage = 100
)

// secrets are fields of forms that are never recorded.
var secrets = []string{"password", "old", "code", "token", "secret"}

// silent are changing paths that record themselves, hold nothing but secrets, or
// change nothing.
var silent = []string{"/login", "/login/passkey", "/login/passkey/challenge", "/account/passkeys/challenge", "/settings/check", mcpPath}

// nameless are the paths of changes whose form is not recorded: it names the
// person whose data was erased.
var nameless = []string{"/privacy/erase"}

// answer answers with a route, and records the request if it changes something.
func (s *Server) answer(r route, w http.ResponseWriter, q *http.Request) {
	if r.method == http.MethodGet || s.parts.Audit == nil || slices.Contains(silent, r.path) {
		r.handler(w, q)
		return
	}
	if s.parts.Audit.Problem() != nil {
		if err := s.record(q, "the audit log is tried again", 0, ""); err != nil {
			w.Header().Set("Retry-After", "1")
			s.refuse(w, byAudit, http.StatusServiceUnavailable, "nothing is changed while it cannot be recorded: "+err.Error())
			return
		}
	}
	kept := &keeping{ReadCloser: q.Body}
	q.Body = kept
	seen := &seeing{ResponseWriter: w}
	r.handler(seen, q)
	details := strings.TrimPrefix(q.URL.RequestURI(), r.path)
	if entered := entered(q, kept.first.Bytes()); entered != "" {
		details = strings.TrimSpace(details + " " + entered)
	}
	if slices.Contains(nameless, r.path) {
		details = ""
	}
	action := r.method + " " + r.path
	if seen.effectOnly {
		action += " (effect only)"
	}
	_ = s.record(q, action, max(seen.status, http.StatusOK), details) // if it fails, the next change is refused, and /health reports it
}

// record adds an entry to the audit log.
func (s *Server) record(q *http.Request, action string, status int, details string) error {
	if s.parts.Audit == nil {
		return nil
	}
	who := asker(q)
	return s.parts.Audit.Add(account.Entry{By: who.Name, Role: who.Role, Via: who.Via, From: remote(q).String(), Action: action, Status: status, Details: details})
}

// entered returns the contents of a body without secrets.
func entered(q *http.Request, first []byte) string {
	kind, _, _ := mime.ParseMediaType(q.Header.Get("Content-Type"))
	form := q.PostForm
	if form == nil && kind == "application/x-www-form-urlencoded" {
		form, _ = url.ParseQuery(string(first))
	}
	if form == nil || kind != "application/x-www-form-urlencoded" {
		if slices.Contains([]string{"/account/passkeys"}, q.URL.Path) {
			return ""
		}
		return string(first)
	}
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

// keeping remembers the first bytes of a body.
type keeping struct {
	io.ReadCloser
	first bytes.Buffer
}

func (k *keeping) Read(p []byte) (int, error) {
	n, err := k.ReadCloser.Read(p)
	if left := maxRecorded - k.first.Len(); left > 0 {
		k.first.Write(p[:min(n, left)])
	}
	return n, err
}

// seeing remembers the status of an answer.
type seeing struct {
	http.ResponseWriter
	status     int
	effectOnly bool // nothing was changed
}

func (s *seeing) WriteHeader(status int) {
	if s.status == 0 {
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (s *seeing) Unwrap() http.ResponseWriter { return s.ResponseWriter }

//go:embed audit.html
var auditPage string

// auditRoutes returns the routes of the audit log.
//
//	GET /audit?before=SEQ  its entries, the newest first; HTML or JSON
//	GET /audit/verify      whether its chain holds
func (p *Parts) auditRoutes() []route {
	if p.Audit == nil {
		return nil
	}
	page := pageOf(auditPage, p.Pause.notice)
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
				Chain   account.Verified
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
