package privacy

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/text"
)

// Looks are requests to look into a person's browsing, to which a second person
// must agree. They are kept in memory: a restart ends them.
type Looks struct {
	mu  sync.Mutex
	all []look
	now func() time.Time
}

// A look is one request.
type look struct {
	ID     string    `json:"id"`
	By     string    `json:"by"`
	Whom   string    `json:"whom"`            // a user or an address
	Erase  bool      `json:"erase,omitempty"` // a request to erase the person's data, not to look
	Reason string    `json:"reason"`
	Asked  time.Time `json:"asked"`
	Agreed string    `json:"agreed,omitempty"` // the person who agreed
	Until  time.Time `json:"until,omitzero"`   // when it ends after that
}

const (
	lookTime  = 8 * time.Hour
	askTime   = 7 * 24 * time.Hour
	mostLooks = 200
)

func (l *Looks) time() time.Time {
	if l.now != nil {
		return l.now()
	}
	return time.Now()
}

// open drops finished looks; mu is held.
func (l *Looks) open() {
	now := l.time()
	l.all = slices.DeleteFunc(l.all, func(x look) bool {
		return x.Agreed != "" && !now.Before(x.Until) || x.Agreed == "" && now.Sub(x.Asked) > askTime
	})
}

// Agreed returns the people whose browsing a user may look into.
func (l *Looks) Agreed(by string) (whom []string) {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open()
	for _, x := range l.all {
		if x.By == by && x.Agreed != "" && !x.Erase {
			whom = append(whom, x.Whom)
		}
	}
	return whom
}

// may reports whether another person has agreed that by looks at a person's browsing, or erases
// the data, for each of the names and addresses.
func (l *Looks) may(by string, p *event.Person, erase bool) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open()
	names := slices.Clone(p.Users)
	for _, a := range p.Clients {
		names = append(names, a.String())
	}
	return !slices.ContainsFunc(names, func(whom string) bool {
		return !slices.ContainsFunc(l.all, func(x look) bool { return x.By == by && x.Agreed != "" && x.Erase == erase && x.Whom == whom })
	})
}

// ask asks for a look.
func (l *Looks) ask(by, whom, reason string, erase bool) (look, error) {
	if whom = strings.TrimSpace(whom); whom == "" || len(whom) > 256 {
		return look{}, &web.BadChange{Err: errors.New("whose browsing is it about? name a user or an address")}
	}
	if a, err := netip.ParseAddr(whom); err == nil {
		whom = a.Unmap().WithZone("").String()
	}
	if reason = strings.TrimSpace(reason); reason == "" || len(reason) > 1000 {
		return look{}, &web.BadChange{Err: errors.New("write the reason, in up to 1000 bytes")}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open(); len(l.all) >= mostLooks {
		return look{}, &web.BadChange{Err: fmt.Errorf("%d requests wait or hold already", mostLooks)}
	}
	x := look{ID: rand.Text()[:12], By: by, Whom: whom, Reason: reason, Erase: erase, Asked: l.time().UTC().Truncate(time.Second)}
	l.all = append(l.all, x)
	return x, nil
}

// agree agrees to another user's look.
func (l *Looks) agree(id, by string) (look, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open()
	i := slices.IndexFunc(l.all, func(x look) bool { return x.ID == id })
	if i < 0 {
		return look{}, &web.BadChange{Err: fmt.Errorf("no request %q waits", id)}
	}
	x := &l.all[i]
	if x.By == by {
		return look{}, &web.BadChange{Err: errors.New("somebody else has to agree: two people are needed")}
	}
	if x.Agreed == "" {
		x.Agreed, x.Until = by, l.time().UTC().Truncate(time.Second).Add(lookTime)
	}
	return *x, nil
}

// end withdraws a request or an agreement.
func (l *Looks) end(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = slices.DeleteFunc(l.all, func(x look) bool { return x.ID == id })
}

// forget removes the looks about a person.
func (l *Looks) forget(about func(whom string) bool, dry bool) int64 {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(l.all), func(x look) bool { return about(x.Whom) })
	n := len(l.all) - len(left)
	if !dry {
		l.all = left
	}
	return int64(n)
}

