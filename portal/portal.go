// Package portal serves pages to the clients of a gateway: the proxy
// auto-configuration (PAC, WPAD), profiles for devices, and the page for signing
// in.
//
// Data moves as follows. [New] makes a script for each route of the settings. A
// [Server] identifies the client by its address and finds its route (pac.go,
// profile.go). A person who signs in (signin.go), with a name and password or at an
// OpenID provider, gets a session: the address belongs to the user for a while.
// With a sealed cookie, the same browser gets a session at its next address, too.
package portal

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"shuultuur/filter"
	"shuultuur/identity/oidc"
	"shuultuur/identity/seal"
	"shuultuur/identity/session"
	"shuultuur/intercept"
	"shuultuur/lib/setting"
	"shuultuur/lib/shares"
	"shuultuur/text"
)

// Config has the settings of the portal.
type Config struct {
	// Name is the name or address of the portal for clients; default the address of
	// listen.portal.
	Name string  `yaml:"name"`
	PAC  []Route `yaml:"pac"` // the first route that matches a client applies; default one for all
}

// DNS is how clients reach the encrypted name server. Each field is "" if it is
// not available.
type DNS struct {
	HTTPS string   // URL of DNS over HTTPS
	TLS   string   // name for DNS over TLS
	Addrs []string // of the name server
}

// A Place has the addresses that the pages show.
type Place struct {
	URL   string // of the portal, without a path
	Name  string // of the portal
	Proxy string // host:port of this gateway's proxy, or ""
	DNS   DNS
	Key   []byte // seals cookies

	Plain, TLS []setting.Address // of the portal
}

// Pages are the pages for one version of the settings. They are immutable.
type Pages struct {
	place  Place
	routes []route
	box    *seal.Box
}

type route struct {
	nets             []netip.Prefix
	groups, policies []string
	script           *script
}

// New makes the pages.
func New(cfg Config, at Place) (*Pages, error) {
	p := &Pages{place: at}
	var err error
	if p.box, err = seal.New(at.Key, "portal sign-in"); err != nil {
		return nil, err
	}
	if strings.Trim(strings.ToLower(cfg.Name), "abcdefghijklmnopqrstuvwxyz0123456789-.:") != "" {
		return nil, setting.At("name", fmt.Errorf("%q is not a name or an address without a port, such as gate.school.example", cfg.Name))
	}
	everybody := false
	for i := range cfg.PAC {
		r, err := newRoute(&cfg.PAC[i], &at)
		if err == nil && everybody {
			err = errors.New("the route above it is for everybody: this one is never used")
		}
		if err != nil {
			return nil, setting.At(fmt.Sprintf("pac[%d]", i), err)
		}
		everybody = len(r.nets)+len(r.groups)+len(r.policies) == 0
		p.routes = append(p.routes, *r)
	}
	if !everybody && at.Proxy != "" {
		r, err := newRoute(&Route{}, &at)
		if err != nil {
			return nil, setting.At("pac", err)
		}
		p.routes = append(p.routes, *r)
	}
	return p, nil
}

func newRoute(c *Route, at *Place) (*route, error) {
	r := &route{groups: c.Groups, policies: c.Policies}
	for i, s := range c.Networks {
		n, err := netip.ParsePrefix(s)
		if a, single := setting.Client(s); single == nil {
			n, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return nil, setting.At(fmt.Sprintf("networks[%d]", i), fmt.Errorf("%q is not a network, such as 10.1.0.0/16", s))
		}
		r.nets = append(r.nets, n.Masked())
	}
	proxies := []string(c.Proxies)
	if len(proxies) == 0 && at.Proxy != "" {
		proxies = []string{at.Proxy}
	}
	var err error
	r.script, err = newScript(c, proxies, at.Name)
	return r, err
}

