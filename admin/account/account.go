// Package account keeps the accounts of the people who may use the admin address,
// and the log of their actions.
//
// A [Book] keeps accounts, tokens and sessions in its own folder below the data
// folder. A request with a password, a session or a token becomes a [Who], whose
// role the admin address compares with that of the route. Secrets are stored as
// digests: Argon2id for passwords, which people choose, and SHA-256 for random
// ones.
//
// The command line can change accounts while a gateway runs: both take the same
// lock to write, and read a changed file again. A [Log] of actions is beside them,
// chained by digests and separate from the record of events.
package account

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/lib/atomicfile"
	"shuultuur/lib/platform"
	"shuultuur/lib/tries"
)

// A Role determines what an account may do.
type Role uint8

// Roles. An owner may do everything. An operator may do everything except manage accounts, read
// the audit log and see a person's data. A safeguarding lead looks into browsing and alerts. A
// helper, such as a teacher, looks after certain groups. A viewer reads.
const (
	None Role = iota
	Viewer
	Helper
	Lead
	Operator
	Owner
)

var roleNames = [...]string{"none", "viewer", "helper", "safeguarding-lead", "operator", "owner"}

// Roles are the possible roles of an account, least first.
var Roles = []Role{Viewer, Helper, Lead, Operator, Owner}

func (r Role) String() string { return roleNames[int(r)%len(roleNames)] }

// MarshalText implements [encoding.TextMarshaler].
func (r Role) MarshalText() ([]byte, error) {
	if r == None {
		return nil, nil
	}
	return []byte(r.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *Role) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*r = None
		return nil
	}
	i := slices.Index(roleNames[1:], strings.ReplaceAll(strings.TrimSpace(string(b)), " ", "-"))
	if i < 0 {
		return fmt.Errorf("%q is not a role: write %s", b, strings.Join(roleNames[1:], ", "))
	}
	*r = Role(i + 1)
	return nil
}

// An Account is a person who signs in.
type Account struct {
	Name     string    `json:"name"`
	Role     Role      `json:"role"`
	Groups   []string  `json:"groups,omitempty"`   // groups that a helper looks after
	Password string    `json:"password,omitempty"` // hash; "" for none
	TOTP     string    `json:"totp,omitempty"`     // secret in base32; "" for none
	Step     uint64    `json:"step,omitempty"`     // the last one-time password used
	Recovery []string  `json:"recovery,omitempty"` // digests of codes that replace a one-time password once
	Passkeys []Passkey `json:"passkeys,omitempty"`
	Handle   string    `json:"handle"`            // identifies the account to passkeys
	Subject  string    `json:"subject,omitempty"` // identifies the user at an OpenID provider: ISSUER SUBJECT; "" for none
	Stamp    string    `json:"stamp"`             // sessions with another value have ended
	Created  time.Time `json:"created"`
}

// A Who is an authenticated person.
type Who struct {
	Name    string   `json:"name"`
	Role    Role     `json:"role"`
	Groups  []string `json:"groups,omitempty"`
	Via     string   `json:"via"` // session, token, settings (its token), machine
	Session string   `json:"session,omitempty"`
	Scope   []string `json:"scope,omitempty"` // scope of a token
}

// Limits of a book.
const (
	maxAccounts = 10_000
	maxTokens   = 1000
	maxName     = 64
	maxGroups   = 100
)

// These are mistakes that a person can make.
var (
	ErrWrong   = errors.New("the name, the password or the code is wrong")
	ErrCode    = errors.New("the password is right; this account needs a one-time code as well")
	ErrNone    = errors.New("there is no account of that name")
	ErrExists  = errors.New("there is an account of that name")
	ErrLast    = errors.New("this is the last owner: nobody could add another")
	ErrTooMany = errors.New("too many wrong passwords for this account; wait some minutes")
)

// An accountFile is the content of the file of accounts.
type accountFile struct {
	Accounts []Account `json:"accounts"`
	Tokens   []Token   `json:"tokens,omitempty"`
	// Invitations are open, or have expired.
	Invitations []Invitation `json:"invitations,omitempty"`
}

// A Book keeps accounts, tokens and sessions. It is safe for concurrent use by many goroutines.
// Several processes may change accounts and tokens; sessions belong to the gateway.
type Book struct {
	dir   string
	rules func() Rules
	now   func() time.Time

	mu      sync.Mutex
	seen    fs.FileInfo // stamp of the file that was read; nil if none was, or if it must be read again
	kept    accountFile
	session sessions
	wrong   *tries.Limit[string] // by account
	pending map[string]string
	asked   map[string]challenge
	removed []removed // the latest, for a while
}

