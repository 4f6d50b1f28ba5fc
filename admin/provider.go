package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"shuultuur/admin/account"
	"shuultuur/identity/oidc"
)

// loginCookie holds a sign-in in progress. Browsers send it when the provider sends them back;
// they would not send the session cookie then.
const loginCookie = "shuultuur-login"

// providerOf returns the OpenID provider that signs people in, or nil.
func providerOf(p *Parts) (*SignIn, *oidc.Provider) {
	if p.Rules == nil {
		return nil, nil
	}
	r := p.Rules()
	return r.SignIn, r.OpenID
}

// toProvider sends the browser to the provider.
func (p *Parts) toProvider(w http.ResponseWriter, r *http.Request) {
	_, provider := providerOf(p)
	if provider == nil {
		p.login(w, r, loginForm{Error: "The settings have no provider under access: sign-in."}, http.StatusConflict)
		return
	}
	to, l, err := provider.Begin(r.Context(), origin(r)+"/login/callback", localPath(r.FormValue("to")))
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
func (p *Parts) fromProvider(w http.ResponseWriter, r *http.Request) {
	rules, provider := providerOf(p)
	if provider == nil {
		p.login(w, r, loginForm{Error: "The settings have no provider under access: sign-in."}, http.StatusConflict)
		return
	}
	if p.server.barred(w, remote(r)) {
		return
	}
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
		notProvided(p, w, r, "", err, http.StatusBadGateway)
		return
	}
	role := rules.role(who.Groups)
	subject := rules.Issuer + " " + who.Subject
	if role == account.None {
		if err := account.EndSubject(p.Accounts, subject); err != nil {
			notProvided(p, w, r, who.User, err, http.StatusForbidden)
			return
		}
		notProvided(p, w, r, who.User, fmt.Errorf("%q is in no group that has a role here (access.sign-in.roles); the provider names %q", who.User, strings.Join(who.Groups, ", ")), http.StatusForbidden)
		return
	}
	secret, err := account.SignInAs(p.Accounts, subject, who.User, role, who.Groups, originOf(r))
	switch {
	case errors.Is(err, account.ErrExists), errors.Is(err, account.ErrLast):
		notProvided(p, w, r, who.User, err, http.StatusForbidden)
	case err != nil:
		notProvided(p, w, r, who.User, err, http.StatusServiceUnavailable)
	default:
		p.signedIn(w, r, secret, "oidc", l.Data)
	}
}

// notProvided says why a sign-in was refused, and records it.
func notProvided(p *Parts, w http.ResponseWriter, r *http.Request, name string, err error, status int) {
	if status == http.StatusForbidden {
		p.server.refused[byToken].Add(1)
	}
	_ = p.server.record(r, "sign in", status, "method=oidc name="+name+" "+err.Error()) // it changed nothing
	p.login(w, r, loginForm{Error: err.Error()}, status)
}