// covers reports whether a route applies to a client.
func (r *route) covers(c *filter.Client, policy func() string) bool {
	if len(r.nets) > 0 && !slices.ContainsFunc(r.nets, func(n netip.Prefix) bool { return n.Contains(c.Addr) }) {
		return false
	}
	if len(r.groups) > 0 && !slices.ContainsFunc(r.groups, func(g string) bool {
		return slices.ContainsFunc(c.Groups, func(has string) bool { return strings.EqualFold(has, g) })
	}) {
		return false
	}
	return len(r.policies) == 0 || slices.Contains(r.policies, policy())
}

// An Engine has everything that the portal needs for its answers. It is immutable.
type Engine struct {
	Pages *Pages
	// Identify returns the client at an address as far as it is known.
	Identify func(ctx context.Context, addr netip.Addr) filter.Client
	// Policy returns the name of the policy that covers a client.
	Policy func(ctx context.Context, c *filter.Client) string
	// Verify returns the client with this name and password.
	Verify func(ctx context.Context, addr netip.Addr, name, password string) (filter.Client, error)
	// Captive reports whether the client at an address still has to sign in.
	Captive   func(ctx context.Context, addr netip.Addr) bool
	SignsIn   bool           // whether people sign in here
	Passwords bool           // with names and passwords
	Provider  *oidc.Provider // or at a provider; nil if there is none
	Session   time.Duration  // how long a sign-in is valid
	Start     func(session.Session) error
	End       func(addr netip.Addr) error
	// SignInID returns the identifier of a new sign-in, Stands reports whether it still counts,
	// and SignOut ends the session of an address and a sign-in, "" for none, everywhere.
	SignInID func(user, source string) string
	Stands   func(user, source, id string) bool
	SignOut  func(addr netip.Addr, id string) error
	// Own returns the name here of the person whom an issuer knows as a subject and calls name:
	// another one, if another subject has that name.
	Own func(name, issuer, subject string) (string, error)
	// Wanted reports whether a policy names a group; nil if none does.
	Wanted func(group string) bool
	// Withdraw ends all sessions of a user from one source.
	Withdraw func(user, source string) error
	// Regroup replaces the groups in a user's sessions from one source.
	Regroup func(user, source string, groups []string) error
	Texts   text.Choice              // for pages
	Whose   string                   // whose network it is, for pages; "" if nobody says
	TLS     *tls.Config              // of the portal; nil if it has no certificate
	Answer  func(path string) string // answers to the authority of our certificate, "" for a path without one
	Trusted []netip.Prefix           // networks of proxies in front, which name their clients
	Root    func() *intercept.Root   // certificate that devices should trust; nil if there is none
}

// A Server serves the pages. Make one with [NewServer].
type Server struct {
	engine   atomic.Pointer[Engine]
	mux      *http.ServeMux
	log      *slog.Logger
	devices  devices
	renewals renewals
	passes   passes
}

// NewServer returns a server that answers with the engine given to [Server.Use]. file keeps those
// who have signed in at a provider for the next start; "" for none.
func NewServer(log *slog.Logger, file string) *Server {
	s := &Server{mux: http.NewServeMux(), log: log}
	s.renewals.file = file
	s.devices.of = map[string]*waiting{}
	s.devices.ctx, s.devices.stop = context.WithCancel(context.Background())
	cross := http.NewCrossOriginProtection()
	for pattern, h := range map[string]http.HandlerFunc{
		"GET /{$}":                            s.home,
		"GET /proxy.pac":                      s.pac,
		"GET /wpad.dat":                       s.pac,
		"GET /wpad.da":                        s.pac, // some DHCP clients cut off the last letter
		"GET /profile/shuultuur.mobileconfig": s.apple,
		"GET /profile/shuultuur.ps1":          s.windows,
		"GET /profile/shuultuur.json":         s.android,
		"GET /profile/root.cer":               s.root,
		"GET /captive-portal":                 s.captive,
		"GET /sign-in":                        s.signInPage,
		"GET /sign-in/pass":                   s.passed,
		"POST /sign-in":                       s.password,
		"POST /sign-in/provider":              s.begin,
		"GET /sign-in/callback":               s.callback,
		"POST /sign-in/device":                s.beginDevice,
		"GET /sign-in/device":                 s.device,
		"POST /sign-out":                      s.signOut,
	} {
		s.mux.Handle(pattern, cross.Handler(h))
	}
	return s
}

