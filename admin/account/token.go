package account

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Token authenticates a program in place of a person's session. It has at
// most the rights of its account.
type Token struct {
	ID      string    `json:"id"`
	Account string    `json:"account"`
	Purpose string    `json:"purpose"`
	Scope   []string  `json:"scope"` // see [checkScope]
	Digest  string    `json:"digest,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// tokenMark begins a token, so that scanners find leaked ones.
const tokenMark = "shuultuur_"

// MaxTokenLife is the longest validity of a token.
const MaxTokenLife = 366 * 24 * time.Hour

var pathScope = regexp.MustCompile(`^(GET|POST|PUT|PATCH|DELETE) /[A-Za-z0-9/._{}-]*$`)

// checkScope: "read" is every GET, "write" everything, "METHOD /path" that
// path and those below it.
func checkScope(scope []string) error {
	if len(scope) == 0 || len(scope) > 50 {
		return errors.New(`a token has 1 to 50 scopes: "read", "write", or a method and path such as "POST /pause"`)
	}
	for _, s := range scope {
		if s != "read" && s != "write" && !pathScope.MatchString(s) {
			return fmt.Errorf(`%q is not a scope: write "read", "write", or a method and path such as "POST /pause"`, s)
		}
	}
	return nil
}

// Covers reports whether a person's token covers a request; a person without one is not
// bound by it.
func (w *Who) Covers(method, path string) bool {
	if w.Via != "token" {
		return true
	}
	for _, s := range w.Scope {
		of, at, has := strings.Cut(s, " ")
		switch {
		case s == "write", s == "read" && (method == "GET" || method == "HEAD"):
			return true
		case has && (of == method || of == "GET" && method == "HEAD") && (path == at || strings.HasPrefix(path, strings.TrimSuffix(at, "/")+"/")):
			return true
		}
	}
	return false
}

// NewToken makes a token and returns it. Only its digest is kept, so it cannot be shown again.
func (b *Book) NewToken(name, purpose string, scope []string, life time.Duration) (secret string, t Token, err error) {
	if err := checkScope(scope); err != nil {
		return "", t, err
	}
	if life <= 0 || life > MaxTokenLife {
		return "", t, fmt.Errorf("a token holds for up to %d days", int(MaxTokenLife.Hours()/24))
	}
	if len(purpose) > 200 {
		return "", t, errors.New("the purpose of a token has up to 200 bytes")
	}
	secret = tokenMark + random(32)
	now := b.now().UTC().Truncate(time.Second)
	t = Token{ID: random(9), Purpose: purpose, Scope: scope, Digest: digest(secret), Created: now, Expires: now.Add(life)}
	err = b.change(func(k *accountFile) error {
		i := k.at(name)
		if i < 0 {
			return fmt.Errorf("%q: %w", name, ErrNone)
		}
		k.Tokens = slices.DeleteFunc(k.Tokens, func(t Token) bool { return !now.Before(t.Expires) })
		if len(k.Tokens) >= maxTokens {
			return fmt.Errorf("there are %d tokens already", maxTokens)
		}
		t.Account = k.Accounts[i].Name
		k.Tokens = append(k.Tokens, t)
		return nil
	})
	if err != nil {
		return "", Token{}, err
	}
	t.Digest = ""
	return secret, t, nil
}

// Tokens returns the tokens of an account, or all for "".
func (b *Book) Tokens(name string) ([]Token, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.read(); err != nil {
		return nil, err
	}
	all := []Token{}
	for _, t := range b.kept.Tokens {
		if name == "" || t.Account == name {
			t.Digest = ""
			all = append(all, t)
		}
	}
	return all, nil
}

// EndToken ends a token of an account, or of any account for "".
func (b *Book) EndToken(id, name string) (ended bool, err error) {
	err = b.change(func(k *accountFile) error {
		n := len(k.Tokens)
		k.Tokens = slices.DeleteFunc(k.Tokens, func(t Token) bool { return t.ID == id && (name == "" || t.Account == name) })
		ended = len(k.Tokens) < n
		return nil
	})
	return ended, err
}

// ByToken returns the user of a token. The key of this machine belongs to an
// owner.
func (b *Book) ByToken(secret string) (who Who, ok bool) {
	if secret == "" || len(secret) > 200 {
		return who, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.read() != nil {
		return who, false
	}
	d := digest(secret)
	if i := slices.IndexFunc(b.kept.Tokens, func(t Token) bool { return t.Digest == d && b.now().Before(t.Expires) }); i >= 0 {
		t := b.kept.Tokens[i]
		if at := b.kept.at(t.Account); at >= 0 {
			a := b.kept.Accounts[at]
			return Who{Name: a.Name, Role: a.Role, Groups: slices.Clone(a.Groups), Via: "token", Scope: slices.Clone(t.Scope)}, true
		}
	}
	if !strings.HasPrefix(secret, tokenMark) {
		if key := LocalKey(filepath.Dir(b.dir)); key != "" && digest(key) == d {
			return Machine(), true
		}
	}
	return who, false
}

// Machine returns the user of this machine, who is an owner.
func Machine() Who { return Who{Name: "this machine", Role: Owner, Via: "machine"} }
