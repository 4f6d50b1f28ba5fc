package setup

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"shuultuur/admin/account"
	"shuultuur/admin/web"
	"shuultuur/intercept"
	"shuultuur/lib/lan"
	"shuultuur/text"
)

// A step is a page of questions.
type step struct {
	Name, Title string
	// wrong returns the mistakes in answers, by field; nil if the answers of the step are never wrong.
	wrong func(f url.Values, m *Machine) map[string]string
}

// steps are the pages in their order. The last one has no questions: it waits for a device.
var steps = []step{
	{"you", text.Mark("You"), wrongYou},
	{"people", text.Mark("People"), wrongPeople},
	{"filter", text.Mark("Filter"), nil},
	{"network", text.Mark("Network"), wrongNetwork},
	{"connect", text.Mark("Connect"), nil},
}

// These are mistakes in several fields.
var (
	line   = text.Mark("Write one short line, without colons and slashes.")
	choose = text.Mark("say who the network is for, and how devices reach the filter")
)

func at(name string) int { return slices.IndexFunc(steps, func(s step) bool { return s.Name == name }) }

func wrongYou(f url.Values, _ *Machine) map[string]string {
	wrong := map[string]string{}
	if err := account.CheckName(f.Get("name")); err != nil {
		wrong["name"] = line
	}
	if err := account.CheckPassword(f.Get("name"), f.Get("password")); err != nil {
		wrong["password"] = err.Error()
	}
	return wrong
}

const maxText = 200 // characters of a name or contact

func wrongPeople(f url.Values, _ *Machine) map[string]string {
	wrong := map[string]string{}
	if !slices.Contains([]string{"home", "school", "company"}, f.Get("who")) {
		wrong["who"] = choose
	}
	for _, field := range []string{"network", "contact"} {
		if !isLine(f.Get(field)) {
			wrong[field] = line
		}
	}
	for i, name := range f["person"] {
		if name = strings.TrimSpace(name); name == "" || i >= len(f["device"]) {
			continue
		}
		if !isLine(name) || len(name) > 64 || strings.ContainsAny(name, ",:/") || netAddress(name) {
			wrong[f["device"][i]] = line
		}
	}
	return wrong
}

func netAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// isLine reports whether s is one line of printable text.
func isLine(s string) bool {
	return len([]rune(s)) <= maxText && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar })
}

func wrongNetwork(f url.Values, m *Machine) map[string]string {
	wrong := map[string]string{}
	if !slices.Contains([]string{"both", "proxy", "dns"}, f.Get("way")) {
		wrong["way"] = choose
	}
	at, err := netip.ParseAddr(f.Get("at"))
	if f.Get("at") != "" && (err != nil || !slices.ContainsFunc(m.Addresses, func(a lan.Address) bool { return a.Addr == at })) {
		wrong["at"] = text.Mark("This machine has no such address now. Choose another one.")
	}
	if err == nil && f.Get("way") != "proxy" {
		switch {
		case slices.ContainsFunc(m.Port53, func(h lan.Holder) bool { return h.Blocks(at) }):
			wrong["port53"] = text.Mark("Free port 53 first, or choose the proxy alone.")
		case m.NoRight:
			wrong["port53"] = text.Mark("This user may not use port 53: run the gateway as a service, or give it the right to bind low ports.")
		}
	}
	if err := (intercept.RootConfig{Domains: domains(f)}).Check(); err != nil && f.Has("certificate") {
		wrong["domains"] = text.Mark("Write domains such as school.example, with commas between them.")
	}
	return wrong
}

// domains returns those to which the root certificate is to be limited.
func domains(f url.Values) (all []string) {
	for d := range strings.FieldsFuncSeq(f.Get("domains"), func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		all = append(all, d)
	}
	return all
}

// values returns the answers of a step: those that were given, or else those that are proposed. s is
// locked.
func (s *Setup) values(name string, m *Machine) url.Values {
	if f, ok := s.given[name]; ok {
		return f
	}
	f := url.Values{}
	switch name {
	case "people":
		f.Set("who", "home")
		f.Set("children", "yes")
	case "filter":
		for _, t := range s.Topics {
			if !t.Optional {
				f.Add("topic", t.Name)
			}
		}
		if s.given["people"].Get("who") != "company" {
			f.Set("safesearch", "yes")
		}
	case "network":
		f.Set("way", "both")
		if len(m.Addresses) > 0 {
			f.Set("at", m.Addresses[0].Addr.String())
		}
	}
	return f
}

// keep keeps the answers of a step. A password that was given stays if the field is empty, as it is when
// somebody comes back. s is locked.
func (s *Setup) keep(name string, f url.Values) url.Values {
	f.Del("token")
	f.Del("go")
	if name == "you" {
		f.Set("name", strings.TrimSpace(f.Get("name")))
		if f.Get("password") == "" {
			f.Set("password", s.password)
		}
		s.password = f.Get("password")
	}
	if s.given == nil {
		s.given = map[string]url.Values{}
	}
	s.given[name] = f
	return f
}

// wrong returns the mistakes of a step.
func (s *Setup) wrong(name string, m *Machine) map[string]string {
	if check := steps[at(name)].wrong; check != nil {
		return check(s.values(name, m), m)
	}
	return nil
}

// finish writes the settings and makes the account.
func (s *Setup) finish(r *http.Request, site *web.Site, m *Machine) (secret string, err error) {
	a := s.answers(m)
	q := r.WithContext(account.With(r.Context(), &account.Who{Name: a.Account, Role: account.Owner, Via: "first steps"}))
	if err := site.Record(q, "first steps", http.StatusOK, "for a "+a.Who); err != nil {
		return "", fmt.Errorf("nothing is changed while it cannot be recorded: %w", err)
	}
	if err := s.Write(r.Context(), a); err != nil {
		return "", err
	}
	if s.made != a.Account { // a try before this one may have made it, and failed afterwards
		if err := site.Accounts.Add(a.Account, account.Owner, nil, s.password); err != nil {
			return "", err
		}
		s.made = a.Account
	}
	secret, err = site.Accounts.Begin(a.Account, "password", account.Origin{Addr: web.Remote(r), Agent: r.UserAgent()})
	if err != nil {
		return "", err
	}
	s.done, s.password, s.given = time.Now(), "", nil
	return secret, nil
}