// Use answers later requests with e.
func (s *Server) Use(e *Engine) error {
	if e == nil || e.Pages == nil || e.Identify == nil {
		return errors.New("portal: an engine needs Pages and Identify")
	}
	s.engine.Store(e)
	s.readRenewals(e.Provider)
	return nil
}

// Close ends waiting sign-ins of devices and the renewal of groups.
func (s *Server) Close() {
	s.devices.close()
	s.keepRenewals()
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Content-Security-Policy", stylePolicy)
	e := s.engine.Load()
	if e == nil {
		http.Error(w, "the gateway starts", http.StatusServiceUnavailable)
		return
	}
	if answer := e.answerTo(r); answer != "" {
		h.Set("Content-Type", "application/octet-stream")
		_, _ = io.WriteString(w, answer) // it fails if the authority has gone away
		return
	}
	s.mux.ServeHTTP(w, e.fromClient(r))
}

// answerTo returns the answer to a challenge of the authority of our certificate, "" if r is no such
// question.
func (e *Engine) answerTo(r *http.Request) string {
	if e.Answer == nil || r.Method != http.MethodGet {
		return ""
	}
	return e.Answer(r.URL.Path)
}

// maxConnections bounds the connections to one address; no client holds all of them.
const maxConnections = 2048

// Serve answers on l until ctx ends. Then it gives requests in progress a
// moment to finish.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return s.serve(ctx, &listener{shares.Listen(l, maxConnections), s})
}

// ServeTLS is Serve over TLS, with the present certificate.
func (s *Server) ServeTLS(ctx context.Context, l net.Listener) error {
	return s.serve(ctx, tls.NewListener(&listener{shares.Listen(l, maxConnections), s}, s.tls()))
}

// tls returns the settings of TLS, which use the present certificate for each handshake.
func (s *Server) tls() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if e := s.engine.Load(); e != nil && e.TLS != nil {
			return e.TLS, nil
		}
		return nil, errors.New("the portal has no certificate")
	}}
}

// server returns the server of connections, whose requests outlive ctx.
func (s *Server) server(ctx context.Context) *http.Server {
	return &http.Server{Handler: s, ReadHeaderTimeout: headTime, ReadTimeout: 20 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) }}
}

func (s *Server) serve(ctx context.Context, l net.Listener) error {
	return shares.Serve(ctx, s.server(ctx), l, 2*time.Second)
}

// remote returns the client's address, or the zero Addr if it is unknown.
func remote(r *http.Request) netip.Addr {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return from.Addr().Unmap().WithZone("")
}

// scriptFor returns the script of the client's route, or nil.
func (e *Engine) scriptFor(r *http.Request) *script {
	c := e.Identify(r.Context(), remote(r))
	policy, asked := "", false
	ask := func() string {
		if !asked && e.Policy != nil {
			policy, asked = e.Policy(r.Context(), &c), true
		}
		return policy
	}
	for i := range e.Pages.routes {
		if e.Pages.routes[i].covers(&c, ask) {
			return e.Pages.routes[i].script
		}
	}
	return nil
}

