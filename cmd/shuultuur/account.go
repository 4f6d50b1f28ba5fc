package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"strings"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/remote"
	"shuultuur/cmd/shuultuur/terminal"
	"shuultuur/engine/configuration"
	"shuultuur/lib/datadir"
	"shuultuur/lib/setting"
)

const accountHelp = `
Accounts are for the pages and the API of the admin address. The first is an
owner's; from then on everybody signs in, on this machine too. The commands here
work beside a running gateway and without one, by the data folder; with -at they
ask another gateway.`

func accountCommands() []command {
	return []command{
		{name: "add", args: "[-role ROLE] [-groups GROUPS] NAME", what: "add an account; the password comes from standard input", run: accountAdd},
		{name: "edit", args: "-role ROLE [-groups GROUPS] NAME", what: "change the role and the groups of an account, and end its sessions", run: accountEdit},
		{name: "list", args: "", what: "list accounts", run: accountList},
		{name: "password", args: "NAME", what: "set a password and end the sessions; -reset removes one-time codes too", run: accountPassword},
		{name: "remove", args: "NAME", what: "remove an account with its tokens and sessions", run: accountRemove},
		{name: "token", args: "-scope SCOPES [-for TIME] NAME", what: "make a token for a program and print it, this once", run: accountToken},
		{name: "audit", args: "[-n N]", what: "check the chain of the audit log; with -n print its newest entries", run: accountAudit},
	}
}

func accountCommand(ctx context.Context, e env, args []string) int {
	return group(ctx, e, "account", accountHelp, accountCommands(), args)
}

// A book has the accounts of the data folder, or of the gateway given by -at.
type book interface {
	Add(name string, role account.Role, groups []string, password string) error
	Edit(name string, role account.Role, groups []string) error
	SetPassword(name, password string) error
	EndTOTP(name string) error
	Remove(name string) error
	All() ([]account.Account, error)
	Tokens(name string) ([]account.Token, error)
	EndToken(id, name string) (bool, error)
	NewToken(name, purpose string, scope []string, life time.Duration) (string, account.Token, error)
}

// bookThere has the accounts of the gateway given by -at.
type bookThere struct{ remote.AccountClient }

// NewToken refuses: a program must not create another token for itself.
func (b bookThere) NewToken(string, string, []string, time.Duration) (string, account.Token, error) {
	return "", account.Token{}, errors.New("an account makes its own tokens: sign in at " + b.URL + "/account")
}

// An auditLog is the log of actions on accounts.
type auditLog interface {
	Entries(before int64, most int) ([]account.Entry, error)
	Verify() (account.Verification, error)
}

// accounts opens the accounts of the settings, or of the gateway given by -at, and their
// audit log.
func accounts(ctx context.Context, e env, config string) (book, auditLog, error) {
	if e.at != nil {
		c, err := e.gateway(config)
		there := bookThere{remote.AccountClient{Client: c, Context: ctx}}
		return there, there, err
	}
	s, err := configuration.Read(askedFile(config))
	if err != nil {
		return nil, nil, err
	}
	if err := datadir.Check(string(s.Data)); err != nil {
		return nil, nil, err
	}
	dir := account.Folder(string(s.Data))
	b, err := account.Open(dir, nil)
	return b, account.NewLog(dir), err
}

// audited records a change of accounts, and makes it by do. Another gateway records it
// itself.
func audited(e env, log auditLog, action, details string, do func() error) int {
	by := "this machine"
	if u, err := user.Current(); err == nil {
		by = u.Username + " on this machine"
	}
	entry := account.Entry{By: by, Role: account.Owner, Via: "command", Action: "shuultuur account " + action, Details: details}
	own, ok := log.(*account.Log)
	if ok {
		if err := own.Add(entry); err != nil {
			return fail(e, fmt.Errorf("nothing is changed while it cannot be recorded: %w", err))
		}
	}
	if err := do(); err != nil {
		if ok {
			entry.Details = "not done: " + err.Error()
			err = errors.Join(err, own.Add(entry))
		}
		return fail(e, err)
	}
	return 0
}

// separated returns the words of s, which commas separate.
func separated(s string) (all []string) {
	for w := range strings.SplitSeq(s, ",") {
		if w = strings.TrimSpace(w); w != "" {
			all = append(all, w)
		}
	}
	return all
}

func accountAdd(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "account add", "[-role ROLE] [-groups GROUPS] NAME", `
Adds an account. Its password is read from standard input: ten characters or
more. Roles are owner, operator, safeguarding-lead, helper (of GROUPS) and viewer.`)
	config := f.String("config", "", "settings `file` of the gateway")
	role := f.String("role", "owner", "`role` of the account")
	groups := f.String("groups", "", "`groups` that a helper looks after, with commas between them")
	without := f.Bool("no-password", false, "for an account that signs in through another service only")
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	return withRole(ctx, e, *config, *role, func(b book, log auditLog, r account.Role) int {
		var password []byte
		if !*without {
			var err error
			if password, err = readPassword(e); err != nil {
				return fail(e, err)
			}
		}
		return audited(e, log, "add", f.Arg(0)+" "+r.String()+" "+*groups, func() error {
			return b.Add(f.Arg(0), r, separated(*groups), string(password))
		})
	})
}

func withRole(ctx context.Context, e env, config, role string, do func(book, auditLog, account.Role) int) int {
	var r account.Role
	if err := r.UnmarshalText([]byte(role)); err != nil {
		return fail(e, err)
	}
	b, log, err := accounts(ctx, e, config)
	if err != nil {
		return fail(e, err)
	}
	return do(b, log, r)
}