// tasks returns the requests of others to which somebody may agree.
func (l *Looks) tasks(_ context.Context, who *account.Who, t *text.Texts) (all []web.Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open()
	for _, x := range l.all {
		if x.Agreed != "" || x.By == who.Name {
			continue
		}
		title := t.Say("{by} asks to view the history of {who}", "by", x.By, "who", x.Whom)
		if x.Erase {
			title = t.Say("{by} asks to erase the data of {who}", "by", x.By, "who", x.Whom)
		}
		all = append(all, web.Task{Icon: "eye", Verdict: "move", Title: title, More: "“" + x.Reason + "”", At: x.Asked, To: "/looks", Do: t.Say("Answer")})
	}
	return all
}

// Routes returns the routes of looks, which need two people.
//
//	GET /looks            those that wait or hold; HTML or JSON
//	POST /looks           whom=USER|ADDRESS&reason=TEXT asks for one; with what=erase to
//	                      erase the person's data
//	POST /looks/agree     id=ID agrees to that of somebody else
//	POST /looks/end       id=ID takes one back
func (l *Looks) Routes(site *web.Site) []web.Route {
	if l == nil {
		return nil
	}
	page := site.Page("looks.html")
	site.TaskSources = append(site.TaskSources, web.TaskSource{Page: "/looks", Tasks: l.tasks})
	show := func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		l.open()
		all := append([]look{}, l.all...)
		l.mu.Unlock()
		if !web.IsPage(r) {
			web.WriteJSON(w, http.StatusOK, all)
			return
		}
		web.WritePage(w, page, http.StatusOK, struct {
			Looks []look
			Me    string
		}{all, web.UserOf(r).Name})
	}
	form := func(do func(r *http.Request, who *account.Who) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
			err := r.ParseForm()
			if err != nil {
				err = &web.BadChange{Err: err}
			} else {
				err = do(r, web.UserOf(r))
			}
			if err != nil {
				http.Error(w, err.Error(), web.StatusOf(err))
				return
			}
			redirectDone(w, r, "/looks", show)
		}
	}
	return []web.Route{
		{Method: "GET", Path: "/looks", Role: web.Lead,
			Link: web.LinkIn(web.Inbox, text.Mark("Requests to view")),
			Does: "looks into somebody's browsing that wait or hold", Gives: web.PageOrJSON,
			Handler: show},
		{Method: "POST", Path: "/looks", Role: web.Lead,
			Does: "ask for a look", Form: []web.Field{web.Required("whom", "user or address"), web.Required("reason", "reason"), web.Optional("what", "look | erase")}, Gives: web.PageOrJSON,
			Effect: web.OfAccess,
			Handler: form(func(r *http.Request, who *account.Who) error {
				what := r.PostForm.Get("what")
				if what != "" && what != "look" && what != "erase" {
					return &web.BadChange{Err: fmt.Errorf("what=%q is neither look nor erase", what)}
				}
				_, err := l.ask(who.Name, r.PostForm.Get("whom"), r.PostForm.Get("reason"), what == "erase")
				return err
			})},
		{Method: "POST", Path: "/looks/agree", Role: web.Lead,
			Does: "agree to somebody else's look", Form: web.ByID, Gives: web.PageOrJSON,
			Effect: web.OfAccess,
			Handler: form(func(r *http.Request, who *account.Who) error {
				if who.Via != "session" {
					return &web.BadChange{Err: errors.New("a person has to agree, not a program: sign in")}
				}
				_, err := l.agree(r.PostForm.Get("id"), who.Name)
				return err
			})},
		{Method: "POST", Path: "/looks/end", Role: web.Lead,
			Does: "take a look back", Form: web.ByID, Gives: web.PageOrJSON,
			Effect: web.OfAccess,
			Handler: form(func(r *http.Request, _ *account.Who) error {
				l.end(r.PostForm.Get("id"))
				return nil
			})},
	}
}

// redirectDone redirects browsers to a page after an action; others get the result of
// show.
func redirectDone(w http.ResponseWriter, r *http.Request, to string, show http.HandlerFunc) {
	if web.IsPage(r) {
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	show(w, r)
}
