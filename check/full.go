//go:build !small

package check

import (
	"context"
	"errors"

	"shuultuur/check/icap"
	"shuultuur/check/picture"
	"shuultuur/check/signature"
	"shuultuur/check/signature/engine"
	"shuultuur/check/signature/rule"
	"shuultuur/check/virus"
	"shuultuur/filter"
	"shuultuur/setting"
)

// Categories of problems with signature rules.
type (
	Mistake       = rule.Error
	Profile       = engine.Profile
	BufferProfile = engine.BufferProfile
)

// newSignature makes the check of signature rules.
func newSignature(c signature.Config, p Parts) (Signatures, error) {
	for name := range c.Sources {
		if p.Lists[name] != nil {
			return nil, setting.At("sources", setting.At(name, errors.New("a list has this name; give the rules another one, as both are fetched into one folder")))
		}
	}
	return signature.New(c, signature.Parts{Previous: p.Previous.signatures(), Now: p.Now, Data: p.Data})
}

// signatures returns the check of signature rules, nil if there is none.
func (s *Set) signatures() *signature.Check {
	if s == nil {
		return nil
	}
	k, _ := s.Signature.(*signature.Check)
	return k
}

// newVirus makes the check that queries virus scanners.
func newVirus(c virus.Config, p Parts) (filter.Check, error) { return virus.New(c, p.Memory) }

// newICAP makes the check that queries ICAP servers.
func newICAP(c icap.Config) (filter.Check, error) { return icap.New(c) }

// newPicture makes the check of pictures.
func newPicture(c picture.Config, p Parts) (pictures, error) {
	return picture.New(c, picture.Parts{Memory: p.Memory, Key: p.Key, Trial: p.Trial, Gallery: p.Gallery})
}

// explainAlone describes a picture without any settings.
func explainAlone(ctx context.Context, b []byte) []string {
	return new(picture.Check).Explain(ctx, b)
}