func accountEdit(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "account edit", "-role ROLE [-groups GROUPS] NAME", `
Changes the role and the groups of an account, and ends its sessions.`)
	config := f.String("config", "", "settings `file` of the gateway")
	role := f.String("role", "", "`role` of the account")
	groups := f.String("groups", "", "`groups` that a helper looks after, with commas between them")
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	return withRole(ctx, e, *config, *role, func(b book, log auditLog, r account.Role) int {
		return audited(e, log, "edit", f.Arg(0)+" "+r.String()+" "+*groups, func() error { return b.Edit(f.Arg(0), r, separated(*groups)) })
	})
}

func accountList(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "account list", "[-json]", `
Lists accounts, with their roles and how they sign in.`)
	asJSON := f.Bool("json", false, "print JSON")
	config := f.String("config", "", "settings `file` of the gateway")
	if status := parse(args, 0, 0); status >= 0 {
		return status
	}
	b, _, err := accounts(ctx, e, *config)
	if err != nil {
		return fail(e, err)
	}
	all, err := b.All()
	if err != nil {
		return fail(e, err)
	}
	if *asJSON {
		return printJSON(e, terminal.Accounts(all))
	}
	for _, a := range terminal.Accounts(all) {
		fmt.Fprintln(e.stdout, a.Line())
	}
	if len(all) == 0 {
		fmt.Fprintln(e.stdout, "there are no accounts: this machine and listen.token may do everything")
	}
	return 0
}

func accountPassword(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "account password", "[-reset] NAME", `
Reads a password from standard input, sets it, and ends the sessions of the
account.`)
	config := f.String("config", "", "settings `file` of the gateway")
	reset := f.Bool("reset", false, "remove one-time codes too: somebody has lost their authenticator")
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	b, log, err := accounts(ctx, e, *config)
	if err != nil {
		return fail(e, err)
	}
	password, err := readPassword(e)
	if err != nil {
		return fail(e, err)
	}
	return audited(e, log, "password", f.Arg(0), func() error {
		err := b.SetPassword(f.Arg(0), string(password))
		if err == nil && *reset {
			err = b.EndTOTP(f.Arg(0))
		}
		return err
	})
}

func accountRemove(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "account remove", "NAME", `
Removes an account with its tokens and sessions. The last one may go: then this
machine and listen.token may do everything again.`)
	config := f.String("config", "", "settings `file` of the gateway")
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	b, log, err := accounts(ctx, e, *config)
	if err != nil {
		return fail(e, err)
	}
	return audited(e, log, "remove", f.Arg(0), func() error { return b.Remove(f.Arg(0)) })
}

func accountToken(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "account token", "-scope SCOPES [-for TIME] [-purpose TEXT] NAME", `
Makes a token for a program, which then may do what its scopes and the role of
the account NAME allow, and prints it. Scopes, with commas between them, are
read, write, or a method and path such as "POST /pause". With -list it lists
tokens, with -end ID it ends one.`)
	config := f.String("config", "", "settings `file` of the gateway")
	scope := f.String("scope", "read", "`scopes` of the token")
	purpose := f.String("purpose", "", "what the token is for, as `text`")
	life := f.String("for", "90d", "how `long` the token is valid, at most 366d")
	list := f.Bool("list", false, "list the tokens of the account")
	end := f.String("end", "", "end the token with this `identifier`")
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	b, log, err := accounts(ctx, e, *config)
	if err != nil {
		return fail(e, err)
	}
	name := f.Arg(0)
	switch {
	case *list:
		all, err := b.Tokens(name)
		if err != nil {
			return fail(e, err)
		}
		for _, t := range all {
			fmt.Fprintf(e.stdout, "%s\t%s\t%s\tuntil %s\n", t.ID, strings.Join(t.Scope, ", "), printable(t.Purpose), t.Expires.Local().Format(time.DateTime))
		}
		return 0
	case *end != "":
		return audited(e, log, "token", "end "+*end+" of "+name, func() error {
			ok, err := b.EndToken(*end, name)
			if err == nil && !ok {
				err = fmt.Errorf("%q has no token %q; -list lists them", name, *end)
			}
			return err
		})
	}
	var d setting.Duration
	if err := d.UnmarshalText([]byte(*life)); err != nil {
		return fail(e, errors.Join(fmt.Errorf("-for %q", *life), err))
	}
	return audited(e, log, "token", name+" "+*scope, func() error {
		secret, _, err := b.NewToken(name, *purpose, separated(*scope), d.Or(0))
		if err == nil {
			fmt.Fprintln(e.stdout, secret)
		}
		return err
	})
}

func accountAudit(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "account audit", "[-n N]", `
Reads the whole audit log and says whether anything in it was changed, left out,
put in or cut off; the status is 1 if so. With -n it prints the newest entries.`)
	config := f.String("config", "", "settings `file` of the gateway")
	n := f.Int("n", 0, "print so many of the newest entries, at most 1000")
	if status := parse(args, 0, 0); status >= 0 {
		return status
	}
	_, log, err := accounts(ctx, e, *config)
	if err != nil {
		return fail(e, err)
	}
	if *n > 0 {
		all, err := log.Entries(0, min(*n, 1000))
		if err != nil {
			return fail(e, err)
		}
		for _, x := range all {
			fmt.Fprintf(e.stdout, "%d %s %s (%s) %s %s %d %s\n", x.Seq, x.Time.Local().Format(time.DateTime), printable(x.By), x.Role, x.From, printable(x.Action), x.Status, printable(x.Details))
		}
	}
	v, err := log.Verify()
	switch {
	case err != nil:
		return fail(e, err)
	case v.Broken != "":
		return fail(e, fmt.Errorf("the chain of the audit log is broken: %s", v.Broken))
	}
	fmt.Fprintf(e.stdout, "%d entries, and the chain holds; the details of %d were erased\n", v.Entries, v.Erased)
	return 0
}
