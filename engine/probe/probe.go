//go:build !small

// Package probe asks the servers that settings name whether they answer: before the settings are
// saved, and without anything being kept. Each question has a limit of time, and an answer in a
// sentence.
package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"shuultuur/admin/alert"
	"shuultuur/admin/mail"
	"shuultuur/check/virus"
	"shuultuur/engine/configuration"
	"shuultuur/identity/directory"
	"shuultuur/lib/dns"
	"shuultuur/lib/postgres"
	"shuultuur/lib/redis"
	"shuultuur/lib/setting"
	"shuultuur/resolver/forward"
	"shuultuur/text"
)

// patience is how long one server may take, and most how many are asked.
const (
	patience = 8 * time.Second
	most     = 10
)

// errNothing reports that the settings name no server there.
var errNothing = errors.New("no server is named there yet")

// Ask asks the servers of a part of the settings. with is what is asked: the address of the mail, the
// name that is looked up. It returns an answer for each server; what failed begins an error.
func Ask(ctx context.Context, s *configuration.Settings, part, with string) (answers []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	switch part {
	case "mail":
		if s.Mail == nil {
			return nil, errNothing
		}
		return askMail(ctx, *s.Mail, with)
	case "alerts":
		if s.Alerts == nil {
			return nil, errNothing
		}
		return askAlerts(ctx, s)
	case "dns.forward":
		if s.DNS == nil {
			return nil, errNothing
		}
		return askUpstreams(ctx, s.DNS.Forward, with)
	case "checks.virus":
		if s.Checks.Virus == nil || len(s.Checks.Virus.Clamd) == 0 {
			return nil, errNothing
		}
		return askScanners(ctx, *s.Checks.Virus)
	case "events":
		return askPostgres(ctx, string(s.Events.Postgres))
	}
	if c := directoryOf(s, part); c != nil {
		return askDirectory(ctx, *c, with)
	}
	if c := redisOf(s, part); c != nil {
		return askRedis(ctx, *c)
	}
	return nil, errNothing
}

func directoryOf(s *configuration.Settings, part string) *directory.LDAP {
	switch {
	case part == "identity.basic.ldap" && s.Identity.Basic != nil:
		return s.Identity.Basic.LDAP
	case part == "identity.kerberos.ldap" && s.Identity.Kerberos != nil:
		return s.Identity.Kerberos.LDAP
	}
	return nil
}

func redisOf(s *configuration.Settings, part string) *redis.Config {
	switch {
	case part == "state.redis" && s.State.Redis != nil:
		return &s.State.Redis.Config
	case part == "votes.redis" && s.Votes != nil:
		return s.Votes.Redis
	case part == "dns.redis" && s.DNS != nil && s.DNS.Redis != nil:
		return &s.DNS.Redis.Redis
	}
	return nil
}

