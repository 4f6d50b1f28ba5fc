//go:build small

package directory

import (
	"context"

	"shuultuur/release"
)

// A Directory is never made in the small build.
type Directory struct{}

// NewLDAP refuses.
func NewLDAP(LDAP) (*Directory, error) { return nil, release.Lacks("LDAP") }

// NewRADIUS refuses.
func NewRADIUS(RADIUS) (Source, error) { return nil, release.Lacks("RADIUS servers for passwords") }

// Finds mirrors the full build.
func (d *Directory) Finds() bool { return false }

// Verify mirrors the full build.
func (d *Directory) Verify(context.Context, string, string) (string, []string, error) {
	return "", nil, release.Lacks("LDAP")
}

// Find mirrors the full build.
func (d *Directory) Find(context.Context, string) (string, []string, error) {
	return "", nil, release.Lacks("LDAP")
}
