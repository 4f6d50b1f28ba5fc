package portal

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/identity/oidc"
	"shuultuur/identity/session"
	"shuultuur/text"
)

const (
	maxForm      = 16 << 10
	loginCookie  = "shuultuur-login-" // for a sign-in in progress; its state follows, since two tabs may sign in at once
	againCookie  = "shuultuur-again"  // somebody has signed out: the provider is to ask for the password
	memberCookie = "shuultuur-member" // names the person who signed in with this browser
	deviceCookie = "shuultuur-device" // for a device that waits for its code
	maxDevices   = 256                // most devices that wait at once
)

// A membership is stored in the browser of a signed-in person. With it, the
// browser gets a session at its next address, too.
type membership struct {
	User   string    `json:"u"`
	Groups []string  `json:"g"`
	Source string    `json:"s"`
	Until  time.Time `json:"t"`
	ID     string    `json:"i"` // of the sign-in, which may have been ended
}

// cookie sets a cookie for a time, which scripts cannot read. An empty value
// deletes it. With Lax, it is sent when the provider sends the browser back.
func cookie(w http.ResponseWriter, r *http.Request, name, value string, last time.Duration) {
	c := &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteLaxMode, MaxAge: int(last / time.Second)}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

func cookieOf(r *http.Request, name string) string {
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}

// wanted returns the web page to go to after signing in, or "" for the page of
// the portal.
func wanted(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || len(to) > 4096 {
		return ""
	}
	return u.String()
}

// signsIn answers the request itself if nobody can sign in. It reports whether one can.
func (s *Server) signsIn(w http.ResponseWriter, r *http.Request) (*Engine, bool) {
	e := s.engine.Load()
	if !e.SignsIn {
		s.show(w, r, http.StatusNotFound, &view{Title: text.Mark("Sign in"), Error: text.Mark("Nobody signs in here: the settings have no identity: sign-in.")})
		return nil, false
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "reading the form: "+err.Error(), http.StatusBadRequest)
		return nil, false
	}
	return e, true
}

// signInPage shows the ways to sign in. A browser whose user signed in earlier
// gets a session at this address at once.
func (s *Server) signInPage(w http.ResponseWriter, r *http.Request) {
	e, ok := s.signsIn(w, r)
	if !ok {
		return
	}
	to := wanted(r.FormValue("to"))
	addr := remote(r)
	c := e.Identify(r.Context(), addr)
	var m membership
	known := false // the browser shows who it is
	if sealed := cookieOf(r, memberCookie); sealed != "" {
		known = e.Pages.box.Open(sealed, &m) == nil && time.Now().Before(m.Until) && m.ID != "" && e.stands(&m)
	}
	if known && c.User == m.User && s.sendOn(w, r, e, m, to) {
		return
	}
	if known && c.User != m.User && c.Source != "address" { // what it shows outranks what is known of its address
		err := e.Start(session.Session{Addr: addr, User: m.User, Groups: s.groupsOf(m), Source: m.Source, By: "portal", ID: m.ID, Until: m.Until})
		if err == nil {
			s.redirect(w, r, to)
			return
		}
		s.log.Warn("a session of the portal does not begin", "error", err)
	}
	s.show(w, r, http.StatusOK, e.form(&view{User: c.User, To: to}))
}

// stands reports whether the sign-in of a cookie has not been ended since.
func (e *Engine) stands(m *membership) bool {
	return e.Stands == nil || e.Stands(m.User, m.Source, m.ID)
}

