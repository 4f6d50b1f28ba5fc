package directory

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-ldap/ldap/v3"

	"shuultuur/lib/release"
	"shuultuur/lib/setting"
)

const (
	maxAsked  = 100  // most queries for the groups of one user
	maxGroups = 5000 // most groups of one user, if the directory is queried for them
	atOnce    = 50   // groups per query
	maxIdle   = 8    // idle connections of each kind
)

// A Directory is an LDAP directory. It keeps connections open and caches the
// membership of groups in groups (graph.go), so that a user costs one query.
type Directory struct {
	cfg     LDAP
	tls     *tls.Config
	timeout time.Duration
	// search holds connections of the service account. verify holds those on which
	// users bind: each bind replaces the one before.
	search, verify chan *conn
	closed         atomic.Bool
	order          order
	graph          graphs

	referring sync.Mutex
	referred  map[string]*Directory // directories that this one refers to; guarded by referring
}

// A conn is a connection to one server.
type conn struct {
	*ldap.Conn
	server string
}

// NewLDAP reads the settings.
func NewLDAP(cfg LDAP) (*Directory, error) {
	if release.Small {
		return nil, release.Lacks("LDAP")
	}
	d := &Directory{cfg: cfg, search: make(chan *conn, maxIdle), verify: make(chan *conn, maxIdle), timeout: cfg.Timeout.Or(5 * time.Second), tls: &tls.Config{MinVersion: tls.VersionTLS12}}
	if len(cfg.Servers) == 0 {
		return nil, setting.At("servers", errors.New("no server is named"))
	}
	if cfg.Base == "" {
		return nil, setting.At("base", errors.New(`no place to search is named; write one like "dc=school,dc=example"`))
	}
	if d.timeout == 0 {
		return nil, setting.At("timeout", errors.New("off: a client would wait forever"))
	}
	for i, s := range cfg.Servers {
		if u, err := url.Parse(s); err != nil || u.Scheme != "ldap" && u.Scheme != "ldaps" || u.Host == "" {
			return nil, setting.At(fmt.Sprintf("servers[%d]", i), fmt.Errorf(`%q is not a server; write it like "ldaps://dc.school.example"`, s))
		}
	}
	if d.cfg.User == "" {
		d.cfg.User = "(|(uid=%s)(sAMAccountName=%s)(userPrincipalName=%s))"
	}
	if _, err := ldap.CompileFilter(strings.ReplaceAll(d.cfg.User, "%s", "x")); err != nil || !strings.Contains(d.cfg.User, "%s") {
		return nil, setting.At("user", fmt.Errorf(`%q is not a filter with %%s in it, such as "(uid=%%s)"`, d.cfg.User))
	}
	if !d.Finds() && cfg.Password != "" {
		return nil, setting.At("password", fmt.Errorf("users bind as themselves with %q: leave the password out", cfg.Bind))
	}
	var err error
	d.tls.RootCAs, err = cfg.CA.Roots()
	if err != nil {
		return nil, setting.At("ca", err)
	}
	return d, nil
}

// Close closes the connections, after a while also that on which groups are read. Queries in
// progress are still answered.
func (d *Directory) Close() {
	d.closed.Store(true)
	d.graph.reads.End(lastAnswers)
	d.closeReferred()
	for _, idle := range []chan *conn{d.search, d.verify} {
		for empty := false; !empty; {
			select {
			case c := <-idle:
				c.Close()
			default:
				empty = true
			}
		}
	}
}

