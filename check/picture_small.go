//go:build small

package check

import (
	"context"

	"shuultuur/check/picture"
	"shuultuur/release"
)

// newPicture refuses.
func newPicture(picture.Config, Parts) (pictures, error) {
	return nil, release.Lacks("the check of pictures")
}

// explainAlone says that pictures are not looked at.
func explainAlone(context.Context, []byte) []string {
	return []string{"pictures are not looked at by the small build"}
}
