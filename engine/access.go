package engine

import (
	"context"

	"shuultuur/admin"
)

func newAccess(_ context.Context, b *builder) (*admin.Rules, error) {
	return b.Settings.Access.Rules(b.Data.Key)
}