// pac serves the proxy auto-configuration.
func (s *Server) pac(w http.ResponseWriter, r *http.Request) {
	script := s.engine.Load().scriptFor(r)
	if script == nil {
		http.Error(w, "no route of portal: pac is for this client, and the proxy of this gateway is for its own machine only", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/x-ns-proxy-autoconfig")
	_, _ = w.Write(script.text) // it fails if the client has gone away
}

//go:embed portal.html
var pageText string

//go:embed portal.css
var ownStyle string

// style is the style of the page, and stylePolicy allows it and nothing else.
var (
	style       = text.Style + ownStyle
	styleSum    = sha256.Sum256([]byte(style))
	stylePolicy = "default-src 'none'; img-src data:; style-src 'sha256-" + base64.StdEncoding.EncodeToString(styleSum[:]) + "'; base-uri 'none'; frame-ancestors 'none'"
)

var pageOf = text.NewPage(func() string { return pageText }, func(t *text.Texts, source string) *template.Template {
	functions := template.FuncMap{
		"t":     func(key string) string { return t.Say(key) },
		"style": func() template.CSS { return template.CSS(style) },
	}
	return template.Must(template.Must(template.New("").Funcs(functions).Parse(text.Parts)).New("portal").Parse(source))
})

// A view has the contents of the page.
type view struct {
	Title, Error, Advice string
	User, Source, Policy string
	PAC                  string
	Root                 string // name of the certificate to trust, "" for none
	Whose                string // network it is
	Device               string // kind of device whose steps are shown
	Devices              []kind
	DNS                  DNS
	SignIn               bool // shows the forms for signing in
	SignsIn              bool
	Passwords, Provider  bool
	To, Name             string
	Code, At, Whole      string // code of a device that signs in
	Wait                 bool   // the device waits for its code
}

func (s *Server) show(w http.ResponseWriter, r *http.Request, status int, v *view) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	v.Whose = s.engine.Load().Whose
	_ = pageOf.In(s.texts(r)).Execute(w, v) // it fails if the client has gone away
}

// texts returns the texts in the client's language.
func (s *Server) texts(r *http.Request) *text.Texts {
	return s.engine.Load().Texts.For(r.Header.Get("Accept-Language"))
}

// A kind is a kind of device, which has steps of its own.
type kind struct {
	Key, Name string
	Here      bool // its steps are shown
}

// kinds are the kinds of devices with a word of their browsers' names. The first that fits counts.
var kinds = [...]struct{ key, name, agent string }{
	{"apple", "Apple", "Mac OS X"},
	{"android", "Android", "Android"},
	{"windows", "Windows", "Windows"},
	{"other", text.Mark("Others"), ""},
}

// kindsFor returns the kinds of devices, and the one whose steps a browser gets: that which it asks
// for, or else its own.
func kindsFor(r *http.Request) (here string, all []kind) {
	asked, agent := r.FormValue("device"), r.UserAgent()
	for _, k := range kinds {
		if asked == k.key {
			here = k.key
		}
	}
	for _, k := range kinds {
		if here == "" && strings.Contains(agent, k.agent) {
			here = k.key
		}
	}
	for _, k := range kinds {
		all = append(all, kind{k.key, k.name, k.key == here})
	}
	return here, all
}

// home shows the client's identity and what its device needs.
func (s *Server) home(w http.ResponseWriter, r *http.Request) {
	e := s.engine.Load()
	c := e.Identify(r.Context(), remote(r))
	v := &view{Title: text.Mark("Welcome to this network"), User: c.User, Source: c.Source, DNS: e.Pages.place.DNS, SignsIn: e.SignsIn}
	if e.Whose != "" {
		v.Title = s.texts(r).Say("Welcome to the network of {name}", "name", e.Whose)
	}
	if root := e.rootOf(); root != nil {
		v.Root = root.Certificate.Subject.CommonName
	}
	v.Device, v.Devices = kindsFor(r)
	if e.Policy != nil {
		v.Policy = e.Policy(r.Context(), &c)
	}
	if e.scriptFor(r) != nil {
		v.PAC = e.Pages.place.URL + "/proxy.pac"
	}
	s.show(w, r, http.StatusOK, v)
}

func (e *Engine) rootOf() *intercept.Root {
	if e.Root == nil {
		return nil
	}
	return e.Root()
}
