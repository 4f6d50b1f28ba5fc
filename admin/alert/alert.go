// Package alert notifies people of searches by young people who may be in danger:
// self-harm, radicalisation, drugs, bullying, and themes that a school adds.
//
// A theme is watched independently of the rules: its conditions precede those of
// each policy as rules that only record ([Watch.Rules]). Their matches go to the
// [Desk]. When the theme's threshold is reached, it opens an alert; later matches
// of the same person are added to an open alert. It keeps all alerts in one file
// and notifies (send.go) those whom the settings name for the person's groups. A
// person acknowledges and closes an alert with a note.
//
// Requests to open a site ([Desk.Ask]) go to those whose themes name them, by the same queues. The page of
// requests has them; here they are kept only until they are told.
package alert

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"shuultuur/admin/mail"
	"shuultuur/lib/release"
	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/policy/schedule"
	"shuultuur/text"
)

// rank orders severities.
func (s Severity) rank() int { return [...]int{Low: 0, Medium: 1, High: 2}[s] }

const (
	maxThemes = 50
	maxRoutes = 200
	// rulePrefix begins the names of the rules that watch.
	rulePrefix = "alert/"
)

// isThemeName reports whether name has only letters, digits, spaces, underscores and hyphens,
// has at most 41 characters, and begins with a letter or digit.
func isThemeName(name string) bool {
	n := 0
	for _, c := range name {
		plain := unicode.IsLetter(c) || unicode.IsNumber(c)
		if !plain && (n == 0 || c != ' ' && c != '_' && c != '-') {
			return false
		}
		n++
	}
	return n > 0 && n <= 41
}

// A Watch has the checked settings.
type Watch struct {
	config Config
	quiet  []schedule.Hours // quiet hours of the routes
	sender *mail.Sender     // nil: no mail
	web    http.RoundTripper
	texts  text.Choice
}

// New checks the settings. sender is nil if no mail can be sent. Messages are in
// the languages of texts.
func New(c Config, sender *mail.Sender, texts text.Choice) (*Watch, error) {
	if release.Small {
		return nil, release.Lacks("alerts")
	}
	w := &Watch{config: c, sender: sender, web: http.DefaultTransport, texts: texts, quiet: make([]schedule.Hours, len(c.To))}
	var errs []error
	bad := func(key string, err error) { errs = append(errs, setting.At(key, err)) }
	if len(c.Themes) > maxThemes || len(c.To) > maxRoutes {
		bad("themes", fmt.Errorf("there are more than %d themes or %d people to tell", maxThemes, maxRoutes))
	}
	if len(c.Themes) == 0 && !slices.ContainsFunc(c.To, func(r Route) bool { return slices.Contains(r.Themes, Requests) }) {
		bad("themes", errors.New("nothing is watched: name themes, such as self-harm, or leave alerts out"))
	}
	for name, t := range c.Themes {
		key := "themes." + name
		switch {
		case name == Requests:
			bad(key, errors.New("this is the name of requests to open a site, which are told to those whose themes name them; name the theme otherwise"))
		case !isThemeName(name):
			bad(key, fmt.Errorf("%q is not a name: use letters, digits and hyphens", name))
		case t == nil && builtIn()[name] == nil:
			bad(key, errors.New("nothing is watched: name categories, searches, sites, expressions or words"))
		case t == nil:
			c.Themes[name] = &Theme{}
		case len(t.conditions(name)) == 0:
			bad(key, errors.New("nothing is watched: name categories, searches, sites, expressions or words"))
		case t.After < 0 || t.After > 1000:
			bad(key+".after", fmt.Errorf("%d is not from 1 to 1000", t.After))
		case t.Within.Off() || t.Within.Or(time.Hour) > 7*24*time.Hour || t.Within.Or(time.Hour) < time.Minute:
			bad(key+".within", fmt.Errorf("%v is not from 1m to 7d", t.Within))
		}
	}
	if c.Link != "" {
		if u, err := url.Parse(c.Link); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			bad("link", fmt.Errorf("%q is not the address of the admin pages: write https://filter.example:8081", c.Link))
		}
	}
	if k := c.Keep.Or(time.Hour); k < time.Hour {
		bad("keep", fmt.Errorf("%v is less than an hour", k))
	}
	for i := range c.To {
		if err := w.route(i); err != nil {
			errs = append(errs, setting.At(fmt.Sprintf("to[%d]", i), err))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return w, nil
}

// route checks one route.
func (w *Watch) route(i int) (err error) {
	r := &w.config.To[i]
	if w.quiet[i], err = r.Quiet.Compile(); err != nil {
		return setting.At("quiet", err)
	}
	if len(r.Mail)+len(r.Webhook) == 0 {
		return errors.New("who is told? name addresses under mail, or a webhook")
	}
	if len(r.Mail) > 0 && w.sender == nil {
		return setting.At("mail", errors.New("there is no mail server; name one under mail: server"))
	}
	for j, t := range r.Themes {
		if _, ok := w.config.Themes[t]; !ok && t != Requests {
			return setting.At(fmt.Sprintf("themes[%d]", j), fmt.Errorf("there is no theme %q", t))
		}
	}
	for j, a := range r.Mail {
		if r.Mail[j], err = mail.Address(a); err != nil {
			return setting.At(fmt.Sprintf("mail[%d]", j), err)
		}
	}
	for j := range r.Webhook {
		if err := r.Webhook[j].check(); err != nil {
			return setting.At(fmt.Sprintf("webhook[%d]", j), err)
		}
	}
	return nil
}

func (h *Webhook) check() error {
	u, err := url.Parse(h.URL)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return setting.At("url", fmt.Errorf("%q is not an http or https URL", h.URL))
	case h.Format != "" && formats[h.Format] == nil:
		return setting.At("format", fmt.Errorf("%q is not a format: write json, slack, teams, ntfy or telegram", h.Format))
	case (h.Format == "telegram") != (h.Chat != ""):
		return setting.At("chat", errors.New("telegram needs the identifier of a chat, and nothing else has one"))
	}
	if h.Key != "" && len(h.Key) < minKey {
		return setting.At("key", fmt.Errorf("a key of %d characters can be guessed: write %d or more, such as from openssl rand -hex 32", len(h.Key), minKey))
	}
	return nil
}

