package admin

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"shuultuur/admin/account"
)

const maxForm = 16 << 10

// signInRoutes returns the routes for signing in and out.
//
//	GET /login                    the page
//	POST /login                   name, password and code begin a session
//	POST /login/passkey/challenge what a passkey has to sign
//	POST /login/passkey           its answer begins a session
//	GET /login/provider           redirects the browser to the OpenID provider
//	GET /login/callback           the browser returns from there
//	POST /logout                  ends the session
func (p *Parts) signInRoutes() []route {
	if p.Accounts == nil {
		return nil
	}
	return []route{
		{"GET", "/login", anyone, func(w http.ResponseWriter, r *http.Request) {
			p.login(w, r, loginForm{To: r.FormValue("to")}, http.StatusOK)
		}},
		{"POST", "/login", anyone, p.signIn},
		{"POST", "/login/passkey/challenge", anyone, func(w http.ResponseWriter, r *http.Request) {
			writeJSON(w, http.StatusOK, map[string]string{"challenge": p.Accounts.Challenge(""), "rpId": hostOf(r.Host)})
		}},
		{"POST", "/login/passkey", anyone, p.signInPasskey},
		{"GET", "/login/provider", anyone, p.toProvider},
		{"GET", "/login/callback", anyone, p.fromProvider},
		{"POST", "/logout", viewer, p.signOut},
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

// localPath returns the path on this address to which a user goes after signing in.
func localPath(to string) string {
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n\t") || strings.HasPrefix(to, "/login") || strings.HasPrefix(to, "/logout") {
		return "/"
	}
	return to
}

// loginTemplate is parsed when it is first needed.
var loginTemplate = sync.OnceValue(func() pageTemplate { return pageOf("login.html", noNotice) })

func (p *Parts) login(w http.ResponseWriter, r *http.Request, d loginForm, status int) {
	any, err := p.Accounts.Any()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, provider := providerOf(p)
	d.To, d.None, d.Provider = localPath(d.To), !any, provider != nil
	if !isPage(r) && d.Error != "" {
		http.Error(w, d.Error, status)
		return
	}
	writePage(w, loginTemplate(), status, d)
}

// overTLS reports whether a request came over TLS.
func overTLS(r *http.Request) bool { return r.TLS != nil }

// setSessionCookie gives a browser the cookie of its session.
func setSessionCookie(w http.ResponseWriter, r *http.Request, secret string) {
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: secret, Path: "/", HttpOnly: true, Secure: overTLS(r), SameSite: http.SameSiteStrictMode})
	w.Header().Set("Cache-Control", "no-store")
}

func originOf(r *http.Request) account.Origin {
	return account.Origin{Addr: remote(r), Agent: r.UserAgent()}
}

func (p *Parts) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	addr := remote(r)
	if p.server.barred(w, addr) {
		return
	}
	f := r.PostForm
	d := loginForm{To: f.Get("to"), Name: f.Get("name")}
	secret, err := p.Accounts.SignIn(r.Context(), d.Name, f.Get("password"), f.Get("code"), originOf(r))
	switch {
	case errors.Is(err, account.ErrCode):
		d.Code, d.Error = true, err.Error()
		p.login(w, r, d, http.StatusUnauthorized)
	case errors.Is(err, account.ErrTooMany):
		w.Header().Set("Retry-After", "900")
		p.server.refused[byRate].Add(1)
		d.Error = err.Error()
		p.login(w, r, d, http.StatusTooManyRequests)
	case errors.Is(err, account.ErrWrong):
		p.server.wrong.add(addr)
		p.server.refused[byToken].Add(1)
		_ = p.server.record(r, "sign in", http.StatusUnauthorized, "name="+d.Name)
		d.Error, d.Code = err.Error(), f.Has("code")
		p.login(w, r, d, http.StatusUnauthorized)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		p.signedIn(w, r, secret, "password", localPath(d.To))
	}
}

// signedIn records a sign-in and redirects the user.
func (p *Parts) signedIn(w http.ResponseWriter, r *http.Request, secret, method, to string) {
	who, _ := p.Accounts.BySession(secret, true)
	q := r.WithContext(account.With(r.Context(), &who))
	if err := p.server.record(q, "sign in", http.StatusOK, "method="+method); err != nil {
		_, _ = p.Accounts.End(who.Session, "")
		p.server.refuse(w, byAudit, http.StatusServiceUnavailable, "nobody signs in while that cannot be recorded: "+err.Error())
		return
	}
	setSessionCookie(w, r, secret)
	if method == "oidc" {
		// A redirect would continue the other site's request, with which browsers do not send
		// the strict cookie.
		w.Header().Set("Refresh", "0; url="+localPath(to))
		writePage(w, loginTemplate(), http.StatusOK, loginForm{To: localPath(to), Done: true})
		return
	}
	if isPage(r) && method != "passkey" {
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"name": who.Name, "role": who.Role.String(), "to": to})
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
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxForm))
	if err == nil {
		err = unambiguous(text)
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

func (p *Parts) signInPasskey(w http.ResponseWriter, r *http.Request) {
	addr := remote(r)
	if p.server.barred(w, addr) {
		return
	}
	proof, ok := readProof(w, r)
	if !ok {
		return
	}
	_, secret, err := p.Accounts.SignInPasskey(&proof, origin(r), hostOf(r.Host), originOf(r))
	if err != nil {
		p.server.wrong.add(addr)
		p.server.refused[byToken].Add(1)
		_ = p.server.record(r, "sign in", http.StatusUnauthorized, "method=passkey")
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	p.signedIn(w, r, secret, "passkey", localPath(r.URL.Query().Get("to")))
}

func (p *Parts) signOut(w http.ResponseWriter, r *http.Request) {
	if who := userOf(r); who.Session != "" {
		if _, err := p.Accounts.End(who.Session, who.Name); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Path: "/", MaxAge: -1, HttpOnly: true, Secure: overTLS(r), SameSite: http.SameSiteStrictMode})
	w.Header().Set("Clear-Site-Data", `"cache"`)
	if isPage(r) {
		http.Redirect(w, r, "/login", http.StatusSeeOther)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"done": "signed out"})
}
