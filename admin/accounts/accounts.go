// Package accounts has the pages of accounts: signing in (with a password, a passkey or the
// provider of provider.go), one's own account, those of others, and the audit log. [Pages] turns
// forms into calls of [shuultuur/admin/account.Book]; [Config] is what the settings say about
// access.
package accounts

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/web"
	"shuultuur/identity/oidc"
	"shuultuur/lib/setting"
	"shuultuur/text"
)

// statusOfAccount returns the HTTP status for an error.
func statusOfAccount(err error) int {
	switch {
	case errors.Is(err, account.ErrNone):
		return http.StatusNotFound
	case errors.Is(err, account.ErrExists), errors.Is(err, account.ErrLast):
		return http.StatusConflict
	case errors.As(err, new(*web.NeedsSecond)), errors.As(err, new(*web.NotOwn)):
		return http.StatusForbidden
	}
	return http.StatusBadRequest
}

// A change is the action of a form about accounts. It returns a value to show,
// or nil.
type change func(r *http.Request) (any, error)

// changing answers with the result of a change as JSON. Browsers are redirected
// to a page unless there is something to show.
func changing(to string, do change) http.HandlerFunc {
	confirmation := web.PageOf("said.html", web.NoNotice)
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, web.MaxForm)
		if err := r.ParseForm(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		v, err := do(r)
		switch {
		case err != nil:
			http.Error(w, err.Error(), statusOfAccount(err))
		case web.IsPage(r) && v == nil:
			http.Redirect(w, r, to, http.StatusSeeOther)
		case web.IsPage(r):
			web.WritePage(w, confirmation, http.StatusOK, struct {
				Said any
				To   string
			}{v, to})
		case v == nil:
			web.WriteJSON(w, http.StatusOK, map[string]string{"done": r.URL.Path})
		default:
			web.WriteJSON(w, http.StatusOK, v)
		}
	}
}

// Pages are the pages by which people sign in and manage accounts, and the audit log.
type Pages struct {
	Site *web.Site
	// Provider returns the provider that signs people in, and the roles that it gives; nil: there is
	// none.
	Provider func() (*SignIn, *oidc.Provider)

	all web.PageTemplate
}

// These are fields of several forms.
var (
	code    = web.Optional("code", "one-time code or recovery code")
	nameOf  = web.Required("name", "name of the account")
	newWord = web.Required("password", "the new password, ten characters or more")
)

// ownAccount returns the account of the user, who must have signed in with a session:
// a program with a token must not create another token.
func ownAccount(r *http.Request) (string, error) {
	who := web.UserOf(r)
	if who.Via != "session" {
		return "", errors.New("this is about the account of somebody who is signed in: sign in at /login")
	}
	return who.Name, nil
}

