package why

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"shuultuur/admin/web"
	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/text"
)

// A Question asks for the decision on a request.
type Question struct {
	URL    string
	As     string // a policy; "" for the one that covers the client
	Client netip.Addr
	User   string
	Groups []string

	Method, Referer, Agent string
	// Page is judged as the answer when it is not nil, as of this media type.
	Page []byte
	Type string
}

// An Explanation is the decision that would be made, and why. Its JSON form is
// stable: keys may be added, but none is renamed or removed.
type Explanation struct {
	URL      string           `json:"url"`
	Action   string           `json:"action"`
	User     string           `json:"user,omitempty"` // who the client is, how that is known, and its groups
	Policy   string           `json:"policy"`
	Rule     string           `json:"rule"`
	Stage    string           `json:"stage"` // the last stage that was judged
	Findings []filter.Finding `json:"findings"`
	Settings string           `json:"settings"`          // the settings file that was used
	Line     int              `json:"line,omitempty"`    // line of the rule that decided, or of the policy if none did
	Refused  string           `json:"refused,omitempty"` // why the proxy would not connect, whatever the verdict
	Paused   string           `json:"paused,omitempty"`  // for whom the running gateway pauses filtering, and until when
	Learned  bool             `json:"learned"`
	Edits    []Edit           `json:"edits,omitempty"`
	Taken    float64          `json:"taken_us"`          // microseconds in the decider
	Picture  []string         `json:"picture,omitempty"` // the visible part of a given page
	QuotaLeft
}

// QuotaLeft is the rest of the client's quotas, if a gateway runs with the same
// settings.
type QuotaLeft struct {
	Quotas  []filter.Balance `json:"quotas,omitempty"`
	Unknown string           `json:"quotas_unknown,omitempty"` // why they are not known
}

// An Edit is a change that a policy makes to a request.
type Edit struct {
	Kind  string `json:"kind"`
	Name  string `json:"name,omitempty"`
	Value string `json:"value"`
}

// An Explain answers a question with the settings in use. Nothing is fetched,
// recorded or counted. A question that cannot be asked gives [*web.BadChange].
type Explain func(ctx context.Context, q Question) (*Explanation, error)

// Routes returns the route of explanations.
//
//	GET /why?url=URL      and client=ADDRESS, user=NAME, groups=A,B and
//	                      as=POLICY where wanted; HTML for browsers, else JSON
func Routes(site *web.Site, x Explain) []web.Route {
	page := site.Page("why.html")
	return []web.Route{{Method: "GET", Path: "/why", Role: web.Viewer,
		Link: web.LinkIn(web.Activity, text.Mark("Why?")),
		Does: "what would happen to an address, for whom, and why", Gives: web.PageOrJSON, Query: []web.Field{web.Required("url", "URL"), web.Optional("client", "address of the client"), web.Optional("user", "name of the user"), web.Optional("groups", "groups of the user, with commas"), web.Optional("as", "the policy, instead of the one that covers the client")},
		Handler: func(w http.ResponseWriter, r *http.Request) {
			f := r.URL.Query()
			d := struct {
				URL, Client, User, Groups, As string
				Is                            *Explanation
				Error                         string
			}{URL: strings.TrimSpace(f.Get("url")), Client: strings.TrimSpace(f.Get("client")), User: f.Get("user"), Groups: f.Get("groups"), As: f.Get("as")}
			status := http.StatusOK
			if d.URL != "" || !web.IsPage(r) {
				var err error
				if d.Is, err = x.Ask(r.Context(), d.URL, d.Client, d.User, d.Groups, d.As); err != nil {
					d.Error, status = err.Error(), web.StatusOf(err)
				}
			}
			web.Respond(w, r, page, status, d, d.Is, d.Error)
		}}}
}

// Ask asks in the words of the form.
func (x Explain) Ask(ctx context.Context, url, client, user, groups, as string) (*Explanation, error) {
	q := Question{URL: url, As: as, User: user, Client: netip.MustParseAddr("127.0.0.1")}
	if url == "" {
		return nil, &web.BadChange{Err: fmt.Errorf("url= is missing: which address?")}
	}
	if client != "" {
		a, err := setting.Client(client)
		if err != nil {
			return nil, &web.BadChange{Err: fmt.Errorf("client=%q is not an address", client)}
		}
		q.Client = a
	}
	for g := range strings.SplitSeq(groups, ",") {
		if g = strings.TrimSpace(g); g != "" {
			q.Groups = append(q.Groups, g)
		}
	}
	return x(ctx, q)
}