// captive tells a device whether it must sign in, and where (RFC 8908).
func (s *Server) captive(w http.ResponseWriter, r *http.Request) {
	e := s.engine.Load()
	if !e.SignsIn {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/captive+json")
	err := json.NewEncoder(w).Encode(struct {
		Captive bool   `json:"captive"`
		Page    string `json:"user-portal-url"`
	}{e.Captive(r.Context(), remote(r)), e.Pages.place.URL + "/sign-in"})
	if err != nil {
		s.log.Debug("answering whether a device has to sign in", "client", remote(r), "error", err)
	}
}

// form adds the ways to sign in to the page.
func (e *Engine) form(v *view) *view {
	v.Title, v.SignIn, v.SignsIn = text.Mark("Who is using this device?"), true, true
	v.Passwords, v.Provider = e.Passwords, e.Provider != nil
	return v
}

// redirect redirects the browser to its original destination.
func (s *Server) redirect(w http.ResponseWriter, r *http.Request, to string) {
	if to == "" {
		to = "/"
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// fitting returns the groups that fit into a session, those that policies name first, and logs
// that others are left out.
func (s *Server) fitting(e *Engine, user string, groups []string) []string {
	fit := session.FitGroups(groups, e.Wanted)
	if lost := len(groups) - len(fit); lost > 0 {
		first := groups[slices.IndexFunc(groups, func(g string) bool { return !slices.Contains(fit, g) })]
		s.log.Warn("a session cannot have all groups of its user; the others do not count, those that policies name before", "user", user, "groups", len(groups), "dropped", lost, "first", first)
	}
	return fit
}

// beginSession begins the session of a signed-in person.
func (s *Server) beginSession(w http.ResponseWriter, r *http.Request, e *Engine, addr netip.Addr, m membership) error {
	m.Until, m.ID = time.Now().Add(e.Session), rand.Text()
	if e.SignInID != nil {
		m.ID = e.SignInID(m.User, m.Source)
	}
	if err := e.Start(session.Session{Addr: addr, User: m.User, Groups: m.Groups, Source: m.Source, By: "portal", ID: m.ID, Until: m.Until}); err != nil {
		return fmt.Errorf("begin a session: %w", err)
	}
	sealed, err := e.Pages.box.Seal(m)
	if err != nil {
		return err
	}
	if len(sealed) < 3800 { // browsers store no larger cookie: without it, the sign-in applies to this address only
		cookie(w, r, memberCookie, sealed, e.Session)
	}
	s.log.Info("signed in on the portal", "client", addr, "user", m.User, "source", m.Source)
	return nil
}

// beginProviderSession is beginSession for a person who signed in at the provider. The groups
// of this person are renewed from time to time.
func (s *Server) beginProviderSession(w http.ResponseWriter, r *http.Request, e *Engine, addr netip.Addr, who *oidc.User) error {
	user := who.User
	if e.Own != nil {
		var err error
		if user, err = e.Own(who.User, who.Issuer, who.Subject); err != nil {
			return fmt.Errorf("find out whose name %q is: %w", who.User, err)
		}
		if user != who.User {
			s.log.Warn("another person of the provider has this name: this one has a name of its own here", "name", who.User, "user", user, "subject", who.Subject)
		}
	}
	groups := s.fitting(e, user, who.Groups)
	if err := s.beginSession(w, r, e, addr, membership{User: user, Groups: groups, Source: "oidc"}); err != nil {
		return err
	}
	s.remember(user, provided{who}, groups, time.Now().Add(e.Session))
	return nil
}

// password signs in with a name and password.
func (s *Server) password(w http.ResponseWriter, r *http.Request) {
	e, ok := s.signsIn(w, r)
	if !ok {
		return
	}
	v := &view{To: wanted(r.PostForm.Get("to")), Name: r.PostForm.Get("name")}
	if !e.Passwords {
		v.Error = text.Mark("No passwords are taken here.")
		s.show(w, r, http.StatusForbidden, e.form(v))
		return
	}
	addr := remote(r)
	c, err := e.Verify(r.Context(), addr, v.Name, r.PostForm.Get("password"))
	if err == nil {
		err = s.beginSession(w, r, e, addr, membership{User: c.User, Groups: s.fitting(e, c.User, c.Groups), Source: c.Source})
	}
	if err == nil {
		s.redirect(w, r, v.To)
		return
	}
	status := http.StatusServiceUnavailable
	v.Error = text.Mark("The password could not be verified. Try again in a moment.")
	if _, refused := errors.AsType[interface {
		error
		Challenges() []string
	}](err); refused {
		status, v.Error = http.StatusUnauthorized, text.Mark("Wrong name or password.")
		if why, ok := errors.AsType[interface {
			error
			Advice() string
		}](err); ok && why.Advice() != "" {
			v.Error = why.Advice() // who knows the password may know it
		}
	} else if l, wait := errors.AsType[interface {
		error
		RetryAfter() (int, time.Duration)
	}](err); wait {
		var after time.Duration
		if status, after = l.RetryAfter(); status == http.StatusTooManyRequests {
			v.Error = s.texts(r).Say("Too many attempts. Try again in {time}.", "time", after.Round(time.Second).String())
		}
		w.Header().Set("Retry-After", fmt.Sprint(int(after/time.Second)+1))
	}
	s.log.Info("not signed in on the portal", "client", addr, "error", err)
	s.show(w, r, status, e.form(v))
}

// callbackOf returns our address to which the provider sends browsers back.
func (e *Engine) callbackOf() string { return e.Pages.place.URL + "/sign-in/callback" }

// begin redirects the browser to the provider.
func (s *Server) begin(w http.ResponseWriter, r *http.Request) {
	e, ok := s.signsIn(w, r)
	if !ok || !s.hasProvider(w, r, e) {
		return
	}
	to, l, err := e.Provider.Begin(r.Context(), e.callbackOf(), wanted(r.PostForm.Get("to")), cookieOf(r, againCookie) != "")
	var sealed string
	if err == nil {
		sealed, err = e.Provider.Seal(l)
	}
	if err != nil {
		s.failed(w, r, err)
		return
	}
	cookie(w, r, loginOf(l.State), sealed, oidc.LoginTime)
	http.Redirect(w, r, to, http.StatusSeeOther)
}

func (s *Server) hasProvider(w http.ResponseWriter, r *http.Request, e *Engine) bool {
	if e.Provider == nil {
		s.show(w, r, http.StatusNotFound, e.form(&view{Error: text.Mark("The settings have no provider under identity: sign-in: oidc.")}))
		return false
	}
	return true
}

// failed shows the failed step of a sign-in. The page says what the person can do, the log has
// the whole error.
func (s *Server) failed(w http.ResponseWriter, r *http.Request, err error) {
	s.log.Warn("a sign-in at the provider failed", "client", remote(r), "error", err)
	v := &view{Title: text.Mark("Sign in"), Error: text.Mark("Signing in failed.")}
	if e, ok := errors.AsType[*oidc.Error](err); ok {
		v.Error = s.texts(r).Say("Signing in failed at this step: {step}.", "step", e.Step)
		v.Advice = strings.TrimPrefix(e.Error(), "OpenID: ")
	}
	s.show(w, r, http.StatusBadGateway, v)
}

// callback completes a sign-in when the provider sends the browser back.
func (s *Server) callback(w http.ResponseWriter, r *http.Request) {
	e, ok := s.signsIn(w, r)
	if !ok || !s.hasProvider(w, r, e) {
		return
	}
	name := loginOf(r.URL.Query().Get("state"))
	l, err := e.Provider.Open(cookieOf(r, name))
	cookie(w, r, name, "", 0) // it is valid once
	var who *oidc.User
	if err == nil {
		who, err = e.Provider.Finish(r.Context(), l, r.URL.Query())
	}
	if err == nil {
		err = s.beginProviderSession(w, r, e, remote(r), who)
	}
	if err != nil {
		s.failed(w, r, err)
		return
	}
	cookie(w, r, againCookie, "", 0)
	s.redirect(w, r, l.Data)
}

// loginOf returns the name of the cookie for the sign-in with a state.
func loginOf(state string) string {
	state = strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' {
			return c
		}
		return -1
	}, state)
	return loginCookie + state[:min(len(state), 12)]
}