// A fact is a value that is shown once, with its label.
type fact struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// OwnRoutes returns the routes by which people manage their own accounts.
//
//	GET /account                  it, its sessions and tokens; HTML or JSON
//	POST /account/password        old, password
//	POST /account/totp            offers a secret; with code, takes it into use
//	POST /account/totp/end        password
//	POST /account/sessions/end    id
//	POST /account/tokens          purpose, scope (words, by commas), for=TIME
//	POST /account/tokens/end      id
//	POST /account/passkeys/challenge, POST /account/passkeys, POST /account/passkeys/end
func (p *Pages) OwnRoutes() []web.Route {
	b := p.Site.Accounts
	page := p.Site.Page("account.html")
	own := func(x web.Route, do func(name string, r *http.Request) (any, error)) web.Route {
		x.Method, x.Role = "POST", web.Viewer
		x.Handler = changing("/account", func(r *http.Request) (any, error) {
			name, err := ownAccount(r)
			if err != nil {
				return nil, err
			}
			return do(name, r)
		})
		return x
	}
	return []web.Route{
		{Method: "GET", Path: "/account", Role: web.Viewer,
			Link: web.LinkIn(web.Own, text.Mark("Account")),
			Does: "one's own account, sessions and tokens", Gives: web.PageOrJSON,
			Handler: func(w http.ResponseWriter, r *http.Request) { p.account(w, r, page) }},
		own(web.Route{Path: "/account/password", Does: "change one's password; all sessions end", Form: []web.Field{web.Required("old", "the password until now"), newWord}, Gives: web.PageOrJSON, Effect: web.OfAccess}, func(name string, r *http.Request) (any, error) {
			if !b.Has(r.Context(), name, r.PostForm.Get("old")) {
				p.Site.NoteWrong(web.Remote(r))
				return nil, account.ErrWrong
			}
			return nil, b.SetPassword(name, r.PostForm.Get("password"))
		}),
		{Method: "POST", Path: "/account/totp", Role: web.Viewer,
			Does: "offer a secret for one-time codes; with a code, take it into use and give recovery codes", Form: []web.Field{code}, Gives: web.PageOrJSON, Effect: web.OfAccess,
			Handler: p.totp(p.Site.Page("totp.html"))},
		own(web.Route{Path: "/account/totp/end", Does: "end one-time codes", Form: []web.Field{web.Required("password", "password")}, Gives: web.PageOrJSON, Effect: web.OfAccess}, func(name string, r *http.Request) (any, error) {
			if !b.Has(r.Context(), name, r.PostForm.Get("password")) {
				p.Site.NoteWrong(web.Remote(r))
				return nil, account.ErrWrong
			}
			return nil, b.EndTOTP(name)
		}),
		own(web.Route{Path: "/account/sessions/end", Does: "end one of one's sessions", Form: web.ByID, Gives: web.PageOrJSON, Effect: web.OfAccess}, func(name string, r *http.Request) (any, error) {
			return nil, endedError(b.End(r.PostForm.Get("id"), name))
		}),
		own(web.Route{Path: "/account/tokens", Does: "make a token, which is shown this once", Gives: web.PageOrJSON, Form: []web.Field{web.Required("scope", "read, write, or a method and path; several with commas"), web.Optional("purpose", "what it is for"), web.Optional("for", "how long: 90d without it, 366d at most")}, Effect: web.OfAccess}, func(name string, r *http.Request) (any, error) { return newToken(b, name, r) }),
		own(web.Route{Path: "/account/tokens/end", Does: "end one of one's tokens", Form: web.ByID, Gives: web.PageOrJSON, Effect: web.OfAccess}, func(name string, r *http.Request) (any, error) {
			return nil, endedError(b.EndToken(r.PostForm.Get("id"), name))
		}),
		own(web.Route{Path: "/account/passkeys/end", Does: "remove a passkey", Form: web.ByID, Gives: web.PageOrJSON, Effect: web.OfAccess}, func(name string, r *http.Request) (any, error) {
			return nil, b.EndPasskey(name, r.PostForm.Get("id"))
		}),
		own(web.Route{Path: "/account/passkeys/challenge", Does: "what a new passkey is to answer", Effect: web.OfAccess}, func(name string, r *http.Request) (any, error) {
			handle, have, err := b.Handle(name)
			return map[string]any{"challenge": b.Challenge(name), "rpId": web.HostOf(r.Host), "name": name, "handle": handle, "have": append([]string{}, have...), "algorithms": account.Algorithms}, err
		}),
		{Method: "POST", Path: "/account/passkeys", Role: web.Viewer,
			Does: "add a passkey", Body: "application/json",
			Effect: web.OfAccess,
			Handler: func(w http.ResponseWriter, r *http.Request) {
				name, err := ownAccount(r)
				if err != nil {
					http.Error(w, err.Error(), http.StatusBadRequest)
					return
				}
				proof, ok := readProof(w, r)
				if !ok {
					return
				}
				if err := b.AddPasskey(name, &proof, origin(r), web.HostOf(r.Host)); err != nil {
					http.Error(w, err.Error(), http.StatusBadRequest)
					return
				}
				web.WriteJSON(w, http.StatusOK, map[string]string{"done": r.URL.Path})
			}},
	}
}

func endedError(was bool, err error) error {
	if err == nil && !was {
		err = fmt.Errorf("it has ended already: %w", account.ErrNone)
	}
	return err
}

// newToken makes the token that a form asks for.
func newToken(b *account.Book, name string, r *http.Request) (any, error) {
	life := 90 * 24 * time.Hour
	if text := r.PostForm.Get("for"); text != "" {
		var d setting.Duration
		if err := d.UnmarshalText([]byte(text)); err != nil {
			return nil, fmt.Errorf("for=%q is not how long the token holds: write 30d", text)
		}
		life = d.Or(0)
	}
	secret, t, err := b.NewToken(name, r.PostForm.Get("purpose"), web.Words(r.PostForm["scope"]), life)
	if err != nil {
		return nil, err
	}
	if web.IsPage(r) {
		return []fact{{text.Mark("Token, shown this once"), secret}, {text.Mark("Holds until"), t.Expires.Format(time.DateOnly)}}, nil
	}
	return struct {
		account.Token
		Secret string `json:"token"`
	}{t, secret}, nil
}

