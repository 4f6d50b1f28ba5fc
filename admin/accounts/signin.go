package accounts

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"shuultuur/admin/account"
	"shuultuur/admin/web"
)

// SignInRoutes returns the routes for signing in and out.
//
//	GET /login                    the page
//	POST /login                   name, password and code begin a session
//	POST /login/passkey/challenge what a passkey has to sign
//	POST /login/passkey           its answer begins a session
//	GET /login/invited            the page of an invitation
//	POST /login/invited           token, password make its account
//	GET /login/provider           redirects the browser to the OpenID provider
//	GET /login/callback           the browser returns from there
//	POST /logout                  ends the session
func (p *Pages) SignInRoutes() []web.Route {
	return []web.Route{
		{Method: "GET", Path: "/login", Role: web.Anyone,
			Does: "the page to sign in", Query: []web.Field{web.Optional("to", "path to go to then")}, Gives: "text/html",
			Handler: func(w http.ResponseWriter, r *http.Request) {
				p.login(w, r, loginForm{To: r.FormValue("to")}, http.StatusOK)
			}},
		{Method: "POST", Path: "/login", Role: web.Anyone,
			Does: "begin a session; the answer sets its cookie", Form: []web.Field{nameOf, web.Required("password", "password"), code, web.Optional("to", "path to go to then")}, Gives: web.PageOrJSON,
			Effect:  web.OfAccess,
			Handler: p.signIn},
		{Method: "POST", Path: "/login/passkey/challenge", Role: web.Anyone,
			Does:   "what a passkey is to sign",
			Effect: web.OfAccess,
			Handler: func(w http.ResponseWriter, r *http.Request) {
				web.WriteJSON(w, http.StatusOK, map[string]string{"challenge": p.Site.Accounts.Challenge(""), "rpId": web.HostOf(r.Host)})
			}},
		{Method: "POST", Path: "/login/passkey", Role: web.Anyone,
			Does: "begin a session with a passkey", Query: []web.Field{web.Optional("to", "path to go to then")}, Body: "application/json",
			Effect:  web.OfAccess,
			Handler: p.signInPasskey},
		{Method: "GET", Path: "/login/provider", Role: web.Anyone,
			Does: "go to the OpenID provider to sign in", Query: []web.Field{web.Optional("to", "path to go to then")}, Gives: "text/html",
			Handler: p.toProvider},
		{Method: "GET", Path: "/login/callback", Role: web.Anyone,
			Does: "come back from the OpenID provider, which begins a session", Query: []web.Field{web.Optional("code", "code of the provider"), web.Optional("state", "state of the sign-in")}, Gives: "text/html",
			Handler: p.fromProvider},
		{Method: "GET", Path: "/login/invited", Role: web.Anyone,
			Does: "the page of an invitation", Query: []web.Field{web.Required("token", "secret of the link")}, Gives: "text/html",
			Handler: func(w http.ResponseWriter, r *http.Request) { p.showInvitation(w, r, http.StatusOK, "") }},
		{Method: "POST", Path: "/login/invited", Role: web.Anyone,
			Does: "make the account of an invitation, and begin a session", Form: []web.Field{web.Required("token", "secret of the link"), newWord}, Gives: web.PageOrJSON,
			Effect:  web.OfAccess,
			Handler: p.acceptInvitation},
		{Method: "POST", Path: "/logout", Role: web.Viewer,
			Does: "end the session", Gives: web.PageOrJSON,
			Effect:  web.OfAccess,
			Handler: p.signOut},
	}
}

// A loginForm is the content of the page.
type loginForm struct {
	To, Name, Error string
	Code            bool // a code is required
	None            bool // there are no accounts
	Provider        bool // an OpenID provider can sign people in, too
	Done            bool // the user has signed in, and continues to To
}

// loginTemplate is parsed when it is first needed.
var loginTemplate = sync.OnceValue(func() web.PageTemplate { return web.PageOf("login.html", web.NoNotice) })

// invitedTemplate is parsed when it is first needed.
var invitedTemplate = sync.OnceValue(func() web.PageTemplate { return web.PageOf("invited.html", web.NoNotice) })

func (p *Pages) login(w http.ResponseWriter, r *http.Request, d loginForm, status int) {
	any, err := p.Site.Accounts.Any()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, provider := p.provider()
	d.To, d.None, d.Provider = web.LocalPath(d.To), !any, provider != nil
	if !web.IsPage(r) && d.Error != "" {
		http.Error(w, d.Error, status)
		return
	}
	web.WritePage(w, loginTemplate(), status, d)
}