// minKey is the fewest characters of a key that signs.
const minKey = 24

// conditions returns the conditions of a theme, each as a rule that only
// records. Those in the settings come first. A known theme uses its built-in
// searches if the settings have none.
func (t *Theme) conditions(name string) (all []policy.Rule) {
	add := func(kind string, r policy.Rule) {
		r.Name, r.Action = rulePrefix+name+"/"+kind, "monitor"
		all = append(all, r)
	}
	if len(t.Category) > 0 {
		add("category", policy.Rule{Category: t.Category, Over: t.Over})
	}
	search := t.Search
	if len(search) == 0 {
		search = builtIn()[name]
	}
	if len(search) > 0 {
		add("search", policy.Rule{Search: search})
	}
	if len(t.Host) > 0 {
		add("host", policy.Rule{Host: t.Host})
	}
	if len(t.URL) > 0 {
		add("url", policy.Rule{URL: t.URL})
	}
	if len(t.Words) > 0 {
		add("words", policy.Rule{Words: t.Words})
	}
	return all
}

// Rules returns the rules that watch, which must precede those of each policy.
func (w *Watch) Rules() (all []policy.Rule) {
	for _, name := range w.names() {
		all = append(all, w.config.Themes[name].conditions(name)...)
	}
	return all
}

// names returns the names of the themes, in order.
func (w *Watch) names() (all []string) {
	for name := range w.config.Themes {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// ThemeOf returns the theme and the kind of condition of a rule that watches,
// "" for other rules.
func ThemeOf(rule string) (theme, kind string) {
	rest, ok := strings.CutPrefix(rule, rulePrefix)
	if !ok {
		return "", ""
	}
	theme, kind, _ = strings.Cut(rest, "/")
	return theme, kind
}

// builtIn returns the searches of known themes that the settings do not describe. They name
// plans and acts, not subjects: a pupil who writes about drugs or war is no reason for an
// alert. A word in braces matches every form of it.
func builtIn() map[string][]string {
	return map[string][]string{
		"self-harm": {"kill myself", "killing myself", "how to commit suicide", "suicide methods", "ways to die", "painless death", "want to die", "end my life",
			"suicide note", "how to hang myself", "lethal dose", "how to cut myself", "hide self harm scars", "i hate my life", "pro ana", "thinspo",
			"mich umbringen", "selbstmord begehen", "will nicht mehr leben", "как покончить с собой", "способы самоубийства", "хочу умереть", "не хочу жить",
			"me suicider", "envie de mourir", "quiero morir", "suicidarme", "амиа хорлох арга", "үхмээр байна"},
		"radicalisation": {"join isis", "how to make a bomb", "pipe bomb instructions", "how to make explosives", "race war now", "white power forum", "manifesto mass shooting",
			"how to join jihad", "bombe bauen", "как сделать бомбу", "fabriquer une bombe", "hacer una bomba"},
		"drugs": {"buy cocaine", "buy weed online", "buy mdma", "buy xanax without prescription", "how to make meth", "how to roll a joint", "where to buy lsd", "dealer near me",
			"drogen kaufen", "купить наркотики", "купить закладку", "acheter de la drogue", "comprar drogas"},
		"bullying": {"i am being bullied", "im being bullied", "how to bully", "everyone hates me", "nobody likes me", "ich werde gemobbt", "меня травят", "надо мной издеваются",
			"je suis harcelé", "me hacen bullying"},
	}
}
