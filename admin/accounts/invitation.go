package accounts

import (
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"rsc.io/qr"

	"shuultuur/admin/account"
	"shuultuur/admin/web"
	"shuultuur/text"
)

// allData is the content of the page of all accounts.
type allData struct {
	Accounts []account.Account
	Sessions []account.Session
	Roles    []account.Role
	Open     []account.Invitation
	Groups   []string // those there are
	Removed  []string // that can be taken back
	Link     string   // of an invitation that was just made
	Invited  string   // whom it is for
	Sure     string   // the account that is about to be removed
	Loses    *account.Account
	Error    string
	At       string // the form with the mistake
	Form     url.Values
}

// Typed returns what was written into a field of a form with a mistake.
func (d *allData) Typed(at, field string) string {
	if d.At != at {
		return ""
	}
	return d.Form.Get(field)
}

// Wrong returns the mistake of a form.
func (d *allData) Wrong(at string) string {
	if d.At != at {
		return ""
	}
	return d.Error
}

// Elsewhere returns a mistake that stands beside no form.
func (d *allData) Elsewhere() string {
	if d.At == "/accounts" || d.At == "/accounts/invite" || strings.HasPrefix(d.At, "/accounts/edit ") {
		return ""
	}
	return d.Error
}

func (p *Pages) showAll(w http.ResponseWriter, r *http.Request, status int, d *allData) {
	b := p.Site.Accounts
	var err error
	if d.Accounts, err = b.All(); err != nil || !web.IsPage(r) {
		web.Answer(w, d.Accounts, err)
		return
	}
	if d.Open, err = b.Invitations(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	d.Sessions, d.Roles, d.Removed = b.Sessions(""), account.Roles, b.Removed()
	if p.Site.Members != nil {
		d.Groups = slices.Sorted(maps.Keys(p.Site.Members()))
	}
	if i := slices.IndexFunc(d.Accounts, func(a account.Account) bool { return a.Name == d.Sure }); i >= 0 {
		d.Loses = &d.Accounts[i]
	}
	web.WritePage(w, p.all, status, d)
}

// onPage makes the change of a form of the page, and shows the page: with a mistake beside its form,
// with the link of an invitation, or with the question whether an account is to go.
func (p *Pages) onPage(w http.ResponseWriter, r *http.Request, do change) {
	r.Body = http.MaxBytesReader(w, r.Body, web.MaxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if r.URL.Path == "/accounts/remove" && r.PostForm.Get("sure") == "" {
		web.ChangedNothing(w)
		p.showAll(w, r, http.StatusOK, &allData{Sure: r.PostForm.Get("name")})
		return
	}
	first, _ := p.Site.Accounts.Any() // the change meets the error
	made, err := do(r)
	if err != nil {
		at := r.URL.Path
		if at == "/accounts/edit" {
			at += " " + r.PostForm.Get("name")
		}
		p.showAll(w, r, statusOfAccount(err), &allData{Error: err.Error(), At: at, Form: r.PostForm})
		return
	}
	if link, ok := made.(invited); ok {
		p.showAll(w, r, http.StatusOK, &allData{Link: link.Link, Invited: link.Name})
		return
	}
	if !first && r.URL.Path == "/accounts" { // whoever makes the first account goes on with it
		if secret, err := p.Site.Accounts.SignIn(r.Context(), r.PostForm.Get("name"), r.PostForm.Get("password"), "", originOf(r)); err == nil {
			p.signedIn(w, r, secret, "password", "/accounts")
			return
		}
	}
	http.Redirect(w, r, "/accounts", http.StatusSeeOther)
}

// An invited is the answer to who invites somebody.
type invited struct {
	Name string `json:"name"`
	Link string `json:"link"`
}

func (p *Pages) invite(r *http.Request) (any, error) {
	role, err := roleIn(r)
	name := strings.TrimSpace(r.PostForm.Get("name"))
	if err == nil {
		err = p.second(r, name, role)
	}
	if err != nil {
		return nil, err
	}
	secret, err := p.Site.Accounts.Invite(name, role, web.Words(r.PostForm["groups"]), web.UserOf(r).Name)
	if err != nil {
		return nil, err
	}
	return invited{name, origin(r) + "/login/invited?" + url.Values{"token": {secret}}.Encode()}, nil
}

// showInvitation shows the page on which somebody chooses a password.
func (p *Pages) showInvitation(w http.ResponseWriter, r *http.Request, status int, wrong string) {
	r.Body = http.MaxBytesReader(w, r.Body, web.MaxForm)
	token := r.FormValue("token")
	in, err := p.Site.Accounts.Invited(token)
	switch {
	case errors.Is(err, account.ErrInvitation) && status == http.StatusOK:
		status = http.StatusGone
	case err != nil && !errors.Is(err, account.ErrInvitation):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	web.WritePage(w, invitedTemplate(), status, struct {
		Of    account.Invitation
		Gone  bool
		Token string
		Error string
	}{in, err != nil, token, wrong})
}

// acceptInvitation makes the account and begins a session.
func (p *Pages) acceptInvitation(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, web.MaxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	guess := p.Site.Guess(w, r)
	if guess == nil {
		return
	}
	token, password := r.PostForm.Get("token"), r.PostForm.Get("password")
	in, err := p.Site.Accounts.Invited(token)
	guess.End(errors.Is(err, account.ErrInvitation))
	if err == nil {
		err = p.Site.Record(r, "accept the invitation", 0, "name="+in.Name+" role="+in.Role.String())
	}
	name := ""
	if err == nil {
		name, err = p.Site.Accounts.Accept(token, password)
	}
	var secret string
	if err == nil {
		secret, err = p.Site.Accounts.SignIn(r.Context(), name, password, "", originOf(r))
	}
	switch {
	case err == nil:
		p.signedIn(w, r, secret, "password", "/account")
	case web.IsPage(r):
		p.showInvitation(w, r, statusOfAccount(err), err.Error())
	default:
		http.Error(w, err.Error(), statusOfAccount(err))
	}
}

// totp offers a secret with its code for cameras, and takes it into use once it has given a code.
func (p *Pages) totp(page web.PageTemplate) http.HandlerFunc {
	const issuer = "Shuultuur"
	b := p.Site.Accounts
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, web.MaxForm)
		if err := r.ParseForm(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		d := struct {
			Secret, Address, Error string
			Picture                template.HTML
			Codes                  []string
		}{}
		name, err := ownAccount(r)
		given := strings.TrimSpace(r.PostForm.Get("code"))
		switch {
		case err != nil:
		case given != "":
			d.Codes, err = b.Confirm(name, given)
		default:
			d.Secret, d.Address, err = b.Offer(name, issuer)
		}
		if err != nil {
			if d.Secret, d.Address = b.Offered(name, issuer); d.Secret == "" || !web.IsPage(r) {
				http.Error(w, err.Error(), statusOfAccount(err))
				return
			}
			d.Error = err.Error()
		}
		if web.IsPage(r) {
			d.Picture = picture(d.Address)
			status := http.StatusOK
			if err != nil {
				status = statusOfAccount(err)
			}
			web.WritePage(w, page, status, d)
			return
		}
		facts := []fact{{text.Mark("Secret"), d.Secret}, {text.Mark("Address"), d.Address}}
		if given != "" {
			facts = []fact{{text.Mark("Recovery codes, each works once"), strings.Join(d.Codes, " ")}}
		}
		web.WriteJSON(w, http.StatusOK, facts)
	}
}

// picture draws an address as a code for cameras.
func picture(address string) template.HTML {
	c, err := qr.Encode(address, qr.M)
	if address == "" || err != nil {
		return ""
	}
	const margin = 4 // modules (ISO/IEC 18004)
	n := c.Size + 2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="qr" viewBox="0 0 %d %d" width="220" height="220" shape-rendering="crispEdges" aria-hidden="true"><path fill="#fff" d="M0 0h%dv%dH0z"/><path fill="#000" d="`, n, n, n, n)
	for y := range c.Size {
		for x := range c.Size {
			if c.Black(x, y) {
				fmt.Fprintf(&b, "M%d %dh1v1h-1z", x+margin, y+margin)
			}
		}
	}
	return template.HTML(b.String() + `"/></svg>`)
}

// A passkeyPlace says whether a browser has passkeys at the address of the page, and where it has.
type passkeyPlace struct {
	Here  bool
	Names []string // addresses where it has
}

// passkeysAt says where passkeys work: at a name, over TLS, or at localhost.
func (p *Pages) passkeysAt(r *http.Request) passkeyPlace {
	host := web.HostOf(r.Host)
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	local := host == "localhost" || strings.HasSuffix(host, ".localhost")
	at := passkeyPlace{Here: local || err != nil && overTLS(r)}
	if p.Site.Names != nil {
		for _, name := range p.Site.Names() {
			at.Names = append(at.Names, "https://"+name)
		}
	}
	return at
}
