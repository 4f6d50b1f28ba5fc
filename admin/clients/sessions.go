package clients

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/admin/web"
	"shuultuur/identity/session"
	"shuultuur/lib/setting"
)

// Sessions receives from other systems which user has which address: the controller of a Wi-Fi
// network, a VPN, a portal.
type Sessions struct {
	All   func() []session.Session
	Start func(...session.Session) error
	// End ends sessions and returns their number.
	End func(...session.EndRequest) (int, error)
}

// maxSessions is the most sessions that one request may start.
const maxSessions = 10_000

// An order is a requested change of one session.
type order struct {
	Action  string   `json:"action"` // start, which is the default, or stop
	Address string   `json:"address"`
	User    string   `json:"user"`
	Groups  []string `json:"groups"`
	Seconds int64    `json:"seconds"`
	ID      string   `json:"id"`
}

// Routes returns the routes about sessions.
//
//	GET /api/sessions     those that hold, or with ?address=ADDRESS the one of an address
//	POST /api/sessions    starts, renews or stops one, or a list of them: JSON
//	                      {"address","user","groups","seconds","id","action"}, or a form
//	DELETE /api/sessions?address=ADDRESS[&id=ID]
func (s *Sessions) Routes() []web.Route {
	return []web.Route{
		{Method: "GET", Path: "/api/sessions", Role: web.Operator,
			Does: "who has which address for now", Query: []web.Field{web.Optional("address", "whose session")},
			Handler: s.get},
		{Method: "POST", Path: "/api/sessions", Role: web.Operator,
			Does: "start, renew or stop sessions of addresses: an object or a list of them, or a form", Body: "application/json application/x-www-form-urlencoded",
			Effect:  ofWho,
			Handler: s.post},
		{Method: "DELETE", Path: "/api/sessions", Role: web.Operator,
			Does: "stop the session of an address", Query: []web.Field{web.Required("address", "whose session"), web.Optional("id", "only the session that was started with it")},
			Effect: ofWho,
			Handler: func(w http.ResponseWriter, r *http.Request) {
				q := r.URL.Query()
				s.do(w, r, []order{{Action: "stop", Address: q.Get("address"), ID: q.Get("id")}})
			}},
	}
}

func (s *Sessions) get(w http.ResponseWriter, r *http.Request) {
	all := s.All()
	if text := r.URL.Query().Get("address"); text != "" {
		a, err := setting.Client(text)
		if err != nil {
			http.Error(w, fmt.Sprintf("%.60q is not an address", text), http.StatusBadRequest)
			return
		}
		all = slices.DeleteFunc(all, func(open session.Session) bool { return open.Addr != a })
	}
	web.WriteJSON(w, http.StatusOK, all)
}

func (s *Sessions) post(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<20)
	all, err := orders(r)
	if err != nil {
		var large *http.MaxBytesError
		status := http.StatusBadRequest
		if errors.As(err, &large) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, err.Error(), status)
		return
	}
	s.do(w, r, all)
}

// orders reads a request.
func orders(r *http.Request) (all []order, err error) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "application/x-www-form-urlencoded" {
		if err := r.ParseForm(); err != nil {
			return nil, err
		}
		f := r.PostForm
		o := order{Action: f.Get("action"), Address: f.Get("address"), User: f.Get("user"), ID: f.Get("id")}
		for _, g := range f["groups"] {
			for part := range strings.SplitSeq(g, ",") {
				if part = strings.TrimSpace(part); part != "" {
					o.Groups = append(o.Groups, part)
				}
			}
		}
		if n := f.Get("seconds"); n != "" {
			if o.Seconds, err = strconv.ParseInt(n, 10, 64); err != nil {
				return nil, fmt.Errorf("seconds=%q is not a number", n)
			}
		}
		return []order{o}, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		err = web.ReadJSON(body, &all)
	} else {
		all = make([]order, 1)
		err = web.ReadJSON(body, &all[0])
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf(`the body is not JSON such as {"address": "10.1.2.3", "user": "anna", "groups": ["pupils"], "seconds": 3600}: %w`, err)
	case len(all) > maxSessions:
		return nil, fmt.Errorf("%d sessions at once, at most %d are taken", len(all), maxSessions)
	}
	return all, nil
}

// do carries orders out: first those that stop sessions, then those that start
// some, together.
func (s *Sessions) do(w http.ResponseWriter, r *http.Request, all []order) {
	by, now := "", time.Now()
	if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		by = from.Addr().Unmap().String()
	}
	var start []session.Session
	var ends []session.EndRequest
	for i, o := range all {
		addr, err := setting.Client(o.Address)
		switch {
		case err != nil:
		case o.Action == "stop":
			ends = append(ends, session.EndRequest{ID: o.ID, Addr: addr})
		case o.Action == "" || o.Action == "start":
			n := session.Session{Addr: addr, User: o.User, Groups: o.Groups, ID: o.ID, By: by, Until: now.Add(session.DefaultTime)}
			if o.Seconds < 0 || o.Seconds > int64(session.MaxTime/time.Second) {
				err = fmt.Errorf("seconds: %d: write 1 to %d", o.Seconds, int64(session.MaxTime/time.Second))
			} else if o.Seconds > 0 {
				n.Until = now.Add(time.Duration(o.Seconds) * time.Second)
			}
			if err == nil {
				n, err = session.Check(n, now)
			}
			start = append(start, n)
		default:
			err = fmt.Errorf("action %q: write start or stop", o.Action)
		}
		if err != nil {
			http.Error(w, fmt.Sprintf("session %d: %v; nothing was changed", i+1, err), http.StatusBadRequest)
			return
		}
	}
	stopped, err := s.End(ends...)
	if err == nil {
		err = s.Start(start...)
	}
	if err != nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	web.WriteJSON(w, http.StatusOK, map[string]int{"started": len(start), "stopped": stopped})
}

const ofWho = "it says who is at an address from now on, which the record of the last day knows"
