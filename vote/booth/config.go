// Package booth connects the parts that accept, count and decide votes, as configured.
//
// Data moves through it as follows. The [vote.Server] accepts votes from its own
// addresses and from the proxy and writes them to the log in the data folder. A
// [vote.Drain] moves them on to the database, to another node or to a stream in Redis or
// NATS. The node that counts also moves votes from the stream into its own log.
package booth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/redis"
	"shuultuur/lib/setting"
	"shuultuur/text"
	"shuultuur/vote"
)

// Config sets how votes are accepted, counted and decided.
type Config struct {
	// Listen are addresses of the API for votes, plain and, with TLS, encrypted on
	// the same port. Default none: votes come through the proxy only.
	Listen setting.OneOrMore[setting.Address] `yaml:"listen" role:"owner"`
	TLS    *KeyPair                           `yaml:"tls" role:"owner"`
	// Store is where votes are counted: a file, relative to the data folder, or
	// the URL of a PostgreSQL database; default votes.db. A node that forwards
	// has none.
	Store string `yaml:"store" role:"owner" secret:"url"`
	// Forward is the URL of the node that counts, or redis or nats. Default none: this node
	// counts.
	Forward string `yaml:"forward" role:"owner" secret:"url"`
	// NATS is the URL of a server with JetStream that carries votes from the nodes
	// that have forward: nats to the one that counts. Default none.
	NATS string `yaml:"nats" role:"owner" secret:"url"`
	// Redis carries votes from the nodes that have forward: redis to the one that
	// counts. Default none.
	Redis *redis.Config `yaml:"redis" role:"owner"`
	// Secret is shared by the nodes that forward votes to one another; at least 16
	// bytes. Default none: no node may forward here.
	Secret string `yaml:"secret" role:"owner" secret:"yes"`
	// Node is the name of this node in votes; default the host name.
	Node string `yaml:"node"`
	// Limit bounds the votes of one user, or of one address if there is no user;
	// default 60/1h.
	Limit Limit `yaml:"limit"`
	// Login lets only users vote who have logged in.
	Login bool `yaml:"login"`
	// Keep is how long votes are kept in the database; default 90d, at least 1d.
	Keep setting.Duration `yaml:"keep"`
	// List receives the names that are blocked for everyone and for good. Default
	// none.
	List string `yaml:"list"`
	// Automatic are rules that decide votes without a person. Default none.
	Automatic []Automatic `yaml:"automatic"`
	Mail      *Mail       `yaml:"mail" role:"owner"` // default none: the answer appears only on the page of the vote
}

// A KeyPair names a certificate and its key, both PEM.
type KeyPair struct {
	Cert setting.File `yaml:"cert"`
	Key  setting.File `yaml:"key"`
}

// A Limit is a rate, or off.
type Limit struct {
	vote.Rate
	off bool
}

// UnmarshalText reads a rate like "60/1h", or off.
func (l *Limit) UnmarshalText(text []byte) error {
	if string(text) == "off" {
		*l = Limit{off: true}
		return nil
	}
	n, in, ok := strings.Cut(string(text), "/")
	most, err := strconv.ParseInt(n, 10, 64)
	var d setting.Duration
	if !ok || err != nil || most < 1 || most > 1<<40 || d.UnmarshalText([]byte(in)) != nil || d.Or(0) < time.Second || d.Or(0) > 31*24*time.Hour {
		return fmt.Errorf(`%q is not a rate; write how many in what time, of a second to 31 days, like "60/1h", or off`, text)
	}
	*l = Limit{Rate: vote.Rate{Most: most, In: d.Or(0)}}
	return nil
}

// MarshalText writes the form that UnmarshalText reads.
func (l Limit) MarshalText() ([]byte, error) {
	if l.off {
		return []byte("off"), nil
	}
	return fmt.Appendf(nil, "%d/%v", l.Most, setting.Duration(l.In)), nil
}

// IsZero reports whether nothing is set.
func (l Limit) IsZero() bool { return l == Limit{} }

func (l Limit) or(def vote.Rate) vote.Rate {
	if l.IsZero() {
		return def
	}
	return l.Rate
}

// Automatic is a rule that decides votes without a person.
type Automatic struct {
	Vote   string                    `yaml:"vote"`                  // wrong (default) or dangerous
	Votes  int                       `yaml:"votes"`                 // the number of different people who must vote
	Groups setting.OneOrMore[string] `yaml:"groups" names:"people"` // their groups; default any
	Within setting.Duration          `yaml:"within"`                // the period in which they vote; default 1h
	For    setting.Duration          `yaml:"for"`                   // how long the decision holds; default 1d, off is for good
	Who    string                    `yaml:"who" names:"people"`    // whom it is for: an address, network, user or group; default everyone
}