// Verify implements [Source].
func (d *Directory) Verify(ctx context.Context, name, password string) (user string, groups []string, err error) {
	if name == "" || password == "" { // a bind without a password is anonymous and succeeds (RFC 4513, 5.1.2)
		return "", nil, ErrRefused
	}
	if !d.Finds() {
		err = d.withConn(ctx, d.verify, func(c *conn) (err error) {
			if err = verifyPassword(c, d.bindName(name), password); err != nil {
				return err
			}
			if _, user, groups, err = d.lookUp(c, name); errors.Is(err, ErrRefused) { // the password was right
				err = fmt.Errorf("search for the user %q as itself: it finds no entry; correct base or user", name)
			}
			return err
		})
		return user, groups, err
	}
	e, err := d.findFrom(ctx, name, 0)
	if err != nil {
		return "", nil, err
	}
	// Who does not know the password learns nothing of the groups, and asks for none.
	if err = e.at.withConn(ctx, e.at.verify, func(c *conn) error { return verifyPassword(c, e.entry.DN, password) }); err != nil {
		return "", nil, err
	}
	groups, err = e.groups(ctx)
	if p, ok := errors.AsType[*PersonError](err); ok {
		p.Proven = true
	}
	return e.user, groups, err
}

// verifyPassword verifies the password of a user on a connection.
func verifyPassword(c *conn, name, password string) error {
	q := ldap.NewSimpleBindRequest(name, password, []ldap.Control{ldap.NewControlBeheraPasswordPolicy()})
	res, err := c.SimpleBind(q)
	var controls []ldap.Control
	if res != nil {
		controls = res.Controls
	}
	switch {
	case ldap.IsErrorWithCode(err, ldap.LDAPResultInvalidCredentials):
		return refusal(err, controls)
	case err != nil:
		return fmt.Errorf("bind as %q: %w", name, err)
	}
	return policyRefusal(controls) // a password that has to be changed first is accepted for that alone
}

// Finds reports whether groups of users can be found without their passwords. That
// requires a service account, which does not exist if users bind as themselves.
func (d *Directory) Finds() bool { return !strings.Contains(d.cfg.Bind, "%s") }

