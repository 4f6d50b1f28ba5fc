//go:build small

package check

import (
	"context"

	"shuultuur/check/icap"
	"shuultuur/check/picture"
	"shuultuur/check/signature"
	"shuultuur/check/virus"
	"shuultuur/filter"
	"shuultuur/release"
)

// Types of the check of signature rules.
type (
	Mistake struct{ error }
	Profile struct {
		Over     int64
		Disabled bool
	}
	BufferProfile struct{}
)

// The small build lacks the following checks.

func newSignature(signature.Config, Parts) (Signatures, error) {
	return nil, release.Lacks("signature rules")
}

func newVirus(virus.Config, Parts) (filter.Check, error) {
	return nil, release.Lacks("the check by virus scanners")
}

func newICAP(icap.Config) (filter.Check, error) {
	return nil, release.Lacks("the check by ICAP servers")
}

func newPicture(picture.Config, Parts) (pictures, error) {
	return nil, release.Lacks("the check of pictures")
}

// explainAlone returns that the small build does not inspect pictures.
func explainAlone(context.Context, []byte) []string {
	return []string{"the small build does not inspect pictures"}
}
