package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/accounts"
	"shuultuur/admin/lists"
	"shuultuur/admin/system"
	"shuultuur/admin/web"
	"shuultuur/lib/setting"
	"shuultuur/list"
)

// These are how long a client waits for something that a gateway fetches, reads or judges.
const (
	maxWait   = 10 * time.Minute
	maxBackup = 256 << 20
)

// Lists returns the lists in use.
func (c Client) Lists(ctx context.Context) (all []lists.List, err error) {
	err = c.ask(ctx, http.MethodGet, "/lists", "", &all)
	return all, err
}

// SearchLists returns the entries of all lists for a host or URL.
func (c Client) SearchLists(ctx context.Context, name string) (hits []lists.Hit, err error) {
	err = c.ask(ctx, http.MethodGet, "/lists?"+url.Values{"q": {name}}.Encode(), "", &hits)
	return hits, err
}

// List returns one list, with its odd lines if odd is set.
func (c Client) List(ctx context.Context, name string, odd bool) (*lists.ListState, error) {
	path := "/lists/" + url.PathEscape(name)
	if odd {
		path += "?odd=yes"
	}
	var l lists.ListState
	err := c.askFor(ctx, http.MethodGet, path, "", 2*lists.OddTime, &l)
	return &l, err
}

// Fetch makes the gateway fetch a newer version of a list, or with back return to the previous
// one. taken reports whether another version is in use afterwards.
func (c Client) Fetch(ctx context.Context, name string, back bool) (l *lists.ListState, taken bool, err error) {
	before, err := c.List(ctx, name, false)
	if err != nil {
		return nil, false, err
	}
	what := map[bool]string{false: "fetch", true: "back"}[back]
	l = new(lists.ListState)
	err = c.askFor(ctx, http.MethodPost, "/lists/"+url.PathEscape(name)+"/source", url.Values{"what": {what}}.Encode(), maxWait, l)
	return l, err == nil && !l.Fetched.Equal(before.Fetched), err
}

// ChangeList makes changes to a list, all or none.
func (c Client) ChangeList(ctx context.Context, name string, changes []list.Change) error {
	type line struct {
		Entry    string `json:"entry"`
		Category string `json:"category,omitempty"`
		Remove   bool   `json:"remove,omitempty"`
	}
	all := make([]line, len(changes))
	for i, x := range changes {
		all[i] = line{x.Entry, x.Category, x.Remove}
	}
	body, err := json.Marshal(all)
	if err != nil {
		return err
	}
	_, _, err = c.send(ctx, clientRequest{method: http.MethodPost, path: "/lists/" + url.PathEscape(name), body: string(body), kind: "application/json"}, maxWait, maxAnswer)
	return err
}

// Settings returns the text of the settings, and its ETag.
func (c Client) Settings(ctx context.Context) (text []byte, tag string, err error) {
	text, head, err := c.send(ctx, clientRequest{method: http.MethodGet, path: "/settings"}, time.Minute, web.MaxSettings)
	if err != nil {
		return nil, "", err
	}
	return text, head.Get("ETag"), nil
}

// A SaveResult is the result of saving settings.
type SaveResult struct {
	Effect  *web.Effect `json:"effect"`
	Note    string      `json:"note"` // why the effect is unknown
	Remarks []string    `json:"remarks"`
}

// SaveSettings replaces the settings that have the tag. With an empty tag it only returns
// the effect. Mistakes are [setting.Mistakes].
func (c Client) SaveSettings(ctx context.Context, text []byte, tag, reason string) (*SaveResult, error) {
	q := url.Values{"reason": {reason}}
	if tag == "" {
		q.Set("dry_run", "true")
	}
	data, _, err := c.send(ctx, clientRequest{method: http.MethodPut, path: "/settings?" + q.Encode(), body: string(text), kind: "application/yaml", match: tag}, maxWait, maxAnswer)
	var no *refusal
	if errors.As(err, &no) && no.status == http.StatusUnprocessableEntity {
		var said struct{ Mistakes setting.Mistakes }
		if json.Unmarshal(no.body, &said) == nil && len(said.Mistakes) > 0 {
			return nil, said.Mistakes
		}
	}
	if err != nil {
		return nil, err
	}
	var s SaveResult
	return &s, json.Unmarshal(data, &s)
}