// bindName returns the name with which a user binds.
func (d *Directory) bindName(name string) string {
	if strings.Contains(d.cfg.Bind, "=") {
		return strings.ReplaceAll(d.cfg.Bind, "%s", ldap.EscapeDN(account(name)))
	}
	if strings.ContainsAny(name, `@\`) { // Active Directory accepts names with their domain
		return name
	}
	return strings.ReplaceAll(d.cfg.Bind, "%s", name)
}

// Find implements [Finder].
func (d *Directory) Find(ctx context.Context, name string) (Found, error) {
	if name == "" {
		return Found{}, ErrRefused
	}
	e, err := d.findFrom(ctx, name, 0)
	if err != nil {
		return Found{}, err
	}
	groups, err := e.groups(ctx)
	return Found{User: e.user, Groups: groups, Stamp: stampOf(e.entry), Disabled: isDisabled(e.entry, time.Now())}, err
}

// account removes the Windows domain from a name: SCHOOL\anna.
func account(name string) string {
	if domain, user, ok := strings.Cut(name, `\`); ok && domain != "" && user != "" && !strings.Contains(user, `\`) {
		return user
	}
	return name
}

// find returns the entry and the name of a user.
func (d *Directory) find(ctx context.Context, name string) (e *ldap.Entry, user string, err error) {
	err = d.withConn(ctx, d.search, func(c *conn) (err error) {
		e, user, err = d.findOn(c, name)
		return err
	})
	return e, user, err
}

// groups returns the groups of a user.
func (e *person) groups(ctx context.Context) (groups []string, err error) {
	err = e.at.withConn(ctx, e.at.search, func(c *conn) (err error) {
		groups, err = e.at.groupsOn(c, e.entry, e.user)
		return err
	})
	return groups, err
}

// lookUp returns the DN, name and groups of a user, on a given connection.
func (d *Directory) lookUp(c *conn, name string) (dn, user string, groups []string, err error) {
	e, user, err := d.findOn(c, name)
	if err != nil {
		return "", "", nil, err
	}
	groups, err = d.groupsOn(c, e, user)
	return e.DN, user, groups, err
}

// findOn is find on a given connection.
func (d *Directory) findOn(c *conn, name string) (e *ldap.Entry, user string, err error) {
	res, err := d.askFor(c, account(name))
	if short := d.implicit(name); short != "" && err == nil && len(res.Entries) == 0 {
		var other *ldap.SearchResult
		if other, err = d.askFor(c, short); err == nil {
			other.Entries = slices.DeleteFunc(other.Entries, func(e *ldap.Entry) bool {
				return !strings.EqualFold(e.GetAttributeValue("sAMAccountName"), short)
			})
			res.Entries = other.Entries
		}
	}
	if to := referrals(res, err); len(to) > 0 && (res == nil || len(res.Entries) == 0) {
		return nil, "", &referredError{to}
	}
	if err == nil {
		res.Entries = withoutCopies(res.Entries)
	}
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("search for the user %q: %w", name, err)
	case len(res.Entries) == 0:
		return nil, "", &Refusal{Why: NoEntry}
	case len(res.Entries) > 1:
		return nil, "", &PersonError{Err: fmt.Errorf("search for the user %q: two entries are called so, %q and %q; correct base or user, so that one is found", name, res.Entries[0].DN, res.Entries[1].DN)}
	}
	entry := res.Entries[0]
	return entry, cmp.Or(entry.GetAttributeValue("sAMAccountName"), entry.GetAttributeValue("uid"), name), nil
}

// askFor searches for the entries of an account.
func (d *Directory) askFor(c *conn, account string) (*ldap.SearchResult, error) {
	return d.ask(c, strings.ReplaceAll(d.cfg.User, "%s", ldap.EscapeFilter(account)), 2, append([]string{"uid", "sAMAccountName", "memberOf", "objectSid", "primaryGroupID"}, standing...)...)
}

// implicit returns the account in a name such as anna@school.example, with the domain of the base, or
// "". In Active Directory each account has that name beside its userPrincipalName ([MS-ADTS] 5.1.1.1.1).
func (d *Directory) implicit(name string) string {
	user, domain, ok := strings.Cut(name, "@")
	if !ok || user == "" || domain == "" {
		return ""
	}
	base, err := ldap.ParseDN(d.cfg.Base)
	if err != nil {
		return ""
	}
	var labels []string
	for _, r := range base.RDNs {
		if a := r.Attributes[0]; strings.EqualFold(a.Type, "dc") {
			labels = append(labels, a.Value)
		}
	}
	if !strings.EqualFold(strings.Join(labels, "."), domain) {
		return ""
	}
	return user
}

// groupsOn returns the groups of a user, on a given connection.
func (d *Directory) groupsOn(c *conn, entry *ldap.Entry, user string) (groups []string, err error) {
	if d.Finds() {
		if g := d.graphOf(c); g != nil {
			return g.groupsOf(entry, user), nil
		}
	}
	if groups, err = d.groups(c, entry, user); err != nil {
		err = fmt.Errorf("search for the groups of %q: %w", entry.DN, err)
		if ldap.IsErrorAnyOf(err, ldap.LDAPResultSizeLimitExceeded, ldap.LDAPResultAdminLimitExceeded) {
			err = &PersonError{Err: fmt.Errorf("%w; raise the limit of the directory for the account that asks", err)}
		} else if errors.Is(err, errTooMany) {
			err = &PersonError{Err: err}
		}
	}
	return groups, err
}

// withoutCopies returns the entries without those of FreeIPA's compatibility tree, which has each
// user a second time, unless they are all.
func withoutCopies(all []*ldap.Entry) []*ldap.Entry {
	var own []*ldap.Entry
	for _, e := range all {
		if !strings.Contains(canonical(e.DN)+",", ",cn=compat,") {
			own = append(own, e)
		}
	}
	if len(own) == 0 {
		return all
	}
	return own
}

// withConn calls do with a connection: an idle one, or a new one to the first server
// that answers. The server may have closed an idle connection; then do is called
// again with another one. A server that timed out is not tried again, because each
// of its connections would time out as well.
func (d *Directory) withConn(ctx context.Context, idle chan *conn, do func(*conn) error) error {
	var errs []error
	silent := ""
	for begin := time.Now(); silent == ""; {
		var c *conn
		select {
		case c = <-idle:
		default:
		}
		if c == nil {
			break
		}
		err := d.useConn(ctx, idle, c, do)
		if err == nil || !broken(err) || ctx.Err() != nil {
			return err
		}
		if time.Since(begin) >= d.timeout {
			silent = c.server
			errs = append(errs, fmt.Errorf("LDAP server %s: %w", silent, err))
		}
	}
	for _, server := range d.order.sorted(d.cfg.Servers) {
		if server == silent {
			d.order.note(server, false)
			continue
		}
		c, err := d.connect(ctx, server, idle == d.search)
		if err == nil {
			err = d.useConn(ctx, idle, c, do)
		}
		if ok := err == nil || answered(err); ok || ctx.Err() == nil {
			d.order.note(server, ok)
		}
		if err == nil || answered(err) {
			return err
		}
		errs = append(errs, fmt.Errorf("LDAP server %s: %w", server, withAdvice(server, err)))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// answered reports whether an error came in an answer of the directory.
func answered(err error) bool {
	_, referred := errors.AsType[*referredError](err)
	_, person := errors.AsType[*PersonError](err)
	return referred || person || errors.Is(err, ErrRefused)
}

// broken reports whether the connection failed.
func broken(err error) bool {
	return ldap.IsErrorAnyOf(err, ldap.ErrorNetwork, ldap.LDAPResultUnavailable, ldap.LDAPResultServerDown)
}

// useConn calls do with a connection and then keeps it for later.
func (d *Directory) useConn(ctx context.Context, idle chan *conn, c *conn, do func(*conn) error) error {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	err := do(c)
	if !stop() || err != nil && !answered(err) || d.closed.Load() {
		c.Close()
		return err
	}
	select {
	case idle <- c:
		if d.closed.Load() { // the directory was closed meanwhile
			d.Close()
		}
	default:
		c.Close()
	}
	return err
}

// connect opens a connection. For searching, it binds as the service account.
func (d *Directory) connect(ctx context.Context, server string, service bool) (*conn, error) {
	l, err := ldap.DialURL(server, ldap.DialWithDialer(&net.Dialer{Timeout: d.timeout}), ldap.DialWithTLSConfig(d.tls))
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	c := &conn{Conn: l, server: server}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	c.SetTimeout(d.timeout)
	if d.cfg.StartTLS && strings.HasPrefix(server, "ldap:") {
		u, _ := url.Parse(server) // NewLDAP has checked it
		t := d.tls.Clone()
		t.ServerName = u.Hostname()
		if err := c.StartTLS(t); err != nil {
			c.Close()
			return nil, fmt.Errorf("StartTLS: %w", err)
		}
	}
	if service && d.cfg.Bind != "" && d.Finds() {
		if err := c.Bind(d.cfg.Bind, d.cfg.Password); err != nil {
			c.Close()
			return nil, fmt.Errorf("bind as the service account %q: %w", d.cfg.Bind, err)
		}
	}
	return c, nil
}

func (d *Directory) ask(c *conn, filter string, most int, attributes ...string) (*ldap.SearchResult, error) {
	res, err := c.Search(ldap.NewSearchRequest(d.cfg.Base, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, most, int(d.timeout/time.Second), false, filter, attributes, nil))
	if ldap.IsErrorWithCode(err, ldap.LDAPResultSizeLimitExceeded) && res != nil {
		return res, nil
	}
	return res, err
}

// pages reads the names of groups page by page. A server may have a limit for all pages together:
// then the further groups are asked for without those that it has named.
func (d *Directory) pages(c *conn, filter string) (*ldap.SearchResult, error) {
	all := new(ldap.SearchResult)
	rest := filter
	for {
		res, err := c.SearchWithPaging(ldap.NewSearchRequest(d.cfg.Base, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, int(d.timeout/time.Second), false, rest, []string{"cn"}, nil), pageSize)
		if res != nil {
			all.Entries = append(all.Entries, res.Entries...)
		}
		if !ldap.IsErrorWithCode(err, ldap.LDAPResultSizeLimitExceeded) || res == nil || len(res.Entries) == 0 || len(all.Entries) > maxGroups {
			return all, err
		}
		if known, knownErr := d.knowsNames(c, filter, res.Entries[0].DN); knownErr != nil || !known {
			return all, err
		}
		var but strings.Builder
		for _, e := range all.Entries {
			but.WriteString("(" + d.nameAttribute() + "=" + ldap.EscapeFilter(e.DN) + ")")
		}
		rest = "(&" + filter + "(!(|" + but.String() + ")))"
	}
}

// nameAttribute returns the attribute that has the DN of an entry, by which one can search.
func (d *Directory) nameAttribute() string {
	if d.cfg.ActiveDirectory {
		return "distinguishedName"
	}
	return "entryDN" // RFC 5020
}

// knowsNames reports whether the server finds an entry by the attribute with its name. One that
// does not would find nothing without it either, and groups would be missing.
func (d *Directory) knowsNames(c *conn, filter, dn string) (bool, error) {
	res, err := d.ask(c, "(&"+filter+"("+d.nameAttribute()+"="+ldap.EscapeFilter(dn)+"))", 1, "1.1")
	if err != nil {
		return false, err
	}
	return len(res.Entries) == 1, nil
}

// errTooMany refuses a user with too many groups, because rules may name any
// group that would be left out.
var errTooMany = fmt.Errorf("the user is in more than %d groups", maxGroups)

// groups queries the directory for the names of all groups of a user, including
// those that contain the user's groups. It is used if there are too many groups
// to cache.
func (d *Directory) groups(c *conn, user *ldap.Entry, name string) (names []string, err error) {
	seen := map[string]bool{}
	members := []string{user.DN}
	add := func(res *ldap.SearchResult) {
		for _, e := range res.Entries {
			if seen[canonical(e.DN)] {
				continue
			}
			seen[canonical(e.DN)] = true
			members = append(members, e.DN)
			if cn := e.GetAttributeValue("cn"); cn != "" {
				names = append(names, cn)
			}
		}
	}
	if sid := primary(user); sid != nil {
		res, err := d.ask(c, "(objectSid="+ldap.EscapeFilter(string(sid))+")", 1, "cn")
		if err != nil {
			return nil, err
		}
		add(res)
	}
	if d.cfg.ActiveDirectory {
		var filter strings.Builder
		for _, m := range members {
			filter.WriteString("(member:1.2.840.113556.1.4.1941:=" + ldap.EscapeFilter(m) + ")")
		}
		res, err := d.pages(c, "(|"+filter.String()+")")
		if err != nil {
			return nil, err
		}
		if add(res); len(names) > maxGroups {
			return nil, errTooMany
		}
		return names, nil
	}
	first := "(memberUid=" + ldap.EscapeFilter(name) + ")"
	for asked := 0; len(members) > 0; asked++ {
		if asked == maxAsked || len(names) > maxGroups {
			return nil, errTooMany
		}
		var filter strings.Builder
		filter.WriteString("(|" + first)
		n := min(len(members), atOnce)
		for _, m := range members[:n] {
			m = ldap.EscapeFilter(m)
			filter.WriteString("(member=" + m + ")(uniqueMember=" + m + ")")
		}
		first, members = "", members[n:]
		res, err := d.pages(c, filter.String()+")")
		if err != nil {
			return nil, err
		}
		add(res)
	}
	return names, nil
}
