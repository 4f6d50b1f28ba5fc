package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"shuultuur/admin/account"
	"shuultuur/setting"
	"shuultuur/text"
)

// statusOfAccount returns the HTTP status for an error.
func statusOfAccount(err error) int {
	switch {
	case errors.Is(err, account.ErrNone):
		return http.StatusNotFound
	case errors.Is(err, account.ErrExists), errors.Is(err, account.ErrLast):
		return http.StatusConflict
	}
	return http.StatusBadRequest
}

// A change is the action of a form about accounts. It returns a value to show,
// or nil.
type change func(r *http.Request) (any, error)

// changing answers with the result of a change as JSON. Browsers are redirected
// to a page unless there is something to show.
func changing(to string, do change) http.HandlerFunc {
	confirmation := pageOf("said.html", noNotice)
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := r.ParseForm(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		v, err := do(r)
		switch {
		case err != nil:
			http.Error(w, err.Error(), statusOfAccount(err))
		case isPage(r) && v == nil:
			http.Redirect(w, r, to, http.StatusSeeOther)
		case isPage(r):
			writePage(w, confirmation, http.StatusOK, struct {
				Said any
				To   string
			}{v, to})
		case v == nil:
			writeJSON(w, http.StatusOK, map[string]string{"done": r.URL.Path})
		default:
			writeJSON(w, http.StatusOK, v)
		}
	}
}