func (p *Pages) account(w http.ResponseWriter, r *http.Request, page web.PageTemplate) {
	who := web.UserOf(r)
	d := struct {
		Who      *account.Who      `json:"who"`
		Account  account.Account   `json:"account,omitzero"`
		Sessions []account.Session `json:"sessions"`
		Tokens   []account.Token   `json:"tokens"`
		Passkeys passkeyPlace      `json:"-"`
	}{Who: who, Passkeys: p.passkeysAt(r), Sessions: []account.Session{}, Tokens: []account.Token{}}
	if who.Via == "session" || who.Via == "token" {
		var err error
		if d.Account, err = p.Site.Accounts.One(who.Name); err == nil {
			d.Tokens, err = p.Site.Accounts.Tokens(who.Name)
		}
		if err != nil {
			http.Error(w, err.Error(), statusOfAccount(err))
			return
		}
		d.Sessions = p.Site.Accounts.Sessions(who.Name)
	}
	if web.IsPage(r) {
		web.WritePage(w, page, http.StatusOK, d)
		return
	}
	web.WriteJSON(w, http.StatusOK, d)
}

// AllRoutes returns the routes by which owners manage all accounts.
//
//	GET /accounts                 all; HTML or JSON
//	POST /accounts                name, role, groups (by commas), password
//	POST /accounts/edit           name, role, groups
//	POST /accounts/password       name, password
//	POST /accounts/totp/end       name: somebody has lost their authenticator
//	POST /accounts/remove         name
//	POST /accounts/restore        name: of one that was removed
//	POST /accounts/invite         name, role, groups: gives a link
//	GET /accounts/invitations     those that are open
//	POST /accounts/uninvite       id
//	GET /accounts/sessions        of everybody
//	POST /accounts/sessions/end   id
//	GET /accounts/tokens          of everybody
//	POST /accounts/tokens/end     id
func (p *Pages) AllRoutes() []web.Route {
	b := p.Site.Accounts
	p.all = p.Site.Page("accounts.html")
	post := func(x web.Route, do change) web.Route {
		x.Method, x.Role = "POST", web.Owner
		to := changing("/accounts", do)
		x.Handler = func(w http.ResponseWriter, r *http.Request) {
			if !web.IsPage(r) {
				to(w, r)
				return
			}
			p.onPage(w, r, do)
		}
		return x
	}
	return []web.Route{
		{Method: "GET", Path: "/accounts", Role: web.Owner,
			Link: web.LinkIn(web.System, text.Mark("Accounts")),
			Does: "all accounts", Gives: web.PageOrJSON,
			Handler: func(w http.ResponseWriter, r *http.Request) { p.showAll(w, r, http.StatusOK, &allData{}) }},
		post(web.Route{Path: "/accounts/invite", Does: "invite somebody: the link works once, for seven days", Form: []web.Field{nameOf, web.Required("role", "viewer | helper | safeguarding-lead | operator | owner"), web.Optional("groups", "groups of a helper, with commas")}, Gives: web.PageOrJSON, Effect: web.OfAccess}, p.invite),
		{Method: "GET", Path: "/accounts/invitations", Role: web.Owner,
			Does: "open invitations",
			Handler: func(w http.ResponseWriter, _ *http.Request) {
				open, err := b.Invitations()
				web.Answer(w, open, err)
			}},
		post(web.Route{Path: "/accounts/uninvite", Does: "take an invitation back", Form: web.ByID, Gives: web.PageOrJSON, Effect: web.OfAccess}, func(r *http.Request) (any, error) { return nil, b.Uninvite(r.PostForm.Get("id")) }),
		post(web.Route{Path: "/accounts/restore", Does: "take a removed account back, within ten minutes", Form: []web.Field{nameOf}, Gives: web.PageOrJSON, Effect: web.OfAccess}, func(r *http.Request) (any, error) { return nil, b.TakeBack(r.PostForm.Get("name")) }),
		post(web.Route{Path: "/accounts", Does: "add an account", Form: []web.Field{nameOf, web.Required("role", "viewer | helper | safeguarding-lead | operator | owner"), web.Optional("groups", "groups of a helper, with commas"), web.Optional("password", "ten characters or more")}, Gives: web.PageOrJSON, Effect: web.OfAccess}, func(r *http.Request) (any, error) {
			role, err := roleIn(r)
			if err != nil {
				return nil, err
			}
			if err := p.second(r, r.PostForm.Get("name"), role); err != nil {
				return nil, err
			}
			if any, err := b.Any(); err == nil && !any && r.PostForm.Get("password") == "" {
				return nil, errors.New("give the first account a password: nobody could sign in otherwise")
			}
			return nil, b.Add(r.PostForm.Get("name"), role, web.Words(r.PostForm["groups"]), r.PostForm.Get("password"))
		}),
		post(web.Route{Path: "/accounts/edit", Does: "change role and groups; sessions end", Form: []web.Field{nameOf, web.Required("role", "viewer | helper | safeguarding-lead | operator | owner"), web.Optional("groups", "groups of a helper, with commas")}, Gives: web.PageOrJSON, Effect: web.OfAccess}, func(r *http.Request) (any, error) {
			role, err := roleIn(r)
			if err != nil {
				return nil, err
			}
			if err := p.second(r, r.PostForm.Get("name"), role); err != nil {
				return nil, err
			}
			return nil, b.Edit(r.PostForm.Get("name"), role, web.Words(r.PostForm["groups"]))
		}),
		post(web.Route{Path: "/accounts/password", Does: "set a password; sessions end", Form: []web.Field{nameOf, newWord}, Gives: web.PageOrJSON, Effect: web.OfAccess}, func(r *http.Request) (any, error) {
			name := r.PostForm.Get("name")
			if a, err := b.One(name); err == nil {
				if err := p.second(r, name, a.Role); err != nil {
					return nil, err
				}
			}
			return nil, b.SetPassword(name, r.PostForm.Get("password"))
		}),
		post(web.Route{Path: "/accounts/totp/end", Does: "end the one-time codes of somebody who lost their authenticator", Form: []web.Field{nameOf}, Gives: web.PageOrJSON, Effect: web.OfAccess}, func(r *http.Request) (any, error) { return nil, b.EndTOTP(r.PostForm.Get("name")) }),
		post(web.Route{Path: "/accounts/remove", Does: "remove an account with its tokens and sessions", Form: []web.Field{nameOf}, Gives: web.PageOrJSON, Effect: web.OfAccess}, func(r *http.Request) (any, error) { return nil, b.Remove(r.PostForm.Get("name")) }),
		{Method: "GET", Path: "/accounts/sessions", Role: web.Owner,
			Does:    "sessions of everybody",
			Handler: func(w http.ResponseWriter, _ *http.Request) { web.WriteJSON(w, http.StatusOK, b.Sessions("")) }},
		post(web.Route{Path: "/accounts/sessions/end", Does: "end somebody's session", Form: web.ByID, Gives: web.PageOrJSON, Effect: web.OfAccess}, func(r *http.Request) (any, error) { return nil, endedError(b.End(r.PostForm.Get("id"), "")) }),
		{Method: "GET", Path: "/accounts/tokens", Role: web.Owner,
			Does: "tokens of everybody",
			Handler: func(w http.ResponseWriter, _ *http.Request) {
				all, err := b.Tokens("")
				web.Answer(w, all, err)
			}},
		post(web.Route{Path: "/accounts/tokens/end", Does: "end somebody's token", Form: web.ByID, Gives: web.PageOrJSON, Effect: web.OfAccess}, func(r *http.Request) (any, error) { return nil, endedError(b.EndToken(r.PostForm.Get("id"), "")) }),
	}
}

// second asks for a second person before somebody gets an account that may agree to look into
// browsing, or the password of one: otherwise one person could be two.
func (p *Pages) second(r *http.Request, name string, role account.Role) error {
	if role != account.Lead && role != account.Owner || strings.EqualFold(name, web.UserOf(r).Name) && r.URL.Path == "/accounts/password" {
		return nil
	}
	return p.Site.Second(r, "the account "+strings.ToLower(name)+" as "+role.String(), r.URL.Path)
}

func roleIn(r *http.Request) (role account.Role, err error) {
	err = role.UnmarshalText([]byte(r.PostForm.Get("role")))
	return role, err
}