// Mail sets how answers are sent to voters who have left an address.
type Mail struct {
	Server string `yaml:"server"` // host and port of a mail server
	From   string `yaml:"from"`   // address of the sender
}

var defaultLimit = vote.Rate{Most: 60, In: time.Hour}

const (
	leastSecret = 16
	defaultKeep = 90 * 24 * time.Hour
	leastKeep   = 24 * time.Hour // a repeated vote is recognised for at least this long
)

// Values of forward for which Redis or NATS carries the votes.
const (
	viaRedis = "redis"
	viaNATS  = "nats"
)

// Check returns the first mistake, without connecting to anything.
func (c *Config) Check() error {
	var errs []error
	if c.Forward != "" && c.Store != "" {
		errs = append(errs, setting.At("store", errors.New("a node that forwards its votes does not count them; leave this out")))
	}
	switch u, err := url.Parse(c.Forward); {
	case c.Forward == "":
	case c.Forward == viaRedis:
		if c.Redis == nil {
			errs = append(errs, setting.At("redis", errors.New("say which Redis carries the votes")))
		}
	case c.Forward == viaNATS:
		if c.NATS == "" {
			errs = append(errs, setting.At("nats", errors.New("say which server carries the votes")))
		}
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "":
		errs = append(errs, setting.At("forward", fmt.Errorf(`%q is neither "redis", "nats" nor a URL like "https://votes.example:8443"`, c.Forward)))
	case c.Secret == "":
		errs = append(errs, setting.At("secret", errors.New("nodes that forward votes need the secret of the node that counts")))
	}
	if c.Redis != nil && c.NATS != "" {
		errs = append(errs, setting.At("nats", errors.New("Redis carries the votes already; leave one out")))
	}
	if c.Redis != nil {
		errs = append(errs, setting.At("redis", c.Redis.Check()))
	}
	if _, err := certificate(c.TLS); err != nil {
		errs = append(errs, setting.At("tls", err))
	}
	if err := checkStore(c.Store); err != nil {
		errs = append(errs, setting.At("store", err))
	}
	if u, err := url.Parse(c.NATS); err != nil || c.NATS != "" && (u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme)) {
		errs = append(errs, setting.At("nats", fmt.Errorf(`%q is not a server of NATS; write it like "nats://nats.example:4222"`, c.NATS)))
	}
	if n := len(c.Secret); n > 0 && n < leastSecret {
		errs = append(errs, setting.At("secret", fmt.Errorf("%d bytes are too few to be safe; write %d or more", n, leastSecret)))
	}
	if k := c.Keep.Or(defaultKeep); k != 0 && k < leastKeep {
		errs = append(errs, setting.At("keep", fmt.Errorf("%v is too short: a vote that is sent again within a day counts once", c.Keep)))
	}
	for n, a := range c.Automatic {
		if _, err := a.rule(); err != nil {
			errs = append(errs, setting.At(fmt.Sprintf("automatic[%d]", n), err))
		}
	}
	if c.Mail != nil && (c.Mail.Server == "" || c.Mail.From == "") {
		errs = append(errs, setting.At("mail", errors.New("answers by mail need server and from")))
	}
	return errors.Join(errs...)
}

func (a *Automatic) rule() (r vote.AutomaticRule, err error) {
	if r.Kind, err = vote.ParseKind(a.Vote); err != nil {
		return r, setting.At("vote", err)
	}
	if a.Votes < 1 {
		return r, setting.At("votes", fmt.Errorf("%d is not a number of people; write 1 or more", a.Votes))
	}
	r.Votes, r.Groups, r.Who = a.Votes, a.Groups, a.Who
	if r.Within = a.Within.Or(time.Hour); r.Within <= 0 {
		return r, setting.At("within", errors.New("say within which time"))
	}
	r.For = a.For.Or(24 * time.Hour)
	return r, nil
}

// Parts are the parts that a booth needs besides its settings.
type Parts struct {
	Data string // folder of data files
	Key  []byte // signs tokens; the same on all nodes
	// Apply carries out a decision, or withdraws one that has ended.
	Apply func(ctx context.Context, d *vote.Decision) error
	// Who identifies a client by its address and the field Authorization.
	Who   func(addr, authorization string) vote.Voter
	Texts text.Choice // for pages and mails
	// Contact is whom people ask, for pages; nil if nobody is named.
	Contact func() string
	// Asked is told of each request to open that was counted and waits for an answer; nil: nobody is.
	Asked func(v *vote.Vote)
	Log   *slog.Logger
}

// Voter returns a client as a voter.
func Voter(c filter.Client) vote.Voter {
	v := vote.Voter{User: c.User, Groups: c.Groups}
	if c.Addr != (netip.Addr{}) {
		v.Addr = c.Addr.Unmap().String()
	}
	return v
}
