package accounts

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"shuultuur/admin/account"
	"shuultuur/admin/web"
	"shuultuur/identity/oidc"
)

// loginCookie holds a sign-in in progress. Browsers send it when the provider sends them back;
// they would not send the session cookie then.
const loginCookie = "shuultuur-login"

// provider returns the OpenID provider that signs people in, or nil.
func (p *Pages) provider() (*SignIn, *oidc.Provider) {
	if p.Provider == nil {
		return nil, nil
	}
	return p.Provider()
}

// toProvider sends the browser to the provider.
func (p *Pages) toProvider(w http.ResponseWriter, r *http.Request) {
	_, provider := p.provider()
	if provider == nil {
		p.login(w, r, loginForm{Error: "The settings have no provider under access: sign-in."}, http.StatusConflict)
		return
	}
	to, l, err := provider.Begin(r.Context(), origin(r)+"/login/callback", web.LocalPath(r.FormValue("to")), false)
	var sealed string
	if err == nil {
		sealed, err = provider.Seal(l)
	}
	if err != nil {
		p.login(w, r, loginForm{Error: err.Error()}, http.StatusBadGateway)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: loginCookie, Value: sealed, Path: "/login", HttpOnly: true, Secure: overTLS(r), SameSite: http.SameSiteLaxMode, MaxAge: int(oidc.LoginTime.Seconds())})
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// fromProvider begins a session for the person whom the provider has signed in.
func (p *Pages) fromProvider(w http.ResponseWriter, r *http.Request) {
	rules, provider := p.provider()
	if provider == nil {
		p.login(w, r, loginForm{Error: "The settings have no provider under access: sign-in."}, http.StatusConflict)
		return
	}
	guess := p.Site.Guess(w, r)
	if guess == nil {
		return
	}
	defer guess.End(false) // the provider counts wrong passwords
	sealed := ""
	if c, err := r.Cookie(loginCookie); err == nil {
		sealed = c.Value
	}
	http.SetCookie(w, &http.Cookie{Name: loginCookie, Path: "/login", MaxAge: -1, HttpOnly: true, Secure: overTLS(r), SameSite: http.SameSiteLaxMode}) // it is valid once
	l, err := provider.Open(sealed)
	var who *oidc.User
	if err == nil {
		who, err = provider.Finish(r.Context(), l, r.URL.Query())
	}
	if err != nil {
		p.notProvided(w, r, "", err, http.StatusBadGateway)
		return
	}
	role := rules.role(who.Groups)
	subject := rules.Issuer + " " + who.Subject
	if role == account.None {
		if err := account.EndSubject(p.Site.Accounts, subject); err != nil {
			p.notProvided(w, r, who.User, err, http.StatusForbidden)
			return
		}
		p.notProvided(w, r, who.User, fmt.Errorf("%q is in no group that has a role here (access.sign-in.roles); the provider names %q", who.User, strings.Join(who.Groups, ", ")), http.StatusForbidden)
		return
	}
	secret, err := account.SignInAs(p.Site.Accounts, subject, who.User, role, who.Groups, originOf(r))
	switch {
	case errors.Is(err, account.ErrExists), errors.Is(err, account.ErrLast):
		p.notProvided(w, r, who.User, err, http.StatusForbidden)
	case err != nil:
		p.notProvided(w, r, who.User, err, http.StatusServiceUnavailable)
	default:
		p.signedIn(w, r, secret, "oidc", l.Data)
	}
}

// notProvided says why a sign-in was refused, and records it.
func (p *Pages) notProvided(w http.ResponseWriter, r *http.Request, name string, err error, status int) {
	if status == http.StatusForbidden {
		p.Site.CountRefused(web.ByToken)
	}
	_ = p.Site.Record(r, "sign in", status, "method=oidc name="+name+" "+err.Error()) // it changed nothing
	p.login(w, r, loginForm{Error: err.Error()}, status)
}