// Restore has the gateway restore a backup, and start again with it. does says what it does.
func (c Client) Restore(ctx context.Context, backup []byte, address string) (does []string, err error) {
	path := "/system/restore?" + url.Values{"address": {address}}.Encode()
	data, _, err := c.send(ctx, clientRequest{method: http.MethodPost, path: path, body: string(backup), kind: "application/gzip"}, maxWait, maxAnswer)
	if err != nil {
		return nil, err
	}
	var said system.Restored
	err = json.Unmarshal(data, &said)
	return said.Does, err
}

// Health returns the state of the gateway.
func (c Client) Health(ctx context.Context) (h system.Health, err error) {
	err = c.ask(ctx, http.MethodGet, "/health", "", &h)
	return h, err
}

// Backup writes a backup of the gateway to w.
func (c Client) Backup(ctx context.Context, w io.Writer) error {
	data, _, err := c.send(ctx, clientRequest{method: http.MethodGet, path: "/system/backup"}, maxWait, maxBackup)
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

// An AccountClient manages the accounts of another gateway, which records the
// changes.
type AccountClient struct {
	Client
	Context context.Context
}

func (c AccountClient) post(path string, form url.Values) error {
	_, _, err := c.send(c.Context, clientRequest{method: http.MethodPost, path: path, body: form.Encode()}, time.Minute, maxAnswer)
	return err
}

// Add adds an account.
func (c AccountClient) Add(name string, role account.Role, groups []string, password string) error {
	return c.post("/accounts", url.Values{"name": {name}, "role": {role.String()}, "groups": groups, "password": {password}})
}

// Edit changes role and groups.
func (c AccountClient) Edit(name string, role account.Role, groups []string) error {
	return c.post("/accounts/edit", url.Values{"name": {name}, "role": {role.String()}, "groups": groups})
}

// SetPassword sets a password.
func (c AccountClient) SetPassword(name, password string) error {
	return c.post("/accounts/password", url.Values{"name": {name}, "password": {password}})
}

// EndTOTP ends one-time codes.
func (c AccountClient) EndTOTP(name string) error {
	return c.post("/accounts/totp/end", url.Values{"name": {name}})
}

// Remove removes an account.
func (c AccountClient) Remove(name string) error {
	return c.post("/accounts/remove", url.Values{"name": {name}})
}

// All returns the accounts.
func (c AccountClient) All() (all []account.Account, err error) {
	err = c.ask(c.Context, http.MethodGet, "/accounts", "", &all)
	return all, err
}

// Tokens returns the tokens of an account.
func (c AccountClient) Tokens(name string) (of []account.Token, err error) {
	var all []account.Token
	err = c.ask(c.Context, http.MethodGet, "/accounts/tokens", "", &all)
	for _, t := range all {
		if t.Account == name {
			of = append(of, t)
		}
	}
	return of, err
}

// EndToken ends a token of an account.
func (c AccountClient) EndToken(id, name string) (bool, error) {
	all, err := c.Tokens(name)
	if err != nil {
		return false, err
	}
	for _, t := range all {
		if t.ID == id {
			return true, c.post("/accounts/tokens/end", url.Values{"id": {id}})
		}
	}
	return false, nil
}

// Entries returns entries of the audit log, newest first.
func (c AccountClient) Entries(_ int64, most int) (all []account.Entry, err error) {
	path := "/audit"
	for len(all) < most {
		var some []account.Entry
		if err := c.ask(c.Context, http.MethodGet, path, "", &some); err != nil {
			return nil, err
		}
		all = append(all, some...)
		if len(some) < accounts.AuditPerPage {
			break
		}
		path = "/audit?" + url.Values{"before": {strconv.FormatInt(some[len(some)-1].Seq, 10)}}.Encode()
	}
	return all[:min(len(all), most)], nil
}

// Verify verifies the chain of the audit log.
func (c AccountClient) Verify() (v account.Verification, err error) {
	err = c.askFor(c.Context, http.MethodGet, "/audit/verify", "", maxWait, &v)
	return v, err
}