// took writes a time for people.
func took(since time.Time) string {
	d := time.Since(since)
	if d < time.Second {
		return fmt.Sprintf("%d ms", max(d.Milliseconds(), 1))
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

func askMail(ctx context.Context, c mail.Config, to string) ([]string, error) {
	if to == "" {
		to = c.From
	}
	address, err := mail.Address(to)
	if err != nil {
		return nil, err
	}
	sender, err := mail.New(c)
	if err != nil {
		return nil, err
	}
	since := time.Now()
	m := &mail.Message{To: []string{address}, Subject: "Test of the mail settings", Text: "This mail was sent by a press of the button Test in the settings of the web filter. If you read it, mail works.\n"}
	if err := sender.Send(ctx, m); err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("The mail server took the mail to %s in %s. Look into that mailbox.", address, took(since))}, nil
}

// askAlerts sends a test to each of those who are told of alerts.
func askAlerts(ctx context.Context, s *configuration.Settings) ([]string, error) {
	texts, err := text.New("")
	if err != nil {
		return nil, err
	}
	var sender *mail.Sender
	if s.Mail != nil {
		if sender, err = mail.New(*s.Mail); err != nil {
			return nil, setting.At("mail", err)
		}
	}
	return alert.Try(ctx, *s.Alerts, sender, texts.For)
}

// askUpstreams asks each upstream for a name.
func askUpstreams(ctx context.Context, c forward.Config, name string) (answers []string, err error) {
	if name == "" {
		name = "example.com"
	}
	wire, err := dns.Name(strings.TrimSuffix(name, "."))
	if err != nil {
		return nil, fmt.Errorf("%q is not the name of a site", name)
	}
	servers := c.Upstreams
	if len(servers) == 0 {
		servers = setting.OneOrMore[string]{""} // those of the system
	}
	var wrong []error
	for _, server := range servers[:min(len(servers), most)] {
		one := c
		one.Routes, one.Policies, one.Validate = nil, nil, false
		if one.Upstreams = nil; server != "" {
			one.Upstreams = setting.OneOrMore[string]{server}
		}
		since, at, err := time.Now(), server, error(nil)
		func() {
			f, failed := forward.New(one)
			if err = failed; err != nil {
				return
			}
			defer f.Close()
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			var by string
			if _, by, err = f.Exchange(ctx, wire, dns.TypeA, dns.ClassIN, forward.Option{}); at == "" {
				at = by
			}
		}()
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s does not answer: %w", at, err))
			continue
		}
		answers = append(answers, fmt.Sprintf("%s answers for %s in %s.", at, name, took(since)))
	}
	return answers, errors.Join(wrong...)
}

func askScanners(ctx context.Context, c virus.Config) (answers []string, err error) {
	var wrong []error
	for _, at := range slices.Clone(c.Clamd)[:min(len(c.Clamd), most)] {
		one := c
		one.Clamd, one.Hashes = setting.OneOrMore[string]{at}, nil
		since := time.Now()
		name, err := virus.Try(ctx, one, patience)
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Errorf("%s does not answer: %w", at, err))
		case name == "":
			wrong = append(wrong, fmt.Errorf("%s answers, and does not find the test virus EICAR: are its signatures loaded?", at))
		default:
			answers = append(answers, fmt.Sprintf("%s finds the test virus EICAR (%s) in %s.", at, name, took(since)))
		}
	}
	return answers, errors.Join(wrong...)
}

func askRedis(ctx context.Context, c redis.Config) ([]string, error) {
	if len(c.Addresses) == 0 {
		return nil, errNothing
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	since := time.Now()
	client, err := redis.Connect(ctx, c, redis.Options{})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var b redis.Batch
	b.Add("EXISTS", c.Prefix+"test")
	if err := client.Do(ctx, &b); err != nil {
		return nil, err
	}
	if err := b.Reply(0).Err(); err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("%s answers in %s.", "Redis", took(since))}, nil
}

func askPostgres(ctx context.Context, url string) ([]string, error) {
	if url == "" {
		return nil, errNothing
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	since := time.Now()
	db, err := postgres.Open(url, patience, nil)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	var may bool
	if err := db.QueryRowContext(ctx, "SELECT has_schema_privilege(current_schema(), 'CREATE')").Scan(&may); err != nil {
		return nil, err
	}
	if !may {
		return nil, errors.New("PostgreSQL answers, and this user may not make tables there: grant CREATE on the schema")
	}
	return []string{fmt.Sprintf("%s answers in %s.", "PostgreSQL", took(since))}, nil
}

// askDirectory binds, and looks for a person.
func askDirectory(ctx context.Context, c directory.LDAP, name string) ([]string, error) {
	if name == "" {
		return nil, errors.New("write the name of a person that the directory has")
	}
	d, err := directory.NewLDAP(c)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if !d.Finds() {
		return nil, errors.New("people bind as themselves here, so that only a sign-in can try it")
	}
	since := time.Now()
	found, err := d.Find(ctx, name)
	if errors.Is(err, directory.ErrRefused) {
		return nil, fmt.Errorf("the directory answers, and has nobody named %q below %q", name, c.Base)
	}
	if err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("The directory has %s, with %d groups, in %s.", found.User, len(found.Groups), took(since))}, nil
}