// signOut ends the session of the address and the sign-in of this browser, and leaves the
// provider, too, where it offers that. Where it does not, it asks for the password the next time.
func (s *Server) signOut(w http.ResponseWriter, r *http.Request) {
	e, ok := s.signsIn(w, r)
	if !ok {
		return
	}
	var m membership
	if e.Pages.box.Open(cookieOf(r, memberCookie), &m) != nil {
		m = membership{}
	}
	provided := e.Provider != nil && (m.Source == "oidc" || e.Identify(r.Context(), remote(r)).Source == "oidc")
	cookie(w, r, memberCookie, "", 0)
	if provided {
		cookie(w, r, againCookie, "1", session.MaxTime)
	}
	end := func() error { return e.End(remote(r)) }
	if e.SignOut != nil {
		end = func() error { return e.SignOut(remote(r), m.ID) }
	}
	if err := end(); err != nil {
		s.show(w, r, http.StatusServiceUnavailable, &view{Title: text.Mark("Sign out"), Error: s.texts(r).Say("The session could not be ended: {error}", "error", err.Error())})
		return
	}
	to := "/"
	if provided {
		if at := e.Provider.SignOut(r.Context()); at != "" {
			to = at
		}
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// devices are those whose code has not been typed yet.
type devices struct {
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu sync.Mutex
	of map[string]*waiting // by the secret in the cookie
}

// A waiting is a device that waits.
type waiting struct {
	device *oidc.Device
	addr   netip.Addr
	who    *oidc.User // set when it is known
	err    error
	over   bool
}

func (d *devices) close() {
	d.stop()
	d.work.Wait()
}

// add adds a waiting device, unless there are too many.
func (d *devices) add(key string, n *waiting) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, w := range d.of {
		if w.addr == n.addr || time.Now().After(w.device.Until.Add(time.Minute)) {
			delete(d.of, k)
		}
	}
	if len(d.of) >= maxDevices {
		return false
	}
	d.of[key] = n
	return true
}

// beginDevice shows a code to type on another device.
func (s *Server) beginDevice(w http.ResponseWriter, r *http.Request) {
	e, ok := s.signsIn(w, r)
	if !ok || !s.hasProvider(w, r, e) {
		return
	}
	d, err := e.Provider.BeginDevice(r.Context())
	if err != nil {
		s.failed(w, r, err)
		return
	}
	n, key := &waiting{device: d, addr: remote(r)}, rand.Text()
	if !s.devices.add(key, n) {
		s.show(w, r, http.StatusServiceUnavailable, &view{Title: text.Mark("Sign in"), Error: text.Mark("Too many devices sign in at this moment. Try again in a few minutes.")})
		return
	}
	s.devices.work.Go(func() {
		who, err := e.Provider.FinishDevice(s.devices.ctx, d)
		s.devices.mu.Lock()
		defer s.devices.mu.Unlock()
		n.who, n.err, n.over = who, err, true
	})
	cookie(w, r, deviceCookie, key, time.Until(d.Until))
	http.Redirect(w, r, "/sign-in/device", http.StatusSeeOther)
}

// device shows the code until it has been typed.
func (s *Server) device(w http.ResponseWriter, r *http.Request) {
	e, ok := s.signsIn(w, r)
	if !ok || !s.hasProvider(w, r, e) {
		return
	}
	s.devices.mu.Lock()
	n := s.devices.of[cookieOf(r, deviceCookie)]
	var now waiting
	if n != nil {
		if now = *n; now.over {
			delete(s.devices.of, cookieOf(r, deviceCookie))
		}
	}
	s.devices.mu.Unlock()
	if n == nil || now.addr != remote(r) {
		s.show(w, r, http.StatusNotFound, &view{Title: text.Mark("Sign in"), Error: text.Mark("No code was made for this device, or it is over.")})
		return
	}
	if !now.over {
		s.show(w, r, http.StatusOK, &view{Title: "Sign in", Code: now.device.Code, At: now.device.At, Whole: now.device.Whole, Wait: true})
		return
	}
	err := now.err
	if err == nil {
		err = s.beginProviderSession(w, r, e, now.addr, now.who)
	}
	if err != nil {
		s.failed(w, r, err)
		return
	}
	cookie(w, r, deviceCookie, "", 0)
	s.redirect(w, r, "")
}
