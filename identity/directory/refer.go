package directory

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-ldap/ldap/v3"

	"shuultuur/lib/setting"
)

// Limits of referrals (RFC 4511, 4.1.10).
const (
	maxReferrals = 8  // that are followed from one answer
	maxHops      = 3  // from one directory to the next
	maxReferred  = 16 // directories that are kept open for referrals
)

// partitions are parts of Active Directory that each search of a domain refers
// to and that contain no people.
var partitions = []string{"dc=domaindnszones,", "dc=forestdnszones,", "cn=configuration,", "cn=schema,"}

// referrals returns the referrals in an answer to places that may have people.
func referrals(res *ldap.SearchResult, err error) (all []string) {
	if res != nil {
		all = res.Referrals
	}
	if e, ok := errors.AsType[*ldap.Error](err); ok && e.ResultCode == ldap.LDAPResultReferral && e.Packet != nil && len(e.Packet.Children) > 1 {
		for _, child := range e.Packet.Children[1].Children {
			if child.Tag != 3 {
				continue // [3] of LDAPResult is the referral
			}
			for _, u := range child.Children {
				if s, ok := u.Value.(string); ok {
					all = append(all, s)
				} else if u.Data != nil {
					all = append(all, u.Data.String())
				}
			}
		}
	}
	return slices.DeleteFunc(all, func(to string) bool {
		to = strings.ToLower(to)
		return slices.ContainsFunc(partitions, func(p string) bool { return strings.Contains(to, "/"+p) })
	})
}

// A referredError reports that another directory may know the user.
type referredError struct{ to []string }

func (e *referredError) Error() string {
	return "the directory refers to " + strings.Join(e.to, ", ")
}

// refer returns the directory that a referral points to. It uses TLS if this
// one does, and the same service account.
func (d *Directory) refer(to string) (*Directory, error) {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "ldap" && u.Scheme != "ldaps" || u.Host == "" {
		return nil, fmt.Errorf("referral to %.200q: it is not the URL of a directory", to)
	}
	secure := d.cfg.StartTLS
	for _, s := range d.cfg.Servers {
		secure = secure || strings.HasPrefix(s, "ldaps:")
	}
	cfg := d.cfg
	cfg.Servers = setting.OneOrMore[string]{u.Scheme + "://" + u.Host}
	cfg.StartTLS = secure && u.Scheme == "ldap"
	if base := strings.TrimPrefix(u.Path, "/"); base != "" {
		cfg.Base = base
	}
	key := cfg.Servers[0] + "/" + strings.ToLower(cfg.Base)
	d.referring.Lock()
	defer d.referring.Unlock()
	if at := d.referred[key]; at != nil {
		return at, nil
	}
	if len(d.referred) >= maxReferred || d.closed.Load() {
		return nil, fmt.Errorf("referral to %.200q: %d others are known already", to, len(d.referred))
	}
	at, err := NewLDAP(cfg)
	if err != nil {
		return nil, fmt.Errorf("referral to %.200q: %w", to, err)
	}
	if d.referred == nil {
		d.referred = map[string]*Directory{}
	}
	d.referred[key] = at
	return at, nil
}

// follow looks for a user in the directories that this one refers to.
func (d *Directory) follow(ctx context.Context, name string, to []string, hops int) (e person, err error) {
	var errs []error
	for n, s := range to {
		if n >= maxReferrals || hops >= maxHops {
			errs = append(errs, fmt.Errorf("referral to %.200q: too many", s))
			break
		}
		at, err := d.refer(s)
		if err == nil {
			if e, err = at.findFrom(ctx, name, hops+1); err == nil {
				return e, nil
			}
			err = fmt.Errorf("referral to %.200q: %w", s, err)
		}
		if !errors.Is(err, ErrRefused) {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return e, errors.Join(errs...)
	}
	return e, &Refusal{Why: NoEntry}
}

// A person is a user in a directory.
type person struct {
	entry *ldap.Entry
	user  string
	at    *Directory // the directory that verifies the password
}

// findFrom returns the entry of a user, from this directory or one that it
// refers to.
func (d *Directory) findFrom(ctx context.Context, name string, hops int) (person, error) {
	e := person{at: d}
	var err error
	e.entry, e.user, err = d.find(ctx, name)
	if r, ok := errors.AsType[*referredError](err); ok {
		return d.follow(ctx, name, r.to, hops)
	}
	return e, err
}

// closeReferred closes the directories that referrals have opened.
func (d *Directory) closeReferred() {
	d.referring.Lock()
	defer d.referring.Unlock()
	for _, at := range d.referred {
		at.Close()
	}
}