// overTLS reports whether a request came over TLS.
func overTLS(r *http.Request) bool { return r.TLS != nil }

func originOf(r *http.Request) account.Origin {
	return account.Origin{Addr: web.Remote(r), Agent: r.UserAgent()}
}

func (p *Pages) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, web.MaxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	guess := p.Site.Guess(w, r)
	if guess == nil {
		return
	}
	f := r.PostForm
	d := loginForm{To: f.Get("to"), Name: f.Get("name")}
	secret, err := p.Site.Accounts.SignIn(r.Context(), d.Name, f.Get("password"), f.Get("code"), originOf(r))
	guess.End(errors.Is(err, account.ErrWrong))
	switch {
	case errors.Is(err, account.ErrCode):
		d.Code, d.Error = true, err.Error()
		p.login(w, r, d, http.StatusUnauthorized)
	case errors.Is(err, account.ErrTooMany):
		w.Header().Set("Retry-After", "900")
		p.Site.CountRefused(web.ByRate)
		d.Error = err.Error()
		p.login(w, r, d, http.StatusTooManyRequests)
	case errors.Is(err, account.ErrWrong):
		p.Site.CountRefused(web.ByToken)
		_ = p.Site.Record(r, "sign in", http.StatusUnauthorized, "name="+d.Name)
		d.Error, d.Code = err.Error(), f.Has("code")
		p.login(w, r, d, http.StatusUnauthorized)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		p.signedIn(w, r, secret, "password", web.LocalPath(d.To))
	}
}

// signedIn records a sign-in and redirects the user.
func (p *Pages) signedIn(w http.ResponseWriter, r *http.Request, secret, method, to string) {
	who, _ := p.Site.Accounts.BySession(secret, true)
	q := r.WithContext(account.With(r.Context(), &who))
	if err := p.Site.Record(q, "sign in", http.StatusOK, "method="+method); err != nil {
		_, _ = p.Site.Accounts.End(who.Session, "")
		p.Site.Refuse(w, web.ByAudit, http.StatusServiceUnavailable, "nobody signs in while that cannot be recorded: "+err.Error())
		return
	}
	web.SetSession(w, r, secret)
	if method == "oidc" {
		// A redirect would continue the other site's request, with which browsers do not send
		// the strict cookie.
		w.Header().Set("Refresh", "0; url="+web.LocalPath(to))
		web.WritePage(w, loginTemplate(), http.StatusOK, loginForm{To: web.LocalPath(to), Done: true})
		return
	}
	if web.IsPage(r) && method != "passkey" {
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	web.WriteJSON(w, http.StatusOK, map[string]string{"name": who.Name, "role": who.Role.String(), "to": to})
}

// origin returns the origin of our pages as the browser sees it.
func origin(r *http.Request) string {
	scheme := "http://"
	if overTLS(r) {
		scheme = "https://"
	}
	return scheme + strings.ToLower(r.Host)
}

func readProof(w http.ResponseWriter, r *http.Request) (p account.Proof, ok bool) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, web.MaxForm))
	if err == nil {
		err = web.Unambiguous(text)
	}
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		http.Error(w, "reading the answer of the passkey: "+err.Error(), http.StatusBadRequest)
		return p, false
	}
	return p, true
}

func (p *Pages) signInPasskey(w http.ResponseWriter, r *http.Request) {
	proof, ok := readProof(w, r)
	if !ok {
		return
	}
	guess := p.Site.Guess(w, r)
	if guess == nil {
		return
	}
	_, secret, err := p.Site.Accounts.SignInPasskey(&proof, origin(r), web.HostOf(r.Host), originOf(r))
	guess.End(err != nil)
	if err != nil {
		p.Site.CountRefused(web.ByToken)
		_ = p.Site.Record(r, "sign in", http.StatusUnauthorized, "method=passkey")
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	p.signedIn(w, r, secret, "passkey", web.LocalPath(r.URL.Query().Get("to")))
}

func (p *Pages) signOut(w http.ResponseWriter, r *http.Request) {
	if who := web.UserOf(r); who.Session != "" {
		if _, err := p.Site.Accounts.End(who.Session, who.Name); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	http.SetCookie(w, &http.Cookie{Name: web.CookieName, Path: "/", MaxAge: -1, HttpOnly: true, Secure: overTLS(r), SameSite: http.SameSiteStrictMode})
	w.Header().Set("Clear-Site-Data", `"cache"`)
	if web.IsPage(r) {
		http.Redirect(w, r, "/login", http.StatusSeeOther)
		return
	}
	web.WriteJSON(w, http.StatusOK, map[string]string{"done": "signed out"})
}
