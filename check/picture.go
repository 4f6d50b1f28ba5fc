//go:build !small

package check

import (
	"context"

	"shuultuur/check/picture"
)

// newPicture makes the check of pictures.
func newPicture(c picture.Config, p Parts) (pictures, error) {
	return picture.New(c, picture.Parts{Memory: p.Memory, Key: p.Key, Trial: p.Trial, Gallery: p.Gallery})
}

// explainAlone says what is seen in a picture without settings.
func explainAlone(ctx context.Context, b []byte) []string {
	return new(picture.Check).Explain(ctx, b)
}