// ownAccount returns the account of the user, who must have signed in with a session:
// a program with a token must not create another token.
func ownAccount(r *http.Request) (string, error) {
	who := userOf(r)
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

// accountRoutes returns the routes by which people manage their own accounts.
//
//	GET /account                  it, its sessions and tokens; HTML or JSON
//	POST /account/password        old, password
//	POST /account/totp            offers a secret; with code, takes it into use
//	POST /account/totp/end        password
//	POST /account/sessions/end    id
//	POST /account/tokens          purpose, scope (words, by commas), for=TIME
//	POST /account/tokens/end      id
//	POST /account/passkeys/challenge, POST /account/passkeys, POST /account/passkeys/end
func (p *Parts) accountRoutes() []route {
	b := p.Accounts
	if b == nil {
		return nil
	}
	page := pageOf("account.html", p.Pause.notice)
	own := func(path string, do func(name string, r *http.Request) (any, error)) route {
		return route{"POST", path, viewer, changing("/account", func(r *http.Request) (any, error) {
			name, err := ownAccount(r)
			if err != nil {
				return nil, err
			}
			return do(name, r)
		})}
	}
	return []route{
		{"GET", "/account", viewer, func(w http.ResponseWriter, r *http.Request) { p.account(w, r, page) }},
		own("/account/password", func(name string, r *http.Request) (any, error) {
			if !b.Has(name, r.PostForm.Get("old")) {
				p.server.wrong.add(remote(r))
				return nil, account.ErrWrong
			}
			return nil, b.SetPassword(name, r.PostForm.Get("password"))
		}),
		own("/account/totp", func(name string, r *http.Request) (any, error) {
			if code := r.PostForm.Get("code"); code != "" {
				codes, err := b.Confirm(name, code)
				if err != nil {
					return nil, err
				}
				return []fact{{text.Mark("Recovery codes, each works once"), strings.Join(codes, " ")}}, nil
			}
			secret, address, err := b.Offer(name, "Shuultuur")
			return []fact{{text.Mark("Secret"), secret}, {text.Mark("Address"), address}}, err
		}),
		own("/account/totp/end", func(name string, r *http.Request) (any, error) {
			if !b.Has(name, r.PostForm.Get("password")) {
				p.server.wrong.add(remote(r))
				return nil, account.ErrWrong
			}
			return nil, b.EndTOTP(name)
		}),
		own("/account/sessions/end", func(name string, r *http.Request) (any, error) {
			return nil, endedError(b.End(r.PostForm.Get("id"), name))
		}),
		own("/account/tokens", func(name string, r *http.Request) (any, error) { return newToken(b, name, r) }),
		own("/account/tokens/end", func(name string, r *http.Request) (any, error) {
			return nil, endedError(b.EndToken(r.PostForm.Get("id"), name))
		}),
		own("/account/passkeys/end", func(name string, r *http.Request) (any, error) {
			return nil, b.EndPasskey(name, r.PostForm.Get("id"))
		}),
		own("/account/passkeys/challenge", func(name string, r *http.Request) (any, error) {
			handle, have, err := b.Handle(name)
			return map[string]any{"challenge": b.Challenge(name), "rpId": hostOf(r.Host), "name": name, "handle": handle, "have": append([]string{}, have...), "algorithms": account.Algorithms}, err
		}),
		{"POST", "/account/passkeys", viewer, func(w http.ResponseWriter, r *http.Request) {
			name, err := ownAccount(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			proof, ok := readProof(w, r)
			if !ok {
				return
			}
			if err := b.AddPasskey(name, &proof, origin(r), hostOf(r.Host)); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			writeJSON(w, http.StatusOK, map[string]string{"done": r.URL.Path})
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
	secret, t, err := b.NewToken(name, r.PostForm.Get("purpose"), scopes(r.PostForm["scope"]), life)
	if err != nil {
		return nil, err
	}
	if isPage(r) {
		return []fact{{text.Mark("Token, shown this once"), secret}, {text.Mark("Holds until"), t.Expires.Format(time.DateOnly)}}, nil
	}
	return struct {
		account.Token
		Secret string `json:"token"`
	}{t, secret}, nil
}

// scopes reads scopes, separated by commas.
func scopes(given []string) (all []string) {
	for _, g := range given {
		for s := range strings.SplitSeq(g, ",") {
			if s = strings.TrimSpace(s); s != "" {
				all = append(all, s)
			}
		}
	}
	return all
}

func (p *Parts) account(w http.ResponseWriter, r *http.Request, page pageTemplate) {
	who := userOf(r)
	d := struct {
		Who      *account.Who      `json:"who"`
		Account  account.Account   `json:"account,omitzero"`
		Sessions []account.Session `json:"sessions"`
		Tokens   []account.Token   `json:"tokens"`
	}{Who: who, Sessions: []account.Session{}, Tokens: []account.Token{}}
	if who.Via == "session" || who.Via == "token" {
		var err error
		if d.Account, err = p.Accounts.One(who.Name); err == nil {
			d.Tokens, err = p.Accounts.Tokens(who.Name)
		}
		if err != nil {
			http.Error(w, err.Error(), statusOfAccount(err))
			return
		}
		d.Sessions = p.Accounts.Sessions(who.Name)
	}
	if isPage(r) {
		writePage(w, page, http.StatusOK, d)
		return
	}
	writeJSON(w, http.StatusOK, d)
}

// accountsRoutes returns the routes by which owners manage all accounts.
//
//	GET /accounts                 all; HTML or JSON
//	POST /accounts                name, role, groups (by commas), password
//	POST /accounts/edit           name, role, groups
//	POST /accounts/password       name, password
//	POST /accounts/totp/end       name: somebody has lost their authenticator
//	POST /accounts/remove         name
//	GET /accounts/sessions        of everybody
//	POST /accounts/sessions/end   id
//	GET /accounts/tokens          of everybody
//	POST /accounts/tokens/end     id
func (p *Parts) accountsRoutes() []route {
	b := p.Accounts
	if b == nil {
		return nil
	}
	page := pageOf("accounts.html", p.Pause.notice)
	all := func(w http.ResponseWriter, r *http.Request) {
		accounts, err := b.All()
		if err != nil || !isPage(r) {
			answer(w, accounts, err)
			return
		}
		writePage(w, page, http.StatusOK, struct {
			Accounts []account.Account
			Sessions []account.Session
			Roles    []account.Role
		}{accounts, b.Sessions(""), account.Roles})
	}
	post := func(path string, do change) route { return route{"POST", path, owner, changing("/accounts", do)} }
	return []route{
		{"GET", "/accounts", owner, all},
		post("/accounts", func(r *http.Request) (any, error) {
			role, err := roleIn(r)
			if err != nil {
				return nil, err
			}
			return nil, b.Add(r.PostForm.Get("name"), role, scopes(r.PostForm["groups"]), r.PostForm.Get("password"))
		}),
		post("/accounts/edit", func(r *http.Request) (any, error) {
			role, err := roleIn(r)
			if err != nil {
				return nil, err
			}
			return nil, b.Edit(r.PostForm.Get("name"), role, scopes(r.PostForm["groups"]))
		}),
		post("/accounts/password", func(r *http.Request) (any, error) {
			return nil, b.SetPassword(r.PostForm.Get("name"), r.PostForm.Get("password"))
		}),
		post("/accounts/totp/end", func(r *http.Request) (any, error) { return nil, b.EndTOTP(r.PostForm.Get("name")) }),
		post("/accounts/remove", func(r *http.Request) (any, error) { return nil, b.Remove(r.PostForm.Get("name")) }),
		{"GET", "/accounts/sessions", owner, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, b.Sessions("")) }},
		post("/accounts/sessions/end", func(r *http.Request) (any, error) { return nil, endedError(b.End(r.PostForm.Get("id"), "")) }),
		{"GET", "/accounts/tokens", owner, func(w http.ResponseWriter, _ *http.Request) {
			all, err := b.Tokens("")
			answer(w, all, err)
		}},
		post("/accounts/tokens/end", func(r *http.Request) (any, error) { return nil, endedError(b.EndToken(r.PostForm.Get("id"), "")) }),
	}
}

func roleIn(r *http.Request) (role account.Role, err error) {
	err = role.UnmarshalText([]byte(r.PostForm.Get("role")))
	return role, err
}
