package oidc

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"golang.org/x/oauth2"
)

// This file asks for groups that are too many for a token. Microsoft Entra names at most 200 in a
// token, and otherwise says where they are (OpenID Connect Core 1.0, 5.6.2: distributed claims). The
// place that it names belongs to an interface that is switched off, so the settings say which one
// is asked.

// elsewhere reports whether a token says that the groups are too many for it.
func (p *Provider) elsewhere(claims map[string]any) bool {
	claim := cmp.Or(p.cfg.Groups, "groups")
	names, _ := claims["_claim_names"].(map[string]any)
	_, named := names[claim]
	return named || claim == "groups" && (claims["hasgroups"] == true || claims["hasgroups"] == "true")
}

// checkGroupsFrom returns an error if the access token must not be sent to an address.
func checkGroupsFrom(at string) error {
	if at == "" {
		return nil
	}
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return fmt.Errorf("%.200q is not an address, such as https://graph.microsoft.com/v1.0/me/getMemberObjects", at)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return fmt.Errorf("%q: the address gets people's tokens, so on another machine it has to speak https", at)
	}
	return nil
}

// fetchGroups asks for all groups of the person to whom a token belongs.
func (p *Provider) fetchGroups(ctx context.Context, token *oauth2.Token) ([]string, error) {
	const step = "ask for the groups at groups-from"
	const advice = "let this client ask for them: at Entra with the permission GroupMember.Read.All, and with User.Read in scopes"
	if p.cfg.GroupsFrom == "" {
		return nil, failed("read the groups", "set groups-from, or have it send only the groups that are assigned to this application", errors.New("the user is in more groups than the provider puts into a token"))
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, p.cfg.GroupsFrom, bytes.NewReader([]byte(`{"securityEnabledOnly":false}`)))
	if err != nil {
		return nil, failed(step, "", err)
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json")
	token.SetAuthHeader(q)
	res, err := p.client.Do(q)
	if err != nil {
		return nil, failed(step, "", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(res.Body, 300))
		return nil, failed(step, advice, fmt.Errorf("status %d: %q", res.StatusCode, said))
	}
	var answer struct {
		Value []any  `json:"value"`
		Next  string `json:"@odata.nextLink"`
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return nil, failed(step, advice, err)
	}
	switch {
	case answer.Value == nil:
		return nil, failed(step, advice, errors.New("the answer has no list called value"))
	case answer.Next != "" || len(answer.Value) > maxGroups:
		return nil, failed(step, "", fmt.Errorf("the user is in more than %d groups", maxGroups))
	}
	return groups(answer.Value), nil
}
