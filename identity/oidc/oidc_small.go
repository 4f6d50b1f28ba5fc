//go:build small

package oidc

import (
	"context"
	"net/url"
	"time"

	"shuultuur/release"
)

// A Provider is never made in the small build.
type Provider struct{}

// A Device is the sign-in of a device that cannot show the provider's page.
type Device struct {
	Code, At, Whole string
	Until           time.Time
}

// New refuses.
func New(Config, []byte) (*Provider, error) { return nil, release.Lacks("OpenID") }

// The methods mirror those of the full build.

func (p *Provider) Close() {}

func (p *Provider) Host() string { return "" }

func (p *Provider) Begin(context.Context, string, string) (string, Login, error) {
	return "", Login{}, release.Lacks("OpenID")
}

func (p *Provider) Seal(Login) (string, error) { return "", release.Lacks("OpenID") }

func (p *Provider) Open(string) (Login, error) { return Login{}, release.Lacks("OpenID") }

func (p *Provider) Finish(context.Context, Login, url.Values) (*User, error) {
	return nil, release.Lacks("OpenID")
}

type member struct{}

// Renew refuses.
func (w *User) Renew(context.Context) (*User, error) { return nil, release.Lacks("OpenID") }

func (p *Provider) BeginDevice(context.Context) (*Device, error) {
	return nil, release.Lacks("OpenID")
}

func (p *Provider) FinishDevice(context.Context, *Device) (*User, error) {
	return nil, release.Lacks("OpenID")
}