// Rules are the settings for sessions.
type Rules struct {
	Idle  time.Duration // a session ends after it was not used for this long
	Total time.Duration // a session ends after this long
}

// DefaultRules apply if the settings have none.
var DefaultRules = Rules{Idle: 30 * time.Minute, Total: 12 * time.Hour}

// Folder returns the folder of accounts below a data folder.
func Folder(data string) string { return filepath.Join(data, "accounts") }

// Open reads the book in a folder, which need not exist yet.
func Open(dir string, rules func() Rules) (*Book, error) {
	if rules == nil {
		rules = func() Rules { return DefaultRules }
	}
	b := &Book{dir: dir, rules: rules, now: time.Now, pending: map[string]string{}, asked: map[string]challenge{}}
	b.wrong = &tries.Limit[string]{Most: maxWrong, Within: wrongTime, Remember: maxGuessed, Now: func() time.Time { return b.now() }}
	if err := b.read(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(b.lastFile()); b.seen != nil && errors.Is(err, fs.ErrNotExist) { // of an older program
		if err := b.keepLast(b.kept); err != nil {
			return nil, err
		}
	}
	if b.seen != nil {
		if err := localKey(b.dir); err != nil {
			return nil, err
		}
		giveToOwner(b.dir, localKeyFile)
	}
	return b, b.readSessions()
}

func (b *Book) file() string { return filepath.Join(b.dir, "accounts.json") }

// lastFile is a copy of the accounts, for when their file is damaged.
func (b *Book) lastFile() string { return b.file() + ".last" }

func (b *Book) keepLast(k accountFile) error {
	data, err := json.MarshalIndent(k, "", "\t")
	if err == nil {
		err = atomicfile.WriteBytes(b.lastFile(), 0o600, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keeping a copy of accounts: %w", err)
	}
	giveToOwner(b.dir, filepath.Base(b.lastFile()))
	return nil
}

// load reads the accounts. Without any, this machine would be an owner, so there are none only if the
// copy says so, too.
func (b *Book) load() (accountFile, fs.FileInfo, error) {
	k, info, err := loadFile(b.file())
	if err == nil && len(k.Accounts) == 0 {
		if last, _, err := loadFile(b.lastFile()); err == nil && len(last.Accounts) > 0 {
			return k, info, &damagedError{b.file(), errors.New("it has no accounts")}
		}
	}
	return k, info, err
}

func loadFile(file string) (k accountFile, info fs.FileInfo, err error) {
	if info, err = os.Stat(file); err != nil {
		return k, nil, err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return k, nil, err
	}
	if err = json.Unmarshal(data, &k); err != nil {
		return accountFile{}, nil, &damagedError{file, err}
	}
	return k, info, nil
}

// A damagedError reports a file of accounts that was read and is none.
type damagedError struct {
	file string
	err  error
}

func (e *damagedError) Error() string { return fmt.Sprintf("%q is damaged: %v", e.file, e.err) }
func (e *damagedError) Unwrap() error { return e.err }

// restore sets a damaged file aside and puts the copy in its place. The lock of the folder is held, so
// that no other process does.
func (b *Book) restore() error {
	_, _, err := b.load()
	if damage := (*damagedError)(nil); !errors.As(err, &damage) {
		return err // it is there again
	}
	last, _, failed := loadFile(b.lastFile())
	if failed != nil {
		return fmt.Errorf("%w; restore it from a backup, or delete it to begin without accounts", err)
	}
	data, err := json.MarshalIndent(last, "", "\t")
	if err == nil {
		err = atomicfile.SetAside(b.file())
	}
	if err == nil {
		err = atomicfile.WriteBytes(b.file(), 0o600, append(data, '\n'))
	}
	giveToOwner(b.dir, "accounts.json")
	return err
}

// readLocked is read while the lock of the folder is held.
func (b *Book) readLocked() error {
	k, info, err := b.load()
	if damage := (*damagedError)(nil); errors.As(err, &damage) {
		if err = b.restore(); err == nil {
			k, info, err = b.load()
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading accounts: %w", err)
	}
	b.kept, b.seen = k, info
	return nil
}

// read reads the accounts if their file has changed; mu is held or b is new.
func (b *Book) read() error {
	info, err := os.Stat(b.file())
	if err == nil && b.seen != nil && os.SameFile(info, b.seen) && info.ModTime().Equal(b.seen.ModTime()) && info.Size() == b.seen.Size() {
		return nil
	}
	k, info, err := b.load()
	if damage := (*damagedError)(nil); errors.As(err, &damage) {
		unlock, err := platform.LockPath(filepath.Join(b.dir, "lock"), 0o600)
		if err != nil {
			return err
		}
		defer unlock()
		return b.readLocked()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading accounts: %w", err)
	}
	b.kept, b.seen = k, info
	return nil
}

// change calls f to change the accounts and stores the result.
func (b *Book) change(f func(*accountFile) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changeHeld(f)
}

func (b *Book) changeHeld(f func(*accountFile) error) error {
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return err
	}
	unlock, err := platform.LockPath(filepath.Join(b.dir, "lock"), 0o600)
	if err != nil {
		return err
	}
	defer unlock()
	if err := b.readLocked(); err != nil {
		return err
	}
	next := accountFile{Tokens: slices.Clone(b.kept.Tokens), Invitations: slices.Clone(b.kept.Invitations)}
	for _, a := range b.kept.Accounts {
		a.Groups, a.Recovery, a.Passkeys = slices.Clone(a.Groups), slices.Clone(a.Recovery), slices.Clone(a.Passkeys)
		next.Accounts = append(next.Accounts, a)
	}
	if err := f(&next); err != nil {
		return err
	}
	data, err := json.MarshalIndent(next, "", "\t")
	if err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(b.file(), 0o600, append(data, '\n')); err != nil {
		return fmt.Errorf("keeping accounts: %w", err)
	}
	if err := b.keepLast(next); err != nil {
		return err
	}
	if err := localKey(b.dir); err != nil {
		return err
	}
	giveToOwner(b.dir, "", "accounts.json", "lock", localKeyFile)
	return b.readLocked()
}

// giveToOwner gives files in a folder to the owner of the parent folder, because root may run the
// command line while the gateway runs as another user.
func giveToOwner(dir string, names ...string) {
	if os.Geteuid() != 0 {
		return
	}
	above, err := os.Stat(filepath.Dir(dir))
	if err != nil {
		return
	}
	user, group, ok := platform.Owner(above)
	if !ok {
		return
	}
	for _, n := range names {
		_ = os.Lchown(filepath.Join(dir, n), user, group) // if it fails, the gateway reports that it cannot read the file
	}
}

// at returns the index of an account, or -1 if there is none.
func (k *accountFile) at(name string) int {
	return slices.IndexFunc(k.Accounts, func(a Account) bool { return strings.EqualFold(a.Name, name) })
}

func (k *accountFile) owners() (n int) {
	for _, a := range k.Accounts {
		if a.Role == Owner {
			n++
		}
	}
	return n
}

// Any reports whether there are accounts.
func (b *Book) Any() (bool, error) {
	if b == nil {
		return false, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.read()
	return len(b.kept.Accounts) > 0, err
}

// All returns all accounts in the order of their names, without secrets.
func (b *Book) All() ([]Account, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.read(); err != nil {
		return nil, err
	}
	all := make([]Account, 0, len(b.kept.Accounts))
	for _, a := range b.kept.Accounts {
		all = append(all, a.open())
	}
	slices.SortStableFunc(all, func(a, b Account) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// open returns an account without its secrets, but with a sign which of them it has.
func (a Account) open() Account {
	if a.Password != "" {
		a.Password = "set"
	}
	if a.TOTP != "" {
		a.TOTP = "set"
	}
	keys := make([]Passkey, len(a.Passkeys))
	for i, p := range a.Passkeys {
		keys[i] = Passkey{ID: p.ID, Name: p.Name, Created: p.Created}
	}
	a.Recovery, a.Stamp, a.Handle, a.Step, a.Passkeys = nil, "", "", 0, keys
	return a
}

// One returns an account without its secrets.
func (b *Book) One(name string) (Account, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.read(); err != nil {
		return Account{}, err
	}
	if i := b.kept.at(name); i >= 0 {
		return b.kept.Accounts[i].open(), nil
	}
	return Account{}, ErrNone
}

// CheckName returns why a name cannot be that of an account, or nil.
func CheckName(name string) error {
	if name == "" || len(name) > maxName || strings.TrimSpace(name) != name || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == ':' || r == '/' }) {
		return fmt.Errorf("%q cannot be the name of an account: write 1 to %d bytes without colons, slashes and control characters", name, maxName)
	}
	return nil
}

// check returns what is wrong with an account's role and groups, or nil.
func (a *Account) check() error {
	if err := CheckName(a.Name); err != nil {
		return err
	}
	if a.Role == None || int(a.Role) >= len(roleNames) {
		return fmt.Errorf("the account %q has no role", a.Name)
	}
	if a.Role == Helper && len(a.Groups) == 0 {
		return fmt.Errorf("the helper %q looks after no group: name the groups", a.Name)
	}
	if a.Role != Helper && len(a.Groups) > 0 {
		return fmt.Errorf("groups are for helpers; %q is to be %s", a.Name, a.Role)
	}
	if len(a.Groups) > maxGroups || slices.Contains(a.Groups, "") {
		return fmt.Errorf("the groups of %q: name 1 to %d", a.Name, maxGroups)
	}
	return nil
}

// Add makes an account. Without a password, its user can only sign in with passkeys and other
// services.
func (b *Book) Add(name string, role Role, groups []string, password string) error {
	a := Account{Name: name, Role: role, Groups: groups, Handle: random(32), Stamp: random(12), Created: b.now().UTC().Truncate(time.Second)}
	if err := a.check(); err != nil {
		return err
	}
	if password != "" {
		var err error
		if a.Password, err = hash(name, password); err != nil {
			return err
		}
	}
	return b.change(func(k *accountFile) error {
		if k.at(name) >= 0 {
			return fmt.Errorf("%q: %w", name, ErrExists)
		}
		if len(k.Accounts) >= maxAccounts {
			return fmt.Errorf("there are %d accounts already", maxAccounts)
		}
		if len(k.Accounts) == 0 && role != Owner {
			return errors.New("the first account is an owner's: nobody else could add more")
		}
		k.Accounts = append(k.Accounts, a)
		return nil
	})
}

// Edit changes the role and the groups of an account, and ends its sessions.
func (b *Book) Edit(name string, role Role, groups []string) error {
	return b.edit(name, func(k *accountFile, a *Account) error {
		if a.Role == Owner && role != Owner && k.owners() == 1 {
			return ErrLast
		}
		a.Role, a.Groups, a.Stamp = role, groups, random(12)
		return a.check()
	})
}

// Remove removes an account with its tokens and sessions.
func (b *Book) Remove(name string) error {
	return b.change(func(k *accountFile) error {
		i := k.at(name)
		if i < 0 {
			return fmt.Errorf("%q: %w", name, ErrNone)
		}
		gone := removed{account: k.Accounts[i], at: b.now()}
		for _, t := range k.Tokens {
			if t.Account == gone.account.Name {
				gone.tokens = append(gone.tokens, t)
			}
		}
		if err := k.remove(i); err != nil {
			return err
		}
		b.removed = append(b.removed[max(0, len(b.removed)-9):], gone)
		return nil
	})
}

func (k *accountFile) remove(i int) error {
	if k.Accounts[i].Role == Owner && k.owners() == 1 && len(k.Accounts) > 1 {
		return ErrLast
	}
	gone := k.Accounts[i].Name
	k.Accounts = slices.Delete(k.Accounts, i, i+1)
	k.Tokens = slices.DeleteFunc(k.Tokens, func(t Token) bool { return t.Account == gone })
	return nil
}

// SetPassword gives an account a new password and ends its sessions.
func (b *Book) SetPassword(name, password string) error {
	h, err := hash(name, password)
	if err != nil {
		return err
	}
	return b.edit(name, func(_ *accountFile, a *Account) error {
		a.Password, a.Stamp = h, random(12)
		return nil
	})
}

// RenameGroup gives a group another name in all accounts and invitations. Their sessions go on.
func (b *Book) RenameGroup(from, to string) error {
	return b.change(func(k *accountFile) error {
		for i := range k.Accounts {
			k.Accounts[i].Groups = renamedIn(k.Accounts[i].Groups, from, to)
		}
		for i := range k.Invitations {
			k.Invitations[i].Groups = renamedIn(k.Invitations[i].Groups, from, to)
		}
		return nil
	})
}

// renamedIn returns names of which one is another.
func renamedIn(names []string, from, to string) (all []string) {
	for _, n := range names {
		if n == from {
			n = to
		}
		if !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

func (b *Book) edit(name string, f func(*accountFile, *Account) error) error {
	return b.change(func(k *accountFile) error {
		i := k.at(name)
		if i < 0 {
			return fmt.Errorf("%q: %w", name, ErrNone)
		}
		return f(k, &k.Accounts[i])
	})
}

// random returns n random bytes as text.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// digest returns the form in which a random secret is stored.
func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// localKeyFile holds the key that programs on this machine present if they may
// read the data folder.
const localKeyFile = "local.key"

// localKey creates the key of this machine if it does not exist, or is damaged.
func localKey(dir string) error {
	name, key := filepath.Join(dir, localKeyFile), []byte(random(32)+"\n")
	if info, err := os.Stat(name); err == nil && info.Size() != int64(len(key)) {
		if err := atomicfile.SetAside(name); err != nil {
			return err
		}
	}
	err := atomicfile.CreateBytes(name, 0o600, key)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("keeping the key of this machine: %w", err)
	}
	return nil
}

// LocalKey returns the key of this machine, or "" if it does not exist or
// others can read it.
func LocalKey(data string) string {
	text, err := os.ReadFile(filepath.Join(Folder(data), localKeyFile))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
